"""Alternatives of objects that are read in parallel, against their normal form and `jsonschema`."""

from __future__ import annotations

import itertools
import json
import marshal
import random
from collections.abc import Callable
from typing import Any

import jsonschema
import numpy as np
import pytest
from hypothesis import HealthCheck, event, given, settings, strategies as st

import guiderail as gr
import schema_generator
from core_support import plain, takes
from guiderail import _core
from guiderail.constraints.program import build_program
from guiderail.frontends.json_schema.constraint import JsonSchema
from guiderail.frontends.json_schema.lowering import lower
from guiderail.frontends.json_schema.normal_form import algebra, votes
from guiderail.frontends.json_schema.options import SchemaOptions

NAMES = schema_generator.NAMES


def program(schema: Any, cells: int | None = None, choices: int | None = None, **options: Any) -> _core.Program:
    """Compiles a schema with at most this many cells in a normal form; 0: no products.

    A cell of more choices than this is lowered as a vote.
    """
    with pytest.MonkeyPatch.context() as patch:
        if choices is not None:
            patch.setattr(lower, "_MOST_CHOICES", choices)
        if cells is not None:
            patch.setattr(algebra, "MOST_CELLS", cells)
            patch.setattr(votes, "MANIFOLD", min(cells + 1, votes.MANIFOLD))
        return build_program(JsonSchema(marshal.dumps(schema, 2), SchemaOptions.of(options)))


def kinds(count: int, **more: Any) -> list[dict[str, Any]]:
    """Alternatives that an optional name distinguishes."""
    return [{"properties": {"kind": {"const": f"k{i}"}, f"x{i}": {"type": "integer"}}, **more} for i in range(count)]


def builders(count: int) -> list[dict[str, Any]]:
    """Alternatives whose closed options share only some names, once under a key and once in a map."""

    def options(i: int) -> dict[str, Any]:
        names = {f"o{j}": {"type": "string"} for j in range(2 * count) if i >> (j % 4) & 1 or j % 5 == i % 5}
        return {"type": "object", "properties": names, "additionalProperties": False}

    return [
        {
            "type": "object",
            "properties": {
                "builder": {"const": f"b{i}"},
                "options": options(i),
                "maps": {"type": "object", "additionalProperties": options(i)},
            },
        }
        for i in range(count)
    ]


def closed(i: int) -> dict[str, Any]:
    """Objects with a kind and a few names, all optional and nothing besides."""
    names = {f"{letter}{i}": {"type": "string"} for letter in "abcd"}
    return {"properties": {"kind": {"const": f"k{i}"}, **names}, "additionalProperties": False}


