// What the classes do and reject, on small vocabularies.
import assert from "node:assert/strict";
import { before, test } from "node:test";

import {
  Guide,
  GuiderailError,
  Matcher,
  Program,
  Vocabulary,
  allocateTokenBitmask,
  allowedTokens,
  applyTokenBitmask,
  load,
  version,
} from "../src/index.js";
import { CASES, read } from "./support.js";

const skip = !CASES;
const bytes = (text) => new TextEncoder().encode(text);
const refuses = (code, f) =>
  assert.throws(f, (error) => {
    assert.ok(error instanceof GuiderailError, `${error}`);
    assert.equal(error.code, code, error.message);
    assert.ok(error.message.length > 10);
    return true;
  });

let program;
let vocabulary;
let guide;
before(async () => {
  await load();
  await load();
  if (skip) return;
  program = Program.fromFile(read("colours.rail")); // red|green|blue
  vocabulary = Vocabulary.fromTokens(["r", "e", "d", "red", "g", "green", null, "bl", "ue", "</s>", "x"], {
    stopTokenIds: [9],
    size: 70,
  });
  guide = new Guide(program, vocabulary);
});

test("a matcher follows a text", { skip }, () => {
  const matcher = guide.matcher();
  assert.deepEqual(allowedTokens(matcher.nextTokenBitmask()), [0, 3, 4, 5, 7]);
  assert.equal(matcher.isAccepting(), false);
  assert.equal(matcher.acceptToken(10), false);
  assert.equal(matcher.acceptToken(7), true);
  assert.equal(matcher.findJumpForwardString(), "ue");
  assert.deepEqual(matcher.forcedTokens(), [8, 9]);
  const other = matcher.fork();
  assert.equal(matcher.acceptString("ue"), true);
  assert.equal(matcher.isAccepting(), true);
  assert.equal(matcher.isComplete(), true);
  assert.equal(matcher.leastTokens(), 0);
  assert.equal(matcher.acceptToken(9), true);
  assert.equal(matcher.isTerminated(), true);
  assert.equal(matcher.stepCount, 3);
  refuses("matcher-terminated", () => matcher.fillNextTokenBitmask(allocateTokenBitmask(1, 70)));
  matcher.rollback(3);
  assert.equal(matcher.stepCount, 0);
  assert.equal(matcher.validateTokens([5, 9, 9]), 2);
  assert.equal(matcher.validateTokens([3n, 9n]), 2);  // as model libraries pass them
  assert.equal(other.findJumpForwardString(), "ue");
  other.reset();
  assert.deepEqual([...other.nextTokenBitmask()], [...matcher.nextTokenBitmask()]);
  assert.match(matcher.dump(), /reen/);
});

test("rows of a bitmask, logits, budgets", { skip }, () => {
  const bitmask = allocateTokenBitmask(2, 70);
  assert.equal(bitmask.length, 2 * vocabulary.bitmaskWords);
  assert.equal(guide.matcher().fillNextTokenBitmask(bitmask, 1), true);
  assert.deepEqual([...bitmask.slice(0, 3)], [-1, -1, -1]);
  const logits = applyTokenBitmask(new Float32Array(80).fill(1), bitmask, { row: 1, vocabularySize: 70 });
  assert.deepEqual(Array.from(logits.keys()).filter((token) => logits[token] === 1), [0, 3, 4, 5, 7]);
  const half = applyTokenBitmask(new Uint16Array(70).fill(1), bitmask, { row: 1, dtype: "float16" });
  assert.equal(half[1], 0xfc00);
  assert.equal(half[0], 1);
  const whole = new Uint32Array(vocabulary.bitmaskWords);
  guide.matcher().fillNextTokenBitmask(whole, 0, { maxTokens: 1 });
  assert.deepEqual(allowedTokens(whole), [3, 5]);
});

test("programs read texts without a vocabulary", { skip }, () => {
  assert.equal(program.matches("green"), true);
  assert.equal(program.matches(bytes("gray")), false);
  const state = program.advance(program.start(), "gre");
  assert.deepEqual(program.nextBytes(state), [101]);
  assert.equal(new TextDecoder().decode(program.forcedBytes(state)), "en");
  assert.equal(program.isLive(state), true);
  assert.equal(program.isAccepting(program.advance(state, "en")), true);
  assert.equal(program.advance(state, "x"), 0);
  assert.match(program.dump(), /reen/);
});

