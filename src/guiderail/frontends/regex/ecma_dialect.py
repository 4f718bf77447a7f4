"""ECMA-262 regular expressions: strict with the flags ``u`` or ``v``, otherwise with the leniency of Annex B.

For the sake of JSON Schema, ``\\p{…}`` and ``\\u{…}`` always mean what they mean with the ``u`` flag. A pattern is
matched against code points, never against halves of surrogate pairs.
"""

from __future__ import annotations

import re
from typing import Final

from guiderail._core import CharSet
from guiderail.frontends.regex import charsets
from guiderail.frontends.regex.foreign import refuse_foreign_set
from guiderail.frontends.regex.parser import (
    _BRACES,
    ANCHOR,
    DOTALL,
    IGNORECASE,
    MULTILINE,
    Parser,
    match_of,
)
from guiderail.frontends.regex.syntax import Boundary, Edge, Set
from guiderail.support.work import spend

__all__ = ["EcmaParser"]

_MODIFIERS: Final = {"i": IGNORECASE, "m": MULTILINE, "s": DOTALL}
_CONTROLS: Final = {"f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_SYNTAX: Final = frozenset("^$\\.*+?()[]{}|/")
_U_BRACED: Final = re.compile(r"\{([0-9a-fA-F]+)\}")
_U4: Final = re.compile(r"[0-9a-fA-F]{4}")
_LOW_SURROGATE: Final = re.compile(r"\\u([dD][c-fC-F][0-9a-fA-F]{2})")
_X2: Final = re.compile(r"[0-9a-fA-F]{2}")
_DECIMAL: Final = re.compile(r"[0-9]+")
_OCTAL: Final = re.compile(r"[0-3][0-7]{0,2}|[4-7][0-7]?")
_NAME: Final = re.compile(r"[\w$]+")
_DOT: Final = ~charsets.ECMA_NEWLINE


class EcmaParser(Parser):
    @property
    def fold_mode(self) -> str:
        return "ecma-unicode" if self.unicode else "ecma"

    def __init__(self, pattern: str, flags: int, max_nesting: int, *, unicode: bool, sets: bool) -> None:
        plain = _PLAIN if unicode else _LENIENT_PLAIN
        super().__init__(pattern, flags, max_nesting, plain, plain)
        self.unicode = unicode
        self.sets = sets

    def dot(self) -> CharSet:
        return charsets.ANY if self.flags & DOTALL else _DOT

    def words(self) -> CharSet:
        return self.fold(charsets.ASCII_WORD, charsets.ASCII_WORD)

    def anchor(self, i: int) -> None:
        lines = charsets.ECMA_NEWLINE if self.flags & MULTILINE else charsets.NONE
        self.assertion(Edge(self.pattern[i] == "^", lines, True, i, i + 1))

    def possessive_allowed(self) -> bool:
        return False

    def braces(self, i: int) -> tuple[int, int, int] | None:
        match = _BRACES.match(self.pattern, i)
        if match is not None and match[1]:
            return self.bounds(match)
        if self.unicode:
            self.fail("lone-bracket", "with the u flag a lone '{' must be escaped", i, i + 1)
        return None

    def other(self, i: int, c: str) -> int:
        # only reached for the closing brackets, which are plain text without the u flag
        self.fail("lone-bracket", f"with the u flag a lone {c!r} must be escaped", i, i + 1)

    # -- escapes
    def category(self, c: str) -> CharSet:
        kind = c.lower()
        found = charsets.ASCII_DIGIT if kind == "d" else charsets.ECMA_SPACE if kind == "s" else self.words()
        return found if c == kind else ~found

    def escape(self, i: int) -> int:
        c = self.pattern[i + 1]
        if c in "dDwWsS":
            self.atom(Set(self.category(c), i, i + 2))
            return i + 2
        if c in "bB":
            self.assertion(Boundary(self.words(), c == "B", i, i + 2))
            return i + 2
        if c in "pP":
            chars, end = self.property_of(i)
            if chars is not None:
                self.atom(Set(chars, i, end))
                return end
        if c in "123456789":
            match = _DECIMAL.match(self.pattern, i + 1)
            assert match is not None
            if self.unicode or (len(match[0]) < 6 and int(match[0]) <= self.group_count()):
                return self.reference(int(match[0][:9]), i, match.end(), unset_matches=True)
        if c == "k" and (self.unicode or self.has_names()):
            close = self.pattern.find(">", i)
            name = self.pattern[i + 3 : close] if self.pattern.startswith("<", i + 2) else ""
            end = close + 1 if close > 0 else i + 2
            return self.reference(self.names.get(name), i, end, unset_matches=True)
        char, end = self.character(i, in_class=False)
        self.text(char, i, end)
        return end

    def property_of(self, i: int) -> tuple[CharSet | None, int]:
        r"""The set of ``\p{…}``; None for a plain ``\p``, if that is allowed."""
        if self.pattern.startswith("{", i + 2):
            found = self.property_escape(i)
            if found is not None:
                return self.fold(found[0], found[0]), found[1]
        if self.unicode:
            self.fail("unknown-property", "\\p needs a property in braces, e.g. \\p{Letter}", i, i + 2)
        return None, i + 2

    def complement(self, chars: CharSet) -> CharSet:
        # with v, case is ignored before the complement is taken: \P{Lu} excludes small letters, too
        return ~(self.fold(chars, chars) if self.sets else chars)

    def character(self, i: int, in_class: bool) -> tuple[str, int]:
        """The character that an escape represents."""
        pattern, strict = self.pattern, self.unicode
        c = pattern[i + 1]
        if c in _CONTROLS:
            return _CONTROLS[c], i + 2
        if c == "c":
            letter = pattern[i + 2 : i + 3]
            if letter.isascii() and (
                letter.isalpha() or (in_class and not strict and (letter.isdigit() or letter == "_"))
            ):
                return chr(ord(letter) % 32), i + 3
            if strict:
                self.fail("bad-escape", "\\c needs a letter", i, i + 2)
            return "\\", i + 1  # Annex B: the backslash itself, then a plain c
        if c == "x":
            match = _X2.match(pattern, i + 2)
            if match is not None:
                return chr(int(match[0], 16)), match.end()
            if strict:
                self.fail("bad-escape", "\\x needs 2 hexadecimal digits", i, i + 2)
            return "x", i + 2
        if c == "u":
            return self.unicode_escape(i)
        if c in "0123456789":
            digit_next = pattern[i + 2 : i + 3].isdigit()
            if strict and (c != "0" or digit_next):
                self.fail("bad-escape", "an octal escape is not allowed with the u flag; use \\x or \\u", i, i + 2)
            match = _OCTAL.match(pattern, i + 1)
            return (c, i + 2) if match is None else (chr(int(match[0], 8)), match.end())
        if strict and c not in _SYNTAX and not (in_class and c == "-"):
            self.fail(
                "bad-escape",
                f"with the u flag \\{c} means nothing; drop the backslash to match {c!r}",
                i,
                i + 2,
            )
        return c, i + 2

    def unicode_escape(self, i: int) -> tuple[str, int]:
        pattern = self.pattern
        match = _U4.match(pattern, i + 2)
        if match is not None:
            code, end = int(match[0], 16), match.end()
            if 0xD800 <= code < 0xDC00:
                low = _LOW_SURROGATE.match(pattern, end)
                if low is not None:
                    return chr(0x10000 + ((code - 0xD800) << 10) + (int(low[1], 16) - 0xDC00)), low.end()
            return chr(code), end
        match = _U_BRACED.match(pattern, i + 2)
        if match is not None:
            code = int(match[1], 16)
            if code > 0x10FFFF:
                self.fail("bad-escape", "there is no character above U+10FFFF", i, match.end())
            return chr(code), match.end()
        if self.unicode:
            self.fail("bad-escape", "\\u needs 4 hexadecimal digits, or some in braces", i, i + 2)
        return "u", i + 2

    def group_count(self) -> int:
        """The number of capturing groups in the whole pattern: a reference may precede its group."""
        return len(_CAPTURES.findall(_NOT_GROUPS.sub("a", self.pattern)))  # not "": (\n?) would become (?)

    def has_names(self) -> bool:
        return _NAMED.search(_NOT_GROUPS.sub("a", self.pattern)) is not None

    # -- classes
    def char_class(self, i: int) -> int:
        pattern, n, start = self.pattern, len(self.pattern), i
        i += 1
        negated = pattern[i : i + 1] == "^"
        i += negated
        first = i
        ranges: list[tuple[int, int]] = []
        chars = charsets.NONE
        while True:
            if i >= n:
                self.fail("unterminated-class", "this character class is never closed; add ']'", start, start + 1)
            if pattern[i] == "]":
                break
            item_at = i
            if not self.sets:
                refuse_foreign_set(self, i, first)
            low, i = self.class_item(i, start)
            if self.joins(i):
                high, end = self.class_item(i + 1, start)
                if isinstance(low, int) and isinstance(high, int):
                    if high < low:
                        self.fail(
                            "bad-range",
                            "a range needs a lower and a higher character; escape the '-' to match it literally",
                            item_at,
                            end,
                        )
                    ranges.append((low, high))
                    i = end
                    continue
                if self.unicode:
                    self.fail("bad-range", "a range cannot begin or end with a class; escape the '-'", item_at, end)
                ranges.append((45, 45))  # Annex B: the '-' is itself
                for bound in (low, high):
                    if isinstance(bound, int):
                        ranges.append((bound, bound))
                    else:
                        spend(charsets.weight(bound))
                        chars = chars | bound
                i = end
            elif isinstance(low, int):
                ranges.append((low, low))
            else:
                spend(charsets.weight(low))
                chars = chars | low
        explicit = CharSet(ranges)
        chars = self.fold(chars | explicit, explicit)
        self.atom(Set(~chars if negated else chars, start, i + 1))
        return i + 1

    def class_item(self, i: int, start: int) -> tuple[int | CharSet, int]:
        pattern = self.pattern
        c = pattern[i]
        if c != "\\":
            if self.sets:
                self.refuse_set_notation(i)
            return ord(c), i + 1
        c = pattern[i + 1 : i + 2]
        if not c:
            self.fail("unterminated-class", "this character class is never closed; add ']'", start, start + 1)
        if c in "dDwWsS":
            return self.category(c), i + 2
        if c == "b":
            return 8, i + 2
        if c in "pP":
            found, end = self.property_of(i)
            if found is not None:
                return found, end
        if self.sets:
            if c == "q":
                self.fail("set-notation", "strings in classes (\\q{…}) are not supported; use alternatives", i, i + 2)
            if c in "&-!#%,:;<=>@`~":
                return ord(c), i + 2
        char, end = self.character(i, in_class=True)
        return ord(char), end

    def joins(self, i: int) -> bool:
        """Whether a '-' at ``i`` stands between two items of a class, and is no operator of the ``v`` flag."""
        dash, follow = self.pattern[i : i + 1], self.pattern[i + 1 : i + 2]
        return dash == "-" and follow not in ("", "]") and not (self.sets and follow == "-")

    def refuse_set_notation(self, i: int) -> None:
        """Refuses the characters that have to be escaped in a class with the ``v`` flag."""
        c = self.pattern[i]
        if c in "()[{}/|" or self.pattern[i : i + 2] in _DOUBLES:
            self.fail(
                "set-notation",
                "the set notation of the v flag is not supported; write the class out, or escape this character",
                i,
                i + 1,
            )
        if c == "-":
            self.fail("bad-range", "with the v flag a '-' that makes no range must be escaped", i, i + 1)

    # -- groups
    def open_extension(self, i: int) -> int:
        pattern = self.pattern
        c = pattern[i + 2 : i + 3]
        if c == "<":
            match = _NAME.match(pattern, i + 3)
            if match is None or not pattern.startswith(">", match.end()) or match[0][0].isdigit():
                self.fail(
                    "bad-group-name",
                    "a named group is (?<name>…), the name of letters, digits, $ and _",
                    i,
                    i + 4,
                )
            return self.named(match[0], i, i + 3, match.end() + 1)
        if c in ("i", "m", "s", "-"):
            return self.modifiers(i)
        self.refuse_group(i, "(…), (?:…), (?<name>…), (?=…), (?<=…)")

    def modifiers(self, i: int) -> int:
        """``(?i-s:…)`` of ECMAScript 2025."""
        pattern, start = self.pattern, i
        i += 2
        seen: set[str] = set()
        flags, off = self.flags, False
        while (c := pattern[i : i + 1]) != ":":
            if c == "-" and not off:
                off = True
            elif c in _MODIFIERS and c not in seen:
                seen.add(c)
                flags = flags & ~_MODIFIERS[c] if off else flags | _MODIFIERS[c]
            else:
                self.fail("flags", "modifiers are any of i, m, s, once each, as in (?i:…) or (?i-s:…)", start, i + 1)
            i += 1
        if not seen:
            self.fail("flags", "a modifier is missing", start, i + 1)
        return self.push(start, "group", "", i + 1, flags)

    def after_group(self, kind: str, name: str) -> None:
        if kind == "look" and (self.unicode or "<" in name):
            self.last = ANCHOR


_PLAIN: Final = match_of(r"[^\\.^$*+?{\[()|}\]]+")
_LENIENT_PLAIN: Final = match_of(r"[^\\.^$*+?{\[()|]+")
_DOUBLES: Final = frozenset(c + c for c in "&!#$%*+,-.:;<=>?@^`~")
_NOT_GROUPS: Final = re.compile(r"\\.|\[(?:[^\]\\]|\\.)*\]", re.DOTALL)
_CAPTURES: Final = re.compile(r"\((?!\?)|\(\?<(?![=!])")
_NAMED: Final = re.compile(r"\(\?<(?![=!])")
