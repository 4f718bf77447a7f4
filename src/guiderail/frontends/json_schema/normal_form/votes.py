"""Objects whose alternatives are read side by side, if the normal form would have too many cells.

A `Vote` stands among the cells of a shape. It is a formula over cells that is never multiplied out: *and*, *or* and
*not* of votes are votes, at no cost. The fields that it shares with a cell say what holds in all of its alternatives,
so code that looks for a reason to tell cells apart may use them.

Alternatives make different demands on a value. For each key, the values are split into *atoms*, sets in which the same
alternatives fail, only as far as the formula still depends on it. The core reads a member as the union of its atoms and
remembers which alternatives have failed (see ``core/json/votes.cpp``). So the state of an object grows with the number
of alternatives, whereas the normal form grows with the number of their combinations.

If alternatives require several objects under one key, an atom is a formula again (a `Region`): votes nest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

from guiderail.frontends.json_schema.normal_form.disjoint import plainly_disjoint
from guiderail.frontends.json_schema.normal_form.obligations import unmet
from guiderail.frontends.json_schema.normal_form.shape import ANY_OBJECT, FALSE, TRUE, KeyRules, ObjectCell, Shape, Term
from guiderail.frontends.json_schema.normal_form.simplify import within
from guiderail.frontends.json_schema.values.strings import Strings
from guiderail.support.work import spend

if TYPE_CHECKING:
    from guiderail.frontends.json_schema.normal_form.algebra import Algebra

__all__ = [
    "IMPOSSIBLE",
    "MANIFOLD",
    "Mix",
    "Numbered",
    "Vote",
    "all_of",
    "any_of",
    "bits",
    "cells_of",
    "formula_of",
    "holds",
    "negated",
    "obligations_apart",
    "one_of",
    "vote",
]


class Mix:
    """A combination of parts of a formula: ``all`` hold, ``any``, exactly ``one``, or ``not`` its only part."""

    __slots__ = ("_hull", "_key", "op", "parts")

    def __init__(self, op: str, parts: tuple[Any, ...]) -> None:
        self.op = op
        self.parts = parts
        self._key: tuple[object, ...] | None = None
        self._hull: tuple[ObjectCell | None] | None = None

    def hull(self, algebra: Algebra) -> ObjectCell | None:
        """A cell that holds whenever the formula does; None if nothing does. Shared parts are computed once."""
        if self._hull is None:
            self._hull = (_hull_of(algebra, self),)
        return self._hull[0]

    def key(self) -> tuple[object, ...]:
        if self._key is None:
            spend(5 * len(self.parts))
            parts = [part.key() for part in self.parts]
            self._key = self.op, (tuple(parts) if self.op == "one" else frozenset(parts))
        return self._key


if TYPE_CHECKING:
    Formula = Mix | ObjectCell

IMPOSSIBLE: Final = Mix("any", ())
"""No object at all."""


class Vote(ObjectCell):
    """Objects described by a formula over cells.

    Attributes:
        formula: over cells that are not votes.
    """

    __slots__ = ("formula",)

    def __init__(self, hull: ObjectCell, formula: Mix) -> None:
        super().__init__(hull.named, hull.rest, hull.required, hull.rules, hull.min, hull.max)
        self.formula = formula

    def key(self) -> tuple[object, ...]:
        return ("vote", self.formula.key())

    def accepts(self, value: dict[str, Any]) -> bool:
        return holds(self.formula, lambda cell: cell.accepts(value))


def holds(formula: Any, cell: Callable[[Any], bool]) -> bool:
    """Whether a formula holds, given which of its cells do."""
    if not isinstance(formula, Mix):
        return cell(formula)
    spend(1)
    parts = formula.parts
    if formula.op == "all":
        return all(holds(part, cell) for part in parts)
    if formula.op == "any":
        return any(holds(part, cell) for part in parts)
    if formula.op == "one":
        return sum(holds(part, cell) for part in parts) == 1
    return not holds(parts[0], cell)


def cells_of(formula: Formula) -> Iterator[ObjectCell]:
    """All cells in a formula, each once."""
    seen: set[int] = set()
    stack = [formula]
    while stack:
        part = stack.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, Mix):
            stack += part.parts[::-1]
        else:
            yield part


def formula_of(cell: ObjectCell) -> Formula:
    return cell.formula if isinstance(cell, Vote) else cell


def all_of(algebra: Algebra, parts: Iterable[Formula]) -> Formula:
    plain = ANY_OBJECT
    others: dict[object, Formula] = {}
    stack = list(parts)[::-1]
    while stack:
        part = stack.pop()
        spend(_JOINED)
        if isinstance(part, ObjectCell):
            both = algebra._and_object(plain, part)
            if both is None:
                return IMPOSSIBLE
            plain = both
        elif part.op == "all":
            stack += part.parts[::-1]
        elif part.op == "any" and not part.parts:
            return IMPOSSIBLE
        else:
            others[part.key()] = part
    if not others:
        return plain
    found = list(others.values())
    if plain is not ANY_OBJECT:
        found.insert(0, plain)
    return found[0] if len(found) == 1 else Mix("all", tuple(found))


def any_of(parts: Iterable[Formula]) -> Formula:
    found: dict[object, Formula] = {}
    stack = list(parts)[::-1]
    while stack:
        part = stack.pop()
        spend(_JOINED)
        if part is ANY_OBJECT:
            return ANY_OBJECT
        if isinstance(part, Mix) and part.op == "any":
            stack += part.parts[::-1]
        else:
            found[part.key()] = part
    return next(iter(found.values())) if len(found) == 1 else Mix("any", tuple(found.values()))


def one_of(parts: Iterable[Formula]) -> Formula:
    found = [part for part in parts if part is not IMPOSSIBLE]
    return found[0] if len(found) == 1 else Mix("one", tuple(found)) if found else IMPOSSIBLE


def negated(formula: Formula) -> Formula:
    if formula is ANY_OBJECT:
        return IMPOSSIBLE
    if isinstance(formula, Mix):
        if formula.op == "not":
            operand: Formula = formula.parts[0]
            return operand
        if formula.op == "any" and not formula.parts:
            return ANY_OBJECT
    return Mix("not", (formula,))


def obligations_apart(algebra: Algebra, cell: ObjectCell) -> Mix:
    """A cell as a formula over cells without obligations: not all members miss one of them."""
    bare = ObjectCell(cell.named, cell.rest, cell.required, cell.rules, cell.min, cell.max)
    return Mix("all", (bare, *[negated(unmet(algebra, o)) for o in cell.obligations]))


def vote(algebra: Algebra, formula: Formula) -> tuple[ObjectCell, ...]:
    """The cells of a formula: one, or none if it obviously has no objects."""
    if isinstance(formula, ObjectCell):
        return (formula,)
    hull = _hull(algebra, formula)
    return () if hull is None else (Vote(hull, formula),)


def _hull(algebra: Algebra, formula: Formula) -> ObjectCell | None:
    return formula if isinstance(formula, ObjectCell) else formula.hull(algebra)


def _hull_of(algebra: Algebra, formula: Mix) -> ObjectCell | None:
    if formula.op == "not":
        return ANY_OBJECT
    spend(2 * _JOINED * len(formula.parts))
    if formula.op == "all":
        found: ObjectCell | None = ANY_OBJECT
        for part in formula.parts:
            hull = _hull(algebra, part)
            found = None if hull is None or found is None else algebra._and_object(found, hull)
        return found
    hulls = [hull for part in formula.parts if (hull := _hull(algebra, part)) is not None]
    if not hulls:
        return None
    required = frozenset.intersection(*[hull.required for hull in hulls])
    named = {name: algebra.or_terms([hull.named[name] for hull in hulls]) for name in sorted(required)}
    return ObjectCell(named, TRUE, required)


def bits(numbers: Iterable[int]) -> int:
    """Some numbers as the bits of one."""
    found = 0
    for i in numbers:
        found |= 1 << i
    return found


# -- the form that the core reads -------------------------------------------------------------------------------------
OPERATORS: Final = {"all": 1, "any": 2, "one": 3, "not": 4}
_C = TypeVar("_C")


class Numbered(Generic[_C]):
    """A formula with its cells and parts numbered, each once.

    Attributes:
        cells: by number.
        parts: ``(operator, numbers)`` as the core has them: of a cell, or of earlier parts; the last is the whole.
    """

    __slots__ = ("_made", "_masks", "_numbers", "cells", "parts")

    def __init__(self) -> None:
        self._numbers: dict[object, int] = {}
        self._made: dict[object, int] = {}
        # Of each part: its operator, and its operands as bits; then those that it has more than once.
        self._masks: list[tuple[int, int, int]] = []
        self.cells: list[_C] = []
        self.parts: list[tuple[int, list[int]]] = []

    def _add(self, formula: Any) -> int:
        key = formula.key()
        known = self._made.get(key)
        if known is not None:
            return known
        spend(_MADE)
        if isinstance(formula, Mix):
            op, of = OPERATORS[formula.op], [self._add(p) for p in formula.parts]
        else:
            op, of = self._add_cell(key, formula)
        spend(len(of))
        once = twice = 0
        for p in of:
            twice |= once & 1 << p
            once |= 1 << p
        self.parts.append((op, of))
        self._masks.append((op, once, twice))
        self._made[key] = len(self.parts) - 1
        return len(self.parts) - 1

    def _add_cell(self, key: object, cell: _C) -> tuple[int, list[int]]:
        number = self._numbers.setdefault(key, len(self.cells))
        if number == len(self.cells):
            self.cells.append(cell)
        return 0, [number]

    def truth(self, holding: int, failed: int) -> tuple[int, int]:
        """The parts that hold and those that fail, given the cells that do; the other parts are open. All as bits."""
        spend(_TRUTH * len(self._masks))
        yes, no, bit = 0, 0, 1
        for op, of, twice in self._masks:
            if op == 0:
                if of & holding:
                    yes |= bit
                elif of & failed:
                    no |= bit
            elif op == 1:
                if of & no:
                    no |= bit
                elif not of & ~yes:
                    yes |= bit
            elif op == 2:
                if of & yes:
                    yes |= bit
                elif not of & ~no:
                    no |= bit
            elif op == 3:
                held = of & yes
                if held & twice or held & (held - 1):
                    no |= bit
                elif not of & ~(yes | no):
                    if held:
                        yes |= bit
                    else:
                        no |= bit
            elif of & no:
                yes |= bit
            elif of & yes:
                no |= bit
            bit <<= 1
        return yes, no

    def whole(self, holding: int, failed: int) -> bool | None:
        """Whether the whole formula holds, given the cells that do and those that fail, as bits; None: open."""
        yes, no = self.truth(holding, failed)
        last = len(self.parts) - 1
        return True if yes >> last else False if no >> last else None


_JOINED: Final = 10  # steps for a part of a formula that is put together
_MADE: Final = 20  # steps for a part
_LIVE: Final = 5  # steps for a part that matters
_TRUTH: Final = 2  # steps for deciding a part


class Ballot(Numbered[ObjectCell]):
    """A formula over cells of objects, without obligations, and what remains of it when some of these fail."""

    __slots__ = ("_algebra", "_live")

    def __init__(self, algebra: Algebra, formula: Formula) -> None:
        super().__init__()
        self._algebra = algebra
        self._live: dict[frozenset[int], tuple[bool, frozenset[int] | None, bool]] = {}
        self._add(formula)

    def _add_cell(self, key: object, cell: ObjectCell) -> tuple[int, list[int]]:
        if not cell.obligations:
            return super()._add_cell(key, cell)
        return OPERATORS["all"], [self._add(part) for part in obligations_apart(self._algebra, cell).parts]

    def remains(self, failed: frozenset[int]) -> tuple[bool, frozenset[int] | None, bool]:
        """What remains if cells fail.

        Returns:
            Whether the formula may still hold, the cells it still depends on, and whether it requires all of them.
        """
        known = self._live.get(failed)
        if known is None:
            known = self._live[failed] = self._remains(failed)
        return known

    def _remains(self, failed: frozenset[int]) -> tuple[bool, frozenset[int] | None, bool]:
        yes, no = self.truth(0, bits(failed))
        last = len(self.parts) - 1
        if (yes | no) >> last:
            return yes >> last == 1, frozenset(), True
        cells: set[int] = set()
        plain = True
        seen: set[tuple[int, bool]] = set()
        stack = [(len(self.parts) - 1, True)]
        while stack:
            at, sure = stack.pop()
            if (at, sure) in seen:
                continue
            seen.add((at, sure))
            op, of = self.parts[at]
            spend(_LIVE + 2 * len(of))
            if op == 0:
                cells.add(of[0])
                plain = plain and sure
                continue
            live = [p for p in of if not (yes | no) >> p & 1]
            one = len(live) == 1 and (op == 2 or (op == 3 and not any(yes >> p & 1 for p in of)))
            same = op == 1 or one
            stack += [(p, sure and same) for p in live]
        return True, frozenset(cells), plain

    def normal(self, failed: frozenset[int]) -> frozenset[int] | None:
        """The same failures, plus all cells that no longer matter; None: the formula cannot hold any more."""
        possible, cells, _ = self.remains(failed)
        if not possible or cells is None:
            return None
        return frozenset(range(len(self.cells))) - cells


class Region(Term):
    """The values in all of some terms and in none of others. Its objects are a vote: nothing is multiplied out."""

    __slots__ = ("algebra", "held", "missed")

    def __init__(self, algebra: Algebra, held: tuple[Term, ...], missed: tuple[Term, ...]) -> None:
        self.known = None
        self.algebra = algebra
        self.held = held
        self.missed = missed

    def _evaluate(self) -> Shape:
        algebra = self.algebra
        with algebra.trying(eager=False):
            shape = _no_objects(TRUE.shape())
            formulas: list[Formula] = []
            for term in self.held:
                shape = algebra.and_shapes(shape, _no_objects(term.shape()))
                formulas.append(any_of(map(formula_of, term.shape().objects)))
            for term in self.missed:
                shape = algebra.and_shapes(shape, _no_objects(algebra.not_shape(_no_objects(term.shape()))))
                formulas.append(negated(any_of(map(formula_of, term.shape().objects))))
            objects = vote(algebra, all_of(algebra, formulas))
        return Shape(shape.null, shape.booleans, shape.numbers, shape.strings, shape.arrays, objects)


def _part(algebra: Algebra, values: Term, term: Term, holds: bool, late: bool) -> Term:
    """The values, among some, that are in a term, or that are not.

    Args:
        algebra: keeps the regions.
        values: all values, or what earlier calls have left of them.
        term: the term.
        holds: whether they must be in it.
        late: whether objects stay formulas.
    """
    if not late:
        return algebra.both(values, term if holds else algebra.not_term(term))
    held, missed = (values.held, values.missed) if isinstance(values, Region) else ((), ())
    if holds:
        held += (term,)
    else:
        missed += (term,)
    key = frozenset(held), frozenset(missed)
    known = algebra.regions_made.get(key)
    if known is None:
        known = algebra.regions_made[key] = Region(algebra, held, missed)
    return known


def _no_objects(shape: Shape) -> Shape:
    return Shape(shape.null, shape.booleans, shape.numbers, shape.strings, shape.arrays, ())


class Split(NamedTuple):
    """The values of a key, split by the cells that they fail.

    Attributes:
        atoms: disjoint sets of values, with the cells that each fails.
        wholes: terms that are exactly the union of some atoms, with the indices of these.
    """

    atoms: list[tuple[Term, frozenset[int]]]
    wholes: list[tuple[Term, list[int]]]


class Atoms:
    """Splits the values of a key by the cells of a ballot that they fail."""

    __slots__ = ("algebra", "ballot", "known")

    def __init__(self, algebra: Algebra, ballot: Ballot) -> None:
        self.algebra = algebra
        self.ballot = ballot
        self.known: dict[tuple[Term, ...], Split] = {}

    def of(self, terms: list[Term]) -> Split:
        """Splits the values of a key.

        Args:
            terms: what each cell requires of the value.
        """
        key = tuple(terms)
        known = self.known.get(key)
        if known is None:
            known = self.known[key] = self._of(terms)
        return known

    def _of(self, terms: list[Term]) -> Split:
        algebra, ballot = self.algebra, self.ballot
        asked: dict[Term, set[int]] = {}
        for i, term in enumerate(terms):
            asked.setdefault(term, set()).add(i)
        start = ballot.normal(frozenset(asked.pop(FALSE, ())))
        asked.pop(TRUE, None)
        none = frozenset[Term]()
        parts = [] if start is None else [_Values(TRUE, start, none, none)]
        lost: list[_Values] = []  # values that no object may have
        late = sum(map(_is_manifold, asked)) >= MANIFOLD
        for term, cells in asked.items():
            split: list[_Values] = []
            for part in parts:
                if cells <= part.failed:  # no longer needed
                    split.append(part)
                    continue
                values, fails = part.values, ballot.normal(part.failed | cells)
                inside, outside = part.inside | {term}, part.outside | {term}
                failed = part.failed if fails is None else fails
                if values is not TRUE:
                    if plainly_disjoint(values.shape(), term.shape()):
                        (lost if fails is None else split).append(_Values(values, failed, part.inside, outside))
                        continue
                    if within(values, term, algebra.within):
                        split.append(_Values(values, part.failed, inside, part.outside))
                        continue
                both = _part(algebra, values, term, True, late)
                if not algebra.emptiness.term(both):
                    split.append(_Values(both, part.failed, inside, part.outside))
                if fails is None:
                    lost.append(_Values(values, failed, part.inside, outside))
                    continue
                rest = _part(algebra, values, term, False, late)
                if not algebra.emptiness.term(rest):
                    split.append(_Values(rest, failed, part.inside, outside))
            parts = split
            algebra._limit(len(parts))
        same: dict[frozenset[int], list[_Values]] = {}
        for part in parts:
            same.setdefault(part.failed, []).append(part)
        atoms = [(algebra.or_terms([part.values for part in of]), failed) for failed, of in same.items()]
        return Split(atoms, self._wholes(list(asked), list(same.values()), lost))

    def _wholes(
        self, asked: list[Term], atoms: list[list[_Values]], lost: list[_Values]
    ) -> list[tuple[Term, list[int]]]:
        wholes: list[tuple[Term, list[int]]] = []
        for term in asked if len(atoms) > 2 else ():
            inside = [i for i, atom in enumerate(atoms) if all(term in part.inside for part in atom)]
            outside = [i for i, atom in enumerate(atoms) if all(term in part.outside for part in atom)]
            if len(inside) + len(outside) < len(atoms):
                continue
            if len(inside) > 1 and all(term in part.outside for part in lost):
                wholes.append((term, inside))
            if len(outside) > 1 and all(term in part.inside for part in lost):
                wholes.append((self.algebra.not_term(term), outside))
        return wholes


class _Values(NamedTuple):
    """Some values of a key, the cells that they fail, and the terms that all or none of them satisfy."""

    values: Term
    failed: frozenset[int]
    inside: frozenset[Term]
    outside: frozenset[Term]


MANIFOLD = 4
"""With this many terms whose objects have this many members each, combinations are left as formulas."""


def _is_manifold(term: Term) -> bool:
    """Whether its negation has many ways, or its conditions on other keys would be split in turn."""
    return any(
        len(cell.named) + len(cell.obligations) >= MANIFOLD or cell.rules or cell.rest not in (TRUE, FALSE)
        for cell in term.shape().objects
    )


def regions(algebra: Algebra, cells: list[ObjectCell]) -> Iterator[tuple[Strings, list[Term]]]:
    """The keys that no cell names, split by what each cell requires of their values."""
    languages: list[Strings] = []
    for cell in cells:
        for rules in cell.rules:
            languages += [language for language, _ in rules.entries if language not in languages]
    parts: list[tuple[Strings, frozenset[int]]] = [(Strings.ALL, frozenset())]
    for i, language in enumerate(languages):
        split: list[tuple[Strings, frozenset[int]]] = []
        for keys, inside in parts:
            within = language if keys.is_all() else keys & language
            outside = ~language if keys.is_all() else keys & ~language
            if not within.is_empty():
                split.append((within, inside | {i}))
            if not outside.is_empty():
                split.append((outside, inside))
        parts = split
        algebra._limit(len(parts))
    number = {language: i for i, language in enumerate(languages)}

    def asks(rules: KeyRules, inside: frozenset[int]) -> list[Term]:
        found = [term for language, term in rules.entries if number[language] in inside]
        return found or [rules.default]

    for keys, inside in parts:
        yield (
            keys,
            [algebra.and_terms([cell.rest, *[t for r in cell.rules for t in asks(r, inside)]]) for cell in cells],
        )
