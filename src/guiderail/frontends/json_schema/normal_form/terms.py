"""Terms that an `Algebra` derives from others. They are evaluated on demand, which makes recursion finite."""

from __future__ import annotations

from typing import TYPE_CHECKING

from guiderail.frontends.json_schema.normal_form.shape import TRUE, Shape, Term

if TYPE_CHECKING:
    from guiderail.frontends.json_schema.normal_form.algebra import Algebra

__all__ = ["And", "Not", "Or"]


class And(Term):
    """The intersection of terms.

    Attributes:
        parts: terms that are not intersections.
        given: the terms that were joined, including intersections whose shapes may be known.
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
            return self.algebra.union([part.shape() for part in self.parts])


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
