"""Drops cells that another cell of a union covers, as far as this is quick to see."""

from __future__ import annotations

from guiderail.frontends.json_schema.errors import Undecided
from guiderail.frontends.json_schema.numbers import Numbers
from guiderail.frontends.json_schema.shape import FALSE, TRUE, ObjectCell, Shape, Term
from guiderail.frontends.json_schema.terms import And, Not, Or
from guiderail.support.work import spend

__all__ = ["Cover", "quick_shape", "within", "without_covered"]

_MOST = 400  # cells among which covers are searched for, in quadratic time


def without_covered(cells: list[ObjectCell]) -> list[ObjectCell]:
    """The cells without those that lie within another."""
    cover = Cover()
    for cell in cells:
        cover.add(cell)
    return cover.cells


class Cover:
    """Collects the cells of a union, none of which is obviously within another."""

    __slots__ = ("cells",)

    def __init__(self) -> None:
        self.cells: list[ObjectCell] = []

    def add(self, cell: ObjectCell) -> None:
        cells = self.cells
        if len(cells) < _MOST:
            for other in cells:
                if _covers(other, cell):
                    return
            if any(_covers(cell, other) for other in cells):
                self.cells = [other for other in cells if not _covers(cell, other)]
        self.cells.append(cell)


def _covers(y: ObjectCell, x: ObjectCell) -> bool:
    """Whether ``y`` certainly contains all of ``x``."""
    spend(5)
    if type(y) is not ObjectCell:
        return y is x
    if y.obligations or not y.required <= x.required:
        return False
    if y.rest is not TRUE and y.rest is not x.rest:
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
            elif not within(mine, term):
                return False
    if y.rest is not TRUE or y.rules:
        for name, term in x.named.items():
            if name not in y.named and not all(within(term, other) for other in y.terms(name)):
                return False
    return True


def within(x: Term, y: Term) -> bool:
    """Whether every value of one term is certainly one of the other."""
    if x is y or x is FALSE or y is TRUE:
        return True
    if isinstance(x, And) and all(part in x.parts for part in (y.parts if isinstance(y, And) else (y,))):
        return True
    try:
        inner = quick_shape(x)
        outer = None if inner is None else quick_shape(y)
    except Undecided:
        return False
    return inner is not None and outer is not None and _shape_within(inner, outer)


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
