"""Arrays whose alternatives and counters are read in parallel, against their normal form and `jsonschema`."""

from __future__ import annotations

import json
import marshal
import random
from itertools import product
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import guiderail as gr
from core_support import mask_of, plain, takes
from guiderail import _core
from guiderail.constraints.program import build_program
from guiderail.frontends.json_schema.constraint import JsonSchema
from guiderail.frontends.json_schema.normal_form import algebra, array_votes
from guiderail.frontends.json_schema.normal_form.shape import TRUE, ArrayCell
from guiderail.frontends.json_schema.normal_form.votes import Mix, Numbered, bits, holds
from guiderail.frontends.json_schema.options import SchemaOptions
from guiderail.support.work import MAX_STEP_WORK


def program(schema: Any, late: bool = False, **options: Any) -> _core.Program:
    """Compiles a schema; late: conditions on arrays are not multiplied, so whole texts take more steps to read."""
    with pytest.MonkeyPatch.context() as patch:
        if late:
            patch.setattr(algebra, "MOST_CELLS", 0)
            patch.setattr(array_votes, "MOST_STATES", 0)
        constraint = JsonSchema(marshal.dumps(schema, 2), SchemaOptions.of(options))
        return build_program(constraint, max_step_work=2 * MAX_STEP_WORK if late else MAX_STEP_WORK)


def kind(name: str) -> dict[str, Any]:
    return {"type": "object", "properties": {"kind": {"const": name}}, "required": ["kind"]}


# schema, values: with too many states or cells to write out
WIDE: dict[str, tuple[Any, list[Any]]] = {
    "many contained": (
        {"allOf": [{"contains": {"const": i}} for i in range(30)]},
        [list(range(30)), [*range(29), 5], [*range(29, -1, -1), "x"], []],
    ),
    "many contained objects": (
        {"items": {"type": "object"}, "allOf": [{"contains": kind(f"k{i}")} for i in range(20)]},
        [[{"kind": f"k{i}"} for i in range(20)], [{"kind": f"k{i % 19}"} for i in range(20)]],
    ),
    "many counted": (
        {
            "maxItems": 20,
            "allOf": [
                {"contains": {"multipleOf": i, "type": "integer"}, "minContains": 2, "maxContains": 9}
                for i in (2, 3, 5, 7)
            ],
        },
        [[210, 210], [2, 3, 5, 7], [6, 6, 35, 35], [2, 2, 3, 3, 5, 5, 7, 7], [2] * 10 + [105, 105], [1] * 21],
    ),
    "one of many": (
        {
            "oneOf": [
                {"prefixItems": [{"const": i}, {"type": "string"}], "contains": {"const": f"{i}"}} for i in range(12)
            ]
        },
        [[3, "3"], [3, "4"], [3, "x", "3"], [3, 3, "3"], ["3"], [], [5, "a", "b", "5"]],
    ),
    "any of many, all of many": (
        {"allOf": [{"anyOf": [{"contains": {"const": i}}, {"contains": {"const": f"{i}"}}]} for i in range(10)]},
        [list(range(10)), [f"{i}" for i in range(10)], list(range(9)), [0, "1", 2, "3", 4, "5", 6, "7", 8, "9"]],
    ),
    "negated": (
        {"not": {"anyOf": [{"prefixItems": [True] * i + [{"const": i}], "minItems": i + 1} for i in range(9)]}},
        [[], list(range(9)), [1, 0, 1, 2, 3], [1, 1], ["x"] * 9, ["x"] * 8 + [8]],
    ),
    "conditions": (
        {"allOf": [{"if": {"contains": {"const": i}}, "then": {"contains": {"const": i + 1}}} for i in range(9)]},
        [[0], list(range(10)), [9], [8], [8, 9], ["x"], [5, 6, 7, 8, 9]],
    ),
}


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("name", WIDE)
def test_many_alternatives_compile_and_mean_what_they_say(name: str, late: bool) -> None:
    schema, values = WIDE[name]
    schema = {"type": "array", **schema}
    made = program(schema, late)
    judge = jsonschema.Draft202012Validator(schema)
    found = [takes(made, json.dumps(value)) for value in values]
    assert found == [judge.is_valid(value) for value in values]
    assert len(set(found)) == 2, "the table tries both"


