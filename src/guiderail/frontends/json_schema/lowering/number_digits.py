"""Plain decimals of one sign, compared with bounds digit by digit.

Digits come most significant first, and the length of the integer part is unknown until its end. After k digits, a
string still touches those cuts whose first k digits it has (*tight*), and otherwise lies between two neighbours
(*free*), separately for each length that the cut may have. A free text only remembers which stretch it will end in for
each final length, so equal futures are equal states. Divisors add the residue of the digits read so far, reduced in
advance to the classes that some continuation tells apart.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, TypeAlias

from guiderail.frontends.json_schema.lowering.number_plan import DEAD, DIGIT, DIGITS, Expansion, Explorer, Plan, State
from guiderail.frontends.json_schema.lowering.number_residues import Residues, refine
from guiderail.frontends.json_schema.values.numbers import decimals
from guiderail.support.numerals import digits


def digits_of(value: Fraction) -> tuple[str, str]:
    """The digits of a decimal from 0 on, before and after the point; no trailing zeros."""
    scale = decimals(value.denominator)
    assert scale is not None
    number = value.numerator * (10**scale // value.denominator)
    text = digits(number)
    if not scale:
        return text, ""
    text = text.zfill(scale + 1)
    return text[:-scale], text[-scale:]


@dataclass(slots=True)
class Side:
    """Magnitudes of one sign: ``cuts[0]`` is 0; ``at[i]`` and ``above[i]`` are labels of a cut, and of the numbers up
    to the next. Labels are indices into `Spelling.grids`; 0: nothing."""

    cuts: list[Fraction]
    at: list[int]
    above: list[int]


Range: TypeAlias = tuple[int, int]


def split(rows: list[str], low: int, high: int, place: int) -> list[Range]:
    """The ranges of rows low..high (sorted, equal before ``place``) by their digit there; missing digits are 0."""
    if low == high:
        return [(low, low)] * 10
    if high - low == 1:
        d = int(rows[low][place]) if place < len(rows[low]) else 0
        return [(low, low)] * d + [(low, high)] + [(high, high)] * (9 - d)
    found: list[Range] = []
    i = low
    for digit in "0123456789":
        start = i
        while i < high and (rows[i][place] if place < len(rows[i]) else "0") == digit:
            i += 1
        found.append((start, i))
    return found


EACH: Final = [(DIGIT[d], d) for d in range(10)]


def runs(rows: list[str], ranges: Iterable[Range], place: int) -> list[tuple[bytes, int]]:
    """The digits in runs that all ranges treat alike, each with one of its digits."""
    special = {int(rows[i][place]) if place < len(rows[i]) else 0 for low, high in ranges for i in range(low, high)}
    if len(special) > 4:
        return EACH
    found: list[tuple[bytes, int]] = []
    start = 0
    for d in sorted(special):
        if start < d:
            found.append((DIGITS[start:d], start))
        found.append((DIGIT[d], d))
        start = d + 1
    if start < 10:
        found.append((DIGITS[start:], start))
    return found


class Plain:
    """Plain decimals of one sign. States:

    ``(INT, k, i, ranges, c)``  k digits read; for each length of cuts from the i-th on, those with this prefix
    ``(FREE, labels, c)``       no cut has it; runs ``(count, label)`` by final length, up to where the last label
                                stands for all longer ones
    ``(ZERO, range)``           the integer part is 0
    ``(TIGHT, range, j, r, room, fresh)``  j digits after the point, with cuts with this prefix
    ``(LOOSE, label, r, room, fresh)``     after the point, between cuts; fresh: no digit yet
    ``(LEADING, fresh)``        zeros before an exponent
    """

    START: Final = 0
    INT: Final = 1
    FREE: Final = 2
    ZERO: Final = 3
    TIGHT: Final = 4
    LOOSE: Final = 5
    LEADING: Final = 6

    def __init__(
        self, plan: Plan, side: Side, residues: Residues, dotted: list[bool], room: int | None, tail: int = DEAD
    ) -> None:
        residues.tabulate(plan)
        self.plan, self.residues, self.dotted, self.room, self.tail = plan, residues, dotted, room, tail
        self.at, self.above = side.at, side.above
        self.alike = len(residues.values) == 1  # one class: digits before the point differ by the cuts only
        if not any(dotted[i] for i in (*side.at, *side.above)):
            self.room = 0
        pairs = [digits_of(c) for c in side.cuts]
        self.whole = [p[0] for p in pairs]
        self.fraction = [p[1] for p in pairs]
        self.sizes: list[int] = []  # lengths of the integer parts of cuts, ascending
        self.ranges: list[Range] = []  # the cuts of each
        for i, whole in enumerate(self.whole):
            if self.sizes and self.sizes[-1] == len(whole):
                self.ranges[-1] = self.ranges[-1][0], i + 1
            else:
                self.sizes.append(len(whole))
                self.ranges.append((i, i + 1))
        self.explorer = Explorer(plan, self.expand)
        self.loop: list[int] | None = None

    def expand(self, state: State) -> Expansion | int:
        kind = state[0]
        if kind == self.FREE:
            return self._free(*state[1:])
        if kind == self.LOOSE:
            return self._loose(*state[1:])
        if kind == self.INT:
            return self._int(*state[1:])
        if kind == self.TIGHT:
            return self._tight(*state[1:])
        if kind == self.ZERO:
            return self._ends_here(state[1], self.residues.start)
        if kind == self.LEADING:
            accepts = not state[1] and self.at[0] != 0
            if len(self.at) == 1 and self.at[0] == self.above[0]:
                return accepts, [(DIGITS, (self.LEADING, False))] if self.at[0] else [], {}
            zero: State = (self.LEADING, False)
            return accepts, [(b"0", zero), *self.begin()[1:]], {}
        return False, self.begin(), {}

    def begin(self) -> list[tuple[bytes, State | None]]:
        """The edges of the start: 0, then 1 to 9."""
        splits = [split(self.whole, low, high, 0) for low, high in self.ranges]
        edges: list[tuple[bytes, State | None]] = [(b"0", (self.ZERO, splits[0][0]))]  # cut 0 has length 1
        after = self.residues.after[self.residues.start]
        for values, d in runs(self.whole, self.ranges, 0) if self.alike else EACH:
            values, d = (values, d) if d else (values[1:], 1)  # not 0
            if values:
                edges.append((values, self._number(1, 0, tuple([s[d] for s in splits]), after[d])))
        return edges

    def _number(self, k: int, i: int, ranges: tuple[Range, ...], c: int) -> State | None:
        for low, high in ranges:
            if low != high:
                return self.INT, k, i, ranges, c
        found: list[tuple[int, int]] = []
        for size, (first, _), (low, _) in zip(self.sizes[i:], self.ranges[i:], ranges, strict=True):
            if size > k:
                found.append((size - k, self.above[first - 1]))
            found.append((1, self.above[low - 1]))
            k = size + 1
        joined: list[tuple[int, int]] = []
        for count, label in found:
            if joined and joined[-1][1] == label:
                joined[-1] = joined[-1][0] + count, label
            else:
                joined.append((count, label))
        return self._released(tuple(joined), c)

    def _released(self, labels: tuple[tuple[int, int], ...], c: int) -> State | None:
        if labels and labels[-1][1] == self.above[-1]:
            labels = labels[:-1]
        return (self.FREE, labels, c) if labels or self.above[-1] else None

    def _accept(self, accepts: bool, fixed: dict[int, bytes]) -> None:
        if accepts and self.tail != DEAD:
            fixed[self.tail] = b"Ee"

    def _ends_here(self, here: Range, c: int) -> tuple[bool, list[tuple[bytes, State | None]], dict[int, bytes]]:
        """What is accepted if the integer part ends here: the number itself, or a point."""
        low, high = here
        residue = self.residues.point(c)
        exactly = low < high and not self.fraction[low]
        label = self.at[low] if exactly else self.above[low - 1]
        accepts = self.residues.has(label, residue)
        fixed: dict[int, bytes] = {}
        self._accept(accepts, fixed)
        point = self._after_point(low, high, 0, residue, self.room, True) if self.room != 0 else None
        return accepts, [(b".", point)] if point else [], fixed

    def _int(self, k: int, i: int, ranges: tuple[Range, ...], c: int) -> Expansion:
        if self.sizes[i] == k:
            here, ranges, i = ranges[0], ranges[1:], i + 1
        else:
            here = self.ranges[i][0], self.ranges[i][0]
        accepts, edges, fixed = self._ends_here(here, c)
        splits = [split(self.whole, low, high, k) for low, high in ranges]
        after = self.residues.after[c]
        for values, d in runs(self.whole, ranges, k) if self.alike else EACH:
            edges.append((values, self._number(k + 1, i, tuple([s[d] for s in splits]), after[d])))
        return accepts, edges, fixed

    def _free(self, labels: tuple[tuple[int, int], ...], c: int) -> Expansion | int:
        if not labels:
            return self._forever(c)
        count, label = labels[0]
        residue = self.residues.point(c)
        accepts = self.residues.has(label, residue)
        fixed: dict[int, bytes] = {}
        self._accept(accepts, fixed)
        edges: list[tuple[bytes, State | None]] = []
        if self.dotted[label] and self.room != 0:
            edges.append((b".", self._loosen(label, residue, self.room, True)))
        rest = ((count - 1, label), *labels[1:]) if count > 1 else labels[1:]
        then = self._released(rest, 0)
        if self.alike or then is None:
            edges.append((DIGITS, then))
        else:
            edges += [(DIGIT[d], (*then[:2], to)) for d, to in enumerate(self.residues.after[c])]
        return accepts, edges, fixed

    def _forever(self, c: int) -> int:
        """Any number of further digits: the classes of residues lead to one another."""
        if self.loop is None:
            label, residues = self.above[-1], self.residues
            at_point = [residues.point(i) for i in range(len(residues.values))]
            accept = [residues.has(label, r) for r in at_point]
            points = [DEAD] * len(accept)
            if self.dotted[label] and self.room != 0:
                states_there = [self._loosen(label, r, self.room, True) for r in at_point]
                points = [self.explorer.node(state) if state else DEAD for state in states_there]
            classes = refine(list(zip(accept, points, strict=True)), residues.after)
            first: dict[int, int] = {}
            for i, to in enumerate(classes):
                first.setdefault(to, i)
            states: list[tuple[bool, dict[int, bytes]]] = []
            for i in first.values():
                fixed = {points[i]: b"."}
                self._accept(accept[i], fixed)
                states.append((accept[i], fixed))
            nodes = self.plan.group(states, [[classes[t] for t in residues.after[i]] for i in first.values()])
            self.loop = [nodes[to] for to in classes]
        return self.loop[c]

    def _loosen(self, label: int, residue: tuple[int, int], room: int | None, fresh: bool) -> State | None:
        if not self.dotted[label]:
            return None
        return self.LOOSE, label, self.residues.settled(label, residue), room, fresh

    def _after_point(
        self, low: int, high: int, j: int, residue: tuple[int, int], room: int | None, fresh: bool
    ) -> State | None:
        if low == high:
            return self._loosen(self.above[low - 1], residue, room, fresh)
        if high - low == 1 and j >= len(self.fraction[low]):
            j = len(self.fraction[low])
            if self.at[low] == self.above[low]:
                return self._loosen(self.above[low], residue, room, fresh)
        return self.TIGHT, low, high, j, residue, room, fresh

    def _loose(self, label: int, residue: tuple[int, int], room: int | None, fresh: bool) -> Expansion:
        accepts = not fresh and self.residues.has(label, residue)
        fixed: dict[int, bytes] = {}
        self._accept(accepts, fixed)
        if room == 0:
            return accepts, [], fixed
        left = None if room is None else room - 1
        moves = self.residues.moves(residue)
        return accepts, [(values, (self.LOOSE, label, to, left, False)) for values, to in moves], fixed

    def _tight(self, low: int, high: int, j: int, residue: tuple[int, int], room: int | None, fresh: bool) -> Expansion:
        label = self.at[low] if len(self.fraction[low]) <= j else self.above[low - 1]
        accepts = not fresh and self.dotted[label] and self.residues.has(label, residue)
        fixed: dict[int, bytes] = {}
        self._accept(accepts, fixed)
        if room == 0:
            return accepts, [], fixed
        left = None if room is None else room - 1
        edges: list[tuple[bytes, State | None]] = []
        splits = split(self.fraction, low, high, j)
        for values, d in runs(self.fraction, [(low, high)], j) if self.residues.none else EACH:
            to = self._after_point(*splits[d], j + 1, self.residues.next(residue, d), left, False)
            edges.append((values, to))
        return accepts, edges, fixed
