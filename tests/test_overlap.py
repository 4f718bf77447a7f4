"""Masks that are filled while the model computes: the same texts, the same errors, and real overlap."""

from __future__ import annotations

import random
import time

import numpy as np
import pytest

import guiderail as gr
from core_support import mask_of
from guiderail import _core
from guiderail.constraints.reading import TEXT
from guiderail.errors import LimitError, ModelError
from guiderail.frontends.regex import regex
from guiderail.generation import overlap as module
from guiderail.generation.decoding import Batch
from guiderail.generation.generate import generations, stream
from guiderail.generation.options import Options
from toy_models import STOP, TOKENS, VOCABULARY, Toy, ToySession

PATTERNS = ["(a|b){3,9}", "a*b", "(hello ?)+", "€{2}a?", "[ab€]*hello", "(aba|hel)(lo|b)( €|a{2,7})"]


class AtLast:
    """Fills when the model is done, like a thread that never gets a turn."""

    def __init__(self, *arguments):
        self.arguments = arguments

    def wait(self):
        gr.fill_next_token_bitmasks(*self.arguments)

    def seconds(self):
        return []


class Watched(_core.Filling):
    """Records the requested rows, and whether it was waited for."""

    made: list[Watched] = []  # noqa: RUF012

    def __init__(self, matchers, bitmask, rows):
        super().__init__(matchers, bitmask, rows)
        self.matchers, self.rows, self.waited = matchers, rows, False
        self.made.append(self)

    def wait(self):
        self.waited = True
        super().wait()


@pytest.fixture
def watched(monkeypatch):
    """Fills the masks of every step while the model computes; collects these fillings."""
    monkeypatch.setattr(Watched, "made", [])
    monkeypatch.setattr(_core, "Filling", Watched)
    overlap(monkeypatch, True)
    return Watched.made


def overlap(monkeypatch, always: bool) -> None:
    monkeypatch.setattr(module.Masks, "_overlaps", lambda masks: always)


def fresh(patterns):
    """Guides without cached masks, over a vocabulary without any."""
    vocabulary = gr.Vocabulary(TOKENS, special_tokens={"<end>": STOP}, stop_token_ids=[STOP], size=len(TOKENS))
    model = Toy()
    model.vocabulary = vocabulary
    return model, [gr.compile(regex(pattern), vocabulary, cache=False) for pattern in patterns]


def outcome(results):
    return [(got.tokens, got.text, got.finish_reason, got.matched, got.forced_tokens) for got in results]


@pytest.mark.parametrize("jump", [True, False])
@pytest.mark.parametrize("on_incomplete", ["return", "finish"])
@pytest.mark.parametrize("temperature", [0.0, 1.2])
def test_overlap_changes_nothing(jump, on_incomplete, temperature, monkeypatch):
    options = {
        "max_tokens": 14, "jump_forward": jump, "on_incomplete": on_incomplete, "temperature": temperature, "seed": 5,
    }  # fmt: skip
    prompts = ["x" * (i + 1) for i in range(len(PATTERNS))]
    seen = []
    for filling, always in ((_core.Filling, True), (_core.Filling, False), (AtLast, True), (_core.Filling, None)):
        with monkeypatch.context() as patch:
            patch.setattr(_core, "Filling", filling)
            if always is not None:
                overlap(patch, always)
            model, guides = fresh(PATTERNS)
            for _ in range(2):  # first without cached masks, then with all of them
                model.feeds = []
                results = generations(model, prompts, guides, **options)
                seen.append((outcome(results), model.feeds))
            assert model.open == 0
    assert len({len(got.tokens) for got in results}) > 2  # they end at different times
    assert all(one == seen[0] for one in seen[1:])  # including the portions that the model gets


def test_rows_that_have_ended_or_are_forced_get_no_mask(watched):
    model, guides = fresh(["(a|b){1,2}", "hello|€{3}", "[ab]{9}", "hel"])
    results = generations(model, ["x"] * 4, guides, max_tokens=20)
    assert all(got.matched for got in results) and len(watched) > 2
    assert set(watched[0].rows) == {0, 1, 2}  # the last row allows only one text
    assert watched[-1].rows == [2]
    for filling in watched:
        assert filling.waited and len(filling.rows) == len(filling.matchers)
        assert set(filling.rows) <= {0, 1, 2}
    asked = sum(len(filling.rows) for filling in watched)
    assert asked == sum(len(got.tokens) - got.forced_tokens for got in results)


