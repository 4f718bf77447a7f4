"""From votes to expressions of the core: names, other keys, and which alternatives each member fails."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from guiderail.errors import LimitError
from guiderail.frontends.json_schema.lowering.layout import Frame, holds
from guiderail.frontends.json_schema.normal_form.array_votes import ArrayVote, Tally
from guiderail.frontends.json_schema.normal_form.shape import (
    ANY_OBJECT,
    FALSE,
    TRUE,
    UNREACHABLE,
    ArrayCell,
    ObjectCell,
    Term,
)
from guiderail.frontends.json_schema.normal_form.votes import Atoms, Ballot, Mix, Vote, all_of, regions, vote
from guiderail.frontends.json_schema.values.numbers import Numbers
from guiderail.support.work import out_of_work, spend

if TYPE_CHECKING:
    from guiderail.frontends.json_schema.lowering.lower import Lowering

__all__ = ["lower_tally", "lower_vote"]


def lower_vote(lowering: Lowering, cell: Vote, level: int) -> int:
    """The expression of a vote, braces included; EMPTY if it has no object."""
    b = lowering.builder
    frame = lowering.notation.object(level)
    if frame.empty is None:
        body = _inside(lowering, cell, frame, level + 1)
        return body if body == b.EMPTY else b.concat([frame.open, body, frame.close])
    bare = frame.empty if cell.accepts({}) else b.EMPTY
    algebra = lowering.algebra
    found = [bare]
    for some in vote(algebra, all_of(algebra, (cell.formula, ObjectCell({}, TRUE, min=1)))):
        assert isinstance(some, Vote)
        body = _inside(lowering, some, frame, level + 1)
        found.append(body if body == b.EMPTY else b.concat([frame.open, body, frame.close]))
    return b.union(found)


def _spellings(lowering: Lowering, atom: Term, terms: list[Term]) -> list[int]:
    """Allows integers as ``2.0`` and ``2e0`` if one alternative needs a number and others distinguish integers."""
    numbers = atom.shape().numbers
    if numbers is Numbers.NONE or not numbers.is_plain():
        return []
    if all(term.shape().numbers.is_plain() for term in terms if term is not atom):
        return []
    try:
        return [lowering.notation.any_number(numbers)]
    except LimitError as error:
        if out_of_work(error):
            raise
        return []


def lower_tally(lowering: Lowering, cell: ArrayCell, frame: Frame, level: int, low: int) -> int:
    """The expression between the brackets of an array that is read side by side; EMPTY if none is left.

    Args:
        lowering: makes the expressions of items.
        cell: the condition.
        frame: punctuation.
        level: the nesting depth of the array.
        low: minimum number of items.
    """
    b = lowering.builder
    bounds = ArrayCell((), TRUE, low, lowering.max_items)
    formula = cell.formula if isinstance(cell, ArrayVote) else cell
    tally = Tally(lowering.emptiness, Mix("all", (formula, bounds)))
    places = []
    for place in range(tally.places):
        found = []
        for term, failed, counts in tally.at(place):
            handle = lowering.term(term, level + 1)
            if handle == b.EMPTY:
                continue
            spend(2 * len(tally.cells) + 2 * len(tally.counters))
            asked = [one.item(place) for i, one in enumerate(tally.cells) if not failed >> i & 1]
            asked += [c.term for i, c in tally.counters if not failed >> i & 1 and place >= c.start]
            handle = b.union([handle, *_spellings(lowering, term, asked)])
            found.append((handle, [i for i in range(len(tally.cells)) if failed >> i & 1], list(counts)))
        places.append(found)

    def most(high: int | None) -> int:
        return -1 if high is None or high >= UNREACHABLE else high

    unreachable = {i for i, one in enumerate(tally.cells) if one.min >= UNREACHABLE}
    unreachable |= {i for i, c in tally.counters if c.min >= UNREACHABLE}
    return b.tally(
        places,
        frame.comma,
        cells=[(min(one.min, UNREACHABLE - 1), most(one.max)) for one in tally.cells],
        parts=[(2, []) if op == 0 and of[0] in unreachable else (op, of) for op, of in tally.parts],
        counters=[(i, min(c.min, UNREACHABLE - 1), most(c.max)) for i, c in tally.counters],
    )


def _inside(lowering: Lowering, cell: Vote, frame: Frame, level: int) -> int:
    """The members of a vote, without braces."""
    return _Inside(lowering, cell, frame, level).lower()


class _Inside:
    """The context in which one vote is lowered."""

    def __init__(self, lowering: Lowering, cell: Vote, frame: Frame, level: int) -> None:
        self.lowering, self.cell, self.frame, self.level = lowering, cell, frame, level
        self.builder, self.algebra = lowering.builder, lowering.algebra
        self.ballot = Ballot(self.algebra, cell.formula)
        self.atoms = Atoms(self.algebra, self.ballot)
        self.cells = self.ballot.cells
        self.names: dict[str, bytes] = {}
        self.unwritable: set[str] = set()
        for one in self.cells:
            for name in one.named:
                if name in self.names or name in self.unwritable:
                    continue
                try:
                    self.names[name] = name.encode()
                except UnicodeEncodeError:  # a lone surrogate: no text contains it
                    self.unwritable.add(name)
        self.forbidden = {name for name in self.names if lowering.excludes and holds(name, lowering.excludes)}
        self.effects: dict[frozenset[int], int] = {frozenset(): 0}

    def lower(self) -> int:
        lowering, algebra, cells, names = self.lowering, self.algebra, self.cells, self.names
        spend(12 * len(names) * len(cells))
        values: list[list[tuple[int, int]]] = []
        wholes: list[list[tuple[list[int], int]]] = []
        for name in names:
            asked = [] if name in self.forbidden else [algebra.named_term(one, name) for one in cells]
            values.append(self.written(asked) if asked else [])
            wholes.append(self.wholes(asked, values[-1]) if asked else [])
        others: list[tuple[int, int, bool, int]] = []
        kinds = list(regions(algebra, cells))
        for keys, terms in kinds:
            for handle, effect in self.written(terms):
                others.append((*lowering._keys(keys, handle), effect))
        limits, parts = self.limits()
        settled = self.settled()
        return self.builder.vote(
            list(names.values()),
            values,
            [name in self.cell.required for name in names],
            others,
            self.frame.comma,
            self.frame.colon,
            ordered=lowering.ordered,
            escapes=lowering.escapes,
            cells=limits,
            parts=parts,
            effects=[sorted(failed) for failed in self.effects],
            wholes=wholes,
            settled=[(sorted(wanted), handle) for wanted, handle in settled.items() if handle != self.builder.EMPTY],
        )

    def written(self, terms: list[Term]) -> list[tuple[int, int]]:
        """The atoms of a value, each with its expression and its effect."""
        b = self.builder
        found = []
        for term, failed in self.atoms.of(terms).atoms:
            handle = self.lowering.term(term, self.level)
            if handle != b.EMPTY:
                rest = [one for i, one in enumerate(terms) if i not in failed]
                handle = b.union([handle, *_spellings(self.lowering, term, rest)])
                found.append((handle, self.effects.setdefault(failed, len(self.effects))))
        return found

    def wholes(self, terms: list[Term], written: list[tuple[int, int]]) -> list[tuple[list[int], int]]:
        """Unions of atoms as one expression, which is simpler: for when these atoms lead to the same state.

        Which spellings of a number an atom has depends on the other atoms. So numbers must not be told apart. Objects
        neither: what an atom leaves of them is often simpler than the negation of a term.
        """
        split = self.atoms.of(terms)
        if not split.wholes or len(written) < len(split.atoms):  # not all atoms can be written
            return []
        shapes = [term.shape() for term in terms if term is not TRUE]
        if any(shape.objects or shape.numbers not in (Numbers.NONE, Numbers.ALL) for shape in shapes):
            return []
        found = [(atoms, self.lowering.term(term, self.level)) for term, atoms in split.wholes]
        return [(atoms, handle) for atoms, handle in found if handle != self.builder.EMPTY]

    def limits(self) -> tuple[list[Any], list[Any]]:
        """What each cell requires of the number of members, and the formula over the cells."""
        number = {name: i for i, name in enumerate(self.names)}
        limits = []
        parts = list(self.ballot.parts)
        for i, one in enumerate(self.cells):
            required = sorted(number[name] for name in one.required if name in number)
            limits.append((required, min(one.min, UNREACHABLE - 1), _most(one)))
            if one.min >= UNREACHABLE or not one.required.isdisjoint(self.unwritable):  # no text matches
                parts = [(2, []) if part == (0, [i]) else part for part in parts]
        return limits, parts

    def settled(self) -> dict[frozenset[int], int]:
        """The plain objects that remain once a few cells must hold."""
        settled: dict[frozenset[int], int] = {}
        every = frozenset(range(len(self.cells)))
        for failed in [*self.effects, *[every - {i} for i in range(len(self.cells))]]:
            possible, wanted, is_plain = self.ballot.remains(failed)
            if not possible or not is_plain or wanted is None or wanted in settled:
                continue
            merged = ANY_OBJECT
            for i in sorted(wanted):
                both = self.algebra._and_object(merged, self.cells[i])
                if both is None:
                    break
                merged = both
            else:
                if merged.required.isdisjoint(self.unwritable) and merged.min < UNREACHABLE:
                    settled[wanted] = self.plain(merged)
        return settled

    def plain(self, one: ObjectCell) -> int:
        """The members of a single cell, with the same names."""
        b, lowering, algebra = self.builder, self.lowering, self.algebra
        inner = [
            b.EMPTY if name in self.forbidden else lowering.term(algebra.named_term(one, name), self.level)
            for name in self.names
        ]
        rest = []
        if one.rest is not FALSE or one.rules:
            rest = [
                (*lowering._keys(keys, handle), 0)
                for keys, term in algebra.regions(one)
                if (handle := lowering.term(term, self.level)) != b.EMPTY
            ]
        return b.members(
            list(self.names.values()),
            inner,
            [name in one.required for name in self.names],
            rest,
            self.frame.comma,
            self.frame.colon,
            ordered=lowering.ordered,
            min=one.min,
            max=_most(one),
            escapes=lowering.escapes,
        )


def _most(one: ObjectCell) -> int:
    """The maximum number of members, as the core expects it: -1 means no bound."""
    return -1 if one.max is None or one.max >= UNREACHABLE else one.max
