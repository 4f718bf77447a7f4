"""The playground in a real browser: every example, faults with their locations, texts that validate, keys, phones.

It needs the folder that ``make playground`` builds.
"""

from __future__ import annotations

import importlib.util
import json
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import guiderail as gr
from browser import Browser, find_browser

ROOT = Path(__file__).resolve().parent.parent
BUILT = ROOT / "build" / "playground"
NOTHING = {"constraint": "", "text": "not yet"}  # the page's record before the first answer
WAIT = 120  # seconds, on a busy machine

# fmt: off
SCHEMAS: list[Any] = [
    {"type": "integer", "minimum": 10, "maximum": 12}, {"type": "number", "multipleOf": 0.25, "minimum": 1},
    {"type": "string", "pattern": "^[a-z]+-[0-9]{2}$"}, {"type": "string", "format": "date", "pattern": "^20"},
    {"type": "string", "format": "email"}, {"type": "string", "format": "uuid"}, {"type": "string", "format": "ipv4"},
    {"type": "boolean"}, {"enum": ["a", 2, None, [1]]}, {"const": {"a": [1, 2]}},
    {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 3},
    {"type": "array", "items": {"enum": [1, 2, 3]}, "uniqueItems": True, "minItems": 3},
    {"type": "array", "contains": {"const": 7}, "items": {"type": "integer"}, "minContains": 2, "maxItems": 4},
    {"type": "array", "prefixItems": [{"type": "string"}, {"type": "null"}], "items": False, "minItems": 2},
    {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}}, "required": ["a", "b"]},
    {"type": "object", "patternProperties": {"^x-": {"type": "boolean"}}, "additionalProperties": False,
     "minProperties": 2},
    {"type": "object", "properties": {"k": {"enum": ["a", "b"]}}, "required": ["k"],
     "if": {"properties": {"k": {"const": "a"}}}, "then": {"required": ["n"]}, "else": {"required": ["m"]}},
    {"oneOf": [{"type": "integer", "multipleOf": 3}, {"type": "integer", "multipleOf": 5}]},
    {"$defs": {"t": {"type": "object", "properties": {"v": {"type": "integer"}, "l": {"$ref": "#/$defs/t"}},
                     "required": ["v"], "additionalProperties": False}}, "$ref": "#/$defs/t"},
    {"allOf": [{"type": "string", "minLength": 4}, {"pattern": "^[ab]*$"}], "not": {"const": "aaaa"}},
]
# fmt: on


