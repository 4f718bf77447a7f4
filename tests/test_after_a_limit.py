"""Limits reached in the middle of anything: later answers of a guide are right, or the limit again."""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import numpy as np
import pytest

import guiderail as gr
from core_support import EVERY_BYTE, byte_vocabulary, mask_of, plain
from fault_scenarios import SCENARIOS, Scenario, spelled_vocabulary

LEXED = r"""start: stmt+
stmt: NAME "=" expr ";" | "{" stmt* "}"
expr: expr "+" expr | NAME | NUM | "(" expr ")"
NAME: /[a-z_]\w*/
NUM: /\d+/
COMMENT: /#[^\n]*/
%ignore COMMENT
%ignore /\s+/"""

OBJECT = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 5, "pattern": "\\S$"}, "n": {"type": "integer"}},
    "required": ["name"],
}

CONSTRAINTS: dict[str, gr.Constraint] = {
    "regex": gr.regex(r"(?=.*b)[a-zé]{2,9}(?<!x)|\d{3,}-\w+"),
    "intersection": gr.regex(".{0,7}") & gr.regex("([a-z]|é1)*") & ~gr.regex(".*xx.*"),
    "object": gr.json_schema(OBJECT),
    "any object": gr.json_schema({"type": "object"}),
    "distinct": gr.json_schema({"type": "array", "items": {"enum": [1, 2, "a", [3]]}, "uniqueItems": True}),
    "distinct strings": gr.json_schema({"type": "array", "items": {"type": "string"}, "uniqueItems": True}),
    "grammar": gr.grammar('root ::= "(" root ")" root | [a-c]*', "gbnf"),
    "lexed": gr.grammar(LEXED, "lark"),
}


def vocabulary() -> gr.Vocabulary:
    more = [b"ab", b'"a', b'": ', b'{"', b'", "', b"name", b" = ", b"; }", b"\n    ", "é1".encode(), b"b\xc3"]
    return plain(EVERY_BYTE + more)


def least_nodes(constraint: gr.Constraint, tokens: gr.Vocabulary) -> int:
    low, high = 0, 1 << 16
    while high - low > 8:
        middle = (low + high) // 2
        try:
            gr.compile(constraint, tokens, cache=False, max_nodes=middle, prepare=0)
            high = middle
        except gr.GuiderailError:
            low = middle
    return high


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", CONSTRAINTS)
def test_nodes_run_out(name: str, seed: int) -> None:
    constraint, rng = CONSTRAINTS[name], random.Random(f"{name} {seed}")
    tokens = vocabulary()
    stop = tokens.stop_token_ids[0]
    reference = gr.compile(constraint, tokens, cache=False)
    least = least_nodes(constraint, tokens)
    for _ in range(5):
        tight = vocabulary()  # shares no masks with the reference
        most = least + rng.randrange(1, 400)
        try:
            guide = gr.compile(constraint, tight, cache=False, max_nodes=most, prepare=0)
        except gr.GuiderailError:
            continue
        for _ in range(3):
            _walk(reference, guide, stop, rng)


def _walk(reference: gr.Guide, guide: gr.Guide, stop: int, rng: random.Random) -> None:
    """Walks along one text; whatever the limit refuses is tried again, then skipped."""
    right = reference.matcher()
    matcher: gr.Matcher | None = None
    try:
        matcher = guide.matcher()
    except gr.GuiderailError:
        return
    for _ in range(12):
        wanted = mask_of(right)
        for _ in range(2):
            found = _unless_limited(lambda: mask_of(matcher))
            assert found is None or (found == wanted).all()
        if rng.random() < 0.3:
            _unless_limited(matcher.least_tokens)
        choices = [int(t) for t in np.flatnonzero(wanted) if t != stop]
        if not choices:
            return
        token = rng.choice(choices)
        assert right.accept_token(token)
        state = matcher.state
        taken = _unless_limited(partial(matcher.accept_token, token))
        if taken is None:
            assert matcher.state == state
            return
        assert taken


def _unless_limited(call: Any) -> Any:
    try:
        return call()
    except gr.GuiderailError:
        return None


