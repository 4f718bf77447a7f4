"""The steps of a matcher, shared by its forks, against copied lists."""

from __future__ import annotations

import random
import resource
import sys
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings, strategies as st

import guiderail as gr

VOCABULARY = gr.Vocabulary([b"a", b"b", b"c", b"ab", None], special_tokens={"<end>": 4}, stop_token_ids=[4])
GUIDE = gr.compile(gr.regex("[abc]*"), VOCABULARY)


@dataclass
class Copied:
    """The model of a matcher: each has its own list."""

    matcher: gr.Matcher
    steps: list[tuple[int, int]] = field(default_factory=list)  # (state before, token)

    def check(self, rng: random.Random) -> None:
        tokens = [token for _, token in self.steps]
        assert self.matcher.step_count == len(tokens)
        assert self.matcher.history() == tokens
        last = rng.randrange(len(tokens) + 3)
        assert self.matcher.history(last) == (tokens[-last:] if last else [])


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([1, 3, 20, 700]))
def test_forks_keep_histories_of_their_own(seed: int, stride: int) -> None:
    rng = random.Random(seed)
    texts = [Copied(GUIDE.matcher())]
    for _ in range(120):
        text = rng.choice(texts)
        what = rng.random()
        if what < 0.45:
            for _ in range(rng.randint(1, stride)):
                before = text.matcher.state
                if rng.random() < 0.9:
                    token = rng.randrange(4)
                    assert text.matcher.accept_token(token)
                else:
                    token = -1
                    assert text.matcher.accept_string("abc")
                text.steps.append((before, token))
        elif what < 0.7:
            count = min(len(text.steps), rng.choice([0, 1, 2, rng.randint(0, 3 * stride)]))
            text.matcher.rollback(count)
            if count:
                assert text.matcher.state == text.steps[-count][0]
                del text.steps[-count:]
        elif what < 0.92:
            texts.append(Copied(text.matcher.fork(), list(text.steps)))
        elif what < 0.95:
            text.matcher.reset()
            text.steps.clear()
        elif len(texts) > 1:
            texts.remove(text)
        text.check(rng)
        rng.choice(texts).check(rng)
    for text in texts:
        text.check(rng)


def test_states_come_back_however_far() -> None:
    guide = gr.compile(gr.regex("(a|b|c){0,5000}"), VOCABULARY)
    matcher = guide.matcher()
    states = []
    for i in range(3000):
        states.append(matcher.state)
        assert matcher.accept_token(i % 3)
    twin = matcher.fork()
    for back in (1, 7, 8, 9, 500, 1475):
        matcher.rollback(back)
        assert matcher.state == states[matcher.step_count]
        assert matcher.accept_token(0) and matcher.history(1) == [0]
        matcher.rollback(1)
    matcher.rollback(matcher.step_count)
    assert matcher.state == states[0] and matcher.history() == [] and matcher.step_count == 0
    assert twin.history() == [i % 3 for i in range(3000)]


def test_a_thousand_forks_of_a_long_text() -> None:
    matcher = GUIDE.matcher()
    forks = []
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for i in range(100_000):
        matcher.accept_token(i & 3)
        if i % 100 == 99:
            twin = matcher.fork()
            assert twin.accept_token(2) and twin.history(2) == [i & 3, 2]
            forks.append((i + 1, twin))
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    # 1,000 copies of up to 100,000 steps of 8 bytes would be 400 MB.
    assert sys.platform == "darwin" or grown < 16 * 1024  # KB
    whole = [i & 3 for i in range(100_000)]
    assert matcher.history() == whole
    for length, twin in random.Random(1).sample(forks, 30):
        assert twin.step_count == length + 1
        assert twin.history(5) == [*whole[length - 4 : length], 2]
        twin.rollback(length)
        assert twin.history() == [0]
    assert matcher.history(3) == whole[-3:]


def test_forks_that_end_leave_nothing_behind() -> None:
    """Drafts: at each step, a fork reads ahead and ends."""
    matcher = GUIDE.matcher()
    for _ in range(20_000):
        draft = matcher.fork()
        for token in (0, 1, 2, 0):
            draft.accept_token(token)
        draft.rollback(2)
        matcher.accept_token(1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(100_000):  # back and forth, as speculation does
        twin = matcher.fork()
        twin.rollback(1)
        twin.accept_token(0)
        matcher = twin
    assert matcher.step_count == 20_000
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert sys.platform == "darwin" or grown < 8 * 1024


def test_a_long_history_is_freed_without_recursion() -> None:
    """A chain of blocks of one step each: every fork continues from another fork."""
    matcher = GUIDE.matcher()
    for _ in range(200_000):
        first, second = matcher.fork(), matcher.fork()
        first.accept_token(0)
        second.accept_token(1)
        matcher = second
    assert matcher.history(3) == [1, 1, 1]
    del matcher, first, second


def test_a_refused_count() -> None:
    matcher = GUIDE.matcher()
    matcher.accept_token(0)
    with pytest.raises(gr.MatcherError) as caught:
        matcher.history(-1)
    assert caught.value.code == "matcher-history"
    with pytest.raises(gr.MatcherError) as caught:
        matcher.rollback(2)
    assert caught.value.code == "matcher-rollback"
    assert matcher.history(0) == [] and matcher.history(9) == [0] and matcher.step_count == 1
