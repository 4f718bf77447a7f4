// Shows the engine's answers on the page. Users' texts are inserted as text, never as HTML.
const at = (id) => document.getElementById(id);

export function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

// Converts an offset in code points, as Python counts, to an offset in a JavaScript string.
function units(text, points) {
  let i = 0;
  for (const character of text) {
    if (points-- <= 0) break;
    i += character.length;
  }
  return i;
}

// Copies the text to the layer below the text field and marks the spans there. Spans are in code points.
function marks(layer, text, spans, kind) {
  layer.replaceChildren();
  let from = 0;
  for (const [start, end] of [...spans].sort((a, b) => a[0] - b[0])) {
    const low = Math.max(from, units(text, start)), high = Math.max(low, units(text, end));
    if (high === low) continue;
    layer.append(text.slice(from, low), element("mark", { className: kind, textContent: text.slice(low, high) }));
    from = high;
  }
  layer.append(text.slice(from) + "\n");
}

const visible = (text) => text.replaceAll("\n", "↵").replaceAll("\t", "⇥");

// Returns whether the constraint can be used.
export function showConstraint(source, answer) {
  const says = at("constraint-says");
  says.replaceChildren();
  at("constraint").setAttribute("aria-invalid", String(!answer.ok));
  if (!answer.ok) {
    const { message, code, span } = answer.error;
    marks(at("constraint-marks"), source, span ? [widened(source, span)] : [], "bad");
    const where = span ? place(source, span[0]) : "";
    says.append(element("span", { className: "error", textContent: where + message }), " ",
      element("code", { textContent: `[${code}]` }));
    for (const [pointer, value] of answer.error.conflict ?? [])
      says.append("\n", element("code", { textContent: `${pointer}: ${value}` }));
    at("verdict").className = "pill";
    at("verdict").textContent = "no constraint";
    for (const id of ["fault", "forced-row", "place-row", "examples-row"]) at(id).hidden = true;
    at("expected").replaceChildren();
    marks(at("text-marks"), at("text").value, [], "bad");
    return false;
  }
  marks(at("constraint-marks"), source, [], "bad");
  for (const warning of answer.warnings)
    says.append(element("span", { className: "warning", textContent: warning + "\n" }));
  const notation = answer.notation ? `Read as ${answer.notation}. ` : "";
  says.append(`${notation}${answer.nodes.toLocaleString("en")} expressions.`);
  return true;
}

function widened(source, [start, end]) {
  const size = [...source].length;
  if (end > start && start < size) return [start, end];
  return [Math.max(0, Math.min(start, size - 1)), size];
}
function place(source, point) {
  const before = source.slice(0, units(source, point)).split("\n");
  return `line ${before.length}, column ${[...before.at(-1)].length + 1}: `;
}

// Returns the forced text.
export function showText(text, source, answer, insert, replace) {
  const verdict = at("verdict"), fault = at("fault");
  if (!answer.ok) {
    verdict.className = "pill bad";
    verdict.textContent = answer.error?.message ?? "no answer";
    return "";
  }
  const failed = answer.failed_at !== null;
  const points = [...text];
  marks(at("text-marks"), text, failed ? [[answer.failed_at, points.length]] : [], "bad");
  verdict.className = `pill ${failed ? "bad" : answer.accepting ? "good" : ""}`;
  verdict.textContent = failed ? "does not fit" : answer.complete ? "complete" : answer.accepting ? "may end here" : "fits so far";
  at("text").setAttribute("aria-invalid", String(failed));

  fault.hidden = !failed;
  if (failed) {
    const found = answer.failed_at < points.length ? `“${visible(points[answer.failed_at])}”` : "The end of the text";
    const hint = answer.hint ? ` ${answer.hint}.` : "";
    fault.textContent = `${found} at ${place(text, answer.failed_at).slice(0, -2)} does not fit.${hint}`;
  }
  at("next-title").textContent = failed ? "What could stand there" : "What may come next";
  const words = answer.expected.map((one) => element("li", { textContent: one }));
  if (answer.accepting) words.push(element("li", { textContent: "the end of the text", className: "end" }));
  if (!words.length) words.push(element("li", { textContent: "nothing: no text is allowed" }));
  at("expected").replaceChildren(...words);

  at("forced-row").hidden = !answer.forced;
  if (answer.forced) {
    at("forced").textContent = visible(answer.forced);
    at("forced").onclick = () => insert(answer.forced);
  }
  showPlace(answer.place, source, answer.schema_span);
  at("examples-row").hidden = !answer.examples.length;
  at("completions").replaceChildren(...answer.examples.map((one) =>
    element("li", {}, element("button", { type: "button", textContent: one, onclick: () => replace(one) }))));
  return answer.forced;
}

function showPlace(place, source, span) {
  const lines = [];
  const code = (text) => element("code", { textContent: text });
  if (place) {
    if (place.instance !== undefined && place.instance !== null)
      lines.push(element("li", {}, `${place.role || "a value"} at `, code(place.instance || "the root")));
    for (const one of place.schema ?? []) lines.push(element("li", {}, "schema ", code(one)));
    for (const one of (place.possible ?? []).slice(0, 6)) lines.push(element("li", {}, "possibly ", code(one)));
    for (const one of (place.rules ?? []).slice(0, 6)) lines.push(element("li", {}, "rules ", code(one.join(" › "))));
    if (place.terminals?.length)
      lines.push(element("li", {}, place.inside ? "inside " : "terminals ", code(place.terminals.join(", "))));
    if (place.rest) lines.push(element("li", {}, "remaining ", code(place.rest)));
  }
  marks(at("constraint-marks"), source, place?.spans ?? (span ? [span] : []), "");
  at("place-row").hidden = !lines.length;
  at("place").replaceChildren(...lines);
}
