"""A guide in long use: the memory that its texts add is bounded, and a renewal affects no text."""

from __future__ import annotations

import json
import pickle
import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import guiderail as gr
from core_support import EVERY_BYTE, mask_of
from guiderail import _core
from guiderail.matching import guide as guide_module

EOS = 256
BYTES = gr.Vocabulary([*EVERY_BYTE, None], special_tokens={"<eos>": EOS}, stop_token_ids=[EOS])
KEYED = gr.json_schema({"type": "object", "additionalProperties": {"type": "integer"}})
# Texts that add different kinds of states, and constraints of which a fresh program must copy different parts.
LEAVING = {
    "keys": KEYED,
    "names and keys": gr.json_schema(
        {
            "type": "object",
            "properties": {"a": {"$ref": "#/$defs/n"}, "ab": {"type": "string", "maxLength": 30}},
            "patternProperties": {"^[x-z]": {"type": "integer"}},
            "additionalProperties": {"$ref": "#"},
            "$defs": {"n": {"type": ["integer", "null"]}},
            "maxProperties": 4,
        }
    ),
    "distinct": gr.json_schema({"type": "array", "uniqueItems": True, "items": {"type": ["integer", "object"]}}),
    "look-around": gr.regex(r"(?=.*1)(?!.*zz)(?:[a-z]{1,4}[0-9 ]{2,9}){3,40}"),
    "complement": ~gr.regex(".*a[^b]{9}b.*") & gr.regex("[^z]{0,60}"),
    "special": KEYED + gr.special_token("<eos>") + gr.regex("d{3}"),
}
MIB = 1 << 20


def random_object(rng: random.Random) -> bytes:
    key = lambda: "".join(rng.choices("abcdefgh xyz\u00e9", k=rng.randint(1, 12)))  # noqa: E731
    return json.dumps({key(): rng.randint(-999, 99_999) for _ in range(rng.randint(1, 5))}, ensure_ascii=False).encode()


def walk(matcher: gr.Matcher, rng: random.Random, steps: int) -> list[tuple[bytes, int]]:
    """Yields random tokens and the masks from which they were chosen."""
    seen = []
    for _ in range(steps):
        mask = mask_of(matcher)
        allowed = [token for token in np.flatnonzero(mask[:EOS]) if token < 127] or list(np.flatnonzero(mask))
        token = int(rng.choice(allowed)) if allowed else EOS
        seen.append((mask.tobytes(), token))
        if not allowed or not matcher.accept_token(token) or matcher.is_terminated():
            break
    return seen


def age(guide: gr.Guide, seed: int = 0) -> None:
    """Reads texts until the guide is renewed."""
    rng = random.Random(seed)
    before = guide.core.program
    for _ in range(20_000):
        matcher = guide.matcher()
        if matcher.program is not before:
            return
        walk(matcher, rng, 60)
    raise AssertionError("never renewed")


def test_thousands_of_texts_stay_within_the_limit() -> None:
    guide = gr.compile(KEYED, BYTES, cache=False, max_memory=40 * MIB)
    rng = random.Random(1)
    bitmask = gr.allocate_token_bitmask(1, BYTES.size)
    first, largest, renewed = guide.core.program, 0, 0
    matcher = guide.matcher()
    for text in range(6000):
        if text % 2:
            matcher.reset()
        else:
            matcher = guide.matcher()
        for byte in random_object(rng):
            matcher.fill_next_token_bitmask(bitmask)
            assert bitmask[0, byte >> 5] >> (byte & 31) & 1
            assert matcher.accept_token(byte)
        assert matcher.accept_token(EOS)
        largest = max(largest, guide.memory_size_bytes())
        renewed += matcher.program is not first
        first = matcher.program
    assert 30 * MIB < largest < 46 * MIB  # the limit was reached, and exceeded by one text at most
    assert renewed >= 1


def test_a_guide_grows_without_a_limit() -> None:
    """Without a limit, the guide does grow: otherwise the tests above would show nothing."""
    sizes = []
    for limit in (0, MIB):
        guide = gr.compile(KEYED, BYTES, cache=False, max_memory=limit)
        rng = random.Random(2)
        first = guide.core.program.serial  # not the program, whose memory the guide would count
        for _ in range(800):
            assert guide.matcher().accept_string(random_object(rng))
        assert (guide.core.program.serial == first) == (limit == 0)
        sizes.append(guide.memory_size_bytes())
    assert sizes[0] > 4 * MIB and sizes[1] < 2 * MIB  # the limit, and what one text adds


def test_dropped_guides_are_freed() -> None:
    """A thread frees them in batches, and asking for the memory in use frees the rest."""

    def dropped(count: int) -> None:
        for _ in range(count):
            guide = gr.compile(KEYED, BYTES, cache=False)
            assert guide.matcher().accept_string(b'{"a"')

    dropped(100)
    before = _core.pages_in_use()
    dropped(300)
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(dropped, [100] * 4))
    assert _core.pages_in_use() <= before + MIB


