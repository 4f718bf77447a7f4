"""Texts in engines that sample themselves: complete when their tokens are used up."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest

import guiderail as gr
from guiderail.generation.budget import BudgetedMasks

SCHEMAS = sorted((Path(__file__).parent / "data" / "schemas").glob("*.json"))


def draw(guide: gr.Guide, limit: int, before: int, rng: random.Random) -> gr.Matcher:
    """Samples like an engine that avoids the end: any token of the mask, until only an end may come or the request has
    no tokens left.

    Args:
        before: tokens spent before the constraint began.
    """
    matcher = guide.matcher()
    masks = BudgetedMasks(matcher, limit)
    bitmask = gr.allocate_token_bitmask(1, guide.vocabulary.size)
    ends = matcher.stop_token_ids()
    for written in range(before, limit):
        masks.fill(matcher, written, bitmask, 0)
        allowed = np.flatnonzero(gr.bitmask_to_bool(bitmask, guide.vocabulary.size)[0]).tolist()
        going = [token for token in allowed if token not in ends]
        assert matcher.accept_token(rng.choice(going) if going else ends[0])
        if matcher.is_terminated():
            break
    return matcher


@pytest.mark.parametrize("path", SCHEMAS, ids=lambda path: path.stem)
def test_texts_are_complete(path: Path, smollm2: gr.Vocabulary) -> None:
    guide = gr.compile(gr.json_schema(json.loads(path.read_text(encoding="utf-8"))), smollm2)
    least = guide.matcher().least_tokens()
    assert least is not None
    rng = random.Random(path.stem)
    matcher = draw(guide, least + 3 + 7, 7, rng)
    assert matcher.is_terminated(), "with a token left for the end"
    if least < 50:
        exact = draw(guide, least, 0, rng)
        assert exact.is_terminated() or exact.is_accepting(), "complete, if perhaps without a token for the end"


def test_a_limit_that_is_far_forbids_nothing(smollm2: gr.Vocabulary) -> None:
    matcher = gr.compile(gr.json_schema({"type": "array", "items": {"type": "string"}}), smollm2).matcher()
    with_limit, without = (gr.allocate_token_bitmask(1, smollm2.size) for _ in range(2))
    BudgetedMasks(matcher, 10_000).fill(matcher, 5_000, with_limit, 0)
    matcher.fill_next_token_bitmask(without, 0)
    assert (with_limit == without).all()


def test_what_cannot_be_finished_goes_on() -> None:
    vocabulary = gr.Vocabulary([b"a", b"b", b"<end>"], stop_token_ids=[2])
    for pattern, limit in (("a{9}", 4), ("a*c", 4)):  # too few tokens; no token is an end
        matcher = gr.compile(gr.regex(pattern), vocabulary).matcher()
        masks = BudgetedMasks(matcher, limit)
        bitmask = gr.allocate_token_bitmask(1, vocabulary.size)
        for written in range(6):
            masks.fill(matcher, written, bitmask, 0)
            assert int(bitmask[0, 0]) == 1
            assert matcher.accept_token(0)


def test_a_search_that_meets_a_limit_stops_no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    vocabulary = gr.Vocabulary([b"a", b"b", b"<end>"], stop_token_ids=[2])
    matcher = gr.compile(gr.regex("a{9}"), vocabulary).matcher()

    def search(_: gr.Matcher, thorough: bool = True) -> int | None:
        raise gr.LimitError("more than 10 expressions", code="nodes")

    monkeypatch.setattr(gr.Matcher, "least_tokens", search)
    masks = BudgetedMasks(matcher, 20)
    bitmask = gr.allocate_token_bitmask(1, vocabulary.size)
    masks.fill(matcher, 0, bitmask, 0)
    assert int(bitmask[0, 0]) == 1


def test_searches_leave_room_for_the_text():
    """Where searches for an end fill the arena, they find nothing more; the text can still be written."""
    item = {
        "type": "object",
        "properties": {"kind": {"enum": ["x", "y"]}},
        "required": ["kind"],
        "additionalProperties": {"type": "string", "pattern": "^[a-z]{2,9}$"},
        "minProperties": 3,
    }
    schema = gr.json_schema({"type": "array", "uniqueItems": True, "minItems": 3, "items": item})
    pieces = [b'", "', b'": "', b'"}, {"']
    vocabulary = gr.Vocabulary([*(bytes([b]) for b in range(256)), *pieces, b"</s>"], stop_token_ids=[259])
    matcher = gr.compile(schema, vocabulary, cache=False, max_nodes=120_000).matcher()
    mask = gr.allocate_token_bitmask(1, vocabulary.size)
    text = json.dumps([{"kind": "x", f"abc{i}": "hello", f"de{i}": "wor" + "abcdefghij"[i]} for i in range(4)])
    codes = set()
    for written, byte in enumerate(text.encode()):
        try:
            matcher.fill_next_token_bitmask(mask, 0, len(text) - written + 20)
        except gr.LimitError as error:
            codes.add(error.code)
        assert matcher.accept_token(byte)
    assert codes == {"budget-unknown"} and matcher.is_accepting()
