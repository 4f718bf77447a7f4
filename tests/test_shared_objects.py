"""Objects that several threads use at once, permitted or not: an error or the right result, and never a crash.

Without an interpreter lock (free-threaded Python), every call here may overlap with every other.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import guiderail as gr
from core_support import byte_vocabulary, plain, words
from guiderail import _core

THREADS = 6
FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))


def in_threads(*works: Callable[[], object]) -> None:
    """Runs the functions in parallel, started together; raises the first error."""
    barrier = threading.Barrier(len(works))
    wrong: list[BaseException] = []

    def run(work: Callable[[], object]) -> None:
        try:
            barrier.wait()
            work()
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if wrong:
        raise wrong[0]


def refused(call: Callable[[], object], code: str) -> bool:
    """Returns whether a call fails because another thread uses the object. Raises any other error."""
    try:
        call()
    except gr.GuiderailError as error:
        if error.code != code:
            raise
        return True
    return False


@pytest.mark.skipif(not FREE_THREADED, reason="not a free-threaded Python")
def test_importing_brings_no_interpreter_lock_back() -> None:
    """Neither guiderail nor its dependencies."""
    script = (
        "import sys, guiderail as gr\n"
        "gr.json_schema({'$ref': 'https://json-schema.org/draft/2020-12/schema', 'format': 'date'}).matches('{}')\n"
        "gr.compile(gr.regex('a*'), gr.Vocabulary([b'a'], stop_token_ids=[])).matcher()\n"
        "gr.grammar('start: /a+/', 'lark').matches('a')\n"
        "assert 'guiderail._core' in sys.modules\n"
        "print(sys._is_gil_enabled())"
    )
    environment = {name: value for name, value in os.environ.items() if name != "PYTHON_GIL"}
    done = subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", "-c", script], capture_output=True, text=True, env=environment
    )
    assert done.stdout.strip() == "False", done.stderr


def test_one_matcher_in_many_threads_is_refused_or_right() -> None:
    matcher = gr.compile(gr.regex("a*"), plain([b"a", b"b"]), cache=False).matcher()
    size = matcher.guide.vocabulary.size
    counts = [0] * THREADS

    def look(bitmask: np.ndarray) -> None:
        matcher.fill_next_token_bitmask(bitmask)
        assert bitmask[0, 0] == 0b101
        assert matcher.fork().is_accepting() and not matcher.is_terminated()
        assert matcher.program.dump(matcher.state)
        steps = matcher.history()
        assert all(step == 0 for step in steps)
        assert matcher.validate([0, 0, 1]) == 2

    def work(index: int) -> None:
        rng = random.Random(index)
        bitmask = np.zeros((1, words(size)), dtype=np.int32)
        for _ in range(2000):
            change = rng.choice([1, 1, 0, -1])
            if change == 0:
                refused(lambda: look(bitmask), "matcher-shared")
                continue
            try:
                if change == 1:
                    counts[index] += matcher.accept_token(0)
                else:
                    matcher.rollback(1)
                    counts[index] -= 1
            except gr.MatcherError as error:
                assert error.code in ("matcher-shared", "matcher-rollback")

    in_threads(*(lambda i=i: work(i) for i in range(THREADS)))  # type: ignore[misc]
    assert matcher.step_count == len(matcher.history()) == sum(counts)


def test_a_matcher_that_others_reset_is_refused_or_right() -> None:
    """Texts constantly begin on fresh programs, so the matcher's own program is freed while others use it."""
    guide = gr.compile(
        gr.regex("(?:[ab]{1,9}c){1,50}"), plain([b"a", b"b", b"c"]), max_memory=1, prepare=0, cache=False
    )
    matcher = guide.matcher()

    def change() -> None:
        for _ in range(1500):
            refused(lambda: matcher.accept_token(0), "matcher-shared")
            refused(matcher.reset, "matcher-shared")

    def look() -> None:
        for _ in range(1500):
            refused(lambda: matcher.program.first_bytes(matcher.program.root), "matcher-shared")
            refused(lambda: matcher.fork().accept_token(0), "matcher-shared")

    in_threads(change, change, look, look)
    matcher.reset()
    assert matcher.accept_string("ababc") and matcher.is_accepting()