test("vocabularies", { skip }, () => {
  assert.equal(vocabulary.size, 70);
  assert.deepEqual(vocabulary.stopTokenIds, [9]);
  assert.deepEqual(vocabulary.tokenBytes(8), bytes("ue"));
  assert.deepEqual(vocabulary.tokenBytes(6), bytes(""));
  assert.equal(vocabulary.specialToken("</s>"), 9);
  assert.equal(vocabulary.decode([7, 8]), "blue");
  refuses("vocabulary-token", () => vocabulary.tokenBytes(70));
  refuses("vocabulary-token", () => vocabulary.specialToken("<nothing>"));
  assert.match(version(), /^\d+\.\d+/);
});

const WRONG = [null, undefined, "1", 1.5, -1, NaN, Infinity, 2 ** 32, 2n, {}, [], () => 1, Symbol("x")];

test("arguments of any kind are refused, and nothing changes", { skip }, () => {
  const matcher = guide.matcher();
  for (const wrong of WRONG) {
    refuses("argument", () => matcher.acceptToken(wrong));
    if (wrong !== undefined) refuses("argument", () => matcher.rollback(wrong));
    refuses("argument", () => vocabulary.tokenBytes(wrong));
    refuses("argument", () => program.advance(wrong, "a"));
    if (typeof wrong !== "string") refuses("argument", () => program.matches(wrong));
    if (typeof wrong !== "string") refuses("argument", () => matcher.acceptString(wrong));
    refuses("argument", () => new Guide(wrong, vocabulary));
    refuses("argument", () => new Guide(program, wrong));
    refuses("argument", () => new Matcher(wrong));
    refuses("bitmask-type", () => matcher.fillNextTokenBitmask(wrong));
    refuses("argument", () => Program.fromFile(wrong));
    if (!Array.isArray(wrong)) refuses("argument", () => Vocabulary.fromTokens(wrong, { stopTokenIds: [] }));
    if (!Array.isArray(wrong)) refuses("argument", () => matcher.validateTokens(wrong));
    if (typeof wrong !== "bigint") refuses("argument", () => matcher.validateTokens([wrong]));
    if (wrong !== undefined) refuses("argument", () => Vocabulary.fromTokens(["a"], { stopTokenIds: [0], size: wrong }));
  }
  refuses("argument", () => Vocabulary.fromTokens(["a"], {}));
  refuses("argument", () => new Program());
  refuses("argument", () => new Vocabulary("x", 1));
  refuses("bitmask-shape", () => matcher.fillNextTokenBitmask(new Int32Array(2)));
  refuses("bitmask-shape", () => matcher.fillNextTokenBitmask(new Int32Array(3), 1));
  refuses("bitmask-dtype", () => applyTokenBitmask(new Int8Array(3), new Int32Array(1)));
  refuses("bitmask-size", () => applyTokenBitmask(new Float32Array(33), new Int32Array(1)));
  refuses("matcher-token", () => matcher.acceptToken(70));
  refuses("matcher-rollback", () => matcher.rollback(1));
  assert.equal(matcher.stepCount, 0);
  assert.equal(matcher.acceptToken(3), true);
});

test("files that are none", { skip }, () => {
  const whole = read("colours.rail");
  refuses("saved-file", () => Program.fromFile(new Uint8Array(0)));
  refuses("saved-file", () => Program.fromFile(bytes("not a program")));
  refuses("saved-file", () => Vocabulary.fromFile(whole));
  let random = 12345;
  const next = (below) => (random = (random * 1103515245 + 12345) & 0x7fffffff) % below;
  for (let i = 0; i < 2000; i++) {
    const damaged = Uint8Array.from(whole).slice(0, i % 3 === 0 ? next(whole.length) : whole.length);
    if (damaged.length > 0) damaged[next(damaged.length)] ^= 1 + next(255);
    refuses("saved-file", () => Program.fromFile(damaged));
  }
  assert.equal(Program.fromFile(whole).matches("red"), true);
});

test("what has been freed says so", { skip }, () => {
  const matcher = guide.matcher();
  matcher.free();
  matcher.free();
  assert.equal(matcher.isFreed, true);
  refuses("freed", () => matcher.acceptToken(3));
  const mine = Vocabulary.fromTokens(["a"], { stopTokenIds: [] });
  mine.free();
  refuses("freed", () => mine.size);
  refuses("freed", () => new Guide(program, mine));
  const short = Program.fromFile(read("colours.rail"));
  const over = new Guide(short, vocabulary);
  short.free();  // a guide keeps its program and vocabulary alive
  assert.equal(over.matcher().acceptToken(3), true);
});

test("memory grows with what it holds, and is given back", { skip }, () => {
  for (let i = 0; i < 20; i++) {
    const large = Vocabulary.fromTokens(
      Array.from({ length: 5000 }, (_, token) => `${token} token number ${token}`),
      { stopTokenIds: [0] },
    );
    large.free();
  }
});
