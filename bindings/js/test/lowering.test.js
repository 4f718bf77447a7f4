// Calls of front ends that run elsewhere (native/lowering.cpp): valid ones work, and no hostile one ends the module.
import assert from "node:assert/strict";
import { before, test } from "node:test";
import { load } from "../src/index.js";
import { wasm } from "../src/wasm.js";

const CALLS = { limitWork: 0, restoreWork: 1, spentWork: 3, free: 4, builder: 5, add: 6, isEmpty: 8, dump: 10, finish: 11 };
const RECORDS = { replay: 26, recorded: 27 };
const OF_PROGRAMS = { root: 12, derivative: 13, isNullable: 14, firstBytes: 16, shortest: 20, dump: 22 };
const CODE = { literal: 1, concat: 4, intersection: 6, rule: 18 };
const bytes = (text) => [...new TextEncoder().encode(text)];

function call(number, handle = 0, given = []) {
  const { exports } = wasm();
  const at = exports.guiderail_lowering_room(given.length);
  wasm().bytes().set(given, at);
  return exports.guiderail_lowering_call(number, handle);
}
function answerBytes() {
  const { exports } = wasm();
  const at = exports.guiderail_lowering_answer();
  return wasm().bytes().slice(at, at + exports.guiderail_lowering_answer_size());
}
const answer = () => new TextDecoder().decode(answerBytes());
const refused = (code, ...given) => {
  assert.equal(call(...given), -1);
  assert.equal(answer().split("\0")[0], code);
};
const builder = (records = 0) => call(CALLS.builder, 0, [255, 255, 3, 255, 255, 3, 0, records]);
const literal = (text) => [CODE.literal, text.length, ...bytes(text)];

before(load);

test("a program is built and read", () => {
  const b = builder();
  const ab = call(CALLS.add, b, literal("ab"));
  assert.equal(call(CALLS.add, b, literal("ab")), ab, "equal calls make one expression");
  const cd = call(CALLS.add, b, literal("cd"));
  assert.equal(call(CALLS.isEmpty, b, [call(CALLS.add, b, [CODE.intersection, 2, ab, cd])]), 1, "nothing is both");
  const both = call(CALLS.add, b, [CODE.concat, 2, ab, cd]);
  assert.equal(call(CALLS.isEmpty, b, [both]), 0);
  const p = call(CALLS.finish, b, [both]);
  const root = call(OF_PROGRAMS.root, p);
  const end = call(OF_PROGRAMS.derivative, p, [root, ...bytes("abcd")]);
  assert.equal(call(OF_PROGRAMS.isNullable, p, [end]), 1);
  assert.equal(call(OF_PROGRAMS.derivative, p, [root, ...bytes("ax")]), 0);
  assert.equal(call(OF_PROGRAMS.firstBytes, p, [root]), 0);
  assert.equal(answer(), "a");
  call(OF_PROGRAMS.shortest, p, [root, 16]);
  assert.equal(answer(), "\u0001abcd");
  call(CALLS.free, b);
  call(CALLS.free, p);
  refused("bad-handle", OF_PROGRAMS.root, p);
});

test("what one builder has recorded, another replays", () => {
  const b = builder(1);
  const ab = call(CALLS.add, b, literal("ab"));
  call(RECORDS.recorded, b, [call(CALLS.add, b, [CODE.concat, 2, ab, ab])]);
  const file = [...answerBytes()];
  const other = builder();
  const read = call(RECORDS.replay, other, file);
  assert.equal(call(CALLS.dump, other, [read]), 0);
  assert.equal(answer(), '"ab" "ab"');
  refused("saved-file", RECORDS.replay, other, file.slice(0, -1));
});

test("what makes no sense is refused with a code", () => {
  const b = builder();
  refused("bad-handle", CALLS.add, 12345, literal("a"));
  refused("bad-handle", CALLS.add, b, [CODE.concat, 1, 99]);
  refused("saved-file", CALLS.add, b, [CODE.literal, 9, 97]);
  refused("saved-file", CALLS.add, b, [200]);
  refused("saved-file", CALLS.add, b);
  refused("argument", 99, b);
  call(CALLS.finish, b, [1]);
  refused("builder-finished", CALLS.add, b, literal("a"));
  call(CALLS.free, b);
  assert.equal(wasm().exports.guiderail_lowering_program(777), -1);
});

test("a limit of work is kept, and given back", () => {
  call(CALLS.limitWork, 0, [50]);
  const before = bytes(answer());
  const b = builder();
  let refusals = 0;
  for (let i = 0; i < 500; ++i) refusals += call(CALLS.add, b, literal(`word ${i}`)) === -1 ? 1 : 0;
  assert.ok(refusals > 0 && answer().startsWith("work\0"));
  call(CALLS.restoreWork, 0, [255, 255, 255, 255, 255, 255, 255, 255, 255, 1, 0]);
  assert.notEqual(call(CALLS.add, b, literal("more")), -1, String(before));
  call(CALLS.free, b);
});

test("random calls get an answer or an error", () => {
  let seed = 20261;
  const random = (below) => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return Math.floor((seed / 2 ** 32) * below);
  };
  let b = builder();
  for (let i = 0; i < 30000; ++i) {
    const given = Array.from({ length: random(14) }, () => (random(3) ? random(12) : random(256)));
    if (random(2)) given[0] = 1 + random(31);
    const number = random(4) ? CALLS.add : 6 + random(20);
    const made = call(number, b, given);
    assert.ok(Number.isFinite(made) && made >= -1);
    if (made === -1) assert.match(answer(), /^[a-z][a-z0-9-]*\0./);
    if (number === CALLS.finish && made > 0) call(CALLS.free, made);
    if (random(200) === 0 || answer().startsWith("builder-finished")) {
      call(CALLS.free, b);
      b = builder();
    }
  }
});
