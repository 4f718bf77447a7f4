import { GuiderailError, bytesOf, tokenList, unsigned } from "./errors.js";
import { Handle, KEY, made } from "./handle.js";
import { Program } from "./program.js";
import { Vocabulary } from "./vocabulary.js";
import { wasm } from "./wasm.js";

const NO_WAY = 0xffffffff;

/** A program with a vocabulary, shared by the matchers of any number of texts. */
export class Guide extends Handle {
  #vocabulary;
  /**
   * @param {Program} program
   * @param {Vocabulary} vocabulary
   * @param {{maxMemory?: number, prepare?: number}} [options] bytes that caches of earlier texts may take (0: no
   *   limit); masks to make at once, if the texts are JSON
   */
  constructor(program, vocabulary, options = {}) {
    const core = wasm();
    const of = Handle.at(program, Program, "the program");
    const over = Handle.at(vocabulary, Vocabulary, "the vocabulary");
    const most = unsigned(options?.maxMemory ?? 128 * 2 ** 20, "maxMemory");
    const masks = unsigned(options?.prepare ?? 8, "prepare");
    const given = new Uint8Array(Uint32Array.of(12, most, masks).buffer); // gr_guide_options
    const at = core.with(given, (place) => made((out) => core.call("gr_guide_new", of, over, place, out)));
    super(KEY, "gr_guide_free", at);
    this.#vocabulary = vocabulary;
  }
  get vocabulary() {
    return this.#vocabulary;
  }
  /** Memory that the guide takes, in bytes. */
  get memorySize() {
    return wasm().exports.gr_guide_memory(Handle.at(this, Guide, "the guide")) >>> 0;
  }
  /** A matcher at the start of a text. */
  matcher(options) {
    return new Matcher(this, options);
  }
}

