"""Sets of numbers as automata over their JSON spellings.

What is spelled, for a stretch of the number line between two cuts (and its ends where they belong to the set):

- only integers: plain digits, ``-?(0|[1-9][0-9]*)``, no ``-0`` (``integers="any"``, and multiples where no type asks
  for integers: as the others);
- others: every plain decimal with its value in the set (``-0.0`` counts as zero, trailing zeros are free), and
  scientific notation: without bounds and divisors (or all from 0, above 0, …) the whole JSON grammar; with bounds the
  normalised form (one digit other than 0 before the point; any exponent sign, case and leading zeros; zero as ``0e5``),
  compared exactly. With a divisor of more than `REPR_DECIMALS` decimals, or ``integers="any"``, the mantissa has at
  most `MANTISSA_DIGITS` digits after its point and ends in no zero other than ``.0``; other divisors, and those that
  would take more than `MAX_SCIENTIFIC_STATES`, are spelled plainly only;
- a value alone: its shortest plain spelling, the ``repr`` of the float if that is exact and other, and ``N.0`` if it
  was given as a float.

The automaton of plain decimals is described in `number_digits`. In scientific notation the mantissa is compared with
the digits of the bounds, from the first that is not 0, and decides with which exponents the value is in the set: a
union of intervals of integers, which is lowered by the same means.

Plain decimals with larger divisors than `MAX_MODULUS` get no automaton: see `number_lazy`.

The result is a *plan*, a list of builder calls that does not depend on the builder and is remembered.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Literal, TypeAlias

from guiderail._core import Builder
from guiderail.errors import LimitError
from guiderail.frontends.json_schema.lowering.number_digits import EACH, Plain, Range, Side, digits_of, runs, split
from guiderail.frontends.json_schema.lowering.number_lazy import table
from guiderail.frontends.json_schema.lowering.number_plan import (
    DEAD,
    DIGIT,
    DIGITS,
    Expansion,
    Explorer,
    Plan,
    State,
    charset,
)
from guiderail.frontends.json_schema.lowering.number_residues import Residues
from guiderail.frontends.json_schema.options import MOST_DIGITS
from guiderail.frontends.json_schema.values.grids import EVERYTHING, NOTHING, Grid, in_grid, integral
from guiderail.frontends.json_schema.values.numbers import Numbers
from guiderail.support.caches import cached
from guiderail.support.options import check_choice, check_integer
from guiderail.support.work import spend

__all__ = ["MANTISSA_DIGITS", "MAX_SCIENTIFIC_STATES", "NumberSpelling", "lower_numbers"]

MANTISSA_DIGITS: Final = 16
"""Maximum digits after the point of a mantissa if there is a divisor: 17 in all, what ``repr`` of a float needs."""
MAX_SCIENTIFIC_STATES: Final = 2000
MAX_MODULUS: Final = 1000
"""The greatest modulus for which an automaton is made in advance; beyond it, the core reads numbers digit by digit."""
REPR_DECIMALS: Final = 4
"""Maximum decimals of a divisor whose multiples ``repr`` writes plainly (below 10**16)."""


@dataclass(frozen=True, slots=True)
class NumberSpelling:
    """How numbers may be written.

    Attributes:
        integers: "plain": ``12``; "any": also ``12.0``, ``1.2e1``, wherever the value is an integer of the set.
        max_integer_digits: digits before the point of a plain decimal (None: no cap). Values alone are exempt.
        max_fraction_digits: digits after the point, of mantissas too (None: no cap). Values alone are exempt.
        exponents: whether scientific notation is written at all.
        max_states: size of an automaton made in advance; beyond it the core reads plain decimals as they come.
            For scientific notation `LimitError` is raised.
    """

    integers: Literal["plain", "any"] = "plain"
    max_integer_digits: int | None = None
    max_fraction_digits: int | None = None
    exponents: bool = True
    max_states: int = 20_000

    def __post_init__(self) -> None:
        check_choice("integers", self.integers, ("plain", "any"), code="bad-option")
        check_integer("max_integer_digits", self.max_integer_digits, 1, MOST_DIGITS, optional=True, code="bad-option")
        check_integer("max_fraction_digits", self.max_fraction_digits, 0, MOST_DIGITS, optional=True, code="bad-option")
        check_integer("max_states", self.max_states, 1, code="bad-option")


DEFAULT: Final = NumberSpelling()


# -- scientific notation ---------------------------------------------------------------------------------------------
Piece: TypeAlias = tuple["int | None", "int | None"]
ANY_EXPONENT: Final[tuple[Piece, ...]] = ((None, None),)
_INTEGRAL = Residues([NOTHING, EVERYTHING])


def _join(pieces: Iterable[Piece]) -> tuple[Piece, ...]:
    """A union of intervals of integers in normal form."""
    found: list[Piece] = []
    for low, high in sorted(pieces, key=lambda p: (p[0] is not None, p[0] or 0)):
        if found:
            last_low, last = found[-1]
            if last is None or (low is not None and low <= last + 1) or low is None:
                if last is not None and (high is None or high > last):
                    found[-1] = last_low, high
                continue
        found.append((low, high))
    return tuple(found)


@cached(4 << 20, lambda plan, _: plan.weight)
def _exponent_plan(pieces: tuple[Piece, ...]) -> Plan:
    """``[+-]?[0-9]+`` with the value in a union of intervals, in normal form and not empty."""
    plan = _made_exponent_plan(pieces)
    plan.close()
    return plan


def _made_exponent_plan(pieces: tuple[Piece, ...]) -> Plan:
    plan = Plan(DEFAULT.max_states)
    if pieces == ANY_EXPONENT:
        more = plan.state(True, {}, DIGITS)
        first = plan.state(False, {more: DIGITS})
        plan.roots.append(plan.state(False, {first: b"+-", more: DIGITS}))
        return plan
    mirrored = _join([(_minus(high), _minus(low)) for low, high in pieces])
    up = Plain(plan, _exponent_side(pieces), _INTEGRAL, [False, False], None)
    down = Plain(plan, _exponent_side(mirrored), _INTEGRAL, [False, False], None)
    targets: dict[int, bytes] = {}
    for values, explorer, state in [
        (b"+", up.explorer, (Plain.LEADING, True)),
        (b"-", down.explorer, (Plain.LEADING, True)),
        (b"0", up.explorer, (Plain.LEADING, False)),
        *[(values, up.explorer, state) for values, state in up.begin()[1:] if state],
    ]:
        node = explorer.node(state)
        targets[node] = targets.get(node, b"") + values
    plan.roots.append(plan.state(False, targets))
    return plan


def _exponent_side(pieces: tuple[Piece, ...]) -> Side:
    side = Side([Fraction(0)], [0], [0])
    for low, high in pieces:
        if high is not None and high < 0:
            continue
        start = max(low or 0, 0)
        if start == 0:
            side.at[0] = 1
        else:
            side.cuts.append(Fraction(start))
            side.at.append(1)
            side.above.append(0)
        if high == start:
            continue
        side.above[-1] = 1
        if high is not None:
            side.cuts.append(Fraction(high))
            side.at.append(1)
            side.above.append(0)
    return side


class Exponents:
    """The nodes of one plan for the text after an e."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.known: dict[tuple[Piece, ...], int] = {(): DEAD}

    def node(self, pieces: tuple[Piece, ...]) -> int:
        found = self.known.get(pieces)
        if found is None:
            found = self.known[pieces] = self.plan.graft(_exponent_plan(pieces))
        return found


