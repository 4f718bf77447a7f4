"""The page of a record in a real browser: its contents, its use, and that hostile texts remain texts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import guiderail as gr
from browser import Browser, find_browser
from test_inspect import CONSTRAINTS, HOSTILE, LARK, SCHEMA, VOCABULARY, Toy, hostile_record

TEXT = "document.getElementById('text')"
SELECTED = "[...document.querySelectorAll('[aria-selected=true]')].map((e) => Number(e.dataset.at))"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    made = Browser(find_browser())
    yield made
    made.close()


def shown(browser: Browser, record: gr.inspect.Record, folder: Path, **how: object) -> gr.inspect.Record:
    record.to_html(folder / "page.html")
    browser.open(folder / "page.html", **how)
    assert browser.requests == [(folder / "page.html").resolve().as_uri()], "nothing is loaded but the page"
    assert browser.complaints == []
    return record


def test_what_a_token_says(browser: Browser, tmp_path: Path) -> None:
    record = shown(browser, gr.inspect.record(Toy(), "the prompt", CONSTRAINTS[1], temperature=1, seed=5), tmp_path)
    assert browser.run("document.querySelectorAll('#text [role=option]').length") == len(record.steps)
    assert "the prompt" in browser.run("document.getElementById('facts').innerText")
    for i, step in enumerate(record.steps):
        browser.click(f"#t{i}")
        assert browser.run(SELECTED) == [i]
        assert browser.run(f"{TEXT}.getAttribute('aria-activedescendant')") == f"t{i}"
        unseen = re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", lambda c: f"⟨U+{ord(c[0]):04X}⟩", step.why)
        assert browser.run("document.getElementById('why').textContent") == unseen
        detail = browser.run("document.getElementById('detail').innerText")
        assert f"{step.allowed:,} of {step.size:,} tokens" in detail
        assert all(words in detail for words in step.expected)
        assert ("Wanted, but not allowed" in detail) == (step.removed is not None)
        bold = browser.run("[...document.querySelectorAll('tr.taken')].length")
        assert bold == any(c.token == step.token for c in step.candidates)
        marked = browser.run("[...document.querySelectorAll('#source mark')].map((e) => e.textContent).join('|')")
        pattern, spans = record.source.text, step.place.spans if step.place else ()
        assert set(marked.replace("|", "")) == {c for a, b in spans for c in pattern[a:b]}


def test_the_places_of_a_schema_are_marked(browser: Browser, tmp_path: Path) -> None:
    constraint = gr.json_schema(SCHEMA)
    text = '{"tags":["a"],"shape":{"kind":"cube","e":"z"}}'
    record = shown(browser, gr.inspect.replay(constraint, text, vocabulary=VOCABULARY), tmp_path)
    at = next(i for i, s in enumerate(record.steps) if s.place is not None and s.place.instance == "/shape/e")
    browser.click(f"#t{at}")
    detail = browser.run("document.getElementById('detail').innerText")
    assert "/shape/e" in detail and "#/properties/shape/oneOf/1/properties/e" in detail and "#/$defs/tag" in detail
    marked = browser.run("[...document.querySelectorAll('#source mark')].map((e) => e.textContent.trim())")
    assert '"e": {' in marked and '"maxLength": 9' in marked and '"r": {' not in marked
    browser.press("Home")
    assert browser.run("JSON.parse(document.getElementById('source').textContent)") == SCHEMA, "marks leave the schema"


def test_the_terminals_of_a_grammar_are_marked(browser: Browser, tmp_path: Path) -> None:
    shown(browser, gr.inspect.replay(LARK, "(12+a)", vocabulary=VOCABULARY), tmp_path)
    browser.click("#t2")
    assert "Inside of a terminal: NUMBER" in browser.run("document.getElementById('detail').innerText")
    assert browser.run("[...document.querySelectorAll('#source mark')].map((e) => e.textContent)") == ["NUMBER"]


def test_the_keyboard(browser: Browser, tmp_path: Path) -> None:
    record = shown(browser, gr.inspect.record(Toy(), "p", CONSTRAINTS[3], temperature=2, seed=1), tmp_path)
    last = len(record.steps) - 1
    browser.run(f"{TEXT}.focus()")
    for key, at in (("Home", 0), ("ArrowLeft", 0), ("ArrowRight", 1), ("End", last), ("ArrowRight", last), ("Home", 0)):
        browser.press(key)
        assert browser.run(SELECTED) == [at], key
    overruled = [i for i, step in enumerate(record.steps) if step.preferred and i > 0]
    for at in overruled:
        browser.press("n")
        assert browser.run(SELECTED) == [at]
    browser.press("n")
    assert browser.run(SELECTED) == overruled[-1:], "there is no further one"
    browser.press("p")
    assert browser.run(SELECTED) == [max(i for i, s in enumerate(record.steps) if s.preferred and i < overruled[-1])]
    browser.press("Home")
    choice = [step.no_choice for step in record.steps]
    starts = [i for i in range(1, len(choice)) if choice[i] and not choice[i - 1]]
    browser.press("f")
    assert browser.run(SELECTED) == (starts or [0])[:1]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 360])
def test_it_can_be_read(browser: Browser, tmp_path: Path, dark: bool, width: int) -> None:
    shown(browser, gr.inspect.record(Toy(), "p", CONSTRAINTS[3]), tmp_path, dark=dark, width=width)
    assert browser.run("document.documentElement.scrollWidth") <= width, "nothing sticks out"
    contrast = """(() => {
      const canvas = document.createElement('canvas').getContext('2d');
      const luminance = (colour) => {
        canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
        const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3).map((v) => v / 255)
          .map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
      };
      const ground = (e) => { for (; e; e = e.parentElement) {
        const c = getComputedStyle(e).backgroundColor; if (c !== 'rgba(0, 0, 0, 0)') return c; } return 'white'; };
      return [...document.querySelectorAll('.token, h1, h2, h3, p, dt, dd, td, th, kbd, button, footer, .quiet')]
        .filter((e) => e.textContent.trim() && !e.disabled && e.getClientRects().length).map((e) => {
          const [a, b] = [luminance(getComputedStyle(e).color), luminance(ground(e))].sort((x, y) => y - x);
          return [(a + 0.05) / (b + 0.05), e.outerHTML.slice(0, 80)];
        }).sort((x, y) => x[0] - y[0])[0];
    })()"""
    ratio, element = browser.run(contrast)
    assert ratio >= 4.5, element  # WCAG 2.2, 1.4.3


def test_every_control_has_a_name(browser: Browser, tmp_path: Path) -> None:
    shown(browser, gr.inspect.record(Toy(), "p", CONSTRAINTS[3]), tmp_path)
    browser.call("Accessibility.enable")
    nodes = browser.call("Accessibility.getFullAXTree")["nodes"]
    roles = {"button", "combobox", "listbox", "option", "heading", "complementary", "table"}
    found = [(n["role"]["value"], n.get("name", {}).get("value", "")) for n in nodes if not n.get("ignored")]
    named = [(role, name) for role, name in found if role in roles - {"table"}]
    assert {role for role, _ in named} >= roles - {"table"}
    assert [role for role, name in named if not name.strip()] == []


@pytest.mark.parametrize("evil", HOSTILE)
def test_hostile_texts_stay_texts(browser: Browser, tmp_path: Path, evil: str) -> None:
    shown(browser, hostile_record(evil), tmp_path)
    assert browser.run("document.querySelectorAll('img, svg, b, iframe, object').length") == 0
    assert browser.run("document.querySelectorAll('script').length") == 2
    browser.run(f"{TEXT}.focus()")
    browser.press("End")
    assert browser.complaints == []
    letters = "".join(c for c in evil if c.isalnum() and c.isascii())
    facts = browser.run("document.getElementById('facts').textContent")
    assert letters in "".join(c for c in facts if c.isalnum() and c.isascii()).replace("UU", "") or "U+" in facts
    assert not any(c in browser.run("document.body.innerText") for c in "\u202e\u2028\x1b"), "nothing acts unseen"


def test_an_injected_script_would_not_run(browser: Browser, tmp_path: Path) -> None:
    made = gr.inspect.record(Toy(), "p", CONSTRAINTS[0]).to_html()
    attack = "<script>document.title = 'taken'</script><img src=x onerror=\"document.title = 'taken'\">"
    (tmp_path / "page.html").write_text(made.replace("<header>", attack + "<header>"), encoding="utf-8")
    browser.open(tmp_path / "page.html")
    assert "taken" not in browser.run("document.title")
    assert any("Content Security Policy" in line for line in browser.complaints)


def test_without_scripts_the_text_is_there(browser: Browser, tmp_path: Path) -> None:
    record = gr.inspect.record(Toy(), "p", CONSTRAINTS[1])
    record.to_html(tmp_path / "page.html")
    browser.open(tmp_path / "page.html", script=False)
    nodes = browser.call("DOM.getDocument", depth=-1)["root"]
    assert json.dumps(record.text)[1:-1] in json.dumps(nodes)


def test_five_thousand_tokens(browser: Browser, tmp_path: Path) -> None:
    text = json.dumps([{"n": i, "s": "x" * (i % 9)} for i in range(400)])
    schema = gr.json_schema({"items": {"properties": {"n": {"type": "integer"}, "s": {"type": "string"}}}})
    record = shown(browser, gr.inspect.replay(schema, text, vocabulary=VOCABULARY), tmp_path)
    assert len(record.steps) > 5000 and record.matched
    browser.run(f"{TEXT}.focus()")
    took = browser.run(
        "(() => { const from = performance.now(); for (let i = 0; i < 20; i++)"
        f"{TEXT}.dispatchEvent(new KeyboardEvent('keydown', {{key: 'ArrowRight'}}));"
        "return (performance.now() - from) / 20; })()"
    )
    assert browser.run(SELECTED) == [20]
    assert took < 100, "milliseconds a key"
    browser.press("End")
    assert browser.run(SELECTED) == [len(record.steps) - 1]
    assert browser.run(f"{TEXT}.scrollTop") > 0


def test_weights_and_what_looking_ahead_tells(browser: Browser, tmp_path: Path) -> None:
    made = gr.inspect.record(Toy(), "the prompt", gr.regex("[ab]{2}c?"), temperature=1, seed=5)
    record = shown(browser, made, tmp_path)
    told = 0
    for i, step in enumerate(record.steps):
        browser.click(f"#t{i}")
        detail = browser.run("document.getElementById('detail').innerText")
        assert ("Weight so far" in detail) == (step.log_weight is not None)
        ahead = step.exact is not None and step.after is not None and abs(step.exact - step.after) >= 0.005
        assert ("If it looked ahead" in detail) == ahead
        told += (step.log_weight is not None) + ahead
    assert told