class SlowSession(ToySession):
    """Computes, in Python, until the masks are there."""

    def feed(self, rows):
        (filling,) = self.model.fillings[-1:]
        until = time.monotonic() + 20
        while not filling.done() and time.monotonic() < until:
            sum(range(1000))  # holds the GIL as long as a Python thread can
        self.model.met.append((filling.done(), filling.waited))
        return super().feed(rows)


def test_masks_are_made_while_the_model_computes(watched, monkeypatch):
    letters = [chr(c).encode() for c in range(97, 123)]
    tokens = [*letters, *(a + b for a in letters for b in letters), b""]
    vocabulary = gr.Vocabulary(tokens, stop_token_ids=[len(tokens) - 1], size=len(tokens))

    class Slow(Toy):
        fillings, met, session = watched, [], SlowSession

        def score(self, row):
            scores = np.random.default_rng(row).normal(size=self.logits_size).astype(np.float32)
            return scores

    model = Slow()
    model.vocabulary, model.logits_size = vocabulary, len(tokens)
    pattern = gr.regex("([a-m]{2,5}[n-z]{1,3}){9,12}")
    guides = [gr.compile(pattern, vocabulary, cache=False) for _ in range(5)]
    results = generations(model, ["x"] * 5, guides, max_tokens=30)
    assert len(model.met) == len(watched) == len(model.feeds) > 5
    assert all(done and not waited for done, waited in model.met)
    for got in results:
        matcher = guides[0].matcher()
        for token in got.tokens:
            assert mask_of(matcher)[token] and matcher.accept_token(token)


def test_a_special_token_that_is_forced_needs_no_model():
    tokens = [b"a", b"b", b"ab", b""]
    vocabulary = gr.Vocabulary([*tokens, b""], special_tokens={"<call>": 4}, stop_token_ids=[3], size=len(tokens) + 1)
    model = Toy()
    model.vocabulary = vocabulary
    constraint = regex("[ab]{2}") + gr.special_token("<call>") + regex("[ab]{2}")
    (got,) = generations(model, ["x"], constraint, max_tokens=9)
    assert 4 in got.tokens and got.matched and got.forced_tokens >= 1
    assert sum(len(rows) for feed in model.feeds[1:] for rows in feed) < len(got.tokens)
    assert all(feed != [[4]] for feed in model.feeds)  # it is fed with the token before it


# -- errors ----------------------------------------------------------------------------------------
TOO_MUCH = regex("[abc]*a[abc]{6}") & regex("[abc]*b[abc]{4}c.*")


def endless():
    """A batch in which the first mask of the second row needs more states than allowed."""
    rng = random.Random(2)
    tokens = [b"a", b"b", b"c", *sorted({bytes(rng.choices(b"abc", k=14)) for _ in range(60)}), b""]
    vocabulary = gr.Vocabulary(tokens, stop_token_ids=[len(tokens) - 1], size=len(tokens))
    model = Toy()
    model.vocabulary, model.logits_size = vocabulary, len(tokens)
    model.score = lambda row: np.zeros(len(tokens), np.float32)
    guides = [
        gr.compile(regex("[abc]{9,40}"), vocabulary, cache=False),
        gr.compile(TOO_MUCH, vocabulary, cache=False, max_nodes=200),
    ]
    return model, guides


def batch_of(model, guides):
    return Batch(
        model, [[1]] * len(guides), guides, [TEXT] * len(guides),
        options=Options(30, on_incomplete="return"),
    )  # fmt: skip


