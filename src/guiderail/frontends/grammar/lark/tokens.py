"""The text of a grammar as tokens and statements: enough to locate things, and what Lark itself does not read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from guiderail.errors import PatternError
from guiderail.support.numerals import clamped
from guiderail.support.work import spend

__all__ = ["Statement", "Token", "scan", "statements", "times", "tokens"]

_CHARACTER, _FOUND = 1, 5  # steps of finding a token, and for each of its characters

_TOKEN = re.compile(
    r"""
      [ \t\r\f]+ | \\[ ]*\r?\n
    | //[^\n]* | \#[^\n]*
    | (?P<newline>\n)
    | (?P<string>"(?:\\.|[^"\\\n])*"i?)
    | (?P<regexp>/(?![/*])(?:\\.|[^/\\])*/[imslux]*)
    | (?P<special><[^\s<>]+>)
    | (?P<directive>%[a-z_]+)
    | (?P<name>[_A-Za-z](?:[_A-Za-z0-9]|-(?![>\s]))*)
    | (?P<number>[+-]?[0-9]+)
    | (?P<grammar>@[_A-Za-z][-_A-Za-z0-9]*)
    | (?P<open>"(?:\\.|[^"\\\n])*|/(?![/*])(?:\\.|[^/\\])*)
    | (?P<mark>->|\.\.|::|.)
    """,
    re.VERBOSE | re.DOTALL,
)

_WITH_JSON = ("%json", "%regex", "%lark", "%llguidance", "%grammar_options")
"""Directives whose value may stand in the next line."""


class Token(NamedTuple):
    kind: str
    text: str
    start: int
    end: int

    @property
    def span(self) -> tuple[int, int]:
        return self.start, self.end


@dataclass(slots=True)
class Statement:
    """One definition or directive.

    Attributes:
        tokens: its tokens, without blanks, comments and line breaks.
        name: what it defines, or None.
        colon: index of the token ``:`` after the head; -1 in a directive.
    """

    tokens: list[Token]
    name: Token | None = None
    colon: int = -1
    body: list[Token] = field(default_factory=list)

    @property
    def defines_terminal(self) -> bool:
        return self.name is not None and self.name.text.lstrip("_")[:1].isupper()


def times(text: str) -> int:
    """The number in a repetition. One beyond what can be counted, which is refused later, may come out smaller."""
    return clamped(text, 2**32)


def tokens(text: str) -> list[Token]:
    """All tokens of a grammar, including line breaks. Any other character is a token of its own.

    A text or a pattern that is never closed is one token, ``open``: to look for its end from each of its characters
    would take quadratic time.
    """
    return list(scan(text))


def scan(text: str, begin: int = 0) -> Iterator[Token]:
    """The tokens from a place on, one by one."""
    new = tuple.__new__  # twice as fast as calling the class
    for m in _TOKEN.finditer(text, begin):
        kind = m.lastgroup
        start, end = m.span()
        spend(_FOUND + _CHARACTER * (end - start))
        if kind is not None:
            yield new(Token, (kind, text[start:end], start, end))


def statements(text: str, found: list[Token]) -> list[Statement]:
    """Cuts tokens into statements. A line break ends one, unless the next line begins with ``|``, or with the value of
    a directive such as ``%json``.

    Raises:
        PatternError: the value of a directive such as ``%json`` has no end.
    """
    result: list[Statement] = []
    line: list[Token] = []
    braces = 0
    for i, token in enumerate(found):
        if token.kind == "newline":
            if not braces and not _goes_on(found, i, "{" if line and line[-1].text in _WITH_JSON else "|"):
                _close(line, result)
                line = []
            continue
        if token.text in ("{", "}") and token.kind == "mark":
            braces += 1 if token.text == "{" else -1
        line.append(token)
    if braces > 0:
        opening = next(t for t in reversed(line) if t.text == "{")
        raise PatternError(
            "this brace is never closed; add '}'", code="lark-syntax", source=text, span=(opening.start, opening.end)
        )
    _close(line, result)
    return result


def _goes_on(found: list[Token], i: int, mark: str) -> bool:
    """Whether ``mark`` is the next token other than a line break."""
    while i < len(found) and found[i].kind == "newline":
        i += 1
    return i < len(found) and found[i].text == mark


def _close(line: list[Token], result: list[Statement]) -> None:
    if not line:
        return
    statement = Statement(line)
    start = 0
    if line[0].kind == "directive":
        if line[0].text not in ("%override", "%extend"):
            result.append(statement)
            return
        start = 1
    while start < len(line) and line[start].text in ("?", "!"):
        start += 1
    depth = 0
    for i in range(start, len(line)):
        depth += (line[i].text in "[{") - (line[i].text in "]}") if line[i].kind == "mark" else 0
        if line[i].text == ":" and not depth:
            if line[start].kind == "name":
                statement.name, statement.colon, statement.body = line[start], i, line[i + 1 :]
            break
    result.append(statement)
