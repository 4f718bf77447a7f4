"""Masks made while compiling: the likely text that they follow, and that they equal those made later."""

from __future__ import annotations

import json
import pickle
from typing import Any

import jsonschema
import numpy as np
import pytest

import guiderail as gr
from core_support import mask_of, plain
from guiderail import CompileError
from guiderail.constraints.program import build_program

WORDS = ['{"', '":', '": ', ', "', "name", "na", "items", '["', '"]', "true", "null", '"}', "12"]
VOCABULARY = plain([bytes([b]) for b in range(128)] + [w.encode() for w in WORDS])

TREE = {
    "$defs": {
        "node": {
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "children": {"type": "array", "items": {"$ref": "#/$defs/node"}},
            },
            "required": ["name"],
            "additionalProperties": False,
        }
    },
    "$ref": "#/$defs/node",
}
CASES: list[tuple[Any, str]] = [  # a schema, and the beginning of a likely text
    ({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}}}, '{"a": 0, "b": ""}'),
    ({"type": "object", "properties": {"a": {"type": "number", "minimum": -5}}}, '{"a": 0}'),
    ({"type": "object", "properties": {"l": {"type": "array", "items": {"enum": ["y", "x"]}}}}, '{"l": ["x"]}'),
    ({"type": "object", "properties": {"né\n": {"const": True}}}, '{"né\\n": true}'),
    ({"type": "object", "properties": {"a": {"type": "string", "pattern": "^[0-9]{3}-x"}}}, '{"a": "000-x"}'),
    ({"type": "object", "properties": {"a": False, "b": {"type": "null"}}}, '{"b": null}'),
    ({"type": "array", "items": {"type": "boolean"}, "minItems": 2}, "[false, false"),
    ({"type": "object"}, "{}"),
]


def likely(constraint: gr.Constraint, limit: int = 400) -> str:
    program = build_program(constraint)
    return program.likely(program.root, limit).decode()


@pytest.mark.parametrize("schema, begins", CASES)
def test_likely_text(schema: Any, begins: str) -> None:
    text = likely(gr.json_schema(schema))
    assert text.startswith(begins)
    jsonschema.validate(json.loads(text), schema)


def test_likely_text_of_what_is_recursive_ends() -> None:
    text = likely(gr.json_schema(TREE))
    assert text.startswith('{"name": "", "children": [{"name": "", "children": [{') and 400 <= len(text) < 450
    assert likely(gr.json_schema(TREE), 0) == ""


def test_likely_text_is_made_in_bounded_time_and_depth() -> None:
    text = likely(gr.json_schema({"const": "a" * 300_000}), 200_000)
    assert text.startswith('"aaaa') and 200_000 <= len(text) <= 300_002
    rules = ["root ::= r0", *(f"r{i} ::= r{i + 1} r{i + 1}" for i in range(50)), 'r50 ::= "x"*']
    assert likely(gr.grammar("\n".join(rules), syntax="gbnf") + gr.json_schema({}), 100) == ""
    assert likely(gr.json_schema({"type": "object"}) + gr.regex("(a*b*){2000000000}c"), 100).startswith("{}")


def test_likely_text_may_be_wrong_and_ends_where_nothing_is_known() -> None:
    assert likely(gr.regex("[0-9]{4}-[a-f]?x*") & gr.regex(".*")).startswith("0000-")
    assert likely(gr.regex("ab") + ~gr.literal("c") + gr.literal("d")).startswith("ab")
    # Declared members need not be allowed together: the masks end there.
    schema = {"type": "object", "properties": {"a": {}, "b": {}}, "not": {"required": ["a", "b"]}}
    guide = gr.compile(gr.json_schema(schema), VOCABULARY, cache=False)
    assert not np.any(mask_of(guide.matcher())[list(b"[0n")])


@pytest.mark.parametrize("schema", [*(schema for schema, _ in CASES), TREE, {}, {"type": "string"}])
def test_prepared_masks_are_the_same(schema: Any) -> None:
    constraint = gr.json_schema(schema)
    prepared = gr.compile(constraint, VOCABULARY, cache=False, prepare=100)
    later = gr.compile(constraint, VOCABULARY, cache=False, prepare=0)
    one, other = prepared.matcher(), later.matcher()
    for byte in likely(constraint).encode()[:80]:
        assert np.array_equal(mask_of(one), mask_of(other))
        if byte >= 128 or not one.accept_token(byte):
            break
        assert other.accept_token(byte)


def test_what_is_prepared_is_there() -> None:
    constraint = gr.json_schema(CASES[0][0])
    sizes = [
        gr.compile(constraint, VOCABULARY, cache=False, prepare=n).memory_size_bytes()
        for n in (0, 1, 5, 10, 1000, 4096)
    ]
    assert sizes == sorted(sizes) and sizes[0] <= sizes[1] < sizes[3] <= sizes[4] == sizes[5]
    pattern = gr.regex("[a-z]+")
    none, some, many = (
        gr.compile(pattern, VOCABULARY, cache=False, prepare=n).memory_size_bytes() for n in (0, 12, 4096)
    )
    assert none <= some == many  # its identity, and no masks


def test_a_limit_met_by_the_likely_text_is_no_error() -> None:
    words = "|".join(f"{i}x" for i in range(40))
    schema = {
        "type": "object",
        "properties": {
            "a": {
                "type": "string",
                "allOf": [
                    {"pattern": f"^({words})*$"},
                    {"not": {"pattern": "^([0-9]x|[0-9]{2}x)*y?$"}},
                    {"pattern": "[0-9]{9}x.{30}$"},
                ],
            }
        },
    }
    found = [gr.compile(gr.json_schema(schema), VOCABULARY, cache=False, fuel=fuel) for fuel in (20, 200_000)]
    assert [guide.matcher().accept_string('{"') for guide in found] == [True, True]


def test_option() -> None:
    constraint = gr.json_schema(CASES[0][0])
    guide = gr.compile(constraint, VOCABULARY, prepare=3)
    assert gr.compile(constraint, VOCABULARY, prepare=3) is guide is not gr.compile(constraint, VOCABULARY)
    assert pickle.loads(pickle.dumps(guide))._options.prepare == 3
    for wrong in (-1, 4097):
        with pytest.raises(CompileError) as error:
            gr.compile(constraint, VOCABULARY, prepare=wrong)
        assert error.value.code == "bad-bound"
