// Lets the model write under the constraint: wllama computes the logits, the engine the masks.
import { element } from "./show.js";

const at = (id) => document.getElementById(id);
const SHOWN = 8; // candidates in the table of a token
const MOST_TOKENS = 300;

let wllama = null; // set once it is loaded
let stop = false, writing = false;
let steps = [];

export function setUpModel(engine, replaceText) {
  const write = at("write"), temperature = at("temperature");
  temperature.addEventListener("input", () => (at("temperature-value").textContent = temperature.value));
  fetch("./contents.json")
    .then((response) => response.json())
    .then(({ model }) => {
      at("model").hidden = !model;
    });
  write.addEventListener("click", async () => {
    if (writing) {
      stop = true;
      return;
    }
    writing = true;
    stop = false;
    write.textContent = "Stop";
    try {
      await run(engine, replaceText);
    } catch (error) {
      say(`The model stopped: ${error.message}`);
    }
    writing = false;
    write.textContent = "Write";
  });
  at("prompt").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !write.disabled && !writing) write.click();
  });
  at("tokens").addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, Home: -steps.length, End: steps.length }[event.key];
    if (step === undefined || !steps.length) return;
    event.preventDefault();
    select(Math.max(0, Math.min(steps.length - 1, selected + step)));
  });
}

const say = (text) => (at("model-says").textContent = text);

async function load(engine) {
  if (wllama) return;
  say("Loading the model …");
  const { Wllama, LoggerWithoutDebug } = await import("./wllama/index.js");
  const here = (name) => new URL(`./wllama/${name}`, import.meta.url).href;
  const made = new Wllama(
    { "single-thread/wllama.wasm": here("single-thread.wasm"), "multi-thread/wllama.wasm": here("multi-thread.wasm") },
    { suppressNativeLog: true, logger: LoggerWithoutDebug },
  );
  const response = await fetch(new URL("./model/model.gguf", import.meta.url));
  if (!response.ok) throw new Error(`the model's file is missing (${response.status})`);
  await made.loadModel([await withProgress(response)], { n_ctx: 2048 });
  const { tokens, stops } = await engine.ask("tokens");
  wllama = { made, tokens, stops: new Set(stops) };
}

async function withProgress(response) {
  const total = Number(response.headers.get("Content-Length")) || 0;
  const reader = response.body.getReader(), parts = [];
  let got = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return new Blob(parts);
    parts.push(value);
    got += value.length;
    if (total) say(`Loading the model … ${Math.round((100 * got) / total)} %`);
  }
}

async function run(engine, replaceText) {
  await load(engine);
  const { made, tokens, stops } = wllama;
  say("Reading the prompt …");
  steps = [];
  selected = -1;
  at("tokens").replaceChildren();
  at("token").hidden = true;
  at("tokens").hidden = false;
  const prompt = await made.formatChat([{ role: "user", content: at("prompt").value }], true);
  await made.kvClear();
  await made.samplingInit({ temp: 0 });
  await engine.ask("begin");
  await made.decode(await made.tokenize(prompt, true), {});
  const decoder = new TextDecoder(), began = performance.now();
  let text = "", spent = 0;
  while (steps.length < MOST_TOKENS && !stop) {
    const logits = await made.getLogits(-1); // {token, p}, the most likely first
    const { mask, count, milliseconds } = await engine.ask("mask", { left: MOST_TOKENS - steps.length });
    spent += milliseconds;
    const step = choose(logits, mask, count, Number(at("temperature").value));
    if (step.token < 0 || stops.has(step.token)) {
      step.text = "end of text";
      addStep(step, "■");
      break;
    }
    const more = decoder.decode(tokens[step.token], { stream: true });
    text += more;
    step.text = more;
    addStep(step, more);
    await engine.ask("accept", { token: step.token });
    await made.decode([step.token], {});
    say(`${steps.length} tokens, ${((1000 * steps.length) / (performance.now() - began)).toFixed(1)} per second`);
  }
  const changed = steps.filter((step) => step.changed).length;
  const why = stop ? "Stopped. " : "";
  say(
    `${why}${steps.length} tokens, ${((1000 * steps.length) / (performance.now() - began)).toFixed(1)} per second, ` +
      `${(spent / Math.max(1, steps.length)).toFixed(2)} ms per mask. The mask changed ${changed} of them: ` +
      "select a token to see what it removed.",
  );
  replaceText(text);
  at("model").dataset.wrote = text;
}

