// guiderail.wasm beside native guiderail, and beside XGrammar's build for the web, in one process.
//
//   python tests/js/write_cases.py build/js-bench --data maskbench.jsonl.gz --schemas 100 --tokenizer llama3/tokenizer.json
//   npm install --prefix build/npm @mlc-ai/web-xgrammar
//   node benchmarks/js/compare.js build/js-bench [build/npm]
//
// For each token of each text: its mask, and reading it. Native times are those that Python wrote down. Texts up to the
// first token that an engine refuses; times of both engines are compared over the tokens that both have read.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

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

const begun = now();
await load();
const loaded = now();
const { vocabularies, cases } = readJson("cases.json");
const vocabulary = fromTokenizer(vocabularies.main.tokenizer);
console.log(`module loaded in ${((loaded - begun) / 1e3).toFixed(0)} ms, `
  + `vocabulary of ${vocabulary.size} tokens ready in ${((now() - loaded) / 1e3).toFixed(0)} ms`);

const schemas = cases.filter((one) => one.schema !== null);
const rival = process.argv[3] ? await webXGrammar(process.argv[3]) : null;
const ours = { guide: [], step: [], both: [] };
const theirs = { guide: [], step: [], both: [], differ: [], failed: [] };
let native = 0;
let tokens = 0;
for (const one of schemas) {
  const from = now();
  const guide = new Guide(Program.fromFile(read(one.program)), vocabulary);
  ours.guide.push(now() - from);
  const other = rival === null ? null : await rival.guide(one.schema);
  if (other?.failed) theirs.failed.push(`${one.name}: ${other.failed}`);
  if (other?.microseconds) theirs.guide.push(other.microseconds);
  for (const [i, text] of one.texts.entries()) {
    const mine = walk(guide, text.tokens);
    if (mine.read !== text.accepted) throw new Error(`${one.name}, text ${i}: not what Python reads`);
    ours.step.push(...mine.times);
    native += text.nanoseconds / 1e3;
    tokens += mine.times.length;
    if (!other?.compiled) continue;
    const its = await rival.walk(other.compiled, text.tokens);
    theirs.step.push(...its.times);
    const both = Math.min(mine.times.length, its.times.length);
    ours.both.push(...mine.times.slice(0, both));
    theirs.both.push(...its.times.slice(0, both));
    if (mine.whole !== its.whole) theirs.differ.push(`${one.name}, text ${i}: ${mine.whole ? "only ours" : "only theirs"}`);
  }
  guide.free();
}

console.log(`\n${schemas.length} schemas; µs${" ".repeat(22)}      mean       p50       p99     p99.9       max   tokens`);
row("guiderail.wasm, mask + accept", ours.step);
console.log(`${"guiderail, native (from Python)".padEnd(34)}${(native / tokens).toFixed(1).padStart(10)}`);
console.log(`${"  .wasm / native".padEnd(34)}${(mean(ours.step) / (native / tokens)).toFixed(2).padStart(10)}`);
row("guiderail.wasm, a guide", ours.guide);
if (rival !== null) {
  row("web-xgrammar, mask + accept", theirs.step);
  row("web-xgrammar, compile", theirs.guide);
  console.log(`${"  same tokens: theirs / ours".padEnd(34)}${(mean(theirs.both) / mean(ours.both)).toFixed(1).padStart(10)}`);
  console.log(`verdicts that differ: ${theirs.differ.length}; schemas that it refused: ${theirs.failed.length}`);
  for (const line of [...theirs.differ, ...theirs.failed].slice(0, 60)) console.log(`  ${line.slice(0, 160)}`);
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
  const file = pathToFileURL(join(folder, "node_modules/@mlc-ai/web-xgrammar/lib/index.js"));
  const xgrammar = await import(file.href);
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
        // Compact, as its strict mode would refuse members that a schema leaves open.
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
