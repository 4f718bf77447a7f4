"""Schemas that refer to themselves, also below *not*, *oneOf* and *contains*: what they mean, and whether they have a
value that can be written."""

from __future__ import annotations

import gc
import json
import random
from typing import Any

import pytest

import guiderail as gr
import schema_generator
from core_support import plain
from guiderail.constraints.program import build_program

X = {"$ref": "#/$defs/x"}
IN_X = {"allOf": [X]}  # the same values, and another term
LIST = {"type": "array"}
BYTES = plain([bytes([byte]) for byte in range(256)])


def definition(x: Any, **others: Any) -> dict[str, Any]:
    return {**X, "$defs": {"x": x, **others}}


# (the schema, texts that match, texts that do not)
MEANINGS: dict[str, tuple[dict[str, Any], list[str], list[str]]] = {
    "oneOf, contains": (
        definition({"contains": {}, "oneOf": [{"maxItems": 1, "contains": IN_X}, {}]}),
        ["[1]", "[[]]", "[[[1]]]", "[1, 2]", "[[1], 1]"],
        ["1", "[]", "[[1]]", "[[[]]]", "[[1, 2]]"],
    ),
    "oneOf, additionalProperties": (
        definition({"oneOf": [{}, {"additionalProperties": IN_X, "maxProperties": 1}]}),
        ['{"a": 1}', '{"a": {}}', '{"a": 1, "b": 1}', '{"a": {"a": {"a": 1}}}'],
        ["1", "{}", '{"a": {"a": 1}}'],
    ),
    "oneOf in oneOf, items": (
        definition({"oneOf": [{}, {"oneOf": [{}, {"$ref": "#/$defs/y"}]}]}, y={"items": {**X, "minProperties": 1}}),
        ["1", "[]", "[1]"],
        ["[{}]", "[[{}]]"],
    ),
    "dependentSchemas, unevaluatedProperties": (
        definition(
            {"anyOf": [{"allOf": [{"$ref": "#/$defs/y"}]}]},
            y={"dependentSchemas": {"a": {"unevaluatedProperties": {"$ref": "#/$defs/y"}, "required": ["a"]}}},
        ),
        ["1", "{}", '{"a": 1}', '{"a": {"a": 1}}'],
        [],
    ),
    "not, alternatives read side by side": (
        definition(
            {"prefixItems": [{"$ref": "#/$defs/y"}], "not": {"allOf": [{"$ref": "#/$defs/y"}]}},
            y={
                "prefixItems": [{"type": "integer"}],
                "oneOf": [{"contains": {"type": "string"}, "minContains": 2}, {"uniqueItems": True}],
            },
        ),
        ["1", "[[1]]", "[[1, 2]]"],
        ["[]", "[1]", "[1, 1]", '["a", 1, 1]', "[[1, 1]]"],
    ),
}


@pytest.mark.parametrize(("schema", "matching", "others"), MEANINGS.values(), ids=MEANINGS)
def test_recursion_below_negations(schema: dict[str, Any], matching: list[str], others: list[str]) -> None:
    constraint = gr.json_schema(schema)
    assert [text for text in (*matching, *others) if constraint.matches(text)] == matching
    assert [text for text in (*matching, *others) if constraint.accepts(json.loads(text))] == matching


@pytest.mark.parametrize(("schema", "matching", "others"), MEANINGS.values(), ids=MEANINGS)
def test_the_table_agrees_with_jsonschema(schema: dict[str, Any], matching: list[str], others: list[str]) -> None:
    validator = pytest.importorskip("jsonschema").Draft202012Validator(schema)
    assert [text for text in (*matching, *others) if validator.is_valid(json.loads(text))] == matching


