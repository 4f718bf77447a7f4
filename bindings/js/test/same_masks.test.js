// The same masks as from Python, bit for bit: what Python wrote down is read again here.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { before, test } from "node:test";

import { Guide, Program, Vocabulary, load } from "../src/index.js";
import { CASES, fromTokenizer, read, readJson } from "./support.js";

before(() => load());

test("masks, verdicts and ends are those of Python", { skip: !CASES }, () => {
  const { vocabularies, cases } = readJson("cases.json");
  const known = new Map();
  for (const [name, { file, tokenizer }] of Object.entries(vocabularies))
    known.set(name, file ? Vocabulary.fromFile(read(file)) : fromTokenizer(tokenizer));
  let masks = 0;
  for (const { name, program, vocabulary, texts } of cases) {
    const guide = new Guide(Program.fromFile(read(program)), known.get(vocabulary));
    for (const [i, text] of texts.entries()) {
      const where = `${name}, text ${i}`;
      const { accepted, digest, accepting, forced } = replay(guide, text.tokens);
      assert.equal(accepted, text.accepted, `${where}: tokens accepted`);
      assert.equal(digest, text.digest, `${where}: masks`);
      assert.equal(accepting, text.accepting, `${where}: may end`);
      assert.equal(forced, text.forced, `${where}: forced text`);
      masks += text.accepted + 1;
    }
    guide.free();
  }
  console.log(`${cases.length} constraints, ${masks} masks`);
  assert.ok(masks > 0);
});

function replay(guide, tokens) {
  const matcher = guide.matcher();
  const bitmask = new Int32Array(guide.vocabulary.bitmaskWords);
  const hash = createHash("sha256");
  let accepted = 0;
  for (const token of [...tokens, null]) {
    if (matcher.isTerminated()) break;
    matcher.fillNextTokenBitmask(bitmask);
    hash.update(bitmask);
    if (token === null || !matcher.acceptToken(token)) break;
    accepted++;
  }
  const out = { accepted, digest: hash.digest("hex"), accepting: matcher.isAccepting() };
  out.forced = matcher.isTerminated() ? "" : matcher.findJumpForwardString();
  matcher.free();
  return out;
}
