"""Terms made of other terms: their intersection, union and complement, evaluated when their shape is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from guiderail.frontends.json_schema.numbers import Numbers
from guiderail.frontends.json_schema.shape import TRUE, Shape, Term
from guiderail.support.work import spend

if TYPE_CHECKING:
    from guiderail.frontends.json_schema.algebra import Algebra

__all__ = ["And", "Not", "Or", "plainly_within"]

_FEW_TEXTS = 8


class And(Term):
    """The intersection of terms.

    Attributes:
        parts: of which none is an intersection.
        given: the terms that were joined, some of them intersections whose shapes may be known.
    """

    __slots__ = ("algebra", "given", "parts")

    def __init__(self, algebra: Algebra, parts: tuple[Term, ...], given: tuple[Term, ...]) -> None:
        self.known = None
        self.algebra = algebra
        self.parts = parts
        self.given = given

    def _evaluate(self) -> Shape:
        whole = all(term.known is not None or not isinstance(term, And) for term in self.given)
        with self.algebra.trying(eager=False):
            shape = TRUE.shape()
            for part in self.given if whole else self.parts:
                shape = self.algebra.and_shapes(shape, part.shape())
        self.given = ()
        return shape


class Or(Term):
    """The union of terms."""

    __slots__ = ("algebra", "parts")

    def __init__(self, algebra: Algebra, parts: tuple[Term, ...], given: tuple[Term, ...]) -> None:
        self.known = None
        self.algebra = algebra
        self.parts = parts

    def _evaluate(self) -> Shape:
        with self.algebra.trying(eager=False):
            return self.algebra.union(part.shape() for part in self.parts)


class Not(Term):
    """The complement of a term."""

    __slots__ = ("algebra", "operand")

    def __init__(self, algebra: Algebra, operand: Term) -> None:
        self.known = None
        self.algebra = algebra
        self.operand = operand

    def _evaluate(self) -> Shape:
        with self.algebra.trying(eager=False):
            return self.algebra.not_shape(self.operand.shape())


def plainly_within(x: Term, y: Term) -> bool | None:
    """Whether a few texts all satisfy a term: so it is where a name tells many alternatives apart.

    Returns:
        True: all do. False: none does. None: that is not plain to see.
    """
    if x is y:
        return True
    shape = x.known
    if shape is None or shape.arrays or shape.objects or shape.null or shape.booleans:
        return None
    if shape.numbers is not Numbers.NONE or (y.known is None and not (type(y) is Not and y.operand.known is not None)):
        return None
    texts = shape.strings.finite_texts()
    if texts is None or not 0 < len(texts) <= _FEW_TEXTS:
        return None
    spend(20)
    strings = y.shape().strings
    found = [text in strings for text in texts]
    return True if all(found) else None if any(found) else False
