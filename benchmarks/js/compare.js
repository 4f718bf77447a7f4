// Compares guiderail.wasm with native guiderail, and with XGrammar's build for the web, in one process.
//
//  python tests/js/write_cases.py build/js-bench --rounds 3 --data maskbench.jsonl.gz --schemas 100 \
//    --tokenizer llama3/tokenizer.json
//  npm install --prefix build/npm @mlc-ai/web-xgrammar
//  node benchmarks/js/compare.js build/js-bench [build/npm]
//  python benchmarks/js/judge.py build/js-bench        # who is right where the two differ
//
// For each token of each text: the time of its mask and of reading it. Python recorded the native times. Each text is
// read up to the first token that an engine rejects. Times are compared over the tokens that both engines read.
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, resolve } from "node:path";

const ROUNDS = Number(process.env.ROUNDS ?? 3); // of each text, each with a new guide; the least time of a step counts

process.env.GUIDERAIL_JS_CASES = process.argv[2];
const { Guide, Program, load } = await import("../../bindings/js/src/index.js");
const { fromTokenizer, read, readJson } = await import("../../bindings/js/test/support.js");

const now = () => Number(process.hrtime.bigint()) / 1e3; // µs
const mean = (list) => list.reduce((a, b) => a + b, 0) / Math.max(list.length, 1);
const at = (sorted, share) => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? 0;
function row(name, list) {
  const sorted = Float64Array.from(list).sort();
  const figures = [mean(list), at(sorted, 0.5), at(sorted, 0.99), at(sorted, 0.999), sorted.at(-1) ?? 0];
  console.log(`${name.padEnd(34)}${figures.map((x) => x.toFixed(1).padStart(10)).join("")}${String(list.length).padStart(9)}`);
}

const cpu = () => (process.cpuUsage().user + process.cpuUsage().system) / 1e3; // ms
const begun = now();
await load();
const loaded = now();
const spent = cpu();
const { vocabularies, cases } = readJson("cases.json");
const vocabulary = fromTokenizer(vocabularies.main.tokenizer);
console.log(`module loaded in ${((loaded - begun) / 1e3).toFixed(0)} ms, `
  + `vocabulary of ${vocabulary.size} tokens ready in ${((now() - loaded) / 1e3).toFixed(0)} ms (${(cpu() - spent).toFixed(0)} ms of the processor)`);

const schemas = cases.filter((one) => one.schema !== null);
const rival = process.argv[3] ? await webXGrammar(process.argv[3]) : null;
const ours = { guide: [], step: [], both: [] };
const theirs = { guide: [], step: [], both: [], differ: [], verdicts: [], failed: [] };
const native = [];
for (const one of schemas) {
  const program = Program.fromFile(read(one.program));
  const rounds = [];
  for (let round = 0; round < ROUNDS; round++) {
    const from = now();
    const guide = new Guide(program, vocabulary);
    const made = now() - from;
    rounds.push({ made, texts: one.texts.map((text) => walk(guide, text.tokens)) });
    guide.free();
  }
  ours.guide.push(Math.min(...rounds.map((round) => round.made)));
  const mine = one.texts.map((_, i) => least(rounds.map((round) => round.texts[i])));
  const its = rival === null ? { failed: "not asked" } : await rivalRounds(one);
  if (its.failed && rival !== null) theirs.failed.push(`${one.name}: ${its.failed}`);
  if (its.microseconds) theirs.guide.push(its.microseconds);
  for (const [i, text] of one.texts.entries()) {
    if (mine[i].read !== text.accepted) throw new Error(`${one.name}, text ${i}: not what Python reads`);
    ours.step.push(...mine[i].times);
    native.push(...text.nanoseconds.map((time) => time / 1e3));
    if (its.failed) continue;
    theirs.step.push(...its.texts[i].times);
    const both = Math.min(mine[i].times.length, its.texts[i].times.length);
    ours.both.push(...mine[i].times.slice(0, both));
    theirs.both.push(...its.texts[i].times.slice(0, both));
    const who = mine[i].whole ? "only guiderail reads it all" : "only web-xgrammar reads it all";
    if (mine[i].whole !== its.texts[i].whole) theirs.differ.push(`${one.name}, text ${i}: ${who}`);
    theirs.verdicts.push({ name: one.name, text: i, ours: mine[i].whole, theirs: its.texts[i].whole });
  }
}

