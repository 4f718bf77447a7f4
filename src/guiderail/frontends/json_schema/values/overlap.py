"""Which sets of strings have texts in common."""

from __future__ import annotations

from typing import Final

from guiderail.errors import LimitError
from guiderail.frontends.json_schema.values.strings import Strings, program_of
from guiderail.support.work import out_of_work, spend

__all__ = ["certainly_apart", "divided"]

_LONGEST_BEGINNING: Final = 50  # bytes of two constraints that are compared one by one
_STEPS: Final = 40  # of work for each of them


def certainly_apart(one: Strings, other: Strings) -> bool:
    """Whether two sets certainly have no text in common. False, too, if deciding exceeds a limit other than work."""
    try:
        return _begin_apart(one, other) or (one & other).is_empty()
    except LimitError as error:
        if out_of_work(error):
            raise
        return False


def divided(keys: Strings, other: Strings) -> tuple[Strings, Strings]:
    """The texts of ``keys`` that are in another set, and those that are not.

    Patterns that have no text in common are left out of each other's parts. So the regions of many patterns that are
    disjoint stay as small as the patterns.
    """
    if keys.is_all():
        return other, ~other
    if not _is_exact_atom(other):
        return keys & other, keys & ~other
    inside = Strings.ALL
    for part in keys._parts if keys._kind == "and" else (keys,):
        if _is_exact_atom(part) and certainly_apart(part if part._parts[2] else ~part, other):
            if part._parts[2]:
                return Strings.NONE, keys
        else:
            inside &= part
    return inside & other, keys & ~other


def _is_exact_atom(strings: Strings) -> bool:
    return strings._kind == "atom" and strings.is_exact()


def _begin_apart(one: Strings, other: Strings) -> bool:
    """Whether two patterns differ where their texts begin, as most of those for different names do."""
    if not (_is_exact_atom(one) and _is_exact_atom(other) and one._parts[2] and other._parts[2]):
        return False
    a, b = program_of(one._parts[0]).core, program_of(other._parts[0]).core
    at, there = a.root, b.root
    for _ in range(_LONGEST_BEGINNING):
        spend(_STEPS)
        common = set(a.first_bytes(at)).intersection(b.first_bytes(there))
        if len(common) != 1 or (a.is_nullable(at) and b.is_nullable(there)):
            return not (common or (a.is_nullable(at) and b.is_nullable(there)))
        byte = bytes(common)
        at, there = a.derivative(at, byte), b.derivative(there, byte)
    return False
