"""EBNF of ISO/IEC 14977:1996.

    list  = "[", [ item, { ",", item } ], "]" ;      (* a comment *)
    item  = 3 * digit | letter, { letter | digit } - "nil" ;

Alternative representations (table 2): ``/`` and ``!`` for ``|``, ``(/ /)`` for ``[ ]``, ``(: :)`` for ``{ }``, ``.``
for ``;``. Names may contain blanks, which are ignored (4.14, 4.15). Strings have no escapes. ``{ x }-`` is one or more:
an exception with nothing after the minus excludes the empty text (5.6). Special sequences ``? … ?`` are prose and
rejected.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from guiderail.frontends.grammar.build import EMPTY, choice, repetition, sequence
from guiderail.frontends.grammar.exceptions import ReaderWithExceptions
from guiderail.frontends.grammar.reader import literal
from guiderail.frontends.grammar.syntax import Expression, Grammar, Name, Rule

__all__ = ["read"]

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*(?:[ \t]+[A-Za-z0-9][A-Za-z0-9_-]*)*")
_NUMBER = re.compile(r"[0-9]+(?:[ \t]+[0-9]+)*")
_BLANK = re.compile(r"\s+")
_OPEN = {"(/": "/)", "(:": ":)", "[": "]", "{": "}", "(": ")"}
_BARS = "|/!"


def read(text: str, start: str | None = None) -> Grammar:
    """Reads a grammar.

    Args:
        text: the grammar.
        start: the rule to start from; the first one where None.

    Raises:
        PatternError: ``grammar-syntax`` or ``grammar-unsupported``, with the place.
    """
    return _Iso(text).grammar(start)


@dataclass(slots=True)
class _Group:
    """An open bracket and what has been read inside it."""

    close: str
    at: int
    times: int | None = None  # n * in front of the bracket
    minus: int | None = None  # the position of a minus after the last term
    alternatives: list[Expression] = field(default_factory=list)
    terms: list[Expression] = field(default_factory=list)


class _Iso(ReaderWithExceptions):
    notation = "ISO EBNF"

    def grammar(self, start: str | None) -> Grammar:
        self.blank()
        return self.finished(self.rules(), " ".join(start.split()) if start else None)

    def blank(self) -> None:
        """Skips whitespace and comments, which nest."""
        while True:
            begin = self.at
            self.match(_BLANK)
            if self.peek("(*") and not self.peek("(*)"):
                self.comment()
            if self.at == begin:
                return

    def comment(self) -> None:
        begin, depth = self.at, 0
        while True:
            if self.take("(*"):
                depth += 1
            elif self.take("*)"):
                depth -= 1
                if not depth:
                    return
            elif self.at >= len(self.text):
                self.fail("this comment is never closed; add *)", begin, begin + 2)
            else:
                self.at += 1

    def name(self) -> str | None:
        found = self.match(_NAME)
        return " ".join(found[0].split()) if found else None

    def rule(self) -> Rule:
        begin = self.at
        name = self.name()
        if name is None:
            self.fail(f"expected the name of a rule, found {self.found()}")
        span = (begin, self.at)
        self.blank()
        if not self.take("="):
            self.fail(f"expected = after the name {name!r}, found {self.found()}")
        stack = [_Group(";", begin)]
        while True:
            body = self.step(stack)
            if body is not None:
                self.blank()
                return Rule(name, body, span)

    def step(self, stack: list[_Group]) -> Expression | None:
        """Reads one term and what follows it. Returns the rule when it has ended."""
        self.blank()
        group = stack[-1]
        begin = self.at
        times = self.times()
        opening = next((mark for mark in _OPEN if self.peek(mark)), None)
        if opening:
            self.at += len(opening)
            stack.append(_Group(_OPEN[opening], begin, times))
            return None
        e = self.primary(times)
        return self.after_term(stack, group, e)

    def after_term(self, stack: list[_Group], group: _Group, e: Expression) -> Expression | None:
        """Reads what follows a term: a minus, a comma, a bar, or the end of the group and what follows that."""
        while True:
            self.blank()
            if group.minus is not None:
                place, group.minus = group.minus, None
                if isinstance(e, Name) or e is not EMPTY:
                    e = self.exceptions.add(group.terms.pop(), e, (place, self.at))
                else:
                    e = self.exceptions.add(group.terms.pop(), EMPTY, (place, place + 1))
            elif self.peek("-"):
                group.minus = self.at
                self.at += 1
                group.terms.append(e)
                return None
            group.terms.append(e)
            if self.take(","):
                return None
            closing = self.peek(group.close) or (group.close == ";" and self.peek("."))
            if not closing and self.at < len(self.text) and self.text[self.at] in _BARS:
                if self.peek("/)"):
                    self.fail(f"expected {group.close}, found '/)'")
                self.at += 1
                group.alternatives.append(sequence(group.terms))
                group.terms = []
                return None
            if not closing:
                if len(stack) > 1 and (self.at >= len(self.text) or self.text[self.at] in ";."):
                    self.fail(f"this bracket is never closed; add {group.close}", group.at)
                self.fail(f"expected a comma, a bar, a minus or {group.close}, found {self.found()}")
            self.at += len(group.close)
            group.alternatives.append(sequence(group.terms))
            stack.pop()
            e = choice(group.alternatives)
            if not stack:
                return e
            if group.close in ("]", "/)"):
                e = repetition(e, 0, 1)
            elif group.close in ("}", ":)"):
                e = repetition(e, 0, None)
            if group.times is not None:
                e = repetition(e, group.times, group.times)
            group = stack[-1]

    def times(self) -> int | None:
        begin = self.at
        found = self.match(_NUMBER)
        if not found:
            return None
        digits = "".join(found[0].split())
        self.blank()
        if not self.take("*"):
            self.fail(f"expected * after the number {digits}, found {self.found()}")
        value = int(digits) if len(digits) < 11 else 2**32
        if value > 2**32 - 2:
            self.fail(f"a count may be at most {2**32 - 2:,}", begin, self.at)
        self.blank()
        return value

    def primary(self, times: int | None) -> Expression:
        c = self.text[self.at : self.at + 1]
        place = self.at
        e: Expression
        if c and c in "\"'’‘":
            closing = {"‘": "’"}.get(c, c)
            end = self.text.find(closing, place + 1)
            if end < 0:
                self.fail(f"this string is never closed; add {closing}", place)
            self.at = end + 1
            e = literal(self.text[place + 1 : end])
            if e is EMPTY:
                self.fail("a string needs at least one character; for the empty string, write nothing", place, self.at)
        elif c == "?":
            end = self.text.find("?", place + 1)
            self.refuse(
                "a special sequence is prose, which cannot be enforced; write it as rules",
                place,
                place + 1 if end < 0 else end + 1,
            )
        elif c and (c in _BARS + ",;.-)]}:"):
            e = EMPTY  # nothing at all is the empty text
        else:
            name = self.name()
            if name is None:
                self.fail(f"expected a string, a name or a bracket, found {self.found()}")
            e = Name(name, (place, self.at))
        return e if times is None else repetition(e, times, times)
