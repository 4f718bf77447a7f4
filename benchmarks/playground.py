"""Measures the playground in a headless browser: loading, and a key in the text and in the constraint.

    make playground-files && python benchmarks/playground.py

Times are by the page's own clock, from the key to the answer on the page. The examples are those of the README.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import sys
import threading
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from browser import Browser, find_browser  # noqa: E402

FLIGHT = {
    "type": "object",
    "properties": {
        "mission": {"type": "string", "pattern": "^Apollo 1[0-7]$"},
        "commander": {"type": "string", "pattern": "^[A-Z][a-z]+ [A-Z][a-z]+$"},
        "launch": {"type": "string", "format": "date"},
    },
    "required": ["mission", "commander", "launch"],
}
EXAMPLES = [
    ("schema", (ROOT / "examples/person.json").read_text(), '{"name": "Mario Dias", "born": "1990-02-03"'),
    ("schema", '{"type": "integer", "minimum": 1, "maximum": 65535, "not": {"enum": [22, 80]}}', "8080"),
    ("schema", json.dumps(FLIGHT, indent=2), '{"mission": "Apollo 11", "commander": "Neil Armstrong", "launch": "1969'),
    ("regex", "[A-Z][a-z]+(,? [a-z]+){4,12}[.]", "The sea is a vast and mysterious realm."),
    ("grammar", 'root ::= root "+" term | term\nterm ::= [0-9]+ | "(" root ")"', "1+(2+3)"),
]
# Waits for a mark of the page, and returns the time since the page began to load.
WHEN = """
const when = (mark, value) => new Promise((done) => {
  const there = () => document.body.dataset[mark] === value;
  const look = () => there() && (watch.disconnect(), done(performance.now()));
  const watch = new MutationObserver(look);
  watch.observe(document.body, { attributes: true });
  look();
});
const type = async (field, mark, value, shown) => {
  delete document.body.dataset[mark];
  const at = document.getElementById(field), begun = performance.now();
  at.value = value;
  at.dispatchEvent(new Event("input"));
  return (await when(mark, shown)) - begun;
};
"""


def run(browser: Browser, code: str, given: Any = None) -> Any:
    return browser.run(f"(async (given) => {{{WHEN}{code}}})({json.dumps(given)})")


def keys(browser: Browser, kind: str, source: str, text: str) -> tuple[list[float], list[float]]:
    """Returns the ms of each key of the text, and of adding and removing a blank at the end of the constraint."""
    browser.run(f"document.querySelector('input[value={kind}]').click()")
    run(browser, "await type('constraint', 'read', given, 'true')", source)
    each = "const out = []; for (const value of given) out.push(await type({}, value, {})); return out"
    beginnings = [text[:length] for length in range(len(text) + 1)]
    of_text = run(browser, each.format("'text', 'looked'", "value"), beginnings)
    of_source = run(browser, each.format("'constraint', 'read'", "'true'"), [source + " ", source] * 5)
    return of_text, of_source


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--built", type=Path, default=ROOT / "build/playground")
    parser.add_argument("--rounds", type=int, default=5, help="number of page loads")
    given = parser.parse_args()
    spec = importlib.util.spec_from_file_location("playground_build", ROOT / "playground/build.py")
    assert spec is not None and spec.loader is not None
    build = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(build)
    server = build.serve(given.built, 0)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    browser = Browser(find_browser())
    loads = []
    for _ in range(given.rounds):
        browser.open("about:blank")
        browser.open(f"http://127.0.0.1:{server.server_address[1]}/")
        loads.append(run(browser, "return when('ready', 'true')") / 1e3)
    print(f"ready after {min(loads):.1f} s at least, {statistics.median(loads):.1f} s in the median of {len(loads)}")
    print(f"{'a key, ms':46}{'median':>8}{'most':>8}   in the constraint{'median':>8}{'most':>8}")
    for kind, source, text in EXAMPLES:
        found, others = keys(browser, kind, source, text)
        name = f"{kind}: {' '.join(source.split())[:36]}"
        print(
            f"{name:46}{statistics.median(found):8.1f}{max(found):8.1f}{statistics.median(others):28.1f}{max(others):8.1f}"
        )
    assert browser.complaints == [], browser.complaints
    browser.close()
    server.shutdown()


if __name__ == "__main__":
    main()
