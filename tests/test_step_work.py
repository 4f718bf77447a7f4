"""Limits of one mask, one token and one search for an end: an error beyond them, after which everything still works."""

from __future__ import annotations

import pickle
import random
from typing import Any

import numpy as np
import pytest

import guiderail as gr
from core_support import EVERY_BYTE, byte_vocabulary, mask_of, plain
from guiderail.support import work
from test_after_a_limit import CONSTRAINTS, vocabulary

AMBIGUOUS = 'root ::= r0{2} root* r1+ | "b"* "a"? | ""\nr0 ::= ")" | root | "a"{2} "b"? ","? | root{0,2}\nr1 ::= "+"'
TEXT = "+baab))abaaaab)ab"


def ambiguous(**options: Any) -> gr.Guide:
    tokens = byte_vocabulary()
    return gr.compile(gr.grammar(AMBIGUOUS, "gbnf"), tokens, cache=False, **options)


CALLS: dict[str, Any] = {
    "mask": lambda m: m.fill_next_token_bitmask(gr.allocate_token_bitmask(1, m.guide.vocabulary.size), 0),
    "budget": lambda m: m.fill_next_token_bitmask(gr.allocate_token_bitmask(1, m.guide.vocabulary.size), 0, 50),
    "token": lambda m: m.accept_token(ord("b")),
    "token within a budget": lambda m: m.accept_within(ord("b"), 50),
    "string": lambda m: m.accept_string("ab"),
    "draft": lambda m: m.validate([ord("b"), ord("a")]),
    "end": lambda m: m.least_tokens(),
    "complete": lambda m: m.is_complete(),
}


@pytest.mark.parametrize("limit", [1, 10, 100, 1000])
@pytest.mark.parametrize("name", CALLS)
def test_what_takes_too_much_is_refused_and_changes_nothing(name: str, limit: int) -> None:
    matcher = ambiguous(max_step_work=limit).matcher()
    read = 0
    for letter in TEXT:
        try:
            assert matcher.accept_string(letter)
        except gr.LimitError:
            break
        read += 1
    state, refused = matcher.state, []
    for _ in range(2):
        try:
            CALLS[name](matcher.fork())
            refused.append(False)
        except gr.LimitError as error:
            assert error.code == "step-work"
            assert "max_step_work" in str(error)
            taken = read + (name == "token within a budget" and "an end" in str(error))
            assert f"after {taken} tokens of the text" in str(error)
            refused.append(True)
    assert name not in ("mask", "end") or len(set(refused)) == 1
    assert limit > 1 or name in ("end", "complete") or any(refused)
    assert (matcher.state, matcher.step_count) == (state, read)
    fresh = ambiguous().matcher()
    assert fresh.accept_string(TEXT[:read])
    assert fresh.is_accepting() == matcher.is_accepting()


def test_the_answer_stays_a_refusal() -> None:
    """A second attempt fails as well, although it finds the results of the first one."""
    guide = ambiguous(max_step_work=3_000)
    matcher = guide.matcher()
    refused = None
    for letter in TEXT * 4:
        try:
            mask_of(matcher)
            matcher.accept_string(letter)
        except gr.LimitError as error:
            refused = error
            break
    assert refused is not None
    assert "rule" in str(refused)
    again = [matcher, matcher.fork()]
    for one in again:
        for _ in range(5):
            with pytest.raises(gr.LimitError):
                mask_of(one)
                one.accept_string(letter)
    other = guide.matcher()
    assert mask_of(other).any()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", CONSTRAINTS)
def test_beside_limits_every_answer_is_right(name: str, seed: int) -> None:
    rng = random.Random(f"{name} {seed}")
    tokens = vocabulary()
    stop = tokens.stop_token_ids[0]
    reference = gr.compile(CONSTRAINTS[name], tokens, cache=False)
    for _ in range(5):
        most = int(10 ** rng.uniform(0.5, 4))
        guide = gr.compile(CONSTRAINTS[name], vocabulary(), cache=False, max_step_work=most)
        for _ in range(3):
            _walk(reference, guide, stop, rng)


def _walk(reference: gr.Guide, guide: gr.Guide, stop: int, rng: random.Random) -> None:
    right, matcher = reference.matcher(), guide.matcher()
    for _ in range(12):
        wanted = mask_of(right)
        answers = [_or_refused(lambda: mask_of(matcher)) for _ in range(2)]
        assert all(found is None or (found == wanted).all() for found in answers)
        assert (answers[0] is None) == (answers[1] is None)
        if rng.random() < 0.3:
            _or_refused(matcher.least_tokens)
        choices = [int(t) for t in np.flatnonzero(wanted) if t != stop]
        if not choices:
            return
        token = rng.choice(choices)
        assert right.accept_token(token)
        state = matcher.state
        if _or_refused(lambda token=token: matcher.accept_token(token)) is None:
            assert matcher.state == state
            return


