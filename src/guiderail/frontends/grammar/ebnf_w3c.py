"""EBNF as the W3C writes it (Extensible Markup Language 1.0, section 6).

    [1] document ::= prolog element Misc*      /* a comment */
    [2] Char     ::= #x9 | #xA | [#x20-#xD7FF] | [^<&]
    [3] Comment  ::= '<!--' ((Char - '-') | ('-' (Char - '-')))* '-->'
    [4] Name     ::= (Letter | '_') NameChar*  [ wfc: a constraint in words ]

A grammar that defines ``<name> ::=``, as in Backus's notation, may write names so everywhere. Nothing is escaped: a
backslash is a character like others, and code points are written ``#xN``. Constraints in words
(``[wfc: …]``, ``[vc: …]``, ``[nsc: …]``) are rejected: they are prose, which cannot be enforced.
"""

from __future__ import annotations

import re

from guiderail.frontends.grammar.build import repetition
from guiderail.frontends.grammar.exceptions import ReaderWithExceptions
from guiderail.frontends.grammar.reader import Groups, characters, literal
from guiderail.frontends.grammar.syntax import Expression, Grammar, Name, Rule

__all__ = ["read"]

_NAME = re.compile(r"[A-Za-z_][\w.-]*")
_BRACKETED = re.compile(r"<[^<>\r\n]+>")
_BACKUS = re.compile(r"(?m)^[ \t]*<[^<>\r\n]+>[ \t]*::=")
_NUMBER = re.compile(r"\[[0-9]+[a-z]?\]")
_HEAD = re.compile(r"(?:\[[0-9]+[a-z]?\]\s*)?(?:[A-Za-z_][\w.-]*|<[^<>\r\n]+>)\s*::=")
_BLANK = re.compile(r"\s+")
_CODE = re.compile(r"#x([0-9A-Fa-f]+)")
_WORDS = re.compile(r"\[\s*(wfc|WFC|vc|VC|nsc|NSC)\s*:[^\]]*\]")
_HINTS = {
    "{},;": "; where braces repeat, and commas or semicolons separate, pass syntax='ebnf-iso'",
    ".…": "; write a range as a class, such as [a-z]",
    "εϵ": '; write "" for the empty text',
}


def read(text: str, start: str | None = None) -> Grammar:
    """Reads a grammar.

    Args:
        text: the grammar.
        start: the rule to start from; the first one where None.

    Raises:
        PatternError: ``grammar-syntax`` or ``grammar-unsupported``, with the place.
    """
    return _W3c(text).grammar(start)


class _W3c(ReaderWithExceptions):
    notation = "W3C EBNF"

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.backus = _BACKUS.search(text) is not None

    def name(self) -> str | None:
        found = self.match(_NAME)
        if found is None and self.backus and (found := self.match(_BRACKETED)):
            return " ".join(found[0][1:-1].split())
        return None if found is None else found[0]

    def grammar(self, start: str | None) -> Grammar:
        self.blank()
        return self.finished(self.rules(), start)

    def blank(self) -> None:
        """Skips whitespace and comments."""
        while True:
            begin = self.at
            self.match(_BLANK)
            if self.peek("/*"):
                end = self.text.find("*/", self.at + 2)
                if end < 0:
                    self.fail("this comment is never closed; add */", self.at, self.at + 2)
                self.at = end + 2
            if self.at == begin:
                return

    def rule(self) -> Rule:
        if self.match(_NUMBER):
            self.blank()
        begin = self.at
        head = self.name()
        if head is None:
            self.fail(f"expected the name of a rule, found {self.found()}")
        span = (begin, self.at)
        self.blank()
        if not self.take("::="):
            self.fail(f"expected ::= after the name {head!r}, found {self.found()}")
        self.blank()
        groups = Groups()
        minus: dict[int, tuple[int, int]] = {}  # depth -> (index of the part before the minus, position of the minus)
        while self.at < len(self.text) and not _HEAD.match(self.text, self.at):
            self.symbol(groups, minus)
            self.blank()
        if groups.depth:
            self.fail("this bracket is never closed; add )", groups.opened)
        if minus:
            self.fail("expected an expression after this minus", minus[0][1])
        return Rule(head, groups.close(), span)

    def symbol(self, groups: Groups, minus: dict[int, tuple[int, int]]) -> None:
        begin = self.at
        c = self.text[begin]
        if c == "(":
            self.at += 1
            groups.open("(", begin)
            return
        if c in "|)" and groups.depth in minus:
            self.fail("expected an expression after this minus", minus[groups.depth][1])
        if c == "|":
            self.at += 1
            groups.bar()
            return
        if c == "-":
            self.at += 1
            if not groups.parts:
                self.fail("there is nothing before this minus to subtract from", begin)
            if groups.depth in minus:
                self.fail("expected an expression after this minus", minus[groups.depth][1])
            minus[groups.depth] = (len(groups.parts), begin)
            return
        if c == ")":
            if not groups.depth:
                self.fail("this ) closes nothing; remove it, or open a group")
            self.at += 1
            e = groups.close()
        else:
            e = self.primary(begin, c)
        while True:  # a repetition sign follows at once
            self.blank()
            mark = self.text[self.at : self.at + 1] or " "
            if mark not in "?*+":
                break
            self.at += 1
            e = repetition(e, int(mark == "+"), 1 if mark == "?" else None)
        if groups.depth in minus:
            place = minus.pop(groups.depth)[1]
            e = self.exceptions.add(groups.parts.pop(), e, (place, self.at))
        groups.parts.append(e)

    def primary(self, begin: int, c: str) -> Expression:
        if c in "\"'":
            end = self.text.find(c, begin + 1)
            if end < 0:
                self.fail(f"this string is never closed; add {c}", begin)
            self.at = end + 1
            return literal(self.text[begin + 1 : end])
        if c == "#":
            return literal(self.code())
        if c == "[":
            words = _WORDS.match(self.text, begin)
            if words:
                self.refuse(
                    f"{words[1]}: is a constraint in prose, which cannot be enforced; remove it, and write it as rules "
                    "if you can",
                    *words.span(),
                )
            return self.character_class()
        name = self.name()
        if name is None:
            hint = next((hint for marks, hint in _HINTS.items() if c in marks), "")
            self.fail(f"expected a string, a class, #xN, a name or a bracket, found {self.found()}{hint}")
        return Name(name, (begin, self.at))

    def code(self) -> str:
        begin = self.at
        found = self.match(_CODE)
        if not found:
            self.fail("#x must be followed by hexadecimal digits", begin, begin + 2)
        return self.character(int(found[1], 16) if len(found[1]) < 12 else 0x110000, begin)

    def character_class(self) -> Expression:
        begin = self.at
        self.at += 1
        negated = self.take("^")
        ranges: list[tuple[int, int]] = []
        while not self.peek("]") or not ranges:
            if self.at >= len(self.text) or self.text[self.at] in "\r\n":
                self.fail("this class is never closed; add ] before the end of the line", begin, self.at)
            if self.peek("]"):
                self.fail("this class is empty; write the characters that it should contain", begin, self.at + 1)
            place = self.at
            low = high = ord(self.one())
            if self.peek("-") and self.text[self.at + 1 : self.at + 2] not in ("]", ""):
                self.at += 1
                high = ord(self.one())
                if high < low:
                    self.fail("this range runs backwards; swap its ends", place, self.at)
            ranges.append((low, high))
        self.at += 1
        return characters(ranges, negated)

    def one(self) -> str:
        if self.peek("#x"):
            return self.code()
        c = self.text[self.at]
        self.at += 1
        return self.character(ord(c), self.at - 1)
