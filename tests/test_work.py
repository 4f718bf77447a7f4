"""Work is counted: what costs too much is rejected, everywhere and always, with its location."""

from __future__ import annotations

import gc
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import guiderail as gr
from core_support import EVERY_BYTE
from guiderail import Vocabulary
from guiderail.constraints.program import build_program
from guiderail.frontends.json_schema.values.formats import FORMATS
from guiderail.support import caches, work


def nested(depth: int, width: int) -> dict[str, Any]:
    """Nested alternatives, distinguished by a required name."""
    inner = nested(depth - 1, width) if depth else {"type": "integer"}
    names = [f"k{depth}{i}" for i in range(width)]
    return {"type": "object", "oneOf": [{"properties": {name: inner}, "required": [name]} for name in names]}


EXPENSIVE = {
    "patternProperties": {
        "type": "object",
        "patternProperties": {a: {"type": "string", "pattern": a} for a in "abcdefghijklmnopqr"},
        "additionalProperties": False,
    },
    "oneOf": nested(5, 5),
}


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    return Vocabulary([*EVERY_BYTE, b"</s>"], stop_token_ids=[256])


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
        6_000_000,
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


_XSD = '<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema"><xs:element name="a" type="xs:date"/></xs:schema>'

PLACED: dict[str, tuple[Callable[[], gr.Constraint], str]] = {
    "alternatives": (lambda: gr.regex("a+b") | gr.regex("c{3,9}"), "regex('a+b') | regex('c{3,9}')"),
    "conditions": (lambda: gr.regex("[ab]{3,9}c*") & gr.regex("(ab|a)+c"), "[ab]{3,9}c*"),
    "literals": (lambda: gr.any_text() & gr.literal("abc" * 9), "any_text() & literal('abcabcabcabcabcabcabcabcabc')"),
    "a sequence": (lambda: gr.sequence("ab", gr.any_text(), "cd"), "literal('ab') + any_text() + literal('cd')"),
    "a schema in a sequence": (lambda: gr.sequence("a", gr.json_schema({"enum": [1]})), "literal('a') + json_schema("),
    "an XML Schema in a sequence": (lambda: gr.sequence("a", gr.xml_schema(_XSD)), "literal('a') + xml_schema("),
    "a type in a sequence": (lambda: gr.sequence("a", gr.python_type(int)), "literal('a') + python_type("),
    "a repetition": (lambda: gr.repeat(gr.choice(["alpha", "beta"]), 2, 5), "repeat(choice(['alpha', 'beta']), 2, 5)"),
    "a complement": (lambda: ~gr.choice(["alpha", "beta"]), "~(choice(['alpha', 'beta']))"),
    "a substring": (lambda: gr.substring_of("the quick brown fox"), "substring_of('the quick brown fox')"),
    "text until": (lambda: gr.text_until("</a>"), "text_until('</a>')"),
    "productions": (lambda: gr.grammar({"start": [["a", gr.Ref("b")]], "b": [gr.regex("x+|y{2}")]}), ""),
    "tools": (lambda: gr.tool_calls([{"name": "f", "parameters": {}}], format="hermes"), "tool_calls("),
    "names": (lambda: gr.grammars.sql(schema={"t": ["a", "b"]}), "sql("),
    "a ready grammar": (lambda: gr.grammars.json(max_depth=3), ""),
    "a structural tag": (
        lambda: gr.structural_tag({"type": "structural_tag", "format": {"type": "const_string", "value": "ab"}}),
        "marker('ab')",
    ),
}
"""What is compiled, and a part of a text in which a limit is placed."""


