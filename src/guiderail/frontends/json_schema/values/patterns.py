r"""Chooses the dialect in which to read a schema's ``pattern``.

JSON Schema names ECMA-262, but schemas in the wild are written for whatever their validator used. A pattern is read by
the first of these readers that applies, as a search without flags:

1. ``ecma-unicode``: ECMA-262 with the flag ``u``, as the specification says;
2. ``python``: if the pattern escapes a letter that ECMA-262 does not know, such as the anchors ``\A``, ``\Z`` and
   ``\z``, or has a quantifier ``{,n}``: Python's ``re``, with ``\d \w \s`` and the case of letters in ASCII; ``\z``
   means ``\Z``. A letter that Python does not know either (``\h``, ``\pL``) is refused, never read as itself;
3. ``ecma``: ECMA-262 without ``u``, with the leniency of its Annex B (``\-``, ``\_``, a lone ``]`` or ``}``);
4. ``python``: any other pattern that is valid there: ``(?i)`` at the front, ``(?P<name>…)``, ``(?#…)``, possessive
   quantifiers, atomic groups.

``(?i:…)`` ignores case as the reader does: with ``u``, ``s`` also matches ``ſ``; in the others, it does not.

If a pattern is well-formed but cannot become an automaton (some backreferences), the reader that understood it rejects
it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from guiderail import _core
from guiderail.errors import PatternError
from guiderail.frontends.regex import Regex, regex
from guiderail.frontends.regex.facts import Facts
from guiderail.frontends.regex.foreign import foreign_escape
from guiderail.support.caches import cached, text_weight

if TYPE_CHECKING:
    from guiderail.frontends.json_schema.values.strings import Strings

__all__ = ["check_memory", "read_pattern", "recalling"]

_BEYOND_CLASSES = re.compile(r"\\(?:(z)|.)|\[(?:[^\]\\]|\\.)*\]|(\{,\d+\})", re.DOTALL)
_BEYOND = {
    "regex-backreference",
    "regex-recursion",
    "regex-conditional",
    "regex-empty-lookaround-loop",
}  # valid, but no automaton exists: another reading would mean something else


@cached(16 << 20, text_weight)
def read_pattern(pattern: str) -> Regex:
    """The search for a pattern of JSON Schema; ``dialect`` and ``flags`` of the result say how it was read.

    Raises:
        PatternError: no reading understands the pattern, or no automaton can do it; ``span`` says where.
        LimitError: groups nest deeper than 250.
    """
    made = _read(pattern)
    if made._parsed.atomics or made._parsed.recalled:
        made._lower(_core.Builder())  # what is refused only then is refused here, where its place is known
    return made


def _read(pattern: str) -> Regex:
    try:
        return regex(pattern, dialect="ecma", flags="u", mode="search")
    except PatternError as error:
        if error.code in _BEYOND and "\\k" not in pattern:
            raise
        first = error
    foreign = foreign_escape(pattern)
    if foreign is not None or any(match[2] for match in _BEYOND_CLASSES.finditer(pattern)):
        try:
            return _python(pattern)
        except PatternError as error:
            if error.code in _BEYOND:
                raise
    if foreign is not None:
        message, start, end = foreign
        raise PatternError(message, code="regex-bad-escape", source=pattern, span=(start, end))
    try:
        return regex(pattern, dialect="ecma", mode="search")
    except PatternError as error:
        if error.code in _BEYOND:
            raise
    try:
        return _python(pattern)
    except PatternError as error:
        raise (error if error.code in _BEYOND else first) from None


def _python(pattern: str) -> Regex:
    plain = _BEYOND_CLASSES.sub(lambda match: "\\Z" if match[1] == "z" else match[0], pattern)
    return regex(plain, dialect="python", flags="a", mode="search")


def recalling(strings: Strings) -> Regex | None:
    """The pattern of a set, or of its complement, if it has a backreference to a group of many texts."""
    pattern = strings._parts[0] if strings._kind == "atom" else None
    return pattern if isinstance(pattern, Regex) and pattern._parsed.recalled else None


def check_memory(parts: Sequence[Strings]) -> Sequence[Strings]:
    """The parts of an intersection, or a complement, without a least length that a backreference's pattern implies.

    What is remembered of a text may be of any length, so the states of such a pattern beside others are too many.

    Raises:
        PatternError: such a pattern stands beside other conditions, or is negated (``regex-backreference``).
    """
    for part in parts:
        if (pattern := recalling(part)) is None:
            continue
        least = Facts()(pattern._parsed.tree).least
        kept = [one for one in parts if one._kind != "length" or one._parts[1] is not None or one._parts[0] > least]
        if len(kept) == 1 and part._parts[2]:
            return kept
        raise PatternError(
            "a backreference to a group of more than 64 texts stands only in a pattern that is the only condition on a "
            "string, and not negated; put the conditions into the pattern, or write out the possible texts",
            code="regex-backreference",
            source=pattern.pattern,
            span=pattern._parsed.recalled,
        )
    return parts
