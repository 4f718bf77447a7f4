"""Children of a fork: they use what they inherit, whatever other threads were doing at that moment."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable

import pytest

import guiderail as gr
from core_support import mask_of, plain
from guiderail import _core
from guiderail.support import locks

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]
SCHEMA = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^[a-f]+é$"}, "b": {"enum": [1, "é"]}}}
TOKENS = [bytes([b]) for b in range(256)]


def status_of_child(work: Callable[[], object], seconds: int = 60) -> int:
    child = os.fork()
    if child == 0:  # pragma: no cover
        signal.alarm(seconds)  # a child that waits for ever ends by this signal
        try:
            work()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1]


def test_locks_that_other_threads_hold_are_free() -> None:
    vocabulary = plain(TOKENS)
    schema = gr.json_schema(SCHEMA)
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        every = list(locks._all)
        taken = [lock for lock in every if lock.acquire(blocking=False)]
        held.set()
        done.wait()
        for lock in taken:
            lock.release()

    def work() -> None:
        assert gr.json_schema({"enum": [1, 2, {"é": 3}]}).accepts(2) and schema.accepts({"b": 1})
        assert gr.compile(schema, vocabulary).matcher().accept_string('{"a":"abé"}')
        gr.clear_cache()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    try:
        assert status_of_child(work) == 0
    finally:
        done.set()
        thread.join()
    work()


def test_the_core_is_usable_while_other_threads_compile() -> None:
    vocabulary = plain(TOKENS)
    schema = gr.json_schema(SCHEMA)
    stop = threading.Event()

    def work() -> None:
        matcher = gr.compile(schema, vocabulary, cache=False).matcher()
        assert matcher.accept_string('{"a":"abé"')
        mask_of(matcher)

    def compile_on() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            own = plain(TOKENS)
            mask_of(gr.compile(gr.regex(f"[a-f]{{1,{number % 9 + 1}}}|é*{number}"), own, cache=False).matcher())

    others = [threading.Thread(target=compile_on) for _ in range(3)]
    for thread in others:
        thread.start()
    try:
        for _ in range(20):
            assert status_of_child(work) == 0
    finally:
        stop.set()
        for thread in others:
            thread.join()


def test_guides_that_a_parent_dropped_do_not_stop_its_child() -> None:
    """The thread that frees them may be at work during the fork, and is missing in the child."""
    vocabulary = plain(TOKENS)

    def drop() -> None:
        for _ in range(40):
            gr.compile(gr.json_schema(SCHEMA), vocabulary, cache=False)

    def work() -> None:
        drop()
        assert _core.pages_in_use() > 0

    for _ in range(5):
        drop()
        assert status_of_child(work) == 0
    work()
