"""Arrays described by a formula over cells, and cells with many counters: those with too many states to write out.

As with objects (see `votes`), the values at each position are split into sets that have the same effect: which cells
they fail, which counters they increment. The core reads the items of an array by these sets and keeps the counts (see
``core/json/tallies.cpp``). Whether any array is left is decided here in the same way, before lowering.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from guiderail.frontends.json_schema.array_cells import and_array, not_array
from guiderail.frontends.json_schema.shape import ANY_ARRAY, TRUE, ArrayCell, Contains, Term
from guiderail.frontends.json_schema.votes import Mix, Numbered, holds
from guiderail.support.work import spend

if TYPE_CHECKING:
    from guiderail.frontends.json_schema.algebra import Algebra
    from guiderail.frontends.json_schema.satisfiable import Emptiness

__all__ = ["ArrayVote", "Tally", "comparing", "every", "many_states", "multiplied", "negation"]


class ArrayVote(ArrayCell):
    """Arrays described by a formula over cells (*all*, *any* and *not*), none of which requires that items differ or
    be equal.

    The fields that it shares with a cell are unrestricted: they hold for all arrays.

    Attributes:
        formula: over cells that are not votes.
    """

    __slots__ = ("formula",)

    def __init__(self, formula: Mix) -> None:
        super().__init__((), TRUE)
        self.formula = formula

    def key(self) -> tuple[Any, ...]:
        return ("vote", self.formula.key())

    def accepts(self, value: list[Any]) -> bool:
        return holds(self.formula, lambda cell: cell.accepts(value))


def many_states(cell: ArrayCell) -> bool:
    """Whether a cell has too many counts to write out in advance."""
    if cell.unique or cell.repeated or not cell.contains:
        return False
    states = max(1, len(cell.prefix), cell.min, cell.max or 0, *(c.start for c in cell.contains))
    for c in cell.contains:
        states *= c.min + 1 if c.max is None else c.max + 2
    return states > MOST_STATES


MOST_STATES = 256
"""Maximum number of combinations of positions and counts that are written out in advance."""

_Failed = frozenset[int]
_Counts = tuple[int, ...]
_State = tuple[int, int, _Failed, _Counts]  # position, items, cells that failed, counts
_Items = tuple[Term, _Failed, _Counts]  # values, cells that they fail, counters that go up


class Tally(Numbered[ArrayCell]):
    """A formula over cells of arrays, with numbered counters.

    Attributes:
        counters: of each the number of its cell.
    """

    __slots__ = ("_able", "_emptiness", "_places", "counters", "places")

    def __init__(self, emptiness: Emptiness, formula: Any) -> None:
        super().__init__()
        self._emptiness = emptiness
        self._places: dict[int, list[_Items]] = {}
        self._able: dict[_Failed, bool] = {}
        self._add(formula)
        self.counters: list[tuple[int, Contains]] = [(i, c) for i, cell in enumerate(self.cells) for c in cell.contains]
        self.places = 1 + max((len(cell.prefix) for cell in self.cells), default=0)
        self.places = max([self.places, *(1 + c.start for _, c in self.counters)])

    def at(self, place: int) -> list[_Items]:
        """The values allowed at a position (the last position stands for all later ones), split by their effect."""
        known = self._places.get(place)
        if known is None:
            known = self._places[place] = self._at(place)
        return known

    def _at(self, place: int) -> list[_Items]:
        emptiness = self._emptiness
        algebra = emptiness.algebra
        asked: dict[Term, tuple[set[int], set[int]]] = {}
        for i, cell in enumerate(self.cells):
            asked.setdefault(cell.item(place), (set(), set()))[0].add(i)
        for i, (_, c) in enumerate(self.counters):
            if place >= c.start:
                asked.setdefault(c.term, (set(), set()))[1].add(i)
        parts: list[tuple[Term, _Failed, frozenset[int]]] = [(TRUE, frozenset(), frozenset())]
        for term, (cells, counters) in asked.items():
            split = []
            for values, failed, counts in parts:
                spend(50)
                within = algebra.and_terms((values, term))
                if not emptiness.term(within):
                    split.append((within, failed, counts | counters))
                fails = failed | cells
                if term is TRUE or not self._can_hold(fails):
                    continue
                without = algebra.and_terms((values, algebra.not_term(term)))
                if not emptiness.term(without):
                    split.append((without, fails, counts))
            parts = split
            algebra._limit(len(parts))
        same: dict[tuple[_Failed, frozenset[int]], list[Term]] = {}
        for values, failed, counts in parts:
            live = frozenset(c for c in counts if self.counters[c][0] not in failed)
            same.setdefault((failed, live), []).append(values)
        return [(algebra.or_terms(values), failed, tuple(sorted(counts))) for (failed, counts), values in same.items()]

    def most_steps(self) -> int:
        """No array that is left needs more items than this: with each, some part of the state advances."""
        bounds = [(cell.min, cell.max) for cell in self.cells] + [(c.min, c.max) for _, c in self.counters]
        return self.places + len(self.cells) + sum(low if high is None else high + 1 for low, high in bounds)

    def _can_hold(self, failed: _Failed) -> bool:
        known = self._able.get(failed)
        if known is None:
            known = self._able[failed] = self.truth_if_failed(failed)[-1] is not False
        return known

    def _settled(self, state: _State) -> _State | None:
        place, items, failed, counts = state
        gone = set(failed)
        gone.update(i for i, cell in enumerate(self.cells) if cell.max is not None and items > cell.max)
        gone.update(i for (i, c), n in zip(self.counters, counts, strict=True) if c.max is not None and n > c.max)
        failed = frozenset(gone)
        if not self._can_hold(failed):
            return None
        asking = (cell for i, cell in enumerate(self.cells) if i not in failed)
        most = max((cell.min if cell.max is None else cell.max + 1 for cell in asking), default=0)
        cut = tuple(
            0 if i in failed else min(n, c.min if c.max is None else c.max + 1)
            for (i, c), n in zip(self.counters, counts, strict=True)
        )
        return min(place, self.places - 1), min(items, max(most, 1)), failed, cut

    def _holds(self, state: _State) -> bool:
        _, items, failed, counts = state
        cells = [i not in failed and items >= cell.min for i, cell in enumerate(self.cells)]
        for (i, c), n in zip(self.counters, counts, strict=True):
            cells[i] = cells[i] and n >= c.min
        return self.truth(cells)[-1] is True

    def _due(self, state: _State) -> int:
        """How much of the cells' requirements is missing: a heuristic for which way is short."""
        _, items, failed, counts = state
        missing = max((cell.min - items for i, cell in enumerate(self.cells) if i not in failed), default=0)
        return max(missing, 0) + sum(
            max(c.min - n, 0) for (i, c), n in zip(self.counters, counts, strict=True) if i not in failed
        )

    def is_empty(self) -> bool:
        """Whether no array is left. States only advance, so a depth-first search is exact."""
        start = self._settled((0, 0, frozenset(), (0,) * len(self.counters)))
        if start is None:
            return True
        if self._holds(start):
            return False
        dead: set[_State] = set()
        stack = [(start, self._ways(start))]
        while stack:
            state, ways = stack[-1]
            if not ways:
                dead.add(state)
                stack.pop()
                continue
            after = ways.pop()
            if after in dead or after == state:
                continue
            if self._holds(after):
                return False
            stack.append((after, self._ways(after)))
        return True

    def _ways(self, state: _State) -> list[_State]:
        """The states after one more item, the best last."""
        place, items, failed, counts = state
        found: dict[_State, None] = {}
        choices = self.at(place)
        spend(len(choices) * (20 + 2 * len(self.parts) + 2 * len(self.counters)))
        for _, fails, ups in choices:
            more = list(counts)
            for c in ups:
                more[c] += 1
            after = self._settled((place + 1, items + 1, failed | fails, tuple(more)))
            if after is not None:
                found[after] = None
        return sorted(found, key=self._due, reverse=True)