@pytest.mark.parametrize(
    "schema",
    [
        {"maxItems": 2, "allOf": [{"contains": {"const": i}} for i in range(3)]},
        {
            "allOf": [
                {"contains": {"type": "integer"}, "minContains": 3},
                {"contains": {"type": "number"}, "maxContains": 2},
            ]
        },
        {"prefixItems": [{"const": 1}], "items": {"const": 2}, "contains": {"const": 1}, "minContains": 2},
        {"oneOf": [{"contains": {"const": 1}}, {"contains": {"const": 1}}]},
    ],
)
def test_what_no_array_satisfies_is_refused(schema: Any) -> None:
    with pytest.raises(gr.CompileError) as caught:
        program({"type": "array", **schema}, late=True)
    assert caught.value.code in ("unsatisfiable-schema", "unsatisfiable")


def test_integers_keep_the_spellings_of_numbers() -> None:
    schema = {
        "type": "array",
        "items": {"type": "number"},
        "anyOf": [{"contains": {"type": "integer"}}, {"minItems": 2}],
    }
    made = program(schema, late=True)
    assert takes(made, "[2.0]") and takes(made, "[2, 0.5]") and takes(made, "[0.5, 2.0]") and not takes(made, "[0.5]")


# -- against the normal form ------------------------------------------------------------------------------------------
SCALARS: list[Any] = [1, 2, "a", "b", None, True, [], [1], {}, {"a": 1}]
ITEMS: list[Any] = [
    True,
    False,
    {"type": "string"},
    {"type": ["integer", "null"]},
    {"enum": [1, "a", None]},
    {"enum": [2, "b", [1]]},
    {"type": "array", "items": {"const": 1}},
    {"type": "object", "required": ["a"]},
    {"const": 1},
]
items = st.sampled_from(ITEMS)
size = st.integers(0, 3)
PARTS: dict[str, st.SearchStrategy[Any]] = {
    "items": items,
    "prefixItems": st.lists(items, min_size=1, max_size=2),
    "minItems": size,
    "maxItems": size,
    "contains": items,
    "minContains": size,
    "maxContains": size,
    "uniqueItems": st.just(True),
}
cells = st.lists(st.sampled_from([*sorted(PARTS)[1:], "contains"]), min_size=1, max_size=3, unique=True).flatmap(
    lambda keys: st.fixed_dictionaries({k: PARTS[k] for k in keys})
)