def _minus(x: int | None) -> int | None:
    return None if x is None else -x


class Scientific:
    """Normalised scientific notation of one sign. States, where ``track`` is what divisors need (or None):

    ``(MANTISSA, phase, j, ranges, track, room)``  j digits read; per power of ten, the cuts with this prefix
    ``(APART, phase, labels, track, room)``        no cut has it; the label next to the cuts of each power
    ``(NOUGHT, phase, room)``                      the mantissa is 0 so far

    Phases: 0 before the point, 1 just after it, 2 later.
    """

    START: Final = 0
    MANTISSA: Final = 1
    APART: Final = 2
    NOUGHT: Final = 3

    def __init__(
        self,
        plan: Plan,
        side: Side,
        residues: Residues,
        dotted: list[bool],
        room: int | None,
        exponents: Exponents,
        wanted: bool,
    ) -> None:
        self.side, self.residues, self.dotted, self.room, self.exponents = side, residues, dotted, room, exponents
        self.free = [g == EVERYTHING for g in residues.grids]
        fits = wanted and residues.modulus * (MANTISSA_DIGITS + 1) <= MAX_SCIENTIFIC_STATES
        self.tracked = fits and any(dotted[i] and i and not self.free[i] for i in side.above)
        self.powers: list[int] = []
        self.ranges: list[Range] = []
        self.rows = [""]
        for i, cut in enumerate(side.cuts[1:], 1):
            whole, fraction = digits_of(cut)
            power = len(whole) - 1 if whole != "0" else len(fraction.lstrip("0")) - len(fraction) - 1
            self.rows.append((whole + fraction).strip("0"))
            if self.powers and self.powers[-1] == power:
                self.ranges[-1] = self.ranges[-1][0], i + 1
            else:
                self.powers.append(power)
                self.ranges.append((i, i + 1))
        self.explorer = Explorer(plan, self.expand)

    def expand(self, state: State) -> Expansion:
        if state[0] == self.MANTISSA:
            return self._mantissa(*state[1:])
        if state[0] == self.APART:
            return self._apart(*state[1:])
        if state[0] == self.NOUGHT:
            _, phase, room = state
            edges: list[tuple[bytes, State | None]] = []
            if phase == 0 and room != 0:
                edges.append((b".", (self.NOUGHT, 1, room)))
            if phase and room != 0:
                edges.append((b"0", (self.NOUGHT, 2, None if room is None else room - 1)))
            return False, edges, {} if phase == 1 else {self.exponents.node(ANY_EXPONENT): b"Ee"}
        return False, self.begin(), {}

    def begin(self) -> list[tuple[bytes, State | None]]:
        """The edges of the start: 0, then 1 to 9."""
        zero = self.side.at[0]
        zero_in = self.dotted[zero] and in_grid(Fraction(0), self.residues.grids[zero])
        edges: list[tuple[bytes, State | None]] = [(b"0", (self.NOUGHT, 0, self.room) if zero_in else None)]
        splits = [split(self.rows, low, high, 0) for low, high in self.ranges]
        for values, d in EACH if self.tracked else runs(self.rows, self.ranges, 0):
            values, d = (values, d) if d else (values[1:], 1)  # not 0
            if not values:
                continue
            track = (0, d % self.residues.modulus, 0, d % self.residues.modulus) if self.tracked else None
            edges.append((values, self._next(0, 1, tuple([s[d] for s in splits]), track, self.room)))
        return edges

    def _next(
        self, phase: int, j: int, ranges: tuple[Range, ...], track: State | None, room: int | None
    ) -> State | None:
        for low, high in ranges:
            if low != high:
                longest = max(len(self.rows[i]) for low, high in ranges for i in range(low, high))
                return self.MANTISSA, phase, min(j, longest), ranges, track, room
        return self.APART, phase, tuple(self.side.above[low - 1] for low, _ in ranges), track, room

    def _follow(self, track: State | None, digit: int, phase: int) -> State | None:
        """``(digits after the point, residue, the same without a lone zero)``; () if it cannot continue."""
        if not track:
            return track
        k, r, _, _ = track
        if k == MANTISSA_DIGITS:
            return ()
        after = (10 * r + digit) % self.residues.modulus
        if digit:
            return k + 1, after, k + 1, after
        return (k + 1, after, 0, r) if phase == 1 else (k + 1, after, -1, 0)

    def _exponent(self, labels: list[int], track: State | None) -> int:
        """The node of the exponents with which the mantissa read so far is in the set."""
        above, ranges = self.side.above, self.ranges
        pieces: list[Piece] = []
        end: int | None = None
        parts: list[tuple[int | None, int | None, int]] = []
        for i, power in enumerate(self.powers):
            before = above[ranges[i][0] - 1]
            if end is None or end + 1 < power:
                parts.append((None if end is None else end + 1, power - 1, before))
            parts.append((power, power, labels[i]))
            end = power
        parts.append((None if end is None else end + 1, None, above[-1]))
        for low, high, label in parts:
            if not label or not self.dotted[label]:
                continue
            if self.free[label]:
                pieces.append((low, high))
            elif track and track[2] >= 0:
                for a, b in self.residues.exponents(label, track[2], track[3]):
                    start = a if low is None else low if a is None else max(a, low)
                    stop = b if high is None else high if b is None else min(b, high)
                    if start is None or stop is None or start <= stop:
                        pieces.append((start, stop))
        return self.exponents.node(_join(pieces))

    def _mantissa(
        self, phase: int, j: int, ranges: tuple[Range, ...], track: State | None, room: int | None
    ) -> Expansion:
        if phase == 0:
            edges: list[tuple[bytes, State | None]] = (
                [(b".", (self.MANTISSA, 1, j, ranges, track, room))] if room != 0 else []
            )
        else:
            edges = self._digits(phase, j, ranges, track, room)
        if phase == 1:
            return False, edges, {}
        labels = [
            self.side.at[low] if low < high and len(self.rows[low]) <= j else self.side.above[low - 1]
            for low, high in ranges
        ]
        return False, edges, {self._exponent(labels, track): b"Ee"}

    def _digits(
        self, phase: int, j: int, ranges: tuple[Range, ...], track: State | None, room: int | None
    ) -> list[tuple[bytes, State | None]]:
        if room == 0:
            return []
        left = None if room is None else room - 1
        splits = [split(self.rows, low, high, j) for low, high in ranges]
        return [
            (values, self._next(2, j + 1, tuple([s[d] for s in splits]), self._follow(track, d, phase), left))
            for values, d in (EACH if track else runs(self.rows, ranges, j))
        ]

    def _apart(self, phase: int, labels: tuple[int, ...], track: State | None, room: int | None) -> Expansion:
        edges: list[tuple[bytes, State | None]] = []
        if phase == 0:
            if room != 0:
                edges.append((b".", (self.APART, 1, labels, track, room)))
        elif room != 0:
            left = None if room is None else room - 1
            if track:
                edges = [(DIGIT[d], (self.APART, 2, labels, self._follow(track, d, phase), left)) for d in range(10)]
            else:
                edges = [(DIGITS, (self.APART, 2, labels, track, left))]
        fixed = {} if phase == 1 else {self._exponent(list(labels), track): b"Ee"}
        return False, edges, fixed


