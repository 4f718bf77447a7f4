r"""Syntax of other engines that a dialect would silently read as something else.

In Python and ECMA-262, ``[[:alpha:]]`` of POSIX is one of the characters ``[ : a l p h``, and then a ``]``;
``[a-z&&[^aeiou]]`` of Java, Rust and Ruby is one of ``a-z & [ ^ o u …``, and then a ``]``.
Nobody writes either to say so.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from guiderail.frontends.regex.parser import Parser

__all__ = ["foreign_escape", "refuse_foreign_set"]

_POSIX = {
    "alnum": "A-Za-z0-9",
    "alpha": "A-Za-z",
    "ascii": r"\x00-\x7f",
    "blank": r" \t",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": r"\x21-\x7e",
    "lower": "a-z",
    "print": r"\x20-\x7e",
    "punct": r"!-\/:-@\[-`{-~",
    "space": r"\s",
    "upper": "A-Z",
    "word": r"\w",
    "xdigit": "0-9A-Fa-f",
}
_POSIX_CLASS = re.compile(rf"\[:\^?({'|'.join(_POSIX)}):\]")
_ESCAPE = re.compile(
    r"\\(?:[dDwWsSbBfnrtvk]|c[A-Za-z]|x[0-9a-fA-F]{2}|u(?:[0-9a-fA-F]{4}|\{[0-9a-fA-F]+\})|[pP]\{|[^A-Za-z]|([A-Za-z]))",
    re.DOTALL,
)
_ADVICE = {
    "A": "write ^",
    "e": r"write \x1b",
    "E": "escape the characters one by one",
    "h": r"write [ \t]",
    "p": r"write the property in braces, as in \p{L}",
    "P": r"write the property in braces, as in \P{L}",
    "Q": "escape the characters one by one",
    "R": r"write \r?\n",
    "u": r"write 4 hexadecimal digits, as in \u0041",
    "z": "write $",
    "Z": "write $",
    "x": r"write 2 hexadecimal digits, as in \x41, or \u{1f600}",
}


def refuse_foreign_set(parser: Parser, i: int, first: int) -> None:
    """Refuses a set within a class whose items begin at ``first``, if one is meant by what stands at ``i``."""
    pattern = parser.pattern
    posix = _POSIX_CLASS.match(pattern, i)
    if posix is not None:
        name, instead = posix[1], _POSIX[posix[1]]
        parser.fail("set-notation", f"[:{name}:] is of another dialect; write {instead} in its place", i, posix.end())
    if pattern.startswith(("&&[", "--["), i) and i > first:
        parser.fail(
            "set-notation",
            f"sets in a class, as in {pattern[i : i + 2]}[…], are of another dialect; write the class out, "
            "or use a look-ahead: (?![aeiou])[a-z]",
            i,
            i + 3,
        )


def foreign_escape(pattern: str) -> tuple[str, int, int] | None:
    """The first escape of a letter that ECMA-262 does not know: what to say of it, and where it is."""
    for match in _ESCAPE.finditer(pattern):
        letter = match[1]
        if letter is not None:
            advice = _ADVICE.get(letter, f"drop the backslash to match {letter!r}")
            return f"\\{letter} means nothing in ECMA-262; {advice}", match.start(), match.end()
    return None
