"""What is in exactly one of many sets: what ``oneOf`` says about numbers and strings.

Strings that are listed are counted. Of other sets, those that overlap with few others are written out: each, without
these others. If many overlap, a text is read beside all sets at once, and how many of them contain it is known at its
end (see ``core/json/patterned.cpp``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from guiderail import _core
from guiderail.constraints.constraint import Constraint
from guiderail.frontends.json_schema.values.numbers import Numbers
from guiderail.frontends.json_schema.values.overlap import certainly_apart
from guiderail.frontends.json_schema.values.strings import Strings
from guiderail.support.work import spend

__all__ = ["one_number", "one_string"]

_COUNTS = 3  # none, one, more
_WRITTEN_OUT = 8  # sets that one set overlaps with: it is intersected with their complements
_COMPARED = 100  # sets, each with each


def one_number(sets: Sequence[Numbers]) -> Numbers:
    """The numbers that exactly one of these sets contains."""
    found = [(one, Numbers.NONE) for one in sets if one is not Numbers.NONE]  # in some set, in several
    while len(found) > 1:
        joined = [(a | b, r | s | (a & b)) for (a, r), (b, s) in zip(found[::2], found[1::2], strict=False)]
        found = joined + found[len(joined) * 2 :]
    if not found:
        return Numbers.NONE
    some, several = found[0]
    return some if several is Numbers.NONE else some & ~several


def one_string(sets: Sequence[Strings]) -> Strings:
    """The strings that exactly one of these sets contains."""
    if sum(one.is_all() for one in sets) > 1:
        return Strings.NONE
    listed: Counter[str] = Counter()
    others: list[Strings] = []
    for one in sets:
        texts = one.finite_texts() if one.is_exact() else None
        if texts is None:
            others.append(one)
        else:
            spend(1 + len(texts))
            listed.update(texts)
    if listed:
        others.append(Strings.texts(text for text, count in listed.items() if count == 1))
    overlaps = _overlaps(others)
    found = _exactly_one(others) if overlaps is None else _written_out(others, overlaps)
    return found & ~Strings.texts(text for text, count in listed.items() if count > 1)


def _overlaps(sets: Sequence[Strings]) -> list[list[int]] | None:
    """For each set, the others that may have a text in common with it. None if these are many."""
    overlaps: list[list[int]] = [[] for _ in sets]
    if len(sets) > _COMPARED:
        return None
    for i, one in enumerate(sets):
        for j in range(i):
            if one == sets[j] or not certainly_apart(one, sets[j]):
                overlaps[i].append(j)
                overlaps[j].append(i)
    return overlaps if all(len(others) <= _WRITTEN_OUT for others in overlaps) else None


def _written_out(sets: Sequence[Strings], overlaps: list[list[int]]) -> Strings:
    found = []
    for i, one in enumerate(sets):
        for j in overlaps[i]:
            one = Strings.NONE if sets[j] == sets[i] else one & ~sets[j]
        found.append(one)
    return Strings.union(found)


def _exactly_one(sets: Sequence[Strings]) -> Strings:
    narrow = _ExactlyOne(tuple(sets), False)
    return Strings.constraint(narrow, None if all(one.is_exact() for one in sets) else _ExactlyOne(tuple(sets), True))


@dataclass(frozen=True, slots=True)
class _ExactlyOne(Constraint):
    """The texts that are certainly, or (``wide``) perhaps, in exactly one set; see `Strings` on formats."""

    sets: tuple[Strings, ...]
    wide: bool

    def _lower(self, b: _core.Builder) -> int:
        # An outcome is two numbers of sets: those that certainly contain the text, and those that perhaps do.
        memo: dict[Strings, int] = {}
        patterns: list[int] = []
        adds: list[tuple[int, int]] = []
        for one in self.sets:
            patterns.append(one.lower(b, memo))
            if one.is_exact():
                adds.append((1, 1))
            else:
                patterns.append(b.complement((~one).lower(b, memo)))
                adds += [(1, 0), (0, 1)]
        outcomes = [(sure, maybe) for sure in range(_COUNTS) for maybe in range(_COUNTS)]
        number = {outcome: i for i, outcome in enumerate(outcomes)}
        most = _COUNTS - 1
        after = [[number[min(s + a, most), min(m + c, most)] for a, c in adds] for s, m in outcomes]
        fits = [sure < 2 and maybe > 0 if self.wide else sure == maybe == 1 for sure, maybe in outcomes]
        values = [b.literal(b"") if fit else b.EMPTY for fit in fits]
        return b.patterned(Strings.ALL.lower(b, memo), patterns, after, values)
