"""JSON Schemas inside grammars: their options, and how a model writes them."""

from __future__ import annotations

import pickle

import pytest

import guiderail as gr

SCHEMA = '{"type": "object", "properties": {"b": {"const": 1}, "a": {"const": 2}}, "required": ["a", "b"]}'
LARK = f'start: "x" %json {SCHEMA}'
NESTED = f"start: %lark {{ {LARK} }}"
ORDERED, OTHER, MORE = 'x{"b": 1, "a": 2}', 'x{"a": 2, "b": 1}', 'x{"b": 1, "a": 2, "c": 3}'


def matched(constraint: gr.Constraint) -> list[str]:
    return [text for text in (ORDERED, OTHER, MORE) if constraint.matches(text)]


@pytest.mark.parametrize("text", [LARK, NESTED])
def test_options_of_all_schemas(text: str) -> None:
    assert matched(gr.grammar(text, "lark")) == [ORDERED, OTHER, MORE]
    closed = gr.grammar(text, "lark", schema_options={"closed": True})
    assert matched(closed) == [ORDERED, OTHER]
    assert closed != gr.grammar(text, "lark")
    assert pickle.loads(pickle.dumps(closed)) == closed
    assert gr.grammar(text, "lark", schema_options={"layout": "free"}).matches('x{ "b":\n1, "a": 2 }')


def test_options_of_a_schema_come_first() -> None:
    text = 'start: %json {"type": "array", "x-guidance": {"whitespace_flexible": true}}'
    spaced = gr.grammar(text, "lark", schema_options={"layout": "compact", "max_items": 1})
    assert spaced.matches("[ 1 ]") and not spaced.matches("[1,2]")


def test_wrong_options() -> None:
    for given, code in (({"wild": 1}, "bad-schema-option"), ({"registry": object()}, "grammar-option")):
        with pytest.raises(gr.CompileError) as caught:
            gr.grammar(LARK, "lark", schema_options=given)
        assert caught.value.code == code
    with pytest.raises(gr.CompileError, match="only to Lark"):
        gr.grammar('root ::= "a"', "gbnf", schema_options={"closed": True})


@pytest.mark.parametrize(
    "made",
    [
        lambda: gr.grammar(LARK, "lark"),
        lambda: gr.grammar(NESTED, "lark"),
        lambda: gr.grammar('start: "x" @s', "lark", constraints={"s": gr.json_schema(SCHEMA)}),
        lambda: gr.grammar({"S": [["x", gr.json_schema(SCHEMA)]]}),
    ],
)
def test_a_model_writes_the_declared_order(made: object) -> None:
    constraint: gr.Constraint = made()  # type: ignore[operator]
    written = constraint.as_written()
    assert matched(constraint) == [ORDERED, OTHER, MORE]
    assert matched(written) == [ORDERED, MORE]
    assert written.as_written() is written
    assert constraint.as_written() is written or constraint.as_written() == written
    assert pickle.loads(pickle.dumps(written)) == written
    assert written != constraint


def test_a_grammar_without_schemas_is_written_as_it_is() -> None:
    plain = gr.grammar('start: "a"', "lark")
    assert plain.as_written() is plain