# -- everything together ---------------------------------------------------------------------------------------------
def _texts(value: Fraction, is_float: bool, exponents: bool) -> list[str]:
    """The spellings of a value alone."""
    spend(15)
    sign = "-" if value < 0 else ""
    whole, fraction = digits_of(abs(value))
    found = [f"{sign}{whole}.{fraction}" if fraction else f"{sign}{whole}"]
    if is_float and not fraction:
        found.append(f"{sign}{whole}.0")
        if not value:
            found.append("-0.0")
    if is_float or fraction:
        try:
            written = repr(float(value))
        except OverflowError:
            return found
        if "inf" not in written and (exponents or "e" not in written) and Fraction(written) == value:
            found.append(written)
    return list(dict.fromkeys(found))


def _bounded(side: Side, bound: Fraction | None) -> Side:
    if bound is None:
        return side
    keep = bisect_left(side.cuts, bound)
    return Side([*side.cuts[:keep], bound], [*side.at[:keep], 0], [*side.above[:keep], 0])


class Spelling:
    """Builds the plan of one set."""

    def __init__(self, numbers: Numbers, spelling: NumberSpelling) -> None:
        self.numbers, self.spelling = numbers, spelling
        self.plan = Plan(spelling.max_states)
        self.any = spelling.integers == "any"
        self.grids: list[Grid] = [NOTHING]
        self.dotted = [False]
        self.alone: list[Fraction] = []
        self.choice: list[bytes] = []
        self.labels: dict[tuple[Grid, bool], int] = {}

    def label(self, grid: Grid, dotted: bool) -> int:
        if not grid:
            return 0
        found = self.labels.get((grid, dotted))
        if found is None:
            found = self.labels[grid, dotted] = len(self.grids)
            self.grids.append(grid)
            self.dotted.append(dotted)
        return found

    def build(self) -> Plan:
        cuts, grids, at = self.numbers.parts()
        labels = [self.label(g, self.any or self.numbers.decimal or not integral(g)) for g in grids]
        points: list[int] = []
        for i, cut in enumerate(cuts):
            label = 0
            if at[i]:
                beside = [labels[j] for j in (i + 1, i) if in_grid(cut, grids[j])]
                if beside:
                    label = next((n for n in beside if self.dotted[n]), beside[0])
                elif self.any and cut.denominator == 1:
                    label = self.label(EVERYTHING, True)
                else:
                    self.alone.append(cut)
            points.append(label)
        if self.alone:
            texts = [t for c in self.alone for t in _texts(c, c in self.numbers.floats, self.spelling.exponents)]
            self.choice = [t.encode() for t in texts]
        if not any(labels) and not any(points):
            self.plan.choice = self.choice
            return self.plan
        self.residues = Residues(self.grids)
        sides = self._sides(cuts, labels, points)
        if self.residues.modulus <= MAX_MODULUS:
            try:
                return self._lower_sides(*sides, lazy=False)
            except LimitError as error:
                if error.code != "number-states":
                    raise
        return self._lower_sides(*sides, lazy=True)

    def _lower_sides(self, up: Side, down: Side, lazy: bool) -> Plan:
        plan = self.plan = Plan(self.spelling.max_states)
        plan.choice = self.choice
        if self.spelling.max_integer_digits is not None:
            bound = Fraction(10**self.spelling.max_integer_digits)
        else:
            bound = None
        self.exponents = Exponents(plan)
        mirrored = up == down
        if lazy:
            self._lazily(up, bound, False)
            self._lazily(down, bound, True)
        else:
            found = self._plain(up, bound, self.residues)
            self._root(found, found if mirrored else self._plain(down, bound, self.residues))
        if self.spelling.exponents and any(self.dotted):
            found = self._scientific(up)
            self._root(found, found if mirrored else self._scientific(down))
        return plan

    def _sides(self, cuts: Sequence[Fraction], labels: list[int], points: list[int]) -> tuple[Side, Side]:
        """The magnitudes above and below 0; a cut with nothing around it is left out."""
        i = bisect_left(cuts, 0)
        j = i
        zero = labels[i]
        if i < len(cuts) and cuts[i] == 0:
            zero = points[i]
            j = i + 1
        up, down = Side([Fraction(0)], [zero], [labels[j]]), Side([Fraction(0)], [zero], [labels[i]])
        for n in range(j, len(cuts)):
            if points[n] or labels[n] or labels[n + 1]:
                up.cuts.append(cuts[n])
                up.at.append(points[n])
                up.above.append(labels[n + 1])
        for n in range(i - 1, -1, -1):
            if points[n] or labels[n] or labels[n + 1]:
                down.cuts.append(-cuts[n])
                down.at.append(points[n])
                down.above.append(labels[n])
        if not self.dotted[zero]:
            down.at[0] = 0  # no -0 among integers
        return up, down

    def _whole_grammar(self, side: Side) -> bool:
        """Whether all strings of the side, except perhaps 0, belong to the set: any mantissa goes with any exponent."""
        label = side.above[0]
        everything = self.dotted[label] and self.grids[label] == EVERYTHING
        return self.spelling.exponents and len(side.cuts) == 1 and everything

    def _plain(self, side: Side, bound: Fraction | None, residues: Residues) -> dict[int, bytes]:
        if not any(side.at) and not any(side.above):
            return {}
        tail = self.exponents.node(ANY_EXPONENT) if self._whole_grammar(side) else DEAD
        plain = Plain(self.plan, _bounded(side, bound), residues, self.dotted, self.spelling.max_fraction_digits, tail)
        return self._start(plain.explorer, plain.begin())

    def _lazily(self, side: Side, bound: Fraction | None, negative: bool) -> None:
        if not any(side.at) and not any(side.above):
            return
        if self._whole_grammar(side):  # the divisors have no effect then
            everything = side.above[0]
            plain = Side(side.cuts, [everything if in_grid(side.cuts[0], self.grids[side.at[0]]) else 0], side.above)
            free = Residues([g if g == EVERYTHING else NOTHING for g in self.grids])
            found = self._plain(plain, bound, free)
            self._root({} if negative else found, found if negative else {})
            return
        room = self.spelling.max_fraction_digits
        self.plan.lazy.append((negative, table(_bounded(side, bound), self.grids, self.dotted, room)))

    def _scientific(self, side: Side) -> dict[int, bytes]:
        if self._whole_grammar(side) or not any(self.dotted[i] for i in (*side.at, *side.above)):
            return {}
        room = self.spelling.max_fraction_digits
        wanted = self.any or self.residues.scale > REPR_DECIMALS
        scientific = Scientific(self.plan, side, self.residues, self.dotted, room, self.exponents, wanted)
        if not scientific.tracked and not any(scientific.free[i] and self.dotted[i] for i in side.above + side.at):
            return {}
        return self._start(scientific.explorer, scientific.begin())

    @staticmethod
    def _start(explorer: Explorer, edges: list[tuple[bytes, State | None]]) -> dict[int, bytes]:
        found: dict[int, bytes] = {}
        for values, state in edges:
            node = explorer.node(state) if state else DEAD
            found[node] = found.get(node, b"") + values
        found.pop(DEAD, None)
        return found

    def _root(self, up: dict[int, bytes], down: dict[int, bytes]) -> None:
        minus = self.plan.state(False, dict(down))
        edges = dict(up)
        edges[minus] = b"-" + edges.get(minus, b"")
        root = self.plan.state(False, edges)
        if root != DEAD:
            self.plan.roots.append(root)


