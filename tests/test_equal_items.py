"""Lists in which at least two items must be equal: the negation of ``uniqueItems``."""

from __future__ import annotations

import json
import marshal
import random
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import guiderail as gr
from core_support import mask_of, plain, takes
from guiderail import _core
from guiderail.constraints.program import build_program
from guiderail.frontends.json_schema.constraint import JsonSchema
from guiderail.frontends.json_schema.options import SchemaOptions
from schema_strategies import judge, parse

REPEATED = {"type": "array", "not": {"uniqueItems": True}}


def program(schema: Any, **options: Any) -> _core.Program:
    return build_program(JsonSchema(marshal.dumps(schema, 2), SchemaOptions.of(options)))


SPELLED = [
    ("[1, 1]", True),
    ("[1, 1.0]", True),
    ("[10, 1e1]", True),
    ("[0, -0]", True),
    ("[1, true]", False),
    ('["a", "\\u0061"]', True),
    ('["a", "b"]', False),
    ('[{"a": 1, "b": [2]}, 3, {"b": [2.0], "a": 1}]', True),
    ('[{"a": 1}, {"a": 1, "b": 2}]', False),
    ("[[1, 2], [2, 1]]", False),
    ("[[], {}, [ ]]", True),
    ("[null, false, 0, null]", True),
    ("[1, 2, 3, 4, 5, 3, 6]", True),
    ("[1]", False),
    ("[]", False),
    ("[11, 1]", False),
    ("[1, 11]", False),
]


@pytest.mark.parametrize(("text", "expected"), SPELLED)
def test_items_are_equal_as_values(text: str, expected: bool) -> None:
    assert takes(program(REPEATED, escapes="all", layout="free"), text) == expected


@pytest.mark.parametrize(
    ("schema", "values"),
    [
        (  # the first item can come again only as a number
            {"prefixItems": [{"type": ["number", "string"]}], "items": {"type": "number"}},
            [["a", 1, 1], ["a", 1], [1, 1], [1, 2], ["a", 1, 2, 1]],
        ),
        (  # the last item is one of the first two
            {"prefixItems": [{"enum": [1, 2]}, {"enum": [3, 4]}, {"enum": [1, 3]}], "items": False},
            [[1, 3, 1], [1, 4, 1], [2, 3, 3], [2, 4, 1], [2, 4, 3], [1, 3], [1, 3, 3]],
        ),
        (  # the counter has no room for two of them
            {"items": {"enum": [1, 2, 3]}, "contains": {"const": 1}, "maxContains": 1, "maxItems": 3},
            [[1, 1], [1, 2, 2], [2, 2], [2, 1, 2], [3, 1], [2, 2, 1, 2]],
        ),
        (
            {"contains": {"type": "string"}, "minContains": 2, "maxItems": 3},
            [["a", "b", 1], ["a", "a"], ["a", "b", "b"], ["a", 1, 1], ["a", 1, "a"]],
        ),
        ({"items": {"const": 1}, "minItems": 3}, [[1], [1, 1], [1, 1, 1]]),
        ({"items": {"type": "boolean"}, "maxItems": 2}, [[True, False], [True, True], [False]]),
        ({"items": {"type": "array", **REPEATED}}, [[[1, 1], [1, 1]], [[1, 1], [2, 2]], [[1], [1]]]),
    ],
)
def test_what_may_stand_where(schema: dict[str, Any], values: list[Any]) -> None:
    schema = {**schema, "type": "array", "not": {"uniqueItems": True}}
    made, validator = program(schema), judge(schema)
    found = [takes(made, json.dumps(value)) for value in values]
    assert found == [validator.is_valid(value) for value in values]
    assert len(set(found)) == 2, "the table tries both"


@pytest.mark.parametrize(
    "schema",
    [
        {"maxItems": 1},
        {"uniqueItems": True},
        {"prefixItems": [{"const": 1}, {"const": 2}], "items": False},
        {"prefixItems": [{"type": "string"}, {"type": "number"}], "maxItems": 2},
        {"items": {"enum": [1, 2]}, "allOf": [{"contains": {"const": n}, "maxContains": 1} for n in (1, 2)]},
    ],
)
def test_where_no_two_items_can_be_equal_nothing_is_left(schema: Any) -> None:
    with pytest.raises(gr.GuiderailError) as caught:
        program({**schema, "type": "array", "not": {"uniqueItems": True}})
    assert caught.value.code in ("unsatisfiable-schema", "unsatisfiable")


def test_one_of_a_list_of_distinct_items_and_one_thing_more() -> None:
    parameter = {"type": "object", "properties": {"tags": {"type": "array", "uniqueItems": True}}}
    reference = {"type": "object", "properties": {"$ref": {"type": "string"}}, "required": ["$ref"]}
    schema = {"oneOf": [reference, parameter]}
    made, validator = program(schema), judge(schema)
    for value in (
        {"$ref": "#"},
        {"$ref": "#", "tags": [1, 1]},
        {"$ref": "#", "tags": [1, 2]},
        {"tags": [1, 2]},
        {"tags": [1, 1]},
        {"$ref": "#", "tags": 1},
    ):
        assert takes(made, json.dumps(value)) == validator.is_valid(value), value


