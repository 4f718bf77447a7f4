"""Integers of more digits than Python converts (4,300), and numbers beyond the exponents of other types."""

from __future__ import annotations

import datetime
import decimal
import sys
import typing
from collections.abc import Callable
from fractions import Fraction
from typing import Annotated, Any

import annotated_types
import pydantic
import pytest

import guiderail as gr
from guiderail.compat import llguidance, xgrammar
from guiderail.support.arguments import checked
from guiderail.support.nesting import nested
from guiderail.support.numerals import amount, clamped, digits, json_text, read_integer

DIGITS = "9" * 5000
BIG = 10**5000

# What is refused, and the code.
REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "multipleOf": (lambda: gr.json_schema({"multipleOf": BIG}).program(), "number-states"),
    "minLength": (lambda: gr.json_schema({"minLength": BIG}).program(), "bad-bound"),
    "lark, token ids": (lambda: lark("start: <[%s]>"), "lark-syntax"),
    "lark, max_tokens": (lambda: lark("start[max_tokens=%s]: /a/"), "lark-syntax"),
    "lark, priority": (lambda: lark('start: T\nT.%s: "a"'), "lark-syntax"),
    "lark, terminal": (lambda: lark('start: T\nT: "a"~%s'), "lark-syntax"),
    "float above": (lambda: annotated(float, annotated_types.Gt(BIG)), "unsatisfiable-schema"),
    "float below": (lambda: annotated(float, annotated_types.Lt(-BIG)), "unsatisfiable-schema"),
    "bound far away": (lambda: annotated(int, annotated_types.Ge(decimal.Decimal("1e99999999"))), "number-size"),
    "bound near 0": (lambda: annotated(float, annotated_types.Lt(decimal.Decimal("1e-99999999"))), "number-size"),
    "divisor far away": (
        lambda: annotated(float, annotated_types.MultipleOf(decimal.Decimal("1e99999"))),
        "number-size",
    ),
    "tiny divisor": (lambda: annotated(decimal.Decimal, annotated_types.MultipleOf(Fraction(1, BIG))), "type-metadata"),
    "digits of a decimal": (lambda: annotated(decimal.Decimal, pydantic.Field(max_digits=BIG)), "type-metadata"),
    "lark, ~": (lambda: lark('start: "a"~%s'), "bad-bound"),
    "lark, {}": (lambda: lark('start: "a"{%s}'), "bad-bound"),
    "lark, {m,n}": (lambda: lark('start: "a"{1,%s}'), "bad-bound"),
    "lark, & in a terminal": (lambda: lark('start: T\nT: "a"{%s} & "b"'), "bad-bound"),
    "lark, wrong order": (lambda: lark('start: "a"{%s,1}'), "lark-syntax"),
    "lark, negative order": (lambda: lark('start: "a"~%s..1'), "lark-grammar"),
}

# What works: the text may be long, or no text may be short enough to be written.
WORKS: dict[str, Callable[[], Any]] = {
    "enum": lambda: gr.json_schema({"enum": [BIG]}).program(),
    "text": lambda: gr.json_schema('{"minimum": ' + DIGITS + "}").program(),
    "structural tag": lambda: gr.structural_tag(
        '{"type": "json_schema", "json_schema": {"minimum": ' + DIGITS + "}}"
    ).program(),
    "xgrammar": lambda: xgrammar.Grammar.from_json_schema({"minimum": BIG}),
    "xgrammar, tag": lambda: xgrammar.Grammar.from_structural_tag(
        {"type": "structural_tag", "format": {"type": "json_schema", "json_schema": {"minimum": BIG}}}
    ),
    "llguidance": lambda: llguidance.LLMatcher.grammar_from_json_schema({"minimum": BIG, "title": "é"}),
    "several divisors": lambda: gr.json_schema({"type": "integer", "not": {"multipleOf": 10**11}}).program(),
    "python notation": lambda: gr.read(list[int], f"[-{DIGITS}, 0x{'f' * 5000}, {len(DIGITS)}]", notation="python"),
    "prompt": lambda: gr.prompt_of({"enum": [BIG, [{"a": -BIG}, "é"]]}),
    "literal": lambda: gr.python_type(typing.Literal[BIG]).program(),
    "lark, %json": lambda: lark('start: %%json {"minimum": %s}'),
}


def annotated(kind: type, metadata: Any) -> Any:
    return gr.python_type(Annotated[kind, metadata]).program()  # type: ignore[valid-type]


