"""Why no value satisfies a schema: minimal sets of keywords, derived by hand, and bounds of the search."""

from __future__ import annotations

import copy
import json
import pickle
import random
import time
from typing import Any

import pytest

import guiderail as gr
from schema_generator import schema as random_schema

S: dict[str, Any] = {"type": "string"}


def refused(schema: Any, **options: Any) -> gr.SchemaError:
    with pytest.raises(gr.SchemaError) as caught:
        gr.json_schema(schema, **options).program()
    assert caught.value.code == "unsatisfiable-schema"
    return caught.value


CASES: dict[str, tuple[Any, dict[str, Any], str]] = {
    "bounds": (
        {"description": "x", "type": "integer", "minimum": 5, "maximum": 3, "multipleOf": 2},
        {"#/type": "integer", "#/minimum": 5, "#/maximum": 3},
        '"type" "integer", "minimum" 5 and "maximum" 3 exclude each other',
    ),
    "a name that is forbidden": (
        {"type": "object", "properties": {"a": S}, "required": ["a", "b"], "additionalProperties": False},
        {"#/type": "object", "#/required": ["b"], "#/additionalProperties": False},
        '"type" "object", "required" "b" and "additionalProperties" false exclude each other',
    ),
    "a property that is false": (
        {"type": "object", "properties": {"a": False}, "required": ["a"], "additionalProperties": False},
        {"#/type": "object", "#/properties/a": False, "#/required": ["a"]},
        "false at #/properties/a",
    ),
    "false": (False, {"#": False}, "nothing could be generated"),
    "nothing to choose from": (
        {"type": "object", "required": ["a"], "properties": {"a": {"enum": []}}},
        {"#/properties/a/enum": []},
        '"enum" [] allows none',
    ),
    "in two schemas": (
        {"allOf": [{"type": "string", "minLength": 2}, {"type": "null"}]},
        {"#/allOf/0/type": "string", "#/allOf/1/type": "null"},
        '"type" "string" at #/allOf/0 and "type" "null" at #/allOf/1 exclude each other',
    ),
    "in each alternative": (
        {"anyOf": [{"minimum": 3}, {"type": "string"}], "maximum": 2, "type": "integer"},
        {"#/anyOf/0/minimum": 3, "#/anyOf/1/type": "string", "#/maximum": 2, "#/type": "integer"},
        '"type" "string" at #/anyOf/1',
    ),
    "a time without a zone": (
        {"type": "string", "format": "time", "pattern": r"^\d\d:\d\d$"},
        {"#/type": "string", "#/format": "time", "#/pattern": r"^\d\d:\d\d$"},
        "exclude each other; with format='annotate', formats are not enforced",
    ),
    "a pattern between slashes": (
        {"type": "string", "pattern": "/^[0-9]{4}$/i"},
        {"#/type": "string", "#/pattern": "/^[0-9]{4}$/i"},
        "exclude each other; a pattern has no slashes around it",
    ),
    "distinct values": (
        {"type": "array", "minItems": 3, "maxItems": 9, "uniqueItems": True, "items": {"type": "boolean"}},
        {"#/type": "array", "#/minItems": 3, "#/uniqueItems": True, "#/items/type": "boolean"},
        '"uniqueItems" true',
    ),
    "no end": (
        {"$ref": "#/$defs/a", "$defs": {"a": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/a"}}}},
        {"#/$defs/a/type": "array", "#/$defs/a/minItems": 1, "#/$defs/a/items/$ref": "#/$defs/a"},
        '"minItems" 1',
    ),
    "behind a reference": (
        {
            "type": "object",
            "properties": {"n": {"$ref": "#/$defs/n"}, "m": S},
            "required": ["n", "m"],
            "$defs": {"n": {"type": "string", "minLength": 3, "allOf": [{"maxLength": 2}, {"pattern": "a"}]}},
        },
        {"#/$defs/n/type": "string", "#/$defs/n/minLength": 3, "#/$defs/n/allOf/0/maxLength": 2},
        '"maxLength" 2 at #/$defs/n/allOf/0',
    ),
    "in place and through a reference": (
        {
            "type": "integer",
            "$ref": "#/allOf/0/properties/a",
            "allOf": [{"minimum": 5, "properties": {"a": {"maximum": 3, "minLength": 2}}}],
        },
        {"#/type": "integer", "#/allOf/0/properties/a/maximum": 3, "#/allOf/0/minimum": 5},
        '"maximum" 3 at #/allOf/0/properties/a and "minimum" 5 at #/allOf/0 exclude each other',
    ),
    "through a reference, within what does not matter": (
        {"items": {"properties": {"a": {"maximum": 3, "not": {}}}}, "$ref": "#/items/properties/a"},
        {"#/items/properties/a/not": {}, "#/$ref": "#/items/properties/a"},
        '"not" {} at #/items/properties/a',
    ),
    "null": (
        {"type": "string", "const": None, "title": "x"},
        {"#/type": "string", "#/const": None},
        '"type" "string" and "const" null exclude each other',
    ),
    "members that another asks for": (
        {"type": "object", "required": ["a"], "dependentRequired": {"a": ["b"]}, "properties": {"b": False}},
        {"#/type": "object", "#/required": ["a"], "#/dependentRequired": {"a": ["b"]}, "#/properties/b": False},
        "dependentRequired",
    ),
    "what nobody evaluated": (
        {"type": "object", "required": ["b"], "unevaluatedProperties": False, "allOf": [{"properties": {"c": S}}]},
        {"#/type": "object", "#/required": ["b"], "#/unevaluatedProperties": False},
        '"unevaluatedProperties" false',
    ),
    "draft 4": (
        {
            "$schema": "http://json-schema.org/draft-04/schema#",
            "type": "number",
            "minimum": 5,
            "maximum": 5,
            "exclusiveMinimum": True,
        },
        {"#/type": "number", "#/minimum": 5, "#/maximum": 5, "#/exclusiveMinimum": True},
        '"exclusiveMinimum" true',
    ),
    "a name with a slash": (
        {"type": "object", "required": ["a/b"], "properties": {"a/b": {"type": "null", "const": 1}}},
        {"#/properties/a~1b/type": "null", "#/properties/a~1b/const": 1},
        '"type" "null" and "const" 1 exclude each other',
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_keywords_that_exclude_each_other(name: str) -> None:
    schema, conflict, words = CASES[name]
    error = refused(schema)
    assert dict(error.conflict) == conflict
    assert words in error.message and "\n" not in error.message
    again = pickle.loads(pickle.dumps(error))
    assert (again.conflict, again.message, again.pointer) == (error.conflict, error.message, error.pointer)


def test_random_conflicts_name_what_the_schema_says() -> None:
    rng = random.Random(4)
    found = 0
    for _ in range(1500):
        schema = {"allOf": [random_schema(rng, 2), random_schema(rng, 2)]}
        try:
            gr.json_schema(schema).program()
        except gr.SchemaError as error:
            if error.code != "unsatisfiable-schema" or not error.conflict or error.pointer != "#":
                continue
            conflict = error.conflict
        except gr.GuiderailError:
            continue
        else:
            continue
        found += 1
        for pointer, value in conflict:
            held = at(schema, pointer)
            if isinstance(value, list) and pointer.endswith("/required"):
                assert set(value) <= set(held)
            elif "Of" not in pointer.rpartition("/")[2]:
                assert isinstance(value, dict) or held == value or value is True, (schema, pointer, value)
    assert found > 40


def at(schema: Any, pointer: str) -> Any:
    value = schema
    for step in pointer.split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        value = value[int(step)] if isinstance(value, list) else value[step]
    return value


def test_a_large_schema_is_explained_in_bounded_time() -> None:
    many = {f"p{i}": {"type": "integer", "minimum": i} for i in range(1000)}
    schema = {"type": "object", "properties": {**many, "x": {"enum": []}}, "required": [*many, "x"]}
    started = time.process_time()
    assert dict(refused(schema).conflict) == {"#/properties/x/enum": []}
    shared = {"$defs": {"n": {"type": "object", "properties": many}}, "allOf": [{"$ref": "#/$defs/n"}] * 20}
    shared |= {"type": "object", "required": ["p5"], "properties": {"p5": {"maximum": 4}}}
    error = refused(shared)
    assert "no value satisfies this schema" in error.message
    assert time.process_time() - started < 20


def test_options_count() -> None:
    schema = {"type": "array", "minItems": 3, "items": S}
    error = refused(schema, max_items=2)
    assert dict(error.conflict) == {"#/type": "array", "#/minItems": 3}
    assert json.loads(json.dumps(schema)) == schema == copy.deepcopy(schema)


@pytest.mark.parametrize(
    ("schema", "options", "named"),
    [
        ({"type": "string", "format": "date-time"}, {"max_string_length": 12, "max_items": 3}, "max_string_length=12"),
        ({"properties": {"a": {"minItems": 5, "type": "array"}}, "required": ["a"], "type": "object"}, {"max_items": 3},
         "max_items=3"),
        ({"type": "integer", "minimum": 1000}, {"max_integer_digits": 3}, "max_integer_digits=3"),
        ({"const": "a<b"}, {"excludes": ["<"]}, "excludes=('<',)"),
    ],
)  # fmt: skip
def test_an_option_at_fault_is_named(schema: Any, options: dict[str, Any], named: str) -> None:
    assert f"no value satisfies this schema with {named}, so" in str(refused(schema, **options))
    assert "no value satisfies this schema, so" in str(refused({"enum": []}, **options))
