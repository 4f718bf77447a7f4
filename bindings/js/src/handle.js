// Objects in the module's memory, until they are freed explicitly or by garbage collection.
import { GuiderailError } from "./errors.js";
import { wasm } from "./wasm.js";

const forgotten = new FinalizationRegistry(({ core, free, at }) => {
  if (core.broken === null) core.exports[free](at);
});
const KEY = Symbol("guiderail");

export class Handle {
  #at;
  #free;
  #core;
  constructor(key, free, at) {
    if (key !== KEY) throw new GuiderailError("argument", `${new.target.name} has no public constructor of this kind`);
    this.#core = wasm();
    this.#at = at;
    this.#free = free;
    forgotten.register(this, { core: this.#core, free, at }, this);
  }
  /** Frees the memory now. A second call does nothing; any other later use is an error. */
  free() {
    if (this.#at === 0) return;
    forgotten.unregister(this);
    const at = this.#at;
    this.#at = 0;
    if (this.#core.broken === null) this.#core.exports[this.#free](at);
  }
  get isFreed() {
    return this.#at === 0;
  }
  /** @internal */
  static at(of, kind, what) {
    if (!(of instanceof kind)) throw new GuiderailError("argument", `${what} must be a ${kind.name}`);
    if (of.#at === 0) throw new GuiderailError("freed", `this ${kind.name} has been freed`);
    return of.#at;
  }
}
if (Symbol.dispose) Object.defineProperty(Handle.prototype, Symbol.dispose, { value: Handle.prototype.free });

/** The address that f writes to the location that it gets. */
export function made(f) {
  const core = wasm();
  f(core.answer);
  return core.number();
}
export { KEY };
