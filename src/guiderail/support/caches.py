"""A cache of the most recently used results, bounded by their total weight.

User input (a schema, a pattern) decides how large an entry is, so limiting the number of entries bounds nothing.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import update_wrapper
from typing import Any, Generic, ParamSpec, TypeVar

from guiderail.support.locks import free_after_fork
from guiderail.support.work import compilation, spend, spent

__all__ = ["BoundedCache", "Cached", "cached", "cached_bytes", "clear_caches", "text_weight"]

P = ParamSpec("P")
R = TypeVar("R")
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_STEP = 10  # bytes that one step of work leaves in a cache, on average
_ENTRY = 500  # approximate bytes of an entry, its key and its place in the order
_all: list[BoundedCache[Any, Any]] = []


class BoundedCache(Generic[K, V]):
    """Values by key; the least recently used are dropped. Safe to use from many threads at once."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.bytes = 0
        self._entries: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._lock = free_after_fork(threading.Lock())
        _all.append(self)

    def get(self, key: K) -> V | None:
        with self._lock:
            known = self._entries.get(key)
            if known is None:
                return None
            self._entries.move_to_end(key)
            return known[0]

    def put(self, key: K, value: V, weight: int) -> V:
        """Stores a value with a weight in bytes, unless it is heavier than the whole cache may be.

        Returns:
            The cached value of the key: another thread may have been faster.
        """
        weight += _ENTRY
        dropped = []  # freed without the lock
        with self._lock:
            known = self._entries.get(key)
            if known is not None:
                return known[0]
            if weight <= self.most_bytes:
                self._entries[key] = value, weight
                self.bytes += weight
            while self.bytes > self.most_bytes:
                old = self._entries.popitem(last=False)
                self.bytes -= old[1][1]
                dropped.append(old)
        return value

    def clear(self) -> None:
        with self._lock:
            dropped, self._entries, self.bytes = self._entries, OrderedDict(), 0
        del dropped

    def __len__(self) -> int:
        return len(self._entries)


class _Made:
    """A result with its price: the steps that it took itself, and the cached results that it needed."""

    __slots__ = ("elsewhere", "key", "needed", "steps", "value")

    def __init__(self, key: Hashable) -> None:
        self.key = key
        self.value: Any = None
        self.steps = 0
        self.elsewhere = 0  # counted for `needed` while this was made
        self.needed: list[_Made] = []

    def make(self, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        before = spent()
        outer, compilation.making = compilation.making, self
        try:
            self.value = function(*args)
        except BaseException:
            if outer is not None:  # it will be made again, so what it needed counts for what needs it
                outer.needed += self.needed
                outer.elsewhere += self.elsewhere
            raise
        finally:
            compilation.making = outer
        self.steps = spent() - before - self.elsewhere

    def pay(self, results: dict[Hashable, Any]) -> None:
        """Counts the steps of this and of what it needed, unless the compilation has counted them."""
        stack = [self]
        while stack:
            made = stack.pop()
            if made.key not in results:
                results[made.key] = made
                spend(made.steps)
                stack += made.needed


class Cached(Generic[P, R]):
    """A function with a cache of its results.

    Attributes:
        cache: the results with their prices, by the arguments.
    """

    def __init__(self, function: Callable[P, R], most_bytes: int, weigh: Callable[..., int] | None) -> None:
        self.cache: BoundedCache[tuple[Any, ...], _Made] = BoundedCache(most_bytes)
        self._function = function
        self._weigh = weigh
        update_wrapper(self, function)

    def __call__(self, *args: P.args, **named: P.kwargs) -> R:
        assert not named
        results = compilation.results
        if results is None:
            compilation.results = {}
            try:
                return self(*args, **named)
            finally:
                compilation.results = None
        key = self, args
        made: _Made | None = results.get(key)
        outer: _Made | None = compilation.making
        if made is None:
            before = spent()
            made = self._find(key, results)
            if outer is not None:
                outer.elsewhere += spent() - before
        if outer is not None:
            outer.needed.append(made)
        value: R = made.value
        return value

    def _find(self, key: tuple[Cached[P, R], tuple[Any, ...]], results: dict[Hashable, Any]) -> _Made:
        """Pays for a result that the compilation has not asked for before, and makes it if it is not cached."""
        args = key[1]
        made = self.cache.get(args)
        if made is not None:
            made.pay(results)
            return made
        made = _Made(key)
        made.make(self._function, args)
        weight = _STEP * made.steps if self._weigh is None else self._weigh(made.value, *args)
        made = results[key] = self.cache.put(args, made, weight)
        return made


def cached(most_bytes: int, weigh: Callable[..., int] | None = None) -> Callable[[Callable[P, R]], Cached[P, R]]:
    """Caches the results of a function by its arguments, which are positional and hashable.

    A result costs each compilation the steps that making it took, once, whether it was cached or not: so the same
    request costs the same, whatever others requested before. A compilation keeps what it has paid for until it ends.

    Args:
        most_bytes: maximum total weight.
        weigh: returns the weight of an entry in bytes, from the result and the arguments. None: what takes much work to
            make is heavy.
    """
    return lambda function: Cached(function, most_bytes, weigh)


def text_weight(_: Any, text: str, *rest: Any) -> int:
    """The approximate size of a pattern's tree."""
    return 200 * len(text)


def cached_bytes() -> int:
    """The total weight of all caches."""
    return sum(one.bytes for one in _all)


def clear_caches() -> None:
    """Clears all caches."""
    for one in _all:
        one.clear()
