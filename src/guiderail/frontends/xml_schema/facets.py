"""What simple types say: all conditions along a chain of restrictions, gathered into :class:`Gathered`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from guiderail.frontends.xml_schema.namespaces import split_name
from guiderail.frontends.xml_schema.numerals import INTEGERS
from guiderail.support.work import spend

__all__ = [
    "MOST_COUNT", "NAMES", "STRINGS", "TEXTS", "Gathered", "beyond", "collapses", "gather", "holds_names",
    "nests_lists", "steps", "white_space", "within",
]  # fmt: skip

STRINGS = ("string", "normalizedString", "token")
TEXTS = (*STRINGS, "anySimpleType", "anyAtomicType")
NAMES = ("QName", "NOTATION")
MOST_COUNT = 2**31 - 1
_LEVELS = ("preserve", "replace", "collapse")
_COUNTS = frozenset({"length", "minLength", "maxLength", "totalDigits", "fractionDigits"})
_BOUNDS = frozenset({"minInclusive", "minExclusive", "maxInclusive", "maxExclusive"})
_MOST_DIGITS = 380  # of a bound: each is a state, and from 400 states on numbers are rules, which nothing intersects
_GATHER = 60  # steps for each type that is gathered


@dataclass(slots=True)
class Gathered:
    """What a simple type says.

    Attributes:
        type: the type itself.
        base: the built-in type, list or union it is derived from.
        kind: name of the built-in type, ``"list"`` or ``"union"``.
        patterns: alternatives, one list for each step of derivation that has some.
        enumeration: the values listed nearest to the type, as written in the schema, or None.
        min_length, max_length: of the units of the type: characters, octets, items.
        low, high: bounds as ``(text, closed)``.
    """

    type: Any
    base: Any
    kind: str
    patterns: list[list[str]] = field(default_factory=list)
    enumeration: list[tuple[str, Any]] | None = None
    min_length: int = 0
    max_length: int | None = None
    low: list[tuple[str, bool]] = field(default_factory=list)
    high: list[tuple[str, bool]] = field(default_factory=list)
    total_digits: int | None = None
    fraction_digits: int | None = None
    white_space: str | None = None
    zone: str = "optional"
    assertions: int = 0

    @property
    def is_bounded(self) -> bool:
        return bool(self.low or self.high)


def steps(simple: Any) -> Iterator[Any]:
    """The type and the types that it is derived from, up to a built-in type, a list or a union."""
    while simple is not None:
        if simple.is_complex():  # simple content restricted further
            simple = simple.content
        yield simple
        if (
            type(simple).__name__ == "XsdAtomicBuiltin"
            or hasattr(simple, "item_type")
            or hasattr(simple, "member_types")
        ):
            return
        simple = None if simple.base_type is simple else simple.base_type


def _smaller(a: int | None, b: int) -> int:
    return b if a is None else min(a, b)


def gather(simple: Any) -> Gathered:
    """All facets of a type and of those it is derived from."""
    *_, base = steps(simple)
    if hasattr(base, "item_type"):
        kind = "list"
    elif hasattr(base, "member_types"):
        kind = "union"
    else:
        kind = split_name(base.name or "")[1] or "anySimpleType"
    found = Gathered(simple, base, kind)
    for name, facet in _facets(simple):
        _add(found, name, facet)
    return found


def _facets(simple: Any) -> Iterator[tuple[str, Any]]:
    """The facets of a type and of those it is derived from, without those that are built in."""
    for step in steps(simple):
        if type(step).__name__ == "XsdAtomicBuiltin":
            return
        for name, facet in step.facets.items():
            if name is not None and hasattr(facet, "elem"):
                yield split_name(name)[1], facet


def _add(found: Gathered, name: str, facet: Any) -> None:
    value = facet.elem.get("value", "")
    if name == "pattern":
        found.patterns.append(list(facet.regexps))
    elif name == "enumeration":
        if found.enumeration is None:
            found.enumeration = [(one.get("value", ""), facet.schema) for one in facet]
    elif name == "length":
        found.min_length = max(found.min_length, int(value))
        found.max_length = _smaller(found.max_length, int(value))
    elif name == "minLength":
        found.min_length = max(found.min_length, int(value))
    elif name == "maxLength":
        found.max_length = _smaller(found.max_length, int(value))
    elif name in ("minInclusive", "minExclusive"):
        found.low.append((value.strip(), name == "minInclusive"))
    elif name in ("maxInclusive", "maxExclusive"):
        found.high.append((value.strip(), name == "maxInclusive"))
    elif name == "totalDigits":
        found.total_digits = _smaller(found.total_digits, int(value))
    elif name == "fractionDigits":
        found.fraction_digits = _smaller(found.fraction_digits, int(value))
    elif name == "whiteSpace":
        found.white_space = max(found.white_space or "preserve", value, key=_LEVELS.index)
    elif name == "explicitTimezone":
        if found.zone == "optional":
            found.zone = value
    elif name == "assertion":
        found.assertions += 1
    else:  # a facet of a later version would be lost here
        raise AssertionError(f"unknown facet {name}")


def _parts(found: Gathered) -> list[Any]:
    if found.kind == "list":
        return [found.base.item_type]
    return list(found.base.member_types) if found.kind == "union" else []


def within(simple: Any) -> list[Gathered]:
    """The types of items and members, and the type itself, which comes last; each once, however often it occurs."""
    found: list[Gathered] = []
    seen: set[int] = set()
    todo = [simple]
    while todo:
        one = todo.pop()
        if id(one) not in seen:
            spend(_GATHER)
            seen.add(id(one))
            found.append(gather(one))
            todo += _parts(found[-1])
    return found[::-1]


def beyond(simple: Any) -> tuple[str, Any, str] | None:
    """The first facet whose number is too large, in a type or the types inside it: its name, the facet, the reason."""
    for found in within(simple):
        for name, facet in _facets(found.type):
            if reason := _too_large(name, facet, found.kind):
                return name, facet, reason
    return None


def _too_large(name: str, facet: Any, kind: str) -> str | None:
    if name in _COUNTS and int(facet.elem.get("value", "")) > MOST_COUNT:
        return f"more than {MOST_COUNT:,} cannot be counted; use a smaller number"
    if name in _BOUNDS and (kind in INTEGERS or kind == "decimal"):
        digits = sum(map(str.isdecimal, facet.elem.get("value", "")))
        if digits > _MOST_DIGITS:
            return f"a bound may have {_MOST_DIGITS} digits, not {digits:,}; use a shorter one"
    return None


def holds_names(simple: Any) -> bool:
    """Whether values of a type are names, whose prefixes must be declared."""
    return any(found.kind in NAMES for found in within(simple))


def nests_lists(simple: Any) -> bool:
    """Whether items of a list may be lists themselves, which is not a valid type."""
    lists = [found for found in within(simple) if found.kind == "list"]
    return len(lists) > 1 and any(one.kind == "list" for found in lists for one in within(found.base.item_type))


def white_space(found: Gathered) -> str:
    """What becomes of the whitespace of a string."""
    usual = {"normalizedString": "replace", "token": "collapse"}.get(found.kind, "preserve")
    return max(usual, found.white_space or usual, key=_LEVELS.index)


def collapses(simple: Any) -> bool:
    """Whether whitespace does not matter, in any member of a union, however often it occurs."""
    todo, seen = [simple], set[int]()
    while todo:
        one = todo.pop()
        if id(one) in seen:
            continue
        spend(_GATHER)
        seen.add(id(one))
        found = gather(one)
        if found.kind == "union":
            todo += found.base.member_types
        elif found.kind in TEXTS and white_space(found) != "collapse":
            return False
    return True
