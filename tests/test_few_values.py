"""Lists of distinct values that run out of values: refused, wherever they stand, if and only if no value is left."""

from __future__ import annotations

import itertools
import json
import random
from typing import Any

import numpy as np
import pytest

import guiderail as gr
from core_support import EVERY_BYTE, byte_vocabulary, mask_of, plain
from guiderail.frontends.json_schema.normal_form.listing import can_differ
from guiderail.frontends.json_schema.normal_form.shape import identity

BYTES = byte_vocabulary()
SOME = {"enum": [{"a": 10}]}
# Items of a list of distinct values, and how many of them differ; None: more than 50.
ITEMS: list[tuple[dict[str, Any], int | None]] = [
    ({"type": "string", "pattern": "^[ab]$"}, 2),
    ({"type": "string", "pattern": "^[ab]{0,3}$"}, 15),
    ({"type": "string", "maxLength": 0}, 1),
    ({"type": "string", "maxLength": 1}, None),
    ({"type": "number", "minimum": 1, "maximum": 2, "multipleOf": 0.25}, 5),
    ({"enum": [1, 1.0, True, "1", [1], [1.0], {"a": 1}, {"a": 1.0}]}, 5),
    ({"type": "object", "maxProperties": 0}, 1),
    ({"type": "object", "properties": {"a": {"type": "boolean"}}, "additionalProperties": False}, 3),
    ({"type": "object", "patternProperties": {"^a$": {"const": 1}}, "additionalProperties": False}, 2),
    ({"type": "object", "propertyNames": {"enum": ["a", "b"]}, "additionalProperties": {"const": 1}}, 4),
    ({"type": "object", "propertyNames": {"enum": ["a"]}}, None),
    ({"type": "array", "items": {"type": "string"}, "maxItems": 0}, 1),
    ({"type": "array", "items": {"type": "boolean"}, "maxItems": 2}, 7),
    ({"type": "array", "items": {"type": "boolean"}, "maxItems": 2, "uniqueItems": True}, 5),
    ({"type": "array", "items": {"enum": [1, 2]}, "maxItems": 1, "contains": {"const": 1}}, 1),
    ({"type": "array", "items": {"const": 1}}, None),
    ({"not": {"type": ["string", "number", "object", "array"]}}, 3),
    ({"$ref": "#/$defs/tree"}, 3),  # [], [[]], [[[]]]
]
# Items, options that leave few values of them, and all of these.
CAPPED: list[tuple[dict[str, Any], dict[str, Any], list[Any]]] = [
    ({"type": "string"}, {"max_string_length": 0}, [""]),
    ({"type": ["string", "boolean"]}, {"max_string_length": 0}, [True, "", False]),
    ({"type": "string", "pattern": "^[ab]*$"}, {"max_string_length": 1}, ["b", "", "a"]),
    ({"type": "string", "pattern": "^a*$"}, {"max_string_length": 4, "max_depth": 3}, ["", "aa", "a", "aaaa", "aaa"]),
    ({"type": "integer"}, {"max_integer_digits": 1}, [*range(10), *range(-9, 0)]),
    ({"type": "integer", "minimum": 7}, {"max_integer_digits": 1}, [9, 8, 7]),
    ({"type": "integer", "minimum": 97, "maximum": 200}, {"max_integer_digits": 2}, [99, 97, 98]),
    ({"type": "array"}, {"max_depth": 1}, []),
    ({"type": "array", "items": {"type": "array"}}, {"max_depth": 2}, [[]]),
    ({"type": "array", "items": {"type": "object"}}, {"max_depth": 2, "layout": "indented"}, [[]]),
    ({"type": "object", "additionalProperties": {"type": "array"}}, {"max_depth": 2}, [{}]),
    ({"type": "array", "items": {"type": "null"}}, {"max_items": 2}, [[None], [None, None]]),
    ({"type": "object", "properties": {"name": {"type": "integer"}}}, {"closed": True, "excludes": ["am"]}, [{}]),
]
TREE = {"tree": {"type": "array", "items": {"$ref": "#/$defs/less"}, "maxItems": 1},
        "less": {"type": "array", "items": {"type": "array", "maxItems": 0}, "maxItems": 1}}  # fmt: skip


