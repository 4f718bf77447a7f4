"""Keys whose values depend on many patterns that overlap.

A key that several patterns match must have a value in the terms of all of them. Patterns have 2^n subsets, but their
terms have few intersections: most are empty, or equal to the intersection of fewer terms. Each of these is an
*outcome*. It begins with that of a key that no pattern matches, and changes with each pattern that does. So a key is
read beside all patterns at once, and its value chosen at its end (see ``core/json/patterned.cpp``).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Final

from guiderail.frontends.json_schema.errors import SchemaLimitError
from guiderail.frontends.json_schema.normal_form.satisfiable import is_empty_shape
from guiderail.frontends.json_schema.normal_form.shape import FALSE, TRUE, ObjectCell, Shape, Term
from guiderail.frontends.json_schema.normal_form.votes import bits
from guiderail.frontends.json_schema.values.overlap import certainly_apart
from guiderail.frontends.json_schema.values.strings import Strings
from guiderail.support.work import spend

if TYPE_CHECKING:
    from guiderail.frontends.json_schema.normal_form.algebra import Algebra

__all__ = ["Outcomes"]

_STEP: Final = 100  # of work for a pattern and an outcome


class Outcomes:
    """The outcomes of the keys that an object does not name.

    Attributes:
        patterns: that some rule of the object mentions.
        terms: of the value, by outcome.
        next: by outcome, by pattern: the outcome of a key that also matches the pattern. It is the same in any order.
    """

    __slots__ = (
        "_algebra",
        "_asked",
        "_changing",
        "_met",
        "_overlaps",
        "_regions",
        "_same",
        "_states",
        "_ways",
        "next",
        "patterns",
        "terms",
    )

    def __init__(self, algebra: Algebra, cell: ObjectCell) -> None:
        self._algebra = algebra
        asked: dict[Strings, list[tuple[int, Term]]] = {}
        for group, rules in enumerate(cell.rules):
            for keys, term in rules.entries:
                asked.setdefault(keys, []).append((0 if rules.default is TRUE else 1 << group, term))
        self.patterns = list(asked)
        # Of each pattern: the rules that it belongs to, as bits, if these have a default; and its terms.
        self._asked = [(reduce(or_, [rules for rules, _ in of]), [term for _, term in of]) for of in asked.values()]
        self._overlaps = self._overlapping()
        self._regions: list[tuple[Strings, Term]] | None = None
        # Of each outcome: the term of the patterns that match, and the rules that these belong to.
        self._states: list[tuple[Term, int]] = []
        self._ways: list[int] = []  # of each outcome: some patterns that lead to it, as bits
        self._same: dict[object, Term] = {}
        self._met: dict[tuple[Term, int], Term] = {}
        self._changing: dict[tuple[Term, int], int] = {}
        self.terms: list[Term] = []
        self.next: list[list[int]] = []
        self._find(cell)

    def regions(self) -> list[tuple[Strings, Term]]:
        """The keys of each outcome, as one condition, and its term. Outcomes without values are left out."""
        if self._regions is None:
            self._regions = list(self._split())
        return self._regions

    def _split(self) -> Iterator[tuple[Strings, Term]]:
        kept = self._kept()
        for at, term in enumerate(self.terms):
            if term is FALSE:
                continue
            spend(_STEP * (1 + len(self.patterns)) + len(kept))
            keys = Strings.ALL
            for i, pattern in enumerate(self.patterns):
                if not kept[at] >> i & 1:
                    keys &= ~pattern
            # it is not the outcome of fewer patterns
            fewer = {kept[at] & ~few for few in kept if few & kept[at] == few != kept[at]}
            for more in sorted(fewer):
                if not any(other & more == other != more for other in fewer):
                    some = Strings.NONE
                    for i in _numbers(more):
                        some |= self.patterns[i]
                    keys &= some
            yield keys, term

    def _kept(self) -> list[int]:
        """For each outcome, the patterns that change nothing, as bits: all those that do not change one before it."""
        kept = [
            self._ways[at] | ((1 << len(self.patterns)) - 1) & ~self._change(*state)
            for at, state in enumerate(self._states)
        ]
        changed = True
        while changed:  # the same values may have been found as different terms
            changed = False
            for at, own in enumerate(kept):
                spend(len(kept))
                for way, more in zip(self._ways, kept, strict=True):
                    if way & own == way:
                        own |= more
                changed = changed or own != kept[at]
                kept[at] = own
        return kept

    def _overlapping(self) -> list[int]:
        """For each pattern, those that may match a key that it matches, itself included; as bits."""
        found = [1 << i for i in range(len(self.patterns))]
        for i, one in enumerate(self.patterns):
            for j in range(i):
                if not certainly_apart(one, self.patterns[j]):
                    found[i] |= 1 << j
                    found[j] |= 1 << i
        return found

    def _find(self, cell: ObjectCell) -> None:
        """Finds all outcomes that a key may have, and perhaps others: any two of its patterns have a key in common."""
        start = self._one(cell.rest), 0
        numbers: dict[tuple[Term, int], int] = {}
        self._add(start, 0, numbers)
        first = (*start, self._change(*start))
        seen, states = {first}, [first]
        for term, rules, able in states:  # able: the patterns that may match, too, and make a difference
            at = numbers[term, rules]
            for i in _numbers(able):
                both = self._meet(term, i)
                to = (both, 0) if both is FALSE else (both, rules | self._asked[i][0])
                if to not in numbers:
                    self._add(to, self._ways[at] | 1 << i, numbers)
                self.next[at][i] = numbers[to]
                state = (*to, able & self._overlaps[i] & ~(1 << i) & self._change(*to))
                if state not in seen:
                    seen.add(state)
                    states.append(state)
                    self._limit(len(states))
        for term, rules in self._states:
            left = [of.default for group, of in enumerate(cell.rules) if not rules >> group & 1]
            self.terms.append(self._one(self._algebra.and_terms([term, *left])))

    def _add(self, state: tuple[Term, int], way: int, numbers: dict[tuple[Term, int], int]) -> None:
        numbers[state] = len(numbers)
        self._states.append(state)
        self._ways.append(way)
        self.next.append([numbers[state]] * len(self.patterns))

    def _limit(self, size: int) -> None:
        most = self._algebra.max_branches
        if size > most:
            raise SchemaLimitError(
                f"the keys of this object can match its patterns in more than max_branches={most:,} ways that each ask "
                "for another value; make the patterns of its patternProperties exclude each other, give them fewer "
                "different values, or raise max_branches",
                pointer=self._algebra.where(),
            )

    def _change(self, term: Term, rules: int) -> int:
        """The patterns that change an outcome; as bits."""
        if term is FALSE:
            return 0
        known = self._changing.get((term, rules))
        if known is None:
            asked = enumerate(self._asked)
            changing = [i for i, (belongs, _) in asked if belongs & ~rules or self._meet(term, i) is not term]
            known = self._changing[term, rules] = bits(changing)
        return known

    def _meet(self, term: Term, i: int) -> Term:
        known = self._met.get((term, i))
        if known is None:
            known = self._met[term, i] = self._one(self._algebra.and_terms([term, *self._asked[i][1]]))
        return known

    def _one(self, term: Term) -> Term:
        """One term for all terms with the same values, as far as that is quick to see."""
        spend(_STEP)
        if term is FALSE:
            return term
        shape = term.shape()
        key = _key(shape)
        known = self._same.get(key)
        if known is None:
            known = self._same[key] = FALSE if is_empty_shape(self._algebra, shape) else term
        return known


def _numbers(bits: int) -> Iterator[int]:
    """The numbers of the bits that are set."""
    while bits:
        yield (bits & -bits).bit_length() - 1
        bits &= bits - 1


def _key(shape: Shape) -> object:
    arrays, objects = [frozenset([cell.key() for cell in cells]) for cells in (shape.arrays, shape.objects)]
    return shape.null, shape.booleans, shape.numbers, shape.strings, arrays, objects
