"""Conjunctions over one array: their simplest form, *and*, and *not*."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from guiderail.frontends.json_schema.normal_form.shape import ANY_ARRAY, FALSE, TRUE, ArrayCell, Contains, Term
from guiderail.support.work import spend

if TYPE_CHECKING:
    from guiderail.frontends.json_schema.normal_form.algebra import Algebra

__all__ = ["and_array", "array_cell", "not_array"]


def array_cell(
    algebra: Algebra,
    prefix: tuple[Term, ...],
    rest: Term,
    low: int,
    high: int | None,
    contains: tuple[Contains, ...],
    *,
    unique: bool = False,
    repeated: bool = False,
) -> ArrayCell | None:
    """A cell in simplest form, or None if it is obviously empty."""
    counters: list[Contains] = []
    for c in _merged(contains):
        if c.max is not None and c.max < c.min:
            return None
        if c.term is TRUE:
            low = max(low, c.start + c.min if c.min else 0)
            if c.max is not None:
                high = c.start + c.max if high is None else min(high, c.start + c.max)
        elif c.max == 0:
            never = algebra.not_term(c.term)
            items = list(prefix) + [rest] * (c.start - len(prefix))
            prefix = tuple(algebra.both(item, never) if i >= c.start else item for i, item in enumerate(items))
            rest = algebra.both(rest, never)
        elif c.term is FALSE:
            if c.min:
                return None
        elif c.min or c.max is not None:
            counters.append(c)
            if c.min:
                low = max(low, c.start + c.min)
    while prefix and prefix[-1] is rest:
        prefix = prefix[:-1]
    for i, item in enumerate(prefix):
        if item is FALSE:
            prefix, rest = prefix[:i], FALSE
            break
    if rest is FALSE:
        high = len(prefix) if high is None else min(high, len(prefix))
    if (high is not None and high < low) or (unique and repeated):
        return None
    if high is not None and len(prefix) > high:
        prefix = prefix[:high]
    if high is not None and high <= len(prefix) and not counters:
        rest = FALSE
    return ArrayCell(prefix, rest, low, high, tuple(counters), unique, repeated)


def _merged(contains: tuple[Contains, ...]) -> Iterable[Contains]:
    """Counters of which no two count the same items."""
    if len(contains) < 2:
        return contains
    merged: dict[tuple[int, Term], Contains] = {}
    for c in contains:
        other = merged.get((c.start, c.term))
        if other is not None:
            most = [high for high in (c.max, other.max) if high is not None]
            c = Contains(c.start, c.term, max(c.min, other.min), min(most, default=None))
        merged[c.start, c.term] = c
    return merged.values()


def and_array(algebra: Algebra, a: ArrayCell, b: ArrayCell) -> ArrayCell | None:
    if a is ANY_ARRAY:
        return b
    if b is ANY_ARRAY:
        return a
    longest = max(len(a.prefix), len(b.prefix))
    spend(100 + 20 * longest + 10 * (len(a.contains) + len(b.contains)))
    return array_cell(
        algebra,
        tuple(algebra.both(a.item(i), b.item(i)) for i in range(longest)),
        algebra.both(a.rest, b.rest),
        max(a.min, b.min),
        a.max if b.max is None else b.max if a.max is None else min(a.max, b.max),
        a.contains + b.contains,
        unique=a.unique or b.unique,
        repeated=a.repeated or b.repeated,
    )


def not_array(algebra: Algebra, cell: ArrayCell) -> tuple[ArrayCell, ...]:
    spend(100 + 20 * len(cell.prefix) ** 2)
    cells: list[ArrayCell] = []
    for i, term in enumerate(cell.prefix):
        if term is not TRUE:
            cells.append(ArrayCell((*[TRUE] * i, algebra.not_term(term)), TRUE, i + 1))
    start = len(cell.prefix)
    if cell.rest is not TRUE:
        if cell.rest is FALSE:
            cells.append(ArrayCell((), TRUE, start + 1))
        else:
            counter = Contains(start, algebra.not_term(cell.rest), 1, None)
            cells.append(ArrayCell((), TRUE, start + 1, contains=(counter,)))
    if cell.min > 0:
        cells.append(ArrayCell((), TRUE, 0, cell.min - 1))
    if cell.max is not None:
        cells.append(ArrayCell((), TRUE, cell.max + 1))
    for c in cell.contains:
        if c.min > 0 and (few := array_cell(algebra, (), TRUE, 0, None, (Contains(c.start, c.term, 0, c.min - 1),))):
            cells.append(few)
        if c.max is not None:
            many = Contains(c.start, c.term, c.max + 1, None)
            cells.append(ArrayCell((), TRUE, c.start + c.max + 1, contains=(many,)))
    if cell.unique:
        cells.append(ArrayCell((), TRUE, 2, repeated=True))
    if cell.repeated:
        cells.append(ArrayCell((), TRUE, unique=True))
    return tuple(cells)
