import type { Guide, Matcher, TokenizerOptions, Vocabulary } from "./index.js";

/** The vocabulary of a tokenizer of @huggingface/transformers. */
export declare function vocabularyOf(tokenizer: object, options?: TokenizerOptions & { model?: object }): Vocabulary;

export interface GuiderailLogitsProcessor {
  (inputIds: ArrayLike<bigint | number>[], logits: any): any;
  _call(inputIds: ArrayLike<bigint | number>[], logits: any): any;
  /** Prepares for another text. */
  reset(): void;
  /** The matcher of a row of the batch. */
  matcher(row?: number): Matcher | undefined;
  /** Whether the text of a row may end. */
  isAccepting(row?: number): boolean;
}

/** For generate({..., logits_processor: [logitsProcessor(guide)]}). */
export declare function logitsProcessor(guide: Guide, options?: { promptLength?: number }): GuiderailLogitsProcessor;