def load_build() -> Any:
    spec = importlib.util.spec_from_file_location("playground_build", ROOT / "playground" / "build.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def page() -> Iterator[Browser]:
    if not (BUILT / "snapshot.bin").is_file():
        pytest.skip("the playground is not built: make playground-files")
    server = load_build().serve(BUILT, 0)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    browser = Browser(find_browser())
    browser.address = f"http://127.0.0.1:{server.server_address[1]}/"  # type: ignore[attr-defined]
    opened(browser)
    yield browser
    browser.close()
    server.shutdown()


def opened(browser: Browser, **how: Any) -> None:
    browser.open(browser.address, **how)  # type: ignore[attr-defined]
    until(browser, "document.body.dataset.ready")
    assert browser.run("document.body.dataset.ready") == "true", browser.run("document.body.innerText")
    assert browser.complaints == []


def until(browser: Browser, code: str, seconds: float = WAIT) -> Any:
    """Returns the value of an expression in the page as soon as it is true."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = browser.run(code)
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"{code} never came true: {browser.run('document.body.innerText')[:2000]}")


def ask(browser: Browser, question: str, **given: Any) -> Any:
    """Queries the engine through the page's own module."""
    code = f"import('./ask.js').then(({{engine}}) => engine.ask({json.dumps(question)}, {json.dumps(given)}))"
    return browser.run(code)


def typed(browser: Browser, field: str, text: str) -> None:
    """Pastes into a text field; the page gets the event, and earlier answers are dropped."""
    element = f"document.getElementById({json.dumps(field)})"
    browser.run(
        f"document.body.dataset.{'read' if field == 'constraint' else 'looked'} = {NOTHING[field]!r};"
        f"{element}.value = {json.dumps(text)}; {element}.dispatchEvent(new Event('input'))"
    )


def choose(browser: Browser, kind: str, source: str, text: str = "") -> None:
    browser.run(f"document.querySelector('input[value={kind}]').click()")
    typed(browser, "constraint", source)
    until(browser, "document.body.dataset.read")
    typed(browser, "text", text)
    if browser.run("document.body.dataset.read") == "true":
        until(browser, f"document.body.dataset.looked === {json.dumps(text)}")


def shown(browser: Browser, element: str) -> str:
    value = browser.run(f"document.getElementById({json.dumps(element)}).innerText")
    assert isinstance(value, str)
    return value


@pytest.mark.parametrize("number", range(len(SCHEMAS)))
def test_texts_written_in_the_page_validate(page: Browser, number: int) -> None:
    from jsonschema import Draft202012Validator, FormatChecker

    schema = SCHEMAS[number]
    judge = Draft202012Validator(schema, format_checker=FormatChecker())
    choose(page, "schema", json.dumps(schema))
    texts = page.run("[...document.querySelectorAll('#completions button')].map((e) => e.textContent)")
    assert texts
    for text in texts[:2]:
        typed(page, "text", text)
        until(page, f"document.body.dataset.looked === {json.dumps(text)}")
        assert shown(page, "verdict") in ("complete", "may end here")
        judge.validate(json.loads(text))
    assert page.complaints == []


def test_what_the_page_answers_is_what_the_library_says(page: Browser) -> None:
    constraints = [("schema", json.dumps(one), gr.json_schema(one)) for one in SCHEMAS[::3]]
    constraints += [("regex", one, gr.regex(one)) for one in (r"(ab|cd)+\d{2}", r"(?=.*1)[a-z1]{3}", "[^é]*é")]
    lark = 'start: NAME "=" (NUMBER | NAME)\nNAME: /[a-z]+/\nNUMBER: /[0-9]+/\n%ignore " "'
    constraints.append(("grammar", lark, gr.grammar(lark)))
    for kind, source, constraint in constraints:
        assert ask(page, "read", kind=kind, text=source)["ok"]
        for text in ("", "a", "ab", "abcd1", '"', '{"', "[1", "x = 1", "1", "éa"):
            told, answer = constraint.explain(text), ask(page, "look", text=text)
            assert answer["failed_at"] == told.failed_at and answer["accepting"] == told.accepting, (source, text)
            assert answer["expected"] == list(told.expected) and answer["forced"] == told.forced


FAULTS = [
    ("schema", '{"type": "strin"}', '"strin"'),
    ("schema", '{"type": ', "}"),
    ("regex", "a(b", "("),
    ("grammar", 'root ::= "a" nothing', "nothing"),
]


@pytest.mark.parametrize(("kind", "source", "marked"), FAULTS)
def test_a_fault_in_a_constraint_is_marked(page: Browser, kind: str, source: str, marked: str) -> None:
    choose(page, kind, source)
    assert page.run("document.body.dataset.read") == "false"
    marks = page.run("[...document.querySelectorAll('#constraint-marks mark')].map((e) => e.textContent)")
    assert [one for one in marks if one in marked or marked in one] or marked == "}"
    assert re.search(r"line 1, column \d+", shown(page, "constraint-says"))
    assert page.run("document.getElementById('constraint').getAttribute('aria-invalid')") == "true"
    assert page.complaints == []


def test_a_fault_in_a_text_is_marked(page: Browser) -> None:
    choose(page, "schema", '{"properties": {"a": {"type": "integer"}}, "required": ["a"]}', '{"a": x}')
    assert shown(page, "verdict") == "does not fit"
    assert "“x” at line 1, column 7" in shown(page, "fault")
    assert page.run("document.querySelector('#text-marks mark').textContent") == "x}"
    assert "#/properties/a" in shown(page, "place")
    assert page.run("document.querySelector('#constraint-marks mark').textContent") == '{"type": "integer"}'


def test_all_examples(page: Browser) -> None:
    for kind in ("schema", "regex", "grammar"):
        page.run(f"document.querySelector('input[value={kind}]').click()")
        for number in page.run("[...document.querySelectorAll('#example option')].slice(1).map((e) => e.value)"):
            page.run(
                "document.body.dataset.read = '';"
                f"document.getElementById('example').value = '{number}';"
                "document.getElementById('example').dispatchEvent(new Event('change'))"
            )
            until(page, "document.body.dataset.read")
            name = page.run("document.getElementById('example').selectedOptions[0].textContent")
            good = page.run("document.body.dataset.read") == "true"
            assert good != ("fault" in name or "No value" in name), name
    assert page.complaints == []


def test_the_keyboard(page: Browser) -> None:
    choose(page, "regex", "abcdef", "abc")
    page.run("document.getElementById('text').focus()")
    page.call("Input.dispatchKeyEvent", type="keyDown", key="Enter", modifiers=1)
    until(page, "document.body.dataset.looked === 'abcdef'")
    assert shown(page, "verdict") == "complete"
    order = []
    page.run("document.querySelector('header button').focus()")
    for _ in range(6):
        page.call("Input.dispatchKeyEvent", type="keyDown", key="Tab", windowsVirtualKeyCode=9)
        page.call("Input.dispatchKeyEvent", type="keyUp", key="Tab", windowsVirtualKeyCode=9)
        order.append(page.run("document.activeElement.id || document.activeElement.name"))
    assert order.index("kind") < order.index("example") < order.index("constraint") < order.index("text")


def test_every_control_has_a_name(page: Browser) -> None:
    tree = page.call("Accessibility.getFullAXTree")["nodes"]
    roles = {"button", "textbox", "combobox", "radio", "checkbox", "slider", "listbox"}
    for node in tree:
        if node.get("role", {}).get("value") in roles and not node.get("ignored"):
            assert node.get("name", {}).get("value"), node


@pytest.mark.parametrize("dark", [False, True])
def test_a_phone_has_no_room_beside_the_page(page: Browser, dark: bool) -> None:
    opened(page, width=390, height=844, dark=dark)
    assert page.run("document.documentElement.scrollWidth") <= 390
    opened(page)


def test_a_hostile_constraint_stays_text(page: Browser) -> None:
    source = json.dumps({"enum": ["<img src=x onerror=alert(1)>", "</textarea><script>alert(2)</script>"]})
    choose(page, "schema", source, '"<img src=x onerror=alert(1)>"')
    assert shown(page, "verdict") == "complete"
    assert page.run("document.querySelectorAll('img, script:not([src])').length") == 0
    assert page.complaints == []


def test_nothing_leaves_the_page(page: Browser) -> None:
    opened(page)
    address = page.address  # type: ignore[attr-defined]
    assert page.requests and all(one.startswith((address, "data:", "blob:")) for one in page.requests)
    refused = page.run(
        "new Promise((answer) => { document.addEventListener('securitypolicyviolation',"
        "(event) => answer(event.effectiveDirective)); fetch('https://example.org/').catch(() => {}); })"
    )
    assert refused == "connect-src"
    page.complaints.clear()


def test_what_is_on_the_page_is_in_its_address(page: Browser) -> None:
    choose(page, "regex", "a{3}", "aa")
    until(page, "location.hash.includes('aa')")
    kept = page.run("location.hash")
    page.open("about:blank")
    page.open(page.address + kept)  # type: ignore[attr-defined]
    until(page, "document.body.dataset.ready")
    assert page.run("document.getElementById('constraint').value") == "a{3}"
    assert page.run("document.getElementById('text').value") == "aa"
    page.run("location.hash = ''")
