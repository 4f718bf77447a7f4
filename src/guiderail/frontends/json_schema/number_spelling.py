"""Sets of numbers as automata over their JSON spellings.

What is spelled, for a stretch of the number line between two cuts (and its ends where they belong to the set):

- only integers: plain digits, ``-?(0|[1-9][0-9]*)``, no ``-0`` (``integers="any"``: as the others);
- others: every plain decimal with its value in the set (``-0.0`` counts as zero, trailing zeros are free), and
  scientific notation: without bounds and divisors (or all from 0, above 0, …) the whole JSON grammar; with bounds the
  normalised form (one digit other than 0 before the point; any exponent sign, case and leading zeros; zero as ``0e5``),
  compared exactly. With a divisor of more than `REPR_DECIMALS` decimals, or ``integers="any"``, the mantissa has at
  most `MANTISSA_DIGITS` digits after its point and ends in no zero other than ``.0``; other divisors, and those that
  would take more than `MAX_SCIENTIFIC_STATES`, are spelled plainly only;
- a value alone: its shortest plain spelling, the ``repr`` of the float if that is exact and other, and ``N.0`` if it
  was given as a float.

The automaton. Digits come most significant first and the length of the integer part is unknown until its end. After k
digits a text still touches those cuts whose first k digits it has (*tight*), and lies between two neighbours otherwise
(*free*), separately for each length the cut may have. A free text only keeps which stretch it will end in for each
final length, so equal futures are equal states. Divisors add the residue of the digits read so far, reduced beforehand
to the classes that some continuation tells apart (Moore 1956). The exponent of a mantissa ranges over a union of
intervals of integers, which is lowered by the same means.

States are interned bottom-up, which makes the automaton minimal but for the residues; the result is a *plan*, a list
of builder calls that does not depend on the builder and is remembered.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final, Literal, NoReturn, TypeAlias

from guiderail._core import Builder, CharSet
from guiderail.errors import CompileError, LimitError
from guiderail.frontends.json_schema.numbers import EVERYTHING, NOTHING, Grid, Numbers, decimals, in_grid, integral

__all__ = ["MANTISSA_DIGITS", "MAX_SCIENTIFIC_STATES", "NumberSpelling", "lower"]

MANTISSA_DIGITS: Final = 16
"""Digits after the point of a mantissa where a divisor is to be obeyed: 17 in all, what ``repr`` of a float needs."""
MAX_SCIENTIFIC_STATES: Final = 2000
REPR_DECIMALS: Final = 4
"""Decimals up to which ``repr`` writes multiples of a divisor plainly (below 10**16)."""


@dataclass(frozen=True, slots=True)
class NumberSpelling:
    """How numbers may be written.

    Attributes:
        integers: "plain": ``12``; "any": also ``12.0``, ``1.2e1``, wherever the value is an integer of the set.
        max_integer_digits: digits before the point of a plain decimal (None: no cap). Values alone are exempt.
        max_fraction_digits: digits after the point, of mantissas too (None: no cap). Values alone are exempt.
        exponents: whether scientific notation is written at all.
        max_states: size of the automaton beyond which `LimitError` is raised.
    """

    integers: Literal["plain", "any"] = "plain"
    max_integer_digits: int | None = None
    max_fraction_digits: int | None = None
    exponents: bool = True
    max_states: int = 20_000

    def __post_init__(self) -> None:
        if self.integers not in ("plain", "any"):
            raise CompileError(f'integers must be "plain" or "any", not {self.integers!r}', code="bad-option")
        for name, least in (("max_integer_digits", 1), ("max_fraction_digits", 0), ("max_states", 1)):
            value = getattr(self, name)
            if value is None and name != "max_states":
                continue
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise CompileError(f"{name} must be an integer from {least} on, not {value!r}", code="bad-option")


DEFAULT: Final = NumberSpelling()

# -- plans -----------------------------------------------------------------------------------------------------------
Edges: TypeAlias = tuple[tuple[bytes, int], ...]  # disjoint sets of bytes -> node, sorted
DEAD: Final = -1
DIGITS: Final = b"0123456789"
_DIGIT: Final = tuple(bytes([b]) for b in DIGITS)


@lru_cache(maxsize=4096)
def _charset(values: bytes) -> CharSet:
    return CharSet([(b, b) for b in values])


class Plan:
    """A deterministic automaton whose nodes come after their targets, but for loops and groups.

    ``steps`` holds, in order: ``(accepts, edges, loop)``, a state with an edge to itself by the bytes ``loop``; or
    a list of states ``(accepts, edges)`` that may lead to one another, one node each.
    """

    def __init__(self, limit: int) -> None:
        self.steps: list[tuple[bool, Edges, bytes] | list[tuple[bool, Edges]]] = []
        self.count = 0
        self.limit = limit
        self.known: dict[tuple[bool, Edges], int] = {}
        self.roots: list[int] = []
        self.choice: list[bytes] = []

    def _grow(self, nodes: int) -> int:
        first = self.count
        self.count += nodes
        if self.count > self.limit:
            self.refuse()
        return first

    def refuse(self) -> NoReturn:
        raise LimitError(
            f"the numbers of this schema need an automaton of more than {self.limit} states; use a simpler "
            "multipleOf, bounds with fewer digits, or a higher limit (max_states)",
            code="number-states",
        )

    def state(self, accepts: bool, targets: dict[int, bytes], itself: bytes = b"") -> int:
        """A state with these edges (target -> bytes) and a loop; `DEAD` if nothing is accepted from it."""
        targets.pop(DEAD, None)
        if not targets and not accepts:
            return DEAD
        edges = tuple(sorted((b, t) for t, b in targets.items()))
        if not itself:
            key = (accepts, edges)
            found = self.known.get(key)
            if found is None:
                found = self.known[key] = self._grow(1)
                self.steps.append((accepts, edges, b""))
            return found
        key = (accepts, (*edges, (itself, DEAD)))
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = self._grow(1)
            self.steps.append((accepts, edges, itself))
            # a state that only leads into this one in the same way is this one
            self.known[accepts, tuple(sorted((*edges, (itself, found))))] = found
        return found

    def group(self, states: list[tuple[bool, dict[int, bytes]]], inside: list[list[int]]) -> list[int]:
        """States that lead to one another: ``inside[i][d]`` is the position after digit d; all can finish."""
        if len(states) == 1:
            accepts, targets = states[0]
            return [self.state(accepts, targets, DIGITS)]
        first = self._grow(len(states))
        members: list[tuple[bool, Edges]] = []
        for (accepts, targets), after in zip(states, inside, strict=True):
            targets.pop(DEAD, None)
            found = {t: b for t, b in targets.items()}
            for d, to in enumerate(after):
                found[first + to] = found.get(first + to, b"") + _DIGIT[d]
            members.append((accepts, tuple(sorted((b, t) for t, b in found.items()))))
        self.steps.append(members)
        return list(range(first, first + len(states)))

    def replay(self, builder: Builder) -> int:
        """The expression of all roots and the choice; ``builder.EMPTY`` if there is nothing."""
        if not self.roots:
            return builder.choice(self.choice) if self.choice else builder.EMPTY
        concat, union, repeat, char_class = builder.concat, builder.union, builder.repeat, builder.char_class
        epsilon = builder.EPSILON
        made: list[int] = []
        sets: dict[bytes, int] = {}

        def one(values: bytes) -> int:
            e = sets.get(values)
            if e is None:
                e = sets[values] = char_class(_charset(values))
            return e

        for step in self.steps:
            if type(step) is list:
                self._replay_group(builder, step, made, one)
                continue
            accepts, edges, itself = step
            parts = [epsilon] if accepts else []
            for values, target in edges:
                to = made[target]
                parts.append(one(values) if to == epsilon else concat((one(values), to)))
            e = parts[0] if len(parts) == 1 else union(parts)
            made.append(concat((repeat(one(itself), 0), e)) if itself else e)
        if len(self.roots) == 1 and not self.choice:
            return made[self.roots[0]]
        results = [made[root] for root in self.roots]
        if self.choice:
            results.append(builder.choice(self.choice))
        return union(results)

    def _replay_group(
        self, builder: Builder, members: list[tuple[bool, Edges]], made: list[int], one: Callable[[bytes], int]
    ) -> None:
        first = len(made)

        def leaving(accepts: bool, edges: Edges) -> list[int]:
            out = [builder.concat([one(b), made[t]]) for b, t in edges if t < first]
            return [*out, builder.EPSILON] if accepts else out

        def between(i: int, j: int) -> int:
            return builder.union([one(b) for b, t in members[i][1] if t == first + j])

        if len(members) == 2:  # by elimination: two states need no rules
            for i, j in ((0, 1), (1, 0)):
                away = builder.concat([between(i, j), builder.repeat(between(j, j), 0)])
                around = builder.repeat(builder.union([between(i, i), builder.concat([away, between(j, i)])]), 0)
                out = builder.union(leaving(*members[i]))
                other = builder.concat([away, builder.union(leaving(*members[j]))])
                made.append(builder.concat([around, builder.union([out, other])]))
            return
        rules = [builder.rule(f"residue {i}") for i in range(len(members))]
        for rule, (accepts, edges) in zip(rules, members, strict=True):
            parts = leaving(accepts, edges)
            parts.extend(builder.concat([one(b), rules[t - first]]) for b, t in edges if t >= first)
            builder.define(rule, builder.union(parts))
        made.extend(rules)


State: TypeAlias = tuple[Any, ...]
Expansion: TypeAlias = "tuple[bool, list[tuple[bytes, State | None]], dict[int, bytes]] | int"
"""A node made already, or: accepts, edges to states (None: dead) in rising order of bytes, edges to nodes made before."""


class Explorer:
    """Makes nodes of states depth first, without recursion. A state may lead to itself, but to no other cycle."""

    def __init__(self, plan: Plan, expand: Callable[[State], Expansion]) -> None:
        self.plan = plan
        self.expand = expand
        self.done: dict[State | None, int] = {None: DEAD}

    def node(self, root: State) -> int:
        done, expand = self.done, self.expand
        waiting: dict[State, Expansion] = {}
        stack = [root]
        while stack:
            state = stack[-1]
            if state in done:
                stack.pop()
                continue
            expansion = waiting.pop(state, None)
            if expansion is None:
                expansion = expand(state)
                if isinstance(expansion, int):
                    done[state] = expansion
                    continue
                missing = [t for _, t in expansion[1] if t not in done and t != state]
                if missing:
                    waiting[state] = expansion
                    stack.extend(missing)  # type: ignore[arg-type]  # None is done
                    continue
            accepts, edges, targets = expansion
            itself = b""
            for values, to in edges:
                if to == state:
                    itself += values
                else:
                    node = done[to]
                    targets[node] = targets[node] + values if node in targets else values
            done[state] = self.plan.state(accepts, targets, itself)
            if len(done) > 20 * self.plan.limit:
                self.plan.refuse()
            stack.pop()
        return done[root]


# -- what the digits read so far are a multiple of -------------------------------------------------------------------
def _refine(colours: Sequence[Hashable], after: list[list[int]]) -> list[int]:
    """The coarsest classes that respect the colours and the moves (Moore 1956), numbered by first appearance."""
    classes: list[int] = []
    count = 0
    keys: Sequence[Hashable] = colours
    while True:
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

    def __init__(self, grids: list[Grid], limit: Plan) -> None:
        steps = {q for grid in grids for m, ns in grid for q in ([m, *ns] if m is not None else ns)}
        self.none = not steps
        self.grids = grids
        self.scale = max((decimals(q.denominator) or 0 for q in steps), default=0)
        unit = 10**self.scale
        self.modulus = math.lcm(*(int(q * unit) for q in steps)) if steps else 1
        if self.modulus > limit.limit:
            limit.refuse()
        self.parts = [[(m and int(m * unit), [int(n * unit) for n in ns]) for m, ns in grid] for grid in grids]
        self.memo: dict[tuple[int, int], bool] = {}
        self.start = 0
        if self.none:
            self.after, self.values = [[0] * 10], [0]
            return
        number = {0: 0}
        values = [0]
        rows: list[list[int]] = []
        for v in values:  # grows while it is read
            row = []
            for d in range(10):
                to = (10 * v + d * unit) % self.modulus
                if to not in number:
                    number[to] = len(values)
                    values.append(to)
                row.append(number[to])
            rows.append(row)
        colours = self._futures()
        classes = _refine([colours[v] for v in values], rows)
        first: dict[int, int] = {}
        for i, c in enumerate(classes):
            first.setdefault(c, i)
        self.values = [values[i] for i in first.values()]  # of each class, one
        self.after = [[classes[t] for t in rows[i]] for i in first.values()]

    def _futures(self) -> list[Hashable]:
        """For each value before the point, what is told apart by the digits after it."""
        m = self.modulus
        futures: list[Hashable] = [tuple(self.has(i, (self.scale, v)) for i in range(len(self.grids))) for v in range(m)]
        if self.scale and m * self.scale > 200_000:
            return list(range(m))
        for j in range(self.scale - 1, -1, -1):
            shifts = [d * 10 ** (self.scale - j - 1) for d in range(10)]
            numbers: dict[Hashable, int] = {}
            futures = [
                numbers.setdefault((futures[v], *[futures[(v + s) % m] for s in shifts]), len(numbers)) for v in range(m)
            ]
        return futures

    def settled(self, grid: int, residue: tuple[int, int]) -> tuple[int, int]:
        """The residue, or `GENERIC` where the grid does not look at it."""
        return GENERIC if self.grids[grid] == EVERYTHING else residue

    def has(self, grid: int, residue: tuple[int, int]) -> bool:
        """Whether a text with this residue, ending here, is in the grid."""
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

    def exponents(self, grid: int, k: int, mantissa: int) -> list[tuple[int | None, int | None]]:
        """For which x an integer with this value modulo M and no factor 10 is in the grid, times 10**(x - k).

        It is a multiple of P = 2**a 5**b p (in units of 10**-s) if p divides it and the power of ten supplies the twos
        and fives that it lacks: from some x on.
        """

        def least(step: int) -> int | None:
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


# -- one sign --------------------------------------------------------------------------------------------------------
def digits_of(value: Fraction) -> tuple[str, str]:
    """The digits of a decimal from 0 on, before and after the point; no trailing zeros."""
    scale = decimals(value.denominator)
    assert scale is not None
    number = value.numerator * (10**scale // value.denominator)
    # str() refuses long integers (sys.set_int_max_str_digits), Decimal does not
    text = str(number) if number.bit_length() < 2000 else format(Decimal(number), "f")
    if not scale:
        return text, ""
    text = text.zfill(scale + 1)
    return text[:-scale], text[-scale:]


@dataclass(slots=True)
class Side:
    """Magnitudes of one sign: ``cuts[0]`` is 0; ``at[i]`` and ``above[i]`` are the labels of a cut and of what lies
    between it and the next. Labels are positions in `Spelling.grids`; 0: nothing."""

    cuts: list[Fraction]
    at: list[int]
    above: list[int]


Range: TypeAlias = tuple[int, int]


def _split(rows: list[str], low: int, high: int, place: int) -> list[Range]:
    """The ranges of rows low..high (sorted, equal before ``place``) by their digit there; missing digits are 0."""
    found: list[Range] = []
    i = low
    for d in "0123456789":
        start = i
        while i < high and (rows[i][place] if place < len(rows[i]) else "0") == d:
            i += 1
        found.append((start, i))
    return found


class Plain:
    """Plain decimals of one sign. States:

    ``(INT, k, ranges, c)``     k digits read; per length from k on, the cuts that begin so
    ``(FREE, labels, c)``       no cut begins so; the label for each length, the last one's stands for all longer
    ``(ZERO, range)``           the integer part is 0
    ``(TIGHT, range, j, r, room, fresh)``  j digits after the point, with cuts that begin so
    ``(LOOSE, label, r, room, fresh)``     after the point, between cuts; fresh: no digit yet
    ``(LEADING, fresh)``        zeros before an exponent
    """

    START, INT, FREE, ZERO, TIGHT, LOOSE, LEADING = range(7)

    def __init__(
        self, plan: Plan, side: Side, residues: Residues, dotted: list[bool], room: int | None, tail: int = DEAD
    ) -> None:
        self.plan, self.residues, self.dotted, self.room, self.tail = plan, residues, dotted, room, tail
        self.at, self.above = side.at, side.above
        pairs = [digits_of(c) for c in side.cuts]
        self.whole = [p[0] for p in pairs]
        self.fraction = [p[1] for p in pairs]
        self.lengths: list[Range] = []  # of the integer parts, from 1 on
        i = 0
        for size in range(1, len(self.whole[-1]) + 1):
            start = i
            while i < len(pairs) and len(self.whole[i]) == size:
                i += 1
            self.lengths.append((start, i))
        self.explorer = Explorer(plan, self.expand)
        self.loop: list[int] | None = None

    def expand(self, state: State) -> Expansion:
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
        splits = [_split(self.whole, low, high, 0) for low, high in self.lengths]
        edges: list[tuple[bytes, State | None]] = [(b"0", (self.ZERO, splits[0][0]))]
        after = self.residues.after[self.residues.start]
        for d in range(1, 10):
            edges.append((_DIGIT[d], self._number(1, tuple(s[d] for s in splits), after[d])))
        return edges

    def _number(self, k: int, ranges: tuple[Range, ...], c: int) -> State | None:
        for low, high in ranges:
            if low != high:
                return self.INT, k, ranges, c
        return self._released(tuple(self.above[low - 1] for low, _ in ranges), c)

    def _released(self, labels: tuple[int, ...], c: int) -> State | None:
        last = self.above[-1]
        size = len(labels)
        while size and labels[size - 1] == last:
            size -= 1
        if not size and not last:
            return None
        return self.FREE, labels[:size], c

    def _accept(self, accepts: bool, fixed: dict[int, bytes]) -> None:
        if accepts and self.tail != DEAD:
            fixed[self.tail] = b"Ee"

    def _ends_here(self, here: Range, c: int) -> tuple[bool, list[tuple[bytes, State | None]], dict[int, bytes]]:
        """What is accepted if the integer part is complete: the number itself, or a point."""
        low, high = here
        residue = self.residues.point(c)
        exactly = low < high and not self.fraction[low]
        label = self.at[low] if exactly else self.above[low - 1]
        accepts = self.residues.has(label, residue)
        fixed: dict[int, bytes] = {}
        self._accept(accepts, fixed)
        point = self._after_point(low, high, 0, residue, self.room, True) if self.room != 0 else None
        return accepts, [(b".", point)] if point else [], fixed

    def _int(self, k: int, ranges: tuple[Range, ...], c: int) -> Expansion:
        accepts, edges, fixed = self._ends_here(ranges[0], c)
        splits = [_split(self.whole, low, high, k) for low, high in ranges[1:]]
        after = self.residues.after[c]
        for d in range(10):
            edges.append((_DIGIT[d], self._number(k + 1, tuple(s[d] for s in splits), after[d])))
        return accepts, edges, fixed

    def _free(self, labels: tuple[int, ...], c: int) -> Expansion:
        if not labels:
            return self._forever(c)
        residue = self.residues.point(c)
        accepts = self.residues.has(labels[0], residue)
        fixed: dict[int, bytes] = {}
        self._accept(accepts, fixed)
        edges: list[tuple[bytes, State | None]] = []
        if self.dotted[labels[0]] and self.room != 0:
            edges.append((b".", self._loosen(labels[0], residue, self.room, True)))
        rest = labels[1:]
        for d, to in enumerate(self.residues.after[c]):
            edges.append((_DIGIT[d], self._released(rest, to)))
        return accepts, edges, fixed

    def _forever(self, c: int) -> int:
        """Any number of digits more: the classes of residues lead to one another."""
        if self.loop is None:
            label, residues = self.above[-1], self.residues
            at_point = [residues.point(i) for i in range(len(residues.values))]
            accept = [residues.has(label, r) for r in at_point]
            points = [DEAD] * len(accept)
            if self.dotted[label] and self.room != 0:
                points = [self.explorer.node(self._loosen(label, r, self.room, True)) for r in at_point]
            classes = _refine(list(zip(accept, points, strict=True)), residues.after)
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
        if residue == GENERIC:
            return accepts, [(DIGITS, (self.LOOSE, label, GENERIC, left, False))], fixed
        step = self.residues.next
        return accepts, [(_DIGIT[d], self._loosen(label, step(residue, d), left, False)) for d in range(10)], fixed

    def _tight(
        self, low: int, high: int, j: int, residue: tuple[int, int], room: int | None, fresh: bool
    ) -> Expansion:
        label = self.at[low] if len(self.fraction[low]) <= j else self.above[low - 1]
        accepts = not fresh and self.dotted[label] and self.residues.has(label, residue)
        fixed: dict[int, bytes] = {}
        self._accept(accepts, fixed)
        if room == 0:
            return accepts, [], fixed
        left = None if room is None else room - 1
        edges: list[tuple[bytes, State | None]] = []
        for d, (start, end) in enumerate(_split(self.fraction, low, high, j)):
            to = self._after_point(start, end, j + 1, self.residues.next(residue, d), left, False)
            edges.append((_DIGIT[d], to))
        return accepts, edges, fixed


# -- scientific notation ---------------------------------------------------------------------------------------------
Piece: TypeAlias = tuple["int | None", "int | None"]
ANY_EXPONENT: Final[tuple[Piece, ...]] = ((None, None),)
_INTEGRAL = Residues([NOTHING, EVERYTHING], Plan(1))


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


class Exponents:
    """``[eE][+-]?[0-9]+`` (without its first letter) with the value in a union of intervals."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.known: dict[tuple[Piece, ...], int] = {(): DEAD}

    def node(self, pieces: tuple[Piece, ...]) -> int:
        found = self.known.get(pieces)
        if found is None:
            up = Plain(self.plan, self._side(pieces), _INTEGRAL, [False, False], None)
            down = Plain(
                self.plan, self._side(_join((_minus(b), _minus(a)) for a, b in pieces)), _INTEGRAL, [False, False], None
            )
            zeros = up.explorer.node((Plain.LEADING, False))
            signed, minus = up.explorer.node((Plain.LEADING, True)), down.explorer.node((Plain.LEADING, True))
            targets: dict[int, bytes] = {}
            for values, node in [(b"+", signed), (b"-", minus), (b"0", zeros)]:
                targets[node] = targets.get(node, b"") + values
            for values, state in up.begin()[1:]:
                node = up.explorer.node(state) if state else DEAD
                targets[node] = targets.get(node, b"") + values
            found = self.known[pieces] = self.plan.state(False, targets)
        return found

    @staticmethod
    def _side(pieces: tuple[Piece, ...]) -> Side:
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


