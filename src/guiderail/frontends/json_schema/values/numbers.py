"""Sets of JSON numbers under *and*, *or* and *not*: intervals, multiples, and non-multiples.

A JSON number is a finite decimal, so the universe is the decimals. A set is represented by cuts on the number line.
Each cut is a member or not, and between two cuts the members are a *grid*: a union of differences "the multiples of m,
but not those of n1, n2 …". All arithmetic is exact. `number_spelling` writes a set as the strings that spell its
members.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import ClassVar, Final, TypeAlias

from guiderail.errors import CompileError, LimitError
from guiderail.frontends.json_schema.values.grids import (
    EVERYTHING,
    NOTHING,
    Grid,
    complement,
    count_between,
    in_grid,
    integral,
    join,
    meet,
    walk_between,
)
from guiderail.support.texts import shown
from guiderail.support.work import spend

__all__ = ["Cell", "Number", "Numbers"]

Number: TypeAlias = int | float | Decimal | Fraction
"""What stands for a number; a float means the decimal that ``repr`` writes."""

MAX_DECIMAL_EXPONENT: Final = 10_000
"""Numbers whose decimal point is more than this many digits away are rejected (`LimitError`)."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One part of a set: an interval, and what its members are or are not multiples of.

    Attributes:
        low, high: the ends; None: unbounded.
        low_closed, high_closed: whether the ends belong to it; False if there is none.
        multiple_of: None: every decimal of the interval.
        not_multiple_of: members are multiples of none of these.
    """

    low: Fraction | None
    high: Fraction | None
    low_closed: bool
    high_closed: bool
    multiple_of: Fraction | None = None
    not_multiple_of: frozenset[Fraction] = frozenset()


def exact(value: object) -> Fraction:
    """The decimal that a number means.

    Raises:
        CompileError: a bool, infinite, not a number, or no finite decimal (1/3).
        LimitError: it needs more than `MAX_DECIMAL_EXPONENT` digits.
    """
    if type(value) is int:
        return Fraction(value)
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal, Fraction)):
        raise CompileError(f"expected a number, not {shown(value)}", code="not-a-number")
    if isinstance(value, float):
        if not math.isfinite(value):
            raise CompileError(f"{value!r} is not a JSON number", code="not-a-number")
        return Fraction(repr(float(value)))
    if isinstance(value, Decimal):
        if not value.is_finite():
            raise CompileError(f"{value} is not a JSON number", code="not-a-number")
        if is_far(value):
            raise LimitError(
                f"a number with its decimal point more than {MAX_DECIMAL_EXPONENT} digits away is not supported",
                code="number-size",
            )
        return Fraction(value)
    result = Fraction(value)
    if decimals(result.denominator) is None:
        raise CompileError(f"{result} is not a finite decimal, as a JSON number must be", code="not-a-number")
    return result


def is_far(value: Decimal) -> bool:
    """Whether a finite decimal has more digits than `MAX_DECIMAL_EXPONENT`, or its decimal point farther away. As a
    fraction, it could fill the memory."""
    return abs(value.adjusted()) > MAX_DECIMAL_EXPONENT or len(value.as_tuple().digits) > MAX_DECIMAL_EXPONENT


def decimals(denominator: int) -> int | None:
    """The smallest s such that the denominator divides 10**s; None if there is none."""
    if denominator == 1:
        return 0
    twos = (denominator & -denominator).bit_length() - 1
    rest, fives = denominator >> twos, 0
    while rest % 5 == 0:
        rest //= 5
        fives += 1
    return max(twos, fives) if rest == 1 else None


def _step(value: Number) -> Fraction:
    """A divisor brought to a decimal: a decimal is a multiple of p/r if and only if it is one of p/r', where r' is r
    without the prime factors other than 2 and 5."""
    if isinstance(value, Fraction):
        rest = value.denominator
        for prime in (2, 5):
            while rest % prime == 0:
                rest //= prime
        value = value * rest
    step = exact(value)
    if step <= 0:
        raise CompileError(f"multiple_of must be above 0, not {shown(value)}", code="bad-bound")
    return step


_CUT: Final = 20  # steps for a cut of a set
_MERGED: Final = 30  # steps for joining two sets
_WALKED: Final = 100  # steps for the first members of a stretch


def _without_needless(
    cuts: list[Fraction], grids: list[Grid], at: list[bool]
) -> tuple[list[Fraction], list[Grid], list[bool]]:
    """Without cuts at which nothing changes."""
    keep = [i for i, c in enumerate(cuts) if grids[i] != grids[i + 1] or at[i] != in_grid(c, grids[i])]
    if len(keep) == len(cuts):
        return cuts, grids, at
    return [cuts[i] for i in keep], [grids[0], *[grids[i + 1] for i in keep]], [at[i] for i in keep]


class Numbers:
    """An immutable, hashable set of decimals.

    Make one with `between`, `value`, `values`; combine them with ``&``, ``|``, ``~``; test ``numbers.contains(value)``.
    Equality compares representations: the integers above 5.5 and those from 6 on have the same members and are not
    equal. `is_empty` is exact.

    A value given as a float is remembered as one (``5.0`` may then be spelled ``5.0`` besides ``5``). So are multiples
    that happen to be integers, if integers are not required (`as_decimals`).
    """

    __slots__ = ("_at", "_cuts", "_decimal", "_floats", "_hash", "_open")

    ALL: ClassVar[Numbers]
    NONE: ClassVar[Numbers]
    INTEGERS: ClassVar[Numbers]
    # Each of the three is a singleton: any set without members is `Numbers.NONE`.

    _cuts: tuple[Fraction, ...]
    _open: tuple[Grid, ...]  # one more than cuts: below the first, between, above the last
    _at: tuple[bool, ...]
    _floats: frozenset[Fraction]
    _decimal: bool
    _hash: int

    def __init__(
        self,
        cuts: list[Fraction],
        grids: list[Grid],
        at: list[bool],
        floats: frozenset[Fraction],
        decimal: bool,
    ) -> None:
        """For this module only: the constructors below normalise."""
        self._cuts, self._open, self._at = tuple(cuts), tuple(grids), tuple(at)
        self._floats = self._alone(floats) if floats else floats
        self._decimal = decimal
        self._hash = hash((self._cuts, self._open, self._at, self._floats, decimal))

    @staticmethod
    def _make(
        cuts: list[Fraction],
        grids: list[Grid],
        at: list[bool],
        floats: frozenset[Fraction] = frozenset(),
        decimal: bool = False,
    ) -> Numbers:
        """Makes the normal form: a stretch with one member becomes a cut, and no cut is redundant.

        Fractions keep their grid together with a second member at an end. They are not single values, and so are
        spelled with trailing zeros.
        """
        spend(_CUT * len(cuts))
        cuts, grids, at = _without_needless(cuts, grids, at)
        i, split = 1, False
        while i < len(cuts):
            grid = grids[i]
            beside = grids[0] if i == 1 else grids[-1] if i == len(cuts) - 1 else NOTHING  # the unbounded ones
            if grid and grid != beside and not any(m is None for m, _ in grid):
                spend(_WALKED)
                alone = {v for p in grid for v in itertools.islice(walk_between(p, cuts[i - 1], cuts[i]), 2)}
                ends = () if integral(grid) and not decimal else (i - 1, i)
                together = len(alone) + sum(at[j] and in_grid(cuts[j], grid) for j in ends) >= 2
                if len(alone) < 2 and not together:
                    grids[i], split = NOTHING, True
                    if alone:
                        cuts.insert(i, alone.pop())
                        grids.insert(i, NOTHING)
                        at.insert(i, True)
            i += 1
        if split:
            cuts, grids, at = _without_needless(cuts, grids, at)
        decimal = decimal and any(grid and integral(grid) for grid in grids)
        if not cuts and not decimal and (known := _WHOLE.get(grids[0])) is not None:
            return known
        return Numbers(cuts, grids, at, floats, decimal)

    def _alone(self, values: frozenset[Fraction]) -> frozenset[Fraction]:
        """Those of the values that are isolated members."""
        return frozenset(
            cut
            for i, cut in enumerate(self._cuts)
            if self._at[i] and cut in values and not in_grid(cut, self._open[i] | self._open[i + 1])
        )

    @staticmethod
    def between(
        minimum: Number | None = None,
        exclusive_minimum: Number | None = None,
        maximum: Number | None = None,
        exclusive_maximum: Number | None = None,
        multiple_of: Number | None = None,
    ) -> Numbers:
        """The numbers that satisfy all of these (None: no condition).

        Raises:
            CompileError: ``not-a-number``: a bound is not a number; ``bad-bound``: multiple_of is not above 0.
        """
        grid: Grid = EVERYTHING if multiple_of is None else frozenset({(_step(multiple_of), frozenset())})
        low = high = None
        low_in = high_in = False
        if minimum is not None:
            low, low_in = exact(minimum), True
        if exclusive_minimum is not None:
            other = exact(exclusive_minimum)
            if low is None or other >= low:
                low, low_in = other, False
        if maximum is not None:
            high, high_in = exact(maximum), True
        if exclusive_maximum is not None:
            other = exact(exclusive_maximum)
            if high is None or other <= high:
                high, high_in = other, False
        if low is None and high is None:
            return Numbers._make([], [grid], [])
        if high is None:
            assert low is not None
            return Numbers._make([low], [NOTHING, grid], [low_in and in_grid(low, grid)])
        if low is None:
            return Numbers._make([high], [grid, NOTHING], [high_in and in_grid(high, grid)])
        if low > high or (low == high and not (low_in and high_in)):
            return Numbers.NONE
        if low == high:
            return Numbers._make([low], [NOTHING, NOTHING], [in_grid(low, grid)])
        return Numbers._make(
            [low, high],
            [NOTHING, grid, NOTHING],
            [low_in and in_grid(low, grid), high_in and in_grid(high, grid)],
        )

    @staticmethod
    def value(value: object) -> Numbers:
        return Numbers.values((value,))

    @staticmethod
    def values(values: Iterable[object]) -> Numbers:
        given = list(values)
        spend(_CUT * len(given))
        floats = frozenset(exact(v) for v in given if isinstance(v, float))
        cuts = sorted({exact(v) for v in given})
        return Numbers._make(cuts, [NOTHING] * (len(cuts) + 1), [True] * len(cuts), floats)

    @staticmethod
    def union(sets: Iterable[Numbers]) -> Numbers:
        """The numbers in any of these."""
        found = list(sets)
        while len(found) > 1:  # two by two: each is merged a few times, however many they are
            joined = [a | b for a, b in zip(found[::2], found[1::2], strict=False)]
            found = joined + found[len(joined) * 2 :]
        return found[0] if found else Numbers.NONE

    def as_decimals(self) -> Numbers:
        """The same set, with integers spelled like decimals: ``5.0`` besides ``5``."""
        return Numbers._make(list(self._cuts), list(self._open), list(self._at), frozenset(self._cuts), True)

    def _counts(self) -> bool:
        """Whether a stretch has only integers, which are spelled as integers."""
        return not self._decimal and any(grid and integral(grid) for grid in self._open)

    # -- algebra --
    def __and__(self, other: Numbers) -> Numbers:
        if self is other or other is _ALL:
            return self
        if self is _ALL:
            return other
        return self._merge(other, True)

    def __or__(self, other: Numbers) -> Numbers:
        return self if self is other else self._merge(other, False)

    def __invert__(self) -> Numbers:
        return Numbers._make(list(self._cuts), [complement(g) for g in self._open], [not a for a in self._at])

    def _merge(self, other: Numbers, both: bool) -> Numbers:
        cuts: list[Fraction] = []
        at: list[bool] = []
        grids: list[Grid] = []
        i = j = 0
        spend(_MERGED + _CUT * (len(self._cuts) + len(other._cuts)))
        combine = meet if both else join
        while True:
            grids.append(combine(self._open[i], other._open[j]))
            mine, theirs = i < len(self._cuts), j < len(other._cuts)
            if not mine and not theirs:
                break
            if mine and theirs and self._cuts[i] != other._cuts[j]:
                mine = self._cuts[i] < other._cuts[j]
                theirs = not mine
            cut = self._cuts[i] if mine else other._cuts[j]
            a = self._at[i] if mine else in_grid(cut, self._open[i])
            b = other._at[j] if theirs else in_grid(cut, other._open[j])
            cuts.append(cut)
            at.append(a and b if both else a or b)
            i += mine
            j += theirs
        decimal = (self._decimal or other._decimal) and not (self._counts() or other._counts())
        return Numbers._make(cuts, grids, at, self._floats | other._floats, decimal)

    def contains(self, value: object) -> bool:
        if isinstance(value, bool) or not isinstance(value, (int, float, Decimal, Fraction)):
            return False
        number = value if isinstance(value, Fraction) else exact(value)
        i = bisect_left(self._cuts, number)
        if i < len(self._cuts) and self._cuts[i] == number:
            return self._at[i]
        return in_grid(number, self._open[i])

    # -- questions --
    def parts(self) -> tuple[tuple[Fraction, ...], tuple[Grid, ...], tuple[bool, ...]]:
        """The cuts in ascending order; the grids below, between and above them; and which cuts belong to the set."""
        return self._cuts, self._open, self._at

    @property
    def floats(self) -> frozenset[Fraction]:
        """Members that were given as floats."""
        return self._floats

    @property
    def decimal(self) -> bool:
        """Whether stretches of integers are spelled like decimals."""
        return self._decimal

    def is_empty(self) -> bool:
        return not any(self._open) and not any(self._at)

    def is_all(self) -> bool:
        return not self._cuts and self._open[0] == EVERYTHING

    def is_finite(self) -> bool:
        return self.count() is not None

    def count(self) -> int | None:
        """How many members; None: infinitely many.

        Raises:
            LimitError: "number-cases": too many different divisors to count exactly.
        """
        if self._open[0] or self._open[-1]:
            return None
        total = sum(self._at)
        for i in range(1, len(self._cuts)):
            inside = count_between(self._open[i], self._cuts[i - 1], self._cuts[i])
            if inside is None:
                return None
            total += inside
        return total

    def listed(self, most: int) -> list[Fraction] | None:
        """The members; None if there are more than ``most``."""
        count = self.count()
        if count is None or count > most:
            return None
        found = {cut for cut, there in zip(self._cuts, self._at, strict=True) if there}
        for (low, high), grid in zip(itertools.pairwise(self._cuts), self._open[1:], strict=False):
            found.update(value for part in grid for value in walk_between(part, low, high))
        return sorted(found)

    def is_integral(self) -> bool:
        """Whether every member is an integer."""
        return all(map(integral, self._open)) and all(
            c.denominator == 1 for c, a in zip(self._cuts, self._at, strict=True) if a
        )

    def is_plain(self) -> bool:
        """Whether every member is an integer, and spelled as one."""
        return not self._decimal and self.is_integral()

    def cells(self) -> tuple[Cell, ...]:
        """The set as a union of cells, in rising order; alone-standing values are closed intervals of no length."""
        found: list[Cell] = []
        ends: list[Fraction | None] = [None, *self._cuts, None]
        for i, grid in enumerate(self._open):
            low, high = ends[i], ends[i + 1]
            if low is not None and self._at[i - 1] and not in_grid(low, self._open[i - 1] | grid):
                found.append(Cell(low, low, True, True))
            for part in sorted(grid, key=lambda d: (d[0] or Fraction(0), sorted(d[1]))):
                alone = frozenset({part})
                left = low is not None and self._at[i - 1] and in_grid(low, alone)
                right = high is not None and self._at[i] and in_grid(high, alone)
                found.append(Cell(low, high, left, right, *part))
        return tuple(found)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Numbers):
            return NotImplemented
        return self is other or (
            self._hash == other._hash
            and self._cuts == other._cuts
            and self._at == other._at
            and self._open == other._open
            and self._floats == other._floats
            and self._decimal == other._decimal
        )

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"Numbers({' | '.join(map(_show, self.cells())) or 'none'})"


def _show(cell: Cell) -> str:
    if cell.low is not None and cell.low == cell.high:
        return f"{{{cell.low}}}"
    left = "(-inf" if cell.low is None else f"{'[' if cell.low_closed else '('}{cell.low}"
    right = "inf)" if cell.high is None else f"{cell.high}{']' if cell.high_closed else ')'}"
    text = f"{left}, {right}"
    if cell.multiple_of is not None:
        text += f" multiple of {cell.multiple_of}"
    if cell.not_multiple_of:
        text += f" not of {', '.join(map(str, sorted(cell.not_multiple_of)))}"
    return text


_WHOLE: Final[dict[Grid, Numbers]] = {}
_ALL = Numbers.ALL = Numbers._make([], [EVERYTHING], [])
Numbers.NONE = Numbers._make([], [NOTHING], [])
Numbers.INTEGERS = Numbers._make([], [frozenset({(Fraction(1), frozenset())})], [])
_WHOLE.update({n.parts()[1][0]: n for n in (Numbers.ALL, Numbers.NONE, Numbers.INTEGERS)})
