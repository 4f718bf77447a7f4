// Constrained generation with @wllama/wllama 3. Its server chooses tokens itself and has no hook for masks. So each
// request is for one token: the candidates, those of them that the matcher allows, and the text so far.
import { allowedTokens } from "../bitmask.js";
import { GuiderailError } from "../errors.js";
import { Guide, Matcher } from "../matcher.js";

const CANDIDATES = 64;  // likely tokens per request
const FEW = 1024;  // most tokens named in a request
const LIFT = 1000;  // added to logits of allowed tokens, larger than any difference between two logits

/**
 * Writes a text under a constraint, token by token.
 *
 * @param {object} wllama a Wllama whose model is loaded
 * @param {{prompt: string, guide: Guide | Matcher, maxTokens?: number, temperature?: number, random?: () => number,
 *   abortSignal?: AbortSignal}} options `temperature` 0 (the default) always takes the likeliest allowed token;
 *   `random` returns numbers from 0 to 1
 * @returns {AsyncGenerator<{token: number, text: string, forced: boolean, candidates: {token: number, logprob: number,
 *   allowed: boolean}[]}, {text: string, tokens: number[], finishReason: "stop" | "length"}>} each token as it is
 *   written, with the model's candidates
 */
export async function* generate(wllama, options) {
  const { prompt, maxTokens = 256, temperature = 0, random = Math.random, abortSignal } = options;
  const matcher = matcherOf(options.guide);
  const { vocabulary } = matcher.guide;
  const bitmask = new Int32Array(vocabulary.bitmaskWords);
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  const tokens = [];
  let whole = "";
  const done = (finishReason) => ({ text: whole, tokens, finishReason });
  try {
    while (tokens.length < maxTokens) {
      abortSignal?.throwIfAborted();
      matcher.fillNextTokenBitmask(bitmask);
      const allowed = allowedTokens(bitmask, vocabulary.size);
      const only = allowed.length === 1;
      const candidates = only ? [] : await choices(wllama, { prompt, tokens, allowed, bitmask, abortSignal });
      const token = only ? allowed[0] : choose(candidates, temperature, random);
      if (!matcher.acceptToken(token)) throw new GuiderailError("internal", `token ${token} was allowed and refused`);
      tokens.push(token);
      const text = matcher.isTerminated() ? "" : decoder.decode(vocabulary.tokenBytes(token), { stream: true });
      whole += text;
      yield { token, text, forced: only, candidates };
      if (matcher.isTerminated()) return done("stop");
    }
    return done("length");
  } finally {
    matcher.free();
  }
}

function matcherOf(of) {
  if (of instanceof Guide) return of.matcher();
  if (of instanceof Matcher) return of.fork();
  throw new GuiderailError("argument", "say what constrains the text: {guide: a Guide, or a Matcher}");
}

// The likeliest tokens, at least one of them allowed. If few tokens are allowed (or few are not), the request names
// them and the answer is exact. Otherwise the first request is for the likeliest of all tokens, which nearly always
// suffices.
async function choices(wllama, { prompt, tokens, allowed, bitmask, abortSignal }) {
  const isAllowed = (token) => ((bitmask[token >>> 5] >>> (token & 31)) & 1) === 1;
  const biased = Object.fromEntries(allowed.map((token) => [token, LIFT]));
  const ask = async (logitBias) => {
    const answer = await wllama.createCompletion({
      prompt: tokens.length === 0 ? prompt : [prompt, ...tokens],
      max_tokens: 1,
      temperature: 1,
      logprobs: CANDIDATES,
      n_probs: CANDIDATES,
      cache_prompt: true,
      ...(logitBias === undefined ? {} : { logit_bias: logitBias }),
      ...(abortSignal === undefined ? {} : { abortSignal }),
    });
    return candidatesOf(answer).map((one) => ({ ...one, allowed: isAllowed(one.token) }));
  };
  const first = await ask(allowed.length <= FEW ? biased : undefined);
  if (first.some((one) => one.allowed)) return first;
  const second = await ask(biased);
  if (second.some((one) => one.allowed)) return second;
  throw new GuiderailError(
    "model-vocabulary",
    "the model offers none of the allowed tokens; was the vocabulary made from another tokenizer?",
  );
}

function candidatesOf(answer) {
  const [first] = answer?.choices?.[0]?.logprobs?.content ?? answer?.completion_probabilities ?? [];
  const list = first?.top_logprobs ?? first?.top_probs ?? [];
  const found = list.filter((one) => Number.isInteger(one.id)).map(({ id, logprob }) => ({ token: id, logprob }));
  if (found.length > 0) return found;
  throw new GuiderailError("model-answer", "the model's answer names no candidates; this adapter is for wllama 3");
}

function choose(candidates, temperature, random) {
  const allowed = candidates.filter((one) => one.allowed);
  const best = allowed.reduce((a, b) => (b.logprob > a.logprob ? b : a));
  if (temperature <= 0) return best.token;
  const weights = allowed.map((one) => Math.exp((one.logprob - best.logprob) / temperature));
  let left = random() * weights.reduce((a, b) => a + b, 0);
  for (const [i, weight] of weights.entries()) if ((left -= weight) <= 0) return allowed[i].token;
  return best.token;
}