def _minus(x: int | None) -> int | None:
    return None if x is None else -x


class Scientific:
    """Normalised scientific notation of one sign. States, where ``track`` is what divisors need (or None):

    ``(MANTISSA, phase, j, ranges, track, room)``  j digits read; per power of ten, the cuts whose digits begin so
    ``(APART, phase, labels, track, room)``        no cut does; the label beside the cuts of each power
    ``(NOUGHT, phase, room)``                      the mantissa is 0 so far

    Phases: 0 before the point, 1 just after it, 2 later.
    """

    START, MANTISSA, APART, NOUGHT = range(4)

    def __init__(
        self, plan: Plan, side: Side, residues: Residues, dotted: list[bool], room: int | None, exponents: Exponents,
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
        zero = self.side.at[0]
        zero_in = self.dotted[zero] and in_grid(Fraction(0), self.residues.grids[zero])
        edges = [(b"0", (self.NOUGHT, 0, self.room) if zero_in else None)]
        splits = [_split(self.rows, low, high, 0) for low, high in self.ranges]
        for d in range(1, 10):
            track = (0, d % self.residues.modulus, 0, d % self.residues.modulus) if self.tracked else None
            edges.append((_DIGIT[d], self._next(0, 1, tuple(s[d] for s in splits), track, self.room)))
        return False, edges, {}

    def _next(
        self, phase: int, j: int, ranges: tuple[Range, ...], track: State | None, room: int | None
    ) -> State | None:
        for low, high in ranges:
            if low != high:
                longest = max(len(self.rows[i]) for low, high in ranges for i in range(low, high))
                return self.MANTISSA, phase, min(j, longest), ranges, track, room
        return self.APART, phase, tuple(self.side.above[low - 1] for low, _ in ranges), track, room

    def _follow(self, track: State | None, digit: int, phase: int) -> State | None:
        """``(digits after the point, residue, the same without a lone zero)``; () once there is no way on."""
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
            splits = [_split(self.rows, low, high, j) for low, high in ranges]
            edges = self._digits(phase, j, [[s[d] for s in splits] for d in range(10)], track, room)
        if phase == 1:
            return False, edges, {}
        labels = [
            self.side.at[low] if low < high and len(self.rows[low]) <= j else self.side.above[low - 1]
            for low, high in ranges
        ]
        return False, edges, {self._exponent(labels, track): b"Ee"}

    def _digits(
        self, phase: int, j: int, ranges: list[list[Range]], track: State | None, room: int | None
    ) -> list[tuple[bytes, State | None]]:
        if room == 0:
            return []
        left = None if room is None else room - 1
        return [
            (_DIGIT[d], self._next(2, j + 1, tuple(ranges[d]), self._follow(track, d, phase), left)) for d in range(10)
        ]

    def _apart(self, phase: int, labels: tuple[int, ...], track: State | None, room: int | None) -> Expansion:
        edges: list[tuple[bytes, State | None]] = []
        if phase == 0:
            if room != 0:
                edges.append((b".", (self.APART, 1, labels, track, room)))
        elif room != 0:
            left = None if room is None else room - 1
            if track:
                edges = [(_DIGIT[d], (self.APART, 2, labels, self._follow(track, d, phase), left)) for d in range(10)]
            else:
                edges = [(DIGITS, (self.APART, 2, labels, track, left))]
        fixed = {} if phase == 1 else {self._exponent(list(labels), track): b"Ee"}
        return False, edges, fixed


# -- everything together ---------------------------------------------------------------------------------------------
def _texts(value: Fraction, is_float: bool, exponents: bool) -> list[str]:
    """The spellings of a value alone."""
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


class Spelling:
    """Builds the plan of one set."""

    def __init__(self, numbers: Numbers, spelling: NumberSpelling) -> None:
        self.numbers, self.spelling = numbers, spelling
        self.plan = Plan(spelling.max_states)
        self.any = spelling.integers == "any"
        self.grids: list[Grid] = [NOTHING]
        self.dotted = [False]
        self.alone: list[Fraction] = []
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
        labels = [self.label(g, self.any or not integral(g)) for g in grids]
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
        plan = self.plan
        if self.alone:
            texts = [t for c in self.alone for t in _texts(c, c in self.numbers.floats, self.spelling.exponents)]
            plan.choice = [t.encode() for t in texts]
        if not any(labels) and not any(points):
            return plan
        up, down = self._sides(cuts, labels, points)
        if self.spelling.max_integer_digits is not None:
            bound = Fraction(10**self.spelling.max_integer_digits)
        else:
            bound = None
        self.residues = Residues(self.grids, plan)
        self.exponents = Exponents(plan)
        self._root([self._plain(up, bound), self._plain(down, bound)])
        if self.spelling.exponents and any(self.dotted):
            self._root([self._scientific(up), self._scientific(down)])
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
        """Whether every text of the side belongs, but perhaps 0: then any mantissa goes with any exponent."""
        label = side.above[0]
        return self.spelling.exponents and len(side.cuts) == 1 and self.dotted[label] and self.grids[label] == EVERYTHING

    def _plain(self, side: Side, bound: Fraction | None) -> dict[int, bytes]:
        tail = self.exponents.node(ANY_EXPONENT) if self._whole_grammar(side) else DEAD
        if bound is not None:
            keep = bisect_left(side.cuts, bound)
            side = Side([*side.cuts[:keep], bound], [*side.at[:keep], 0], [*side.above[:keep], 0])
        plain = Plain(self.plan, side, self.residues, self.dotted, self.spelling.max_fraction_digits, tail)
        return self._start(plain.explorer, plain.begin())

    def _scientific(self, side: Side) -> dict[int, bytes]:
        if self._whole_grammar(side):
            return {}
        room = self.spelling.max_fraction_digits
        wanted = self.any or self.residues.scale > REPR_DECIMALS
        scientific = Scientific(self.plan, side, self.residues, self.dotted, room, self.exponents, wanted)
        if not scientific.tracked and not any(scientific.free[i] and self.dotted[i] for i in side.above + side.at):
            return {}
        return self._start(scientific.explorer, scientific.expand((Scientific.START,))[1])

    @staticmethod
    def _start(explorer: Explorer, edges: list[tuple[bytes, State | None]]) -> dict[int, bytes]:
        found: dict[int, bytes] = {}
        for values, state in edges:
            node = explorer.node(state) if state else DEAD
            found[node] = found.get(node, b"") + values
        found.pop(DEAD, None)
        return found

    def _root(self, sides: list[dict[int, bytes]]) -> None:
        up, down = sides
        minus = self.plan.state(False, down)
        if minus != DEAD:
            up[minus] = b"-" + up.get(minus, b"")
        root = self.plan.state(False, up)
        if root != DEAD:
            self.plan.roots.append(root)


@lru_cache(maxsize=4096)
def plan_of(numbers: Numbers, spelling: NumberSpelling) -> Plan:
    return Spelling(numbers, spelling).build()


def lower(numbers: Numbers, builder: Builder, spelling: NumberSpelling | None = None) -> int:
    """See `Numbers.lower`."""
    return plan_of(numbers, spelling or DEFAULT).replay(builder)
