"""The inside of an array: items by position, how many, what they contain, and that they differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from guiderail.frontends.json_schema.errors import SchemaLimitError
from guiderail.frontends.json_schema.lowering.layout import Frame
from guiderail.frontends.json_schema.normal_form.abundance import ENDLESS, PLENTY
from guiderail.frontends.json_schema.normal_form.shape import UNREACHABLE, ArrayCell, Contains, Term
from guiderail.support.work import spend

if TYPE_CHECKING:
    from guiderail.frontends.json_schema.lowering.lower import Lowering

__all__ = ["lower_items"]

_MOST_LABELS: Final = 32  # as many as the core keeps
_MOST_COMPARED: Final = 32  # items of a tuple, each with those before it
_MOST_COUNTED: Final = 1_000  # values that items are counted for, next to what the list contains
_Counts = tuple[int, ...]
_State = tuple[int, _Counts]
_Moves = dict[_State, list[tuple[Term, bool]]]
"""The states after one more item, each with the items that lead there, and whether such a value is certainly left."""


def lower_items(lowering: Lowering, cell: ArrayCell, frame: Frame, level: int, low: int) -> int:
    """The expression between the brackets of an array; EMPTY if no array is left.

    Args:
        lowering: makes the expressions of items.
        cell: the condition.
        frame: punctuation.
        level: the nesting depth of the array.
        low: minimum number of items.
    """
    b = lowering.builder
    high = cell.max
    if lowering.max_items is not None:
        high = lowering.max_items if high is None else min(high, lowering.max_items)
    unique = cell.unique and (high is None or high > 1)
    most = lowering.algebra.emptiness.count(cell.rest) if unique else None
    if most is not None:
        most += len(cell.prefix)
        if not cell.contains or most <= _MOST_COUNTED:
            high = most if high is None else min(high, most)
    if high is not None and high >= UNREACHABLE:
        high = None
    if low >= UNREACHABLE or (high is not None and high < low):
        return b.EMPTY
    longest = [n for n in (high, most) if n is not None]
    before = min([PLENTY, *[max(n - 1, 0) for n in longest]])  # so many values come before the last at most

    plain = _Items(lowering, level + 1, unique)
    item = _labelled(lowering, cell, level + 1) if cell.repeated else plain.item

    if unique and (cell.contains or low > 1) and lowering.emptiness.array(cell):
        return b.EMPTY
    if cell.contains:
        inside = _Counted(lowering, cell, (low, high), item).lower(frame, plain.is_left, before)
    else:
        inside = _plain(lowering, cell, frame, lambda term, taken: item(term, plain.is_left(term, taken)), low, high)
    if cell.repeated:
        return b.twice(inside)
    if not unique or inside == b.EMPTY:
        return inside
    made = b.distinct(inside)
    # options may leave fewer values than the schema has, on which the decision above rests
    uncertain = cell.contains or (low > 1 and lowering.capped)
    return b.EMPTY if uncertain and lowering.emptiness.nothing(made) else made


class _Items:
    """Items of one list."""

    def __init__(self, lowering: Lowering, level: int, unique: bool) -> None:
        self.lowering, self.level, self.unique = lowering, level, unique

    def is_left(self, term: Term, taken: int) -> bool:
        """Whether items differ, and there are certainly more values than were taken."""
        return self.unique and self.lowering.abundance.term(term, self.level, taken)

    def item(self, term: Term, is_left: bool) -> int:
        handle = self.lowering.term(term, self.level)
        if not self.unique or handle == self.lowering.builder.EMPTY:
            return handle
        return self.lowering.builder.item(handle, 2 if self.is_left(term, ENDLESS) else is_left)


def _labelled(lowering: Lowering, cell: ArrayCell, level: int) -> _Item:
    """Items of which two must be equal: split into labelled sets of values that may occur at the same positions."""
    b, algebra = lowering.builder, lowering.algebra
    items = list(dict.fromkeys((*cell.prefix, cell.rest)))
    terms = list(dict.fromkeys((*items, *[c.term for c in cell.contains])))
    atoms = [algebra.or_terms(items)]
    for term in terms if len(terms) > 1 else ():
        parts = [algebra.both(atom, some) for atom in atoms for some in (term, algebra.not_term(term))]
        atoms = [part for part in parts if not algebra.emptiness.term(part)]
        if len(atoms) > _MOST_LABELS:
            raise SchemaLimitError(
                f"two items must be equal (the negation of uniqueItems), and more than {_MOST_LABELS} kinds of items "
                "may appear at different positions; use fewer different schemas for the items of this array",
                pointer=lowering.document.where(),
            )

    def item(term: Term, _: bool) -> int:
        found = []
        for label, atom in enumerate(atoms):
            if algebra.emptiness.term(algebra.both(atom, term)):
                continue
            handle = lowering.term(atom, level)
            if handle != b.EMPTY:
                found.append(b.item(handle, lowering.abundance.term(atom, level), label))
        return b.union(found)

    return item


def _plain(
    lowering: Lowering, cell: ArrayCell, frame: Frame, item: Callable[[Term, int], int], low: int, high: int | None
) -> int:
    """First items one by one, then a loop.

    Args:
        item: the expression of an item, given how many items before it may have values that it may have, too.
    """
    b, comma = lowering.builder, frame.comma
    empty = b.EMPTY
    first: list[int] = []
    for at, term in enumerate(cell.prefix if high is None else cell.prefix[:high]):
        handle = item(term, _rivals(lowering, cell, at, term))
        if handle == empty:
            high = len(first)
            break
        first.append(handle)
    count = len(first)
    needed = max(low - count, 0)
    must = may = empty
    if high is None or high > count:
        rivals = _rivals(lowering, cell, count, cell.rest)
        # Values are left for those that must come, whatever else may come after them.
        may = item(cell.rest, PLENTY if high is None else min(PLENTY, rivals + high - count - 1))
        must = item(cell.rest, min(PLENTY, rivals + needed - 1)) if needed else may
        if may == empty:
            high = count
    if high is not None and high < low:
        return empty
    if count == 0:
        if high == 0:
            return b.EPSILON
        most = -1 if high is None else high - max(needed, 1)
        more = b.repeat(b.concat([comma, may]), 0, most)
        some = b.concat([must, b.repeat(b.concat([comma, must]), max(needed - 1, 0), max(needed - 1, 0)), more])
        return some if low else b.union([b.EPSILON, some])
    tail = b.EPSILON
    if high is None or high > count:
        more = b.repeat(b.concat([comma, may]), 0, -1 if high is None else high - count - needed)
        tail = b.concat([b.repeat(b.concat([comma, must]), needed, needed), more])
    for i in reversed(range(count)):
        tail = b.concat([comma, first[i], tail] if i else [first[i], tail])
        if i >= low:
            tail = b.union([b.EPSILON, tail])
    return tail


def _rivals(lowering: Lowering, cell: ArrayCell, at: int, term: Term) -> int:
    """How many of the items before a place, among the first, may have a value that is one of these."""
    if not cell.unique or at > _MOST_COMPARED:
        return at
    algebra = lowering.algebra
    return sum(not algebra.emptiness.term(algebra.both(term, other)) for other in cell.prefix[:at])


class _Counted:
    """A list with counters: states are (items so far, counts so far), both only as far as they matter."""

    def __init__(self, lowering: Lowering, cell: ArrayCell, bounds: tuple[int, int | None], item: _Item) -> None:
        self.lowering, self.cell, self.item = lowering, cell, item
        self.algebra, self.counters = lowering.algebra, cell.contains
        self.low, self.high = bounds
        self.settled = max(1, len(cell.prefix), self.low, self.high or 0, max(c.start for c in cell.contains))

    def lower(self, frame: Frame, is_left: Callable[[Term, int], bool], before: int) -> int:
        """The expression between the brackets.

        Args:
            frame: punctuation.
            is_left: whether items differ, and there are certainly more values than some number.
            before: the number of items that may come before another.
        """
        b = self.lowering.builder
        moves = self._moves(is_left, before)
        done: dict[_State, int] = {}
        for state in sorted(moves, key=lambda s: (s[0], sum(s[1])), reverse=True):
            at, counts = state
            enough = at >= self.low and all(n >= c.min for n, c in zip(counts, self.counters, strict=True))
            ways = [b.EPSILON] if enough else []
            loop = b.EMPTY
            # Where one way on certainly remains, it does not matter whether the others do.
            on = [items for after, items in moves[state].items() if after != state and done[after] != b.EMPTY]
            goes_on = any(left for items in on for _, left in items)
            for after, items in moves[state].items():
                handle = b.union([self.item(term, left or goes_on) for term, left in items])
                step = handle if at == 0 else b.concat([frame.comma, handle])
                if after == state:
                    loop = step
                elif done[after] != b.EMPTY:
                    ways.append(b.concat([step, done[after]]))
            end = b.union(ways) if ways else b.EMPTY
            done[state] = end if loop == b.EMPTY or end == b.EMPTY else b.concat([b.repeat(loop, 0, -1), end])
        return done[self._start]

    @property
    def _start(self) -> _State:
        return 0, (0,) * len(self.counters)

    def _moves(self, is_left: Callable[[Term, int], bool], before: int) -> dict[_State, _Moves]:
        # If distinct values might run out, none is used uncounted: so those that are counted are left.
        apart = [c.max is not None or (self.cell.unique and self._runs_out(c, before)) for c in self.counters]
        known = {self._start}
        waiting = [self._start]
        moves: dict[_State, _Moves] = {}
        while waiting:
            state = waiting.pop()
            found = moves[state] = _Moves()
            for after, term, taken in self._steps(state, apart):
                left = is_left(term, min([before, *taken]))
                found.setdefault(after, []).append((term, left))
                if after not in known:
                    known.add(after)
                    waiting.append(after)
                    self._limit(len(known))
        return moves

    def _runs_out(self, c: Contains, before: int) -> bool:
        """Whether so many items may use up the values that are counted, for all that is known."""
        for term in dict.fromkeys((*self.cell.prefix, self.cell.rest)):  # in order: work is the same everywhere
            number = self.algebra.emptiness.count(self.algebra.both(term, c.term))
            if number is not None and 0 < number <= before:
                return True
        return False

    def _steps(self, state: _State, apart: list[bool]) -> Iterator[tuple[_State, Term, list[int]]]:
        """The states after one more item, the items that lead there, and how many of these may have come before.

        Args:
            state: the state.
            apart: whether an item that is not counted must not match, by counter.
        """
        at, counts = state
        if self.high is not None and at >= self.high:
            return
        ways: list[tuple[Term, _Counts, list[int]]] = [(self.cell.item(at), (), [])]
        for i, (c, count, is_apart) in enumerate(zip(self.counters, counts, apart, strict=True)):
            spend(30 * len(ways))
            if at < c.start or (c.max is None and count >= c.min):
                ways = [(term, (*after, count), taken) for term, after, taken in ways]
                continue
            more: list[tuple[Term, _Counts, list[int]]] = []
            for term, after, taken in ways:
                other = self.algebra.both(term, self.algebra.not_term(c.term)) if is_apart else term
                more.append((other, (*after, count), taken))
                if c.max is None or count < c.max:
                    # Of what is counted, only as many have come as were counted, or came too early to be.
                    before = [*taken, count + c.start] if is_apart else taken
                    more.append((self.algebra.both(term, c.term), (*after, count + 1), before))
            last = i == len(counts) - 1
            ways = more if last else [way for way in more if not self.algebra.emptiness.term(way[0])]
        for term, after, taken in ways:
            if self.item(term, False) != self.lowering.builder.EMPTY:
                yield (min(at + 1, self.settled), after), term, taken

    def _limit(self, states: int) -> None:
        most = self.lowering.document.options.max_branches
        if states > most:
            raise SchemaLimitError(
                f"counting items for contains takes more than max_branches={most:,} states; lower minContains, "
                "maxContains or the bounds on items, or raise max_branches",
                pointer=self.lowering.document.where(),
            )


if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    _Item = Callable[[Term, bool], int]  # of what an item satisfies, and whether such a value is certainly left
