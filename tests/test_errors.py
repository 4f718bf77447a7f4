"""Errors: the base class, codes, the caret, and which class an error of the core becomes."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import guiderail as gr
from guiderail import errors
from guiderail.frontends.json_schema.errors import SchemaLimitError
from guiderail.frontends.tools.errors import ToolError
from guiderail.frontends.xml_schema.errors import XmlReadError, XmlSchemaError
from guiderail.generation.distribution.outcome import PassesError

CLASSES = [getattr(errors, name) for name in errors.__all__]

# Every code that the core raises, and its class: users match on both.
CORE_CODES = {
    "argument": gr.ArgumentError,
    "bad-bound": gr.CompileError,
    "bad-handle": gr.CompileError,
    "bad-mode": gr.CompileError,
    "bad-range": gr.CompileError,
    "bad-shape": gr.CompileError,
    "bitmask-array": gr.BitmaskError,
    "bitmask-device": gr.BitmaskError,
    "bitmask-dtype": gr.BitmaskError,
    "bitmask-index": gr.BitmaskError,
    "bitmask-row": gr.BitmaskError,
    "bitmask-shape": gr.BitmaskError,
    "bitmask-size": gr.BitmaskError,
    "budget-too-small": gr.LimitError,
    "budget-unknown": gr.LimitError,
    "builder-finished": gr.CompileError,
    "builder-shared": gr.CompileError,
    "depth": gr.LimitError,
    "duplicate-name": gr.CompileError,
    "empty-terminal": gr.CompileError,
    "fuel": gr.LimitError,
    "item-outside": gr.CompileError,
    "left-recursion": gr.CompileError,
    "look-nesting": gr.CompileError,
    "look-outside-scope": gr.CompileError,
    "matcher-budget": gr.MatcherError,
    "matcher-draft": gr.MatcherError,
    "matcher-history": gr.MatcherError,
    "matcher-none": gr.MatcherError,
    "matcher-rollback": gr.MatcherError,
    "matcher-shared": gr.MatcherError,
    "matcher-terminated": gr.MatcherError,
    "matcher-threads": gr.MatcherError,
    "matcher-token": gr.MatcherError,
    "memory": gr.LimitError,
    "no-token": gr.CompileError,
    "nodes": gr.LimitError,
    "not-regular": gr.CompileError,
    "not-utf8": gr.CompileError,
    "obligations": gr.CompileError,
    "item-label": gr.CompileError,
    "item-left": gr.CompileError,
    "program-bound": gr.CompileError,
    "saved-file": gr.CompileError,
    "states": gr.LimitError,
    "step-work": gr.LimitError,
    "undefined-rule": gr.CompileError,
    "unknown-token": gr.CompileError,
    "unproductive-rule": gr.CompileError,
    "unsatisfiable": gr.CompileError,
    "vocabulary-empty": gr.VocabularyError,
    "vocabulary-shape": gr.VocabularyError,
    "vocabulary-size": gr.VocabularyError,
    "vocabulary-stop": gr.VocabularyError,
    "vocabulary-token": gr.VocabularyError,
    "work": gr.LimitError,
}


@pytest.mark.parametrize("code", CORE_CODES)
def test_codes_of_the_core_have_their_class(code: str) -> None:
    made = errors.from_core(code, "what to do")
    assert type(made) is CORE_CODES[code]
    assert (made.code, made.message) == (code, "what to do")


def test_the_list_of_codes_is_complete() -> None:
    """Reads the sources of the core, if available: every code in them is in the table above."""
    core = Path(__file__).parent.parent / "core"
    if not core.is_dir():
        pytest.skip("the sources of the core are not here")
    sources = "\n".join(path.read_text() for path in core.rglob("*.?pp"))
    raised = set(re.findall(r'(?:Error|fail)\(\s*"([a-z0-9-]+)"', sources))
    assert raised == set(CORE_CODES)


@pytest.mark.parametrize("kind", CLASSES)
def test_every_error_is_a_guiderail_error_and_survives_pickling(kind: type[gr.GuiderailError]) -> None:
    assert issubclass(kind, gr.GuiderailError)
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", kind.code)
    made = kind("too bad", code="some-code", source="abc", span=(1, 2))
    again = pickle.loads(pickle.dumps(made))
    assert type(again) is kind
    assert (again.message, again.code, again.source, again.span) == ("too bad", "some-code", "abc", (1, 2))
    assert str(again) == str(made)
    assert kind("too bad").code == kind.code


def of_passes() -> PassesError:
    error = PassesError("too bad")
    error.passes, error.mass = 7, 0.25
    return error


@pytest.mark.parametrize(
    "made",
    [
        gr.SchemaError("too bad", pointer="#/a", conflict=(("#/type", "string"),)),
        SchemaLimitError("too bad", pointer="#/a"),
        ToolError("too bad", pointer="#/format"),
        gr.ReadError("too bad", pointer="/a", cause=ValueError("why")),
        XmlSchemaError("too bad", path="/a", source="<a/>", span=(0, 4)),
        XmlReadError("too bad", path="/a"),
        of_passes(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_an_error_knows_survives_pickling(made: gr.GuiderailError) -> None:
    again = pickle.loads(pickle.dumps(made))
    assert type(again) is type(made) and str(again) == str(made) and again.reason == "too bad"
    for name, value in vars(made).items():
        assert getattr(again, name) == value or (type(getattr(again, name)), str(value)) == (ValueError, "why")


def test_an_error_is_pickled_without_the_constraint_that_it_came_from() -> None:
    made = gr.LimitError("too bad")
    made.part = lambda: None
    assert not hasattr(pickle.loads(pickle.dumps(made)), "part")


def test_value_errors_where_a_value_is_at_fault() -> None:
    for kind in (gr.PatternError, gr.CompileError, gr.VocabularyError, gr.MatcherError, gr.BitmaskError):
        assert issubclass(kind, ValueError)
    for kind in (gr.LimitError, gr.ModelError):
        assert not issubclass(kind, ValueError)


def caret(source: str, span: tuple[int, int]) -> tuple[str, str, str]:
    """Returns the location, the line shown, and its marked part."""
    text = gr.PatternError("wrong", code="x", source=source, span=span).render()
    first, place, line, marks = text.split("\n")
    assert first == "wrong [x]"
    at = marks.index("^")
    assert set(marks[at:]) == {"^"} and not marks[:at].strip()
    return place.strip(), line[4:], line[at : at + len(marks[at:])]


@pytest.mark.parametrize(
    ("source", "span", "place", "shown", "marked"),
    [
        ("a(b", (1, 2), "at position 1:", "a(b", "("),
        ("a(b", (0, 3), "at position 0:", "a(b", "a(b"),
        ("ab", (2, 2), "at position 2:", "ab", ""),
        ("", (0, 0), "at position 0:", "", ""),
        ("é€😀x", (2, 3), "at position 2:", "é€😀x", "😀"),
        ("one\ntwo three\nfour", (8, 13), "at line 2, column 5:", "two three", "three"),
        ("one\ntwo\nfour", (4, 12), "at line 2, column 1:", "two", "two"),
        ("a\tb\x00c", (2, 3), "at position 2:", "a�b�c", "b"),
    ],
)
def test_the_caret_stands_under_the_fault(
    source: str, span: tuple[int, int], place: str, shown: str, marked: str
) -> None:
    assert caret(source, span) == (place, shown, marked)


@pytest.mark.parametrize(
    ("use", "source", "at"),
    [
        (lambda: gr.json_schema('{"a": 1,}'), '{"a": 1,}', 8),
        (lambda: gr.json_schema('{"日": }'.encode()), '{"日": }', 6),
        (lambda: gr.json_schema('{\n"a\n": 1}'), '{\n"a\n": 1}', 4),
        (lambda: gr.structural_tag('{"type": any_text}'), '{"type": any_text}', 9),
    ],
)
def test_the_caret_stands_under_the_fault_of_json(use: Callable[[], Any], source: str, at: int) -> None:
    with pytest.raises(gr.GuiderailError, match="not JSON") as caught:
        use()
    assert (caught.value.source, caught.value.span) == (source, (at, at + 1))


def test_long_lines_are_cut_around_the_fault() -> None:
    source = "x" * 500 + "FAULT" + "y" * 500
    _, line, marked = caret(source, (500, 505))
    assert len(line) <= 100
    assert marked == "FAULT"
    _, line, marked = caret(source, (500, 1005))
    assert len(line) <= 100 and marked.startswith("FAULT")


@pytest.mark.parametrize(
    "use",
    [
        lambda: gr.grammars.graphql(schema="\ud800"),
        lambda: gr.json_schema({"properties": {"\ud800": {"type": "nothing"}}}).program(),
        lambda: gr.json_schema({"properties": {"a" * 1_000_000: {"type": "nothing"}}}).program(),
        lambda: gr.tool_calls([{"type": "function", "function": {"name": "a" * 1_000_000}}], format="hermes"),
    ],
)
def test_messages_can_be_printed_whatever_they_quote(use: Callable[[], Any]) -> None:
    with pytest.raises(gr.GuiderailError) as caught:
        use()
    assert len(str(caught.value).encode()) < 10_000
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_without_a_place_there_is_no_caret() -> None:
    assert str(gr.CompileError("wrong")) == "wrong [compile]"
    assert str(gr.CompileError("wrong", code="a-b", source="text")) == "wrong [a-b]"


@pytest.mark.parametrize(
    ("use", "code"),
    [
        (lambda b: b.repeat(b.EPSILON, 2, 1), "bad-bound"),
        (lambda b: b.escaped(b.EPSILON, 2), "bad-mode"),
        (lambda b: b.members([b"a"], [], [True], [], b.EPSILON, b.EPSILON), "bad-shape"),
        (lambda b: b.members([b"a"] * 2, [b.EPSILON] * 2, [True] * 2, [], b.EPSILON, b.EPSILON), "duplicate-name"),
        (lambda b: b.members([b"\xff"], [b.EPSILON], [True], [], b.EPSILON, b.EPSILON), "not-utf8"),
        (lambda b: b.members([], [], [], [], b.EPSILON, b.EPSILON, pending=(1 << 11) - 1), "obligations"),
        (lambda b: b.item(b.item(b.literal(b"1"))), "item-outside"),
        (lambda b: b.item(b.literal(b"1"), 3), "item-left"),
    ],
)
def test_errors_of_the_core_arrive_as_ours(use: Callable[[Any], int], code: str) -> None:
    with pytest.raises(CORE_CODES[code]) as caught:
        use(gr._core.Builder())
    assert caught.value.code == code
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    ("use", "code"),
    [
        (lambda: gr.tool_calls([], format="none-such"), "tool-format"),
        (lambda: gr.tool_calls([], format="hermes", choice="required"), "tool-choice"),
        (lambda: gr.tool_calls("f", format="hermes"), "tool"),
        (lambda: gr.tool_calls([{"type": "web_search"}], format="hermes", on_bad_tool="error"), "tool-type"),
        (lambda: gr.tool_calls([{"name": ""}], format="hermes", on_bad_tool="error"), "tool-name"),
        (
            lambda: gr.tool_calls(
                [{"name": "f", "parameters": {"not": {"additionalProperties": {"type": "string"}}}}],
                format="glm-4.5",
                on_bad_tool="error",
            ),
            "tool-parameters",
        ),
        (lambda: gr.tool_calls([], format="hermes").parse("<tool_call>"), "tool-text"),
        (
            lambda: gr.structural_tag(
                {"type": "json_schema", "json_schema": True, "style": "cohere_xml", "excludes": ["a"]}
            ),
            "structural-tag-unsupported",
        ),
    ],
)
def test_errors_of_tools(use: Callable[[], Any], code: str) -> None:
    with pytest.raises(gr.GuiderailError) as caught:
        use()
    assert caught.value.code == code
    again = pickle.loads(pickle.dumps(caught.value))
    assert (type(again), again.message) == (type(caught.value), caught.value.message)


FUNCTION = {"name": "f", "parameters": {"properties": {"a": {"pattern": "b(c"}}}}
INNER_FAULTS: list[Callable[[], gr.Constraint]] = [
    lambda: gr.json_schema({"properties": {"a": {"pattern": "b(c"}}}),
    lambda: gr.json_schema({"properties": {"a": {"pattern": "(b+)+\\1"}}}),
    lambda: gr.json_schema({"patternProperties": {"b(c": True}}),
    lambda: gr.json_schema({"pattern": "(" * 300 + ")" * 300}),
    lambda: gr.structural_tag({"type": "structural_tag", "format": {"type": "regex", "pattern": "b(c"}}),
    lambda: gr.structural_tag({"type": "structural_tag", "format": {"type": "grammar", "grammar": "root ::= ("}}),
    lambda: gr.structural_tag(
        {"type": "structural_tag", "format": {"type": "json_schema", "json_schema": {"pattern": "b(c"}}}
    ),
    lambda: gr.tool_calls([FUNCTION], format="hermes", on_bad_tool="error"),
    lambda: gr.grammar('start: "a" %json {"pattern": "b(c"}', syntax="lark"),
    lambda: gr.grammar("start: /b(c/", syntax="lark"),
]


@pytest.mark.parametrize("fault", INNER_FAULTS)
def test_an_error_within_another_description_names_its_code_and_its_place_once(
    fault: Callable[[], gr.Constraint],
) -> None:
    with pytest.raises(gr.GuiderailError) as caught:
        fault().program()
    error = caught.value
    assert str(error).count(f"[{error.code}]") == 1 and error.code not in error.message
    assert error.source is not None and error.span is not None and str(error).count("\n  at ") == 1
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error)