@pytest.mark.parametrize("notation", ["yaml", "python"])
def test_other_notations(notation: str) -> None:
    schema = {"type": "array", "items": {"enum": [1, 2, True, None, "a"]}, "not": {"uniqueItems": True}, "maxItems": 3}
    made = program(schema, notation=notation)
    for text, expected in (("[1, 2, 1]", True), ("[1, 2]", False), ("[1, 2, 2]", True)):
        assert takes(made, text) == expected


# -- on generated schemas ---------------------------------------------------------------------------------------------
SCALARS: list[Any] = [1, 2, 1.0, "a", "b", None, True, [], [1], {}, {"a": 1}]
ITEMS: list[Any] = [
    True,
    {"type": "string"},
    {"type": ["number", "null"]},
    {"enum": [1, "a", None]},
    {"enum": [2, "b", [1]]},
    {"type": "array", "items": {"const": 1}},
    {"type": "object", "required": ["a"]},
    {"const": 1},
    {"type": "array", "not": {"uniqueItems": True}},
]
items = st.sampled_from(ITEMS)
size = st.integers(0, 4)
PARTS: dict[str, st.SearchStrategy[Any]] = {
    "items": items,
    "prefixItems": st.lists(items, min_size=1, max_size=3),
    "minItems": size,
    "maxItems": size,
    "contains": items,
    "minContains": st.integers(0, 2),
    "maxContains": st.integers(0, 2),
    "uniqueItems": st.just(True),
}
arrays = st.lists(st.sampled_from(sorted(PARTS)), max_size=3, unique=True).flatmap(
    lambda keys: st.fixed_dictionaries({k: PARTS[k] for k in keys})
)
combined = st.one_of(
    st.builds(
        lambda a, b: {**a, "not": {"uniqueItems": True, **b}}, arrays, st.sampled_from([{}, {}, {"minItems": 3}])
    ),
    st.builds(lambda some: {"oneOf": some}, st.lists(arrays, min_size=2, max_size=3)),
    st.builds(lambda a, b: {"if": a, "then": b}, arrays, arrays),
)
PIECES = ["[", "]", ",", "1", "2", ".0", '"a"', '"b"', '"', "a", "null", "[]", "[1]", "{}", '{"a"', ":", "}", "true"]
TOKENS = [*(bytes([b]) for b in range(32, 127)), *(p.encode() for p in PIECES), b", ", b"1,", b'", "', b"1, 1]", b"]]"]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(schema=combined, seed=st.integers(0, 1 << 30))
def test_texts_and_masks_of_generated_schemas(schema: Any, seed: int) -> None:
    schema = {"type": "array", **schema}
    validator = judge(schema)
    try:
        constraint = gr.json_schema(schema)
        made = program(schema)
    except gr.LimitError:  # items are counted and compared together: multiplied out
        return
    except gr.CompileError as error:
        assert error.code in ("unsatisfiable-schema", "unsatisfiable")
        made = None
    rng = random.Random(seed)
    for _ in range(60):
        value = [rng.choice(SCALARS) for _ in range(rng.randrange(6))]
        valid = validator.is_valid(value)
        if made is None:
            assert not valid, value
        elif not any(type(part) is float for part in value):  # spelled like an integer only if a number is required
            assert takes(made, json.dumps(value)) == valid, value
    if made is None:
        return
    matcher = gr.compile(constraint, plain(TOKENS), cache=False).matcher()
    text = b""
    for _ in range(14):
        mask = mask_of(matcher)
        state = made.derivative(made.root, text)
        allowed = [t for t, token in enumerate(TOKENS) if made.derivative(state, token)]
        assert [t for t in range(len(TOKENS)) if mask[t]] == allowed, text
        if not allowed:
            break
        try:
            end = made.shortest(state, 200)  # every state can be completed
        except gr.LimitError:  # finding the remaining values is a search
            break
        if end is not None:
            with suppress(OverflowError):  # a number with very many digits
                assert validator.is_valid(parse((text + end).decode())), text + end
        token = rng.choice(allowed)
        assert matcher.accept_token(token)
        text += TOKENS[token]


def test_lists_of_distinct_objects_that_hold_lists_of_distinct_items() -> None:
    texts = {"type": "array", "minItems": 1, "uniqueItems": True, "items": {"type": "string"}}
    item = {"type": "object", "properties": {"a": texts, "b": texts, "c": {"type": "boolean"}}, "required": ["a"]}
    schema = {"type": "array", "items": {**item, "additionalProperties": False}, "uniqueItems": True, "minItems": 1}
    made, validator = program(schema), judge(schema)
    for value in (
        [{"a": ["x", "y"], "b": ["x"]}, {"a": ["x", "y"]}, {"a": ["y", "x"]}],
        [{"a": ["x"]}, {"b": ["x"], "a": ["y"]}, {"a": ["x"]}],
        [{"a": ["x", "x"]}],
        [{"a": ["x"], "c": True}, {"c": True, "a": ["x"]}],
    ):
        assert takes(made, json.dumps(value)) == validator.is_valid(value), value
