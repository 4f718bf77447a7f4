"""How large types are, written out: ``tuple[t, t]`` holds ``t`` twice, so forty levels of it have 2^40 parts.

Python hashes, compares and writes a type part by part, however often a part occurs. So a type is measured before
anything else is done with it, by the identities of its parts.
"""

from __future__ import annotations

import typing
from collections.abc import Sequence
from typing import Any

from guiderail.errors import LimitError
from guiderail.frontends.python_types.errors import unsupported
from guiderail.support.work import MAX_WORK, spend

__all__ = ["Sizes", "TooLarge", "leaves"]

_PART = 400  # steps: a part is walked, becomes a schema, and is read as one
_MOST = MAX_WORK // _PART


class TooLarge(LimitError):
    """A type has too many parts to be written out, even in a message."""


class Sizes:
    """The sizes of types that share parts."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, int]] = {}  # with the type, so that its identity remains its own

    def pay(self, kind: Any) -> None:
        """Counts the work of one part, and checks that the whole type is not too large to be walked.

        Raises:
            TooLarge: ``work``: it is.
            CompileError: it contains itself.
        """
        if self._parts(kind) > _MOST:
            raise TooLarge(
                f"the type has more than {_MOST:,} parts, written out; give a name to what it repeats (a class or a "
                "TypeAliasType)",
                code="work",
            )
        spend(_PART)

    def _parts(self, kind: Any) -> int:
        stack = [kind]
        begun: set[int] = set()
        while stack:
            one = stack[-1]
            inside = () if id(one) in self._known else _inside(one)
            missing = [part for part in inside if id(part) not in self._known]
            if missing:
                begun.add(id(one))
                if not begun.isdisjoint(map(id, missing)):
                    raise unsupported(
                        "the type",
                        "a list in it contains itself; give a name to what recurs (a class or a TypeAliasType)",
                    )
                stack += missing
                continue
            stack.pop()
            if id(one) not in self._known:
                self._known[id(one)] = one, min(1 + sum(self._known[id(part)][1] for part in inside), 2 * _MOST)
        return self._known[id(kind)][1]


def leaves(kind: Any) -> tuple[tuple[type, Any], ...]:
    """What a type is made of, in order. ``A | B == B | A`` for Python, but values are read by the first that fits."""
    found, stack = [], [kind]
    while stack:
        one = stack.pop()
        inside = _inside(one)
        if inside:
            stack += reversed(inside)
        else:
            found.append((type(one), one))
    return tuple(found)


def _inside(kind: Any) -> Sequence[Any]:
    """The arguments of a generic; the types in a list of them. Each call returns the same objects."""
    if isinstance(kind, list | tuple):
        return kind
    # bare generics of `typing`, such as List, have no arguments
    return () if typing.get_origin(kind) is None else getattr(kind, "__args__", ())
