r"""Python's ``re`` syntax (3.11 and later), plus ``\p{…}`` and look-behind of any width.

``\d \w \s \b``, their complements and letter case are ASCII, as with ``re.ASCII``, unless the flag ``u`` is set: text
written under ``\d{4}`` should be a year, and not digits of another script.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from guiderail._core import CharSet
from guiderail.frontends.regex import charsets
from guiderail.frontends.regex.foreign import refuse_foreign_set
from guiderail.frontends.regex.parser import (
    _BRACES,
    ASCII,
    DOTALL,
    IGNORECASE,
    MULTILINE,
    NOTHING,
    UNICODE,
    VERBOSE,
    Parser,
    match_of,
)
from guiderail.frontends.regex.syntax import Boundary, Edge, EndNl, Set
from guiderail.support.work import spend

__all__ = ["PythonParser"]

_FLAGS: Final = {"i": IGNORECASE, "m": MULTILINE, "s": DOTALL, "x": VERBOSE, "a": ASCII, "u": UNICODE}
_SIMPLE: Final = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\\": "\\"}
_HEX: Final = {"x": (2, re.compile(r"[0-9a-fA-F]{0,2}")), "u": (4, re.compile(r"[0-9a-fA-F]{0,4}"))} | {
    "U": (8, re.compile(r"[0-9a-fA-F]{0,8}"))
}
_OCTAL: Final = re.compile(r"[0-7]{1,3}")
_REFERENCE: Final = re.compile(r"[0-9]{1,2}")
_NOT_IN_EMPTY: Final = re.fullmatch(r"\B", "") is None  # before Python 3.14
_NAME: Final = re.compile(r"\{([^}]*)\}")
_DOT: Final = ~charsets.NEWLINE
_PLAIN: Final = match_of(r"[^\\.^$*+?{\[()|]+")
_PLAIN_VERBOSE: Final = match_of(r"[^\\.^$*+?{\[()| \t\n\r\v\f#]+")


class PythonParser(Parser):
    def __init__(self, pattern: str, flags: int, max_nesting: int) -> None:
        super().__init__(pattern, flags, max_nesting, _PLAIN, _PLAIN_VERBOSE)

    @property
    def fold_mode(self) -> str:
        return "unicode" if self.flags & UNICODE else "ascii"

    def dot(self) -> CharSet:
        return charsets.ANY if self.flags & DOTALL else _DOT

    def anchor(self, i: int) -> None:
        multiline = self.flags & MULTILINE
        lines = charsets.NEWLINE if multiline else charsets.NONE
        if self.pattern[i] == "^":
            self.assertion(Edge(True, lines, True, i, i + 1))
        elif multiline:
            self.assertion(Edge(False, lines, True, i, i + 1))
        else:
            self.assertion(EndNl(i, i + 1))

    def braces(self, i: int) -> tuple[int, int, int] | None:
        match = _BRACES.match(self.pattern, i)
        return None if match is None or match.end() == i + 2 else self.bounds(match)

    # -- escapes
    def category(self, c: str) -> CharSet | None:
        """``\\d``, ``\\w``, ``\\s`` and their complements."""
        kind = c.lower()
        if self.flags & UNICODE:
            found = {"d": charsets.digit, "w": charsets.word, "s": charsets.space}.get(kind, lambda: None)()
        else:
            found = {"d": charsets.ASCII_DIGIT, "w": charsets.ASCII_WORD, "s": charsets.ASCII_SPACE}.get(kind)
        return found if found is None or c == kind else ~found

    def escape(self, i: int) -> int:
        c = self.pattern[i + 1]
        end = i + 2
        if c in "dDwWsS":
            chars = self.category(c)
            assert chars is not None
            self.atom(Set(chars, i, end))
            return end
        if c in "bB":
            words = charsets.word() if self.flags & UNICODE else charsets.ASCII_WORD
            self.assertion(Boundary(words, c == "B", i, end, nonempty=c == "B" and _NOT_IN_EMPTY))
            return end
        if c == "A":
            self.assertion(Edge(True, charsets.NONE, True, i, end))
            return end
        if c in "zZ":  # Python has \z from 3.14 on, as most other dialects do
            self.assertion(Edge(False, charsets.NONE, True, i, end))
            return end
        if c in "pP":
            found = self.property_escape(i)
            if found is not None:
                self.atom(Set(self.fold(found[0], charsets.NONE), i, found[1]))
                return found[1]
        if c in "123456789":
            octal = _OCTAL.match(self.pattern, i + 1)
            if octal is None or len(octal[0]) < 3:
                number = _REFERENCE.match(self.pattern, i + 1)
                assert number is not None
                return self.reference(int(number[0]), i, number.end(), unset_matches=False)
        char, end = self.character(i, in_class=False)
        self.text(char, i, end)
        return end

    def character(self, i: int, in_class: bool) -> tuple[str, int]:
        """The character that an escape represents."""
        pattern = self.pattern
        c = pattern[i + 1]
        if c in _SIMPLE:
            return _SIMPLE[c], i + 2
        if c in _HEX:
            width, digits = _HEX[c]
            match = digits.match(pattern, i + 2)
            assert match is not None
            if len(match[0]) != width:
                self.fail("bad-escape", f"\\{c} needs {width} hexadecimal digits", i, match.end())
            code = int(match[0], 16)
            if code > 0x10FFFF:
                self.fail("bad-escape", "there is no character above U+10FFFF", i, match.end())
            return chr(code), match.end()
        if c == "N":
            match = _NAME.match(pattern, i + 2)
            if match is None:
                self.fail("bad-escape", "\\N needs a character name in braces, e.g. \\N{EM DASH}", i, i + 2)
            try:
                char = unicodedata.lookup(match[1])
            except (KeyError, UnicodeEncodeError):
                char = ""
            if len(char) != 1:
                self.fail("bad-character-name", f"there is no character named {match[1]!r}", i, match.end())
            return char, match.end()
        if c in "01234567":
            match = _OCTAL.match(pattern, i + 1)
            assert match is not None
            code = int(match[0], 8)
            if code > 0o377:
                self.fail("bad-escape", "an octal escape ends at \\377; use \\u or \\U", i, match.end())
            return chr(code), match.end()
        if c.isascii() and c.isalnum():
            where = "in a class" if in_class else "here"
            self.fail(
                "bad-escape",
                f"\\{c} means nothing {where}; drop the backslash to match {c!r}",
                i,
                i + 2,
            )
        return c, i + 2

    # -- classes
    def char_class(self, i: int) -> int:
        pattern, n, start = self.pattern, len(self.pattern), i
        i += 1
        negated = pattern[i : i + 1] == "^"
        i += negated
        first = i
        ranges: list[tuple[int, int]] = []
        sets: list[CharSet] = []
        while True:
            if i >= n:
                self.fail("unterminated-class", "this character class is never closed; add ']'", start, start + 1)
            c = pattern[i]
            if c == "]" and i > first:
                break
            item_at = i
            refuse_foreign_set(self, i, first)
            low, i = self.class_item(i, start)
            if pattern[i : i + 1] == "-" and pattern[i + 1 : i + 2] != "]":
                if i + 1 >= n:
                    self.fail(
                        "unterminated-class",
                        "this character class is never closed; add ']'",
                        start,
                        start + 1,
                    )
                high, i = self.class_item(i + 1, start)
                if not isinstance(low, int) or not isinstance(high, int) or high < low:
                    self.fail(
                        "bad-range",
                        "a range needs a lower and a higher character; escape the '-' to match it literally",
                        item_at,
                        i,
                    )
                ranges.append((low, high))
            elif isinstance(low, int):
                ranges.append((low, low))
            else:
                sets.append(low)
        explicit = CharSet(ranges)
        chars = explicit
        for other in sets:
            spend(charsets.weight(other))
            chars = chars | other
        chars = self.fold(chars, explicit)
        self.atom(Set(~chars if negated else chars, start, i + 1))
        return i + 1

    def class_item(self, i: int, start: int) -> tuple[int | CharSet, int]:
        c = self.pattern[i]
        if c != "\\":
            return ord(c), i + 1
        if i + 1 >= len(self.pattern):
            self.fail("unterminated-class", "this character class is never closed; add ']'", start, start + 1)
        c = self.pattern[i + 1]
        if c in "dDwWsS":
            chars = self.category(c)
            assert chars is not None
            return chars, i + 2
        if c == "b":
            return 8, i + 2
        if c in "pP":
            found = self.property_escape(i)
            if found is not None:
                return found
        char, end = self.character(i, in_class=True)
        return ord(char), end

    # -- groups
    def open_extension(self, i: int) -> int:
        pattern = self.pattern
        c = pattern[i + 2 : i + 3]
        if c == "<":
            self.fail(
                "unknown-extension",
                "(?< begins a look-behind (?<= or (?<!; a named group is (?P<name>…)",
                i,
                i + 4,
            )
        if c == "P":
            return self.p_group(i)
        if c == ">":
            return self.push(i, "atomic", "", i + 3, self.flags)
        if c == "#":
            return self.comment(i)
        if c in _FLAGS or c in ("-", "L"):
            return self.inline_flags(i)
        self.refuse_group(i, "(…), (?:…), (?P<name>…), (?=…), (?>…)")

    def p_group(self, i: int) -> int:
        pattern = self.pattern
        c = pattern[i + 3 : i + 4]
        if c == ">":
            self.refuse_recursion(i, i + 4)
        if c not in ("<", "="):
            self.fail("unknown-extension", "(?P begins a named group, (?P<name>…)", i, i + 4)
        close = pattern.find(">" if c == "<" else ")", i + 4)
        if close < 0:
            self.fail("bad-group-name", "the group name is never closed", i, len(pattern))
        name = pattern[i + 4 : close]
        if not name.isidentifier():
            self.fail(
                "bad-group-name",
                f"{name!r} is not a group name; use letters, digits and _",
                i + 4,
                max(close, i + 5),
            )
        if c == "=":
            return self.reference(self.names.get(name), i, close + 1, unset_matches=False)
        return self.named(name, i, i + 4, close + 1)

    def comment(self, i: int) -> int:
        start, n = i, len(self.pattern)
        i += 3
        while i < n and self.pattern[i] != ")":
            i += 2 if self.pattern[i] == "\\" else 1  # re reads an escaped parenthesis as one piece
        if i >= n:
            self.fail("unterminated-comment", "this comment is never closed; add ')'", start, start + 3)
        return i + 1

    def inline_flags(self, i: int) -> int:
        pattern, start = self.pattern, i
        i += 2
        on: list[str] = []
        off: list[str] = []
        current = on
        while (c := pattern[i : i + 1]) not in (")", ":"):
            if c == "-" and current is on:
                current = off
            elif c in ("L", "t"):
                self.fail("flags", f"the flag {c!r} does not apply to text; remove it", i, i + 1)
            elif c in _FLAGS:
                current.append(c)
            else:
                self.fail(
                    "flags",
                    "inline flags are any of a, i, m, s, u, x, as in (?i:…) or (?i-s:…)",
                    start,
                    i + 1,
                )
            i += 1
        if "a" in on and "u" in on:
            self.fail("flags", "the flags a and u exclude each other", start, i + 1)
        if "a" in off or "u" in off:
            self.fail("flags", "the flags a and u cannot be turned off; turn the other one on", start, i + 1)
        if set(on) & set(off):
            self.fail("flags", "a flag is turned on and off at once", start, i + 1)
        if current is off and not off:
            self.fail("flags", "a flag is missing after '-'", start, i + 1)
        added = 0
        for c in on:
            added |= _FLAGS[c]
        if pattern[i] == ")":
            if current is off:
                self.fail("flags", "turning flags off needs a group: (?-i:…)", start, i + 1)
            if self.stack or self.alts or self.last != NOTHING:
                self.fail(
                    "flags",
                    "flags for the whole pattern must be at its very start; use (?i:…) here",
                    start,
                    i + 1,
                )
            self.flags |= added
            if self.flags & UNICODE and self.flags & ASCII:
                self.fail("flags", "the flags a and u exclude each other", start, i + 1)
            return i + 1
        flags = self.flags
        if "a" in on or "u" in on:
            flags &= ~(ASCII | UNICODE)
        flags |= added
        for c in off:
            flags &= ~_FLAGS[c]
        return self.push(start, "group", "", i + 1, flags)
