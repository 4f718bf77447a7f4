"""Work is counted: what costs too much is rejected, everywhere and always, with its location."""

from __future__ import annotations

from typing import Any

import pytest

import guiderail as gr
from guiderail import Vocabulary
from guiderail.constraints.program import build_program
from guiderail.support import work


def nested(depth: int, width: int) -> dict[str, Any]:
    """Nested alternatives, distinguished by a required name."""
    inner = nested(depth - 1, width) if depth else {"type": "integer"}
    names = [f"k{depth}{i}" for i in range(width)]
    return {"type": "object", "oneOf": [{"properties": {name: inner}, "required": [name]} for name in names]}


EXPENSIVE = {
    "patternProperties": {
        "type": "object",
        "patternProperties": {f"{a}{b}": {"type": "integer", "minimum": ord(b)} for a in "abc" for b in "defghi"},
        "additionalProperties": False,
    },
    "oneOf": nested(5, 5),
}


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    return Vocabulary([bytes([b]) for b in range(256)] + [b"</s>"], stop_token_ids=[256])


@pytest.mark.parametrize("name", EXPENSIVE)
def test_expensive_schemas_are_refused_with_their_place(name: str, vocabulary: Vocabulary) -> None:
    with pytest.raises(gr.LimitError) as caught:
        gr.compile(gr.json_schema(EXPENSIVE[name]), vocabulary)
    assert caught.value.code in ("work", "schema-branches")
    assert caught.value.pointer.startswith("#")  # type: ignore[attr-defined]


def steps(schema: Any) -> int:
    constraint = gr.json_schema(schema)
    before = work.spent()
    build_program(constraint)
    return work.spent() - before


# With the fewest steps that account for the time. Numbers, joined terms and formulas once cost almost nothing.
COUNTED: dict[str, tuple[Any, int]] = {
    "bounds of numbers": (
        {"properties": {f"n{i}": {"type": "number", "minimum": i, "maximum": i + 100} for i in range(50)}},
        100_000,
    ),
    "multiples": ({"properties": {f"n{i}": {"type": "number", "multipleOf": i} for i in range(2, 40)}}, 200_000),
    "sets of numbers": (
        {"anyOf": [{"type": "integer", "multipleOf": 3 + i, "minimum": i, "maximum": 50 * i} for i in range(20)]},
        25_000,
    ),
    "an enum of numbers": ({"enum": list(range(1000))}, 40_000),
    "terms that are joined": ({"type": "array", "allOf": [{"contains": {"const": i}} for i in range(60)]}, 1_000_000),
    "formulas of arrays": (
        {"oneOf": [{"items": {"maxItems": i}, "prefixItems": [{"minimum": i}], "minItems": i % 3} for i in range(12)]},
        900_000,
    ),
    "formulas of objects": (
        {"type": "object", "dependentRequired": {f"d{i}": [f"d{(i * 3 + 1) % 300}"] for i in range(300)}},
        7_000_000,
    ),
}


@pytest.mark.parametrize("name", COUNTED)
def test_work_in_python_is_counted_every_time(name: str) -> None:
    schema, least = COUNTED[name]
    first, second = steps(schema), steps(schema)
    assert first == second >= least


def test_numbers_are_paid_for_once() -> None:
    """However often a compilation needs the same set of numbers, and whether or not another has made it."""
    numbers = [{"title": str(i), "type": "number", "multipleOf": 37, "minimum": 5} for i in range(3)]
    one, two, three = (steps({"prefixItems": numbers[:count]}) for count in (1, 2, 3))
    assert three - two < one // 2


NEGATED = {
    "$ref": "#/$defs/x",
    "$defs": {
        "x": {"$ref": "#/$defs/y", "contains": {"contains": {"allOf": [{"$ref": "#/$defs/x"}]}}, "maxContains": 1},
        "y": {
            "contains": {"items": {"$ref": "#/$defs/x"}},
            "maxContains": 1,
            "oneOf": [{"prefixItems": [{"$ref": "#/$defs/y"}], "oneOf": [{"const": 1}, {}]}],
            "prefixItems": [{"oneOf": [{"required": ["a"]}, {"$ref": "#/$defs/x"}]}],
        },
    },
}
"""Few characters whose alternatives of arrays have formulas of thousands of parts."""


def test_recursion_below_negations_is_refused_with_its_place() -> None:
    with pytest.raises(gr.LimitError) as caught:
        gr.json_schema(NEGATED).program()
    assert caught.value.code == "work"
    assert caught.value.pointer.startswith("#/$defs/")  # type: ignore[attr-defined]


def test_the_same_request_costs_the_same() -> None:
    """Independent of caches: patterns, emptiness, numbers."""
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "string", "pattern": "^[a-z]+[0-9]{2,7}$", "maxLength": 9},
            "b": {"multipleOf": 7},
        },
        "patternProperties": {"^x_[a-f]": {"type": "integer"}, "_y$": {"minimum": 3}},
        "oneOf": [{"required": ["a"]}, {"required": ["b"], "properties": {"b": {"maximum": 70}}}],
    }
    first = steps(schema)
    others = [steps(schema) for _ in range(3)]
    assert {first, *others} == {first}
    assert first > 1000


def test_a_limit_is_exact(vocabulary: Vocabulary) -> None:
    constraint = gr.json_schema({"type": "object", "properties": {"n": {"enum": list(range(50))}}})
    before = work.spent()
    build_program(constraint)
    needed = work.spent() - before
    build_program(constraint, max_work=needed)
    with pytest.raises(gr.LimitError, match="max_work") as caught:
        build_program(constraint, max_work=needed - 1)
    assert caught.value.code == "work"
    gr.compile(constraint, vocabulary, cache=False)  # still works


@pytest.mark.parametrize("limit", [0, -1, 2**63, 1.5, "many", None, True])
def test_limits_are_numbers(limit: Any) -> None:
    with pytest.raises(gr.CompileError) as caught:
        build_program(gr.literal("a"), max_work=limit)
    assert caught.value.code == "bad-bound"


def test_within_a_limit_no_inner_one_allows_more() -> None:
    with work.limited(1000), pytest.raises(gr.LimitError, match="max_work=1000"), work.limited(10**9):
        work.spend(1001)
    work.spend(1001)  # limits end with their blocks