def test_one_builder_in_many_threads_is_refused_or_right() -> None:
    builder = _core.Builder()
    made: list[tuple[bytes, int]] = []

    def work(index: int) -> None:
        rng = random.Random(index)

        def add() -> None:
            text = bytes(rng.choices(b"abcd", k=4))
            first, rest = builder.literal(text[:2]), builder.choice([text[2:], b"wxyz" * 50])
            made.append((text, builder.concat([first, rest])))
            builder.dump(first)

        for _ in range(1000):
            refused(add, "builder-shared")

    in_threads(*(lambda i=i: work(i) for i in range(THREADS)))  # type: ignore[misc]
    assert made
    alone = _core.Builder()
    for text, e in made:
        expected = alone.concat([alone.literal(text[:2]), alone.choice([text[2:], b"wxyz" * 50])])
        assert builder.dump(e) == alone.dump(expected)
    program = builder.finish(builder.union([e for _, e in made]))
    for text, _ in made:
        assert program.is_nullable(program.derivative(program.root, text))
        assert not program.is_nullable(program.derivative(program.root, text + b"a"))


def test_a_list_of_matchers_emptied_meanwhile_is_filled_as_it_was() -> None:
    guide = gr.compile(gr.regex("a{1,3}|b"), plain([b"a", b"b"]), cache=False)
    matchers: list[gr.Matcher] = []
    done = threading.Event()

    def empty() -> None:
        while not done.is_set():
            matchers.clear()
            matchers.extend(guide.matcher() for _ in range(80))

    def fill() -> None:
        try:
            for _ in range(300):
                bitmask = np.full((80, 1), -1, dtype=np.int32)
                gr.fill_next_token_bitmasks(matchers, bitmask, threads=2)
                assert set(bitmask.ravel().tolist()) <= {0b011, -1}
                filling = _core.Filling(matchers, bitmask, threads=2)
                matchers.clear()
                filling.wait()
                assert set(bitmask.ravel().tolist()) <= {0b011, -1}
        finally:
            done.set()

    in_threads(fill, empty)


def test_masks_are_there_for_each_that_waits_for_them() -> None:
    guide = gr.compile(gr.regex("(?=.*1)(?!.*zz)[a-z1]{5,60}"), byte_vocabulary(), cache=False)
    alone = np.zeros((1, words(guide.vocabulary.size)), dtype=np.int32)
    guide.matcher().fill_next_token_bitmask(alone)
    for _ in range(100):
        matchers = [guide.matcher() for _ in range(70)]
        bitmask = np.zeros((70, words(guide.vocabulary.size)), dtype=np.int32)
        filling = _core.Filling(matchers, bitmask, threads=2)

        def wait(filling: _core.Filling = filling, bitmask: np.ndarray = bitmask) -> None:
            filling.wait()
            assert filling.done() and len(filling.seconds()) == 70
            assert (bitmask == alone[0]).all()

        in_threads(wait, wait, wait)


def test_a_value_changed_while_it_is_looked_through() -> None:
    value: dict[str, object] = {"a": [], "b": {}}
    done = threading.Event()

    def change(name: str, fresh: Callable[[int], object]) -> None:
        count = 0
        while not done.is_set():
            count += 1
            value[name] = fresh(count)
            value[str(count % 50)] = [{"x": [count]}]
            value.pop(str((count + 7) % 50), None)

    def look() -> None:
        try:
            for _ in range(3000):
                assert isinstance(_core.is_plain_json(value, 10_000), bool)
                assert isinstance(_core.unshared_parts(value, 10_000), int)
                assert _core.keys_within(value, ("k", "none")) <= {"k"}
        finally:
            done.set()

    in_threads(
        look,
        lambda: change("a", lambda i: [[i], {"k": [i, (i,)]}] * (i % 40)),
        lambda: change("b", lambda i: {str(j): [{"j": j}] for j in range(i % 40)}),
    )
    assert _core.is_plain_json({"a": [1, {"b": None}], "c": "d"}, 3 + 3 + 2)
    assert not _core.is_plain_json({"a": [1, {"b": None}], "c": "d"}, 3 + 3 + 1)
    assert not _core.is_plain_json({"a": (1,)}, 100)
    assert _core.unshared_parts({"a": [1, [2]], "b": ()}, 100) == 3 + 3 + 2 + 1
    assert _core.keys_within({"a": [1, {"b": {"é": None}, 2: "c"}]}, ("é", "c", "a", "d")) == {"a", "é"}
    assert _core.keys_within("a", ("a",)) == _core.keys_within([], ()) == set()


def test_front_ends_first_used_by_many_threads_at_once() -> None:
    """Modules, tables and caches that are made on first use are made once, or equal."""
    script = Path(__file__).with_name("first_use.py")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    assert int(done.stdout) > 40
    assert "Traceback" not in done.stderr, done.stderr
