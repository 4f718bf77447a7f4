// guiderail's core as WebAssembly, with two users: front ends that build expressions (python/core.py), and the model.
import { Guide, Program, Vocabulary, allowedTokens, load } from "./guiderail/src/index.js";
import { KEY } from "./guiderail/src/handle.js";
import { wasm } from "./guiderail/src/wasm.js";

export async function openCore() {
  await load();
  const core = wasm();
  const { exports } = core;
  const answer = () => {
    const at = exports.guiderail_lowering_answer() >>> 0;
    return core.bytes().subarray(at, at + (exports.guiderail_lowering_answer_size() >>> 0));
  };
  const utf8 = new TextDecoder();
  return {
    link: {
      // Makes a call with its arguments as Latin-1; a result below 0 is an error.
      call(operation, handle, given) {
        const at = exports.guiderail_lowering_room(given.length) >>> 0;
        const bytes = core.bytes().subarray(at, at + given.length);
        for (let i = 0; i < given.length; ++i) bytes[i] = given.charCodeAt(i);
        return core.guarded(() => exports.guiderail_lowering_call(operation, handle));
      },
      answer: () => Array.from(answer(), (byte) => String.fromCharCode(byte)).join(""),
      fault: () => utf8.decode(answer()),
    },
    masks: new Masks((handle) => new Program(KEY, exports.guiderail_lowering_program(handle) >>> 0)),
  };
}

// One text of one model at a time.
class Masks {
  #programOf;
  #vocabulary = null;
  #guide = null;
  #matcher = null;
  constructor(programOf) {
    this.#programOf = programOf;
  }
  // Loads the model's vocabulary; returns the bytes of all tokens, and the stop tokens.
  async open() {
    const response = await fetch(new URL("./model/vocabulary", import.meta.url));
    if (!response.ok) throw new Error(`the model's vocabulary is missing (${response.status})`);
    this.#vocabulary = Vocabulary.fromFile(new Uint8Array(await response.arrayBuffer()));
    const tokens = Array.from({ length: this.#vocabulary.size }, (_, token) => this.#vocabulary.tokenBytes(token));
    return { tokens, stops: this.#vocabulary.stopTokenIds };
  }
  begin(handle) {
    this.#matcher?.free();
    this.#guide?.free();
    const program = this.#programOf(handle);
    this.#guide = new Guide(program, this.#vocabulary);
    program.free();
    this.#matcher = this.#guide.matcher();
  }
  // The mask of a text that has maxTokens tokens left.
  mask(maxTokens) {
    const mask = new Int32Array(this.#vocabulary.bitmaskWords);
    const began = performance.now();
    this.#matcher.fillNextTokenBitmask(mask, 0, { maxTokens });
    return { milliseconds: performance.now() - began, mask, count: allowedTokens(mask, this.#vocabulary.size).length };
  }
  accept(token) {
    if (!this.#matcher.acceptToken(token)) throw new Error(`token ${token} was rejected although the mask allows it`);
  }
}
