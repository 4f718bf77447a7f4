"""Parallel texts of one guide: long work lets others in, and what they do meanwhile changes nothing.

Long work yields to others at many places (``Arena::make_room``). Here it does so at every one of them, and the masks of
many threads are compared bit for bit with those of a guide that a single thread uses.
"""

from __future__ import annotations

import os
import random
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import guiderail as gr
from core_support import bits_of, mask_of, plain, words
from guiderail import _core
from guiderail.support.work import spent
from thread_walks import game, walk

SIGNS = "a b c x ab ba abc true false null 1 12 3.5 -7 e 0 é ü € { } [ ] ( ) , : ; + * = _ < > / | & ! . ?"
QUOTES = '" "a "b": ": ", {" [" [[ ]] }} "} "] ], }, 1, a, select from where SELECT FROM if while return def'
SPACES = " |\n|\t|  |\n    |, | :|: |==|# a|\\|\\n|\\u00|aaa|aaaaaa|bbbb|word|words|name|tags|id|0000"
WORDS = [*SIGNS.split(" "), *QUOTES.split(" "), *SPACES.split("|")]
TOKENS = sorted({w.encode() for w in WORDS} | {bytes([b]) for b in range(256)})

LARK = r"""
start: statement+
statement: NAME "=" sum ";" | "if" "(" sum ")" "{" statement* "}" | "return" sum? ";"
sum: product | sum "+" product
product: atom | product "*" atom
atom: NAME | NUMBER | STRING | "(" sum ")"
NAME: /[a-z_][a-z_0-9]*/
NUMBER: /[0-9]+(\.[0-9]+)?/
STRING: /"([^"\\\n]|\\.)*"/
COMMENT: /#[^\n]*/
%ignore COMMENT
%ignore /[ \n\t]+/
"""
CONSTRAINTS: dict[str, Callable[[], gr.Constraint]] = {
    "intersections": lambda: gr.regex("(a|b|c){2,40}") & ~gr.regex(".*abc.*") & gr.regex("[^x]*b[^x]{0,9}"),
    "complements": lambda: ~gr.regex(".*(ab|ba){2}.*") & ~gr.regex(".*c.{3}a.*") & gr.regex("[abcx1 ]{0,30}"),
    "look-arounds": lambda: gr.regex(r"(?=.*1)(?!.*bbbb)(?:\w+\b ?){1,9}(?<!a)"),
    "counted groups": lambda: gr.regex(r"(?:[ab]{1,4}[0-9 ]{2,9}){3,40}(?:ab|c,){0,200}x"),
    "ambiguous rules": lambda: gr.grammar(
        'root ::= pair root | pair | "(" root ")" list?\npair ::= "a" | "a" "b"? | list "b"\nlist ::= "c" list | "c"?',
        "gbnf",
    ),
    "lexed": lambda: gr.grammar(LARK, "lark"),
    "open object": lambda: gr.json_schema(
        {"properties": {"name": {"type": "string"}, "tags": {"items": {"type": "integer"}}}, "type": "object"}
    ),
    "closed object": lambda: gr.json_schema(
        {
            "type": "object",
            "properties": {w: {"enum": [w, 1, None]} for w in ("a", "ab", "abc", "name", "tags", "id")},
            "required": ["ab", "id"],
            "additionalProperties": False,
            "minProperties": 3,
        }
    ),
    "keys": lambda: gr.json_schema(
        {"type": "object", "patternProperties": {"^a": {"type": "integer"}, "b$": {"type": "null"}}, "maxProperties": 5}
    ),
    "texts": lambda: gr.json_schema(
        {
            "type": "array",
            "items": {"type": "string", "pattern": "^[ab]+€?$", "maxLength": 6, "not": {"pattern": "aba"}},
        }
    ),
    "distinct items": lambda: gr.json_schema(
        {
            "type": "array",
            "uniqueItems": True,
            "items": {"enum": ["a", "ab", 1, 12, None, [1], {"a": 1}]},
            "minItems": 2,
        }
    ),
    "distinct texts": lambda: gr.json_schema(
        {"type": "array", "uniqueItems": True, "items": {"type": ["string", "integer"]}}
    ),
    "anything": lambda: gr.json_schema({}),
}


@pytest.fixture
def shaken() -> Iterator[None]:
    _core.set_lock_slice(0)
    yield
    _core.set_lock_slice(200)


def guide_of(constraint: gr.Constraint) -> gr.Guide:
    return gr.compile(constraint, plain(TOKENS), cache=False, prepare=0)


@pytest.mark.parametrize("name", CONSTRAINTS)
@pytest.mark.usefixtures("shaken")
def test_masks_of_many_threads_are_those_of_one(name: str) -> None:
    threads, seeds = 6, 8
    constraint = CONSTRAINTS[name]()
    alone = guide_of(constraint)
    expected = [walk(alone, seed) for seed in range(seeds)]
    assert any(len(seen) > 3 for seen in expected)
    for _ in range(2):
        guide = guide_of(constraint)
        barrier = threading.Barrier(threads)

        def work(thread: int, guide: gr.Guide = guide, barrier: threading.Barrier = barrier) -> None:
            order = list(range(seeds))
            random.Random(thread).shuffle(order)
            barrier.wait()
            for seed in order:
                assert walk(guide, seed) == expected[seed]

        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(work, range(threads)))


