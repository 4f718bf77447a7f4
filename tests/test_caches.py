"""Caches are bounded in bytes, whatever users write."""

from __future__ import annotations

import threading

import pytest

import guiderail as gr
from guiderail.frontends.json_schema import constraint as json_constraint
from guiderail.support import caches
from guiderail.support.caches import BoundedCache, cached, clear_caches


def test_the_longest_unused_go_first() -> None:
    known: BoundedCache[str, int] = BoundedCache(5 * 1500)
    for i, name in enumerate("abcde"):
        assert known.put(name, i, 1000) == i
    assert known.get("a") == 0 and len(known) == 5
    known.put("f", 5, 1000)
    assert known.get("b") is None and known.get("a") == 0 and known.get("f") == 5
    assert known.put("a", 9, 1000) == 0  # the first one stays
    known.put("g", 6, 6 * 500)  # as large as several others
    assert known.bytes <= known.most_bytes and known.get("g") == 6
    before = len(known)
    known.put("h", 7, 10_000)  # larger than the whole cache: nothing is dropped for it
    assert known.get("h") is None and len(known) == before
    known.clear()
    assert len(known) == 0 and known.bytes == 0


def test_a_function_is_called_once_for_equal_arguments_and_again_after_an_error() -> None:
    calls = []

    @cached(10_000, lambda _, text, n: len(text))
    def made(text: str, n: int) -> str | None:
        """Makes a value."""
        calls.append((text, n))
        if n < 0:
            raise ValueError("negative")
        return None if n == 0 else text * n

    assert made("a", 2) == made("a", 2) == "aa" and made("a", 0) is made("a", 0) is None
    for _ in range(2):
        with pytest.raises(ValueError, match="negative"):
            made("a", -1)
    assert calls == [("a", 2), ("a", 0), ("a", -1), ("a", -1)] and made.__doc__ == "Makes a value."
    clear_caches()
    assert made("a", 2) == "aa" and len(calls) == 5


def test_many_threads() -> None:
    known: BoundedCache[int, int] = BoundedCache(40_000)

    def work(seed: int) -> None:
        for i in range(3000):
            key = (i * 7 + seed) % 97
            assert known.get(key) in (None, key)
            assert known.put(key, key, key) == key

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert known.bytes == sum(weight for _, weight in known._entries.values()) <= 40_000


def test_large_schemas_are_not_kept_by_number() -> None:
    json_constraint._checked.cache.clear()
    small = gr.json_schema({"type": "object", "title": "small"})
    for i in range(60):
        gr.json_schema({"type": "string", "description": f"{i}" * 400_000})
    assert json_constraint._checked.cache.bytes <= json_constraint._checked.cache.most_bytes
    assert gr.json_schema({"type": "object", "title": "small"}) == small
    json_constraint._checked.cache.clear()


def test_clear_cache_clears_them() -> None:
    gr.json_schema({"type": "object", "title": "cached"})
    assert len(json_constraint._checked.cache) > 0
    gr.clear_cache()
    assert len(json_constraint._checked.cache) == 0


def test_terminals_of_lark_are_kept_by_their_length() -> None:
    from guiderail.frontends.grammar.lark import lexemes

    gr.clear_cache()
    names = [f"A{i}" for i in range(20)]
    terminals = "".join(f"{name}: /(x{i}|y){{2}}{'z' * 3000}/\n" for i, name in enumerate(names))
    gr.grammar(f"start: {' | '.join(names)}\n{terminals}", "lark").matches("yy")
    weights = [one for one in caches._all if one.bytes]
    assert weights and all(one.bytes <= one.most_bytes for one in caches._all)
    assert not hasattr(lexemes._first_match, "cache_info")
    gr.clear_cache()
    assert caches.cached_bytes() == 0