# schema, values: satisfiable, but with too many cells to multiply out
WIDE: dict[str, tuple[Any, list[Any]]] = {
    "optional discriminator": (
        {"oneOf": kinds(24)},
        [{"kind": "k3", "x3": 1}, {"kind": "k3", "x3": ""}, {"kind": "k3", "x4": ""}, {}, {"x1": 1}, {"kind": "none"}],
    ),
    "one alternative without it": (
        {"type": "object", "oneOf": [*kinds(20, required=["kind"]), {"required": ["kind", "other"]}]},
        [{"kind": "k1"}, {"kind": "k1", "other": 1}, {"kind": "?", "other": 1}, {"kind": "k2", "x2": "", "other": 1}],
    ),
    "any of many, all of many": (
        {
            "type": "object",
            "allOf": [{"anyOf": [{"required": [f"a{i}"]}, {"required": [f"b{i}"]}]} for i in range(12)],
        },
        [
            {f"{'ab'[i % 2]}{i}": i for i in range(12)},
            {f"{'ab'[i % 2]}{i}": i for i in range(11)},
            {},
        ],
    ),
    "nested oneOf": (
        {"oneOf": [{"oneOf": kinds(9)}, {"oneOf": [{"required": ["z"]}, *kinds(7)]}]},
        [{"kind": "k8"}, {"kind": "k1"}, {"z": 1}, {"kind": "k1", "z": 1}, {"kind": "k8", "z": 1}, {}],
    ),
    "objects that overlap under one key": (
        {"oneOf": builders(9)},
        [
            {"builder": "b3", "options": {"o0": ""}},
            {"builder": "b3", "options": {"o0": 1}},
            {"builder": "b3", "options": {"o2": ""}},
            {"options": {"o8": "", "o1": ""}},
            {"options": {"o8": "", "o1": ""}, "maps": {"x": {"o3": ""}}},
            {"options": {"o8": "", "o1": ""}, "maps": {"x": {"o3": "", "o4": ""}}},
            {"options": {}},
            {"options": {"o1": "", "o2": "", "o3": ""}},
            {"options": {"o4": "", "o14": "", "o9": ""}},
            {"maps": {"x": {"o4": ""}, "y": {"o14": ""}, "z": {"o9": ""}}},
            {"maps": {"x": {"o4": ""}}, "builder": "b4"},
            {"maps": {"x": {"o4": ""}}, "builder": "b5"},
        ],
    ),
    "closed, each with some names of its own": (
        {
            "oneOf": [
                {"type": "object", **closed(i), "properties": {**closed(i)["properties"], "spec": closed(i)}}
                for i in range(12)
            ]
        },
        [
            {"kind": "k3", "spec": {}},
            {"kind": "k3", "spec": {"a3": "", "d3": ""}},
            {"kind": "k3", "spec": {"a4": ""}},
            {"spec": {"a3": "", "b3": ""}},
            {"spec": {"kind": "k5"}, "c5": ""},
            {"spec": {"kind": "k5"}, "c6": ""},
            {"a3": "", "a4": ""},
            {"kind": "k12"},
            {"spec": 1},
            {"spec": {}},
            {},
        ],
    ),
    "more negations than choices are written out for": (
        {"type": "object", "allOf": [{"not": {"additionalProperties": {"const": i}}} for i in range(12)]},
        [{}, {"a": 1}, {"a": 1, "b": 2}, {"a": 12}, {"a": 3, "b": 3}],
    ),
    "negated": (
        {"type": "object", "not": {"anyOf": [{"properties": {f"a{i}": {"const": i}}} for i in range(9)]}},
        [{}, {f"a{i}": "wrong" for i in range(9)}, {f"a{i}": i for i in range(9)}, {"a0": 5}],
    ),
    "counts": (
        {
            "type": "object",
            "oneOf": [
                {"minProperties": i, "maxProperties": i + 2, "properties": {"a": {"const": i}}} for i in range(9)
            ],
        },
        [{"a": 1}, {"a": 3, "b": 1, "c": 1}, {"b": 1}, {}, {"b": 1, "c": 2, "d": 3}],
    ),
    "conditions": (
        {
            "type": "object",
            "allOf": [
                {"if": {"properties": {f"a{i}": {"const": 1}}}, "then": {"required": [f"b{i}"]}} for i in range(10)
            ],
        },
        [{f"a{i}": 0 for i in range(10)}, {f"b{i}": 0 for i in range(10)}, {}, {f"a{i}": 0 for i in range(9)}],
    ),
    "no type": (  # so all alternatives share the values that are not objects
        {"oneOf": [{**kind, "required": ["kind"]} for kind in kinds(40)]},
        [{"kind": "k7"}, {"kind": "k7", "x7": ""}, 1, "k7", [], {}],
    ),
    "a switch": (
        {
            "type": "object",
            "allOf": [
                {"if": {"properties": {"kind": {"const": f"k{i}"}}}, "then": {"properties": {"v": {"minimum": i}}}}
                for i in range(80)
            ],
            "required": ["kind"],
        },
        [{"kind": "k9", "v": 9}, {"kind": "k9", "v": 8}, {"kind": "none", "v": -1}],
    ),
    "integers beside numbers": (
        {"type": "object", "oneOf": [{"properties": {"a": {"type": t}}} for t in ("integer", "number", "string")]},
        [{"a": 1}, {"a": 1.5}, {"a": "x"}, {"a": None}, {}],
    ),
    "unevaluated members of many combinations": (
        {
            "type": "object",
            "allOf": [
                {"anyOf": [*({"properties": {a: {"const": i}}, "required": [a]} for a in (f"a{i}", f"b{i}")), {}]}
                for i in range(9)
            ],
            "patternProperties": {"^x": {"type": "string"}},
            "unevaluatedProperties": {"type": "null"},
        },
        [
            {f"{'ab'[i % 2]}{i}": i for i in range(9)},
            {f"a{i}": i for i in range(8)},
            {"a1": 1, "b1": 1, "x": ""},
            {"a1": 1, "b1": 2},
            {"a1": None, "y": None},
            {"y": 1},
            {},
        ],
    ),
    "patterns": (
        {
            "type": "object",
            "oneOf": [
                {"patternProperties": {f"^{a}": {"type": "integer"}}, "minProperties": 1, "additionalProperties": b}
                for a, b in itertools.product("abcd", (False, {"type": "string"}))
            ],
        },
        [{"a": 1}, {"a": 1, "x": ""}, {"x": ""}, {"b": 1, "c": ""}, {"b": 1, "a": 2}, {"d": ""}],
    ),
}