@cached(32 << 20, lambda plan, *_: plan.weight)
def _plan(numbers: Numbers, spelling: NumberSpelling) -> Plan:
    plan = Spelling(numbers, spelling).build()
    plan.close()
    return plan


def lower_numbers(numbers: Numbers, builder: Builder, spelling: NumberSpelling | None = None) -> int:
    """The expression of the strings that spell the members of a set; ``builder.EMPTY`` if there are none.

    Raises:
        LimitError: "number-states": divisors with more than 30 digits, bounds with more than 400 next to them, or
            scientific notation that passes ``spelling.max_states``.
    """
    spelling = spelling or DEFAULT
    if numbers.is_all() and spelling.exponents and spelling.max_integer_digits is spelling.max_fraction_digits is None:
        return _grammar(builder)
    return _plan(numbers, spelling).replay(builder)


def _grammar(builder: Builder) -> int:
    """All JSON numbers: the same expression as from the plan, with a third of the calls."""
    concat, union, epsilon = builder.concat, builder.union, builder.EPSILON
    digit, nonzero, zero, minus, point, e, sign = [builder.char_class(charset(c)) for c in _GRAMMAR_SETS]
    some, more = builder.repeat(digit, 1), builder.repeat(digit, 0)
    exponent = concat((e, builder.repeat(sign, 0, 1), some))
    whole = union((zero, concat((nonzero, more))))
    return concat(
        (
            builder.repeat(minus, 0, 1),
            whole,
            union((epsilon, concat((point, some)))),
            union((epsilon, exponent)),
        )
    )


_GRAMMAR_SETS: Final = (DIGITS, DIGITS[1:], b"0", b"-", b".", b"Ee", b"+-")