def test_an_error_of_a_mask_is_the_same_error(watched, monkeypatch):
    model, guides = endless()
    batch = batch_of(model, guides)
    with pytest.raises(LimitError) as caught:
        list(batch.steps())
    assert caught.value.code == "nodes" and model.open == 0 and watched[0].waited
    for row in batch.rows:
        assert row.tokens == row.matcher.history() == [] and not row.matcher.is_terminated()
    overlap(monkeypatch, False)
    with pytest.raises(LimitError) as direct:
        list(batch_of(*endless()).steps())
    assert str(direct.value) == str(caught.value)
    with pytest.raises(LimitError):
        batch.rows[1].matcher.fill_next_token_bitmask(batch.bitmask, 1)  # and again: never a guess
    batch.rows[0].matcher.fill_next_token_bitmask(batch.bitmask, 0)  # the other row still works
    assert batch.rows[0].matcher.accept_token(0)


@pytest.mark.parametrize("error", [ModelError("no power", code="decode"), KeyboardInterrupt()])
def test_an_error_of_the_model_waits_for_the_masks(watched, error):
    model, guides = fresh(PATTERNS)

    def fail(row):
        raise error

    model.score = fail
    batch = batch_of(model, guides)
    with pytest.raises(type(error)) as caught:
        list(batch.steps())
    assert caught.value is error and model.open == 0
    assert [filling.waited for filling in watched] == [True] and watched[0].done()
    for row, guide in zip(batch.rows, guides, strict=True):
        twin = guide.matcher()
        assert row.matcher.history() == row.tokens and all(twin.accept_token(token) for token in row.tokens)
        np.testing.assert_array_equal(mask_of(row.matcher), mask_of(twin))


def test_errors_of_both_name_the_mask_first():
    model, guides = endless()
    lost = ModelError("no power", code="decode")

    def fail(row):
        raise lost

    model.score = fail
    with pytest.raises(LimitError) as caught:
        list(batch_of(model, guides).steps())
    assert caught.value.__context__ is lost and model.open == 0


def test_a_stream_that_is_closed_leaves_no_thread_at_work(watched):
    model, guides = fresh(["[ab]{30}"])
    run = stream(model, "x", guides[0])
    next(run)
    run.close()
    assert model.open == 0 and all(filling.waited for filling in watched)


def test_the_times_add_up(monkeypatch):
    class Late(AtLast):
        def wait(self):
            time.sleep(0.02)
            super().wait()

    monkeypatch.setattr(_core, "Filling", Late)
    overlap(monkeypatch, True)
    model, guides = fresh(["[ab]{6}"])
    began = time.perf_counter()
    (got,) = generations(model, ["x"], guides[0], max_tokens=9, log_weight=False)
    spent = time.perf_counter() - began
    assert 0.02 * len(model.feeds) <= got.constraint_seconds <= got.seconds <= spent


# -- which way -------------------------------------------------------------------------------------
class Clock:
    """Stands still unless somebody sleeps: a busy machine cannot change what was measured."""

    def __init__(self):
        self.now = 0.0

    def perf_counter(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


@pytest.mark.parametrize(("before", "meanwhile"), [(0.02, 0), (0, 0.02), (0.02, 0.01), (0.01, 0.02)])
def test_the_way_that_holds_up_less_is_taken(before, meanwhile, monkeypatch):
    ways, clock = [], Clock()

    class Slow(AtLast):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            clock.sleep(meanwhile)
            ways.append("meanwhile")

    def fill(matchers, bitmask, rows, threads):
        clock.sleep(before)
        ways.append("before")

    monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(_core, "Filling", Slow)
    monkeypatch.setattr(module, "fill_next_token_bitmasks", fill)
    masks = module.Masks(gr.allocate_token_bitmask(1, VOCABULARY.size))
    for _ in range(2 * masks.RETRY):
        masks.begin([gr.compile(regex("a*"), VOCABULARY).matcher()], [0])
        assert masks.finish() == pytest.approx(meanwhile if ways[-1] == "meanwhile" else before)
    better = "meanwhile" if meanwhile < before else "before"
    assert ways[:2] == ["meanwhile", "before"]
    assert set(ways[2 : masks.RETRY - 1]) == {better}
    if before < masks.WORTH:
        assert set(ways[2:]) == {"before"}  # not worth a thread
    else:  # things may have changed
        assert ways[masks.RETRY - 1] == ways[2 * masks.RETRY - 1] != better