@pytest.mark.parametrize("name", [n for n in CONSTRAINTS if n not in ("look-arounds", "complements")])
@pytest.mark.usefixtures("shaken")
def test_every_text_is_completed_within_its_budget_beside_others(name: str) -> None:
    threads = 5
    guide = guide_of(CONSTRAINTS[name]())
    barrier = threading.Barrier(threads)
    size = guide.vocabulary.size

    def work(thread: int) -> None:
        rng = random.Random(thread)
        bitmask = np.zeros((1, words(size)), dtype=np.int32)
        barrier.wait()
        for _ in range(3):
            matcher = guide.matcher()
            needed = matcher.least_tokens()
            assert needed is not None
            budget = needed + rng.randrange(12)
            while True:
                matcher.fill_next_token_bitmask(bitmask, 0, budget)
                allowed = np.flatnonzero(bits_of(bitmask)[:size])
                assert len(allowed), "a budget that suffices leaves a way to the end"
                token = int(rng.choice(allowed))
                assert matcher.accept_token(token)
                if matcher.is_terminated():
                    break
                budget -= 1
                assert budget >= 0

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, range(threads)))


# The deep tests use 1,000 matchers.
MANY = int(os.environ.get("GUIDERAIL_MANY_MATCHERS", "60"))


@pytest.mark.parametrize("slice", [0, 200])
def test_many_matchers_on_sixteen_threads(slice: int) -> None:
    """All matchers live at once, and each step may run on another thread: results are those of one thread."""
    threads, steps = 16, 10 + MANY // 20
    names = list(CONSTRAINTS)
    alone = [guide_of(CONSTRAINTS[name]()) for name in names]
    expected = [list(game(alone[seed % len(names)], seed, steps)) for seed in range(MANY)]
    vocabulary = plain(TOKENS)  # one for all, so that they share masks
    guides = [gr.compile(CONSTRAINTS[name](), vocabulary, cache=False, prepare=0) for name in names]
    found: list[list[bytes]] = [[] for _ in range(MANY)]
    waiting = deque((seed, game(guides[seed % len(names)], seed, steps)) for seed in range(MANY))
    barrier = threading.Barrier(threads)

    def work(thread: int) -> None:
        rng = random.Random(thread)
        barrier.wait()
        while True:
            try:
                seed, text = waiting.popleft()
            except IndexError:
                return
            for _ in range(rng.randrange(1, 4)):
                step = next(text, None)
                if step is None:
                    break
                found[seed].append(step)
            else:
                waiting.append((seed, text))

    _core.set_lock_slice(slice)
    try:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(work, range(threads)))
    finally:
        _core.set_lock_slice(200)
    for seed, steps_seen in enumerate(found):
        assert steps_seen == expected[seed], (seed, names[seed % len(names)])


# A grammar with so many readings that a text of 1,000 characters takes long, and the mask after it longer.
MANY_WAYS = (
    'root ::= r0{2} root* r1+ | "b"* "a"? | "" | "+b"? "+"{0,2}\n'
    'r0 ::= ")" | root | "a"{2} "b"? ","? | root{0,2}\nr1 ::= "+"'
)


class Slow:
    """A guide, and a text that is slow to read, which is also a token."""

    def __init__(self, length: int = 1_000) -> None:
        rng = random.Random(1)
        self.text = "".join(rng.choice("+ba)") for _ in range(length))
        self.vocabulary = plain([b"a", b"b", b"+", b")", b",", b"ab", b"+b", self.text.encode()])
        self.token = self.vocabulary.core.find(self.text.encode())
        grammar = gr.grammar(MANY_WAYS, "gbnf")
        self.guide = gr.compile(grammar, self.vocabulary, cache=False, prepare=0, max_step_work=10**9)

    def matcher(self, text: str = "") -> gr.Matcher:
        matcher = self.guide.matcher()
        assert matcher.accept_string(text)
        return matcher

    def fill(self, matcher: gr.Matcher) -> bytes:
        bitmask = np.zeros((1, words(self.vocabulary.size)), dtype=np.int32)
        matcher.fill_next_token_bitmask(bitmask)
        return bitmask.tobytes()


class Beside:
    """Runs a function in a thread, and counts how often other threads have their turn meanwhile."""

    def __init__(self, work: Callable[[], object]) -> None:
        self.turns = 0
        self._began, self._done = threading.Event(), threading.Event()
        self._work = work
        self._worker = threading.Thread(target=self._run)
        self._watcher = threading.Thread(target=self._watch)

    def _run(self) -> None:
        self._began.set()
        try:
            self._work()
        finally:
            self._done.set()

    def _watch(self) -> None:
        self._began.wait()
        while not self._done.wait(0.0005):
            self.turns += 1

    @property
    def running(self) -> bool:
        return not self._done.is_set()

    def __enter__(self) -> Beside:
        self._watcher.start()
        self._worker.start()
        self._began.wait()
        return self

    def __exit__(self, *error: object) -> None:
        self._worker.join()
        self._watcher.join()


