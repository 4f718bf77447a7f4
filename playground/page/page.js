// The page: sends what is typed to the engine, and shows the answers.
import { engine } from "./ask.js";
import { EXAMPLES } from "./examples.js";
import { showText, showConstraint, element } from "./show.js";
import { setUpModel } from "./writing.js";

const at = (id) => document.getElementById(id);
const constraint = at("constraint"), text = at("text"), picker = at("example");
const kindNow = () => document.querySelector('input[name="kind"]:checked').value;
const order = at("order"), notation = at("notation");
let forced = "";
let good = false; // whether there is a usable constraint

function optionsNow(kind) {
  if (kind === "schema") return order.checked ? { property_order: "declared" } : {};
  return kind === "grammar" && notation.value ? { syntax: notation.value } : {};
}
function showOptions() {
  at("order-row").hidden = kindNow() !== "schema";
  at("notation-row").hidden = kindNow() !== "grammar";
}

// -- questions: only the newest waits; it replaces older ones ----------------------------------------------------
function newest(ask) {
  let busy = false, again = false;
  return async function run() {
    if (busy) {
      again = true;
      return;
    }
    busy = true;
    do {
      again = false;
      await ask();
    } while (again);
    busy = false;
  };
}

const look = newest(async () => {
  if (!good) return;
  const asked = text.value, began = performance.now();
  const answer = await engine.ask("look", { text: asked });
  if (text.value !== asked || !good) return;
  forced = showText(asked, constraint.value, answer, insert, replace);
  document.body.dataset.looked = asked;  // for tests: the text with this number was answered
  tell("text", performance.now() - began);
});

const read = newest(async () => {
  const asked = constraint.value, kind = kindNow(), began = performance.now();
  const answer = await engine.ask("read", { kind, text: asked, options: optionsNow(kind) });
  if (constraint.value !== asked || kindNow() !== kind) return;
  good = showConstraint(asked, answer);
  at("write").disabled = !good;
  document.body.dataset.read = String(good);
  tell("constraint", performance.now() - began);
  keep();
  if (good) await look();
});

const took = { constraint: 0, text: 0 };
function tell(what, milliseconds) {
  took[what] = milliseconds;
  at("took").textContent =
    `The constraint took ${took.constraint.toFixed(0)} ms, the text ${took.text.toFixed(0)} ms.`;
}

// -- editing -----------------------------------------------------------------------------------------------------
function insert(what) {
  text.focus();
  text.setSelectionRange(text.value.length, text.value.length);
  text.value += what;
  look();
}
function replace(what) {
  text.value = what;
  text.focus();
  look();
}

for (const [editor, marks] of [[constraint, at("constraint-marks")], [text, at("text-marks")]])
  editor.addEventListener("scroll", () => {
    marks.scrollTop = editor.scrollTop;
    marks.scrollLeft = editor.scrollLeft;
  });
constraint.addEventListener("input", () => {
  picker.selectedIndex = 0;
  read();
});
for (const one of [order, notation]) one.addEventListener("change", read);
text.addEventListener("input", () => {
  keep();
  look();
});
text.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && event.altKey && forced) {
    event.preventDefault();
    insert(forced);
  }
});
at("clear").addEventListener("click", () => replace(""));

// -- examples, and the URL, which contains the state of the page ------------------------------------------------
function fillPicker() {
  picker.replaceChildren(element("option", { value: "", textContent: "Examples …", disabled: true }));
  EXAMPLES.forEach((one, i) => {
    if (one.kind === kindNow()) picker.append(element("option", { value: i, textContent: one.name }));
  });
}
function show(example) {
  document.querySelector(`input[name="kind"][value="${example.kind}"]`).checked = true;
  fillPicker();
  constraint.value = example.source;
  text.value = example.text ?? "";
  const given = example.options ?? {};
  order.checked = example.kind !== "schema" || given.property_order === "declared";
  notation.value = given.syntax ?? "";
  showOptions();
  if (example.prompt) at("prompt").value = example.prompt;
  picker.value = String(EXAMPLES.indexOf(example));
  if (picker.selectedIndex < 0) picker.selectedIndex = 0;
  return read();
}
for (const radio of document.querySelectorAll('input[name="kind"]'))
  radio.addEventListener("change", () => show(EXAMPLES.find((one) => one.kind === radio.value)));
picker.addEventListener("change", () => show(EXAMPLES[Number(picker.value)]));

let keeping = 0;
function keep() {
  clearTimeout(keeping);
  keeping = setTimeout(() => {
    const state = { kind: kindNow(), source: constraint.value, text: text.value, options: optionsNow(kindNow()) };
    const packed = JSON.stringify(state);
    if (packed.length < 8000) history.replaceState(null, "", `#${encodeURIComponent(packed)}`);
  }, 400);
}
function kept() {
  try {
    const state = JSON.parse(decodeURIComponent(location.hash.slice(1)));
    if (["schema", "regex", "grammar"].includes(state.kind) && typeof state.source === "string") return state;
  } catch {
    // no state, or another program's
  }
  return null;
}

// -- light and dark ----------------------------------------------------------------------------------------------
const root = document.documentElement;
if (localStorage.getItem("theme")) root.dataset.theme = localStorage.getItem("theme");
at("theme").addEventListener("click", () => {
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  localStorage.setItem("theme", root.dataset.theme);
});

// -- begin -------------------------------------------------------------------------------------------------------
const began = performance.now();
fillPicker();
setUpModel(engine, replace);
const first = kept() ?? EXAMPLES[0];
constraint.value = first.source;
engine
  .ask("ready")
  .then(() => show(first))
  .then(() => {
    at("status").textContent = `Ready in ${((performance.now() - began) / 1000).toFixed(1)} s`;
    document.body.dataset.ready = "true";
  })
  .catch((error) => {
    at("status").textContent = `Could not start: ${error.message}`;
    document.body.dataset.ready = "failed";
  });
