"""Plain decimals that the core reads without an automaton built in advance: see core/json/decimals.cpp.

For each sign, the core gets the cuts by their digits, the multiples between them in units of the last decimal that any
divisor has, and moduli that every divisor divides.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Final, TypeAlias

from guiderail._core import Builder
from guiderail.errors import LimitError
from guiderail.frontends.json_schema.lowering.number_digits import Side, digits_of
from guiderail.frontends.json_schema.values.grids import Grid, in_grid
from guiderail.frontends.json_schema.values.numbers import decimals
from guiderail.support.numerals import digits as written

MAX_STEP: Final = 10**30
"""The greatest divisor, in units of the last decimal; greater ones are rejected, as the core counts in 128 bits."""
MAX_DIGITS: Final = 400
"""Maximum number of digits in the integer part of a bound: the core looks at each length up to it."""
_HUGE: Final = 10**36

Part: TypeAlias = tuple[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Table:
    """The arguments of `Builder.decimals`."""

    cuts: tuple[tuple[str, str, int, int, str], ...]
    labels: tuple[tuple[bool, tuple[Part, ...]], ...]
    moduli: tuple[str, ...]
    scale: int
    room: int

    def replay(self, builder: Builder) -> int:
        return builder.decimals(self.cuts, self.labels, self.moduli, self.scale, self.room)


def _refuse() -> LimitError:
    return LimitError(
        f"the divisors of this schema's numbers have more than {len(str(MAX_STEP)) - 1} digits, decimals included; "
        "use a simpler multipleOf",
        code="number-states",
    )


def _grouped(divisors: set[int]) -> list[int]:
    """A few numbers, not too large, so that each divisor divides one of them."""
    groups: list[int] = []
    for divisor in sorted(divisors, reverse=True):
        if divisor > MAX_STEP:
            raise _refuse()
        for i, group in enumerate(groups):
            joined = math.lcm(group, divisor)
            if joined < _HUGE:
                groups[i] = joined
                break
        else:
            groups.append(divisor)
    return groups


def _rank(part: tuple[Fraction | None, frozenset[Fraction]]) -> tuple[bool, Fraction, list[Fraction]]:
    """An order of the parts of a grid."""
    step, gaps = part
    return step is not None, step or Fraction(0), sorted(gaps)


def table(side: Side, grids: Sequence[Grid], dotted: Sequence[bool], room: int | None) -> Table:
    """
    Raises:
        LimitError: "number-states": the divisors or the bounds are too large.
    """
    if side.cuts[-1] >= 10**MAX_DIGITS:
        raise LimitError(
            f"a number has a bound of more than {MAX_DIGITS} digits; use a smaller bound",
            code="number-states",
        )
    used = [i for i in dict.fromkeys(side.above) if i]
    steps = {q for i in used for m, ns in grids[i] for q in (*ns, *(() if m is None else (m,)))}
    scale = max((decimals(q.denominator) or 0 for q in steps), default=0)
    if room is not None and any(m is None for i in used if dotted[i] for m, _ in grids[i]):
        scale = max(scale, room)  # with so few digits they are multiples, too
    if 10**scale > MAX_STEP:
        raise _refuse()
    unit = 10**scale
    divisors = {unit}
    labels: dict[tuple[bool, tuple[Part, ...]], int] = {(False, ()): 0}

    def label_of(i: int) -> int:
        parts: list[tuple[int, list[int]]] = []
        for m, ns in sorted(grids[i], key=_rank):
            step = 0 if m is None else int(m * unit)
            if room is not None and dotted[i] and room <= scale:
                step = math.lcm(step or 1, 10 ** (scale - room))
            gaps = sorted(int(n * unit) for n in ns)
            divisors.update((math.lcm(step or 1, unit), *gaps))
            parts.append((step, gaps))
        signature = dotted[i], tuple([(written(step), tuple(map(written, gaps))) for step, gaps in parts])
        return labels.setdefault(signature, len(labels))

    above = [label_of(i) if i else 0 for i in side.above]
    at = [
        labels.setdefault((dotted[i], (("0", ()),)), len(labels)) if in_grid(cut, grids[i]) else 0
        for i, cut in zip(side.at, side.cuts, strict=True)
    ]
    places = [math.floor(c * unit) for c in side.cuts]
    gaps = [str(min(high - low, _HUGE)) for low, high in pairwise(places)]
    digits = [digits_of(c) for c in side.cuts]
    cuts = [(*d, a, b, gap) for d, a, b, gap in zip(digits, at, above, [*gaps, "0"], strict=True)]
    moduli = tuple(written(m) for m in _grouped(divisors))
    return Table(tuple(cuts), tuple(labels), moduli, scale, -1 if room is None else room)
