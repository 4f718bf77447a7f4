"""Turns nesting that is too deep for the interpreter into guiderail's own error.

Parsers of texts keep their own stacks. Code that walks Python values (schemas, types, constraints made of constraints)
recurses, as deep as the interpreter's stack allows at that point. Each public entry to such a walk is wrapped in
:func:`nested`. State that outlives the call must not depend on the walk having ended.

A Python value may also contain itself, or contain one list twice on each of forty levels: written out, it is infinite,
or has 2^40 parts. :func:`too_large` finds this in advance.
"""

from __future__ import annotations

import sys
from typing import Any

from guiderail import _core
from guiderail.errors import LimitError
from guiderail.support.numerals import is_digit_limit

__all__ = ["is_plain_json", "nested", "too_large", "too_many_digits"]

MOST_PARTS = 1_000_000
"""Maximum number of lists, objects and scalars of a value; shared ones count each time."""


class nested:
    """Turns the interpreter's RecursionError, and its ValueError for an integer of too many digits, into a LimitError.

    Args:
        what: what is being read, for the message: ``"the tag"``.

    Raises:
        LimitError: ``depth``, ``number-size``.
    """

    __slots__ = ("_what",)

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        if kind is not None and issubclass(kind, RecursionError):
            raise LimitError(f"{self._what} is nested too deeply; flatten it", code="depth") from None
        if is_digit_limit(error):
            raise too_many_digits(self._what) from None


def too_many_digits(what: str) -> LimitError:
    """The error for an integer that Python does not convert between digits and a number."""
    return LimitError(
        f"{what} has an integer of more digits than Python converts "
        f"({sys.get_int_max_str_digits():,}); use a smaller one",
        code="number-size",
    )


def is_plain_json(value: Any) -> bool:
    """Whether a value has only types that ``json.loads`` returns, and is not too large, counting shared parts each
    time.

    False is not conclusive: ask ``too_large``.
    """
    return _core.is_plain_json(value, MOST_PARTS)


def too_large(value: Any) -> str | None:
    """Why a value of dicts and lists cannot be written out, as the end of a sentence; None if it can."""
    size = _written_out(value)
    if size is None:
        return "contains itself"
    return f"has more than {MOST_PARTS:,} parts" if size > MOST_PARTS else None


def _written_out(value: Any) -> int | None:
    """The number of parts of a value of dicts and lists when written out; None: it contains itself, and is infinite.

    Counting stops at ``MOST_PARTS``.
    """
    parts = _core.unshared_parts(value, MOST_PARTS)
    return _shared(value) if parts < 0 else parts


def _shared(value: Any) -> int | None:
    """Like `_written_out`, for shared parts: sizes by identity, in post-order."""
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