@pytest.mark.parametrize("name", LEAVING)
def test_a_text_does_not_notice_that_its_guide_is_renewed(name: str) -> None:
    guide = gr.compile(LEAVING[name], BYTES, cache=False, max_memory=1)
    other = gr.compile(LEAVING[name], BYTES, cache=False, max_memory=0)
    for seed in range(2):
        early = guide.matcher()
        begun = walk(early, random.Random(seed), 12)
        age(guide, seed)
        twin = early.fork()
        assert early.program is not guide.core.program and twin.program is early.program
        late = guide.matcher()
        expected = other.matcher()
        assert walk(expected, random.Random(seed), 12) == walk(late, random.Random(seed), 12) == begun
        assert expected.history() == early.history()
        if expected.is_terminated():
            continue
        assert early.find_jump_forward_string() == expected.find_jump_forward_string()
        assert early.is_complete() == expected.is_complete()
        assert isinstance(early.dump(), str)
        going_on = walk(expected, random.Random(-seed), 40)
        assert walk(early, random.Random(-seed), 40) == going_on
        assert walk(late, random.Random(-seed), 40) == going_on
        back = len(twin.history()) // 2
        twin.rollback(back)
        assert mask_of(twin).tobytes() == begun[len(twin.history())][0]
        early.reset()
        assert early.program is guide.core.program
        assert walk(early, random.Random(seed), 12) == begun


@pytest.mark.parametrize("name", LEAVING)
def test_a_fresh_program_is_the_compiled_one(name: str) -> None:
    guide = gr.compile(LEAVING[name], BYTES, cache=False, max_memory=1)
    compiled = gr.compile(LEAVING[name], BYTES, cache=False, max_memory=0)
    age(guide)
    nodes = guide.core.program.node_count()
    assert guide.core.root == guide.core.program.root == compiled.core.root
    assert nodes <= compiled.core.program.node_count() + 200  # only a matcher was made
    assert guide.dump() == compiled.dump()
    assert guide.core.program.symbols() == compiled.core.program.symbols()
    for seed in range(20, 24):
        assert walk(guide.matcher(), random.Random(seed), 60) == walk(compiled.matcher(), random.Random(seed), 60)


