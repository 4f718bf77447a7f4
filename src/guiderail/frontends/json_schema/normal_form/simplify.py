"""Drops cells that another cell of a union covers, as far as this is quick to see."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from guiderail.frontends.json_schema.errors import Undecided
from guiderail.frontends.json_schema.normal_form.shape import FALSE, TRUE, ObjectCell, Shape, Term
from guiderail.frontends.json_schema.normal_form.terms import And, Not, Or
from guiderail.frontends.json_schema.values.numbers import Numbers
from guiderail.support.work import spend

__all__ = ["Cover", "quick_shape", "within"]

_COMBINED: Final = (And, Or, Not)
_NO_NAME: Final[tuple[str, Term]] = "", TRUE  # a condition that says nothing
_MOST: Final = 400  # cells among which covers are searched for, in quadratic time


class Cover:
    """Collects the cells of a union, none of which is obviously within another.

    Args:
        decided: whether one term lies within another, as far as this was decided on their shapes.
        cells: to begin with.
    """

    __slots__ = ("_apart", "_decided", "_wide", "cells")

    def __init__(self, decided: dict[tuple[Term, Term], bool], cells: Iterable[ObjectCell] = ()) -> None:
        self.cells: list[ObjectCell] = []
        self._decided = decided
        self._apart: set[tuple[Term, Term]] = set()  # the first is not known to lie within the second
        # Those that may cover another, each with the condition that the last cell failed: the next fails it, too.
        self._wide: list[tuple[ObjectCell, str, Term]] = []
        for cell in cells:
            self.add(cell)

    def add(self, cell: ObjectCell) -> None:
        cells, required = self.cells, cell.required
        is_wide = type(cell) is ObjectCell and not cell.obligations
        if len(cells) < _MOST:
            spend(10 * len(cells))
            named, rest, apart = cell.named, cell.rest, self._apart
            for i, (other, name, term) in enumerate(self._wide):
                if other.required <= required and (named.get(name, rest), term) not in apart:
                    failed = self._failed(other, cell)
                    if failed is None:
                        return
                    self._wide[i] = other, *failed
            if is_wide:
                self._drop(cell)
        self.cells.append(cell)
        if is_wide:
            self._wide.append((cell, *_NO_NAME))

    def _drop(self, cell: ObjectCell) -> None:
        """Drops the cells that a new one covers."""
        required, apart = cell.required, self._apart
        name, term = _NO_NAME
        dropped: set[int] = set()
        for other in self.cells:
            if required <= other.required and (other.named.get(name, other.rest), term) not in apart:
                failed = self._failed(cell, other)
                if failed is None:
                    dropped.add(id(other))
                else:
                    name, term = failed
        if dropped:
            self.cells = [x for x in self.cells if id(x) not in dropped]
            self._wide = [x for x in self._wide if id(x[0]) not in dropped]

    def _failed(self, y: ObjectCell, x: ObjectCell) -> tuple[str, Term] | None:
        """The condition of ``y`` that ``x`` may fail; None if ``y`` certainly contains all of ``x``.

        ``y`` has no obligations and requires nothing that ``x`` does not.
        """
        if type(x) is not ObjectCell or (y.rest is not TRUE and y.rest is not x.rest):
            return _NO_NAME
        if y.rules and any(rules not in x.rules for rules in y.rules):
            return _NO_NAME
        if y.min > max(x.min, len(x.required)) or (y.max is not None and (x.max is None or x.max > y.max)):
            return _NO_NAME
        mine, rest, decided, apart = x.named, x.rest, self._decided, self._apart
        for name, term in y.named.items():
            if term is not TRUE:
                known = mine.get(name, rest)
                if known is not term and ((known, term) in apart or not within(known, term, decided)):
                    apart.add((known, term))
                    return name, term
        if y.rest is not TRUE or y.rules:
            for name, term in mine.items():
                if name not in y.named and not all(within(term, other, decided) for other in y.terms(name)):
                    return _NO_NAME
        return None


def within(x: Term, y: Term, decided: dict[tuple[Term, Term], bool]) -> bool:
    """Whether every value of one term is certainly one of the other; what shapes decide is kept in ``decided``."""
    if x is y or x is FALSE or y is TRUE:
        return True
    known = decided.get((x, y))
    if known is not None:
        return known
    inner, outer = x.known, y.known
    if inner is None or outer is None or inner.arrays or inner.objects:
        if isinstance(x, And) and all(part in x.parts for part in (y.parts if isinstance(y, And) else (y,))):
            return True
        try:
            inner = quick_shape(x)
            outer = None if inner is None else quick_shape(y)
        except Undecided:
            return False
        if inner is None or outer is None:
            return False
    decided[x, y] = known = _shape_within(inner, outer)
    return known


def quick_shape(term: Term) -> Shape | None:
    """The shape of a term, unless it combines others that may be large or lead ever deeper."""
    if term.known is not None or not isinstance(term, _COMBINED):
        return term.shape()
    if isinstance(term, And) and any(_is_scalar(part.known) for part in term.parts):
        return term.shape()
    return term.shape() if isinstance(term, Not) and _is_scalar(term.operand.known) else None


def _is_scalar(shape: Shape | None) -> bool:
    return shape is not None and not (shape.arrays or shape.objects)


def _shape_within(x: Shape, y: Shape) -> bool:
    if x is y:
        return True
    if x.arrays or x.objects or (x.null and not y.null) or x.booleans & ~y.booleans:
        return False
    if x.numbers is not Numbers.NONE and x.numbers != y.numbers and not (x.numbers & ~y.numbers).is_empty():
        return False
    if x.strings == y.strings or y.strings.is_all():
        return True
    texts = x.strings.finite_texts()
    return texts is not None and all(y.strings.contains(text) for text in texts)
