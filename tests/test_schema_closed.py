"""The options ``closed`` and ``outer_whitespace`` of JSON Schema."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

import guiderail as gr
from guiderail.support.partial_json import PartialJson
from schema_generator import schema as random_schema, value as random_value

INT, TEXT = {"type": "integer"}, {"type": "string"}
BASE = {"type": "object", "properties": {"a": INT}, "required": ["a"]}

CASES: dict[str, tuple[Any, list[Any], list[Any]]] = {
    "properties": (BASE, [{"a": 1}], [{"a": 1, "b": 2}, {"b": 1}]),
    "no type": ({"properties": {"a": INT}}, [{}, {"a": 1}, 3], [{"b": 1}]),
    "no properties": ({"type": "object"}, [{}], [{"a": 1}]),
    "anything": ({}, [{"a": {"b": 1}}, [1]], []),
    "an item that may be anything": ({"type": "array", "items": {}}, [[{"a": 1}]], []),
    "stated otherwise": ({**BASE, "additionalProperties": True}, [{"a": 1, "b": 2}], []),
    "stated otherwise, as a type": ({**BASE, "additionalProperties": TEXT}, [{"a": 1, "b": "x"}], [{"a": 1, "b": 2}]),
    "stated otherwise in a part": ({"allOf": [{**BASE, "additionalProperties": True}]}, [{"a": 1, "b": 2}], []),
    "inner objects": (
        {"type": "object", "properties": {"x": BASE, "y": {"type": "array", "items": BASE}}},
        [{"x": {"a": 1}}, {"y": [{"a": 1}]}],
        [{"x": {"a": 1, "b": 1}}, {"y": [{"a": 1, "b": 1}]}, {"z": 1}],
    ),
    "objects as other members": (
        {"type": "object", "additionalProperties": BASE},
        [{"x": {"a": 1}}],
        [{"x": {"a": 1, "b": 1}}],
    ),
    "all of them": (
        {"allOf": [BASE, {"properties": {"b": TEXT}}], "properties": {"c": TEXT}},
        [{"a": 1, "b": "x", "c": "y"}],
        [{"a": 1, "d": 1}],
    ),
    "one of them": (
        {"anyOf": [BASE, {"type": "object", "properties": {"b": TEXT}, "required": ["b"]}, {"type": "null"}]},
        [{"a": 1}, {"b": "x"}, None],
        [{"a": 1, "c": 1}, {"c": 1}, {"a": 1, "b": "x"}, {"a": 1, "b": 2}],
    ),
    "one of them, beside others": (
        {"properties": {"c": INT}, "anyOf": [BASE, {"required": ["c"]}]},
        [{"a": 1, "c": 1}, {"c": 1}],
        [{"a": 1, "d": 1}],
    ),
    "exactly one of them": (
        {"oneOf": [{"$ref": "#/$defs/a"}, {"type": "object", "properties": {"b": INT}}], "$defs": {"a": BASE}},
        [{"b": 1}, {}],
        [{"a": 1}, {"a": 1, "b": 1}, {"b": 1, "c": 1}],  # without closed, the first matches two of them
    ),
    "exactly one, told apart": (
        {
            "oneOf": [
                {"type": "object", "properties": {"k": {"const": "x"}, "n": INT}, "required": ["k"]},
                {"type": "object", "properties": {"k": {"const": "y"}, "s": TEXT}, "required": ["k"]},
            ]
        },
        [{"k": "x", "n": 1}, {"k": "y", "s": "t"}],
        [{"k": "x", "s": "t"}, {"k": "y", "n": 1}, {"k": "x", "m": 1}],
    ),
    "a value or an object": (
        {"anyOf": [{"const": 1}, {"properties": {"a": INT}, "type": "object"}, {"enum": [{"q": 1}, 2]}]},
        [1, 2, {"a": 1}, {"q": 1}],
        [{"a": 1, "b": 1}, {"q": 2}],
    ),
    "where a condition holds": (
        {
            "type": "object",
            "properties": {"k": TEXT},
            "if": {"properties": {"k": {"const": "x"}}},
            "then": {"properties": {"n": INT}},
        },
        [{"k": "x", "n": 1}, {"k": "y"}],
        [{"k": "x", "m": 1}],
    ),
    "a reference": (
        {"$ref": "#/$defs/a", "$defs": {"a": BASE}},
        [{"a": 1}],
        [{"a": 1, "b": 1}],
    ),
    "a reference beside others": (
        {"$ref": "#/$defs/a", "$defs": {"a": BASE}, "properties": {"b": INT}},
        [{"a": 1, "b": 1}],
        [{"a": 1, "c": 1}],
    ),
    "a reference of an old draft": (
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "definitions": {"a": BASE},
            "properties": {"x": {"$ref": "#/definitions/a"}},
        },
        [{"x": {"a": 1}}],
        [{"x": {"a": 1, "b": 1}}, {"y": 1}],
    ),
    "recursion": (
        {"type": "object", "properties": {"next": {"$ref": "#"}, "v": INT}},
        [{"next": {"next": {"v": 1}}}],
        [{"next": {"x": 1}}, {"next": {"next": {"x": 1}}}],
    ),
    "patterns": (
        {"type": "object", "patternProperties": {"^x": INT}},
        [{"x1": 1}],
        [{"y": 1}],
    ),
    "values": ({"type": "object", "enum": [{"q": 1}]}, [{"q": 1}], [{}]),
    "a test": ({"not": {"type": "object", "properties": {"a": INT}, "required": ["a"]}}, [{"b": 1}, 3], [{"a": 1}]),
}


@pytest.mark.parametrize("name", CASES)
def test_closed(name: str) -> None:
    schema, good, bad = CASES[name]
    constraint = gr.json_schema(schema, closed=True, layout="spaced", property_order="any")
    for value in good:
        assert constraint.accepts(value) and constraint.matches(json.dumps(value)), value
    for value in bad:
        assert not constraint.accepts(value) and not constraint.matches(json.dumps(value)), value
    assert constraint.schema == schema


def test_one_of_them_is_decided_as_it_is_written() -> None:
    """Both alternatives match the inner object as written; that closing would distinguish them does not matter."""
    inner = {"type": "object", "properties": {"p": INT}}
    other = {"type": "object", "properties": {"q": INT}}
    definitions = {
        "a": {"type": "object", "properties": {"x": inner}},
        "b": {"type": "object", "properties": {"x": other}},
    }
    schema = {"oneOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}, {"$ref": "#/$defs/c"}]}
    schema["$defs"] = {**definitions, "c": {"type": "object", "properties": {"next": {"$ref": "#"}}, "required": ["z"]}}
    open_, closed = gr.json_schema(schema), gr.json_schema(schema, closed=True)
    for value in ({"x": {"p": 1}}, {"x": {"q": 1}}, {}, {"x": {"p": "1"}}, {"x": {"q": "1"}}):
        assert open_.accepts(value) or not closed.accepts(value), value
    assert closed.accepts({"x": {"p": 1}}) == open_.accepts({"x": {"p": 1}}) is False
    assert open_.accepts({"x": {"p": 1, "q": "1"}}) and not closed.accepts({"x": {"p": 1, "q": "1"}})
    reversed_ = {"type": "object", "properties": {"y": {"not": {"$ref": "#/$defs/a"}}}, "$defs": definitions}
    assert not gr.json_schema(reversed_, closed=True).accepts({"y": {"x": {"p": 1, "z": 1}}})


def test_closed_only_ever_takes_away() -> None:
    rng = random.Random(2)
    compared = 0
    for _ in range(400):
        schema = random_schema(rng, 2)
        try:
            closed, open_ = gr.json_schema(schema, closed=True), gr.json_schema(schema)
            for _ in range(10):
                value = random_value(rng)
                assert open_.accepts(value) or not closed.accepts(value), (schema, value)
                compared += 1
        except (gr.SchemaError, gr.SchemaLimitError):
            continue
    assert compared > 500


@pytest.mark.parametrize("reference", ["#anchor", "https://example.com/x", "other.json"])
def test_references_that_cannot_be_followed(reference: str) -> None:
    with pytest.raises(gr.SchemaError) as caught:
        gr.json_schema({"type": "object", "properties": {"a": {"$ref": reference}}}, closed=True).program()
    assert (caught.value.code, caught.value.pointer) == ("closed-reference", "#/properties/a")


def test_white_space_around() -> None:
    free = gr.json_schema({"type": "integer"}, outer_whitespace=True, max_whitespace=3)
    assert [free.matches(text) for text in ("1", " 1", "\n\t 1\r\n ", "    1", "1    ", " ")] == [
        True, True, True, False, False, False,
    ]  # fmt: skip
    assert not gr.json_schema({"type": "integer"}).matches(" 1")


@pytest.mark.parametrize(
    "options", [{"closed": 1}, {"outer_whitespace": "yes"}, {"outer_whitespace": True, "notation": "yaml"}]
)
def test_wrong_options(options: dict[str, Any]) -> None:
    with pytest.raises(gr.CompileError) as caught:
        gr.json_schema({}, **options)
    assert caught.value.code == "bad-schema-option"


def test_white_space_around_is_read_while_it_grows() -> None:
    reader = PartialJson()
    for piece in ("\n ", '{"a"', ": 1", "} ", "\t"):
        reader.feed(piece)
    assert reader.close() == {"a": 1}
