"""Arrays described by a formula over cells, and cells with many counters: those with too many states to write out.

As with objects (see `votes`), the values at each position are split into sets that have the same effect: which cells
they fail, which counters they increment. The core reads the items of an array by these sets and keeps the counts (see
``core/json/tallies.cpp``). Whether any array is left is decided here in the same way, before lowering.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from guiderail.frontends.json_schema.normal_form.array_cells import and_array, not_array
from guiderail.frontends.json_schema.normal_form.shape import ANY_ARRAY, TRUE, ArrayCell, Contains, Term
from guiderail.frontends.json_schema.normal_form.votes import Mix, Numbered, bits, holds
from guiderail.support.work import spend

if TYPE_CHECKING:
    from guiderail.frontends.json_schema.normal_form.algebra import Algebra
    from guiderail.frontends.json_schema.normal_form.satisfiable import Emptiness

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
    states = max(1, len(cell.prefix), cell.min, cell.max or 0, *[c.start for c in cell.contains])
    for c in cell.contains:
        states *= c.min + 1 if c.max is None else c.max + 2
    return states > MOST_STATES


MOST_STATES = 256
"""Maximum number of combinations of positions and counts that are written out in advance."""

_SPLIT: Final = 60  # steps for splitting values by a term
_WAY: Final = 60  # steps for an item after a state
_STARVED: Final = 30  # steps for asking whether there is room for the items that cells need

_Counts = tuple[int, ...]
_State = tuple[int, int, int, _Counts]  # position, items, cells that failed (as bits), counts
_Items = tuple[Term, int, _Counts]  # values, cells that they fail (as bits), counters that go up


class Tally(Numbered[ArrayCell]):
    """A formula over cells of arrays, with numbered counters.

    Attributes:
        counters: of each the number of its cell.
    """

    __slots__ = ("_able", "_emptiness", "_places", "_tight", "_together", "counters", "places")

    def __init__(self, emptiness: Emptiness, formula: Any) -> None:
        super().__init__()
        self._emptiness = emptiness
        self._places: dict[int, list[_Items]] = {}
        self._able: dict[int, bool] = {}
        self._add(formula)
        self.counters: list[tuple[int, Contains]] = [(i, c) for i, cell in enumerate(self.cells) for c in cell.contains]
        self.places = 1 + max((len(cell.prefix) for cell in self.cells), default=0)
        self.places = max([self.places, *[1 + c.start for _, c in self.counters]])
        self._together: list[int] | None = None
        # Cells whose counters may leave no room for each other, and all cells if all must hold; as bits.
        self._tight = [1 << i for i, cell in enumerate(self.cells) if cell.contains]
        if len(self.cells) > 1 and self.counters and all(op in (0, 1) for op, _ in self.parts):
            self._tight.append((1 << len(self.cells)) - 1)

    def at(self, place: int) -> list[_Items]:
        """The values allowed at a position (the last position stands for all later ones), split by their effect."""
        known = self._places.get(place)
        if known is None:
            known = self._places[place] = self._at(place)
        return known

    def _at(self, place: int) -> list[_Items]:
        emptiness = self._emptiness
        algebra = emptiness.algebra
        asked: dict[Term, tuple[int, int]] = {}  # the cells and counters that ask for a term, as bits
        for i, cell in enumerate(self.cells):
            cells, counters = asked.get(cell.item(place), (0, 0))
            asked[cell.item(place)] = cells | 1 << i, counters
        for i, (_, c) in enumerate(self.counters):
            if place >= c.start:
                cells, counters = asked.get(c.term, (0, 0))
                asked[c.term] = cells, counters | 1 << i
        parts = [(TRUE, 0, 0)]
        for term, (cells, counters) in asked.items():
            split: list[tuple[Term, int, int]] = []
            for values, failed, counts in parts:
                spend(_SPLIT)
                within = algebra.both(values, term)
                if not emptiness.term(within):
                    split.append((within, failed, counts | counters))
                fails = failed | cells
                if term is TRUE or not self._can_hold(fails):
                    continue
                without = algebra.both(values, algebra.not_term(term))
                if not emptiness.term(without):
                    split.append((without, fails, counts))
            parts = split
            algebra._limit(len(parts))
        same: dict[tuple[int, _Counts], list[Term]] = {}
        for values, failed, counts in parts:
            spend(_SPLIT + len(self.counters))
            live = tuple(n for n, (i, _) in enumerate(self.counters) if counts >> n & 1 and not failed >> i & 1)
            same.setdefault((failed, live), []).append(values)
        return [(algebra.or_terms(values), failed, live) for (failed, live), values in same.items()]

    def most_steps(self) -> int:
        """No array that is left needs more items than this: with each, some part of the state advances."""
        bounds = [(cell.min, cell.max) for cell in self.cells] + [(c.min, c.max) for _, c in self.counters]
        return self.places + len(self.cells) + sum(low if high is None else high + 1 for low, high in bounds)

    def _can_hold(self, failed: int) -> bool:
        known = self._able.get(failed)
        if known is None:
            known = self._able[failed] = self.whole(0, failed) is not False
        return known

    def _settled(self, state: _State) -> _State | None:
        place, items, failed, counts = state
        for i, cell in enumerate(self.cells):
            if cell.max is not None and items > cell.max:
                failed |= 1 << i
        for (i, c), n in zip(self.counters, counts, strict=True):
            if c.max is not None and n > c.max:
                failed |= 1 << i
        for cells in self._tight:
            if not failed & cells and self._starved(state, cells):
                failed |= cells
        if not self._can_hold(failed):
            return None
        most = 1
        for i, cell in enumerate(self.cells):
            if not failed >> i & 1:
                most = max(most, cell.min if cell.max is None else cell.max + 1)
        cut = tuple(
            0 if failed >> i & 1 else min(n, c.min if c.max is None else c.max + 1)
            for (i, c), n in zip(self.counters, counts, strict=True)
        )
        return min(place, self.places - 1), min(items, most), failed, cut

    def _starved(self, state: _State, cells: int) -> bool:
        """Whether some cells certainly cannot all hold in the end: there is no room for the items that they still need.

        Items that no two counters count at once need room for each. And if every item is counted by some counter with
        a maximum, the maxima leave room for few.
        """
        spend(_STARVED + 6 * len(self.counters))
        place, items, _, counts = state
        wanted = [cell for i, cell in enumerate(self.cells) if cells >> i & 1]
        room = min((cell.max - items for cell in wanted if cell.max is not None), default=None)
        need = max(cell.min - items for cell in wanted)
        due: list[tuple[int, int]] = []
        bounded, full = 0, 0
        for n, (i, c) in enumerate(self.counters):
            if cells >> i & 1:
                due.append((c.min - counts[n], n))
                if c.max is not None:
                    bounded, full = bounded + c.max - counts[n], full | 1 << n
        if room is not None and sum(max(missing, 0) for missing, _ in due) > room:
            taken = apart = 0
            for missing, n in sorted(due, reverse=True):
                if missing > 0 and not taken >> n & 1:
                    taken, apart = taken | self._counted_with(n), apart + missing
            need = max(need, apart)
        need = max([need, *[missing for missing, _ in due]])
        if need <= 0 or (room is not None and need > room) or place < self.places - 1 or need <= bounded:
            return need > 0 and room is not None and need > room
        return all(fails & cells or any(full >> n & 1 for n in ups) for _, fails, ups in self.at(place))

    def _counted_with(self, counter: int) -> int:
        """The counters that count some item together with one, as bits."""
        if self._together is None:
            self._together = [0] * len(self.counters)
            for place in range(self.places):
                for _, _, ups in self.at(place):
                    for n in ups:
                        self._together[n] |= bits(ups)
        return self._together[counter]

    def _holds(self, state: _State) -> bool:
        _, items, failed, counts = state
        everything = (1 << len(self.cells)) - 1
        holding = everything & ~failed & ~bits([i for i, cell in enumerate(self.cells) if items < cell.min])
        holding &= ~bits([i for (i, c), n in zip(self.counters, counts, strict=True) if n < c.min])
        return self.whole(holding, everything & ~holding) is True

    def _due(self, state: _State) -> int:
        """How much of the cells' requirements is missing: a heuristic for which way is short."""
        _, items, failed, counts = state
        missing = max((cell.min - items for i, cell in enumerate(self.cells) if not failed >> i & 1), default=0)
        return max(missing, 0) + sum(
            max(c.min - n, 0) for (i, c), n in zip(self.counters, counts, strict=True) if not failed >> i & 1
        )

    def is_empty(self, most: int | None = None) -> bool:
        """Whether no array is left. States only advance, so a depth-first search is exact.

        Args:
            most: the answer is False, without a search, if an array may need more items than this.
        """
        start = self._settled((0, 0, 0, (0,) * len(self.counters)))
        if start is None:
            return True
        if self._holds(start) or (most is not None and self.most_steps() > most):
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
        spend(len(choices) * (_WAY + 6 * len(self.cells) + 8 * len(self.counters)))
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
