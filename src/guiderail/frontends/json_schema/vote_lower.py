"""From votes to expressions of the core: names, other keys, and what of each member the alternatives fail."""

from __future__ import annotations

from typing import TYPE_CHECKING

from guiderail.errors import LimitError
from guiderail.frontends.json_schema.items import UNREACHABLE
from guiderail.frontends.json_schema.layout import Frame, holds
from guiderail.frontends.json_schema.numbers import Numbers
from guiderail.frontends.json_schema.shape import ANY_OBJECT, FALSE, TRUE, ObjectCell, Term
from guiderail.frontends.json_schema.votes import Atoms, Ballot, Vote, all_of, regions, vote
from guiderail.support.work import out_of_work, spend

if TYPE_CHECKING:
    from guiderail.frontends.json_schema.lower import Lowering

__all__ = ["lower_vote"]


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
    """Integers as ``2.0`` and ``2e0``, where an alternative asks for a number and others tell integers apart."""
    numbers = atom.shape().numbers
    if numbers is Numbers.NONE or not numbers.is_integral():
        return []
    if all(term.shape().numbers.is_integral() for term in terms if term is not atom):
        return []
    try:
        return [lowering.notation.any_number(numbers)]
    except LimitError as error:
        if out_of_work(error):
            raise
        return []


def _inside(lowering: Lowering, cell: Vote, frame: Frame, level: int) -> int:
    b, algebra = lowering.builder, lowering.algebra
    ballot = Ballot(algebra, cell.formula)
    atoms = Atoms(algebra, ballot)
    cells = ballot.cells
    names: dict[str, bytes] = {}
    unwritable: set[str] = set()
    for one in cells:
        for name in one.named:
            if name in names or name in unwritable:
                continue
            try:
                names[name] = name.encode()
            except UnicodeEncodeError:  # a lone surrogate: no text has it
                unwritable.add(name)
    forbidden = {name for name in names if lowering.excludes and holds(name, lowering.excludes)}
    spend(200 * len(names) * len(cells))
    effects: dict[frozenset[int], int] = {frozenset(): 0}

    def written(terms: list[Term]) -> list[tuple[int, int]]:
        """The atoms of a value: each its expression and its effect."""
        found = []
        for term, failed in atoms.of(terms):
            handle = lowering.term(term, level)
            if handle != b.EMPTY:
                handle = b.union(
                    [handle, *_spellings(lowering, term, [t for i, t in enumerate(terms) if i not in failed])]
                )
                found.append((handle, effects.setdefault(failed, len(effects))))
        return found

    values = [[] if name in forbidden else written([algebra.named_term(one, name) for one in cells]) for name in names]
    others: list[tuple[int, int, bool, int]] = []
    kinds = list(regions(algebra, cells))
    for keys, terms in kinds:
        for handle, effect in written(terms):
            others.append((*lowering._keys(keys, handle), effect))
    number = {name: i for i, name in enumerate(names)}
    limits = []
    parts = list(ballot.parts)
    for i, one in enumerate(cells):
        high = -1 if one.max is None or one.max >= UNREACHABLE else one.max
        limits.append(([number[name] for name in one.required if name in number], min(one.min, UNREACHABLE - 1), high))
        if one.min >= UNREACHABLE or not one.required.isdisjoint(unwritable):  # no text is so
            parts = [(2, []) if part == (0, [i]) else part for part in parts]

    def plain(one: ObjectCell) -> int:
        """The members of a cell of its own, with the same names."""
        inner = [
            b.EMPTY if name in forbidden else lowering.term(algebra.named_term(one, name), level) for name in names
        ]
        rest = []
        if one.rest is not FALSE or one.rules:
            rest = [
                (*lowering._keys(keys, handle), 0)
                for keys, term in algebra.regions(one)
                if (handle := lowering.term(term, level)) != b.EMPTY
            ]
        return b.members(
            list(names.values()),
            inner,
            [name in one.required for name in names],
            rest,
            frame.comma,
            frame.colon,
            ordered=lowering.ordered,
            min=one.min,
            max=-1 if one.max is None or one.max >= UNREACHABLE else one.max,
            escapes=lowering.escapes,
        )

    settled: dict[frozenset[int], int] = {}
    for failed in [*effects, *(frozenset(range(len(cells))) - {i} for i in range(len(cells)))]:
        possible, wanted, is_plain = ballot.remains(failed)
        if not possible or not is_plain or wanted is None or wanted in settled:
            continue
        merged = ANY_OBJECT
        for i in sorted(wanted):
            both = algebra._and_object(merged, cells[i])
            if both is None:
                break
            merged = both
        else:
            if merged.required.isdisjoint(unwritable) and merged.min < UNREACHABLE:
                settled[wanted] = plain(merged)
    return b.vote(
        list(names.values()),
        values,
        [name in cell.required for name in names],
        others,
        frame.comma,
        frame.colon,
        ordered=lowering.ordered,
        escapes=lowering.escapes,
        cells=limits,
        parts=parts,
        effects=[sorted(failed) for failed in effects],
        settled=[(sorted(wanted), handle) for wanted, handle in settled.items() if handle != b.EMPTY],
    )