/** The state of one text. */
export class Matcher extends Handle {
  #guide;
  #words;
  /**
   * @param {Guide} guide
   * @param {{stopTokenIds?: Iterable<number>}} [options] the tokens that end this text, other than the vocabulary's
   */
  constructor(guide, options = {}) {
    if (guide === KEY) {
      super(KEY, "gr_matcher_free", options.at);
      this.#guide = options.of.#guide;
      this.#words = options.of.#words;
      return;
    }
    const core = wasm();
    const of = Handle.at(guide, Guide, "the guide");
    const stops = options?.stopTokenIds;
    const at =
      stops === undefined
        ? made((out) => core.call("gr_matcher_new", of, out))
        : withTokens(stops, "stopTokenIds", (list, count) =>
            made((out) => core.call("gr_matcher_new_with_stops", of, list, count, out)),
          );
    super(KEY, "gr_matcher_free", at);
    this.#guide = guide;
    this.#words = guide.vocabulary.bitmaskWords;
  }
  get guide() {
    return this.#guide;
  }
  #at() {
    return Handle.at(this, Matcher, "the matcher");
  }
  #flag(name) {
    const core = wasm();
    core.call(name, this.#at(), core.answer);
    return core.flag();
  }

  /** An independent copy at the same place. Costs next to nothing. */
  fork() {
    const core = wasm();
    const from = this.#at();
    return new Matcher(KEY, { at: made((out) => core.call("gr_matcher_fork", from, out)), of: this });
  }

  /**
   * Writes the mask of the tokens that may come next: bit t % 32 of word t / 32 is 1 if token t may.
   *
   * @param {Int32Array | Uint32Array} bitmask one row, or several; see allocateTokenBitmask
   * @param {number} [row]
   * @param {{maxTokens?: number}} [options] excludes tokens after which the text needs
   *   more than `maxTokens - 1` others, not counting a stop token
   * @returns {boolean} whether some token is not allowed; otherwise there is nothing to apply
   */
  fillNextTokenBitmask(bitmask, row = 0, options = undefined) {
    const at = this.#at();
    const words = this.#words;
    const from = rowOf(bitmask, row, words);
    const core = wasm();
    const place = roomFor(core, words);
    if (options?.maxTokens === undefined)
      core.call("gr_matcher_fill_bitmask", at, place, words, core.answer);
    else
      core.call(
        "gr_matcher_fill_bitmask_within",
        at,
        BigInt(unsigned(options.maxTokens, "maxTokens")),
        place,
        words,
        core.answer,
      );
    const all = core.words();
    bitmask.set(all.subarray(place >>> 2, (place >>> 2) + words), from);
    return core.flag();
  }
  /** The same mask, as a new row. */
  nextTokenBitmask() {
    const bitmask = new Int32Array(this.#words);
    this.fillNextTokenBitmask(bitmask);
    return bitmask;
  }

  /** Reads a token. Returns false, and changes nothing, if it is not allowed. A stop token ends the text. */
  acceptToken(token) {
    const core = wasm();
    core.call("gr_matcher_accept_token", this.#at(), unsigned(token, "token"), core.answer);
    return core.flag();
  }
  /** Reads text or bytes, whatever their tokens. Returns false, and changes nothing, if no match can continue so. */
  acceptString(text) {
    const bytes = bytesOf(text, "the text");
    const core = wasm();
    const at = this.#at();
    core.with(bytes, (from) => core.call("gr_matcher_accept_bytes", at, from, bytes.length, core.answer));
    return core.flag();
  }
  /** The number of these tokens that could be accepted in turn. */
  validateTokens(tokens) {
    const core = wasm();
    const at = this.#at();
    withTokens(tokens, "tokens", (list, count) => core.call("gr_matcher_validate", at, list, count, core.answer));
    return core.number();
  }
  /** Undoes the last steps: tokens, and calls of acceptString. */
  rollback(steps = 1) {
    wasm().call("gr_matcher_rollback", this.#at(), unsigned(steps, "steps"));
  }
  /** Returns to the start of a text. */
  reset() {
    wasm().call("gr_matcher_reset", this.#at());
  }
  /** The bytes that must come next. */
  forcedBytes(limit = 65536) {
    return wasm().bytesFrom("gr_matcher_forced_bytes", this.#at(), unsigned(limit, "limit"));
  }
  /** The only text that can come next, as whole characters, up to where it may end; "" if there is a choice. */
  findJumpForwardString() {
    const bytes = this.forcedBytes();
    return new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes.subarray(0, wholeCharacters(bytes)));
  }
  /** The tokens that must come next, while only one is allowed, including a stop token. */
  forcedTokens(limit = 1024) {
    const core = wasm();
    const at = this.#at();
    const room = Math.min(unsigned(limit, "limit"), 16384);
    core.call("gr_matcher_forced_tokens", at, core.scratch, room, core.answer);
    const from = core.scratch >>> 2;
    return Array.from(core.words().subarray(from, from + core.number()));
  }
  /** Whether the text may end here. */
  isAccepting() {
    return this.#flag("gr_matcher_is_accepting");
  }
  /** Whether only a stop token can follow. */
  isComplete() {
    return this.#flag("gr_matcher_is_complete");
  }
  /** Whether a stop token was accepted. */
  isTerminated() {
    return this.#flag("gr_matcher_is_terminated");
  }
  /** The number of steps that can be undone. */
  get stepCount() {
    const core = wasm();
    core.call("gr_matcher_step_count", this.#at(), core.answer);
    return core.number();
  }
  /** The fewest tokens known to complete the text, without a stop token; Infinity: no completion was found. */
  leastTokens() {
    const core = wasm();
    core.call("gr_matcher_least_tokens", this.#at(), core.answer);
    const count = core.number();
    return count === NO_WAY ? Infinity : count;
  }
  /** The rest of the constraint, in readable form. */
  dump() {
    return new TextDecoder().decode(wasm().bytesFrom("gr_matcher_dump", this.#at()));
  }
}

function withTokens(tokens, what, f) {
  const list = tokenList(tokens, what);
  return wasm().with(new Uint8Array(list.buffer), (at) => f(at, list.length));
}

// Memory for one row in the module; more for large vocabularies.
function roomFor(core, words) {
  if (4 * words <= 65536) return core.scratch;
  if ((core.rowWords ?? 0) < words) {
    const fresh = core.allocate(4 * words);
    core.release(core.row ?? 0);
    core.row = fresh;
    core.rowWords = words;
  }
  return core.row;
}

function rowOf(bitmask, row, words) {
  if (!(bitmask instanceof Int32Array || bitmask instanceof Uint32Array))
    throw new GuiderailError("bitmask-type", "a bitmask is an Int32Array or a Uint32Array; see allocateTokenBitmask");
  const from = unsigned(row, "row") * words;
  if (from + words > bitmask.length)
    throw new GuiderailError(
      "bitmask-shape",
      `row ${row} needs words ${from} to ${from + words - 1}, but the bitmask has ${bitmask.length}`,
    );
  return from;
}

// The number of bytes before an incomplete character.
function wholeCharacters(bytes) {
  let start = bytes.length;
  for (let back = 1; back <= Math.min(4, bytes.length); back++) {
    const byte = bytes[bytes.length - back];
    if ((byte & 0xc0) === 0x80) continue;
    const needed = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    if (needed > back) start = bytes.length - back;
    break;
  }
  return start;
}
