// The adapters; with the real @huggingface/transformers if GUIDERAIL_NPM names a folder that has its node_modules.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { before, test } from "node:test";
import { pathToFileURL } from "node:url";

import { logitsProcessor, vocabularyOf } from "../src/adapters/transformers.js";
import { generate } from "../src/adapters/wllama.js";
import { Guide, GuiderailError, Program, Vocabulary, load } from "../src/index.js";
import { CASES, read } from "./support.js";

const TOKENS = ["r", "e", "d", "red", "g", "green", null, "bl", "ue", "</s>", "x"];
const skip = !CASES;
const library = join(resolve(process.env.GUIDERAIL_NPM ?? "node_modules"), "@huggingface/transformers");

let guide;
before(async () => {
  await load();
  if (skip) return;
  const vocabulary = Vocabulary.fromTokens(TOKENS, { stopTokenIds: [9], size: 16 });
  guide = new Guide(Program.fromFile(read("colours.rail")), vocabulary);
});

const tensor = (rows) => ({ dims: [rows.length, rows[0].length], data: Float32Array.from(rows.flat()), type: "float32" });
const allowed = (logits, row) => {
  const width = logits.dims[1];
  return Array.from({ length: width }, (_, i) => i).filter((i) => logits.data[row * width + i] !== -Infinity);
};
const zeros = () => new Array(16).fill(0);

test("a logits processor follows rows, also where they change places", { skip }, () => {
  const process = logitsProcessor(guide);
  let logits = process([[1n, 1n], [1n, 1n]], tensor([zeros(), zeros()]));
  assert.deepEqual(allowed(logits, 0), [0, 3, 4, 5, 7]);
  logits = process([[1n, 1n, 7n], [1n, 1n, 5n]], tensor([zeros(), zeros()]));
  assert.deepEqual([allowed(logits, 0), allowed(logits, 1)], [[8], [9]]);
  logits = process([[1n, 1n, 5n, 9n], [1n, 1n, 7n, 8n]], tensor([zeros(), zeros()]));  // the rows have changed places
  assert.deepEqual([allowed(logits, 0), allowed(logits, 1)], [[9], [9]]);  // only more ends may follow the end
  assert.equal(process.isAccepting(0), true);
  assert.equal(process.matcher(1).isComplete(), true);
  assert.throws(
    () => process([[1n, 1n, 5n, 9n, 9n], [1n, 1n, 7n, 8n, 3n]], tensor([zeros(), zeros()])),
    (error) => error instanceof GuiderailError && error.code === "matcher-token",
  );
  process.reset();
  assert.deepEqual(allowed(process([[4n]], tensor([zeros()])), 0), [0, 3, 4, 5, 7]);
});

test("the library calls it as its own", { skip: skip || !existsSync(library) }, async () => {
  const { LogitsProcessorList, Tensor } = await import(pathToFileURL(join(library, "dist/transformers.node.mjs")));
  const list = new LogitsProcessorList();
  list.extend([logitsProcessor(guide)]);
  const ids = [[1n]];
  const wanted = [7, 8, 9];  // the model would write x forever
  for (const token of wanted) {
    const scores = new Float32Array(16).fill(0);
    scores[10] = 9;
    scores[7] = 5;
    const logits = list(ids, new Tensor("float32", scores, [1, 16]));
    const best = logits.data.indexOf(Math.max(...logits.data));
    assert.equal(best, token);
    ids[0].push(BigInt(best));
  }
});

test("a tokenizer of the library", () => {
  const tokenizer = {
    _tokenizerJSON: { model: { vocab: { Ġa: 0 } }, decoder: { type: "ByteLevel" }, added_tokens: [] },
    _tokenizerConfig: { eos_token: "Ġa" },
  };
  const made = vocabularyOf(tokenizer, { model: { config: { vocab_size: 40 }, generation_config: { eos_token_id: 0 } } });
  assert.equal(made.size, 40);
  assert.deepEqual(made.stopTokenIds, [0]);
  assert.throws(() => vocabularyOf({}), (error) => error.code === "unsupported-tokenizer");
});

// Answers like llama.cpp's server: the likeliest tokens after biases, for a model that prefers `order`.
function server(order, size = 16) {
  const requests = [];
  return {
    requests,
    async createCompletion(options) {
      requests.push(options);
      const score = (id) => (order.includes(id) ? -order.indexOf(id) : -50) + (options.logit_bias?.[id] ?? 0);
      const ids = Array.from({ length: size }, (_, id) => id).sort((a, b) => score(b) - score(a));
      const top = ids.slice(0, Math.min(options.n_probs, 3)).map((id) => ({ id, token: TOKENS[id], logprob: score(id) }));
      return { choices: [{ text: "", logprobs: { content: [{ ...top[0], top_logprobs: top }] } }] };
    },
  };
}

test("wllama writes what is allowed", { skip }, async () => {
  const model = server([10, 7, 3]);
  const steps = [];
  const writing = generate(model, { prompt: "A colour: ", guide, maxTokens: 8 });
  let step = await writing.next();
  for (; !step.done; step = await writing.next()) steps.push(step.value);
  assert.deepEqual(steps.map((one) => [one.token, one.text, one.forced]), [
    [7, "bl", false],
    [8, "ue", true],
    [9, "", true],
  ]);
  assert.deepEqual(step.value, { text: "blue", tokens: [7, 8, 9], finishReason: "stop" });
  assert.equal(model.requests.length, 1);  // forced tokens need no model
  assert.equal(model.requests[0].prompt, "A colour: ");
});

test("wllama samples, stops at its length, and says when the vocabulary is another's", { skip }, async () => {
  const counts = new Map();
  for (let i = 0; i < 40; i++) {
    const writing = generate(server([3, 5, 7]), { prompt: "", guide, temperature: 1, random: () => i / 40 });
    const { value } = await writing.next();
    counts.set(value.token, (counts.get(value.token) ?? 0) + 1);
    await writing.return();
  }
  assert.ok(counts.get(3) > counts.get(5) && counts.get(5) > counts.get(7));
  const short = generate(server([7]), { prompt: "", guide, maxTokens: 1 });
  await short.next();
  assert.equal((await short.next()).value.finishReason, "length");
  const none = { createCompletion: async () => ({ choices: [{ text: "x", logprobs: null }] }) };
  await assert.rejects(generate(none, { prompt: "", guide }).next(), (error) => error.code === "model-answer");
  await assert.rejects(generate(none, { prompt: "" }).next(), (error) => error.code === "argument");
});
