"""*And*, *or* and *not* of terms, shapes and cells.

Cells are conjunctions, a shape's arrays and objects are unions of them: a disjunctive normal form. The negation of a
cell is the union of its negated conditions: a required name is missing, a bound is exceeded, a named member is there
and wrong, some other member is wrong (an `Obligation`), some item is wrong (a `Contains`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import ClassVar, Final, TypeVar

from guiderail.frontends.json_schema.errors import SchemaLimitError, TooMany
from guiderail.frontends.json_schema.normal_form.array_cells import and_array, not_array
from guiderail.frontends.json_schema.normal_form.array_votes import ArrayVote, comparing, every, multiplied, negation
from guiderail.frontends.json_schema.normal_form.disjoint import discriminator, plainly_within
from guiderail.frontends.json_schema.normal_form.obligations import settled, unmet
from guiderail.frontends.json_schema.normal_form.outcomes import Outcomes
from guiderail.frontends.json_schema.normal_form.satisfiable import Emptiness, is_empty_object, prune
from guiderail.frontends.json_schema.normal_form.shape import (
    ANY_ARRAY,
    ANY_OBJECT,
    FALSE,
    NOTHING,
    TRUE,
    ArrayCell,
    KeyRules,
    ObjectCell,
    Obligation,
    Shape,
    Term,
)
from guiderail.frontends.json_schema.normal_form.simplify import Cover
from guiderail.frontends.json_schema.normal_form.terms import And, Not, Or
from guiderail.frontends.json_schema.normal_form.votes import all_of, any_of, formula_of, negated, vote
from guiderail.frontends.json_schema.values.numbers import Numbers
from guiderail.frontends.json_schema.values.overlap import divided
from guiderail.frontends.json_schema.values.strings import Strings
from guiderail.support.texts import has_surrogate
from guiderail.support.work import spend, spent

__all__ = ["Algebra"]

MOST_CELLS = 64
"""Maximum number of cells in a union of objects; for arrays, a quarter of it. More are read side by side."""

_MOST_ALONE: Final = 16  # times as many, if a condition is added to each and none is multiplied
_PRUNED: Final = 16  # times as many are searched for those that are not empty
_TRIED: Final = 300_000  # steps, for the alternatives of one schema
_PARTS = 16  # regions of keys that may overlap, in addition to two for each pattern
_FEW: Final = 4  # optional members whose negations are cells of their own
_Cell = TypeVar("_Cell", ArrayCell, ObjectCell)


class _Trying:
    """See `Algebra.trying`. Not a generator, because it is entered for the shape of every schema object."""

    __slots__ = ("_algebra", "_before", "_eager")

    def __init__(self, algebra: Algebra, eager: int) -> None:
        self._algebra = algebra
        self._eager = eager

    def __enter__(self) -> None:
        self._before, self._algebra.eager = self._algebra.eager, self._eager

    def __exit__(self, *_: object) -> None:
        self._algebra.eager = self._before


class Algebra:
    """The operations, with the terms made so far (so that equal combinations are one term) and the limit.

    Args:
        max_branches: the most cells that one shape may have.
        where: says which schema is being evaluated, for error messages.
        same: one term for all terms of equal schemas.
    """

    __deletable__: ClassVar[list[str]] = ["where", "same", "emptiness"]  # for mypyc

    def __init__(self, max_branches: int, where: Callable[[], str | None], same: Callable[[Term], Term]) -> None:
        self.max_branches = max_branches
        self.where = where
        self.same = same
        self._ands: dict[frozenset[Term], Term] = {}
        self._ors: dict[frozenset[Term], Term] = {}
        self._nots: dict[Term, Term] = {TRUE: FALSE, FALSE: TRUE}
        self.within: dict[tuple[Term, Term], bool] = {}  # whether one lies within the other, if known
        self.regions_made: dict[tuple[frozenset[Term], frozenset[Term]], Term] = {}
        self._keys: dict[object, list[tuple[Strings, Term]] | Outcomes] = {}
        self.emptiness = Emptiness(self)  # which terms are known to have a value, or none
        self.eager = 0  # the count of work up to which a normal form is tried; 0: it is not only tried
        self.most_cells = MOST_CELLS
        self.exact = True  # False: a format was read whose automaton is narrower, so what is empty may have a value

    def close(self) -> None:
        """Lets go of every term. Nobody may use the algebra any more."""
        for made in (self._ands, self._ors, self._nots, self.within, self.regions_made, self._keys):
            made.clear()
        del self.where, self.same, self.emptiness

    def pruned(self, shape: Shape) -> Shape:
        """A shape without cells that are certainly empty."""
        return prune(self, shape) if len(shape.objects) > 1 or len(shape.arrays) > 1 else shape

    # -- terms ---------------------------------------------------------------------------------------------------
    def and_terms(self, terms: Iterable[Term]) -> Term:
        return self._join(terms, And, TRUE, FALSE, self._ands)

    def both(self, a: Term, b: Term) -> Term:
        """What `and_terms` makes of two terms."""
        if a is b or b is TRUE or a is FALSE:
            return a
        if a is TRUE or b is FALSE:
            return b
        if type(a) is And or type(b) is And:
            return self._join((a, b), And, TRUE, FALSE, self._ands)
        spend(14)
        key = frozenset((a, b))
        known = self._ands.get(key)
        if known is None:
            pair = (a, b)
            opposed = (type(a) is Not or type(b) is Not) and self._opposed(pair)
            known = self._ands[key] = FALSE if opposed else And(self, pair, pair)
        return known

    def or_terms(self, terms: Iterable[Term]) -> Term:
        return self._join(terms, Or, FALSE, TRUE, self._ors)

    def _join(
        self,
        terms: Iterable[Term],
        kind: type[And] | type[Or],
        neutral: Term,
        absorbing: Term,
        made: dict[frozenset[Term], Term],
    ) -> Term:
        parts: dict[Term, None] = {}
        terms = tuple(terms)
        for term in terms:
            if term is absorbing:
                return absorbing
            if isinstance(term, kind):
                for part in term.parts:
                    parts[part] = None
            elif term is not neutral:
                parts[term] = None
        if len(parts) < 2:
            return next(iter(parts), neutral)
        spend(6 + 2 * len(parts))
        key = frozenset(parts)
        known = made.get(key)
        if known is None:
            known = made[key] = absorbing if self._opposed(parts) else kind(self, tuple(parts), terms)
        return known

    def _opposed(self, parts: Collection[Term]) -> bool:
        """Whether a term and its negation are both among the parts; equal schemas count as one."""
        negated = {self.same(part.operand) for part in parts if type(part) is Not}
        if negated:
            spend(3 * len(parts))
        return bool(negated) and any(self.same(part) in negated for part in parts)

    def not_term(self, term: Term) -> Term:
        if type(term) is Not:
            return term.operand
        known = self._nots.get(term)
        if known is None:
            known = self._nots[term] = Not(self, term)
        return known

    # -- shapes --------------------------------------------------------------------------------------------------
    def and_shapes(self, a: Shape, b: Shape) -> Shape:
        anything = TRUE.known
        if a is anything or a is b:
            return b
        if b is anything:
            return a
        if a is NOTHING or b is NOTHING:
            return NOTHING
        spend(30)
        return Shape(
            a.null and b.null,
            a.booleans & b.booleans,
            a.numbers if a.numbers is b.numbers else a.numbers & b.numbers,
            a.strings if a.strings is b.strings else a.strings & b.strings,
            self.and_arrays(a.arrays, b.arrays),
            self.and_objects(a.objects, b.objects),
        )

    def union(self, shapes: Iterable[Shape]) -> Shape:
        null, booleans = False, 0
        numbers: list[Numbers] = []
        strings: list[Strings] = []
        arrays: list[ArrayCell] = []
        objects: list[ObjectCell] = []
        for shape in shapes:
            null = null or shape.null
            booleans |= shape.booleans
            if shape.numbers is not Numbers.NONE:
                numbers.append(shape.numbers)
            if shape.strings is not Strings.NONE:
                strings.append(shape.strings)
            arrays += shape.arrays
            objects += shape.objects
        return Shape(
            null,
            booleans,
            Numbers.union(numbers),
            strings[0] if len(strings) == 1 else Strings.union(strings),
            self._distinct(arrays),
            self._distinct(objects),
        )

    def not_shape(self, a: Shape) -> Shape:
        arrays: tuple[ArrayCell, ...] = (ANY_ARRAY,)
        for array in a.arrays:
            arrays = self.and_arrays(arrays, self._not_array(array))
        objects = self._not_objects(a.objects)
        return Shape(not a.null, a.booleans ^ 3, ~a.numbers, ~a.strings, arrays, objects)

    def and_arrays(self, a: tuple[ArrayCell, ...], b: tuple[ArrayCell, ...]) -> tuple[ArrayCell, ...]:
        if a is b or (len(b) == 1 and b[0] is ANY_ARRAY):
            return a
        if len(a) == 1 and a[0] is ANY_ARRAY:
            return b
        if not a or not b:
            return ()
        size = len(a) * len(b)
        most = self.most_cells // 4  # the counts of each are followed at once
        votes = any(type(cell) is not ArrayCell for cell in (*a, *b))
        if votes or size > most:
            if comparing(a) or comparing(b):  # keywords that compare items are not part of a vote
                a, b = multiplied(self, a), multiplied(self, b)
                self._limit(len(a) * len(b))
            elif votes or size > _PRUNED * most:
                return self._arrays_late(every((a, b)))
        cells = [cell for x in a for y in b if (cell := and_array(self, x, y)) is not None]
        found = self._distinct(cells)
        if len(found) > most and size > most and not comparing(found):
            return self._arrays_late(every((a, b)))
        return found

    def _not_array(self, cell: ArrayCell) -> tuple[ArrayCell, ...]:
        if type(cell) is ArrayCell:
            return not_array(self, cell)
        assert isinstance(cell, ArrayVote)
        return (negation(cell),)

    def _arrays_late(self, found: tuple[ArrayCell, ...]) -> tuple[ArrayCell, ...]:
        if self.eager:
            raise TooMany
        return found

    def and_objects(self, a: tuple[ObjectCell, ...], b: tuple[ObjectCell, ...]) -> tuple[ObjectCell, ...]:
        if a is b or (len(b) == 1 and b[0] is ANY_OBJECT):
            return a
        if len(a) == 1 and a[0] is ANY_OBJECT:
            return b
        if not a or not b:
            return ()
        if 0 < self.eager < spent():
            raise TooMany
        size = len(a) * len(b)
        if size > 1 and any(type(cell) is not ObjectCell for cell in (*a, *b)):
            return self._late(a, b)
        if size > (self.most_cells if min(len(a), len(b)) > 1 else _MOST_ALONE * self.most_cells):
            large = self._large(a, b) if size <= _PRUNED * self.most_cells else None
            return self._distinct(large) if large is not None else self._late(a, b)
        cells = [cell for x in a for y in b if (cell := self._and_object(x, y)) is not None]
        if size > 3 and min(len(a), len(b)) > 1:
            cells = Cover(self.within, cells).cells
        return self._distinct(cells)

    def _late(self, *unions: tuple[ObjectCell, ...]) -> tuple[ObjectCell, ...]:
        """The intersection of some unions, not multiplied out."""
        if self.eager:
            raise TooMany
        return vote(self, all_of(self, [any_of(map(formula_of, cells)) for cells in unions]))

    def trying(self, eager: bool = True) -> _Trying:
        """Within this context, whatever would remain as alternatives read side by side raises `TooMany`.

        So does work that takes more than about 30 ms. Without effect if ``eager`` is false.
        """
        return _Trying(self, spent() + _TRIED if eager else 0)

    def _large(self, a: tuple[ObjectCell, ...], b: tuple[ObjectCell, ...]) -> list[ObjectCell] | None:
        """A product of many cells, from which empty cells are dropped at once. None if many are left."""
        cover = Cover(self.within)
        for x in a:
            for y in b:
                cell = self._and_object(x, y)
                if cell is not None and not is_empty_object(self, cell):
                    cover.add(cell)
            if len(cover.cells) > self.most_cells:
                return None
        return cover.cells

    def _limit(self, size: int) -> None:
        if size > self.max_branches:
            raise SchemaLimitError(
                f"the exact meaning of this schema has more than max_branches={self.max_branches:,} alternatives; make "
                "the alternatives of its oneOf, not, if or anyOf exclude each other (a const in a required property "
                "does), or raise max_branches",
                pointer=self.where(),
            )

    def _distinct(self, cells: list[_Cell]) -> tuple[_Cell, ...]:
        """Without duplicates."""
        if len(cells) < 2:
            return tuple(cells)
        if any(cell is ANY_ARRAY or cell is ANY_OBJECT for cell in cells):
            return tuple(cell for cell in cells if cell is ANY_ARRAY or cell is ANY_OBJECT)[:1]
        spend(20 * len(cells))
        unique = {cell.key(): cell for cell in cells}
        self._limit(len(unique))
        return tuple(unique.values())

    # -- cells ---------------------------------------------------------------------------------------------------
    def _and_object(self, a: ObjectCell, b: ObjectCell) -> ObjectCell | None:
        if a is ANY_OBJECT:
            return b
        if b is ANY_OBJECT:
            return a
        if type(a) is not ObjectCell or type(b) is not ObjectCell:
            return next(iter(self._late((a,), (b,))), None)
        held: set[str] | None = None
        if len(b.named) <= _FEW and b.rest is TRUE and b.max is None and not (b.rules or b.obligations or b.min):
            held = set()
            for key, term in b.named.items():
                mine = a.named.get(key)
                inside = None if mine is None else plainly_within(mine, term)
                if inside:
                    held.add(key)
                elif inside is False and (key in a.required or key in b.required):
                    return None
            if len(held) == len(b.named) and b.required <= a.required:
                return a
        spend(50 + 4 * (len(a.named) + len(b.named)) + len(a.rules) * (1 + len(b.rules)) + 3 * len(a.obligations))
        if b.named and not a.named:  # keep the order in which properties were declared
            a, b = b, a
        named = self._named(a, b, held)
        required = a.required | b.required
        for key in required:
            if named[key] is FALSE:
                return None
        high = a.max if b.max is None else b.max if a.max is None else min(a.max, b.max)
        low = max(a.min, b.min)
        if high is not None and high < max(low, len(required)):
            return None
        rules = a.rules
        if b.rules:
            rules += tuple(r for r in b.rules if r not in rules)
        obligations = a.obligations
        if b.obligations:
            known = {o.key() for o in obligations}
            obligations += tuple(o for o in b.obligations if o.key() not in known)
        rest = a.rest if b.rest is TRUE or a.rest is b.rest else self.both(a.rest, b.rest)
        if (
            rest is a.rest
            and (rules, low, high, obligations) == (a.rules, a.min, a.max, a.obligations)
            and len(required) == len(a.required)
            and named is a.named
        ):
            return a
        cell = ObjectCell(named, rest, required, rules, low, high, obligations)
        return settled(self, cell) if obligations else cell

    def _named(self, a: ObjectCell, b: ObjectCell, held: set[str] | None) -> dict[str, Term]:
        """The conditions on the names of two cells; ``a.named`` itself if ``b`` adds none.

        Args:
            a, b: the cells.
            held: the names of whose values ``a`` plainly says what ``b`` does; None: not yet known.
        """
        named = a.named
        if b.rest is not TRUE or b.rules:
            for key, term in a.named.items():
                if key in b.named:
                    continue
                both = self._under(b, key, term)
                if both is not term:
                    named = a.named.copy() if named is a.named else named
                    named[key] = both
        for key, other in b.named.items():
            known = a.named.get(key)
            if known is other or (known is not None and other is TRUE):
                continue
            if known is None:
                both = self._under(a, key, other)
            elif plainly_within(known, other) if held is None else key in held:
                continue
            else:
                both = self.both(known, other)
            if both is not known:
                named = a.named.copy() if named is a.named else named
                named[key] = both
        return named

    def _under(self, cell: ObjectCell, key: str, term: Term) -> Term:
        """A term for the value of a key that a cell does not name, with what the cell says of it."""
        if cell.rest is FALSE or not cell.rules:
            return self.both(term, cell.rest)
        return self.and_terms([term, *cell.terms(key)])

    def _not_objects(self, cells: tuple[ObjectCell, ...]) -> tuple[ObjectCell, ...]:
        """The complement of a union of cells.

        Cells that a discriminator tells apart (a required name with different values in each) are negated one by one:
        the name is missing, or has none of the values, or has those of one cell, which fails. That is a sum of
        alternatives, where De Morgan's law has a product.
        """
        if any(type(cell) is not ObjectCell for cell in cells):
            return self._not_late(cells)
        if len(cells) > 1:
            name = discriminator(cells)
            if name is not None:
                values = [cell.named[name] for cell in cells]
                others = self.and_terms([self.not_term(value) for value in values])
                only = frozenset((name,))
                found = [ObjectCell({name: others}, TRUE)]
                for cell, value in zip(cells, values, strict=True):
                    here = ObjectCell({name: value}, TRUE, only)
                    for fails in self._not_object(cell, but=name):
                        both = self._and_object(here, fails)
                        if both is not None:
                            found.append(both)
                return tuple(found) if len(found) <= self.most_cells else self._not_late(cells)
        objects: tuple[ObjectCell, ...] = (ANY_OBJECT,)
        try:
            with self.trying():
                for cell in cells:
                    objects = self.and_objects(objects, self._not_object(cell))
        except TooMany:
            return self._not_late(cells)
        return objects

    def _not_late(self, cells: tuple[ObjectCell, ...]) -> tuple[ObjectCell, ...]:
        if self.eager:
            raise TooMany
        return vote(self, negated(any_of(map(formula_of, cells))))

    def _not_object(self, cell: ObjectCell, but: str | None = None) -> tuple[ObjectCell, ...]:
        """The complement of a cell, given that the member ``but`` is as the cell says."""
        spend(100 + 20 * len(cell.named))
        cells: list[ObjectCell] = []
        optional: list[tuple[str, Term]] = []
        for name, term in cell.named.items():
            if name == but:
                continue
            if name in cell.required:  # it is missing, or present and invalid
                cells.append(ObjectCell({name: self.not_term(term)}, TRUE))
            elif term is not TRUE and not has_surrogate(name):
                optional.append((name, self.not_term(term)))
        if len(optional) < _FEW:
            cells += [ObjectCell({name: term}, TRUE, frozenset((name,))) for name, term in optional]
        else:  # one of them is present and invalid: one cell for all of them
            ways = tuple((Strings.texts((name,)), term) for name, term in optional)
            named = dict.fromkeys([name for name, _ in optional], TRUE)
            cells.append(ObjectCell(named, TRUE, obligations=(Obligation(ways),)))
        names = [name for name in cell.named if not has_surrogate(name)]
        others = ~Strings.texts(names) if names else Strings.ALL

        def wrong(keys: Strings, term: Term) -> None:
            if term is not TRUE and not keys.is_empty():
                obligation = Obligation(((keys, self.not_term(term)),))
                cells.append(ObjectCell({}, TRUE, obligations=(obligation,)))

        wrong(others, cell.rest)
        for rules in cell.rules:
            rest = others
            for keys, term in rules.entries:
                wrong(others & keys, term)
                rest = rest & ~keys
            if rules.default is not TRUE:
                wrong(rest, rules.default)
        if cell.min > 0:
            cells.append(ObjectCell({}, TRUE, max=cell.min - 1))
        if cell.max is not None:
            cells.append(ObjectCell({}, TRUE, min=cell.max + 1))
        cells += [unmet(self, o) for o in cell.obligations]
        return tuple(cells)

    # -- keys ----------------------------------------------------------------------------------------------------
    def regions(self, cell: ObjectCell) -> list[tuple[Strings, Term]]:
        """The keys that are not named, split by what their values must satisfy. Forbidden keys are left out."""
        found = self.unnamed(cell)
        return found.regions() if isinstance(found, Outcomes) else found

    def unnamed(self, cell: ObjectCell) -> list[tuple[Strings, Term]] | Outcomes:
        """The keys that are not named: their regions, or the outcomes of many patterns that overlap."""
        key = cell.rest, frozenset(rules.key() for rules in cell.rules)
        known = self._keys.get(key)
        if known is None:
            entries = [keys for rules in cell.rules for keys, _ in rules.entries]
            late = all(keys.is_exact() for keys in entries)
            try:
                known = self._regions(cell, _PARTS + 2 * len(entries) if late else self.max_branches + 1)
            except TooMany:
                known = Outcomes(self, cell)
            self._keys[key] = known
        return known

    def _regions(self, cell: ObjectCell, most: int) -> list[tuple[Strings, Term]]:
        parts = [(Strings.ALL, cell.rest)] if cell.rest is not FALSE else []
        for rules in cell.rules:
            parts = [
                (keys, self.both(term, more))
                for outer, term in parts
                for keys, more in self._split(rules, outer, most)
                if self.both(term, more) is not FALSE
            ]
            if len(parts) > most:
                raise TooMany
            self._limit(len(parts))
        return parts

    def _split(self, rules: KeyRules, outer: Strings, most: int) -> list[tuple[Strings, Term]]:
        # (keys, term, whether some entry applies)
        parts: list[tuple[Strings, Term | None]] = [(outer, None)]
        for language, term in rules.entries:
            split: list[tuple[Strings, Term | None]] = []
            for keys, known in parts:
                spend(200)
                both = term if known is None else self.both(known, term)
                inside, outside = divided(keys, language)
                if both is not FALSE and not inside.is_empty():
                    split.append((inside, both))
                # if no entry applies and nothing else is allowed, skip the check
                if not (known is None and rules.default is FALSE and language is rules.entries[-1][0]) and not (
                    outside.is_empty()
                ):
                    split.append((outside, known))
            parts = split
            if len(parts) > most:
                raise TooMany
            self._limit(len(parts))
        found = [(keys, rules.default if term is None else term) for keys, term in parts]
        return [(keys, term) for keys, term in found if term is not FALSE]

    def named_term(self, cell: ObjectCell, key: str) -> Term:
        """What the value of a key must satisfy, as one term."""
        known = cell.named.get(key)
        return known if known is not None else self.and_terms(cell.terms(key))
