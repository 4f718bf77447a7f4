"""Small constructors for expressions of grammars, and walks over them without Python recursion."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

from guiderail.frontends.grammar.syntax import (
    Choice,
    Expression,
    Leaves,
    Name,
    Repetition,
    Sequence,
    Text,
)
from guiderail.support.work import spend

__all__ = [
    "EMPTY",
    "NESTED",
    "NEVER",
    "TRAP",
    "Fold",
    "children",
    "choice",
    "leaves",
    "names",
    "repetition",
    "replacing",
    "sequence",
]

EMPTY = Text("")
"""The empty text."""

NEVER = Choice(())
"""No text at all."""

TRAP = Name("\0never")
"""For grammars with a lexer: stands after terminals that compete for lexemes, but that nothing can follow."""

NESTED = 100
"""Nesting of parts up to which Python recursion walks them; an explicit stack walks deeper ones."""

_SHORT = 64
"""A choice with fewer alternatives is merged into the choice around it."""

_INNER = frozenset((Sequence, Choice, Repetition))

_NO_NAMES: frozenset[str] = frozenset()

T = TypeVar("T")


def sequence(parts: Iterable[Expression]) -> Expression:
    """The parts in sequence, without empty strings; a single part needs no node."""
    kept = []
    for part in parts:
        if isinstance(part, Choice) and not part.parts:
            return NEVER
        if not (isinstance(part, Text) and not part.text):
            kept.append(part)
    return kept[0] if len(kept) == 1 else Sequence(tuple(kept)) if kept else EMPTY


def choice(parts: Iterable[Expression]) -> Expression:
    """One of the parts; nested choices become one while they are short, and a part is the same object only once."""
    flat: dict[int, Expression] = {}
    for part in parts:
        short = isinstance(part, Choice) and len(part.parts) < _SHORT
        for one in children(part) if short else (part,):
            flat[id(one)] = one
    return next(iter(flat.values())) if len(flat) == 1 else Choice(tuple(flat.values())) if flat else NEVER


def repetition(item: Expression, least: int, most: int | None) -> Expression:
    """``item``, ``least`` to ``most`` times."""
    if most == 0:
        return EMPTY
    if isinstance(item, Choice) and not item.parts:
        return NEVER if least else EMPTY
    if (least, most) == (1, 1) or (isinstance(item, Text) and not item.text):
        return item
    return Repetition(item, least, most)


def children(e: Expression) -> tuple[Expression, ...]:
    """The operands of an expression."""
    if type(e) is Sequence or type(e) is Choice:
        return e.parts
    return (e.item,) if type(e) is Repetition else ()


def names(e: Expression) -> Iterator[Name]:
    """Every name in an expression, from the left, as often as it occurs; shared parts are read once."""
    stack: list[Expression] = [e]
    seen: set[int] = set()
    while stack:
        here = stack.pop()
        kind = type(here)
        if kind is Name:
            yield here  # type: ignore[misc]
        elif kind in _INNER and id(here) not in seen:
            seen.add(id(here))
            stack.extend(children(here)[::-1])


def leaves(e: Expression) -> Leaves:
    """The names in an expression, and whether all else in it is text that comes as it is written.

    Not so if a choice has no alternatives, or a repetition stands for the empty text.
    """
    root: Any = e
    kind = type(root)
    if kind is Name:
        return frozenset((root.name,)), True
    if kind not in _INNER:
        return _NO_NAMES, kind is Text
    kept: Leaves | None = root.leaves
    if kept is not None:
        return kept
    found: set[str] = set()
    plain = True
    stack: list[Any] = [root]
    seen: set[int] = set()
    parts = 0
    while stack:
        here = stack.pop()
        parts += 1
        kind = type(here)
        if kind is Name:
            found.add(here.name)
        elif kind is Repetition:
            plain = plain and here.max != 0
            stack.append(here.item)
        elif kind is Sequence or kind is Choice:
            if id(here) not in seen:
                seen.add(id(here))
                plain = plain and (kind is Sequence or bool(here.parts))
                stack += here.parts
        elif kind is not Text:
            plain = False
    spend(2 * parts)
    result = frozenset(found), plain
    object.__setattr__(root, "leaves", result)
    return result


class Fold(Generic[T]):
    """Computes a value for every part of an expression from the values of its operands, once for each part.

    Values are kept by identity, so a fold keeps alive what it has seen.
    """

    def __init__(self, combine: Callable[[Expression, list[T]], T]) -> None:
        self.combine = combine
        self.known: dict[int, tuple[Expression, T]] = {}

    def __call__(self, e: Expression, depth: int = 0) -> T:
        found = self.known.get(id(e))
        if found is not None:
            return found[1]
        inner: Any = e
        kind = type(e)
        values: list[T] = []
        if kind in _INNER:
            if depth > NESTED:
                return self._deep(e)
            if kind is Repetition:
                values.append(self(inner.item, depth + 1))
            else:
                for part in inner.parts:
                    known = self.known.get(id(part))
                    values.append(self(part, depth + 1) if known is None else known[1])
        spend(10 + len(values))
        value = self.combine(e, values)
        self.known[id(e)] = e, value
        return value

    def _deep(self, root: Expression) -> T:
        """The same, without recursion."""
        known, combine = self.known, self.combine
        stack = [root]
        while stack:
            e = stack[-1]
            if id(e) in known:
                stack.pop()
                continue
            kids = children(e)
            missing = [kid for kid in kids if id(kid) not in known]
            if missing:
                missing.reverse()
                stack += missing
                continue
            spend(10 + len(kids))
            known[id(e)] = e, combine(e, [known[id(kid)][1] for kid in kids])
            stack.pop()
        return known[id(root)][1]


def replacing(change: Callable[[Expression], Expression]) -> Fold[Expression]:
    """A fold that changes the leaves of expressions, and nothing else.

    Args:
        change: returns what takes the place of a part without operands; may be the part itself.
    """

    def step(e: Expression, kids: list[Expression]) -> Expression:
        if isinstance(e, Sequence | Choice):
            return type(e)(tuple(kids))
        return Repetition(kids[0], e.min, e.max) if isinstance(e, Repetition) else change(e)

    return Fold(step)
