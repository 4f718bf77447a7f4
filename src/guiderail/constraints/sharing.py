"""Walks over constraints made of constraints, each object once.

One object may be a part twice on each of forty levels: 2^40 paths lead to the last of them. So a walk keeps what it has
found for each object while its outermost call runs. It suffices that constraints with several parts do so.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from operator import methodcaller
from typing import Any, TypeVar

from guiderail import _core

__all__ = ["each", "lowered", "walk"]

_Part = TypeVar("_Part")
_Found = TypeVar("_Found")


class _Here(threading.local):
    """The walk of this thread: what it is for, and what it has found, by the identity of objects that it keeps."""

    to: object = None
    known: dict[int, tuple[object, Any]] = {}  # noqa: RUF012 (of no walk: nobody writes to it)


_here = _Here()


class walk:
    """Inside, :func:`each` shares what it finds for ``to``. ``None``: what is known outside does not apply inside."""

    __slots__ = ("_before", "_to")

    def __init__(self, to: object) -> None:
        self._to = to

    def __enter__(self) -> None:
        self._before = _here.to, _here.known
        if _here.to is not self._to:
            _here.to, _here.known = self._to, {}

    def __exit__(self, *_: object) -> None:
        _here.to, _here.known = self._before


def each(parts: Iterable[_Part], to: object, find: Callable[[_Part], _Found]) -> list[_Found]:
    """What ``find`` returns for each part, found once for each object in a walk for ``to``."""
    if _here.to is not to:
        with walk(to):
            return each(parts, to, find)
    known = _here.known
    out: list[_Found] = []
    for part in parts:
        found = known.get(id(part))
        if found is None:
            found = known[id(part)] = part, find(part)
        out.append(found[1])
    return out


def lowered(parts: Iterable[Any], b: _core.Builder) -> list[int]:
    """The expressions of constraints; each is lowered once, however many others it is a part of."""
    return each(parts, b, methodcaller("_lower", b))