def lark(text: str) -> Any:
    return gr.grammar(text % DIGITS, "lark").program()


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    use, code = REFUSED[name]
    with pytest.raises(gr.GuiderailError) as caught:
        use()
    assert caught.value.code == code
    assert "Exceeds the limit" not in str(caught.value)
    if name in ("lark, priority", "lark, terminal"):
        assert caught.value.source is not None and caught.value.span is not None
        start, end = caught.value.span
        assert caught.value.source[start:end] == DIGITS


@pytest.mark.parametrize("name", WORKS)
def test_works(name: str) -> None:
    WORKS[name]()


def test_literals_of_long_integers_are_read() -> None:
    kind = gr.python_type(typing.Literal[10**5000])
    assert kind.read("1" + "0" * 5000) == BIG
    with pytest.raises(gr.ReadError):
        kind.read(DIGITS)
    assert "Literal[…]" in repr(kind)


READS: list[tuple[Any, str]] = [
    (decimal.Decimal, "1e999999999"),
    (decimal.Decimal, "1e99999999999999999999"),
    (Annotated[decimal.Decimal, annotated_types.MultipleOf(2)], "1e-99999999999"),
    (Annotated[float, annotated_types.MultipleOf(0.5)], "1e-99999999999"),
    (Annotated[int, annotated_types.MultipleOf(2)], DIGITS),
    (Annotated[int, annotated_types.Ge(5)], "-" + DIGITS),
    (typing.Literal["a", 1], DIGITS),
    (float, "1e999"),
    (int, "1e999999999"),
    (datetime.datetime, '"2000-02-30T00:00:00"'),
    (datetime.timedelta, f'"P{DIGITS}D"'),
    (Fraction, '"1/0"'),
    (Fraction, f'"{DIGITS}"'),
]


@pytest.mark.parametrize(("kind", "text"), READS, ids=[f"{i}" for i in range(len(READS))])
def test_values_that_no_type_takes(kind: Any, text: str) -> None:
    with pytest.raises(gr.ReadError):
        gr.python_type(kind).read(text)


@pytest.mark.parametrize(
    ("text", "value"), [("0e99999999999999", "0"), ("1e-999999999", "1e-999999999"), ("1.50", "1.50"), ("1e50", "1e50")]
)
def test_decimals_that_are_read(text: str, value: str) -> None:
    assert gr.python_type(decimal.Decimal).read(text) == decimal.Decimal(value)


@pytest.mark.parametrize(
    ("schema", "code", "pointer"),
    [
        ('{"properties": {"a": {"const": 1e400}}}', "not-a-number", "#/properties/a/const"),
        ('{"properties": {"a": {"enum": [1, [NaN]]}}}', "not-a-number", "#/properties/a/enum"),
        ('{"properties": {"a": {"minimum": 1e400}}}', "invalid-schema", "#/properties/a/minimum"),
        ({"properties": {1: {}}}, "invalid-schema", "#/properties"),
        ({"properties": {"a/b": {"enum": [{"c": {None: 1}}]}}}, "invalid-schema", "#/properties/a~1b/enum/0/c"),
        ({"items": {"const": {1, 2}}}, "invalid-schema", "#/items/const"),
        ({"items": ({"x": b"y"},)}, "invalid-schema", "#/items/0/x"),
    ],
)
def test_faults_in_schemas_have_a_location(schema: Any, code: str, pointer: str) -> None:
    with pytest.raises(gr.SchemaError) as caught:
        gr.json_schema(schema).program()
    assert (caught.value.code, caught.value.pointer) == (code, pointer)


@pytest.mark.parametrize("text", ["0", "-1", "7" * 600, "-" + "7" * 601, "1" + "0" * 5001, DIGITS])
def test_integers_of_any_length(text: str) -> None:
    assert digits(read_integer(text)) == text
    assert json_text([read_integer(text)]) == f"[{text}]"


@pytest.mark.parametrize(
    ("text", "value"), [("7", 7), ("+7", 7), ("-7", -7), ("0" * 5000 + "7", 7), ("11", 11), ("-" + DIGITS, -11)]
)
def test_clamped(text: str, value: int) -> None:
    assert clamped(text, 10) == value


def test_amounts() -> None:
    assert (amount(12345), amount(-5), amount(2**5000)) == ("12,345", "-5", "2^5,000 or more")


@pytest.mark.skipif(not hasattr(sys, "get_int_max_str_digits"), reason="this Python has no limit")
def test_what_nobody_foresaw_becomes_an_error_of_guiderail() -> None:
    def surprise() -> str:
        return str(BIG)

    with pytest.raises(gr.LimitError) as caught:
        checked(surprise)()
    assert caught.value.code == "number-size"
    with pytest.raises(gr.LimitError) as caught, nested("the grammar"):
        surprise()
    assert (
        caught.value.message
        == "the grammar has an integer of more digits than Python converts (4,300); use a smaller one"
    )
