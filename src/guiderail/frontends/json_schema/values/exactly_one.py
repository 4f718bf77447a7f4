"""The texts in exactly one of many sets that overlap: what ``oneOf`` says about strings.

Written out, that is a union: each set, without all others. Here a text is read beside all sets at once, and how many
of them contain it is known at its end (see ``core/json/patterned.cpp``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from guiderail import _core
from guiderail.constraints.constraint import Constraint
from guiderail.frontends.json_schema.values.strings import Strings

__all__ = ["exactly_one"]

_COUNTS = 3  # none, one, more


def exactly_one(sets: Sequence[Strings]) -> Strings:
    """The strings that exactly one of these sets contains."""
    if sum(one.is_all() for one in sets) > 1:
        return Strings.NONE
    finite = {one for one in sets if one.is_exact() and one.finite_texts() is not None}
    listed = Counter(text for one in sets if one in finite for text in one.finite_texts() or ())
    several = Strings.texts(text for text, count in listed.items() if count > 1)
    if finite:
        sets = [one for one in sets if one not in finite]
        sets.append(Strings.texts(text for text, count in listed.items() if count == 1))
    return _exactly_one(sets) & ~several


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