@pytest.mark.parametrize(
    ("name", "cells"),
    [(name, cells) for name in WIDE for cells in (None, 0) if cells is None or name != "a switch"],  # that is a union
)
def test_many_alternatives_compile_and_mean_what_they_say(name: str, cells: int | None) -> None:
    schema, values = WIDE[name]
    made = program(schema, cells)
    judge = jsonschema.Draft202012Validator(schema)
    found = [takes(made, json.dumps(value)) for value in values]
    assert found == [judge.is_valid(value) for value in values]
    assert len(set(found)) == 2, "the table tries both"


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["a"]}]},
        {
            "type": "object",
            "required": ["a"],
            "not": {
                "anyOf": [{"properties": {"a": {"type": "number"}}}, {"properties": {"a": {"not": {"type": "number"}}}}]
            },
        },
        {
            "type": "object",
            "maxProperties": 1,
            "allOf": [{"not": {"propertyNames": {"const": n}}} for n in "ab"],
            "propertyNames": {"enum": ["a", "b"]},
        },
    ],
)
def test_what_no_value_satisfies_is_refused(schema: Any) -> None:
    with pytest.raises(gr.SchemaError) as caught:
        program(schema, 0)
    assert caught.value.code == "unsatisfiable-schema"


def test_integers_keep_the_spellings_of_numbers() -> None:
    schema = {
        "type": "object",
        "oneOf": [{"properties": {"n": {"type": "integer"}}, "required": ["a"]}, {"required": ["b"]}],
    }
    judge = jsonschema.Draft202012Validator(schema)
    made = program(schema, 0)
    for text in ('{"n": 2.0, "b": 1}', '{"n": 2e0, "b": 1}', '{"n": 2.5, "b": 1}', '{"n": 2.0, "a": 1, "b": 1}'):
        assert takes(made, text) == judge.is_valid(json.loads(text)), text


def test_a_long_chain_of_negations() -> None:
    defs: dict[str, Any] = {"n0": {"type": "object", "properties": {"a": {"const": 1}}}}
    for i in range(1, 150):
        alternatives = [
            {"type": "object", "properties": {"a": {"$ref": f"#/$defs/n{i - 1}"}}, "required": ["a"]},
            {"type": "object", "properties": {"b": {"$ref": f"#/$defs/n{i - 1}"}}},
        ]
        defs[f"n{i}"] = {"oneOf": alternatives}
    schema = {"$ref": "#/$defs/n9", "$defs": defs}
    judge = jsonschema.Draft202012Validator(schema)
    made = program(schema)
    for value in ({}, {"a": {}}, {"b": 1}, {"a": {"a": {"a": {"a": 1}}}}, {"b": {"b": {"b": {"a": 1}}}}):
        assert takes(made, json.dumps(value)) == judge.is_valid(value), value


