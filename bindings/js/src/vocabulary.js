import { GuiderailError, bytesOf, tokenList, unsigned } from "./errors.js";
import { Handle, KEY, made } from "./handle.js";
import { Joined, readTokenizer } from "./tokenizer.js";
import { wasm } from "./wasm.js";

const PARTS = 10;  // words of gr_vocabulary_parts
const encoder = new TextEncoder();

/** The tokens of a model: their bytes, the special ones, those that end a text. */
export class Vocabulary extends Handle {
  constructor(key, at) {
    super(key, "gr_vocabulary_free", at);
  }

  /**
   * @param {Iterable<Uint8Array | string | null>} tokens the bytes of each token, in the order of the ids; null: a hole
   * @param {{specialTokens?: Record<string, number> | Iterable<number>, stopTokenIds: number | Iterable<number>,
   *   size?: number}} options `size`: the width of the logits, if they are wider than the tokens
   */
  static fromTokens(tokens, options = {}) {
    if (tokens === null || typeof tokens !== "object" || typeof tokens[Symbol.iterator] !== "function")
      throw new GuiderailError("argument", "tokens must be a list of Uint8Array");
    const pieces = [];
    for (const token of tokens)
      pieces.push(token === null || token === undefined ? null : bytesOf(token, `token ${pieces.length}`));
    const out = new Joined(pieces.length);
    for (const piece of pieces) {
      if (piece === null) out.end();
      else out.add(piece);
    }
    return Vocabulary.#fromParts({ ...out.parts(), ...named(options) });
  }

  /**
   * Reads a Hugging Face `tokenizer.json`: byte-level BPE, SentencePiece, and all others that decode token by token.
   *
   * @param {string | Uint8Array | object} json its text, or the result of JSON.parse
   * @param {{tokenizerConfig?: object | string, generationConfig?: object | string, config?: object | string,
   *   stopTokenIds?: number | Iterable<number>, size?: number}} options the files beside it, which name the tokens that
   *   end a text and the width of the logits; or these values
   */
  static fromTokenizerJson(json, options = {}) {
    return Vocabulary.#fromParts(readTokenizer(json, options ?? {}));
  }

  /** Reads a file written by `Vocabulary.save` of the Python package. */
  static fromFile(file) {
    const bytes = bytesOf(file, "the file");
    const core = wasm();
    const at = core.with(bytes, (from) => made((out) => core.call("gr_vocabulary_read", from, bytes.length, out)));
    return new Vocabulary(KEY, at);
  }

  static #fromParts({ bytes, lengths, special, stops, size }) {
    const core = wasm();
    const names = special.map(([text]) => (text === null ? null : encoder.encode(`${text}\0`)));
    const sizes = [bytes.length, 4 * lengths.length, 4 * special.length, 4 * special.length, 4 * stops.length];
    for (const name of names) sizes.push(name?.length ?? 0);
    const places = [];
    let end = 4 * PARTS;
    for (const one of sizes) {
      places.push(end);
      end += (one + 3) & ~3;
    }
    const block = core.allocate(end);
    try {
      const words = core.words();
      const put = (place, list) => words.set(list, (block + place) >>> 2);
      core.bytes().set(bytes, block + places[0]);
      put(places[1], lengths);
      put(places[2], special.map(([, id]) => id));
      put(places[3], names.map((name, i) => (name === null ? 0 : block + places[5 + i])));
      put(places[4], stops);
      names.forEach((name, i) => name !== null && core.bytes().set(name, block + places[5 + i]));
      const parts = [4 * PARTS, block + places[0], block + places[1], lengths.length, block + places[2]];
      parts.push(block + places[3], special.length, block + places[4], stops.length, size);
      put(0, parts);
      const at = made((out) => core.call("gr_vocabulary_new", block, out));
      return new Vocabulary(KEY, at);
    } finally {
      core.release(block);
    }
  }

  /** The width of logits and masks, in tokens. */
  get size() {
    return wasm().exports.gr_vocabulary_size(Handle.at(this, Vocabulary, "the vocabulary")) >>> 0;
  }
  /** The number of 32-token words in a row of a bitmask. */
  get bitmaskWords() {
    return wasm().exports.gr_vocabulary_bitmask_words(Handle.at(this, Vocabulary, "the vocabulary")) >>> 0;
  }
  /** The tokens that end a text, in ascending order. */
  get stopTokenIds() {
    const core = wasm();
    const at = Handle.at(this, Vocabulary, "the vocabulary");
    core.call("gr_vocabulary_stop_tokens", at, core.answer, core.answer + 4);
    const from = core.number(0) >>> 2;
    return Array.from(core.words().subarray(from, from + core.number(1)));
  }
  /** The bytes of a token; for a special token, its name. */
  tokenBytes(token) {
    const core = wasm();
    const at = Handle.at(this, Vocabulary, "the vocabulary");
    core.call("gr_vocabulary_token_bytes", at, unsigned(token, "token"), core.answer, core.answer + 4);
    const from = core.number(0);
    return core.bytes().slice(from, from + core.number(1));
  }
  /** The id of a special token by its name. */
  specialToken(text) {
    if (typeof text !== "string") throw new GuiderailError("argument", "the name of a special token is a string");
    const core = wasm();
    const at = Handle.at(this, Vocabulary, "the vocabulary");
    core.with(encoder.encode(`${text}\0`), (from) => core.call("gr_vocabulary_special_token", at, from, core.answer));
    return core.number();
  }
  /** The text of tokens, as a continuation; bytes that are not UTF-8 become U+FFFD. */
  decode(tokens) {
    const pieces = Array.from(tokenList(tokens, "tokens"), (token) => this.tokenBytes(token));
    const bytes = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.length, 0));
    let at = 0;
    for (const piece of pieces) {
      bytes.set(piece, at);
      at += piece.length;
    }
    return new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes);
  }
}

// The options about special tokens, as the core reads them.
function named(options) {
  if (options === null || typeof options !== "object") throw new GuiderailError("argument", "options are an object");
  const { specialTokens = [], stopTokenIds, size = 0 } = options;
  if (stopTokenIds === undefined)
    throw new GuiderailError("argument", "say which tokens end a text: {stopTokenIds: [...]}, [] if none does");
  const stops = tokenList(typeof stopTokenIds === "number" ? [stopTokenIds] : stopTokenIds, "stopTokenIds");
  const isList = typeof specialTokens?.[Symbol.iterator] === "function";
  const special = isList
    ? Array.from(tokenList(specialTokens, "specialTokens"), (id) => [null, id])
    : Object.entries(specialTokens ?? {}).map(([text, id]) => [text, unsigned(id, `special token ${text}`)]);
  if (special.some(([text]) => text?.includes("\0")))
    throw new GuiderailError("argument", "the name of a special token has no zero byte");
  return { special, stops, size: unsigned(size, "size") };
}