def test_a_slow_mask_stops_nobody_else() -> None:
    slow = Slow()
    other, one = slow.matcher("+ba"), slow.matcher(slow.text)
    token = slow.vocabulary.core.find(b"b")
    with Beside(lambda: slow.fill(one)) as beside:
        other.accept_token(token)
        other.is_complete()
        other.forced_bytes(10)
        other.validate([token, token])
        slow.fill(slow.matcher("+"))
        other.fork()
        assert beside.running
    assert beside.turns > 20


@pytest.mark.parametrize("call", ["accept_token", "validate", "accept_string", "forced_bytes"])
def test_no_call_stops_other_threads_while_its_own_work_is_long(call: str) -> None:
    slow = Slow()
    matcher = slow.matcher()
    long = "ab" * 1_000_000
    forced = gr.compile(gr.literal(long), slow.vocabulary, cache=False, prepare=0, max_step_work=10**9).matcher()
    calls: dict[str, Callable[[], object]] = {
        "accept_token": lambda: matcher.accept_token(slow.token),
        "validate": lambda: matcher.validate([slow.token]),
        "accept_string": lambda: matcher.accept_string(slow.text),
        "forced_bytes": lambda: forced.forced_bytes(len(long)),
    }
    with Beside(calls[call]) as beside:
        pass
    assert beside.turns > 20


def test_a_mask_that_several_want_is_made_once() -> None:
    def counted(slow: Slow, matcher: gr.Matcher) -> tuple[bytes, int]:
        before = spent()  # by this thread
        return slow.fill(matcher), spent() - before

    alone = Slow(400)
    expected, once = counted(alone, alone.matcher(alone.text))
    slow = Slow(400)
    matchers = [slow.matcher(slow.text) for _ in range(6)]
    with ThreadPoolExecutor(6) as pool:
        results = list(pool.map(lambda matcher: counted(slow, matcher), matchers))
    assert {found for found, _ in results} == {expected}
    assert once > 10_000 and sum(work for _, work in results) < 2 * once


def test_a_matcher_in_use_is_refused_to_other_threads() -> None:
    guide = gr.compile(gr.any_text(), plain([b"a", b"b"]), cache=False)
    matcher = guide.matcher()
    assert matcher.accept_token(0)
    draft = [0] * 400_000
    bitmask = np.zeros((len(draft) + 1, 1), dtype=np.int32)
    changing: list[Callable[[], object]] = [
        lambda: matcher.accept_token(1),
        lambda: matcher.accept_string("b"),
        lambda: matcher.accept_within(1, 9),
        lambda: matcher.rollback(1),
        matcher.reset,
    ]

    begin = threading.Event()

    def fill() -> None:
        begin.wait()
        while True:
            try:
                matcher.fill_draft(draft, bitmask)
            except gr.MatcherError as error:  # without an interpreter lock, the other thread may come first
                assert error.code == "matcher-shared"
            else:
                return

    worker = threading.Thread(target=fill)
    worker.start()
    begin.set()  # this thread runs by then; starting a thread may take as long as its work
    refused = False
    while worker.is_alive() and not refused:
        try:
            matcher.rollback(0)
        except gr.MatcherError as error:
            assert error.code == "matcher-shared"
            refused = True
    assert refused
    for call in changing:  # there is enough time
        with pytest.raises(gr.MatcherError) as caught:
            call()
        assert caught.value.code == "matcher-shared"
    assert matcher.history() == [0]  # it can be read
    assert not matcher.is_terminated()
    assert mask_of(matcher)[:2].all()
    worker.join()
    assert (bitmask == bitmask[0]).all() and bitmask.any()
    assert matcher.history() == [0]
    matcher.rollback(1)
    assert matcher.accept_string("ab")


def test_a_large_program_is_freed_beside_other_threads() -> None:
    """Python's interpreter lock would hold up all others for a tenth of a second."""
    ways = [{"contains": {"const": number}} for number in range(14)]
    vocabulary = gr.Vocabulary([*(bytes([byte]) for byte in range(256)), b"</s>"], stop_token_ids=[256])
    guide = gr.compile(gr.json_schema({"type": "array", "allOf": ways}), vocabulary, cache=False)
    guide.matcher().least_tokens()
    assert guide.memory_size_bytes() > 2 << 20
    program = guide.core.program  # outlives the guide, as that of a matcher may
    del guide
    turns, over = 0, threading.Event()

    def others() -> None:
        nonlocal turns
        while not over.is_set():
            turns += 1
            time.sleep(0)

    beside = threading.Thread(target=others)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(100.0)  # so the other thread has a turn only where this one lets it
    try:
        beside.start()
        before = turns
        del program
        after = turns
    finally:
        over.set()
        sys.setswitchinterval(interval)
        beside.join()
    assert after > before