# -- against the normal form ------------------------------------------------------------------------------------------
LEAVES: list[Any] = [
    True,
    False,
    {"type": "string"},
    {"type": "object"},
    {"const": "a"},
    {"enum": ["a", "b"]},
    {"type": ["string", "null"]},
    {"type": "object", "properties": {"a": {"const": "a"}}},
    {"type": "object", "properties": {"a": {"const": "a"}}, "required": ["a"]},
    {"properties": {"a": {"const": "b"}}, "additionalProperties": False},
]


def cells(leaf: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    parts: dict[str, st.SearchStrategy[Any]] = {
        "required": st.lists(st.sampled_from(NAMES), max_size=2, unique=True),
        "additionalProperties": leaf,
        "patternProperties": st.dictionaries(st.sampled_from(schema_generator.PATTERNS), leaf, max_size=2),
        "minProperties": st.integers(0, 3),
        "maxProperties": st.integers(1, 3),
        "propertyNames": st.sampled_from([{"enum": ["a", "b"]}, {"pattern": "^a"}]),
    }
    properties = st.dictionaries(st.sampled_from(NAMES), leaf, max_size=3)
    some = st.lists(st.sampled_from(sorted(parts)), max_size=2, unique=True)
    return some.flatmap(lambda keys: st.fixed_dictionaries({"properties": properties, **{k: parts[k] for k in keys}}))


UNEVALUATED = {"unevaluatedProperties": st.sampled_from([False, False, {"const": "a"}])}


def combined(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    many = st.lists(inner, min_size=2, max_size=3)
    return st.one_of(
        *(st.fixed_dictionaries({keyword: many}, optional=UNEVALUATED) for keyword in ("oneOf", "anyOf", "allOf")),
        st.fixed_dictionaries({"not": inner}),
        st.fixed_dictionaries({"if": inner, "then": inner, "else": inner}, optional=UNEVALUATED),
        st.fixed_dictionaries({"dependentSchemas": st.dictionaries(st.sampled_from(NAMES), inner), **UNEVALUATED}),
    )


objects = st.recursive(cells(st.sampled_from(LEAVES)), combined, max_leaves=6)
VALUES = ["a", "b", "c", None, {}, {"a": "a"}, {"a": "b"}]
PIECES = ["{", "}", '"', ":", ",", '"a"', '"b"', "a", "b", "c", "x", '"a":', '"x-y":', '"ab":', '{"', "null", " "]


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(schema=objects, seed=st.integers(0, 1 << 30), ordered=st.booleans())
def test_late_decisions_are_those_of_the_normal_form(schema: Any, seed: int, ordered: bool) -> None:
    try:
        _same_as_the_normal_form(schema, seed, ordered)
    except gr.LimitError:  # unevaluatedProperties over nested conditions: refused, without a wrong answer
        event("a limit was met")


def _same_as_the_normal_form(schema: Any, seed: int, ordered: bool) -> None:
    schema = {"type": "object", "allOf": [schema]}
    judge = jsonschema.Draft202012Validator(schema)
    try:
        late = program(schema, 0, seed % 2 * 4, property_order="declared" if ordered else "any")
    except gr.SchemaError as error:
        assert error.code == "unsatisfiable-schema"
        late = None
    rng = random.Random(seed)
    for _ in range(40):
        names = rng.sample([*NAMES, "d", "y"], rng.randrange(5))
        value = {name: rng.choice(VALUES) for name in names}
        valid = judge.is_valid(value)
        if late is None or ordered:  # some order will do
            texts = [json.dumps(dict(order)) for order in itertools.permutations(value.items())]
            assert (late is not None and any(takes(late, text) for text in texts)) == valid, value
        else:
            assert takes(late, json.dumps(value)) == valid, value
    if late is None:
        return
    for _ in range(3):  # every state can be completed, and its completion is valid
        state, text = late.root, ""
        for _ in range(25):
            able = [(piece, after) for piece in PIECES if (after := late.derivative(state, piece.encode()))]
            if not able:
                break
            piece, state = rng.choice(able)
            text += piece
        end = late.shortest(state, 400)
        if end is not None:
            assert judge.is_valid(json.loads(text + end.decode()))


def test_masks_are_those_of_the_normal_form() -> None:
    schema = {"type": "object", "oneOf": kinds(4, additionalProperties={"type": "string"})}
    words = [bytes([b]) for b in range(32, 127)] + [
        b'{"',
        b'":',
        b'"kind',
        b'"k1"',
        b'"k',
        b'x1":',
        b"null",
        b'"}',
        b'","',
    ]
    vocabulary = plain(words)
    with pytest.MonkeyPatch.context() as patch:
        guides = []
        for most in (64, 0):
            patch.setattr(algebra, "MOST_CELLS", most)
            constraint = JsonSchema(marshal.dumps(schema, 2), SchemaOptions())
            guides.append(gr.compile(constraint, vocabulary, cache=False))
    rng = random.Random(1)
    bits = gr.allocate_token_bitmask(1, vocabulary.size)
    for _ in range(20):
        matchers = [guide.matcher() for guide in guides]
        for _ in range(30):
            found = []
            for matcher in matchers:
                matcher.fill_next_token_bitmask(bits, 0)
                found.append(bytes(np.asarray(bits).tobytes()))
            assert found[0] == found[1]
            allowed = [t for t in range(len(words)) if found[0][t // 8] >> t % 8 & 1]
            if not allowed:
                break
            token = rng.choice(allowed)
            assert all(matcher.accept_token(token) for matcher in matchers)


# -- what it costs ----------------------------------------------------------------------------------------------------
MANY: dict[str, Callable[[int], dict[str, Any]]] = {
    "a chain": lambda n: {"dependentRequired": {f"k{i}": [f"k{i + 1}"] for i in range(n)}},
    "pairs": lambda n: {"dependentRequired": {f"k{i}": [f"k{i + 1}"] for i in range(0, n, 2)}},
    "one name": lambda n: {"oneOf": [{"required": [f"k{i}"]} for i in range(n)]},
    "one integer": lambda n: {"oneOf": [{"properties": {f"k{i}": {"type": "integer"}}} for i in range(n)]},
    "not all": lambda n: {"not": {"allOf": [{"properties": {f"k{i}": {"type": "integer"}}} for i in range(n)]}},
}


def steps_of_masks(schema: dict[str, Any], count: int) -> int:
    """The most steps that a mask takes along a text, with a token for each key that may come."""
    vocabulary = plain([*(bytes([b]) for b in range(32, 127)), *(f'"k{i}":'.encode() for i in range(count))])
    matcher = gr.compile(gr.json_schema(schema, separators=(",", ":")), vocabulary, cache=False).matcher()
    bits = gr.allocate_token_bitmask(1, vocabulary.size)
    most = 0
    for piece in ("{", '"x":', "1", ",", '"k0":', "1", ",", '"k2":', "1", ","):
        before = _core.spent_work()
        matcher.fill_next_token_bitmask(bits, 0)
        most = max(most, _core.spent_work() - before)
        if not matcher.accept_string(piece):
            break
    return most


@pytest.mark.parametrize("name", MANY)
def test_the_steps_of_a_mask_grow_with_names_times_alternatives(name: str) -> None:
    """Each name is another state to complete, which takes about as many steps as there are alternatives."""
    small, large = (steps_of_masks({"type": "object", **MANY[name](n)}, n) for n in (60, 120))
    assert large < 5 * small + 10_000
    assert large < 300_000


@pytest.mark.parametrize(("op", "of"), [(4, []), (4, [0, 0]), (0, []), (5, [0])])
def test_parts_of_a_wrong_shape_are_refused(op: int, of: list[int]) -> None:
    b = _core.Builder()
    with pytest.raises(gr.CompileError, match="a part") as caught:
        b.vote(
            [], [], [], [], b.literal(b","), b.literal(b":"), ordered=False, escapes=0,
            cells=[([], 0, -1)], parts=[(0, [0]), (op, of)], effects=[[]], settled=[], wholes=[],
        )  # fmt: skip
    assert caught.value.code == "bad-shape"
