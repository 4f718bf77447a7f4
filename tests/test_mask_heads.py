"""The vocabulary caches prefix summaries of masks: constraints in sequence must not confuse them."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest

import guiderail as gr
from core_support import bits_of, plain

PIECES = [
    *(bytes([b]) for b in range(32, 127)),
    *(
        t.encode()
        for t in ('"', '",', '":', '": ', '{"', '"]', '"}', '","', ' "', ' {"', "[]", "{}", '""', '":[', 'a"')
    ),
    *(
        t.encode()
        for t in ("ab", "abc", " ab", "\\n", "\\u", "é", "\\\\", '\\"', "12", "k1", "true", "null", 'k"', "1,", "1}")
    ),
    b"\xc3",
]
PATTERNS = [None, "^[^\\u0000-\\u001f]*$", '^[^"\\\\\\u0000-\\u001f]*$', "^[a-z]*$", "^.*$", "^[^x]*$", "\\w+"]


def schema(rng: random.Random, name: str) -> dict[str, object]:
    pattern = rng.choice(PATTERNS)
    text: dict[str, object] = {"type": "string"} | ({"pattern": pattern} if pattern else {})
    out: dict[str, object] = {
        "type": "object",
        "properties": {name: text, f'{name}\n"b': {"type": "array", "items": text}, "c": {}, "n": {"type": "number"}},
        "additionalProperties": rng.choice([True, False, {"type": "integer"}]),
    }
    if pattern and rng.random() < 0.5:
        out["patternProperties"] = {pattern: {"type": "integer"}}
    return out


@pytest.mark.parametrize("seed", range(3))
def test_heads_of_one_vocabulary_serve_many_constraints(seed: int) -> None:
    rng = random.Random(seed)
    tokens = [*dict.fromkeys(PIECES)]
    vocabulary = plain(tokens)
    compared = 0
    for case in range(40):
        guide = gr.compile(
            gr.json_schema(schema(rng, f"k{case}"), escapes=rng.choice(["canonical", "all"])), vocabulary
        )
        document = json.dumps({f"k{case}": "abcd", "c": rng.choice([1, "x", {"a": []}, [1]]), "n": 12}).encode()
        for cut in rng.sample(range(1, len(document)), 8):
            matcher = guide.matcher()
            if not matcher.accept_string(document[:cut]):
                continue
            bits = gr.allocate_token_bitmask(1, vocabulary.size)
            matcher.fill_next_token_bitmask(bits, 0)
            got = np.flatnonzero(bits_of(bits)[: len(tokens)])
            expected = [i for i, t in enumerate(tokens) if matcher.fork().accept_string(t)]
            assert got.tolist() == expected, (case, document[:cut])
            compared += 1
    assert compared > 200
