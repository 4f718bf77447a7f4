"""What is nested deeper than the interpreter can follow is refused with an error of our own.

Readers of texts keep their own stacks. What walks values of Python (schemas, types, constraints made of constraints)
recurses, as deep as the interpreter's stack allows at the place of the call. Each public entry to such a walk stands
under :func:`nested`; state that lives longer than the call must not depend on the walk having ended.

A value of Python may also hold itself, or hold one list twice on each of forty levels: written out, it has no end, or
2^40 parts. :func:`too_large` tells before anybody writes it out.
"""

from __future__ import annotations

from typing import Any

from guiderail import _core
from guiderail.errors import LimitError

__all__ = ["is_plain_json", "nested", "too_large"]

MOST_PARTS = 1_000_000
"""Lists, objects and scalars of a value that are read at most, those that are shared counted each time."""


class nested:
    """Turns the interpreter's RecursionError into a LimitError.

    Args:
        what: the thing that is read, for the message: ``"the tag"``.

    Raises:
        LimitError: ``depth``.
    """

    __slots__ = ("_what",)

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        if kind is not None and issubclass(kind, RecursionError):
            raise LimitError(f"{self._what} is nested too deeply; flatten it", code="depth") from None


def is_plain_json(value: Any) -> bool:
    """Whether a value holds only what JSON reads into, and is not too large, shared parts counted each time.

    False says nothing: ``too_large`` tells more.
    """
    return _core.is_plain_json(value, MOST_PARTS)


def too_large(value: Any) -> str | None:
    """What is wrong with a value of dicts and lists that nobody can write out, to follow its name; None: nothing."""
    size = _written_out(value)
    if size is None:
        return "contains itself"
    return f"has more than {MOST_PARTS:,} parts" if size > MOST_PARTS else None


def _written_out(value: Any) -> int | None:
    """How many parts a value of dicts and lists has where it is written out; None: it holds itself, and has no end.

    Beyond ``MOST_PARTS`` nobody counts on.
    """
    parts = _core.unshared_parts(value, MOST_PARTS)
    return _shared(value) if parts < 0 else parts


def _shared(value: Any) -> int | None:
    """As `_written_out`, where parts are shared: sizes by identity, in post-order."""
    sizes: dict[int, int | None] = {}  # None: its parts are being counted
    stack: list[tuple[Any, bool]] = [(value, False)]
    while stack:
        one, done = stack.pop()
        if not isinstance(one, dict | list | tuple):
            continue
        inside = list(one.values() if isinstance(one, dict) else one)
        if done:
            sizes[id(one)] = 1 + sum(sizes.get(id(part)) or 1 for part in inside)
        elif id(one) not in sizes:
            sizes[id(one)] = None
            stack.append((one, True))
            stack += [(part, False) for part in inside]
        elif sizes[id(one)] is None:
            return None
    return sizes[id(value)]
