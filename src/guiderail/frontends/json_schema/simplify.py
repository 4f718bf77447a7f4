"""Drops cells that another cell of a union covers, as far as this is quick to see."""

from __future__ import annotations

from collections.abc import Iterable

from guiderail.frontends.json_schema.errors import Undecided
from guiderail.frontends.json_schema.numbers import Numbers
from guiderail.frontends.json_schema.shape import FALSE, TRUE, ObjectCell, Shape, Term
from guiderail.frontends.json_schema.terms import And, Not, Or
from guiderail.support.work import spend

__all__ = ["Cover", "quick_shape", "within"]

_MOST = 400  # cells among which covers are searched for, in quadratic time


class Cover:
    """Collects the cells of a union, none of which is obviously within another.

    Args:
        decided: whether one term lies within another, as far as this was decided on their shapes.
        cells: to begin with.
    """

    __slots__ = ("_decided", "cells")

    def __init__(self, decided: dict[tuple[Term, Term], bool], cells: Iterable[ObjectCell] = ()) -> None:
        self.cells: list[ObjectCell] = []
        self._decided = decided
        for cell in cells:
            self.add(cell)

    def add(self, cell: ObjectCell) -> None:
        cells, required = self.cells, cell.required
        if len(cells) < _MOST:
            spend(10 * len(cells))
            for other in cells:
                if other.required <= required and self._covers(other, cell):
                    return
            self.cells = [x for x in cells if not (required <= x.required and self._covers(cell, x))]
        self.cells.append(cell)

    def _covers(self, y: ObjectCell, x: ObjectCell) -> bool:
        """Whether ``y``, which requires nothing that ``x`` does not, certainly contains all of ``x``."""
        if type(y) is not ObjectCell:
            return y is x
        if y.obligations or (y.rest is not TRUE and y.rest is not x.rest):
            return False
        if y.rules and any(rules not in x.rules for rules in y.rules):
            return False
        if y.min > max(x.min, len(x.required)) or (y.max is not None and (x.max is None or x.max > y.max)):
            return False
        for name, term in y.named.items():
            if term is not TRUE:
                mine = x.named.get(name)
                if mine is None:
                    if term is not x.rest:
                        return False
                elif mine is not term and not within(mine, term, self._decided):
                    return False
        if y.rest is not TRUE or y.rules:
            for name, term in x.named.items():
                if name not in y.named and not all(within(term, other, self._decided) for other in y.terms(name)):
                    return False
        return True


def within(x: Term, y: Term, decided: dict[tuple[Term, Term], bool]) -> bool:
    """Whether every value of one term is certainly one of the other; what shapes decide is kept in ``decided``."""
    if x is y or x is FALSE or y is TRUE:
        return True
    known = decided.get((x, y))
    if known is not None:
        return known
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
    if term.known is not None or not isinstance(term, And | Or | Not):
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
    return texts is not None and all(text in y.strings for text in texts)
