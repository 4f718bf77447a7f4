"""Masks that the server fills while its model computes: the same texts, errors of one text only, nobody held up."""

from __future__ import annotations

import time

import pytest

import guiderail as gr
from guiderail import _core, overlap
from guiderail.server import rows
from guiderail.server.rows import Failed, Finished
from server_support import VOCABULARY, ToyModel, ToySession
from test_overlap import TOO_MUCH
from test_server_engine import ANY, Runner, hard_ones_hold_up_nobody_else


class Watched(_core.Filling):
    made: list[Watched] = []  # noqa: RUF012

    def __init__(self, matchers, bitmask, at):
        super().__init__(matchers, bitmask, at)
        self.rows, self.waited = at, False
        self.made.append(self)

    def wait(self):
        self.waited = True
        super().wait()


class Slow(Watched):
    """Some of the masks take long, as far as one can tell from outside."""

    hard: gr.Guide

    def __init__(self, matchers, bitmask, at):
        super().__init__(matchers, bitmask, at)
        self.spent = [0.15 if matcher.guide is self.hard else 0.0 for matcher in matchers]

    def wait(self):
        super().wait()
        time.sleep(sum(self.spent))

    def seconds(self):
        return self.spent


@pytest.fixture(params=[True, False], ids=["meanwhile", "before"])
def way(request, monkeypatch):
    monkeypatch.setattr(Watched, "made", [])
    monkeypatch.setattr(_core, "Filling", Watched)
    monkeypatch.setattr(overlap.Masks, "_overlaps", lambda masks: request.param)
    return request.param


@pytest.mark.parametrize("can_clear", [False, True])
@pytest.mark.parametrize("max_batch", [None, 2])
def test_texts_are_the_same_either_way(way, max_batch, can_clear):
    constraint = gr.regex("(a|b|ab|12){3,9}")
    prompts = [[*f"prompt {i}".encode() * (i + 1), 257] for i in range(7)]

    class Plain(ToyModel):
        def encode(self, prompt, *, chat, system=None):
            return list(prompts[int(prompt)])

    alone = [gr.generations(Plain(), [str(i)], constraint, max_tokens=12)[0].text for i in range(7)]
    del Watched.made[:]
    guide = gr.compile(constraint, VOCABULARY, cache=False)
    with Runner(ToyModel(max_batch=max_batch, can_clear=can_clear), prefill_tokens=16, max_rows=3) as runner:
        for i, prompt in enumerate(prompts):
            runner.submit(i, guide, 12, prompt)
        runner.wait(*range(7))
        assert [runner.text(i) for i in range(7)] == alone
    assert bool(Watched.made) == way
    assert all(filling.waited for filling in Watched.made)


def test_masks_are_made_while_the_model_computes(monkeypatch):
    monkeypatch.setattr(Watched, "made", [])
    monkeypatch.setattr(_core, "Filling", Watched)
    monkeypatch.setattr(overlap.Masks, "_overlaps", lambda masks: True)
    met = []

    class Session(ToySession):
        def feed(self, rows):
            filling = Watched.made[-1]
            until = time.monotonic() + 20
            while not filling.done() and time.monotonic() < until:
                sum(range(1000))  # in Python
            met.append((filling.done(), filling.waited))
            return super().feed(rows)

    class Model(ToyModel):
        def new_session(self, batch, length):
            self.open += 1
            self.reserved += batch * length
            return Session(self, batch, length)

    guide = gr.compile(gr.regex("([a-m]{2,5}[n-z]{1,3}){9,12}"), VOCABULARY, cache=False)
    model = Model()
    with Runner(model) as runner:
        for i in range(4):
            runner.submit(i, guide, 25)
        runner.wait(*range(4))
    assert len(met) == len(model.feeds) > 10
    assert all(done and not waited for done, waited in met)


def test_what_must_come_next_needs_neither_mask_nor_model(way):
    with Runner(ToyModel()) as runner:
        runner.submit("one", gr.compile(gr.regex("(x|y)-{40}(a|b)"), VOCABULARY), 60)
        runner.wait("one")
        (end,) = [event for event in runner.events["one"] if isinstance(event, Finished)]
        assert end.matched and end.forced >= 40 and len(runner.model.feeds) == 2
    assert len(Watched.made) == (2 if way else 0)


def test_a_mask_that_cannot_be_made_fails_its_text_alone(way):
    hard = gr.compile(TOO_MUCH, VOCABULARY, cache=False, max_nodes=150)
    model = ToyModel("ab" * 30, delay=0.001)
    with Runner(model) as runner:
        with runner.engine._wake:  # they arrive together
            runner.engine._queue.extend(
                rows.Row(runner.job(name, guide, 40), 0) for name, guide in (("a", ANY), ("hard", hard), ("b", ANY))
            )
            runner.engine._wake.notify_all()
        runner.wait("a", "hard", "b")
        (failed,) = [event for event in runner.events["hard"] if isinstance(event, Failed)]
        assert failed.error.code == "nodes"
        assert runner.text("a") == runner.text("b") == "ab" * 20
        runner.submit("later", ANY, 4)
        runner.wait("later")
        assert runner.text("later") == "abab"


def test_a_model_that_fails_waits_for_the_masks(way):
    model = ToyModel("xyz")
    with Runner(model) as runner:
        model.broken = True
        runner.submit("bad", gr.compile(gr.regex("[a-z]{3,9}"), VOCABULARY, cache=False))
        runner.wait("bad")
        assert runner.events["bad"][-1].error.code == "decode"
        assert all(filling.waited for filling in Watched.made)
        model.broken = False
        runner.submit("good")
        runner.wait("good")
        assert runner.text("good") == "xyz"


@pytest.fixture
def hard(monkeypatch):
    """A guide whose masks take long while the model computes."""
    guide = gr.compile(gr.regex("[ab]{400}"), VOCABULARY)
    monkeypatch.setattr(Watched, "made", [])
    monkeypatch.setattr(Slow, "hard", guide, raising=False)
    monkeypatch.setattr(_core, "Filling", Slow)
    monkeypatch.setattr(overlap.Masks, "_overlaps", lambda masks: True)
    return guide


def test_masks_that_were_slow_meanwhile_hold_up_nobody_else(monkeypatch, hard):
    hard_ones_hold_up_nobody_else(monkeypatch, hard)


def test_masks_made_meanwhile_count_against_the_time_of_their_text(hard):
    with Runner(ToyModel("x" * 300), mask_seconds=0.1) as runner:
        runner.submit("hard", hard, 300)
        runner.wait("hard")
        assert runner.events["hard"][-1].error.code == "mask-timeout"


def test_seconds_are_those_of_each_row():
    guides = [gr.compile(gr.regex(p), VOCABULARY, cache=False) for p in ("a*", "[ab]{3}", "(x|yz){1,40}")]
    matchers = [guide.matcher() for guide in guides]
    filling = _core.Filling(matchers, gr.allocate_token_bitmask(3, VOCABULARY.size))
    filling.wait()
    assert len(filling.seconds()) == 3 and all(0 < spent < 5 for spent in filling.seconds())