def _or_refused(call: Any) -> Any:
    try:
        return call()
    except gr.LimitError as error:
        assert error.code == "step-work"
        return None


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_others_make_nothing_dearer(name: str) -> None:
    """A text read after a similar one takes no more work at any step than a single text."""
    rng = random.Random(name)
    alone_guide = gr.compile(CONSTRAINTS[name], vocabulary(), cache=False, prepare=0)
    stop = alone_guide.vocabulary.stop_token_ids[0]
    text: list[int] = []
    costs: list[int] = []
    alone = alone_guide.matcher()
    for _ in range(12):
        before = work.spent()
        allowed = mask_of(alone)
        costs.append(work.spent() - before)
        choices = [int(t) for t in np.flatnonzero(allowed) if t != stop]
        if not choices:
            break
        text.append(rng.choice(choices))
        alone.accept_token(text[-1])
    shared = gr.compile(CONSTRAINTS[name], vocabulary(), cache=False, prepare=0)
    for _ in range(4):
        other = shared.matcher()
        for _ in range(12):
            choices = [int(t) for t in np.flatnonzero(mask_of(other)) if t != stop]
            if not choices:
                break
            other.accept_token(rng.choice(choices))
    matcher = shared.matcher()
    for token, cost in zip([*text, None], costs, strict=False):
        before = work.spent()
        mask_of(matcher)
        assert work.spent() - before <= cost
        if token is not None:
            assert matcher.accept_token(token)


GAPS = {"a": {"not": {"pattern": "x.{2,9}y.{2,9}z"}, "type": "string"}}


@pytest.mark.parametrize("limit", [300, 3_000])
def test_a_token_within_a_budget_takes_a_bounded_amount(limit: int) -> None:
    """Reading it, and two searches for an end, each with twenty times the work of a mask."""
    rng = random.Random(limit)
    schema = gr.json_schema({"type": "object", "properties": GAPS, "required": ["a"]})
    for _ in range(6):
        matcher = gr.compile(schema, vocabulary(), cache=False, max_step_work=limit).matcher()
        for _ in range(15):
            allowed = _or_refused(lambda matcher=matcher: mask_of(matcher))
            if allowed is None or not allowed.any():
                break
            token, budget = int(rng.choice(np.flatnonzero(allowed))), rng.randrange(2, 12)
            before, count = work.spent(), matcher.step_count
            read = _or_refused(lambda m=matcher, t=token, b=budget: m.accept_within(t, b))
            assert work.spent() - before <= 42 * limit
            assert matcher.step_count == count + bool(read)
            if not read and not _or_refused(lambda m=matcher, t=token: m.accept_token(t)):
                break
            if matcher.is_terminated():
                break


@pytest.mark.parametrize("limit", [0, -1, 2**63, 1.5, "many", None, True])
def test_limits_are_numbers(limit: Any) -> None:
    with pytest.raises(gr.CompileError) as caught:
        gr.compile(gr.literal("a"), plain([b"a"]), max_step_work=limit)
    assert caught.value.code == "bad-bound"


def test_a_guide_keeps_its_limits() -> None:
    tokens = plain([b"a", b"b"])
    one = gr.compile(gr.literal("a"), tokens, max_step_work=1000)
    assert gr.compile(gr.literal("a"), tokens, max_step_work=1000) is one
    assert gr.compile(gr.literal("a"), tokens) is not one
    reads = ambiguous(max_step_work=50)
    for guide in (reads, pickle.loads(pickle.dumps(reads))):
        with pytest.raises(gr.LimitError, match="max_step_work=50 "):
            guide.matcher().accept_string(TEXT * 3)


@pytest.mark.parametrize("depth", [1_000, 50_000, 100_000])
def test_an_end_that_is_far_is_found(depth: int) -> None:
    matcher = gr.compile(gr.json_schema({}), byte_vocabulary(), cache=False).matcher()
    assert matcher.accept_string("[" * depth)
    assert matcher.least_tokens(thorough=False) == matcher.least_tokens() == depth


def test_an_escape_leads_straight_to_its_end() -> None:
    """Whether an unfinished escape can still become another text is decided digit by digit, not by trying all texts."""
    escapes = [b"\\u", b"\\u0", b"\\u00", b"\\u006", b'\\"', b'", "', b'["']
    tokens = plain(EVERY_BYTE + escapes)
    distinct = gr.json_schema({"type": "array", "items": {"type": "string"}, "uniqueItems": True}, escapes="all")
    matcher = gr.compile(distinct, tokens, cache=False, max_step_work=20_000).matcher()
    texts = [f"{word}{number}" for number in range(20) for word in ("alpha", "beta", "delta")]
    for number, text in enumerate(texts):
        for part in (', "' if number else '["', text, '"'):
            assert matcher.accept_string(part)
            assert mask_of(matcher).any()
    for part in (', "', "\\", "u00", "6"):
        assert matcher.accept_string(part)
        assert mask_of(matcher).any()


def test_masks_of_an_object_with_many_names_cost_what_the_names_are() -> None:
    """Where the names lead in the trie is found once. From then on, a mask only asks which of them may still come."""
    names = [f"{letter}{number}" for letter in "abcde" for number in range(400)]
    schema = {"type": "object", "properties": {name: {"type": "null"} for name in names}, "additionalProperties": False}
    tokens = plain([*EVERY_BYTE, b'"a', b' "b', b"a1", b'c1"'])
    matcher = gr.compile(gr.json_schema(schema), tokens, cache=False, prepare=0).matcher()
    spent = []
    for name in names[::60]:
        for part in ("{" if not spent else ",", f'"{name}": null'):
            assert matcher.accept_string(part)
            before = work.spent()
            mask_of(matcher)
            spent.append(work.spent() - before)
    first, *others = spent[2::2]  # after a comma
    assert len(names) <= first < 3 * len(names)
    assert 0 < max(others) < len(names)
