// The WebAssembly module: loading, memory, and calls whose status becomes an error.
import { GuiderailError } from "./errors.js";

const MANY = 1 << 16;  // longer texts get memory of their own

let core = null;
let loading = null;

/**
 * Loads the module once; later calls return the same promise. The bytes are found automatically in Node, browsers,
 * workers and bundlers that support `new URL(..., import.meta.url)`.
 *
 * @param {{wasm?: BufferSource | WebAssembly.Module | Response | URL | string}} [options] another source of
 *   `guiderail.wasm`: its bytes, the compiled module, a response, or a URL.
 */
export function load(options = {}) {
  loading ??= instantiate(options?.wasm).catch((error) => {
    loading = null;  // allows another attempt
    if (error instanceof GuiderailError) throw error;
    throw new GuiderailError("wasm-load", `guiderail.wasm cannot be loaded: ${error?.message ?? error}`);
  });
  return loading.then(() => undefined);
}

export const isLoaded = () => core !== null;

/** The instance, for other modules: `exports`, `memory()`, `call`. */
export function wasm() {
  if (core === null) throw new GuiderailError("not-loaded", "guiderail is not loaded; `await load()` first");
  return core;
}

/** The version of the core. */
export const version = () => wasm().text(wasm().exports.gr_version_text());

async function instantiate(source) {
  const module = await compiled(source ?? new URL("../dist/guiderail.wasm", import.meta.url));
  const random = globalThis.crypto ?? (await import("node:crypto")).webcrypto;  // Node 18 has it only there
  core = new Core(module, random);
}

async function compiled(source) {
  if (source instanceof WebAssembly.Module) return source;
  if (source instanceof ArrayBuffer || ArrayBuffer.isView(source)) return WebAssembly.compile(source);
  if (typeof Response !== "undefined" && source instanceof Response) return fromResponse(source);
  const address = String(source);
  const isNode = typeof process !== "undefined" && Boolean(process.versions?.node);
  if (isNode && !/^(https?|data|blob):/.test(address)) {
    const { readFile } = await import("node:fs/promises");
    return WebAssembly.compile(await readFile(address.startsWith("file:") ? new URL(address) : address));
  }
  return fromResponse(await fetch(address));
}

async function fromResponse(response) {
  if (!response.ok) throw new Error(`${response.url} answered ${response.status}`);
  const isWasm = response.headers.get("Content-Type")?.startsWith("application/wasm");
  if (isWasm && WebAssembly.compileStreaming) return WebAssembly.compileStreaming(response);
  return WebAssembly.compile(await response.arrayBuffer());
}

class Core {
  constructor(module, random) {
    this.random = random;
    const instance = new WebAssembly.Instance(module, imports(() => this));
    this.exports = instance.exports;
    this.memory = this.exports.memory;
    this.broken = null;
    this.bytes_ = this.words_ = this.view_ = null;
    this.exports._initialize?.();
    // Memory for answers: 4 numbers, then short texts.
    this.answer = this.allocate(16);
    this.scratch = this.allocate(MANY);
  }

  // Views become invalid when the memory grows, so each call checks them.
  bytes() {
    if (this.bytes_?.buffer !== this.memory.buffer) this.bytes_ = new Uint8Array(this.memory.buffer);
    return this.bytes_;
  }
  words() {
    if (this.words_?.buffer !== this.memory.buffer) this.words_ = new Uint32Array(this.memory.buffer);
    return this.words_;
  }

  allocate(size) {
    const at = this.guarded(() => this.exports.malloc(Math.max(size, 1))) >>> 0;
    if (at === 0) throw new GuiderailError("out-of-memory", `there is no memory for ${size} bytes`);
    return at;
  }
  release(at) {
    if (at !== 0 && this.broken === null) this.exports.free(at);
  }

  /** Calls f(address) with these bytes in the module's memory. */
  with(bytes, f) {
    const own = bytes.byteLength > MANY;
    const at = own ? this.allocate(bytes.byteLength) : this.scratch;
    try {
      this.bytes().set(new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength), at);
      return f(at);
    } finally {
      if (own) this.release(at);
    }
  }

  /** Calls a function of guiderail.h; a failure becomes an error. */
  call(name, ...args) {
    if (this.broken !== null) this.refuse();
    let status;
    try {
      status = this.exports[name](...args);
    } catch (error) {
      this.fail(error);
    }
    if (status !== 0) throw this.error();
  }
  guarded(f) {
    if (this.broken !== null) this.refuse();
    try {
      return f();
    } catch (error) {
      this.fail(error);
    }
  }
  // After a trap, the module's memory may be inconsistent: it is never used again.
  fail(error) {
    if (error instanceof GuiderailError) throw error;
    this.broken = error;
    this.refuse();
  }
  refuse() {
    throw new GuiderailError(
      "internal",
      `guiderail's module has stopped (${this.broken?.message ?? this.broken}); load it anew, and please report this`,
    );
  }
  error() {
    return new GuiderailError(this.text(this.exports.gr_error_code()), this.text(this.exports.gr_error_message()));
  }

  text(at) {
    const bytes = this.bytes();
    return new TextDecoder().decode(bytes.subarray(at, bytes.indexOf(0, at)));
  }
  /** A number that the last call answered with. */
  number(index = 0) {
    return this.words()[(this.answer >>> 2) + index];
  }
  flag() {
    return this.bytes()[this.answer] !== 0;
  }
  /** The bytes that a function writes to (…, out, room, count); called again if there are more. */
  bytesFrom(name, ...args) {
    let at = this.scratch;
    let room = MANY;
    try {
      for (;;) {
        this.call(name, ...args, at, room, this.answer);
        const count = this.number();
        if (count <= room) return this.bytes().slice(at, at + count);
        if (at !== this.scratch) this.release(at);
        at = 0;
        at = this.allocate(count);
        room = count;
      }
    } finally {
      if (at !== this.scratch) this.release(at);
    }
  }
}

// The imports of the C library. There is no file system and no console; only the message of a failed assertion is
// written.
function imports(core) {
  const BAD = 8; // EBADF
  const view = () => new DataView(core().memory.buffer);
  const wasi = {
    clock_time_get(_clock, _precision, at) {
      view().setBigUint64(at, BigInt(Math.round(performance.now() * 1e6)), true);
      return 0;
    },
    random_get(at, size) {
      for (let from = 0; from < size; from += 65536)
        core().random.getRandomValues(new Uint8Array(core().memory.buffer, at + from, Math.min(65536, size - from)));
      return 0;
    },
    environ_sizes_get(count, size) {
      view().setUint32(count, 0, true);
      view().setUint32(size, 0, true);
      return 0;
    },
    environ_get: () => 0,
    fd_write: () => BAD,
    fd_read: () => BAD,
    fd_seek: () => BAD,
    fd_close: () => BAD,
    fd_fdstat_get: () => BAD,
    proc_exit(code) {
      throw new Error(`it ended with ${code}`);
    },
  };
  const env = {
    emscripten_notify_memory_growth() {},
    getentropy(at, size) {
      wasi.random_get(at, size);
      return 0;
    },
  };
  return { wasi_snapshot_preview1: wasi, env };
}
