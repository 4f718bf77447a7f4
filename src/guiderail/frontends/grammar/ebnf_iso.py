"""EBNF of ISO/IEC 14977:1996.

    list  = "[", [ item, { ",", item } ], "]" ;      (* a comment *)
    item  = 3 * digit | letter, { letter | digit } - "nil" ;

Alternative representations (table 2): ``/`` and ``!`` for ``|``, ``(/ /)`` for ``[ ]``, ``(: :)`` for ``{ }``, ``.``
for ``;``. Names may contain blanks, which are ignored (4.14, 4.15). Strings have no escapes. ``{ x }-`` is one or more:
an exception with nothing after the minus excludes the empty text (5.6). Special sequences ``? … ?`` are prose and
rejected.

What the standard does not allow is read as most write it: a sequence without commas, rules without ``;``, other signs
than ``=``, ``<names>``, ``x*`` and ``x+``, ranges ``"a" .. "z"``, comments after ``#``, and C's between rules.
Without commas, a name with blanks that no rule has is several names.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from guiderail.frontends.grammar.build import EMPTY, choice, repetition, sequence
from guiderail.frontends.grammar.exceptions import ReaderWithExceptions
from guiderail.frontends.grammar.reader import characters, literal
from guiderail.frontends.grammar.syntax import Expression, Grammar, Name, Rule
from guiderail.support.work import spend

__all__ = ["read"]

_NAME = re.compile(r"(?:[A-Za-z][A-Za-z0-9_-]*(?:[ \t]+[A-Za-z0-9][A-Za-z0-9_-]*)*|<[^<>\r\n]+>)")
_WORD = re.compile(r"[^ \t]+")
_NUMBER = re.compile(r"[0-9]+(?:[ \t]+[0-9]+)*")
_BLANK = re.compile(r"(?:\s|#[^\r\n]*)+")
_CHECK = 10  # steps of looking for a rule's head
_DEFINED = re.compile(r"::=|:=|=|->|→|:(?!\))")
_HEAD = re.compile(rf"{_NAME.pattern}\s*(?:{_DEFINED.pattern})")
_BETWEEN = re.compile(r"(?:\s|#[^\r\n]*|//[^\r\n]*|/\*(?:[^*]|\*(?!/))*\*/)+")  # rules, where / is no bar
_RANGE = re.compile(r"\s*(?:\.\.\.?|…)\s*(?:\"([^\"])\"|'([^'])')")
_OMITTED = re.compile(r"\.\.|…")
_BEGIN = re.compile(r"[\"'’‘A-Za-z0-9?(\[{<]")  # what a term begins with
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
    whole = _Iso(text, None)
    rules = whole.all_rules()
    if whole.several - rules.keys():
        whole = _Iso(text, rules)
        rules = whole.all_rules()
    return whole.finished(rules, " ".join(start.split()) if start else None)


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
    """Reads a grammar.

    Attributes:
        known: the rules, once they are known; a name with blanks that none of them has is several names.
        several: names with blanks.
        parts: names that stand next to each other: by where each begins, it and where it ends.
    """

    notation = "ISO EBNF"

    def __init__(self, text: str, known: dict[str, Rule] | None) -> None:
        super().__init__(text)
        self.known = known
        self.several: set[str] = set()
        self.parts: dict[int, tuple[str, int]] = {}

    def all_rules(self) -> dict[str, Rule]:
        self.between()
        return self.rules()

    def between(self) -> None:
        """Skips what is between rules."""
        self.blank()
        while self.match(_BETWEEN):
            self.blank()

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
        begin = self.at
        if begin in self.parts:
            return self.name_at(begin)
        found = self.match(_NAME)
        if not found:
            return None
        words = found[0].strip("<>").split()
        name = " ".join(words)
        if len(words) > 1 and self.text[begin] != "<":
            self.several.add(name)
            if self.known is not None and name not in self.known:
                self.divide(begin, list(_WORD.finditer(found[0])))
                if begin in self.parts:
                    return self.name_at(begin)
        return name

    def name_at(self, begin: int) -> str:
        name, self.at = self.parts[begin]
        return name

    def divide(self, begin: int, words: list[re.Match[str]]) -> None:
        """Divides several names at ``begin``, if they can be read in one way only."""
        assert self.known is not None
        longest = max(len(name.split()) for name in self.known)
        ways = [0] * len(words) + [1]  # to read the words from each one on, two at most
        ends = [0] * len(words)
        for i in reversed(range(len(words))):
            for j in range(i + 1, min(len(words), i + longest) + 1):
                spend(j - i)
                if ways[j] and " ".join(word[0] for word in words[i:j]) in self.known:
                    ways[i] = min(ways[i] + ways[j], 2)
                    ends[i] = j
        i = 0
        while ways[0] == 1 and i < len(words):
            name = " ".join(word[0] for word in words[i : ends[i]])
            self.parts[begin + words[i].start()] = name, begin + words[ends[i] - 1].end()
            i = ends[i]

    def rule(self) -> Rule:
        begin = self.at
        name = self.name()
        if name is None:
            self.fail(f"expected the name of a rule, found {self.found()}")
        span = (begin, self.at)
        self.blank()
        if not self.match(_DEFINED):
            self.fail(f"expected = after the name {name!r}, found {self.found()}")
        stack = [_Group(";", begin)]
        while True:
            body = self.step(stack)
            if body is not None:
                self.between()
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
            e = self.repeated(e)
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
            if not closing and len(stack) == 1 and self.at_next_rule():
                group.alternatives.append(sequence(group.terms))
                return choice(group.alternatives)
            if not closing and not self.peek("?") and _BEGIN.match(self.text, self.at):
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

    def at_next_rule(self) -> bool:
        if self.at in self.parts:
            return False
        spend(_CHECK)
        return self.at >= len(self.text) or _HEAD.match(self.text, self.at) is not None

    def repeated(self, e: Expression) -> Expression:
        """Reads ``*`` or ``+`` right after a term, and blanks."""
        closed, mark = self.text[self.at - 1 : self.at], self.text[self.at : self.at + 1]
        if mark == "?" and closed != "?":
            self.fail("for what is optional, write it in [ ]; in front of a special sequence, write a comma")
        if mark and mark in "*+":
            if closed in "}]":
                self.fail(f"expected no {mark} after {closed}; for once or more, write {{ … }}-")
            self.at += 1
            e = repetition(e, int(mark == "+"), None)
        self.blank()
        return e

    def times(self) -> int | None:
        begin = self.at
        found = self.match(_NUMBER)
        if not found:
            return None
        digits = "".join(found[0].split())
        self.blank()
        if not self.take("*"):
            classes = '; for a class, write a range such as "0".."9"' if self.peek("-") else ""
            self.fail(f"expected * after the number {digits}, found {self.found()}{classes}")
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
            content = self.text[place + 1 : end]
            e = literal(content)
            upper = self.match(_RANGE)
            if upper:
                e = self.range_of(content, upper[1] or upper[2], place)
            if e is EMPTY:
                self.fail("a string needs at least one character; for the empty string, write nothing", place, self.at)
        elif c == "?":
            end = self.text.find("?", place + 1)
            self.refuse(
                "a special sequence is prose, which cannot be enforced; write it as rules",
                place,
                place + 1 if end < 0 else end + 1,
            )
        elif _OMITTED.match(self.text, place):
            self.fail('dots do not say what is left out; write it, or a range such as "a".."z"')
        elif c and (c in _BARS + ",;.-)]}:"):
            e = EMPTY  # nothing at all is the empty text
        else:
            name = self.name()
            if name is None:
                self.fail(f"expected a string, a name or a bracket, found {self.found()}")
            e = Name(name, (place, self.at))
        return e if times is None else repetition(e, times, times)

    def range_of(self, low: str, high: str, place: int) -> Expression:
        if len(low) != 1:
            self.fail("the ends of a range must be one character each", place, self.at)
        if high < low:
            self.fail("this range runs backwards; swap its ends", place, self.at)
        return characters([(ord(low), ord(high))])
