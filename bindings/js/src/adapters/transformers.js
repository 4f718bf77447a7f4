// Constrained generation with @huggingface/transformers: generate({..., logits_processor: [logitsProcessor(guide)]}).
import { applyTokenBitmask } from "../bitmask.js";
import { GuiderailError } from "../errors.js";
import { Guide } from "../matcher.js";
import { Vocabulary } from "../vocabulary.js";

/**
 * The vocabulary of a tokenizer of @huggingface/transformers.
 *
 * @param {object} tokenizer the result of `AutoTokenizer.from_pretrained`, or `pipeline.tokenizer`
 * @param {{size?: number, stopTokenIds?: number | Iterable<number>, model?: object}} [options] `model`: its
 *   configuration has the width of the logits and the tokens that end a text
 */
export function vocabularyOf(tokenizer, { model, ...options } = {}) {
  const json = tokenizer?._tokenizerJSON ?? tokenizer?._tokenizer?.config ?? tokenizer?.tokenizerJSON;
  if (json === null || typeof json !== "object")
    throw new GuiderailError(
      "unsupported-tokenizer",
      "this tokenizer does not show its tokenizer.json; use Vocabulary.fromTokenizerJson with the file",
    );
  const given = { tokenizerConfig: tokenizer._tokenizerConfig ?? tokenizer.config ?? {}, ...options };
  if (model?.config) given.config = model.config;
  if (model?.generation_config) given.generationConfig = { eos_token_id: model.generation_config.eos_token_id ?? null };
  return Vocabulary.fromTokenizerJson(json, given);
}

/**
 * A logits processor: a function, as the library expects. Use a new one for each generate(), or call `reset()` between.
 *
 * @param {Guide} guide
 * @param {{promptLength?: number}} [options] the tokens of a row that are the prompt, by default all of the first call
 */
export function logitsProcessor(guide, options = {}) {
  if (!(guide instanceof Guide)) throw new GuiderailError("argument", "a logits processor needs a Guide");
  const rows = new Rows(guide, options?.promptLength);
  const process = (inputIds, logits) => {
    rows.read(inputIds);
    rows.apply(logits);
    return logits;
  };
  return Object.assign(process, {
    _call: process,
    /** Prepares for another text. */
    reset: () => rows.reset(),
    /** The current matcher of a row. */
    matcher: (row = 0) => rows.list[row]?.matcher,
    /** Whether the text of a row is complete: it has ended, or may end. */
    isAccepting: (row = 0) => rows.list[row]?.ended === true || rows.list[row]?.matcher.isAccepting() === true,
  });
}

class Rows {
  constructor(guide, promptLength) {
    this.guide = guide;
    this.given = promptLength;
    this.bitmask = new Int32Array(guide.vocabulary.bitmaskWords);
    this.list = [];
  }
  reset() {
    for (const row of this.list) row.matcher.free();
    this.list = [];
  }
  // What each row has read since the last call. Rows may have changed places (beams), so their tokens identify them.
  read(inputIds) {
    this.prompt = this.list.length === 0 ? (this.given ?? inputIds[0]?.length ?? 0) : this.prompt;
    const before = this.list;
    const after = Array.from(inputIds, (ids, i) => {
      const tokens = Array.from(ids, Number).slice(this.prompt);
      const follows = (row) => row !== undefined && row.tokens.every((token, at) => token === tokens[at]);
      const from = [before[i], ...before].find(follows);
      const row = from
        ? { matcher: from.matcher.fork(), tokens: from.tokens.slice(), ended: from.ended }
        : { matcher: this.guide.matcher(), tokens: [], ended: false };
      for (const token of tokens.slice(row.tokens.length)) accept(row, token);
      return row;
    });
    this.reset();
    this.list = after;
  }
  apply(logits) {
    const width = logits.dims.at(-1);
    const size = this.guide.vocabulary.size;
    const dtype = logits.type === "float16" || logits.type === "bfloat16" ? logits.type : undefined;
    this.list.forEach((row, i) => {
      const part = logits.data.subarray(i * width, (i + 1) * width);
      if (row.ended) {
        this.bitmask.fill(0); // what follows the end is padding
        const [stop] = this.guide.vocabulary.stopTokenIds;
        if (stop !== undefined) this.bitmask[stop >>> 5] = 1 << (stop & 31);
      } else if (!row.matcher.fillNextTokenBitmask(this.bitmask) && size >= width) {
        return;  // all tokens are allowed
      }
      applyTokenBitmask(part, this.bitmask, { vocabularySize: Math.min(size, 32 * this.bitmask.length), dtype });
    });
  }
}

function accept(row, token) {
  if (!row.ended && !row.matcher.acceptToken(token))
    throw new GuiderailError(
      "matcher-token",
      `token ${token} was chosen, which the constraint does not allow; another logits processor has forced it`,
    );
  row.tokens.push(token);
  row.ended ||= row.matcher.isTerminated();
}
