"""Which sets of strings have texts in common."""

from __future__ import annotations

from guiderail.errors import LimitError
from guiderail.frontends.json_schema.values.programs import begin_apart, beginning
from guiderail.frontends.json_schema.values.strings import Strings
from guiderail.support.work import out_of_work

__all__ = ["certainly_apart", "common_beginning", "divided"]


def certainly_apart(one: Strings, other: Strings) -> bool:
    """Whether two sets certainly have no text in common. False, too, if deciding exceeds a limit other than work."""
    try:
        if _begin_apart(one, other):
            return True
        both = one & other
        return both.is_empty() and (both.is_exact() or _widened(both).is_empty())
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
    inside, outside = Strings.ALL, None
    parts = keys._parts if keys._kind == "and" else (keys,)
    for part in parts:
        if part._kind == "or":
            near = [one for one in part._parts if one == other or not certainly_apart(one, other)]
            if not near:
                return Strings.NONE, keys
            if other not in near:
                inside &= Strings.union(near)
            elif len(near) == 1:
                outside = Strings.union([one for one in part._parts if one is not near[0]])
                for one in parts:
                    outside = outside if one is part else outside & one
        elif _is_exact_atom(part) and certainly_apart(part if part._parts[2] else ~part, other):
            if part._parts[2]:
                return Strings.NONE, keys
        else:
            inside &= part
    return inside & other, keys & ~other if outside is None else outside


def _widened(strings: Strings) -> Strings:
    """All strings that perhaps belong to a set: the wide side of its formats."""
    if strings._kind == "atom":
        narrow, wide, positive = strings._parts
        return Strings.constraint(wide) if positive else ~Strings.constraint(narrow)
    if strings._kind == "or":
        return Strings.union([_widened(part) for part in strings._parts])
    found = Strings.ALL if strings._kind == "and" else strings
    for part in strings._parts if strings._kind == "and" else ():
        found &= _widened(part)
    return found


def common_beginning(strings: Strings) -> str:
    """Characters with which all of these strings begin, if one pattern shows it: most names are told apart by these."""
    return beginning(strings._parts[0]) if strings._kind == "atom" and strings._parts[2] else ""


def _is_exact_atom(strings: Strings) -> bool:
    return strings._kind == "atom" and strings.is_exact()


def _begin_apart(one: Strings, other: Strings) -> bool:
    """Whether this shows without an intersection, which would be made and kept for each of many pairs."""
    if not (_is_exact_atom(one) and _is_exact_atom(other) and one._parts[2] and other._parts[2]):
        return False
    return begin_apart([one._parts[0], other._parts[0]])