@pytest.mark.parametrize("fuel", [1, 2, 3, 5, 8, 20, 60])
def test_fuel_runs_out(fuel: int) -> None:
    """Deciding whether something can still match takes too long in some states, but not in others."""
    constraint = gr.regex(".*a.{4}b.*") & ~gr.regex(".*b.{3}a.{2}") & gr.regex("([ab]{3}|c)*")
    tokens = plain([b"a", b"b", b"c", b"ab", b"ba", b"bb", b"cab"])
    reference = gr.compile(constraint, tokens, cache=False)
    tight = plain([b"a", b"b", b"c", b"ab", b"ba", b"bb", b"cab"])
    try:
        guide = gr.compile(constraint, tight, cache=False, fuel=fuel, prepare=0)
    except gr.GuiderailError:
        return
    rng = random.Random(fuel)
    for _ in range(20):
        _walk(reference, guide, tokens.stop_token_ids[0], rng)


def test_states_whose_masks_are_told_by_each_other() -> None:
    """Most characters lead from one to the other, and back: neither may wait for the other's mask."""
    one, two = "A-Za", "A-Tb-kx"
    constraint = gr.regex(f"(?:[{one}](?:[{two}]|[l-w])*[0-9])*[{one}]?(?:[A-Za-z][{two}])*")
    tokens = plain([*EVERY_BYTE, b"ABC", b"lm", b"A1", b"xyz"])
    matcher = gr.compile(constraint, tokens, cache=False).matcher()
    for _ in range(6):
        allowed = mask_of(matcher)
        for token in range(tokens.size - 1):
            assert allowed[token] == bool(matcher.validate([token]))
        assert matcher.accept_string("A")


@pytest.mark.parametrize(
    ("constraint", "begin"),
    [
        (gr.json_schema({}), "["),
        (gr.json_schema({}), '{"a":'),
        (gr.grammar('root ::= "(" root ")" | "x"', "gbnf"), "("),
        (gr.grammar('start: "(" start ")" | "x"', "lark"), "("),
    ],
    ids=["arrays", "objects", "grammar", "lexed"],
)
def test_what_is_nested_deeply_does_not_exhaust_the_stack(constraint: gr.Constraint, begin: str) -> None:
    tokens = byte_vocabulary()
    matcher = gr.compile(constraint, tokens, cache=False).matcher()
    assert matcher.accept_string(begin * 50_000)
    assert mask_of(matcher).any()
    assert not matcher.is_accepting()
    assert mask_of(matcher.fork()).any()


def test_a_hundred_thousand_brackets() -> None:
    """Each costs as much as the first: a step that examined the whole stack would take minutes here."""
    vocabulary = gr.Vocabulary([*EVERY_BYTE, b"[[", b"</s>"], stop_token_ids=[257])
    matcher = gr.compile(gr.json_schema({}), vocabulary, cache=False).matcher()
    mask = gr.allocate_token_bitmask(1, vocabulary.size)
    for _ in range(100_000):
        matcher.fill_next_token_bitmask(mask, 0)
        assert matcher.accept_token(ord("["))
    assert mask[0, 256 >> 5] >> (256 & 31) & 1


SPELLED = {
    "choices": SCENARIOS["canonical spelling"],
    # Compiling needs one completion, which is `{}`. Whether a token completes a name or a number is decided later.
    "objects": Scenario(
        lambda: gr.json_schema({"type": "object"}),
        ['{"name": "aé", "tags": ["a", 1], "id": 120}', '{"id": -3, "name": "x", "x": {"a": "é1"}}'],
        {"canonical": True},
        vocabulary=spelled_vocabulary,
    ),
}


@pytest.mark.parametrize("name", SPELLED)
def test_canonical_spelling_after_a_limit(name: str) -> None:
    """A search that reaches its limit stores nothing that misleads later searches."""
    scenario = SPELLED[name]
    tokens = scenario.vocabulary()
    right = gr.compile(scenario.constraint(), tokens, cache=False, prepare=0, canonical=True)
    met = 0
    for steps in range(1, 200, 7):
        try:
            guide = gr.compile(
                scenario.constraint(), tokens, cache=False, prepare=0, canonical=True, max_step_work=steps
            )
        except gr.GuiderailError as error:
            assert error.code == "step-work"
            continue
        for text in scenario.texts:
            matcher, wanted = guide.matcher(), right.matcher()
            for token in tokens.encode(text):
                for _ in range(2):
                    try:
                        assert (mask_of(matcher) == mask_of(wanted)).all()
                    except gr.LimitError as error:
                        assert error.code == "step-work"
                        met += 1
                try:
                    assert matcher.accept_token(token)
                except gr.LimitError:
                    met += 1
                    break
                wanted.accept_token(token)
    assert met > 0
