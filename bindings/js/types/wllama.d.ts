import type { Guide, Matcher } from "./index.js";

/** A token that the model would have chosen from. */
export interface Candidate {
  token: number;
  logprob: number;
  /** Whether the constraint allows it. */
  allowed: boolean;
}
/** One token of a text. */
export interface Written {
  token: number;
  /** The whole characters that it completes. */
  text: string;
  /** No other token was allowed, so the model was not asked. */
  forced: boolean;
  candidates: Candidate[];
}
/** What generate() returns at the end. */
export interface Result {
  text: string;
  tokens: number[];
  finishReason: "stop" | "length";
}

/** Writes a text under a constraint, token by token. `wllama`: a Wllama (version 3) whose model is loaded. */
export declare function generate(
  wllama: { createCompletion(options: any): Promise<any> },
  options: {
    prompt: string;
    guide: Guide | Matcher;
    maxTokens?: number;
    temperature?: number;
    random?: () => number;
    abortSignal?: AbortSignal;
  },
): AsyncGenerator<Written, Result>;
