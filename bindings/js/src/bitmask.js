// Bitmasks in JavaScript's own memory, where the logits are, so nothing is copied.
import { GuiderailError, unsigned } from "./errors.js";

/** A bitmask of this many rows that allows all tokens; a row has ceil(vocabularySize / 32) words. */
export function allocateTokenBitmask(rows, vocabularySize) {
  const words = Math.ceil(unsigned(vocabularySize, "vocabularySize", 2 ** 28) / 32);
  if (unsigned(rows, "rows") * words > 2 ** 31)
    throw new GuiderailError("argument", `a bitmask of ${rows} rows for ${vocabularySize} tokens is too large`);
  return new Int32Array(rows * words).fill(-1);
}

const FLOATS = [Float32Array, Float64Array, globalThis.Float16Array].filter(Boolean);
const HALF_INFINITY = { float16: 0xfc00, bfloat16: 0xff80 };

/**
 * Sets the logits of tokens that are not allowed, or beyond the bitmask, to -Infinity, in place.
 *
 * @param {Float32Array | Float64Array | Uint16Array} logits of one position, one number for each token
 * @param {Int32Array | Uint32Array} bitmask as Matcher.fillNextTokenBitmask writes it
 * @param {{row?: number, vocabularySize?: number, dtype?: "float16" | "bfloat16"}} [options] the row of the bitmask;
 *   the number of its tokens, by default that of the logits; the type of the numbers in a Uint16Array
 */
export function applyTokenBitmask(logits, bitmask, options = {}) {
  const size = unsigned(options?.vocabularySize ?? logits?.length, "vocabularySize");
  const words = Math.ceil(size / 32);
  const from = unsigned(options?.row ?? 0, "row") * words;
  const never = infinityOf(logits, options?.dtype);
  if (!(bitmask instanceof Int32Array || bitmask instanceof Uint32Array))
    throw new GuiderailError("bitmask-type", "a bitmask is an Int32Array or a Uint32Array; see allocateTokenBitmask");
  if (from + words > bitmask.length)
    throw new GuiderailError(
      "bitmask-size",
      `the bitmask has ${bitmask.length} words, but words ${from} to ${from + words - 1} are to be read`,
    );
  const end = Math.min(size, logits.length);
  for (let word = 0, token = 0; token < end; word++, token += 32) {
    const bits = bitmask[from + word] | 0;
    if (bits === -1) continue;
    const stop = Math.min(token + 32, end);
    if (bits === 0) logits.fill(never, token, stop);
    else for (let i = token; i < stop; i++) if (((bits >>> (i & 31)) & 1) === 0) logits[i] = never;
  }
  if (end < logits.length) logits.fill(never, end);
  return logits;
}

function infinityOf(logits, dtype) {
  if (FLOATS.some((kind) => logits instanceof kind)) return -Infinity;
  if (logits instanceof Uint16Array && Object.hasOwn(HALF_INFINITY, dtype ?? "")) return HALF_INFINITY[dtype];
  throw new GuiderailError(
    "bitmask-dtype",
    "logits are a Float32Array or Float64Array, or a Uint16Array with {dtype: 'float16'} or {dtype: 'bfloat16'}",
  );
}

/** The tokens that a row allows, in ascending order. */
export function allowedTokens(bitmask, vocabularySize = 32 * bitmask.length) {
  const out = [];
  for (let word = 0; word < bitmask.length; word++)
    for (let bits = bitmask[word] >>> 0; bits !== 0; bits = (bits & (bits - 1)) >>> 0) {
      const token = 32 * word + 31 - Math.clz32(bits & -bits);
      if (token < vocabularySize) out.push(token);
    }
  return out;
}