def test_states_of_a_matcher_just_made_are_those_of_its_guide() -> None:
    guide = gr.compile(KEYED, BYTES, cache=False, max_memory=1)
    age(guide)
    matcher = guide.matcher()
    assert matcher.accept_string('{"a": 1, "b')
    assert guide.dump(matcher.state) == matcher.dump()
    assert matcher.program is guide.core.program
    row = np.zeros((1, (BYTES.size + 31) // 32), np.int32)
    guide.core.fill_state(matcher.state, row, 0)
    assert row.tobytes() == gr_bitmask(matcher).tobytes()
    assert guide.example_continuations(matcher.state) == guide.example_continuations(
        matcher.state, program=matcher.program
    )
    assert matcher.dump() != guide.matcher().dump()


def gr_bitmask(matcher: gr.Matcher) -> np.ndarray:
    bitmask = gr.allocate_token_bitmask(1, BYTES.size)
    matcher.fill_next_token_bitmask(bitmask)
    return np.asarray(bitmask)


def test_what_running_texts_hold_is_counted_until_they_end() -> None:
    guide = gr.compile(KEYED, BYTES, cache=False, max_memory=MIB)
    running = guide.matcher()
    age(guide)
    both = guide.memory_size_bytes()
    fork = running.fork()
    del running
    assert guide.memory_size_bytes() == both > MIB
    del fork  # the last
    assert guide.memory_size_bytes() < both - 0.9 * MIB


def test_half_of_the_expressions_are_a_limit_too() -> None:
    guide = gr.compile(KEYED, BYTES, cache=False, max_nodes=3000)
    rng = random.Random(3)
    for _ in range(300):
        assert guide.matcher().accept_string(random_object(rng))
    full = gr.compile(KEYED, BYTES, cache=False, max_nodes=3000, max_memory=0)
    with pytest.raises(gr.LimitError) as caught:
        for _ in range(300):
            full.matcher().accept_string(random_object(rng))
    assert caught.value.code == "nodes"


def test_a_constraint_larger_than_the_limit_is_not_renewed_for_every_text() -> None:
    guide = gr.compile(gr.choice([f"{i} of {i * 7}" for i in range(5000)]), BYTES, cache=False, max_memory=1000)
    first = guide.core.program
    for i in range(50):
        assert guide.matcher().accept_string(f"{i} of {i * 7}")
    assert guide.memory_size_bytes() > 100_000 and guide.core.program is first


@pytest.mark.parametrize("limit", [{"max_memory": -1}, {"max_memory": True}, {"prepare": True}])
def test_limits_that_are_refused(limit: dict[str, int]) -> None:
    with pytest.raises(gr.CompileError) as caught:
        gr.compile(KEYED, BYTES, **limit)
    assert caught.value.code == "bad-bound"


def test_the_limit_is_pickled() -> None:
    guide = gr.compile(KEYED, BYTES, max_memory=12345)
    assert pickle.loads(pickle.dumps(guide))._options.max_memory == 12345
    assert gr.compile(KEYED, BYTES, max_memory=12345) is guide is not gr.compile(KEYED, BYTES, max_memory=12346)


def test_threads_that_make_matchers_while_the_guide_is_renewed() -> None:
    expected = []
    alone = gr.compile(KEYED, BYTES, cache=False, max_memory=0)
    for seed in range(24):
        expected.append(walk(alone.matcher(), random.Random(seed), 80))
    guide = gr.compile(KEYED, BYTES, cache=False, max_memory=1)
    before = guide.memory_size_bytes()
    barrier = threading.Barrier(8)

    def work(thread: int) -> list[tuple[int, list[tuple[bytes, int]]]]:
        rng = random.Random(thread)
        barrier.wait()
        found = []
        held = guide.matcher()  # in the middle of a text while others renew
        assert held.accept_string('{"held": 1')
        for _ in range(60):
            seed = rng.randrange(24)
            matcher = held if rng.random() < 0.3 else guide.matcher()
            if matcher is held:
                matcher.reset()
            elif rng.random() < 0.5:
                matcher = matcher.fork()
            found.append((seed, walk(matcher, random.Random(seed), 80)))
        return found

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(work, range(8)))
    for found in results:
        for seed, seen in found:
            assert seen == expected[seed]
    del results
    guide.matcher()
    assert guide.memory_size_bytes() < 10 * before  # the old programs are gone


@pytest.fixture
def empty_cache() -> Iterator[None]:
    gr.clear_cache()
    yield
    gr.clear_cache()


@pytest.mark.usefixtures("empty_cache")
def test_cached_guides_are_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guide_module, "_CACHED_BYTES", 2 * MIB)

    def constraint(i: int) -> gr.Constraint:
        return gr.regex(f"{i}(?:[a-z]{{3}}[0-9]){{0,99}}")

    kept = [gr.compile(constraint(i), BYTES) for i in range(128)]
    sizes = [guide.memory_size_bytes() for guide in kept]
    assert sum(sizes) > 8 * MIB
    cached = [guide for guide in kept if any(guide is g for g in guide_module._cache.values())]
    assert 1 <= len(cached) < 60 and cached == kept[-len(cached) :]
    total = sum(guide.memory_size_bytes() for guide in cached)
    assert total <= 2 * MIB + 2 * MIB // guide_module._CHECK_ADDED + max(sizes)  # counted after so many new bytes
    assert gr.compile(constraint(127), BYTES) is kept[127]
    assert gr.compile(constraint(0), BYTES) is not kept[0]


@pytest.mark.usefixtures("empty_cache")
def test_guides_that_grow_after_they_were_cached_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    small = gr.compile(gr.regex("[ab]"), BYTES)
    large = gr.compile(KEYED, BYTES, max_memory=0)
    rng = random.Random(5)
    for _ in range(100):
        assert large.matcher().accept_string(random_object(rng))
    monkeypatch.setattr(guide_module, "_CACHED_BYTES", large.memory_size_bytes() - 1)
    for _ in range(guide_module._CHECK_AFTER):  # hits only
        assert gr.compile(KEYED, BYTES, max_memory=0) is large
    assert gr.compile(gr.regex("[ab]"), BYTES) is not small  # the least recently used one was dropped
    for _ in range(guide_module._CHECK_AFTER):
        gr.compile(gr.regex("[ab]"), BYTES)
    assert gr.compile(KEYED, BYTES, max_memory=0) is not large  # the other one was used last


@pytest.mark.parametrize("schema, start, member", [({}, "{", '"%d":1,'), ({"uniqueItems": True}, "[", '"%d",')])
def test_memory_grows_with_the_text(schema: dict[str, object], start: str, member: str) -> None:
    """Each key and distinct item is kept once, not once for each state that knows it."""
    added = []
    for count in (500, 2_000):
        guide = gr.compile(gr.json_schema(schema), BYTES, cache=False, prepare=0)
        before = guide.memory_size_bytes()
        assert guide.matcher().accept_string(start + "".join(member % i for i in range(count)))
        added.append(guide.memory_size_bytes() - before)
    assert added[1] < 8 * added[0], added  # 16 times if it grew with the square
