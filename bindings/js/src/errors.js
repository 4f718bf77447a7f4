/** The error that everything here raises: a stable code and a message. */
export class GuiderailError extends Error {
  /**
   * @param {string} code stable and machine-readable, see docs/errors.md
   * @param {string} message what happened, and what to do about it
   */
  constructor(code, message) {
    super(message);
    this.name = "GuiderailError";
    this.code = code;
  }
}

const LARGEST = 0xffffffff;

/** Returns a number that is an unsigned 32-bit integer, or raises an error that names it. */
export function unsigned(value, what, most = LARGEST) {
  if (typeof value === "number" && Number.isInteger(value) && value >= 0 && value <= most) return value;
  const given = typeof value === "number" || typeof value === "bigint" ? String(value) : typeof value;
  throw new GuiderailError("argument", `${what} must be an integer from 0 to ${most}, not ${given}`);
}

/** Text or bytes as bytes. */
export function bytesOf(value, what) {
  if (typeof value === "string") return new TextEncoder().encode(value);
  if (value instanceof Uint8Array) return value;
  if (value instanceof ArrayBuffer) return new Uint8Array(value);
  if (ArrayBuffer.isView(value)) return new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
  throw new GuiderailError("argument", `${what} must be a string or bytes (a Uint8Array), not ${typeof value}`);
}

/** Copies any list of integers into the form that the core reads. */
export function tokenList(value, what) {
  if (value === null || typeof value !== "object" || typeof value[Symbol.iterator] !== "function")
    throw new GuiderailError("argument", `${what} must be a list of token ids, not ${typeof value}`);
  if (value instanceof Uint32Array) return value.slice();
  return Uint32Array.from(value, (one, i) => unsigned(typeof one === "bigint" ? Number(one) : one, `${what}[${i}]`));
}
