"""Constraints that count characters, on vocabularies whose tokens end inside characters: see ``mask_walks``."""

from __future__ import annotations

import re

import pytest

import guiderail as gr
from core_support import mask_of, plain
from guiderail.support import work
from mask_walks import Walk, check, check_walk, searches

SEEDS = 240

# What a token may leave unfinished where no counted character may follow.
STRINGS = [
    {"maxLength": 2, "pattern": "[\u1200-\u137f]$"},
    {"maxLength": 3, "pattern": "[a-z]*[\u4e00-\u9fff]$"},
    {"maxLength": 2, "pattern": r"\p{L}$"},
    {"maxLength": 3, "pattern": "^[^@]+\u20ac$"},
    {"maxLength": 3, "pattern": r"\S$"},
    {"minLength": 2, "maxLength": 3, "pattern": "[ab].$"},
]

PATTERNS = [r".{0,2}(?<=[\u1200-\u137F])", r".{0,2}(?<=\w)", r".{0,2}\b", r".{0,3}(?<!€)", r"(?=.*é)[^a]{1,3}"]


@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_constraints(seed: int) -> None:
    assert check(seed) is None


@pytest.mark.parametrize("schema", STRINGS, ids=repr)
def test_the_last_character_of_a_counted_string(schema: dict[str, object]) -> None:
    low, high = int(str(schema.get("minLength", 0))), int(str(schema["maxLength"]))
    readable = {**schema, "pattern": str(schema["pattern"]).replace(r"\p{L}", "[^\\W\\d_]")}
    walk = Walk(
        repr(schema),
        gr.json_schema({"type": "string", **schema}),
        searches(readable, low, high, re.DOTALL),
        True,
        None,
    )
    for seed in range(8):
        assert check_walk(walk, seed) is None


@pytest.mark.parametrize("pattern", PATTERNS)
def test_counted_text_beside_a_look_around(pattern: str) -> None:
    wanted = re.compile(pattern, re.DOTALL | re.ASCII)
    walk = Walk(pattern, gr.regex(pattern, flags="s"), lambda t: wanted.fullmatch(t) is not None, False, None)
    for seed in range(8):
        assert check_walk(walk, seed) is None


@pytest.mark.parametrize("after", ["b", "[ab]*", "b?a", "é"])
def test_what_is_counted_may_begin_what_follows(after: str) -> None:
    both = gr.regex("[a-zé]{0,3}") & gr.regex("([a-z]|é[a-z])*")
    one, rest = re.compile("(?=[a-zé]{0,3}$)([a-z]|é[a-z])*"), re.compile(after)
    walk = Walk(
        f"… + {after}",
        both + gr.regex(after),
        lambda t: any(one.fullmatch(t[:i]) and rest.fullmatch(t[i:]) for i in range(len(t) + 1)),
        False,
        None,
    )
    for seed in range(8):
        assert check_walk(walk, seed) is None


def test_tokens_that_leave_a_class_inside_their_last_character() -> None:
    """Further than any token of the class's characters alone."""
    vocabulary = plain([b"a", b"\xc3", b"\xa9", b"\xaa", "aaaaé".encode(), "aaaaê".encode()])
    guide = gr.compile(gr.regex("[^é]{0,9}") & gr.regex("(a|[b-zê])*"), vocabulary, cache=False)
    matcher = guide.matcher()
    allowed = mask_of(matcher)
    for token, expected in enumerate([True, True, False, False, False, True]):
        assert bool(matcher.validate([token])) == bool(allowed[token]) == expected


def test_characters_that_no_text_begins_with_cost_nothing() -> None:
    letters = [bytes([b]) for b in range(256)]
    wide = [(chr(0x4E00 + i) + chr(0x4E00 + k)).encode() for i in range(60) for k in range(60)]
    steps = []
    for tokens in (letters, letters + wide):
        matcher = gr.compile(gr.regex("[0-9]{2}:[0-9]{2}") & gr.regex(".*0.*"), plain(tokens), cache=False).matcher()
        before = work.spent()
        mask_of(matcher)
        steps.append(work.spent() - before)
    assert steps[0] == steps[1]