def inside(schema: dict[str, Any]) -> dict[str, Any]:
    """A document in which a key needs a value of a schema."""
    return {"type": "object", "properties": {"k": schema}, "required": ["k"], "$defs": TREE}


def is_refused(schema: dict[str, Any]) -> bool:
    try:
        gr.json_schema(inside(schema)).program()
    except gr.GuiderailError as error:
        assert error.code in ("unsatisfiable-schema", "unsatisfiable")
        return True
    return False


@pytest.mark.parametrize("items, count", ITEMS, ids=[json.dumps(items) for items, _ in ITEMS])
def test_as_many_items_as_there_are_values(items: dict[str, Any], count: int | None) -> None:
    most = {"type": "array", "uniqueItems": True, "items": items, "minItems": 50 if count is None else count}
    assert not is_refused(most)
    assert count is None or is_refused({**most, "minItems": count + 1})


@pytest.mark.parametrize("items, options, values", CAPPED, ids=[json.dumps(case[:2]) for case in CAPPED])
def test_options_leave_few_values(items: dict[str, Any], options: dict[str, Any], values: list[Any]) -> None:
    """The list may go on while a value is left, and no longer."""
    distinct = {"type": "array", "uniqueItems": True, "items": items}
    constraint = gr.json_schema(distinct, **options)
    indent = 2 if options.get("layout") == "indented" else None
    matcher, bitmask = gr.compile(constraint, BYTES).matcher(), gr.allocate_token_bitmask(1, BYTES.size)
    for count in range(1, len(values) + 1):
        text = json.dumps(values[:count], indent=indent)
        assert constraint.matches(text)
        matcher.reset()
        assert matcher.accept_string(text[:-1].rstrip("\n"))
        matcher.fill_next_token_bitmask(bitmask, 0)
        assert (bitmask[0, ord(",") // 32] >> ord(",") % 32 & 1) == (count < len(values))
    if len(values) < 10:
        with pytest.raises(gr.CompileError, match="no value satisfies this schema with"):
            gr.json_schema({**distinct, "minItems": len(values) + 1}, **options).program()


@pytest.mark.parametrize(
    "schema",
    [
        {"prefixItems": [SOME, SOME], "minItems": 2},
        {"prefixItems": [SOME, SOME, {"type": "object"}], "minItems": 3},
        {"prefixItems": [{"enum": [None, 1]}, {"enum": [1, None]}, {"enum": [None]}], "minItems": 3},
        {"prefixItems": [{"enum": [1, 2]}, {"enum": [2, 3]}, {"enum": [3, 1]}, {"enum": [1.0, 2, 3]}], "minItems": 4},
        {"prefixItems": [{"enum": [1, 2]}] * 2, "contains": {"enum": [3, 1]}, "minContains": 2, "maxItems": 2},
        {"items": {"type": "array", "uniqueItems": True, "items": {"const": 1}, "minItems": 1}, "minItems": 2},
    ],
    ids=json.dumps,
)
def test_items_that_share_too_few_values(schema: dict[str, Any]) -> None:
    assert is_refused({"type": "array", "uniqueItems": True, **schema})


def values_of(schema: dict[str, Any]) -> list[Any]:
    """All values of a schema that `scarce` makes, from the definition."""
    if "enum" in schema:
        return list(schema["enum"])
    positions = [values_of(one) for one in schema["prefixItems"]]
    longest = len(positions) + (schema["items"] is not False)
    positions += [[] if schema["items"] is False else values_of(schema["items"])]
    found: list[Any] = []
    for length in range(schema["minItems"], longest + 1):
        for items in itertools.product(*positions[:length]):
            if not schema["uniqueItems"] or len({identity(item) for item in items}) == length:
                found.append(list(items))
    return found


def scarce(rng: random.Random, depth: int = 0) -> dict[str, Any]:
    def item() -> dict[str, Any]:
        if depth < 1 and rng.random() < 0.3:
            return scarce(rng, depth + 1)
        return {"enum": rng.sample([1, "a", [], [1]], rng.randrange(1, 3))}

    positions = [item() for _ in range(rng.randrange(1, 4))]
    return {"type": "array", "uniqueItems": rng.random() < 0.8, "prefixItems": positions,
            "items": rng.choice([False, item()]), "minItems": len(positions) - rng.randrange(2)}  # fmt: skip


@pytest.mark.parametrize("start", range(0, 400, 100))
def test_lists_without_a_value_are_refused(start: int) -> None:
    refused = 0
    for seed in range(start, start + 100):
        schema = {**scarce(random.Random(seed)), "uniqueItems": True}
        found = is_refused(schema)
        assert found == (not values_of(schema)), (seed, schema)
        refused += found
    assert refused


@pytest.mark.parametrize("seed", range(200))
def test_sharing_values_out(seed: int) -> None:
    rng = random.Random(seed)
    groups = [
        (rng.randrange(1, 3), {v: v for v in rng.sample([None, 1, 2, 3, 4, 5, 6], rng.randrange(1, 5))})
        for _ in range(4)
    ]
    places = [values for count, values in groups for _ in range(count)]
    possible = any(len(set(chosen)) == len(places) for chosen in itertools.product(*places))
    assert can_differ(groups) == possible


# Items, and all texts of their values.
PAIR = {"type": "object", "properties": {"a": {"enum": [1, 2]}, "b": {"enum": [3]}}, "additionalProperties": False}
TEXTS: list[tuple[dict[str, Any], list[str]]] = [
    ({"type": "string", "pattern": "^[ab]$"}, ['"a"', '"b"']),
    ({"type": "string", "pattern": "^[ab]{1,2}$"}, ['"a"', '"b"', '"aa"', '"ab"', '"ba"', '"bb"']),
    (
        {"type": "string", "pattern": "^(a|ab|b[ab]?|ba[ab])$"},
        [f'"{t}"' for t in ("a", "ab", "b", "ba", "bb", "baa", "bab")],
    ),
    ({"type": "integer", "minimum": 0, "maximum": 11}, [str(n) for n in range(12)]),
    ({"type": ["boolean", "integer"], "minimum": 1, "maximum": 2}, ["true", "false", "1", "2"]),
    ({**PAIR, "required": ["a", "b"]}, ['{"a":1,"b":3}', '{"a":2,"b":3}']),
    ({**PAIR, "required": ["a"]}, ['{"a":1}', '{"a":2}', '{"a":1,"b":3}', '{"a":2,"b":3}']),
]
TEXTS += [
    ({"type": "array", "items": item, "uniqueItems": True, "maxItems": 2}, lists)
    for item, texts in (TEXTS[0], TEXTS[4])
    for lists in [["[]", *(f"[{','.join(some)}]" for n in (1, 2) for some in itertools.permutations(texts, n))]]
]


@pytest.mark.parametrize(("item", "texts"), TEXTS)
def test_masks_allow_what_some_list_begins_with(item: dict[str, Any], texts: list[str]) -> None:
    """Lists that need all their values, hardly any of them, or some in particular, beside all possible texts."""
    rng = random.Random(len(texts))
    for low, high in ((0, 3), (2, 2), (3, 3), (3, None), (len(texts), None), (len(texts) - 1, len(texts) + 2)):
        schema: dict[str, Any] = {"type": "array", "items": item, "uniqueItems": True, "minItems": low}
        most = min(len(texts), 4 if high is None else high)
        if most < low or (high is None and len(texts) > 4) or (most > 4 and len(texts) > 6):
            continue
        if high is not None:
            schema["maxItems"] = high
        lists = [some for n in range(low, most + 1) for some in itertools.permutations(texts, n)]
        if rng.random() < 0.5:
            schema["contains"] = {"enum": [json.loads(texts[0])]}
            lists = [some for some in lists if texts[0] in some]
        check_masks(schema, lists, rng)


def check_masks(schema: dict[str, Any], lists: list[tuple[str, ...]], rng: random.Random) -> None:
    """Byte by byte: what comes next is what continues some list."""
    whole = {f"[{','.join(some)}]".encode() for some in lists}
    begun = {text[:i] for text in whole for i in range(len(text) + 1)}
    guide = gr.compile(gr.json_schema(schema, layout="compact", property_order="declared"), BYTES, cache=False)
    for text in rng.sample(sorted(whole), min(len(whole), 12)):
        matcher = guide.matcher()
        for i in range(len(text) + 1):
            allowed = {BYTES.token_bytes(int(t)) for t in np.flatnonzero(mask_of(matcher)) if BYTES.is_text(int(t))}
            assert allowed == {bytes([b]) for b in range(256) if text[:i] + bytes([b]) in begun}, (schema, text[:i])
            assert matcher.is_accepting() == (text[:i] in whole)
            if i < len(text):
                assert matcher.accept_token(next(t for t in range(256) if BYTES.token_bytes(t) == text[i : i + 1]))


@pytest.mark.parametrize("seed", range(60))
def test_masks_of_lists_that_contain_values_so_many_times(seed: int) -> None:
    """Whatever the other items use up, a value that must still come is there, and the list goes on only if one is."""
    rng = random.Random(seed)
    item, texts = rng.choice([pair for pair in TEXTS if len(pair[1]) <= 7])
    schema: dict[str, Any] = {"type": "array", "items": item, "uniqueItems": True}
    rules = []
    for _ in range(rng.randint(1, 2)):
        least = rng.randint(0, 2)
        some = rng.sample(texts, rng.randint(1, len(texts)))
        rules.append((some, least, rng.choice([None, None, least, least + 1])))
    schema["allOf"] = [
        {"contains": {"enum": list(map(json.loads, some))}, "minContains": least}
        | ({} if most is None else {"maxContains": most})
        for some, least, most in rules
    ]
    low, high = rng.randint(0, 3), rng.choice([3, 4]) if len(texts) > 4 else None
    schema |= {"minItems": low} | ({} if high is None else {"maxItems": high})
    lists = [
        some
        for n in range(low, (len(texts) if high is None else high) + 1)
        for some in itertools.permutations(texts, n)
        if all(least <= len({*some} & {*of}) <= (len(some) if most is None else most) for of, least, most in rules)
    ]
    if lists:
        check_masks(schema, lists, rng)
    else:
        assert is_refused(schema)


# A list, what it begins with, and tokens that might come.
SPELLINGS: list[tuple[dict[str, Any], str, list[bytes]]] = [
    ({"anyOf": [{"const": {"a": 10}}, {"type": "string", "pattern": "^[a-c]$"}]}, '[{"a":10}', [b",{", b',{"', b',"']),
    ({"enum": [{"a": 10}, {}, *(f"{n}" for n in range(2000))]}, '[{"a":10', [b"}", b'},{"', b"},{}", b'},"']),
    ({"anyOf": [{"const": {"a": 10}}, {"const": {}}, {"pattern": "^[a-z]{9}$", "type": "string"}]}, '[{"a":10',
     [b"}", b"},{", b'},{"', b"},{}", b'},"a']),
]  # fmt: skip


@pytest.mark.parametrize(("item", "begun", "tokens"), SPELLINGS)
def test_a_value_with_many_spellings_is_one_value(item: dict[str, Any], begun: str, tokens: list[bytes]) -> None:
    """``10.0``, ``10.00`` … are endless, but after one of them, none may come."""
    vocabulary = plain([*EVERY_BYTE, *tokens])
    schema = {"type": "array", "items": item, "uniqueItems": True}
    for bounds in ({}, {"maxItems": 2}):
        matcher = gr.compile(gr.json_schema(schema | bounds), vocabulary, cache=False).matcher()
        assert matcher.accept_string(begun)
        mask = mask_of(matcher)
        for token in range(vocabulary.size):
            assert bool(mask[token]) == matcher.fork().accept_token(token), vocabulary.token_bytes(token)
