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
  /** The bytes of a token; for a special token, its name. */
  tokenBytes(token: number): Uint8Array;
  /** The id of a special token by its name. */
  specialToken(text: string): number;
  /** The text of tokens, as a continuation; bytes that are not UTF-8 become U+FFFD. */
  decode(tokens: Iterable<number>): string;
}

/** A compiled constraint without a vocabulary. */
export declare class Program extends Handle {
  private constructor();
  /** Reads the bytes of a file written by constraint.save(path) or `guiderail export`. */
  static fromFile(file: Bytes): Program;
  /** Whether the whole text matches. */
  matches(text: string | Bytes): boolean;
  /** The initial state. States are numbers; 0 is the dead state, after which no match is possible. */
  start(): number;
  /** The state after a text. */
  advance(state: number, text: string | Bytes): number;
  /** Whether the text may end here. */
  isAccepting(state: number): boolean;
  /** Whether some text completes the state. */
  isLive(state: number): boolean;
  /** The bytes after which a match is still possible. */
  nextBytes(state: number): number[];
  /** The bytes that must come next. */
  forcedBytes(state: number, limit?: number): Uint8Array;
  /** The rest of the constraint, for people. */
  dump(state?: number): string;
}

/** A program with a vocabulary, shared by the matchers of any number of texts. */
export declare class Guide extends Handle {
  /**
   * maxMemory: bytes that earlier texts may leave behind (0: no limit).
   * prepare: masks to make in advance, if the texts are JSON.
   */
  constructor(program: Program, vocabulary: Vocabulary, options?: { maxMemory?: number; prepare?: number });
  readonly vocabulary: Vocabulary;
  /** In bytes. */
  readonly memorySize: number;
  /** A matcher at the start of a text. */
  matcher(options?: { stopTokenIds?: Iterable<number> }): Matcher;
}

/** The state of one text. */
export declare class Matcher extends Handle {
  constructor(guide: Guide, options?: { stopTokenIds?: Iterable<number> });
  readonly guide: Guide;
  /** An independent copy in the same state. */
  fork(): Matcher;
  /**
   * Writes the mask of the tokens that may come next. Returns whether some token is not allowed; otherwise there is
   * nothing to apply. maxTokens: forbids tokens after which the text could not end within that many tokens.
   */
  fillNextTokenBitmask(bitmask: Bitmask, row?: number, options?: { maxTokens?: number }): boolean;
  /** The same mask, as a new row. */
  nextTokenBitmask(): Int32Array;
  /** Reads a token. Returns false, and changes nothing, if it is not allowed. A stop token ends the text. */
  acceptToken(token: number): boolean;
  /** Reads text or bytes, whatever their tokens. Returns false, and changes nothing, if no match continues so. */
  acceptString(text: string | Bytes): boolean;
  /** The number of these tokens that could be accepted in turn. */
  validateTokens(tokens: Iterable<number>): number;
  /** Undoes the last steps: tokens, and calls of acceptString. */
  rollback(steps?: number): void;
  /** Returns to the start of a text. */
  reset(): void;
  /** The bytes that must come next. */
  forcedBytes(limit?: number): Uint8Array;
  /** The only text that can come next, as whole characters, up to where it may end; "" if there is a choice. */
  findJumpForwardString(): string;
  /** The tokens that must come next, while only one is allowed, including a stop token. */
  forcedTokens(limit?: number): number[];
  /** Whether the text may end here. */
  isAccepting(): boolean;
  /** Whether only a stop token can follow. */
  isComplete(): boolean;
  /** Whether a stop token was accepted. */
  isTerminated(): boolean;
  /** The number of steps that can be undone. */
  readonly stepCount: number;
  /** The fewest tokens known to complete the text, without a stop token; Infinity: no completion was found. */
  leastTokens(): number;
  /** The rest of the constraint, for people. */
  dump(): string;
}
