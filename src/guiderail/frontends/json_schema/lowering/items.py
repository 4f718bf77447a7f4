"""The inside of an array: items by position, how many, what they contain, and that they differ."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Final

from guiderail.frontends.json_schema.errors import SchemaLimitError
from guiderail.frontends.json_schema.lowering.layout import Frame
from guiderail.frontends.json_schema.normal_form.abundance import PLENTY
from guiderail.frontends.json_schema.normal_form.shape import UNREACHABLE, ArrayCell, Contains, Term
from guiderail.support.work import spend

if TYPE_CHECKING:
    from guiderail.frontends.json_schema.lowering.lower import Lowering

__all__ = ["lower_items"]

_MOST_LABELS: Final = 32  # as many as the core keeps
_MOST_COUNTED: Final = 1_000  # values that items are counted for, next to what the list contains
_Counts = tuple[int, ...]
_State = tuple[int, _Counts]


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
    if unique:
        most = lowering.algebra.emptiness.count(cell.rest)
        if most is not None and (not cell.contains or most <= _MOST_COUNTED):
            high = min(len(cell.prefix) + most, len(cell.prefix) + most if high is None else high)
    if high is not None and high >= UNREACHABLE:
        high = None
    if low >= UNREACHABLE or (high is not None and high < low):
        return b.EMPTY
    before = PLENTY if high is None else min(max(high - 1, 0), PLENTY)  # so many values come before the last at most

    def plain(term: Term) -> int:
        handle = lowering.term(term, level + 1)
        if not unique or handle == b.EMPTY:
            return handle
        return b.item(handle, lowering.abundance.term(term, level + 1, before))

    item = _labelled(lowering, cell, level + 1) if cell.repeated else plain

    if unique and (cell.contains or low > 1) and lowering.emptiness.array(cell):
        return b.EMPTY
    if cell.contains:
        inside = _counted(lowering, cell, frame, item, low, high)
    else:
        inside = _plain(lowering, cell, frame, item, low, high)
    if cell.repeated:
        return b.twice(inside)
    if not unique or inside == b.EMPTY:
        return inside
    made = b.distinct(inside)
    # options may leave fewer values than the schema has, on which the decision above rests
    uncertain = cell.contains or (low > 1 and lowering.capped)
    return b.EMPTY if uncertain and lowering.emptiness.nothing(made) else made


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

    def item(term: Term) -> int:
        found = []
        for label, atom in enumerate(atoms):
            if algebra.emptiness.term(algebra.both(atom, term)):
                continue
            handle = lowering.term(atom, level)
            if handle != b.EMPTY:
                found.append(b.item(handle, lowering.abundance.term(atom, level), label))
        return b.union(found)

    return item


def _plain(lowering: Lowering, cell: ArrayCell, frame: Frame, item: _Item, low: int, high: int | None) -> int:
    """First items one by one, then a loop."""
    b, comma = lowering.builder, frame.comma
    empty = b.EMPTY
    first: list[int] = []
    for term in cell.prefix if high is None else cell.prefix[:high]:
        handle = item(term)
        if handle == empty:
            high = len(first)
            break
        first.append(handle)
    count = len(first)
    rest = empty
    if high is None or high > count:
        rest = item(cell.rest)
        if rest == empty:
            high = count
    if high is not None and high < low:
        return empty
    if count == 0:
        if high == 0:
            return b.EPSILON
        more = b.repeat(b.concat([comma, rest]), max(low - 1, 0), -1 if high is None else high - 1)
        some = b.concat([rest, more])
        return some if low else b.union([b.EPSILON, some])
    tail = b.EPSILON
    if high is None or high > count:
        tail = b.repeat(b.concat([comma, rest]), max(low - count, 0), -1 if high is None else high - count)
    for i in reversed(range(count)):
        tail = b.concat([comma, first[i], tail] if i else [first[i], tail])
        if i >= low:
            tail = b.union([b.EPSILON, tail])
    return tail


def _counted(lowering: Lowering, cell: ArrayCell, frame: Frame, item: _Item, low: int, high: int | None) -> int:
    """With counters: states are (items so far, counts so far), both only as far as they matter."""
    b, algebra = lowering.builder, lowering.algebra
    counters = cell.contains
    # With few distinct values, none may be used uncounted, or none might be left to count.
    few: dict[Contains, bool] = {}
    for c in counters if cell.unique else ():
        number = algebra.emptiness.count(c.term)
        few[c] = number is not None and number <= _MOST_COUNTED
    last = max(1, len(cell.prefix), low, max(c.start for c in counters))
    if high is not None:
        last = max(last, high)

    def steps(state: _State) -> dict[_State, int]:
        """The states after one more item, with the items that lead there."""
        at, counts = state
        if high is not None and at >= high:
            return {}
        found: dict[_State, list[int]] = {}
        choices: list[list[tuple[int, Term | None]]] = []
        for c, count in zip(counters, counts, strict=True):
            if at < c.start or (c.max is None and count >= c.min):
                choices.append([(count, None)])
            elif c.max is None and not (few and few[c]):  # too many do no harm: an item may stay uncounted
                choices.append([(count, None), (count + 1, c.term)])
            elif c.max is None or count < c.max:  # too few would: an uncounted item must not match
                choices.append([(count, algebra.not_term(c.term)), (count + 1, c.term)])
            else:
                choices.append([(count, algebra.not_term(c.term))])
        for choice in product(*choices):
            spend(30 + 5 * len(counters))
            term = algebra.and_terms([cell.item(at), *[t for _, t in choice if t is not None]])
            handle = item(term)
            if handle != b.EMPTY:
                found.setdefault((min(at + 1, last), tuple(n for n, _ in choice)), []).append(handle)
        return {state: b.union(handles) for state, handles in found.items()}

    start: _State = (0, (0,) * len(counters))
    moves: dict[_State, dict[_State, int]] = {}
    waiting = [start]
    while waiting:
        state = waiting.pop()
        if state in moves:
            continue
        moves[state] = steps(state)
        waiting += moves[state]
        if len(moves) > lowering.document.options.max_branches:
            raise SchemaLimitError(
                f"counting items for contains takes more than max_branches="
                f"{lowering.document.options.max_branches:,} states; lower minContains, maxContains or the bounds on "
                "items, or raise max_branches",
                pointer=lowering.document.where(),
            )
    done: dict[_State, int] = {}
    for state in sorted(moves, key=lambda s: (s[0], sum(s[1])), reverse=True):
        at, counts = state
        enough = at >= low and all(n >= c.min for n, c in zip(counts, counters, strict=True))
        ways = [b.EPSILON] if enough else []
        loop = b.EMPTY
        for after, handle in moves[state].items():
            step = handle if at == 0 else b.concat([frame.comma, handle])
            if after == state:
                loop = step
            elif done[after] != b.EMPTY:
                ways.append(b.concat([step, done[after]]))
        end = b.union(ways) if ways else b.EMPTY
        done[state] = end if loop == b.EMPTY or end == b.EMPTY else b.concat([b.repeat(loop, 0, -1), end])
    return done[start]


if TYPE_CHECKING:
    from collections.abc import Callable

    _Item = Callable[[Term], int]
