"""Work between two steps of the model, done by other threads: the same texts, and no text delays others."""

from __future__ import annotations

import threading
import time

import pytest

import guiderail as gr
from guiderail.generation import row as rows
from guiderail.server.rows import Failed, Finished, Row
from guiderail.server.workers import Workers
from server_support import VOCABULARY, ToyModel, ToySession, wait_for
from test_overlap import TOO_MUCH
from test_server_engine import ANY, Runner


@pytest.mark.parametrize("can_clear", [False, True])
@pytest.mark.parametrize("max_batch", [None, 2])
@pytest.mark.parametrize("patience", [0.0, 10.0], ids=["all-late", "none-late"])
def test_texts_are_the_same_whoever_is_late(patience, max_batch, can_clear):
    constraint = gr.regex("(a|b|ab|12){3,9}")
    prompts = [[*f"prompt {i}".encode() * (i + 1), 257] for i in range(7)]

    class Plain(ToyModel):
        def encode(self, prompt, *, chat, system=None):
            return list(prompts[int(prompt)])

    alone = [gr.generations(Plain(), [str(i)], constraint, max_tokens=12)[0].text for i in range(7)]
    guide = gr.compile(constraint, VOCABULARY, cache=False)
    with Runner(ToyModel(max_batch=max_batch, can_clear=can_clear), prefill_tokens=16, max_rows=3) as runner:
        runner.engine.workers.patience = patience
        for i, prompt in enumerate(prompts):
            runner.submit(i, guide, 12, prompt)
        runner.wait(*range(7))
        assert [runner.text(i) for i in range(7)] == alone


def test_masks_are_made_while_the_model_computes(monkeypatch):
    filling = threading.Event()
    fill = rows.fill_next_token_bitmasks

    def noted(matchers, *more, **options):
        filling.set()
        fill(matchers, *more, **options)

    monkeypatch.setattr(rows, "fill_next_token_bitmasks", noted)
    met = []

    class Session(ToySession):
        def feed(self, rows):
            met.append(filling.wait(20))  # only another thread can have begun it, or it began earlier
            filling.clear()
            return super().feed(rows)

    class Model(ToyModel):
        session = Session

    with Runner(Model()) as runner:
        runner.submit("one", gr.compile(gr.regex("([a-m]{2,5}[n-z]{1,3}){9,12}"), VOCABULARY, cache=False), 25)
        runner.wait("one")
    assert len(met) > 10 and all(met)


def test_what_must_come_next_needs_neither_mask_nor_model():
    with Runner(ToyModel()) as runner:
        runner.submit("one", gr.compile(gr.regex("(x|y)-{40}(a|b)"), VOCABULARY), 60)
        runner.wait("one")
        (end,) = [event for event in runner.events["one"] if isinstance(event, Finished)]
        assert end.matched and end.forced >= 40 and len(runner.model.feeds) == 2


@pytest.mark.parametrize(("limit", "code"), [({"max_nodes": 150}, "nodes"), ({"max_step_work": 150}, "step-work")])
def test_a_mask_that_cannot_be_made_fails_its_text_alone(limit, code):
    hard = gr.compile(TOO_MUCH, VOCABULARY, cache=False, **limit)
    model = ToyModel("ab" * 30, delay=0.001)
    with Runner(model) as runner:
        with runner.engine._wake:  # they arrive together
            runner.engine._queue.extend(
                Row(runner.job(name, guide, 40), 0) for name, guide in (("a", ANY), ("hard", hard), ("b", ANY))
            )
            runner.engine._wake.notify_all()
        runner.wait("a", "hard", "b")
        (failed,) = [event for event in runner.events["hard"] if isinstance(event, Failed)]
        assert failed.error.code == code
        assert runner.text("a") == runner.text("b") == "ab" * 20
        runner.submit("later", ANY, 4)
        runner.wait("later")
        assert runner.text("later") == "abab"


def test_a_model_that_fails_fails_its_texts_and_no_later_one():
    model = ToyModel("xyz")
    with Runner(model) as runner:
        model.broken = True
        runner.submit("bad", gr.compile(gr.regex("[a-z]{3,9}"), VOCABULARY, cache=False))
        runner.wait("bad")
        assert runner.events["bad"][-1].error.code == "decode"
        model.broken = False
        runner.submit("good")
        runner.wait("good")
        assert runner.text("good") == "xyz"