# Next to a list of at least one of the same: alternatives without a value that can be written, and options.
UNWRITABLE: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "two kinds of items in one place": (
        {**LIST, "maxItems": 1, "allOf": [{"contains": {"const": 1}}, {"contains": {"const": 2}}]},
        {},
    ),
    "more items than maxContains allows": (
        {**LIST, "minItems": 2, "items": {"const": 1}, "contains": {"const": 1}, "maxContains": 1},
        {},
    ),
    "equal items that must differ": (
        {**LIST, "uniqueItems": True, "minItems": 2, "prefixItems": [{"const": 1}, {"const": 1}], "items": X},
        {},
    ),
    "two kinds of items that leave no room for each other": (
        {
            **LIST,
            "maxItems": 9_000,
            "allOf": [{"contains": {"const": n}, "minContains": 5_000} for n in (1, 2)],
        },
        {},
    ),
    "more items than all maxContains together allow": (
        {
            **LIST,
            "minItems": 7_000,
            "items": {"enum": [1, 2]},
            "allOf": [{"contains": {"const": n}, "minContains": 0, "maxContains": 3_000} for n in (1, 2)],
        },
        {},
    ),
    "more items than are counted": ({**LIST, "minItems": 2**32}, {}),
    "more members than are counted": ({"type": "object", "minProperties": 2**32}, {}),
    "more members than keys": ({"type": "object", "minProperties": 3, "propertyNames": {"pattern": "^[ab]$"}}, {}),
    "a name that no text contains": ({"type": "object", "required": ["\ud800"]}, {}),
    "a member that its properties exclude": (
        {
            "type": "object",
            "properties": {name: {"type": "integer", "minimum": 1, "maximum": 1} for name in "abcd"},
            "not": {"properties": {name: {"const": 1} for name in "abcd"}},
        },
        {},
    ),
    "max_items": ({**LIST, "minItems": 3}, {"max_items": 2}),
    "max_items, in a member": ({"type": "object", "required": ["a"], "additionalProperties": X}, {"max_items": 2}),
    "max_string_length": ({"const": "abcd"}, {"max_string_length": 3}),
    "max_integer_digits": ({"type": "integer", "minimum": 1000}, {"max_integer_digits": 2}),
    "excludes, a string": ({"const": "</a>"}, {"excludes": ("</a>",)}),
    "excludes, a name": ({"type": "object", "required": ["</a>"]}, {"excludes": ("</a>",)}),
    "excludes, other names": (
        {"type": "object", "minProperties": 1, "propertyNames": {"pattern": "</a>"}},
        {"excludes": ("</a>",)},
    ),
    "excludes, too few other names": (
        {"type": "object", "minProperties": 5, "propertyNames": {"pattern": "^[abc]x?$"}},
        {"excludes": ("a",)},
    ),
}


@pytest.mark.parametrize(("other", "options"), UNWRITABLE.values(), ids=UNWRITABLE)
def test_what_can_never_be_written_is_left_out_or_refused(other: dict[str, Any], options: dict[str, Any]) -> None:
    endless = {**LIST, "minItems": 1, "items": X}
    with pytest.raises(gr.CompileError) as caught:
        gr.compile(gr.json_schema(definition({"anyOf": [endless, other]}), **options), BYTES, cache=False)
    assert caught.value.code in ("unsatisfiable-schema", "unsatisfiable")
    rest = gr.json_schema(definition({"anyOf": [endless, other, {"const": 5}]}), **options)
    assert [text for text in ("5", "[5]", "[[5]]", "[]", "[[]]") if rest.matches(text)] == ["5", "[5]", "[[5]]"]


def test_the_search_for_keywords_that_exclude_each_other_may_lose_its_place() -> None:
    schema = definition({"type": "object", "required": ["a"], "unevaluatedProperties": {"oneOf": [X]}})
    with pytest.raises(gr.SchemaError) as caught:
        gr.json_schema(schema).program()
    assert caught.value.code == "unsatisfiable-schema"


REFUSALS = {"unsatisfiable-schema", "schema-branches", "work", "depth", "fuel"}


@pytest.mark.parametrize("seed", range(4))
def test_random_definitions_agree_with_jsonschema(seed: int) -> None:
    validators = pytest.importorskip("jsonschema")
    rng = random.Random(seed)
    compared = refused = 0
    for _ in range(250):
        schema = schema_generator.recursive(rng)
        judge = validators.Draft202012Validator(schema)
        program = None
        try:
            program = gr.json_schema(schema).program()
        except gr.GuiderailError as error:
            assert error.code in REFUSALS, (schema, error)
            if error.code != "unsatisfiable-schema":
                refused += 1
                continue
        for _ in range(25):
            value = schema_generator.nested(rng)
            try:
                written = program is not None and program.matches(json.dumps(value))
            except gr.LimitError:
                refused += 1
                break
            assert written == judge.is_valid(value), (schema, value)
            compared += 1
    assert compared > 5000 and refused < 12


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"type": "string"}}},
        {"properties": {"a": {"$ref": "#"}, "b": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}, "required": ["b"]},
        {"not": {"type": "object", "properties": {"a": {"const": 1}}}},
        {"oneOf": [{"properties": {"a": {"minLength": 2}}}, {"type": "array", "items": {"minimum": 1}}]},
        {"type": "array", "items": {"enum": [1, 2, [3]]}, "uniqueItems": True, "contains": {"const": 1}},
        {"$id": "https://example.org/a", "$defs": {"n": {"$id": "b", "items": {"$ref": "b"}}}, "$ref": "b"},
    ],
)
def test_a_compilation_leaves_no_circles(schema: Any) -> None:
    build_program(gr.json_schema(schema))  # caches fill, modules are loaded
    gc.collect()
    gc.disable()
    try:
        build_program(gr.json_schema(schema))
        assert gc.collect() == 0
    finally:
        gc.enable()
