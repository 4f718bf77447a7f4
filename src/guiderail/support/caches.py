"""A cache of the most recently used results, bounded by their total weight.

User input (a schema, a pattern) decides how large an entry is, so limiting the number of entries bounds nothing.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import update_wrapper
from typing import Any, Generic, ParamSpec, TypeVar

from guiderail.support.work import spend, spent

__all__ = ["BoundedCache", "cached", "cached_bytes", "clear_caches", "text_weight"]

P = ParamSpec("P")
R = TypeVar("R")
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_ENTRY = 500  # approximate bytes of an entry, its key and its place in the order
_all: list[BoundedCache[Any, Any]] = []


class BoundedCache(Generic[K, V]):
    """Values by key; the least recently used are dropped. Safe to use from many threads at once."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.bytes = 0
        self._entries: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._lock = threading.Lock()
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


def cached(most_bytes: int, weigh: Callable[..., int]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Caches the results of a function by its arguments, which are positional and hashable.

    A cached result costs as many steps of work as making it did, every time.

    Args:
        most_bytes: maximum total weight.
        weigh: returns the weight of an entry in bytes, from the arguments.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        known: BoundedCache[tuple[Any, ...], tuple[R, int]] = BoundedCache(most_bytes)

        def asked(*args: P.args, **named: P.kwargs) -> R:
            found = known.get(args)
            if found is None:
                before = spent()
                result = function(*args, **named)
                found = known.put(args, (result, spent() - before), weigh(*args))
            else:
                spend(found[1])
            return found[0]

        update_wrapper(asked, function)
        return asked

    return decorate


def text_weight(text: str, *_: Any) -> int:
    """The approximate size of a pattern's tree."""
    return 200 * len(text)


def cached_bytes() -> int:
    """The total weight of all caches."""
    return sum(one.bytes for one in _all)


def clear_caches() -> None:
    """Clears all caches."""
    for one in _all:
        one.clear()
