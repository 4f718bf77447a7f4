"""*And*, *or* and *not* of terms, shapes and cells.

Cells are conjunctions, a shape's arrays and objects are unions of them: a disjunctive normal form. The negation of a
cell is the union of its negated conditions: a required name is missing, a bound is exceeded, a named member is there
and wrong, some other member is wrong (an `Obligation`), some item is wrong (a `Contains`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from guiderail.frontends.json_schema.errors import SchemaLimitError, TooMany
from guiderail.frontends.json_schema.numbers import Numbers
from guiderail.frontends.json_schema.shape import (
    ANY_ARRAY,
    ANY_OBJECT,
    FALSE,
    NOTHING,
    TRUE,
    ArrayCell,
    Contains,
    KeyRules,
    ObjectCell,
    Obligation,
    Shape,
    Term,
)
from guiderail.frontends.json_schema.strings import Strings
from guiderail.support.work import spend, spent

if TYPE_CHECKING:
    from guiderail.frontends.json_schema.satisfiable import Emptiness

__all__ = ["Algebra", "And", "Not", "Or"]

MOST_CELLS = 64
"""Objects are kept as a union of so many cells at most; what would have more is read side by side."""

_MOST_ALONE = 16  # times as many, where a condition is added to each and none is multiplied
_PRUNED = 16  # times as many are looked through for those that are not empty
_TRIED = 1_000_000  # steps, for the alternatives of one schema
_FEW_TEXTS = 8
_FEW = 4  # optional members, the negations of which are cells of their own
_Cell = TypeVar("_Cell", ArrayCell, ObjectCell)


def has_surrogate(name: str) -> bool:
    """Whether a name holds half of a surrogate pair, so that no text can spell it."""
    return not name.isascii() and any("\ud800" <= c <= "\udfff" for c in name)


class And(Term):
    """The intersection of terms.

    Attributes:
        parts: of which none is an intersection.
        given: the terms that were joined, some of them intersections whose shapes may be known.
    """

    __slots__ = ("algebra", "given", "parts")

    def __init__(self, algebra: Algebra, parts: tuple[Term, ...], given: tuple[Term, ...]) -> None:
        self.known = None
        self.algebra = algebra
        self.parts = parts
        self.given = given

    def _evaluate(self) -> Shape:
        whole = all(term.known is not None or not isinstance(term, And) for term in self.given)
        with self.algebra.trying(eager=False):
            shape = TRUE.shape()
            for part in self.given if whole else self.parts:
                shape = self.algebra.and_shapes(shape, part.shape())
        self.given = ()
        return shape


class Or(Term):
    """The union of terms."""

    __slots__ = ("algebra", "parts")

    def __init__(self, algebra: Algebra, parts: tuple[Term, ...], given: tuple[Term, ...]) -> None:
        self.known = None
        self.algebra = algebra
        self.parts = parts

    def _evaluate(self) -> Shape:
        with self.algebra.trying(eager=False):
            return self.algebra.union(part.shape() for part in self.parts)


class Not(Term):
    """The complement of a term."""

    __slots__ = ("algebra", "operand")

    def __init__(self, algebra: Algebra, operand: Term) -> None:
        self.known = None
        self.algebra = algebra
        self.operand = operand

    def _evaluate(self) -> Shape:
        with self.algebra.trying(eager=False):
            return self.algebra.not_shape(self.operand.shape())


def _plainly_within(x: Term, y: Term) -> bool | None:
    """Whether a few texts all satisfy a term: so it is where a name tells many alternatives apart.

    Returns:
        True: all do. False: none does. None: that is not plain to see.
    """
    if x is y:
        return True
    shape = x.known
    if shape is None or shape.arrays or shape.objects or shape.null or shape.booleans:
        return None
    if shape.numbers is not Numbers.NONE or (y.known is None and not (type(y) is Not and y.operand.known is not None)):
        return None
    texts = shape.strings.finite_texts()
    if texts is None or not 0 < len(texts) <= _FEW_TEXTS:
        return None
    spend(20)
    strings = y.shape().strings
    found = [text in strings for text in texts]
    return True if all(found) else None if any(found) else False


class Algebra:
    """The operations, with the terms made so far (so that equal combinations are one term) and the limit.

    Args:
        max_branches: the most cells that one shape may have.
        where: says which schema is being evaluated, for error messages.
        same: one term for all terms of equal schemas.
    """

    def __init__(
        self, max_branches: int, where: Callable[[], str | None], same: Callable[[Term], Term] = lambda term: term
    ) -> None:
        self.max_branches = max_branches
        self.where = where
        self.same = same
        self._ands: dict[frozenset[Term], Term] = {}
        self._ors: dict[frozenset[Term], Term] = {}
        self._nots: dict[Term, Term] = {TRUE: FALSE, FALSE: TRUE}
        self.regions_made: dict[tuple[frozenset[Term], frozenset[Term]], Term] = {}
        self.eager = 0  # the count of work up to which a normal form is tried; 0: it is not only tried
        self.most_cells = MOST_CELLS
        self._emptiness: Emptiness | None = None

    @property
    def emptiness(self) -> Emptiness:
        """What is known of which terms have a value."""
        if self._emptiness is None:
            from guiderail.frontends.json_schema.satisfiable import Emptiness

            self._emptiness = Emptiness(self)
        return self._emptiness

    def pruned(self, shape: Shape) -> Shape:
        """A shape without cells that are certainly empty."""
        from guiderail.frontends.json_schema.satisfiable import prune

        return prune(self, shape) if len(shape.objects) > 1 or len(shape.arrays) > 1 else shape

    # -- terms ---------------------------------------------------------------------------------------------------
    def and_terms(self, terms: Iterable[Term]) -> Term:
        return self._join(terms, And, TRUE, FALSE, self._ands)

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
        key = frozenset(parts)
        known = made.get(key)
        if known is None:
            known = made[key] = absorbing if self._opposed(parts) else kind(self, tuple(parts), terms)
        return known

    def _opposed(self, parts: dict[Term, None]) -> bool:
        """Whether a term and its negation are among the parts, equal schemas taken for one."""
        negated = {self.same(part.operand) for part in parts if type(part) is Not}
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
        spend(60)
        return Shape(
            a.null and b.null,
            a.booleans & b.booleans,
            a.numbers if a.numbers is b.numbers else a.numbers & b.numbers,
            a.strings if a.strings is b.strings else a.strings & b.strings,
            self.and_arrays(a.arrays, b.arrays),
            self.and_objects(a.objects, b.objects),
        )

    def union(self, shapes: Iterable[Shape]) -> Shape:
        null, booleans, numbers, strings = False, 0, Numbers.NONE, Strings.NONE
        arrays: list[ArrayCell] = []
        objects: list[ObjectCell] = []
        for shape in shapes:
            null = null or shape.null
            booleans |= shape.booleans
            if shape.numbers is not Numbers.NONE:
                numbers = shape.numbers if numbers is Numbers.NONE else numbers | shape.numbers
            if shape.strings is not Strings.NONE:
                strings = shape.strings if strings is Strings.NONE else strings | shape.strings
            arrays += shape.arrays
            objects += shape.objects
        return Shape(null, booleans, numbers, strings, self._distinct(arrays), self._distinct(objects))

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
        size = len(a) * len(b)
        votes = any(type(cell) is not ArrayCell for cell in (*a, *b))
        if votes or size > self.most_cells:
            from guiderail.frontends.json_schema.array_votes import comparing, every, multiplied

            if comparing(a) or comparing(b):  # what compares items with each other is no part of a vote
                a, b = multiplied(self, a), multiplied(self, b)
                self._limit(len(a) * len(b))
            elif votes or size > _PRUNED * self.most_cells:
                return self._arrays_late(every((a, b)))
        cells = [cell for x in a for y in b if (cell := self._and_array(x, y)) is not None]
        found = self._distinct(cells)
        if len(found) > self.most_cells and size > self.most_cells and not comparing(found):
            return self._arrays_late(every((a, b)))
        return found

    def _arrays_late(self, found: tuple[ArrayCell, ...]) -> tuple[ArrayCell, ...]:
        if self.eager:
            raise TooMany
        return found

    def and_objects(self, a: tuple[ObjectCell, ...], b: tuple[ObjectCell, ...]) -> tuple[ObjectCell, ...]:
        if a is b or (len(b) == 1 and b[0] is ANY_OBJECT):
            return a
        if len(a) == 1 and a[0] is ANY_OBJECT:
            return b
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
            from guiderail.frontends.json_schema.simplify import without_covered

            cells = without_covered(cells)
        return self._distinct(cells)

    def _late(self, *unions: tuple[ObjectCell, ...]) -> tuple[ObjectCell, ...]:
        """All of some unions, not multiplied out."""
        from guiderail.frontends.json_schema.votes import all_of, any_of, formula_of, vote

        if self.eager:
            raise TooMany
        return vote(self, all_of(self, [any_of(map(formula_of, cells)) for cells in unions]))

    @contextmanager
    def trying(self, eager: bool = True) -> Iterator[None]:
        """Within, what would be left to be read side by side raises `TooMany`; not where ``eager`` is false.

        So does what takes more than some 0.1 s.
        """
        before, self.eager = self.eager, spent() + _TRIED if eager else 0
        try:
            yield
        finally:
            self.eager = before

    def _large(self, a: tuple[ObjectCell, ...], b: tuple[ObjectCell, ...]) -> list[ObjectCell] | None:
        """A product of many cells: what is empty is dropped at once. None where many are left."""
        from guiderail.frontends.json_schema.satisfiable import is_empty_object
        from guiderail.frontends.json_schema.simplify import Cover

        cover = Cover()
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
        """Without repetitions."""
        if len(cells) < 2:
            return tuple(cells)
        if any(cell is ANY_ARRAY or cell is ANY_OBJECT for cell in cells):
            return tuple(cell for cell in cells if cell is ANY_ARRAY or cell is ANY_OBJECT)[:1]
        spend(40 * len(cells))
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
        if len(b.named) <= _FEW and b.rest is TRUE and b.max is None and not (b.rules or b.obligations or b.min):
            told = [_plainly_within(a.named[key], term) if key in a.named else None for key, term in b.named.items()]
            if all(told) and b.required <= a.required:
                return a
            if any(t is False and (k in a.required or k in b.required) for t, k in zip(told, b.named, strict=True)):
                return None
        spend(100 + 10 * (len(a.named) + len(b.named)))
        if b.named and not a.named:  # keep the order in which properties were declared
            a, b = b, a
        named = a.named
        if b.named or b.rest is not TRUE or b.rules:
            named = {}
            for key, term in a.named.items():
                other = b.named.get(key)
                if other is not None:
                    same = other is TRUE or _plainly_within(term, other)
                    named[key] = term if same else self.and_terms((term, other))
                elif b.rest is TRUE and not b.rules:
                    named[key] = term
                else:
                    named[key] = self.and_terms([term, *b.terms(key)])
            for key, term in b.named.items():
                if key not in named:
                    named[key] = self.and_terms([term, *a.terms(key)])
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
        rest = a.rest if b.rest is TRUE or a.rest is b.rest else self.and_terms((a.rest, b.rest))
        if (
            rest is a.rest
            and (rules, low, high, obligations) == (a.rules, a.min, a.max, a.obligations)
            and len(required) == len(a.required)
            and len(named) == len(a.named)
            and all(named[key] is term for key, term in a.named.items())
        ):
            return a
        cell = ObjectCell(named, rest, required, rules, low, high, obligations)
        return self._settled(cell) if obligations else cell

    def _settled(self, cell: ObjectCell) -> ObjectCell | None:
        """A cell without the obligations that a required member meets, or that only one member can meet."""
        named, required = cell.named, cell.required
        closed = cell.rest is FALSE and not cell.rules
        waiting, changed = list(cell.obligations), True
        while changed:
            changed, kept = False, []
            for o in waiting:
                spend(20 + 2 * len(named) + 20 * len(o.ways))
                if any(term is TRUE or named[name] is term for name in required for term in o.terms(name)):
                    continue
                ways: list[tuple[Strings, Term]] = []
                able: set[str] | None = set()  # the names that can meet it; None: others can as well
                for keys, term in o.ways:
                    texts = keys.finite_texts()
                    if not closed and (texts is None or not texts <= named.keys()):
                        ways.append((keys, term))
                        able = None
                        continue
                    meeting = (
                        name
                        for name in (named if texts is None else sorted(texts & named.keys()))
                        if (texts is not None or name in keys) and self.and_terms((named[name], term)) is not FALSE
                    )
                    names = list(islice(meeting, 2))  # whether there is one, or more
                    if names:
                        ways.append((keys, term))
                    if able is not None:
                        able.update(names)
                if not ways:
                    return None
                if able is not None and len(able) == 1:
                    (name,) = able
                    met = self.and_terms((named[name], self.or_terms(o.terms(name))))
                    if met is FALSE:
                        return None
                    named, required, changed = {**named, name: met}, required | able, True
                else:
                    kept.append(o if len(ways) == len(o.ways) else Obligation(tuple(ways)))
            waiting = kept
        if cell.max is not None and len(required) > cell.max:
            return None
        return ObjectCell(named, cell.rest, required, cell.rules, cell.min, cell.max, tuple(waiting))

    def _not_objects(self, cells: tuple[ObjectCell, ...]) -> tuple[ObjectCell, ...]:
        """The complement of a union of cells.

        Cells that a required name tells apart (a discriminator: it has other values in each) are negated one by one:
        the name is missing, or has none of the values, or has those of one cell, which fails. That is a sum of
        alternatives where De Morgan's law has a product.
        """
        if any(type(cell) is not ObjectCell for cell in cells):
            return self._not_late(cells)
        if len(cells) > 1:
            from guiderail.frontends.json_schema.satisfiable import discriminator

            name = discriminator(self, cells)
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
        from guiderail.frontends.json_schema.votes import any_of, formula_of, negated, vote

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
            if name in cell.required:  # it is missing, or there and wrong
                cells.append(ObjectCell({name: self.not_term(term)}, TRUE))
            elif term is not TRUE and not has_surrogate(name):
                optional.append((name, self.not_term(term)))
        if len(optional) < _FEW:
            cells += [ObjectCell({name: term}, TRUE, frozenset((name,))) for name, term in optional]
        else:  # one of them is there and wrong: one cell, whatever their number
            ways = tuple((Strings.texts((name,)), term) for name, term in optional)
            named = dict.fromkeys((name for name, _ in optional), TRUE)
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
        cells += [self._unmet(o) for o in cell.obligations]
        return tuple(cells)

    def _unmet(self, obligation: Obligation) -> ObjectCell:
        """The objects no member of which meets an obligation."""
        named: dict[str, Term] = {}
        rest: list[Term] = []
        rules: list[KeyRules] = []
        for keys, term in obligation.ways:
            if keys.is_all():
                rest.append(self.not_term(term))
        for name in sorted({name for keys, _ in obligation.ways for name in keys.finite_texts() or ()}):
            named[name] = self.and_terms(self.not_term(term) for term in obligation.terms(name))
        for keys, term in obligation.ways:
            if not keys.is_all() and keys.finite_texts() is None:
                rules.append(KeyRules(((keys, self.not_term(term)),), TRUE))
        return ObjectCell(named, self.and_terms(rest), rules=tuple(rules))

    def array_cell(
        self,
        prefix: tuple[Term, ...],
        rest: Term,
        low: int,
        high: int | None,
        contains: tuple[Contains, ...],
        unique: bool = False,
        repeated: bool = False,
    ) -> ArrayCell | None:
        """A cell in simplest form, or None where it is plainly empty."""
        counters: list[Contains] = []
        for c in contains:
            if c.max is not None and c.max < c.min:
                return None
            if c.term is TRUE:
                low = max(low, c.start + c.min if c.min else 0)
                if c.max is not None:
                    high = c.start + c.max if high is None else min(high, c.start + c.max)
            elif c.max == 0:
                never = self.not_term(c.term)
                items = list(prefix) + [rest] * (c.start - len(prefix))
                prefix = tuple(self.and_terms((item, never)) if i >= c.start else item for i, item in enumerate(items))
                rest = self.and_terms((rest, never))
            elif c.term is FALSE:
                if c.min:
                    return None
            elif c.min or c.max is not None:
                counters.append(c)
                if c.min:
                    low = max(low, c.start + c.min)
        while prefix and prefix[-1] is rest:
            prefix = prefix[:-1]
        for i, item in enumerate(prefix):
            if item is FALSE:
                prefix, rest = prefix[:i], FALSE
                break
        if rest is FALSE:
            high = len(prefix) if high is None else min(high, len(prefix))
        if (high is not None and high < low) or (unique and repeated):
            return None
        if high is not None and len(prefix) > high:
            prefix = prefix[:high]
        if high is not None and high <= len(prefix) and not counters:
            rest = FALSE
        return ArrayCell(prefix, rest, low, high, tuple(counters), unique, repeated)

    def _and_array(self, a: ArrayCell, b: ArrayCell) -> ArrayCell | None:
        if a is ANY_ARRAY:
            return b
        if b is ANY_ARRAY:
            return a
        longest = max(len(a.prefix), len(b.prefix))
        spend(100 + 20 * longest)
        contains = {c.key(): c for c in a.contains + b.contains}
        return self.array_cell(
            tuple(self.and_terms((a.item(i), b.item(i))) for i in range(longest)),
            self.and_terms((a.rest, b.rest)),
            max(a.min, b.min),
            a.max if b.max is None else b.max if a.max is None else min(a.max, b.max),
            tuple(contains.values()),
            a.unique or b.unique,
            a.repeated or b.repeated,
        )

    def _not_array(self, cell: ArrayCell) -> tuple[ArrayCell, ...]:
        if type(cell) is not ArrayCell:
            from guiderail.frontends.json_schema.array_votes import ArrayVote, negation

            assert isinstance(cell, ArrayVote)
            return (negation(cell),)
        spend(100 + 20 * len(cell.prefix) ** 2)
        cells: list[ArrayCell] = []
        for i, term in enumerate(cell.prefix):
            if term is not TRUE:
                cells.append(ArrayCell((*[TRUE] * i, self.not_term(term)), TRUE, i + 1))
        start = len(cell.prefix)
        if cell.rest is not TRUE:
            if cell.rest is FALSE:
                cells.append(ArrayCell((), TRUE, start + 1))
            else:
                counter = Contains(start, self.not_term(cell.rest), 1, None)
                cells.append(ArrayCell((), TRUE, start + 1, contains=(counter,)))
        if cell.min > 0:
            cells.append(ArrayCell((), TRUE, 0, cell.min - 1))
        if cell.max is not None:
            cells.append(ArrayCell((), TRUE, cell.max + 1))
        for c in cell.contains:
            if c.min > 0 and (few := self.array_cell((), TRUE, 0, None, (Contains(c.start, c.term, 0, c.min - 1),))):
                cells.append(few)
            if c.max is not None:
                many = Contains(c.start, c.term, c.max + 1, None)
                cells.append(ArrayCell((), TRUE, c.start + c.max + 1, contains=(many,)))
        if cell.unique:
            cells.append(ArrayCell((), TRUE, 2, repeated=True))
        if cell.repeated:
            cells.append(ArrayCell((), TRUE, unique=True))
        return tuple(cells)

    # -- keys ----------------------------------------------------------------------------------------------------
    def regions(self, cell: ObjectCell) -> list[tuple[Strings, Term]]:
        """The keys that are not named, split by what their values must satisfy; forbidden keys are left out."""
        parts = [(Strings.ALL, cell.rest)] if cell.rest is not FALSE else []
        for rules in cell.rules:
            parts = [
                (keys, self.and_terms((term, more)))
                for outer, term in parts
                for keys, more in self._split(rules, outer)
                if term is TRUE or self.and_terms((term, more)) is not FALSE
            ]
            self._limit(len(parts))
        return parts

    def _split(self, rules: KeyRules, outer: Strings) -> list[tuple[Strings, Term]]:
        # (keys, term, whether some entry applies)
        parts: list[tuple[Strings, Term | None]] = [(outer, None)]
        for language, term in rules.entries:
            split: list[tuple[Strings, Term | None]] = []
            for keys, known in parts:
                spend(200)
                both = term if known is None else self.and_terms((known, term))
                if keys.is_all():
                    inside, outside = language, ~language
                else:
                    inside, outside = keys & language, keys & ~language
                if both is not FALSE and not inside.is_empty():
                    split.append((inside, both))
                # where no entry applies and nothing else is allowed there is no need to look
                if not (known is None and rules.default is FALSE and language is rules.entries[-1][0]) and not (
                    outside.is_empty()
                ):
                    split.append((outside, known))
            parts = split
            self._limit(len(parts))
        found = ((keys, rules.default if term is None else term) for keys, term in parts)
        return [(keys, term) for keys, term in found if term is not FALSE]

    def named_term(self, cell: ObjectCell, key: str) -> Term:
        """What the value of a key must satisfy, as one term."""
        known = cell.named.get(key)
        return known if known is not None else self.and_terms(cell.terms(key))