def every(unions: Iterable[tuple[ArrayCell, ...]]) -> tuple[ArrayCell, ...]:
    """The arrays in all of some unions, not multiplied out."""
    parts: dict[object, Any] = {}
    for cells in unions:
        if not cells:
            return ()
        found = [_formula(cell) for cell in cells]
        union = found[0] if len(found) == 1 else Mix("any", tuple(found))
        for part in union.parts if isinstance(union, Mix) and union.op == "all" else (union,):
            parts[part.key()] = part
    return (ArrayVote(Mix("all", tuple(parts.values()))),)


def negation(vote: ArrayVote) -> ArrayVote:
    return ArrayVote(vote.formula.parts[0] if vote.formula.op == "not" else Mix("not", (vote.formula,)))


def _formula(cell: ArrayCell) -> Any:
    return cell.formula if isinstance(cell, ArrayVote) else cell


def comparing(cells: tuple[ArrayCell, ...]) -> bool:
    """Whether a cell compares items with each other. A vote cannot."""
    return any(cell.unique or cell.repeated for cell in cells)


def multiplied(algebra: Algebra, cells: tuple[ArrayCell, ...]) -> tuple[ArrayCell, ...]:
    """The shape without votes, for use with lists of distinct items."""
    found: list[ArrayCell] = []
    for cell in cells:
        found += _product(algebra, cell.formula, True) if isinstance(cell, ArrayVote) else (cell,)
        algebra._limit(len(found))
    return tuple(found)


def _product(algebra: Algebra, formula: Any, wanted: bool) -> tuple[ArrayCell, ...]:
    if not isinstance(formula, Mix):
        return (formula,) if wanted else not_array(algebra, formula)
    if formula.op == "not":
        return _product(algebra, formula.parts[0], not wanted)
    parts = [_product(algebra, part, wanted) for part in formula.parts]
    if (formula.op == "any") == wanted:
        return tuple(cell for part in parts for cell in part)
    product: tuple[ArrayCell, ...] = (ANY_ARRAY,)
    for part in parts:
        algebra._limit(len(product) * len(part))
        cells = [cell for x in product for y in part if (cell := and_array(algebra, x, y)) is not None]
        product = algebra._distinct(cells)
    return product
