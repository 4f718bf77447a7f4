"""Many threads with one guide: each gets the results of a single thread. And children of a fork."""

from __future__ import annotations

import os
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import guiderail as gr
from core_support import mask_of, plain, words
from guiderail import _core
from guiderail.matching.guide import clear_cache
from thread_walks import walk

TEXTS = ["a", "b", "ab", "ba", "z", "zz", "ÿ", "aÿ", "€", "1", "22", " ", ", ", "a b", "abab", "zzzz", "b1", "1a", "😀"]
TOKENS = (
    [t.encode() for t in TEXTS] + [b"\xc3", b"\xbf", b"\xe2\x82", b"\xac", b"\xff"] + [b"%d" % i for i in range(200)]
)
CONSTRAINTS = [
    gr.regex(r"(?:[ab]{1,4}[0-9 ]{2,9}){3,40}z*"),
    gr.regex(r"(?=.*1)(?!.*zz).{5,60}"),
    gr.text_until("ab").limited_to(50) + gr.regex(".*"),
    gr.separated_by(gr.regex(r"\w{1,9}"), ", ", 2, 30),
    ~gr.regex(".*aba.*") & gr.regex("[^z]*"),
    gr.choice([f"{i}ab{i % 7}" for i in range(3000)]),
]


def test_walks_of_many_threads_equal_those_of_one() -> None:
    alone = plain(TOKENS)
    expected = [[walk(gr.compile(c, alone, cache=False), seed) for seed in range(16)] for c in CONSTRAINTS]
    shared = plain(TOKENS)
    guides = [gr.compile(c, shared, cache=False) for c in CONSTRAINTS]
    barrier = threading.Barrier(8)

    def work(thread: int) -> list[tuple[int, int, list[tuple[bytes, bool, int]]]]:
        barrier.wait()
        order = [(i, seed) for i in range(len(guides)) for seed in range(16) if (seed + thread) % 4]
        random.Random(thread).shuffle(order)
        return [(i, seed, walk(guides[i], seed)) for i, seed in order]

    with ThreadPoolExecutor(8) as pool:
        for found in pool.map(work, range(8)):
            for i, seed, seen in found:
                assert seen == expected[i][seed]


def test_batches_on_native_threads_equal_single_calls() -> None:
    vocabulary = plain(TOKENS)
    for threads in (1, 2, 7, None):
        matchers = []
        for seed in range(100):
            matcher = gr.compile(CONSTRAINTS[seed % len(CONSTRAINTS)], vocabulary, cache=False).matcher()
            rng = random.Random(seed)
            for _ in range(seed % 5):
                allowed = np.flatnonzero(mask_of(matcher)[: len(TOKENS)])
                if not len(allowed):
                    break
                assert matcher.accept_token(int(rng.choice(allowed)))
            matchers.append(matcher)
        bitmask = np.full((100, words(vocabulary.size)), -1, dtype=np.int32)
        gr.fill_next_token_bitmasks(matchers, bitmask, threads=threads)
        for row, matcher in enumerate(matchers):
            one = np.zeros((1, words(vocabulary.size)), dtype=np.int32)
            matcher.fill_next_token_bitmask(one)
            assert (bitmask[row] == one[0]).all()


def test_batches_while_others_compile_and_walk() -> None:
    vocabulary = plain(TOKENS)
    stop = threading.Event()
    failures: list[BaseException] = []

    def compile_on_and_on(seed: int) -> None:
        try:
            n = 0
            while not stop.is_set():
                n += 1
                constraint = gr.regex(f"[ab]{{{n % 9},{n % 9 + seed}}}z*") | CONSTRAINTS[n % len(CONSTRAINTS)]
                walk(gr.compile(constraint, vocabulary), n, 5)
                if n % 20 == 0:
                    vocabulary.core.clear_cache()
        except BaseException as error:
            failures.append(error)

    others = [threading.Thread(target=compile_on_and_on, args=(seed,)) for seed in range(1, 5)]
    for thread in others:
        thread.start()
    try:
        guide = gr.compile(CONSTRAINTS[0], vocabulary, cache=False)
        expected = walk(gr.compile(CONSTRAINTS[0], plain(TOKENS), cache=False), 3, back=0)
        for _ in range(20):
            matchers = [guide.matcher() for _ in range(16)]
            for mask, _, token in expected[:6]:
                bitmask = np.zeros((16, words(vocabulary.size)), dtype=np.int32)
                gr.fill_next_token_bitmasks(matchers, bitmask, threads=4)
                got = np.unpackbits(bitmask.view(np.uint8), axis=1, bitorder="little").astype(bool)
                assert all(row.tobytes() == mask for row in got)
                matchers = [m.fork() for m in matchers]
                assert all(m.accept_token(token) for m in matchers)
                assert len({m.state for m in matchers}) == 1, "equal texts lead to equal states"
    finally:
        stop.set()
        for thread in others:
            thread.join()
        clear_cache()
    assert not failures


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_children_of_a_fork_start_threads_of_their_own() -> None:
    vocabulary = plain(TOKENS)
    guide = gr.compile(CONSTRAINTS[0], vocabulary, cache=False)

    def fill() -> bytes:
        matchers = [guide.matcher() for _ in range(80)]
        bitmask = np.zeros((80, words(vocabulary.size)), dtype=np.int32)
        gr.fill_next_token_bitmasks(matchers, bitmask, threads=4)
        return bitmask.tobytes()

    expected = fill()
    for _ in range(3):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:  # pragma: no cover
            try:
                os.write(writer, b"1" if fill() == expected else b"0")
            finally:
                os._exit(0)
        os.close(writer)
        with os.fdopen(reader, "rb") as pipe:
            assert pipe.read() == b"1"
        assert os.waitpid(child, 0)[1] == 0
    assert fill() == expected


def native_threads() -> int:
    return len(os.listdir("/proc/self/task"))


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="threads are counted in /proc")
def test_threads_are_few_however_many_are_asked_for_and_end_when_idle() -> None:
    vocabulary = plain(TOKENS)
    guide = gr.compile(CONSTRAINTS[0], vocabulary, cache=False)
    matchers = [guide.matcher() for _ in range(500)]
    bitmask = np.zeros((500, words(vocabulary.size)), dtype=np.int32)
    before = native_threads()
    for threads in (3000, 2**31, 2**32, 10**30):
        gr.fill_next_token_bitmasks(matchers, bitmask, threads=threads)
    filling = [
        _core.Filling(matchers[i::10], np.zeros((50, words(vocabulary.size)), dtype=np.int32), threads=3000)
        for i in range(10)
    ]
    for one in filling:
        one.wait()
    assert native_threads() <= before + 2 * (os.cpu_count() or 1)
    deadline = time.monotonic() + 20
    while native_threads() > before and time.monotonic() < deadline:
        time.sleep(0.1)
    assert native_threads() <= before
    bitmask[:] = 0
    gr.fill_next_token_bitmasks(matchers, bitmask, threads=4)  # started once more
    assert (bitmask == bitmask[0]).all() and bitmask.any()


@pytest.mark.parametrize("threads", [0, -1, -(2**40)])
def test_less_than_one_thread_is_refused(threads: int) -> None:
    guide = gr.compile(CONSTRAINTS[0], plain(TOKENS))
    bitmask = np.zeros((1, words(guide.vocabulary.size)), dtype=np.int32)
    with pytest.raises(gr.MatcherError) as caught:
        gr.fill_next_token_bitmasks([guide.matcher()], bitmask, threads=threads)
    assert caught.value.code == "matcher-threads"
    assert not bitmask.any()
