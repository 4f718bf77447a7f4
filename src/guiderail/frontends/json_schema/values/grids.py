"""Grids: the multiples and non-multiples that a set of numbers has between two cuts. All arithmetic is exact."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import Final, TypeAlias

from guiderail.errors import LimitError
from guiderail.support.work import spend

__all__ = [
    "EVERYTHING",
    "NOTHING",
    "Difference",
    "Grid",
    "complement",
    "count_between",
    "in_grid",
    "integral",
    "join",
    "meet",
    "walk_between",
]

Difference: TypeAlias = tuple["Fraction | None", frozenset[Fraction]]
"""The multiples of the first (None: every decimal) that are multiples of none of the others."""
Grid: TypeAlias = frozenset[Difference]
"""A union of differences."""

NOTHING: Final[Grid] = frozenset()
EVERYTHING: Final[Grid] = frozenset({(None, frozenset())})

_MAX_DIFFERENCES: Final = 256
_MAX_TERMS: Final = 1 << 16
_PAIR: Final = 8  # steps of work for comparing a multiple with another


def _lcm(a: Fraction | None, b: Fraction | None) -> Fraction | None:
    if a is None or a == b:
        return b
    if b is None:
        return a
    return Fraction(math.lcm(a.numerator * b.denominator, b.numerator * a.denominator), a.denominator * b.denominator)


def _divides(step: Fraction | None, value: Fraction | None) -> bool:
    """Whether every multiple of ``value`` is one of ``step``; None: every decimal."""
    if step is None or step == value:
        return True
    if value is None:
        return False
    return (value.numerator * step.denominator) % (value.denominator * step.numerator) == 0


def in_grid(value: Fraction, grid: Grid) -> bool:
    if grid is EVERYTHING:  # the common case; the loop below agrees
        return True
    return any(_divides(m, value) and not any(_divides(n, value) for n in ns) for m, ns in grid)


def _difference(m: Fraction | None, ns: Iterable[Fraction]) -> Difference | None:
    """In normal form: each n a proper multiple of m, none a multiple of another; None if empty."""
    joined = {_lcm(m, n) for n in ns}
    if m in joined:
        return None
    found = sorted(n for n in joined if n is not None)
    kept: list[Fraction] = []
    spend(_PAIR * (1 + len(found)))
    for n in found:
        spend(_PAIR * len(kept))
        if not any(_divides(k, n) for k in kept):
            kept.append(n)
    return m, frozenset(kept)


def _within(a: Difference, b: Difference) -> bool:
    """a ⊆ b. A cyclic group is the union of finitely many subgroups only if it is one of them, so looking at the
    excluded multiples one by one is exact."""
    spend(_PAIR * (1 + len(a[1]) * len(b[1])))
    if not _divides(b[0], a[0]):
        return False
    return all(any(_divides(k, _lcm(a[0], n)) for k in a[1]) for n in b[1])


def _grid(parts: Iterable[Difference | None]) -> Grid:
    """A union in a small form: no part inside another; a part that fills another's gap closes it."""
    todo = list(dict.fromkeys([p for p in parts if p is not None]))
    changed = len(todo) > 1
    while changed:
        changed = False
        for i, (m, ns) in enumerate(todo):
            for n in ns:
                gap = _difference(n, ns - {n})
                if gap is None or any(j != i and _within(gap, other) for j, other in enumerate(todo)):
                    todo[i] = (m, ns - {n})
                    changed = True
                    break
            if changed:
                break
    kept: list[Difference] = []
    for i, part in enumerate(todo):
        others = kept + todo[i + 1 :]
        if not any(_within(part, other) for other in others):
            kept.append(part)
    if len(kept) > _MAX_DIFFERENCES:
        raise LimitError(
            f"combining multiples gives more than {_MAX_DIFFERENCES} cases; use fewer different values of multipleOf",
            code="number-cases",
        )
    return EVERYTHING if (None, frozenset()) in kept else frozenset(kept)


def meet(a: Grid, b: Grid) -> Grid:
    if a == b or b == EVERYTHING:
        return a
    if a == EVERYTHING:
        return b
    return _grid([_difference(_lcm(m, k), ns | ls) for m, ns in a for k, ls in b])


def join(a: Grid, b: Grid) -> Grid:
    if a == b or not b:
        return a
    return _grid(itertools.chain(a, b)) if a else b


def complement(a: Grid) -> Grid:
    result = EVERYTHING
    for m, ns in a:  # not (m and no n) = not m, or some n (and m, in which every n lies)
        gaps: list[Difference | None] = [] if m is None else [(None, frozenset({m}))]
        result = meet(result, _grid([*gaps, *[(n, frozenset()) for n in ns]]))
    return result


def integral(grid: Grid) -> bool:
    return all(m is not None and m.denominator == 1 for m, _ in grid)


# -- members between two numbers (both excluded) ----------------------------------------------------------------------
def _multiples(step: Fraction, low: Fraction, high: Fraction) -> tuple[int, int]:
    """First and last k with low < k * step < high (first > last: none)."""
    return math.floor(low / step) + 1, math.ceil(high / step) - 1


def count_between(grid: Grid, low: Fraction, high: Fraction) -> int | None:
    """The number of members; None: infinitely many. By inclusion and exclusion over the parts and their gaps."""
    if any(m is None for m, _ in grid):
        return None
    # each part as a signed sum of grids: m - n1 - n2 + lcm(n1, n2) …; the union by products of (1 - part)
    terms: dict[Fraction | None, int] = {None: 1}  # 1 - union
    for m, ns in grid:
        part: dict[Fraction | None, int] = {m: 1}
        for n in ns:
            _subtract(part, n)
        product = dict(terms)
        for (a, x), (b, y) in itertools.product(terms.items(), part.items()):
            key = _lcm(a, b)
            product[key] = product.get(key, 0) - x * y
        terms = {k: v for k, v in product.items() if v}
        if len(terms) > _MAX_TERMS:
            raise LimitError(
                "there are too many different values of multipleOf to count the multiples; use fewer",
                code="number-cases",
            )
    total = 0
    for step, sign in terms.items():
        if step is not None:
            first, last = _multiples(step, low, high)
            total -= sign * max(0, last - first + 1)
    return total


def _subtract(part: dict[Fraction | None, int], step: Fraction) -> None:
    for key, sign in list(part.items()):
        joined = _lcm(key, step)
        part[joined] = part.get(joined, 0) - sign


def walk_between(part: Difference, low: Fraction, high: Fraction) -> Iterator[Fraction]:
    """The members of one part in ascending order; not for a part with all decimals."""
    step, gaps = part
    assert step is not None
    first, last = _multiples(step, low, high)
    skipped = [int(n / step) for n in gaps]
    for k in range(first, last + 1):
        if not any(k % s == 0 for s in skipped):
            yield k * step
