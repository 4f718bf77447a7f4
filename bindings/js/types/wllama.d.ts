import type { Guide, Matcher } from "./index.js";

export interface Candidate {
  token: number;
  logprob: number;
  allowed: boolean;
}
export interface Written {
  token: number;
  text: string;
  /** No other token was allowed, so the model was not asked. */
  forced: boolean;
  candidates: Candidate[];
}
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
