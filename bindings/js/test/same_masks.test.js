// The same masks as Python's, bit for bit: replays what Python recorded.
import assert from "node:assert/strict";
import { before, test } from "node:test";

import { Vocabulary, load } from "../src/index.js";
import { replay } from "./replay.js";
import { CASES, fromTokenizer, read, readJson } from "./support.js";

before(() => load());

test("masks, verdicts and ends are those of Python", { skip: !CASES }, async () => {
  const { vocabularies, cases } = readJson("cases.json");
  const made = {};
  for (const [name, { file, tokenizer }] of Object.entries(vocabularies))
    made[name] = tokenizer ? fromTokenizer(tokenizer) : Vocabulary.fromFile(read(file));
  const done = await replay(cases, read, made);
  console.log(`${done.programs} constraints, ${done.texts} texts, ${done.masks} masks`);
  assert.ok(done.masks > 0);
});
