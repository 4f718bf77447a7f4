"""Masks of keys after other keys, if a pattern allows finitely many: every token by its own derivative.

A key must not be repeated. The mask ignores this condition while no token can complete the same key, and some other key
can continue wherever this one can.
"""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

import guiderail as gr
from core_support import EVERY_BYTE, mask_of

PATTERNS = {
    "a letter": "^[a-z]$",
    "up to three letters": "^[a-z]{1,3}$",
    "just two letters": "^[a-z]{2}$",
    "few letters": "^[a-c]{1,4}$",
    "sixteen letters and one more": "^[a-q]{1,2}$",
    "labels": "^[a-z][a-z0-9.-]{0,15}$",
    "a branch that ends early": "^(?:[b-z]{1,3}|a[a-d]?|ab[a-z]{0,2})$",
    "beyond ASCII": "^[a-zäöüß]{1,3}$",
    "a quote in a name": '^[a-z]{1,2}"?$',
    "an intersection": "^(?=.*a)[a-z]{1,3}$",
}
MORE: dict[str, dict[str, Any]] = {
    "nothing": {},
    "at most three": {"maxProperties": 3},
    "at least four": {"minProperties": 4},
    "a name": {"properties": {"ab": {"const": 0}, "abd": {"const": 1}}},
    "a name that is required": {"properties": {"ab": {"const": 0}}, "required": ["ab"]},
    "another kind of key": {"patternProperties": {"^x": {"enum": [5, 6]}}},
    "one that meets a condition": {"not": {"additionalProperties": {"enum": [1, 2, 3, 4, 5, 6, 7, 8]}}},
}
WRITTEN = (
    ["ab"], ["a"], ["abc"], ["ab", "abc"], ["a", "ab", "b"], ["x", "xy"], ["ß", "aß"], ["q", "qq", "a"], ['ab"', "a"],
    list("abcdefghijklmnop"), list("abcdefghijklmnopqr"), [f"a{c}" for c in "abcdefghijklmnopqr"],
)  # fmt: skip
BEGUN = ("", '"', '"a', '"ab', '"abc', '"x', '"q', '"ß', '"ab\\')
TOKENS = [
    b'"a', b'"ab', b'"ab"', b'"abc"', b'ab"', b'b"', b'c"', b'bc"', b'ab":', b'bc":1', b'a":1,"b', b'abc":1}', b"ab",
    b"bc", b"abc", b"abcd", b"xy", b'xy"', b'x"', b"qq", b'q"', b'","', b'":', b'":1', b'":0', b'1,"', b'1, "a',
    b'1,"ab":', "ß".encode(), 'ß"'.encode(), b"\\u", b"ab\\", b"b\\", b' "', b' "ab"',
]  # fmt: skip
VOCABULARY = gr.Vocabulary([*EVERY_BYTE, *TOKENS, b"</s>"], stop_token_ids=[256 + len(TOKENS)])


@pytest.mark.parametrize("more", MORE)
@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_key_after_others(pattern: str, more: str) -> None:
    schema = {"type": "object", "propertyNames": {"pattern": PATTERNS[pattern]}, **MORE[more]}
    schema.setdefault("additionalProperties", {"enum": list(range(10))})
    constraint = gr.json_schema(schema, separators=(",", ":"))
    try:
        guide = gr.compile(constraint, VOCABULARY, cache=False)
    except gr.GuiderailError as error:
        assert error.code == "unsatisfiable-schema"
        return
    # derivatives of a separate program: no cache of the guide can hide a mistake
    program = constraint.program().core
    texts = {t: VOCABULARY.token_bytes(t) for t in range(VOCABULARY.token_count) if VOCABULARY.is_text(t)}
    rng = random.Random(f"{pattern}/{more}")
    places = [(written, begun) for written in WRITTEN for begun in BEGUN]
    rng.shuffle(places)
    matcher = guide.matcher()
    reached = 0
    for written, begun in places[:60]:
        values = {key: rng.randrange(10) for key in written}
        text = (json.dumps(values, separators=(",", ":"), ensure_ascii=False)[:-1] + "," + begun).encode()
        matcher.reset()
        state = program.derivative(program.root, text)
        if not program.is_live(state):
            assert not matcher.accept_string(text)
            continue
        assert matcher.accept_string(text)
        reached += 1
        mask = mask_of(matcher)
        wrong = [read for t, read in texts.items() if bool(mask[t]) != program.is_live(program.derivative(state, read))]
        assert not wrong, (text, wrong[:5])
    assert reached or pattern in ("a letter", "just two letters") or "name" in more


def test_the_mask_is_shared_with_other_keys() -> None:
    """Earlier keys do not require separate masks."""
    schema = {
        "type": "object",
        "propertyNames": {"pattern": PATTERNS["labels"]},
        "additionalProperties": {"type": "null"},
    }
    guide = gr.compile(gr.json_schema({"type": "object", **schema}, separators=(",", ":")), VOCABULARY, cache=False)
    texts = [b'{"bcd":null,"', b'{"ccd":null,"', b'{"cde":null,"cdf":null,"']

    def made(text: bytes) -> int:
        before = gr._core.spent_work()
        matcher = guide.matcher()
        assert matcher.accept_string(text)
        between = gr._core.spent_work()
        mask_of(matcher)
        assert before <= between
        return int(gr._core.spent_work() - between)

    assert max(map(made, texts)) < 300  # steps; a walk over the tokens takes thousands
