/** The error that everything here raises. */
export declare class GuiderailError extends Error {
  constructor(code: string, message: string);
  /** Stable and machine-readable, see docs/errors.md. */
  readonly code: string;
}

export type WasmSource = ArrayBuffer | ArrayBufferView | WebAssembly.Module | Response | URL | string;

/** Loads the WebAssembly module once; everything else needs it. */
export declare function load(options?: { wasm?: WasmSource }): Promise<void>;
export declare function isLoaded(): boolean;
/** The version of the core. */
export declare function version(): string;

export type Bitmask = Int32Array | Uint32Array;
export type Bytes = Uint8Array | ArrayBuffer | ArrayBufferView;

/** A bitmask of this many rows that allows all tokens; a row has ceil(vocabularySize / 32) words. */
export declare function allocateTokenBitmask(rows: number, vocabularySize: number): Int32Array;

/** Sets the logits of tokens that are not allowed, or beyond the vocabulary, to -Infinity, in place. */
export declare function applyTokenBitmask<L extends Float32Array | Float64Array | Uint16Array>(
  logits: L,
  bitmask: Bitmask,
  options?: { row?: number; vocabularySize?: number; dtype?: "float16" | "bfloat16" },
): L;

/** The tokens that a row allows, in ascending order. */
export declare function allowedTokens(bitmask: Bitmask, vocabularySize?: number): number[];

/** An object in the module's memory, until it is freed explicitly or by garbage collection. */
declare abstract class Handle {
  /** Frees the memory now. A second call does nothing; any other later use is an error. */
  free(): void;
  readonly isFreed: boolean;
}

export interface TokenizerOptions {
  /** The files beside tokenizer.json, as text or parsed. */
  tokenizerConfig?: object | string;
  generationConfig?: object | string;
  config?: object | string;
  /** The tokens that end a text, instead of those named in the files. */
  stopTokenIds?: number | Iterable<number>;
  /** The width of the model's logits. */
  size?: number;
}

/** The tokens of a model: their bytes, the special ones, those that end a text. */
export declare class Vocabulary extends Handle {
  private constructor();
  static fromTokens(
    tokens: Iterable<Uint8Array | string | null>,
    options: {
      specialTokens?: Record<string, number> | Iterable<number>;
      stopTokenIds: number | Iterable<number>;
      size?: number;
    },
  ): Vocabulary;
  /** A Hugging Face tokenizer.json: its text, its bytes, or parsed. */
  static fromTokenizerJson(json: string | Bytes | object, options?: TokenizerOptions): Vocabulary;
  /** Reads a file written by Vocabulary.save of the Python package. */
  static fromFile(file: Bytes): Vocabulary;
  /** The width of logits and masks, in tokens. */
  readonly size: number;
  /** The number of 32-token words in a row of a bitmask. */
  readonly bitmaskWords: number;
  /** In ascending order. */
  readonly stopTokenIds: number[];
  tokenBytes(token: number): Uint8Array;
  specialToken(text: string): number;
  decode(tokens: Iterable<number>): string;
}

/** A compiled constraint without a vocabulary. */
export declare class Program extends Handle {
  private constructor();
  /** Reads the bytes of a file written by constraint.save(path) or `guiderail export`. */
  static fromFile(file: Bytes): Program;
  matches(text: string | Bytes): boolean;
  /** The initial state. States are numbers; 0 is the dead state, after which no match is possible. */
  start(): number;
  advance(state: number, text: string | Bytes): number;
  isAccepting(state: number): boolean;
  isLive(state: number): boolean;
  nextBytes(state: number): number[];
  forcedBytes(state: number, limit?: number): Uint8Array;
  dump(state?: number): string;
}

/** A program with a vocabulary, shared by the matchers of any number of texts. */
export declare class Guide extends Handle {
  constructor(program: Program, vocabulary: Vocabulary, options?: { maxMemory?: number; prepare?: number });
  readonly vocabulary: Vocabulary;
  /** In bytes. */
  readonly memorySize: number;
  matcher(options?: { stopTokenIds?: Iterable<number> }): Matcher;
}

/** The state of one text. */
export declare class Matcher extends Handle {
  constructor(guide: Guide, options?: { stopTokenIds?: Iterable<number> });
  readonly guide: Guide;
  fork(): Matcher;
  /** Returns whether some token is not allowed. */
  fillNextTokenBitmask(bitmask: Bitmask, row?: number, options?: { maxTokens?: number }): boolean;
  nextTokenBitmask(): Int32Array;
  /** Returns false, and changes nothing, if the token is not allowed. */
  acceptToken(token: number): boolean;
  acceptString(text: string | Bytes): boolean;
  /** The number of these tokens that could be accepted in turn. */
  validateTokens(tokens: Iterable<number>): number;
  rollback(steps?: number): void;
  reset(): void;
  forcedBytes(limit?: number): Uint8Array;
  findJumpForwardString(): string;
  forcedTokens(limit?: number): number[];
  isAccepting(): boolean;
  isComplete(): boolean;
  isTerminated(): boolean;
  readonly stepCount: number;
  leastTokens(): number;
  dump(): string;
}
