"""Shared by the readers of notations: a position in a string, errors about it, and brackets without recursion."""

from __future__ import annotations

import re
from typing import NoReturn

from guiderail import _core
from guiderail.errors import PatternError
from guiderail.frontends.grammar.build import EMPTY, choice, sequence
from guiderail.frontends.grammar.syntax import Characters, Expression, Grammar, Rule, Text
from guiderail.support.texts import utf8
from guiderail.support.work import spend

__all__ = ["ANY", "Groups", "Reader", "characters", "finish_grammar", "literal"]

_MATCH, _ALTERNATIVE, _GROUP = 10, 15, 20  # steps that reading one takes, with what belongs to it

ANY = _core.CharSet([(0, 0x10FFFF)])
"""Every character."""


def characters(ranges: list[tuple[int, int]], negated: bool = False) -> Characters:
    """One character in these ranges (inclusive), or in none of them."""
    chosen = _core.CharSet(ranges)
    return Characters(~chosen if negated else chosen)


class Reader:
    """A string and a position in it.

    Attributes:
        text: the grammar.
        at: the position, in code points.
    """

    notation = ""

    def __init__(self, text: str) -> None:
        utf8(text)
        spend(len(text))
        self.text = text
        self.at = 0

    def fail(self, message: str, start: int | None = None, end: int | None = None) -> NoReturn:
        """Raises that the grammar cannot be read here, or from ``start`` to ``end``."""
        begin = self.at if start is None else start
        raise PatternError(
            f"{self.notation}: {message}",
            code="grammar-syntax",
            source=self.text,
            span=(begin, begin + 1 if end is None else end),
        )

    def refuse(self, message: str, start: int, end: int | None = None) -> NoReturn:
        """Raises the error for something well-formed that cannot be enforced."""
        raise PatternError(
            f"{self.notation}: {message}",
            code="grammar-unsupported",
            source=self.text,
            span=(start, self.at if end is None else end),
        )

    def rule(self) -> Rule:
        """Reads a rule, and what precedes the next one."""
        raise NotImplementedError

    def rules(self) -> dict[str, Rule]:
        """Reads the rules from here to the end."""
        rules: dict[str, Rule] = {}
        while self.at < len(self.text):
            rule = self.rule()
            if rule.name in rules:
                assert rule.span is not None
                self.fail(f"rule {rule.name!r} is defined twice; join both with |", *rule.span)
            rules[rule.name] = rule
        return rules

    def peek(self, text: str) -> bool:
        return self.text.startswith(text, self.at)

    def take(self, text: str) -> bool:
        """Reads ``text`` if it is next. Returns whether it did."""
        if self.peek(text):
            self.at += len(text)
            return True
        return False

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Reads and returns what the pattern matches here."""
        spend(_MATCH)
        found = pattern.match(self.text, self.at)
        if found:
            self.at = found.end()
        return found

    def found(self) -> str:
        """The character at this position, for messages."""
        if self.at >= len(self.text):
            return "the end of the grammar"
        return repr(self.text[self.at])

    def character(self, code: int, start: int) -> str:
        """The character of a code point written at ``start``."""
        if code > 0x10FFFF:
            self.fail(f"there is no character U+{code:X}; the last one is U+10FFFF", start, self.at)
        if 0xD800 <= code <= 0xDFFF:
            self.fail(
                f"U+{code:04X} is half of a surrogate pair, not a character; write the character itself", start, self.at
            )
        return chr(code)


class Groups:
    """Alternatives of sequences in brackets, on an explicit stack: nesting has no limit."""

    def __init__(self) -> None:
        self.stack: list[tuple[str, int, list[Expression], list[Expression]]] = []
        self.open("", 0)

    def open(self, bracket: str, at: int) -> None:
        spend(_GROUP)
        self.stack.append((bracket, at, [], []))

    @property
    def depth(self) -> int:
        return len(self.stack) - 1

    @property
    def bracket(self) -> str:
        """The innermost open bracket; empty outside of all brackets."""
        return self.stack[-1][0]

    @property
    def opened(self) -> int:
        """The position of the opening bracket."""
        return self.stack[-1][1]

    @property
    def parts(self) -> list[Expression]:
        """The parts of the sequence that is being read."""
        return self.stack[-1][3]

    def bar(self) -> None:
        """Ends an alternative."""
        spend(_ALTERNATIVE)
        _, _, done, parts = self.stack[-1]
        done.append(sequence(parts))
        parts.clear()

    def close(self) -> Expression:
        """Ends the group and returns its expression."""
        self.bar()
        return choice(self.stack.pop()[2])


def finish_grammar(text: str, rules: dict[str, Rule], start: str, notation: str) -> Grammar:
    """The grammar of these rules.

    Raises:
        PatternError: there are no rules.
    """
    if not rules:
        raise PatternError(
            f'{notation}: there is no rule in this grammar; write one, such as root ::= "text"',
            code="grammar-syntax",
            source=text,
            span=(0, min(1, len(text))),
        )
    return Grammar(rules, start, None, text)


def literal(text: str) -> Expression:
    """A literal text."""
    return Text(text) if text else EMPTY
