"""The normal form of a schema: for each JSON type, the values it allows.

A `Shape` is closed under *and*, *or* and *not* (see `algebra`). Numbers and strings are sets of their own; arrays
and objects are unions of *cells*. A cell is a conjunction of simple conditions on items or members, whose
sub-schemas are `Term` values: evaluated to a shape only on demand, which makes recursive schemas
finite.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Final

from guiderail.frontends.json_schema.values.numbers import Numbers
from guiderail.frontends.json_schema.values.strings import Strings
from guiderail.support.work import spend

__all__ = [
    "ANY_ARRAY",
    "ANY_OBJECT",
    "FALSE",
    "NOTHING",
    "TRUE",
    "TYPE_TERMS",
    "UNREACHABLE",
    "ArrayCell",
    "Contains",
    "Fixed",
    "KeyRules",
    "ObjectCell",
    "Obligation",
    "Shape",
    "Term",
    "identity",
]


UNREACHABLE: Final = 2**32 - 1
"""The core counts no further, and no text has this many items or members."""


class Term:
    """A set of JSON values, evaluated to a shape on first use. Compared by identity."""

    __slots__ = ("known",)
    known: Shape | None

    def shape(self) -> Shape:
        """The normal form."""
        known = self.known
        if known is None:
            spend(1)
            known = self.known = self._evaluate()
        return known

    def _evaluate(self) -> Shape:
        raise NotImplementedError


class Fixed(Term):
    """A term whose shape is given."""

    __slots__ = ()

    def __init__(self, shape: Shape | None) -> None:
        self.known = shape


class Contains:
    """Between ``min`` and ``max`` items from index ``start`` on satisfy ``term``."""

    __slots__ = ("max", "min", "start", "term")

    def __init__(self, start: int, term: Term, min: int, max: int | None) -> None:
        self.start = start
        self.term = term
        self.min = min
        self.max = max

    def key(self) -> tuple[object, ...]:
        return self.start, self.term, self.min, self.max


class ArrayCell:
    """Arrays whose items, by position, satisfy ``prefix`` and then ``rest``, with bounds on what they contain.

    Attributes:
        prefix: terms of the first items; they need not be there.
        rest: term of all further items.
        min: least number of items.
        max: greatest number of items, or None.
        contains: counters.
        unique: no two items are equal.
        repeated: some two items are equal (the negation of ``unique``).
    """

    __slots__ = ("contains", "max", "min", "prefix", "repeated", "rest", "unique")

    def __init__(
        self,
        prefix: tuple[Term, ...],
        rest: Term,
        min: int = 0,
        max: int | None = None,
        contains: tuple[Contains, ...] = (),
        unique: bool = False,
        repeated: bool = False,
    ) -> None:
        self.prefix = prefix
        self.rest = rest
        self.min = min
        self.max = max
        self.contains = contains
        self.unique = unique
        self.repeated = repeated

    def item(self, index: int) -> Term:
        return self.prefix[index] if index < len(self.prefix) else self.rest

    def key(self) -> tuple[object, ...]:
        counters = frozenset(c.key() for c in self.contains)
        return self.prefix, self.rest, self.min, self.max, counters, self.unique, self.repeated

    def accepts(self, value: list[Any]) -> bool:
        if len(value) < self.min or (self.max is not None and len(value) > self.max):
            return False
        if not all(self.item(i).shape().accepts(item) for i, item in enumerate(value)):
            return False
        for c in self.contains:
            found = sum(c.term.shape().accepts(item) for item in value[c.start :])
            if found < c.min or (c.max is not None and found > c.max):
                return False
        if self.unique or self.repeated:
            distinct = len({identity(item) for item in value}) == len(value)
            return distinct != self.repeated if self.unique != self.repeated else False
        return True


class KeyRules:
    """What ``patternProperties`` with ``additionalProperties`` say of one key.

    A key in the language of some entries must have a value in all of their terms; a key in none, in ``default``.
    """

    __slots__ = ("default", "entries")

    def __init__(self, entries: tuple[tuple[Strings, Term], ...], default: Term) -> None:
        self.entries = entries
        self.default = default

    def terms(self, key: str) -> list[Term]:
        found = [term for language, term in self.entries if language.contains(key)]
        return found or [self.default]

    def key(self) -> tuple[object, ...]:
        return self.entries, self.default


class Obligation:
    """For one of the ways ``(keys, term)`` some member has its key in ``keys`` and its value in ``term``."""

    __slots__ = ("_sorted", "ways")

    def __init__(self, ways: tuple[tuple[Strings, Term], ...]) -> None:
        self.ways = ways
        # By name: the ways that name their keys. Then the others.
        self._sorted: tuple[dict[str, list[Term]], list[tuple[Strings, Term]]] | None = None

    def terms(self, name: str) -> list[Term]:
        """Terms one of which the value of a member must satisfy to meet the obligation."""
        by_name, others = self._by_name()
        return [*by_name.get(name, ()), *[term for keys, term in others if keys.contains(name)]]

    def is_met(self, named: dict[str, Term], required: frozenset[str]) -> bool:
        """Whether a required member is known to meet it."""
        by_name, others = self._by_name()
        for name in by_name.keys() & required:
            if any(term is TRUE or term is named[name] for term in by_name[name]):
                return True
        return any(
            (term is TRUE or term is named[name]) and keys.contains(name) for keys, term in others for name in required
        )

    def _by_name(self) -> tuple[dict[str, list[Term]], list[tuple[Strings, Term]]]:
        if self._sorted is None:
            named: dict[str, list[Term]] = {}
            rest: list[tuple[Strings, Term]] = []
            for keys, term in self.ways:
                texts = keys.finite_texts()
                if texts is None:
                    rest.append((keys, term))
                for text in texts or ():
                    named.setdefault(text, []).append(term)
            self._sorted = named, rest
        return self._sorted

    def key(self) -> frozenset[tuple[Strings, Term]]:
        return frozenset(self.ways)


class ObjectCell:
    """Objects described by conditions on each key.

    Attributes:
        named: for these names, the complete condition on the value; ``rest`` and ``rules`` do not apply to them.
        rest: term of the values of all other keys.
        rules: further conditions on other keys, all of which apply.
        required: names that must be present; each is among ``named``.
        min: minimum number of members (``required`` not included).
        max: maximum number of members, or None.
        obligations: members that must exist.
        inhabited: whether some object is known to be in it.
    """

    __slots__ = ("_key", "inhabited", "max", "min", "named", "obligations", "required", "rest", "rules")

    def __init__(
        self,
        named: dict[str, Term],
        rest: Term,
        required: frozenset[str] = frozenset(),
        rules: tuple[KeyRules, ...] = (),
        min: int = 0,
        max: int | None = None,
        obligations: tuple[Obligation, ...] = (),
    ) -> None:
        self.named = named
        self.rest = rest
        self.required = required
        self.rules = rules
        self.min = min
        self.max = max
        self.obligations = obligations
        self.inhabited = False
        self._key: tuple[object, ...] | None = None

    def key(self) -> tuple[object, ...]:
        if self._key is None:
            self._key = (
                frozenset(self.named.items()),
                self.rest,
                self.required,
                frozenset(r.key() for r in self.rules),
                self.min,
                self.max,
                frozenset(o.key() for o in self.obligations),
            )
        return self._key

    def terms(self, key: str) -> list[Term]:
        """The terms that the value of ``key`` must all satisfy."""
        known = self.named.get(key)
        if known is not None:
            return [known]
        found = [self.rest]
        for rules in self.rules:
            found += rules.terms(key)
        return found

    def accepts(self, value: dict[str, Any]) -> bool:
        if len(value) < self.min or (self.max is not None and len(value) > self.max):
            return False
        if not all(name in value for name in self.required):
            return False
        for key, member in value.items():
            if not all(term.shape().accepts(member) for term in self.terms(key)):
                return False
        return all(
            any(term.shape().accepts(member) for key, member in value.items() for term in o.terms(key))
            for o in self.obligations
        )


class Shape:
    """The values of each JSON type that a schema allows.

    Attributes:
        null: whether null is allowed.
        booleans: bit 0: false is allowed, bit 1: true is.
        numbers: the numbers.
        strings: the (decoded) strings.
        arrays: union of cells.
        objects: union of cells.
    """

    __slots__ = ("arrays", "booleans", "null", "numbers", "objects", "strings")

    def __init__(
        self,
        null: bool,
        booleans: int,
        numbers: Numbers,
        strings: Strings,
        arrays: tuple[ArrayCell, ...],
        objects: tuple[ObjectCell, ...],
    ) -> None:
        self.null = null
        self.booleans = booleans
        self.numbers = numbers
        self.strings = strings
        self.arrays = arrays
        self.objects = objects

    def accepts(self, value: Any) -> bool:
        """Whether a decoded JSON value is in the set, decided directly on the normal form."""
        if value is None:
            return self.null
        if value is True:
            return self.booleans & 2 != 0
        if value is False:
            return self.booleans & 1 != 0
        if isinstance(value, str):
            return self.strings.contains(value)
        if isinstance(value, list):
            spend(1)
            return any(cell.accepts(value) for cell in self.arrays)
        if isinstance(value, dict):
            spend(1)
            return any(cell.accepts(value) for cell in self.objects)
        return self.numbers.contains(value)


def identity(value: Any) -> object:
    """A hashable form in which two JSON values are equal when JSON Schema says so (1 is 1.0, but not true)."""
    if isinstance(value, bool):
        return "boolean", value
    if isinstance(value, float):
        return Fraction(repr(value)) if value == value and abs(value) != float("inf") else ("float", repr(value))
    if isinstance(value, list):
        spend(1)
        return "array", tuple(identity(item) for item in value)
    if isinstance(value, dict):
        spend(1)
        return "object", frozenset((key, identity(member)) for key, member in value.items())
    return value


TRUE: Final[Term] = Fixed(None)  # its shape needs it, and is set below
FALSE: Final[Term] = Fixed(None)
ANY_ARRAY: Final = ArrayCell((), TRUE)
ANY_OBJECT: Final = ObjectCell({}, TRUE)
_ALL: Final = Numbers.ALL, Strings.ALL, (ANY_ARRAY,), (ANY_OBJECT,)
TRUE.known = ANYTHING = Shape(True, 3, *_ALL)
FALSE.known = NOTHING = Shape(False, 0, Numbers.NONE, Strings.NONE, (), ())

TYPE_TERMS: Final[dict[str, Term]] = {
    "null": Fixed(Shape(True, 0, Numbers.NONE, Strings.NONE, (), ())),
    "boolean": Fixed(Shape(False, 3, Numbers.NONE, Strings.NONE, (), ())),
    "integer": Fixed(Shape(False, 0, Numbers.INTEGERS, Strings.NONE, (), ())),
    "number": Fixed(Shape(False, 0, Numbers.ALL, Strings.NONE, (), ())),
    "string": Fixed(Shape(False, 0, Numbers.NONE, Strings.ALL, (), ())),
    "array": Fixed(Shape(False, 0, Numbers.NONE, Strings.NONE, (ANY_ARRAY,), ())),
    "object": Fixed(Shape(False, 0, Numbers.NONE, Strings.NONE, (), (ANY_OBJECT,))),
}
"""The terms of bare types, shared by all schemas."""
