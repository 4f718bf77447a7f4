"""The persistent collections that ``referencing`` uses, in pure Python: they copy where rpds shares.

A schema's registry has a few dozen documents, so the cost of a copy is negligible.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

__all__ = ["HashTrieMap", "HashTrieSet", "List"]


class HashTrieMap(Mapping[Any, Any]):
    """An immutable mapping; each change makes a new one."""

    __slots__ = ("_items",)

    def __init__(self, value: Any = (), **named: Any) -> None:
        self._items: dict[Any, Any] = dict(value, **named)

    @classmethod
    def convert(cls, value: Any) -> HashTrieMap:
        return value if isinstance(value, HashTrieMap) else cls(value)

    @classmethod
    def fromkeys(cls, keys: Iterable[Any], value: Any = None) -> HashTrieMap:
        return cls(dict.fromkeys(keys, value))

    def __getitem__(self, key: Any) -> Any:
        return self._items[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        return hash(frozenset(self._items.items()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mapping) and self._items == dict(other)

    def __repr__(self) -> str:
        return f"HashTrieMap({self._items!r})"

    def insert(self, key: Any, value: Any) -> HashTrieMap:
        return HashTrieMap({**self._items, key: value})

    def update(self, *others: Any, **named: Any) -> HashTrieMap:
        items = dict(self._items)
        for other in others:
            items.update(other)
        items.update(named)
        return HashTrieMap(items)

    def remove(self, key: Any) -> HashTrieMap:
        items = dict(self._items)
        del items[key]
        return HashTrieMap(items)

    def discard(self, key: Any) -> HashTrieMap:
        return self.remove(key) if key in self._items else self


class HashTrieSet(frozenset[Any]):
    """An immutable set; each change makes a new one."""

    def insert(self, value: Any) -> HashTrieSet:
        return HashTrieSet(self | {value})

    def update(self, *others: Iterable[Any]) -> HashTrieSet:
        return HashTrieSet(self.union(*others))

    def remove(self, value: Any) -> HashTrieSet:
        if value not in self:
            raise KeyError(value)
        return HashTrieSet(self - {value})

    def discard(self, value: Any) -> HashTrieSet:
        return HashTrieSet(self - {value})


class List(tuple[Any, ...]):
    """An immutable list that grows at its front; each change makes a new one."""

    def __new__(cls, *values: Any) -> List:
        given = values[0] if len(values) == 1 and not isinstance(values[0], str) else values
        return super().__new__(cls, given)

    @property
    def first(self) -> Any:
        return self[0]

    @property
    def rest(self) -> List:
        return List(self[1:])

    def push_front(self, value: Any) -> List:
        return List((value, *self))

    def drop_first(self) -> List:
        return List(self[1:])
