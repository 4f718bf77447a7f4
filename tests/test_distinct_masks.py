"""Masks in lists of distinct values: each token against its own derivative, on random schemas and texts."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest

import guiderail as gr
from core_support import EVERY_BYTE, byte_vocabulary, mask_of, plain

PIECES = [
    *'",[]{}:ab10.cet\\kn', '","', '", "', '"]', '"],', ", ", "},", "}, {", '{"', '"}', '"},', "[[", "]]", "ab", "aa",
    "ba", "abc", ".0", "1.0", "11", "true", "rue", "null", "  ", '": ', '":', '":"', '": "', "\\u", "\\u0061", "0061",
    "é", '},{"', '}, {"a', '"a', '"b', '"a"', "E1", "-", '"k', "kk", "\n", "\\n", 'é"', '", "a', '", "ab', '",', ',"',
    ",1", "], [", '],["',
]  # fmt: skip
CONSTANTS = ["a", "b", "ab", "abc", "ba", "é", "", 1, 11, 0, True, None, "\n", "aa", 1.0]
STEPS = 25


def values(rng: random.Random, depth: int) -> dict[str, Any]:
    """A schema of items."""
    kind = rng.randrange(14 if depth < 2 else 9)
    if kind >= 12:
        return unique(rng, depth + 1, rng.random() < 0.8)
    if kind >= 9:
        names = rng.sample(["a", "b", "k", "kk", "é"], rng.randrange(1, 4))
        schema: dict[str, Any] = {
            "type": "object",
            "properties": {name: values(rng, depth + 1) for name in names},
            "required": rng.sample(names, rng.randrange(len(names) + 1)),
        }
        if rng.random() < 0.5:
            schema["additionalProperties"] = False
        other = {"type": "object", "properties": {"b": {"const": 1}}, "required": ["b"]}
        return {"anyOf": [schema, other]} if rng.random() < 0.2 else schema
    simple: list[dict[str, Any]] = [
        {"enum": rng.sample(CONSTANTS, rng.randrange(1, 8))},
        {"enum": rng.sample(CONSTANTS, rng.randrange(4, 12))},
        {"type": "string"},
        {"type": "string", "minLength": rng.randrange(2), "maxLength": rng.randrange(1, 5)},
        {"type": rng.choice(["integer", "number", "boolean", ["null", "string"], ["integer", "string"]])},
        {"type": "string", "pattern": rng.choice(["^a", "b$", "^[ab]+$", "^(a|b|ab){1,2}$", "^a?b?$"])},
        {},
        {"type": "integer", "minimum": 0, "maximum": rng.randrange(12)},
        {"anyOf": [{"const": "a"}, {"type": "integer"}, {"type": "string", "pattern": "^k"}]},
    ]
    return simple[kind]


def unique(rng: random.Random, depth: int, distinct: bool = True) -> dict[str, Any]:
    """A schema of a list."""
    schema: dict[str, Any] = {"type": "array", "items": values(rng, depth), "uniqueItems": distinct}
    if rng.random() < 0.3:
        schema["minItems"] = rng.randrange(1, 3)
    if rng.random() < 0.3:
        schema["maxItems"] = rng.randrange(3, 6)
    if rng.random() < 0.3:
        schema["prefixItems"] = [values(rng, depth) for _ in range(rng.randrange(1, 3))]
    return schema


def scarce(rng: random.Random, depth: int = 0) -> dict[str, Any]:
    """A schema of a list that may run out of values."""

    def item() -> dict[str, Any]:
        if depth < 1 and rng.random() < 0.3:
            return scarce(rng, depth + 1)
        return {"enum": rng.sample([1, 10, 11, "a", "ab", [], {}, [1], {"a": 1}, {"a": 10}], rng.randrange(1, 4))}

    positions = [item() for _ in range(rng.randrange(1, 4))]
    rest = rng.choice([False, item()])
    least = rng.randrange(len(positions) + 1)
    return {"type": "array", "uniqueItems": True, "prefixItems": positions, "items": rest, "minItems": least}


@pytest.mark.parametrize(
    "kind, seed", [*((unique, seed) for seed in range(60)), *((scarce, seed) for seed in range(240))]
)
def test_every_token_by_its_own_derivative(kind: Callable[..., dict[str, Any]], seed: int) -> None:
    rng = random.Random(seed)
    longer = ["".join(rng.choices(PIECES, k=rng.randrange(2, 4))) for _ in range(60)]
    tokens = [piece.encode() for piece in dict.fromkeys([*PIECES, *longer])]
    schema = kind(rng, int(kind is unique))
    if rng.random() < 0.3:
        schema = {"type": "object", "properties": {"a": schema, "b": {}}}
    try:
        guide = gr.compile(gr.json_schema(schema), plain(tokens), cache=False)
    except gr.GuiderailError as refused:
        assert refused.code in ("unsatisfiable-schema", "unsatisfiable", "schema-limit"), schema
        return
    program = gr.json_schema(schema).program().core
    for _ in range(3):
        matcher, text = guide.matcher(), b""
        for _ in range(STEPS):
            try:
                mask = mask_of(matcher)
                state = program.derivative(program.root, text)
                allowed = [t for t, token in enumerate(tokens) if program.derivative(state, token)]
            except gr.LimitError:  # finding the remaining values is a search
                break
            assert [t for t in range(len(tokens)) if mask[t]] == allowed, (schema, text)
            if not allowed:
                break
            token = rng.choice(allowed)
            assert matcher.accept_token(token)
            text += tokens[token]


@pytest.mark.parametrize(
    "items, text, allowed",
    [
        ({"enum": ["a", 1]}, "[1", " ,.E]e"),
        ({"enum": ["a", 1]}, "[1.0, ", ' "'),
        ({"enum": [1, 2]}, "[1, ", " 2"),
        ({"enum": [1, 2]}, "[1, 2", ".E]e"),
        ({"anyOf": [{"type": "integer", "minimum": 0, "maximum": 9}, {"const": "x"}]}, "[1, ", ' "-023456789'),
        ({"properties": {"a": {"enum": [1, 2]}}, "required": ["a"], "type": "object"}, '[{"a": 1}, {"a": ', None),
    ],
)
def test_few_values_with_many_spellings(items: dict[str, Any], text: str, allowed: str | None) -> None:
    """A value that has come is excluded with all of its spellings, although they are infinitely many."""
    schema = {"type": "array", "items": items, "uniqueItems": True}
    vocabulary = gr.Vocabulary([*EVERY_BYTE, b"<eos>"], stop_token_ids=[256])
    matcher = gr.compile(gr.json_schema(schema, integers="any", layout="free"), vocabulary).matcher()
    assert matcher.accept_string(text)
    bitmask = gr.allocate_token_bitmask(1, vocabulary.size)
    matcher.fill_next_token_bitmask(bitmask, 0)
    shown = "".join(chr(b) for b in range(32, 127) if bitmask[0, b >> 5] >> (b & 31) & 1)
    assert allowed is None or set(shown) - {" "} == set(allowed) - {" "}
    assert matcher.least_tokens() is not None


@pytest.mark.parametrize(
    ("first", "items", "text", "last"),
    [
        ({"type": "string"}, {"type": "boolean"}, '["some text",true,false', "]"),
        ({"type": "string"}, {"enum": ["a", "b"]}, '["some text","b","a"', "]"),
        ({"type": "string"}, {"enum": ["a", "b"]}, '["a","b"', "]"),
        ({"type": "string", "maxLength": 40}, {"enum": ["a", "b", 1]}, '["a",1,"b"', "]"),
    ],
)
def test_few_values_after_one_of_many(first: dict[str, Any], items: dict[str, Any], text: str, last: str) -> None:
    """Whatever the first item is, values are left for the second; so nothing is searched while it is written."""
    schema = {"type": "array", "prefixItems": [first], "items": items, "minItems": 2, "uniqueItems": True}
    constraint = gr.json_schema(schema, layout="compact")
    matcher = gr.compile(constraint, byte_vocabulary(), max_step_work=2_000).matcher()
    for byte in text.encode():
        assert mask_of(matcher)[byte] and matcher.accept_token(byte)
    assert bytes(byte for byte in range(256) if mask_of(matcher)[byte]).decode() == last


def many_values(rng: random.Random, count: int) -> list[Any]:
    """Different values of all kinds that begin alike."""
    leaves: list[Any] = [*range(-20, 60), *(n / 4 for n in range(1, 40) if n % 4), *CONSTANTS[:8], True, False, None]
    leaves += [f"{a}{b}" for a in "abé" for b in ("", "a", "b", '"', "\n", "0", "\\")]
    found = {json.dumps(value, ensure_ascii=False): value for value in leaves}
    while len(found) < 2 * count:
        some = rng.sample(leaves, 2)
        value = rng.choice([[some[0]], some, {"a": some[0]}, {"a": some[0], "b": some[1]}, {"b": some[:1]}])
        found.setdefault(json.dumps(value, ensure_ascii=False), value)
    return rng.sample(list(found.values()), count)


def spelled_differently(value: Any) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{value:.2f}" if value else "0.0"
    if isinstance(value, str):
        return '"' + "".join(f"\\u{ord(c):04x}" for c in value) + '"'
    if isinstance(value, list):
        return "[" + ",".join(map(spelled_differently, value)) + "]"
    if isinstance(value, dict):
        return "{" + ",".join(f'"{k}":{spelled_differently(v)}' for k, v in reversed(value.items())) + "}"
    return json.dumps(value)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("distinct", [True, False])
def test_many_values_of_all_kinds(seed: int, distinct: bool) -> None:
    """Whichever values have come, exactly these may not come again, however they are spelled."""
    rng = random.Random(seed)
    values = many_values(rng, 90)
    schema = {"type": "array", "uniqueItems": True} if distinct else {"type": "array", "not": {"uniqueItems": True}}
    constraint = gr.json_schema(schema, integers="any", layout="free", escapes="all")
    tokens = [piece.encode() for piece in PIECES]
    matcher = gr.compile(constraint, plain(tokens), cache=False).matcher()
    program = constraint.program().core
    state = program.root
    for count, value in enumerate(values):
        text = ("," if count else "[") + json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        state = program.derivative(state, text.encode())
        assert matcher.accept_string(text)
        if count % 30 != 29:
            continue
        for other in rng.sample(range(len(values)), 40):
            after = program.derivative(state, f",{spelled_differently(values[other])}]".encode())
            comes_again = other <= count
            assert (after != 0 and program.is_nullable(after)) == (comes_again is not distinct), (values[other], count)
        for ahead in ("", ",", ', "', ",1", ",-", ', "a', ',{"a":', ",["):
            twin = matcher.fork()
            assert twin.accept_string(ahead)
            mask = mask_of(twin)
            here = program.derivative(state, ahead.encode())
            assert [t for t in range(len(tokens)) if mask[t]] == [
                t for t, token in enumerate(tokens) if program.derivative(here, token)
            ], (count, ahead)


def test_a_list_costs_what_its_values_cost() -> None:
    """A union of all earlier values for each item would take twice as many expressions, and more for longer lists."""
    constraint = gr.json_schema({"type": "array", "items": {"type": "integer"}, "uniqueItems": True})
    matcher = gr.compile(constraint, byte_vocabulary(), cache=False, max_nodes=120_000).matcher()
    assert matcher.accept_string(json.dumps([n * 7919 % 100_003 for n in range(2_000)], separators=(",", ":")))
