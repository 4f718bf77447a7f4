"""Work is counted: what costs too much is rejected, everywhere and always, with its location."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest

import guiderail as gr
from guiderail import Vocabulary
from guiderail.constraints.program import build_program
from guiderail.frontends.json_schema.formats import FORMATS
from guiderail.support import caches, work


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


@dataclass
class Point:
    x: int
    label: str


def _of_a_schema(schema: Any) -> Callable[[], gr.Constraint]:
    return lambda: gr.json_schema(schema)


REQUESTS: dict[str, Callable[[], gr.Constraint]] = {
    **{f"the format {name}": _of_a_schema({"format": name, "type": "string"}) for name in FORMATS},
    "formats that share parts": _of_a_schema(
        {"items": {"enum": [{"format": name} for name in ("email", "idn-email")]}}
    ),
    "a pattern twice": _of_a_schema(
        {"prefixItems": [{"pattern": "^[a-z]+x"}, {"pattern": "^[a-z]+x", "maxLength": 9}]}
    ),
    "names by a pattern": _of_a_schema({"propertyNames": {"pattern": "^[ab]$"}, "minProperties": 2}),
    "numbers": _of_a_schema({"anyOf": [{"multipleOf": 7, "minimum": 3}, {"multipleOf": 0.07}]}),
    "classes": lambda: gr.regex(r"(?i)\w+\p{Lu}[^\W\d]stra\u00dfe"),
    "a type": lambda: gr.python_type(list[Point]),
    "an address": gr.patterns.email,
    "a ready grammar": lambda: gr.grammars.json(max_depth=3),
    "terminals": lambda: gr.grammar('start: A B | %json {"format": "date"}\nA: /a+?b/\nB: /(x|xy)z?/', "lark"),
    "tools": lambda: gr.tool_calls(
        [{"name": name, "parameters": {"properties": {"a": {"format": "date"}}}} for name in "fg"], format="hermes"
    ),
}


def cost(request: Callable[[], gr.Constraint]) -> int:
    before = work.spent()
    with work.limited(10**9):
        build_program(request())
    return work.spent() - before


@pytest.mark.parametrize("name", REQUESTS)
def test_a_request_costs_the_same_whatever_is_cached(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    gr.clear_cache()
    first = cost(REQUESTS[name])
    assert cost(REQUESTS[name]) == first > 0
    gr.clear_cache()
    for other in ("the format idn-email", "a type", "terminals", "tools"):  # their parts are cached
        cost(REQUESTS[other])
    assert cost(REQUESTS[name]) == first
    gr.clear_cache()
    for one in caches._all:
        monkeypatch.setattr(one, "most_bytes", 0)  # nothing is kept
    assert cost(REQUESTS[name]) == first
    assert not caches.cached_bytes()


def test_a_result_costs_each_compilation_once() -> None:
    """Also if it was needed for another one, or if what needed it failed."""

    @caches.cached(10_000)
    def inner(n: int) -> int:
        work.spend(100)
        return n

    @caches.cached(10_000)
    def outer(n: int) -> int:
        work.spend(10)
        with suppress(ValueError):
            failing(n)
        return inner(n)

    @caches.cached(10_000)
    def failing(n: int) -> int:
        work.spend(1)
        raise ValueError(inner(n))

    def price(*calls: Callable[[int], int]) -> int:
        with work.limited(10**6):
            before = work.spent()
            for call in calls:
                call(1)
            return work.spent() - before

    assert price(outer) == price(outer) == price(outer, outer) == 111
    assert price(inner, outer) == price(outer, inner) == 111
    assert price(inner) == 100
    caches.clear_caches()
    assert price(inner) == 100
    assert price(inner, outer) == price(outer) == 111


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