SLOW_PLACES = ["matcher", "least_tokens", "accept_token", "fill", "fits", "forced_tokens"]


@pytest.mark.parametrize("place", SLOW_PLACES)
def test_whatever_is_slow_about_a_text_holds_up_nobody_else(monkeypatch, place):
    """One call takes five seconds: the others are written meanwhile, and its client gets an error after a second."""
    hard = gr.compile(gr.regex("[ab]{400}"), VOCABULARY, cache=False)
    released = threading.Event()

    class Slow(gr.Matcher):
        __slots__ = ()

        def _wait(self, name):
            if name == place:
                released.wait(5)

        def least_tokens(self, thorough=True):
            self._wait("least_tokens")
            return super().least_tokens(thorough)

        def accept_token(self, token):
            self._wait("accept_token")
            return super().accept_token(token)

        def accept_within(self, token, budget):
            self._wait("fits")
            return super().accept_within(token, budget)

        def forced_tokens(self):
            self._wait("forced_tokens")
            return super().forced_tokens()

    class SlowGuide:
        vocabulary = VOCABULARY

        def matcher(self):
            if place == "matcher":
                released.wait(5)
            return Slow(hard)

    fill = rows.fill_next_token_bitmasks

    def slowly(matchers, *more, **options):
        if place == "fill" and isinstance(matchers[0], Slow):
            released.wait(5)
        fill(matchers, *more, **options)

    monkeypatch.setattr(rows, "fill_next_token_bitmasks", slowly)
    with Runner(ToyModel("x" * 3000, delay=0.001), mask_seconds=1.0) as runner:
        told = []
        runner.engine.on_hard = told.append
        started = time.monotonic()
        runner.submit("before", ANY, 3000)
        wait_for(lambda: len(runner.events["before"]) > 3)
        runner.submit("hard", SlowGuide(), 300)
        runner.submit("beside", ANY, 50)
        runner.wait("beside")
        assert not runner.ended("hard")
        runner.wait("hard")
        assert runner.events["hard"][-1].error.code == "mask-timeout" and time.monotonic() - started < 4.5
        wait_for(lambda: told)
        count = len(runner.events["before"])
        wait_for(lambda: len(runner.events["before"]) > count or runner.ended("before"))
        runner.submit("after", ANY, 5)
        runner.wait("after")
        released.set()
        wait_for(lambda: runner.engine.workers.late == 0)


def test_a_crew_leaves_a_late_work_alone_and_takes_up_the_rest():
    workers, released, done = Workers(patience=0.05), threading.Event(), []
    works = [workers.put(lambda: released.wait(20))] + [workers.put(lambda i=i: done.append(i)) for i in range(5)]
    workers.settle(works)
    assert done == list(range(5)) and works[0].late and not works[0].over and workers.late == 1
    aside = workers.put(lambda: done.append("aside"), aside=True)
    wait_for(lambda: aside.over)
    released.set()
    wait_for(lambda: workers.late == 0)
    assert works[0].over
    workers.settle([workers.put(lambda: done.append("last"))])
    assert done[-1] == "last"
    workers.close()
    wait_for(lambda: not any(t.name == "guiderail-mask" for t in threading.enumerate()))


def test_more_late_works_than_rows_are_refused(monkeypatch):
    released = threading.Event()
    monkeypatch.setattr(rows, "fill_next_token_bitmasks", lambda *a, **o: released.wait(20))
    with Runner(ToyModel(), max_rows=2) as runner:
        jobs = [runner.submit(i, gr.compile(gr.regex("[ab]{40}"), VOCABULARY)) for i in range(2)]
        wait_for(lambda: runner.engine.workers.late == 2)
        for job in jobs:
            job.cancelled = True
        wait_for(lambda: runner.engine.load == (0, 0))
        with pytest.raises(gr.ModelError) as caught:
            runner.submit("more")
        assert caught.value.code == "overloaded"
        released.set()