console.log(`\n${schemas.length} schemas; µs${" ".repeat(22)}      mean       p50       p99     p99.9       max   tokens`);
row("guiderail.wasm, mask + accept", ours.step);
row("guiderail, native (from Python)", native);
console.log(`${"  means: .wasm / native".padEnd(34)}${(mean(ours.step) / mean(native)).toFixed(2).padStart(10)}`);
row("guiderail.wasm, a guide", ours.guide);
if (rival !== null) {
  row("web-xgrammar, mask + accept", theirs.step);
  row("web-xgrammar, compile", theirs.guide);
  console.log(`${"  same tokens: theirs / ours".padEnd(34)}${(mean(theirs.both) / mean(ours.both)).toFixed(1).padStart(10)}`);
  console.log(`verdicts that differ: ${theirs.differ.length}; schemas that it refused: ${theirs.failed.length}`);
  writeFileSync(resolve(process.argv[2], "verdicts.json"), JSON.stringify(theirs.verdicts)); // for judge.py
  for (const line of [...theirs.differ, ...theirs.failed]) console.log(`  ${line.slice(0, 160)}`);
}

// The least time of each token over several rounds of a text.
function least(walks) {
  return { ...walks[0], times: walks[0].times.map((_, k) => Math.min(...walks.map((one) => one.times[k]))) };
}

// Compiled only once, which may take seconds.
async function rivalRounds(one) {
  const made = await rival.guide(one.schema);
  if (made.failed) return made;
  const texts = [];
  for (const text of one.texts) {
    const walks = [];
    for (let round = 0; round < ROUNDS; round++) walks.push(await rival.walk(made.compiled, text.tokens));
    texts.push(least(walks));
  }
  made.compiled.dispose();
  return { ...made, texts };
}

function walk(guide, list) {
  const matcher = guide.matcher();
  const bitmask = new Int32Array(vocabulary.bitmaskWords);
  const times = [];
  let count = 0;
  for (const token of list) {
    const start = now();
    matcher.fillNextTokenBitmask(bitmask);
    const taken = matcher.acceptToken(token);
    times.push(now() - start);
    if (!taken) break;
    count++;
  }
  matcher.free();
  return { times, read: count, whole: count === list.length };
}

async function webXGrammar(folder) {
  // This module is CommonJS inside a package of ES modules, so neither import nor require can read it.
  const file = resolve(folder, "node_modules/@mlc-ai/web-xgrammar/lib/index.js");
  const xgrammar = {};
  const run = new Function("exports", "module", "require", "__filename", "__dirname", readFileSync(file, "utf8"));
  run(xgrammar, { exports: xgrammar }, createRequire(file), file, dirname(file));
  const start = now();
  const json = JSON.parse(readFileSync(vocabularies.main.tokenizer));
  const encoded = [];
  for (const [text, id] of Object.entries(json.model.vocab)) encoded[id] = text;
  for (const { content, id } of json.added_tokens) encoded[id] = content;
  const info = await xgrammar.TokenizerInfo.createTokenizerInfo(
    Array.from(encoded, (text) => text ?? ""), "byte_level", false, vocabulary.size, vocabulary.stopTokenIds);
  const compiler = await xgrammar.GrammarCompiler.createGrammarCompiler(info, false);
  console.log(`web-xgrammar: vocabulary ready in ${((now() - start) / 1e3).toFixed(0)} ms`);
  return {
    async guide(schema) {
      const from = now();
      try {
        // Any whitespace; additional members as the schema says.
        const compiled = await compiler.compileJSONSchema(JSON.stringify(schema), true, undefined, undefined, false);
        return { compiled, microseconds: now() - from };
      } catch (error) {
        return { failed: String(error?.message ?? error) };
      }
    },
    async walk(compiled, list) {
      const matcher = await xgrammar.GrammarMatcher.createGrammarMatcher(compiled);
      const times = [];
      let count = 0;
      for (const token of list) {
        const start = now();
        await matcher.getNextTokenBitmask();
        const taken = matcher.acceptToken(token);
        times.push(now() - start);
        if (!taken) break;
        count++;
      }
      matcher.dispose();
      return { times, whole: count === list.length };
    },
  };
}
