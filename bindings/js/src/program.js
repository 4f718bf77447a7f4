import { GuiderailError, bytesOf, unsigned } from "./errors.js";
import { Handle, KEY, made } from "./handle.js";
import { wasm } from "./wasm.js";

/** A compiled constraint without a vocabulary, from a file written by Python. */
export class Program extends Handle {
  constructor(key, at) {
    super(key, "gr_program_free", at);
  }
  /** @param {Uint8Array | ArrayBuffer} file the output of `constraint.save(path)` or `guiderail export` */
  static fromFile(file) {
    if (typeof file === "string") throw new GuiderailError("argument", "give the bytes of a program file, not its path");
    const bytes = bytesOf(file, "the program file");
    const core = wasm();
    const at = core.with(bytes, (from) => made((out) => core.call("gr_program_read", from, bytes.length, 0, out)));
    return new Program(KEY, at);
  }
  /** @internal for a module that makes programs in other ways */
  static adopt(at) {
    return new Program(KEY, at);
  }

  #at() {
    return Handle.at(this, Program, "the program");
  }
  /** Whether the constraint matches a whole text. */
  matches(text) {
    const bytes = bytesOf(text, "the text");
    const core = wasm();
    const at = this.#at();
    core.with(bytes, (from) => core.call("gr_program_matches", at, from, bytes.length, core.answer));
    return core.flag();
  }
  /** The initial state. States are numbers; 0 is the dead state, after which no match is possible. */
  start() {
    const core = wasm();
    core.call("gr_program_start", this.#at(), core.answer);
    return core.number();
  }
  /** The state after some text. */
  advance(state, text) {
    const bytes = bytesOf(text, "the text");
    const core = wasm();
    const at = this.#at();
    const from = unsigned(state, "state");
    core.with(bytes, (place) => core.call("gr_program_advance", at, from, place, bytes.length, core.answer));
    return core.number();
  }
  isAccepting(state) {
    const core = wasm();
    core.call("gr_program_is_accepting", this.#at(), unsigned(state, "state"), core.answer);
    return core.flag();
  }
  /** Whether some text completes the state. */
  isLive(state) {
    const core = wasm();
    core.call("gr_program_is_live", this.#at(), unsigned(state, "state"), core.answer);
    return core.flag();
  }
  /** The bytes after which a match is still possible. */
  nextBytes(state) {
    const core = wasm();
    core.call("gr_program_next_bytes", this.#at(), unsigned(state, "state"), core.scratch);
    const flags = core.bytes().slice(core.scratch, core.scratch + 256);
    return Array.from(flags.keys()).filter((byte) => flags[byte] !== 0);
  }
  /** The text that must follow, at most `limit` bytes of it. */
  forcedBytes(state, limit = 65536) {
    return wasm().bytesFrom(
      "gr_program_forced_bytes",
      this.#at(),
      unsigned(state, "state"),
      unsigned(limit, "limit"),
    );
  }
  /** The expression of a state, in readable form. */
  dump(state = this.start()) {
    return new TextDecoder().decode(wasm().bytesFrom("gr_program_dump", this.#at(), unsigned(state, "state")));
  }
}
