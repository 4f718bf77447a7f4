"""Walks over constraints made of constraints, each object once.

One object may be a part twice on each of forty levels: 2^40 paths lead to the last of them. So a walk keeps what it has
found for each object while its outermost call runs. It suffices that constraints with several parts do so.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from functools import wraps
from operator import methodcaller
from typing import Any, TypeVar

from guiderail import _core
from guiderail.errors import LimitError

__all__ = ["RECURRING", "each", "lowered", "walk"]

_Part = TypeVar("_Part")
_Found = TypeVar("_Found")


class _Here(threading.local):
    """The walk of this thread: what it is for, and what it has found, by the identity of objects that it keeps."""

    to: object = None
    known: dict[int, tuple[object, Any]] = {}  # noqa: RUF012 (of no walk: nobody writes to it)


_here = _Here()


class walk:
    """Inside, :func:`each` shares what it finds for ``to``. ``None``: what is known outside does not apply inside.

    Entering a walk again keeps what it has found.
    """

    __slots__ = ("_before", "_known", "_to")

    def __init__(self, to: object) -> None:
        self._to = to
        self._known: dict[int, tuple[object, Any]] = {}

    def __enter__(self) -> None:
        self._before = _here.to, _here.known
        if _here.to is not self._to:
            _here.to, _here.known = self._to, self._known

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


class _Written(threading.local):
    """What this thread's outermost ``repr`` has written."""

    level = 0
    parts = 0
    characters = 0


_written = _Written()
_MOST_PARTS = 1_000
_MOST_CHARACTERS = 100_000


def _written_in_part(function: Callable[[Any], str]) -> Callable[[Any], str]:
    """Leaves out what comes after many parts or characters, and turns RecursionError into LimitError."""

    @wraps(function)
    def call(self: Any) -> str:
        if _written.level == 0:
            _written.parts = _written.characters = 0
        begun = _written.characters
        _written.parts += 1
        if _written.parts > _MOST_PARTS or begun > _MOST_CHARACTERS:
            return "…"
        _written.level += 1
        try:
            text = function(self)
        except RecursionError:
            raise _too_deep() from None
        finally:
            _written.level -= 1
        _written.characters = begun + len(text)
        return text

    return call


def _placing(function: Callable[[Any, _core.Builder], int]) -> Callable[[Any, _core.Builder], int]:
    """Gives a limit error its place in what the user wrote, or notes the innermost constraint that it came from."""

    @wraps(function)
    def call(self: Any, b: _core.Builder) -> int:
        try:
            return function(self, b)
        except LimitError as error:
            placed: LimitError = self._placed(error)
            if placed is not error:
                raise placed from None
            if not hasattr(error, "part"):
                error.part = self
            raise

    return call


def _too_deep() -> LimitError:
    return LimitError("the constraint is nested too deeply; flatten it", code="depth")


def _hashed_once(function: Callable[[Any], int]) -> Callable[[Any], int]:
    """Keeps the hash, which takes time for each path to each part."""

    @wraps(function)
    def call(self: Any) -> int:
        try:
            kept: int = self._kept_hash
            return kept
        except AttributeError:
            pass
        try:
            found = function(self)
        except RecursionError:
            raise _too_deep() from None
        object.__setattr__(self, "_kept_hash", found)
        return found

    return call


class _Equal(threading.local):
    """The pairs that were found to be equal while a comparison runs, by their identities."""

    pairs: dict[tuple[int, int], tuple[object, object]] | None = None


_equal = _Equal()


def _compared_once(function: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    """Compares each pair of parts only once, however many paths lead to it."""

    @wraps(function)
    def call(self: Any, other: object) -> bool:
        if self is other:
            return True
        outermost = _equal.pairs is None
        pairs = _equal.pairs = {} if _equal.pairs is None else _equal.pairs
        if (id(self), id(other)) in pairs:
            return True
        try:
            found = function(self, other)
        except RecursionError:
            raise _too_deep() from None
        finally:
            if outermost:
                _equal.pairs = None
        if found is True:
            pairs[id(self), id(other)] = self, other
        return found

    return call


RECURRING: dict[str, Callable[..., Any]] = {
    "__repr__": _written_in_part,
    "__hash__": _hashed_once,
    "__eq__": _compared_once,
    "_lower": _placing,
}
"""What recurs into the parts of a constraint, and how each such method is wrapped."""
