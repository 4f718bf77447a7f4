"""Guides and their vocabulary report exactly the growth of the core's heap and pages."""

from __future__ import annotations

import ctypes
import functools
import gc
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import guiderail as gr
from core_support import plain, words
from guiderail import _core
from guiderail.support import caches

SCHEMAS = sorted((Path(__file__).parent / "data" / "schemas").glob("*.json"))
GRAMMAR = 'start: (NAME "=" NUMBER ";")+\nNAME: /[a-z]+/\nNUMBER: /[0-9]+/\nWS: /[ \\n]+/\n%ignore WS'

MALLINFO2 = ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")


class MallInfo(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in MALLINFO2]


def native_bytes() -> int:
    libc = ctypes.CDLL(None)
    libc.mallinfo2.restype = MallInfo
    pages = _core.pages_in_use()  # waits until discarded guides are freed
    info = libc.mallinfo2()
    return int(info.uordblks + info.hblkhd) + pages


@pytest.fixture(scope="module")
def vocabulary() -> gr.Vocabulary:
    rng = random.Random(7)
    texts = {bytes([b]) for b in range(256)}
    source = "".join(path.read_text() for path in SCHEMAS).encode()
    while len(texts) < 6000:
        at = rng.randrange(len(source))
        texts.add(source[at : at + rng.randint(2, 9)])
    return plain(sorted(texts))


def write_texts(guide: gr.Guide, count: int, rng: np.random.Generator) -> None:
    bitmask = np.zeros((1, words(guide.vocabulary.size)), dtype=np.int32)
    for _ in range(count):
        matcher = guide.matcher()
        for _ in range(30):
            matcher.fill_next_token_bitmask(bitmask)
            allowed = np.flatnonzero(np.unpackbits(bitmask.view(np.uint8), bitorder="little"))
            if not len(allowed) or not matcher.accept_token(int(rng.choice(allowed))) or matcher.is_terminated():
                break


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="the heap is asked through glibc")
def test_what_is_reported_is_what_was_taken(vocabulary: gr.Vocabulary) -> None:
    rng = np.random.default_rng(3)
    schemas = [json.loads(path.read_text()) for path in SCHEMAS]
    constraints = [gr.json_schema(schema) for schema in schemas]
    constraints += [gr.json_schema(schema, property_order="declared") for schema in schemas]
    constraints += [gr.grammar(GRAMMAR, "lark"), gr.regex(r"(?=.*1)(?!.*zz)(?:[a-z]{1,4}[0-9 ]{2,9}){3,40}")]
    warm = [gr.compile(c, vocabulary, cache=False) for c in constraints]  # warms Python's own caches
    for guide in warm:
        write_texts(guide, 2, rng)
    del warm, guide
    gc.collect()
    reported, taken = vocabulary.core.memory_size_bytes(), native_bytes()
    guides = [gr.compile(c, vocabulary, cache=False) for c in constraints]
    for guide in guides:
        write_texts(guide, 10, rng)
    gc.collect()
    grown = native_bytes() - taken
    told = sum(g.memory_size_bytes() for g in guides) + vocabulary.core.memory_size_bytes() - reported
    assert grown > 5 << 20
    assert 0.9 * grown < told < 1.1 * grown, (told, grown)
    parts = [sum(g.core.program.memory_parts().values()) for g in guides]
    for guide, sum_of_parts in zip(guides, parts, strict=True):  # counted anew when nobody works with the guide
        assert sum_of_parts <= guide.memory_size_bytes() < sum_of_parts + 20_000
    del guides, guide
    gc.collect()
    left = native_bytes() - taken
    kept = vocabulary.core.memory_size_bytes() - reported
    assert left < kept + 0.1 * grown, (left, kept)


def test_masks_that_guides_share_are_counted_once(vocabulary: gr.Vocabulary) -> None:
    vocabulary.core.clear_cache()
    constraint = gr.json_schema(json.loads(SCHEMAS[0].read_text()))
    first = gr.compile(constraint, vocabulary, cache=False)
    write_texts(first, 5, np.random.default_rng(5))
    before = vocabulary.core.memory_size_bytes()
    second = gr.compile(constraint, vocabulary, cache=False)
    write_texts(second, 5, np.random.default_rng(5))
    assert vocabulary.core.memory_size_bytes() - before < 20_000
    vocabulary.core.clear_cache()  # the guides still own them
    held = vocabulary.core.memory_size_bytes()
    del first, second
    assert vocabulary.core.memory_size_bytes() <= held


def alone(test: Callable[..., None]) -> Callable[..., None]:
    """Runs a test in its own process, so that it does not measure the memory of other tests."""

    @functools.wraps(test)
    def call(*args: object, **kwargs: object) -> None:
        if os.environ.get("GUIDERAIL_ALONE"):
            return test(*args, **kwargs)
        run = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"{__file__}::{test.__name__}"],
            env={**os.environ, "GUIDERAIL_ALONE": "1"},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert run.returncode == 0, run.stdout[-3000:]

    return call


@alone
def test_the_heap_is_given_back(vocabulary: gr.Vocabulary) -> None:
    if not Path("/proc/self/statm").exists():
        pytest.skip("the resident memory is asked through /proc")

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

    schema = json.loads(SCHEMAS[1].read_text())
    gc.collect()
    _core.trim_heap()
    before = resident()
    guides = [gr.compile(gr.json_schema(schema), vocabulary, cache=False, prepare=0) for _ in range(300)]
    grown = resident() - before
    assert grown > 30 << 20
    del guides
    gc.collect()
    _core.trim_heap()
    assert resident() - before < grown // 4


@alone
def test_the_process_says_what_it_keeps(vocabulary: gr.Vocabulary) -> None:
    gr.clear_cache()
    gc.collect()
    empty = gr.memory_use()
    assert empty.cached_guides == empty.parsed == 0
    schema = {"type": "object", "properties": {"a": {"pattern": "[\\u0800-\\uabcd&&]{3}x"}, "b": {"multipleOf": 0.37}}}
    guide = gr.compile(gr.json_schema(schema), vocabulary)
    used = gr.memory_use()
    assert used.cached_guides == guide.memory_size_bytes() and used.parsed > 0
    assert used.character_sets > empty.character_sets
    if used.native:
        assert used.native > used.cached_guides + vocabulary.core.memory_size_bytes()
    del guide
    gr.clear_cache()
    gc.collect()
    cleared = gr.memory_use()
    assert cleared.cached_guides == cleared.parsed == 0
    assert cleared.character_sets < used.character_sets


def test_sets_of_characters_are_counted_as_long_as_they_live() -> None:
    before = gr.memory_use().character_sets
    sets = [_core.CharSet([(0x1000 + 7 * i, 0x1003 + 9 * i) for i in range(n)]) for n in range(1, 200)]
    held = gr.memory_use().character_sets - before
    assert held > 199 * 400
    for chars in sets:
        _core.Builder().char_class(chars)
    del sets, chars
    gc.collect()
    assert gr.memory_use().character_sets <= before


def test_numbers_that_were_read_are_kept_within_a_bound() -> None:
    gr.clear_cache()
    for i in range(100):
        gr.json_schema({"type": "number", "multipleOf": i + 3, "minimum": i}).matches("1")
    assert 0 < gr.memory_use().parsed <= 48 << 20
    assert sum(one.most_bytes for one in caches._all if one.bytes) <= 232 << 20  # as `MemoryUse` says
    gr.clear_cache()
    assert gr.memory_use().parsed == 0
