"""Quick checks whether values are disjoint: by their kind, or by a name with different values in each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from guiderail.frontends.json_schema.errors import Undecided
from guiderail.frontends.json_schema.normal_form.shape import FALSE, NOTHING, TRUE, ObjectCell, Shape, Term
from guiderail.frontends.json_schema.normal_form.simplify import quick_shape
from guiderail.frontends.json_schema.normal_form.terms import Not, Or
from guiderail.frontends.json_schema.values.numbers import Numbers
from guiderail.frontends.json_schema.values.overlap import certainly_apart
from guiderail.frontends.json_schema.values.strings import Strings
from guiderail.support.work import spend

__all__ = ["discriminator", "plainly_disjoint", "plainly_within", "tags", "told_apart"]

_FEW_TEXTS: Final = 8


def plainly_within(x: Term, y: Term) -> bool | None:
    """Whether all strings of a small set satisfy a term: a quick check if a name tells many alternatives apart.

    Returns:
        True: all do. False: none does. None: unknown.
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
    found = [strings.contains(text) for text in texts]
    return True if all(found) else None if any(found) else False


def plainly_disjoint(a: Shape, b: Shape) -> bool:
    """Whether two shapes are disjoint for a reason that is quick to see."""
    if (a.null and b.null) or a.booleans & b.booleans or (a.arrays and b.arrays):
        return False
    if a.numbers is not Numbers.NONE and b.numbers is not Numbers.NONE and not (a.numbers & b.numbers).is_empty():
        return False
    if a.strings is not Strings.NONE and b.strings is not Strings.NONE and not certainly_apart(a.strings, b.strings):
        return False
    return all(told_apart(x, y) for x in a.objects for y in b.objects)


def discriminator(cells: tuple[ObjectCell, ...]) -> str | None:
    """A name that all cells require, with pairwise disjoint values; None if none is quick to see."""
    names = cells[0].required
    for cell in cells[1:]:
        names = names & cell.required
    for name in sorted(names):
        terms = [cell.named[name] for cell in cells]
        if any(isinstance(term, Or | Not) or term is TRUE for term in terms):
            continue
        try:
            shapes = [term.shape() for term in terms]
        except Undecided:
            continue
        if any(shape.arrays or shape.objects for shape in shapes):
            continue
        if all(plainly_disjoint(a, b) for i, a in enumerate(shapes) for b in shapes[:i]):
            return name
    return None


def tags(unions: Sequence[tuple[ObjectCell, ...]]) -> list[set[str]] | None:
    """The texts that a name has in each of some unions of objects, if all of them require it and list its texts.

    Unions without a text in common are disjoint. None: no name is like this.
    """
    cells = [cell for union in unions for cell in union]
    if not cells or any(type(cell) is not ObjectCell for cell in cells):
        return None
    for name in sorted(frozenset.intersection(*[cell.required for cell in cells])):
        found = [_texts([cell.named[name] for cell in union]) for union in unions]
        known = [texts for texts in found if texts is not None]
        if len(known) == len(found):
            return known
    return None


def _texts(terms: list[Term]) -> set[str] | None:
    """What some terms allow, if it is few strings; None: it is more, or unknown."""
    found: set[str] = set()
    for term in terms:
        spend(4)
        try:
            shape = quick_shape(term)
        except Undecided:
            return None
        if shape is None or shape.null or shape.booleans or shape.arrays or shape.objects:
            return None
        texts = shape.strings.finite_texts()
        if (
            shape.numbers is not Numbers.NONE
            or texts is None
            or not shape.strings.is_exact()
            or len(texts) > _FEW_TEXTS
        ):
            return None
        found |= texts
    return found


def told_apart(x: ObjectCell, y: ObjectCell) -> bool:
    """Whether some required name has values in one cell that it cannot have in the other."""
    spend(4 * (1 + len(x.required) + len(y.required)))
    for name in sorted(x.required | y.required):
        p, q = x.named.get(name), y.named.get(name)
        if p is None or q is None:
            other, cell = (p, y) if q is None else (q, x)
            if other is not FALSE and any(term is FALSE for term in cell.terms(name)):
                return True
            continue
        if p is q or p is TRUE or q is TRUE:
            continue
        try:
            s, t = quick_shape(p), quick_shape(q)
        except Undecided:
            continue
        if s is None or t is None:
            continue
        if s.objects and t.objects:
            continue
        if s is not NOTHING and t is not NOTHING and plainly_disjoint(s, t):
            return True
    return False
