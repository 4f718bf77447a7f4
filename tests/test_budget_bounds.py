"""Masks with a budget, made without looking at the tokens where a bound shows that none can matter.

The oracle is the thorough search for an end, from the state after each token that a mask allows.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import guiderail as gr
import schema_generator

PIECES = [
    b'{"',
    b'"}',
    b'":',
    b'": "',
    b'", "',
    b'":[',
    b'":{"',
    b'"},{"',
    b"[[",
    b"]]",
    b"]}",
    b"}}",
    b'"]',
    b"[{",
    b"00",
    b"\\u00",
    b"true",
    b"null",
    b"false",
    b"ab",
    b"abc",
    b"kind",
    b"name",
    b'"kind"',
    b"2024-",
    b"T12:00:0",
    b"   ",
    "é".encode(),
]
VOCABULARY = gr.Vocabulary([*(bytes([b]) for b in range(256)), *PIECES, b"<end>"], stop_token_ids=[256 + len(PIECES)])

NODE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "kind": {"enum": ["leaf", "branch"]},
        "of": {"type": "array", "items": {"$ref": "#"}, "maxItems": 3},
    },
    "required": ["kind", "of"],
}
SCHEMAS: dict[str, Any] = {
    "any value": True,
    "required": {
        "properties": {
            "name": {"type": "string", "minLength": 3},
            "kind": {"enum": ["ab", "abc" * 9]},
            "x": {"type": "null"},
        },
        "required": ["name", "kind", "x"],
    },
    "nested": {
        "type": "object",
        "properties": {
            k: {"properties": {"a": {"const": "q" * 30}, "b": {}}, "required": ["a"]} for k in ("k", "name")
        },
        "required": ["k"],
        "additionalProperties": False,
    },
    "recursive": NODE,
    "formats": {"type": "array", "items": {"anyOf": [{"format": f} for f in ("date-time", "ipv4", "uuid", "email")]}},
    "patterns": {
        "patternProperties": {"^(ab)+$": {"const": [1, 2, 3]}, "^n": {"type": "boolean"}},
        "additionalProperties": False,
    },
    "pattern and length": {"type": "string", "pattern": "^(ab|c)*d$", "maxLength": 12},
    "intersection": {"type": "string", "allOf": [{"pattern": "^[a-c]+x[0-9]+$"}, {"pattern": "b.*x.*7"}]},
    "distinct": {"type": "array", "uniqueItems": True, "minItems": 3, "items": {"enum": ["a", "ab", "abc", "abcdefg"]}},
    "distinct strings": {"type": "array", "uniqueItems": True, "minItems": 4, "items": {"type": "string"}},
    "members": {
        "type": "object",
        "minProperties": 3,
        "properties": {k: {"type": "integer"} for k in ("a", "ab", "abc", "kind")},
    },
    "dependent": {"properties": {k: {} for k in "abcd"}, "dependentRequired": {"a": ["b", "c", "d", "name" * 9]}},
    "alternatives": {"oneOf": [{"required": ["a"], "properties": {"a": {"const": "x" * 40}}}, {"required": ["b"]}]},
    "counted": {
        "type": "array",
        "items": {"type": "array", "minItems": 5, "items": {"type": "integer"}},
        "minItems": 2,
    },
    "long text": {"type": "string", "minLength": 60, "maxLength": 200},
    "numbers": {"type": "array", "items": {"multipleOf": 0.25, "minimum": 1000}},
}


def check(schema: Any, rng: random.Random, steps: int, **options: Any) -> int:
    """Walks through texts of a schema, and examines masks with budgets near the least, and far from it.

    Returns how many masks were like those without a budget.
    """
    guide = gr.compile(gr.json_schema(schema, **options), VOCABULARY)
    matcher = guide.matcher()
    stops = set(matcher.stop_token_ids())
    mask, plain = (gr.allocate_token_bitmask(1, VOCABULARY.size) for _ in range(2))
    far = 0
    for _ in range(steps):
        matcher.fill_next_token_bitmask(plain, 0)
        allowed = set(np.flatnonzero(gr.bitmask_to_bool(plain, VOCABULARY.size)[0]).tolist()) - stops
        if not allowed:
            break
        least = matcher.least_tokens(thorough=False)
        if least is None:
            break  # no end was found
        budget = least + rng.choice([0, 1, 2, 5, 10, 20, 40, 80, 200])
        if budget:
            matcher.fill_next_token_bitmask(mask, 0, budget)
            within = set(np.flatnonzero(gr.bitmask_to_bool(mask, VOCABULARY.size)[0]).tolist()) - stops
            assert within <= allowed
            far += within == allowed
            for token in rng.sample(sorted(within), min(len(within), 12)):
                assert matcher.accept_token(token)
                needed = matcher.least_tokens(thorough=False)
                if needed is None or needed >= budget:
                    needed = matcher.least_tokens()
                if needed is None:  # no search finds an end, but a bound shows that there is one
                    matcher.fill_next_token_bitmask(mask, 0, budget - 1)
                else:
                    assert needed < budget, (schema, budget, VOCABULARY.token_bytes(token), matcher.dump())
                matcher.rollback(1)
        assert matcher.accept_token(rng.choice(sorted(allowed)))
    return far


@pytest.mark.parametrize("name", SCHEMAS)
def test_what_a_mask_allows_can_be_completed(name: str) -> None:
    rng = random.Random(name)
    far = sum(check(SCHEMAS[name], rng, 25, escapes=rng.choice(["canonical", "all"])) for _ in range(30))
    assert far > 0, "some budget changes nothing"


def test_random_schemas() -> None:
    rng = random.Random(5)
    done = 0
    while done < 300:
        try:
            check(schema_generator.nested(rng), rng, 15)
        except (gr.SchemaError, gr.LimitError):
            continue  # no value satisfies it, or no end was found
        done += 1
