"""Divisors as residues: which multiples the digits read so far can still become."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Final

from guiderail.frontends.json_schema.lowering.number_plan import DIGIT, DIGITS, Plan
from guiderail.frontends.json_schema.values.grids import EVERYTHING, Grid
from guiderail.frontends.json_schema.values.numbers import decimals
from guiderail.support.work import spend


def refine(colours: Sequence[Hashable], after: list[list[int]]) -> list[int]:
    """The coarsest classes that respect the colours and the moves (Moore 1956), numbered by first appearance."""
    classes: list[int] = []
    count = 0
    keys: Sequence[Hashable] = colours
    while True:
        spend(15 * len(after))
        numbers: dict[Hashable, int] = {}
        classes = [numbers.setdefault(k, len(numbers)) for k in keys]
        if len(numbers) == count:
            return classes
        count = len(numbers)
        keys = [(classes[i], *[classes[t] for t in row]) for i, row in enumerate(after)]


GENERIC: Final = (-1, 0)
"""The residue of a text that is a multiple of none of the divisors, whatever follows."""


class Residues:
    """Which of several grids the decimals with certain digits belong to.

    With every divisor a multiple of 10**-s and M the least common multiple of all divisors, in units of 10**-s, a
    prefix of a number counts as its value in these units modulo M. A residue after the point is ``(digits read up to
    s, value)``; before the point it is the number of a class of values.
    """

    def __init__(self, grids: list[Grid]) -> None:
        steps = {q for grid in grids for m, ns in grid for q in ([m, *ns] if m is not None else ns)}
        self.none = not steps
        self.grids = grids
        self.scale = max((decimals(q.denominator) or 0 for q in steps), default=0)
        unit = 10**self.scale
        self.modulus = math.lcm(*[int(q * unit) for q in steps]) if steps else 1
        self.parts = [
            [(None if m is None else int(m * unit), [int(n * unit) for n in ns]) for m, ns in grid] for grid in grids
        ]
        self.memo: dict[tuple[int, int], bool] = {}
        self.start = 0
        self.after: list[list[int]] = []
        self.values: list[int] = []

    def tabulate(self, limit: Plan) -> None:
        """Finds the classes of values before the point."""
        if self.values:
            return
        if self.modulus > limit.limit:
            limit.refuse()
        unit = 10**self.scale
        if self.modulus == 1 and not self.scale:  # all integers are equivalent
            self.after, self.values = [[0] * 10], [0]
            return
        number = {0: 0}
        values = [0]
        rows: list[list[int]] = []
        for v in values:  # grows while it is read
            spend(50)
            row = []
            for d in range(10):
                to = (10 * v + d * unit) % self.modulus
                if to not in number:
                    number[to] = len(values)
                    values.append(to)
                row.append(number[to])
            rows.append(row)
        colours = self._futures()
        classes = refine([colours[v] for v in values], rows)
        first: dict[int, int] = {}
        for i, c in enumerate(classes):
            first.setdefault(c, i)
        self.values = [values[i] for i in first.values()]  # one number of each class
        self.after = [[classes[t] for t in rows[i]] for i in first.values()]

    def _futures(self) -> list[Hashable]:
        """For each value before the point, the classes that the digits after it tell apart."""
        m = self.modulus
        if m * self.scale > 200_000:
            return list(range(m))
        ends, grids = self.scale, range(len(self.grids))
        spend(m * (10 * len(grids) + 20 * ends))
        futures: list[Hashable] = [tuple(self.has(i, (ends, v)) for i in grids) for v in range(m)]
        for j in range(self.scale - 1, -1, -1):
            shifts = [d * 10 ** (self.scale - j - 1) for d in range(10)]
            numbers: dict[Hashable, int] = {}
            futures = [
                numbers.setdefault((futures[v], *[futures[(v + s) % m] for s in shifts]), len(numbers))
                for v in range(m)
            ]
        return futures

    def settled(self, grid: int, residue: tuple[int, int]) -> tuple[int, int]:
        """The residue, or `GENERIC` if the grid does not depend on it."""
        return GENERIC if self.grids[grid] == EVERYTHING else residue

    def has(self, grid: int, residue: tuple[int, int]) -> bool:
        """Whether a string that ends here with this residue is in the grid."""
        if self.none:
            return bool(self.parts[grid])
        j, v = residue
        if j < 0:
            return any(m is None for m, _ in self.parts[grid])
        found = self.memo.get((grid, v))
        if found is None:
            found = any((m is None or v % m == 0) and all(v % n for n in ns) for m, ns in self.parts[grid])
            self.memo[grid, v] = found
        return found

    def point(self, number: int) -> tuple[int, int]:
        """The residue after the point of an integer part's class."""
        return GENERIC if self.none else (0, self.values[number])

    def next(self, residue: tuple[int, int], digit: int) -> tuple[int, int]:
        j, v = residue
        if j < 0:
            return residue
        if j < self.scale:
            return j + 1, (v + digit * 10 ** (self.scale - j - 1)) % self.modulus
        return GENERIC if digit else residue

    def moves(self, residue: tuple[int, int]) -> list[tuple[bytes, tuple[int, int]]]:
        """What each digit after the point leads to. Adjoining digits with the same residue share an entry."""
        j, v = residue
        if j < 0:
            return [(DIGITS, residue)]
        if j >= self.scale:
            return [(b"0", residue), (DIGITS[1:], GENERIC)]
        unit = 10 ** (self.scale - j - 1)
        return [(DIGIT[d], (j + 1, (v + d * unit) % self.modulus)) for d in range(10)]

    def exponents(self, grid: int, k: int, mantissa: int) -> list[tuple[int | None, int | None]]:
        """For which x an integer with this value modulo M and no factor 10 is in the grid, times 10**(x - k).

        It is a multiple of P = 2**a 5**b p (in units of 10**-s) if p divides it and the power of ten supplies the twos
        and fives that it lacks: from some x on.
        """

        def least(step: int) -> int | None:  # the first such x
            rest, lacking = step, 0
            for prime in (2, 5):
                count = have = 0
                while rest % prime == 0:
                    rest //= prime
                    count += 1
                while have < count and mantissa % prime ** (have + 1) == 0:
                    have += 1
                lacking = max(lacking, count - have)
            return k - self.scale + lacking if mantissa % rest == 0 else None

        found: list[tuple[int | None, int | None]] = []
        for m, ns in self.parts[grid]:
            low = None if m is None else least(m)
            if m is not None and low is None:
                continue
            ends = [x for n in ns if (x := least(n)) is not None]
            high = min(ends) - 1 if ends else None
            if low is None or high is None or low <= high:
                found.append((low, high))
        return found