def combined(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    many = st.lists(inner, min_size=2, max_size=3)
    return st.one_of(
        *(st.fixed_dictionaries({keyword: many}) for keyword in ("oneOf", "anyOf", "allOf")),
        st.fixed_dictionaries({"not": inner}),
        st.fixed_dictionaries({"if": inner, "then": inner, "else": inner}),
    )


arrays = st.recursive(cells, combined, max_leaves=6)
PIECES = ["[", "]", ",", "1", "2", '"a"', '"b"', '"', "a", "null", "[]", "[1]", "{}", '{"a"', ":", "}", "true", "b"]
TOKENS = [*(bytes([b]) for b in range(32, 127)), *(p.encode() for p in PIECES), b", ", b"1,", b'", "', b"1, 1]", b"]]"]


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(schema=arrays, seed=st.integers(0, 1 << 30), most=st.sampled_from([None, None, 2]))
def test_late_decisions_are_those_of_the_normal_form(schema: Any, seed: int, most: int | None) -> None:
    schema = {"type": "array", "allOf": [schema]}
    judge = jsonschema.Draft202012Validator(schema)
    found = []
    for late in (True, False):
        try:
            found.append(program(schema, late, max_items=most))
        except gr.LimitError:  # multiplied out; with distinct items, even if alternatives are read in parallel
            assert not late or "uniqueItems" in json.dumps(schema)
            return
        except gr.CompileError as error:
            assert error.code in ("unsatisfiable-schema", "unsatisfiable")
            found.append(None)
    made, other = found
    assert (made is None) == (other is None)
    try:
        compare(made, other, judge, random.Random(seed), most)
    except gr.LimitError:  # finding the remaining distinct values is a search
        assert "uniqueItems" in json.dumps(schema)


def compare(made: _core.Program | None, other: _core.Program | None, judge: Any, rng: random.Random, most: Any) -> None:
    for _ in range(40):
        value = [rng.choice(SCALARS) for _ in range(rng.randrange(6))]
        valid = judge.is_valid(value) and (most is None or len(value) <= most)
        assert (made is not None and takes(made, json.dumps(value))) == valid, value
    if made is None or other is None:
        return
    for _ in range(3):  # the same texts begin a valid one, and the completion of each is valid
        texts = [(made.root, other.root, "")]
        for _ in range(15):
            state, beside, text = texts[-1]
            able = []
            for piece in PIECES:
                after = made.derivative(state, piece.encode())
                same = other.derivative(beside, piece.encode())
                assert (after == 0) == (same == 0), text + piece
                if after:
                    able.append((after, same, text + piece))
            if not able:
                break
            texts.append(rng.choice(able))
        state, _, text = texts[-1]
        end = made.shortest(state, 300)
        if end is not None and len(end) < 200:
            assert judge.is_valid(json.loads(text + end.decode()))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(schema=arrays, seed=st.integers(0, 1 << 30))
def test_masks_are_those_of_the_derivatives(schema: Any, seed: int) -> None:
    schema = {"type": "array", "allOf": [schema]}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(algebra, "MOST_CELLS", 0)
        patch.setattr(array_votes, "MOST_STATES", 0)
        try:
            made = build_program(JsonSchema(marshal.dumps(schema, 2), SchemaOptions()))
            guide = gr.compile(JsonSchema(marshal.dumps(schema, 2), SchemaOptions()), plain(TOKENS), cache=False)
        except (gr.CompileError, gr.LimitError):
            return
    rng = random.Random(seed)
    matcher, text = guide.matcher(), b""
    for _ in range(14):
        try:
            mask = mask_of(matcher)
            state = made.derivative(made.root, text)
            allowed = [t for t, token in enumerate(TOKENS) if made.derivative(state, token)]
        except gr.LimitError:  # the same
            break
        assert [t for t in range(len(TOKENS)) if mask[t]] == allowed, text
        if not allowed:
            break
        token = rng.choice(allowed)
        assert matcher.accept_token(token)
        text += TOKENS[token]


def test_formulas_are_decided_as_soon_as_they_can_be() -> None:
    """With parts that occur twice, and with cells that are still open."""
    cells = [ArrayCell((), TRUE, i) for i in range(4)]
    rng = random.Random(5)

    def formula(depth: int) -> Any:
        if depth == 0:
            return rng.choice(cells)
        op = rng.choice(["all", "any", "one", "one", "not"])
        return Mix(op, tuple(formula(depth - 1) for _ in range(1 if op == "not" else rng.randrange(4))))

    for _ in range(200):
        whole = formula(3)
        numbered: Numbered[ArrayCell] = Numbered()
        numbered._add(whole)
        for state in product((True, False, None), repeat=len(numbered.cells)):
            there = [{True} if known else {False} if known is False else {True, False} for known in state]
            ways = [holds(whole, dict(zip(numbered.cells, way, strict=True)).__getitem__) for way in product(*there)]
            found = numbered.whole(
                bits(i for i, known in enumerate(state) if known),
                bits(i for i, known in enumerate(state) if known is False),
            )
            assert found in (None, ways[0]), whole.key()
            assert found is None or len(set(ways)) == 1
            assert found is not None or None in state