// Chooses the token to write, and keeps what the page shows of the choice.
function choose(logits, mask, count, temperature) {
  const allowed = (token) => (mask[token >> 5] >>> (token & 31)) & 1;
  let removed = 0, kept = 0, best = -1, firstAllowed = null;
  for (const { token, p } of logits) {
    if (allowed(token)) {
      kept += p;
      firstAllowed ??= { token, p };
    } else removed += p;
  }
  if (firstAllowed && temperature > 0) {
    const weights = logits.filter(({ token }) => allowed(token)).map(({ token, p }) => [token, p ** (1 / temperature)]);
    let at = Math.random() * weights.reduce((sum, [, weight]) => sum + weight, 0);
    best = weights.find(([, weight]) => (at -= weight) <= 0)?.[0] ?? weights[0][0];
  } else best = firstAllowed?.token ?? -1;
  const shown = logits.slice(0, SHOWN).map(({ token, p }) => ({ token, p, allowed: Boolean(allowed(token)) }));
  if (best >= 0 && !shown.some(({ token }) => token === best)) {
    const taken = logits.find(({ token }) => token === best);
    shown.push({ token: best, p: taken.p, allowed: true });
  }
  return { token: best, shown, removed, kept, count, changed: logits.length > 0 && !allowed(logits[0].token) };
}

// -- tokens on the page ------------------------------------------------------------------------------------------
let selected = -1;
const spelled = (token) => {
  if (wllama.stops.has(token)) return "end of text";
  const text = new TextDecoder().decode(wllama.tokens[token]);
  return text.replaceAll("\n", "↵").replaceAll("\t", "⇥").replaceAll(" ", "␣") || "(nothing)";
};
const percent = (p) => (p >= 0.0995 ? `${(100 * p).toFixed(1)} %` : p >= 0.0001 ? `${(100 * p).toFixed(2)} %` : "< 0.01 %");

function addStep(step, text) {
  const number = steps.push(step) - 1;
  const kind = step.count === 1 ? "forced" : step.changed ? "changed" : "";
  const one = element("span", { className: kind, textContent: text, id: `token-${number}` });
  one.setAttribute("role", "option");
  one.setAttribute("aria-selected", "false");
  one.addEventListener("click", () => select(number));
  at("tokens").append(one);
  at("tokens").scrollTop = at("tokens").scrollHeight;
}

function select(number) {
  if (selected >= 0) at(`token-${selected}`)?.setAttribute("aria-selected", "false");
  selected = number;
  const one = at(`token-${number}`), step = steps[number];
  one.setAttribute("aria-selected", "true");
  one.scrollIntoView({ block: "nearest" });
  at("tokens").setAttribute("aria-activedescendant", one.id);
  const head = element("tr", {}, ...["token", "the model alone", ""].map((name) => element("th", { textContent: name })));
  const rows = step.shown.map(({ token, p, allowed }) => {
    const bar = element("span", { className: "bar-of" });
    bar.style.width = `${Math.max(0.5, 100 * p)}%`;
    const what = token === step.token ? "written" : allowed ? "allowed" : "removed by the mask";
    const kind = token === step.token ? "taken" : allowed ? "" : "removed";
    return element("tr", { className: kind }, element("td", {}, element("code", { textContent: spelled(token) })),
      element("td", {}, bar), element("td", { textContent: `${percent(p)} ${what}` }));
  });
  const words = `${step.count.toLocaleString("en")} of ${wllama.tokens.length.toLocaleString("en")} tokens allowed; ` +
    `the mask removed ${percent(step.removed)} of the probability.`;
  at("token").replaceChildren(element("p", { textContent: words }), element("table", {}, head, ...rows));
  at("token").hidden = false;
}
