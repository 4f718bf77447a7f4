// tokenizer.json → the bytes of tokens.
import assert from "node:assert/strict";
import { before, test } from "node:test";

import { GuiderailError, Vocabulary, load } from "../src/index.js";

before(() => load());

const END = { id: 90, content: "<|im_end|>", special: true };
const tokenizer = (vocab, decoder, added = [END]) => ({ model: { type: "BPE", vocab }, decoder, added_tokens: added });
const text = (vocabulary, id) => Buffer.from(vocabulary.tokenBytes(id)).toString("latin1");

test("byte-level", () => {
  const made = Vocabulary.fromTokenizerJson(
    JSON.stringify(tokenizer({ Ġa: 0, Ċ: 1, "Ã¤": 2, "a b": 3, "😀": 4, Ģ: 5 }, { type: "ByteLevel" })),
  );
  assert.deepEqual([0, 1, 2, 3, 5].map((id) => text(made, id)), [" a", "\n", "\xc3\xa4", "a b", "\x80"]);
  assert.equal(Buffer.from(made.tokenBytes(4)).toString(), "😀");
  assert.deepEqual(made.stopTokenIds, [90]);
  assert.equal(made.size, 91);
});

test("SentencePiece, bytes", () => {
  const decoder = {
    type: "Sequence",
    decoders: [
      { type: "Replace", pattern: { String: "▁" }, content: " " },
      { type: "ByteFallback" },
      { type: "Fuse" },
      { type: "Strip", content: " ", start: 1, stop: 0 },
    ],
  };
  const made = Vocabulary.fromTokenizerJson(tokenizer({ "▁the": 0, "<0x0A>": 1, "<0xfF>": 2, "▁▁": 3 }, decoder));
  assert.deepEqual([0, 1, 2, 3].map((id) => text(made, id)), [" the", "\n", "\xff", "  "]);
});

test("Unigram, Metaspace, WordPiece, none", () => {
  const unigram = { model: { type: "Unigram", vocab: [["▁a", -1], ["b", -2]] }, added_tokens: [END] };
  unigram.decoder = { type: "Metaspace", replacement: "▁" };
  assert.equal(text(Vocabulary.fromTokenizerJson(unigram), 0), " a");
  const pieces = tokenizer({ the: 0, "##ing": 1, "n't": 2 }, { type: "WordPiece", prefix: "##", cleanup: true });
  const made = Vocabulary.fromTokenizerJson(pieces);
  assert.deepEqual([0, 1, 2].map((id) => text(made, id)), [" the", "ing", "n't"]);
  assert.equal(text(Vocabulary.fromTokenizerJson(tokenizer({ a: 0 }, null)), 0), " a");
});

test("which tokens end a text", () => {
  const vocab = { a: 0, "</s>": 1 };
  const level = { type: "ByteLevel" };
  const options = { tokenizerConfig: { eos_token: { content: "</s>" } }, generationConfig: { eos_token_id: [7] } };
  const made = Vocabulary.fromTokenizerJson(tokenizer(vocab, level), { ...options, config: { vocab_size: 128 } });
  assert.deepEqual([...made.stopTokenIds].sort((a, b) => a - b), [1, 7, 90]);
  assert.equal(made.size, 128);
  assert.deepEqual(Vocabulary.fromTokenizerJson(tokenizer(vocab, level), { stopTokenIds: 0 }).stopTokenIds, [0]);
});

// Merges are skipped unread, wherever they are; what only looks like merges is not.
const MERGES = {
  "after the tokens": '{"model": {"vocab": {"a": 0}, "merges": [["a", "b"], ["]", "\\"]"]]}, "added_tokens": []}',
  "before them": '{"model": {"merges":["a b", "[ {"] , "vocab": {"a": 0}}}',
  "none": '{"model": {"merges": [], "vocab": {"a": 0}}}',
  "as a token": '{"model": {"vocab": {"merges": 1, "a": 0}}}',
  "as a text": '{"note": "merges", "model": {"vocab": {"a": 0, "\\"merges\\": [": 1}}}',
};

test("merges are skipped", () => {
  for (const [name, file] of Object.entries(MERGES))
    for (const given of [file, new TextEncoder().encode(file), JSON.parse(file)]) {
      const made = Vocabulary.fromTokenizerJson(given, { stopTokenIds: 0, size: 8 });
      assert.equal(text(made, 0), " a", name);
    }
  assert.equal(text(Vocabulary.fromTokenizerJson(MERGES["as a token"], { stopTokenIds: [] }), 1), " merges");
  for (const file of ['{"merges": [', '{"merges": ["', '{"merges": [[]}', '{"merges"', '{"a": "\\'])
    assert.throws(() => Vocabulary.fromTokenizerJson(file), { code: "bad-tokenizer-file" }, file);
});

const REFUSED = {
  "bad-tokenizer-file": ["{", "[]", "null", "{}", { model: {} }, { model: { vocab: { a: -1 } } }, 7],
  "no-stop-token": [tokenizer({ a: 0 }, null, [])],
  "unsupported-tokenizer": [
    tokenizer({ a: 0 }, { type: "CTC" }),
    tokenizer({ a: 0 }, { type: "Replace", pattern: { Regex: "a" }, content: "" }),
    tokenizer({ a: 0 }, { type: "Sequence", decoders: [{ type: "ByteLevel" }, { type: "Strip" }] }),
  ],
};

test("files that are none", () => {
  for (const [code, files] of Object.entries(REFUSED))
    for (const file of files)
      assert.throws(
        () => Vocabulary.fromTokenizerJson(file),
        (error) => error instanceof GuiderailError && error.code === code,
        `${code}: ${JSON.stringify(file)}`,
      );
});