@pytest.mark.parametrize("name", PLACED)
def test_every_limit_error_of_a_compilation_has_a_place(name: str) -> None:
    """At a dozen points of the work and of the number of expressions."""
    make, text = PLACED[name]
    constraint = make()
    before = work.spent()
    program = build_program(constraint)
    needed = work.spent() - before
    limits = [{"max_work": max(1, needed * i // 13)} for i in range(13)]
    limits += [{"max_nodes": max(1, program.node_count() * i // 13)} for i in range(13)]
    found, sources = 0, []
    for limit in limits:
        try:
            build_program(constraint, **limit)
        except gr.LimitError as error:
            found += 1
            if getattr(error, "pointer", None) is None and getattr(error, "path", None) is None:
                assert error.source is not None and error.span is not None, (limit, error)
                begin, end = error.span
                assert 0 <= begin < end <= len(error.source)
                sources.append(error.source)
    assert found and (not sources or any(text in source for source in sources)), sources


def test_the_text_of_a_constraint_that_repeats_itself_is_cut() -> None:
    constraint: gr.Constraint = gr.regex("a+")
    for _ in range(60):
        constraint = gr.repeat(constraint, 1, 2) & constraint
    assert len(repr(constraint)) < 200_000 and "…" in repr(constraint)
    with pytest.raises(gr.LimitError) as caught:
        build_program(constraint, max_work=200)
    assert caught.value.source is not None and len(str(caught.value)) < 1000


def test_errors_of_embedded_schemas_have_both_places() -> None:
    text = 'start: "a" | %json {"$ref": "#/nope"}'
    with pytest.raises(gr.SchemaError) as caught:
        gr.grammar(text, "lark")
    for error in (caught.value, pickle.loads(pickle.dumps(caught.value))):
        assert (error.pointer, error.source, error.span) == ("#", text, (13, len(text)))


def test_limits_in_tools_are_limit_errors() -> None:
    tool = {"name": "f", "parameters": {"properties": {"a": {"pattern": "a+" * 999}}}}
    with gr.max_work(200), pytest.raises(gr.LimitError, match="the tool 'f': "):
        gr.tool_calls([tool], format="hermes")


@pytest.mark.parametrize("limit", [0, -1, 2**63, 1.5, "many", None, True])
def test_limits_are_numbers(limit: Any, vocabulary: Vocabulary) -> None:
    requests: list[Callable[[], object]] = [lambda: gr.max_work(limit)]
    if limit is not None:  # the default
        requests += [
            lambda: build_program(gr.literal("a"), max_work=limit),
            lambda: gr.compile(gr.literal("a"), vocabulary, max_work=limit),
        ]
    for request in requests:
        with pytest.raises(gr.CompileError) as caught:
            request()
        assert caught.value.code == "bad-bound"


READERS: dict[str, Callable[[Path, Vocabulary], object]] = {
    "a pattern": lambda folder, _: gr.regex("[a-c]+d" * 50),
    "Lark": lambda folder, _: gr.grammar(f'start: "a" | {"| b " * 50}\nb: /[a-c]+d/', "lark"),
    "GBNF": lambda folder, _: gr.grammar(f'root ::= "a" {"b " * 50}\nb ::= "a"', "gbnf"),
    "EBNF of the W3C": lambda folder, _: gr.grammar(f'root ::= "a" {"b " * 50}\nb ::= "a"', "ebnf-w3c"),
    "EBNF of ISO": lambda folder, _: gr.grammar(f'root = "a", {"b, " * 50} b; b = "a";', "ebnf-iso"),
    "a schema": lambda folder, _: gr.json_schema({"enum": ["x" * 3000]}),
    "an XML Schema": lambda folder, _: gr.xml_schema(_XSD),
    "a type": lambda folder, _: gr.python_type(list[tuple[int, tuple[str, int]]]),
    "tools": lambda folder, _: gr.tool_calls(
        [{"name": "f", "parameters": {"properties": {"a": {"pattern": "a+" * 99}}}}], format="hermes"
    ),
    "SDL": lambda folder, _: gr.grammars.graphql(schema="type Query { a: Int b(c: ID): String }"),
    "matches": lambda folder, _: (gr.any_text().limited_to(500) & gr.literal("ab" * 50)).matches("a"),
    "a program": lambda folder, _: (gr.any_text().limited_to(510) & gr.literal("ab" * 50)).program(),
    "saving": lambda folder, _: (gr.any_text().limited_to(520) & gr.literal("ab" * 50)).save(folder / "saved"),
    "a guide": lambda folder, vocabulary: gr.compile(gr.literal("ab" * 5000) & gr.any_text(), vocabulary, cache=False),
}
"""What reads a constraint, by a name."""


@pytest.mark.parametrize("name", READERS)
def test_max_work_is_for_everything_that_reads_a_constraint(
    name: str, tmp_path: Path, vocabulary: Vocabulary, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read() -> None:
        gr.clear_cache()
        READERS[name](tmp_path, vocabulary)

    read()
    with gr.max_work(20), pytest.raises(gr.LimitError) as caught:
        read()
    assert caught.value.code == "work" and "with gr." not in caught.value.message  # who sets it knows how
    monkeypatch.setattr(work, "MAX_WORK", 20)  # in place of an example for each that takes two seconds
    with pytest.raises(gr.LimitError, match=r"raise max_work \(with gr\.max_work\(…\):\)") as caught:
        read()
    assert caught.value.code == "work"
    with gr.max_work(10**8):
        read()


def test_max_work_is_for_a_block_and_a_thread(vocabulary: Vocabulary) -> None:
    limit = gr.max_work(20)
    with limit, gr.max_work(10**8):
        gr.regex("[a-c]+d" * 50)
    with limit, limit:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(gr.regex, "[a-c]+d" * 50).result()
        gr.compile(gr.literal("ab" * 5000), vocabulary, max_work=10**6, cache=False)
        with pytest.raises(gr.LimitError):
            gr.regex("[a-c]+d" * 50)
    gr.regex("[a-c]+d" * 50)


def test_within_a_compilation_its_limit_is_the_only_one(
    vocabulary: Vocabulary, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parts that are read meanwhile, such as patterns, have no limit of their own."""
    schema = gr.json_schema({"items": {"pattern": "[a-c]+d" * 99}})
    monkeypatch.setattr(work, "MAX_WORK", 20)
    gr.compile(schema, vocabulary, max_work=10**7, cache=False)
    with pytest.raises(gr.LimitError, match="max_work=20 "):
        gr.compile(schema, vocabulary, cache=False)


def test_within_a_limit_no_inner_one_allows_more() -> None:
    with work.limited(1000), pytest.raises(gr.LimitError, match="max_work=1000"), work.limited(10**9):
        work.spend(1001)
    work.spend(1001)  # limits end with their blocks


@pytest.mark.parametrize("enabled", [True, False])
def test_garbage_collection_pauses_while_compiling(enabled: bool) -> None:
    seen = []

    class Watching(gr.Constraint):
        def _lower(self, builder: Any) -> Any:
            seen.append(gc.isenabled())
            return gr.literal("a")._lower(builder)

    def fails() -> None:
        build_program(gr.json_schema(False))

    was = gc.isenabled()
    (gc.enable if enabled else gc.disable)()
    try:
        build_program(Watching())
        after = [gc.isenabled()]
        with pytest.raises(gr.CompileError):
            fails()
        after.append(gc.isenabled())
    finally:
        (gc.enable if was else gc.disable)()
    assert seen == [False]
    assert after == [enabled, enabled]


@pytest.mark.parametrize("keyword", ["unevaluatedProperties", "oneOf", "if"])
def test_compiling_leaves_few_cycles(keyword: str) -> None:
    """Nobody collects them meanwhile."""
    schema: Any = {"type": "object"}
    for i in range(120):
        schema = {
            "unevaluatedProperties": {"allOf": [schema], "properties": {f"a{i}": {}}, "unevaluatedProperties": False},
            "oneOf": {"oneOf": [{"properties": {"k": {"const": i}}, "required": ["k"]}, {"items": schema}]},
            "if": {"if": {"required": [f"a{i}"]}, "then": schema, "else": {"required": ["b"]}},
        }[keyword]
    gc.collect()
    with suppress(gr.LimitError):
        build_program(gr.json_schema(schema))
    assert gc.collect() < 20_000
