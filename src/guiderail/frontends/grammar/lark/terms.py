"""Terminals that Lark does not read: llguidance's ``&``, ``~``, ``{m,n}`` and ``%regex`` in their definitions."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from guiderail import _core
from guiderail.constraints.constraint import (
    AllOf,
    AnyOf,
    Constraint,
    Literal,
    Repetition,
    Sequence,
    SubstringOf,
    any_character,
    any_text,
)
from guiderail.errors import GuiderailError, PatternError
from guiderail.frontends.grammar.lark.patterns import unescaped
from guiderail.frontends.grammar.lark.tokens import Token, times
from guiderail.frontends.regex import regex
from guiderail.support.json_objects import loads
from guiderail.support.places import relocated
from guiderail.support.texts import has_surrogate

__all__ = ["SubstringOfChunks", "TermParser", "literal_text", "range_ends", "regex_of", "structured", "without_empty"]

_WORDS = re.compile(r"\w+|\s+|[^\w\s]")


@dataclass
class TermParser:
    """Reads the tokens of one terminal's definition as a constraint.

    Attributes:
        source: the grammar.
        tokens: of the definition, after the colon.
        lookup: the constraint of another terminal, by its name token.
    """

    source: str
    tokens: list[Token]
    lookup: Callable[[Token], Constraint]
    at: int = 0

    def parse(self) -> Constraint:
        found = self.alternatives()
        if self.at < len(self.tokens):
            self.fail("expected the terminal's definition to continue or end here", self.tokens[self.at])
        return found

    def fail(self, message: str, token: Token | None) -> NoReturn:
        end = self.tokens[-1].end if self.tokens else 0
        span = (token.start, token.end) if token is not None else (end, end + 1)
        raise PatternError(message, code="lark-syntax", source=self.source, span=span)

    def peek(self, *texts: str) -> bool:
        return self.at < len(self.tokens) and self.tokens[self.at].kind == "mark" and self.tokens[self.at].text in texts

    def expect(self, text: str) -> None:
        if not self.peek(text):
            self.fail(f"expected {text!r}", self.tokens[self.at] if self.at < len(self.tokens) else None)
        self.at += 1

    def alternatives(self) -> Constraint:
        parts = [self.conjunction()]
        while self.peek("|"):
            self.at += 1
            parts.append(self.conjunction())
        return parts[0] if len(parts) == 1 else AnyOf(tuple(parts))

    def conjunction(self) -> Constraint:
        parts = [self.sequence()]
        while self.peek("&"):
            self.at += 1
            parts.append(self.sequence())
        return parts[0] if len(parts) == 1 else AllOf(tuple(parts))

    def sequence(self) -> Constraint:
        parts: list[Constraint] = []
        while self.at < len(self.tokens) and not self.peek("|", "&", ")", "]"):
            parts.append(self.repeated())
        if not parts:
            self.fail("expected an expression", self.tokens[self.at] if self.at < len(self.tokens) else None)
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def repeated(self) -> Constraint:
        item = self.atom()
        while True:
            if self.peek("?", "*", "+"):
                low, high = {"?": (0, 1), "*": (0, None), "+": (1, None)}[self.tokens[self.at].text]
                self.at += 1
            elif self.peek("{"):
                low, high = self.braces()
            elif self.peek("~") and self.at + 1 < len(self.tokens) and self.tokens[self.at + 1].kind == "number":
                self.at += 1
                low = self.number()
                high = low
                if self.peek(".."):
                    self.at += 1
                    high = self.number()
            else:
                return item
            if high is not None and high < low:
                self.fail(f"the maximum ({high}) is below the minimum ({low}); swap them", self.tokens[self.at - 1])
            item = Repetition(item, low, high)

    def number(self) -> int:
        if self.at >= len(self.tokens) or not self.tokens[self.at].text.isdecimal():
            self.fail("expected a number", self.tokens[self.at] if self.at < len(self.tokens) else None)
        self.at += 1
        return times(self.tokens[self.at - 1].text)

    def braces(self) -> tuple[int, int | None]:
        self.expect("{")
        low = 0 if self.peek(",") else self.number()
        high: int | None = low
        if self.peek(","):
            self.at += 1
            high = None if self.peek("}") else self.number()
        self.expect("}")
        return low, high

    def atom(self) -> Constraint:
        token = self.tokens[self.at]
        self.at += 1
        if token.kind == "mark":
            if token.text == "~":
                if self.at == len(self.tokens):
                    self.fail("there is nothing after ~ to negate", token)
                return ~self.atom()
            if token.text in "([":
                inner = self.alternatives()
                self.expect(")" if token.text == "(" else "]")
                return inner if token.text == "(" else Repetition(inner, 0, 1)
        if token.kind == "string":
            if self.peek(".."):
                return self.range(token)
            return literal(token, self.source)
        if token.kind == "regexp":
            return regex_of(token, self.source)
        if token.kind == "name":
            return self.lookup(token)
        if token.kind == "directive" and token.text == "%regex":
            begin = self.at
            depth = 0
            while self.at < len(self.tokens):
                depth += self.peek("{") - self.peek("}")
                self.at += 1
                if not depth:
                    break
            if self.at == begin:
                self.fail('%regex needs a JSON object, e.g. %regex { "substring_words": "…" }', token)
            return structured(self.source, token, self.tokens[begin].start, self.tokens[self.at - 1].end)
        if token.kind == "special":
            self.fail("a terminal cannot contain a special token; name it in a rule", token)
        self.fail(f"{token.text!r} has no meaning in a terminal's definition", token)

    def range(self, first: Token) -> Constraint:
        self.at += 1
        if self.at >= len(self.tokens) or self.tokens[self.at].kind != "string":
            self.fail("a range must end with a string of one character", self.tokens[self.at - 1])
        last = self.tokens[self.at]
        self.at += 1
        low, high = range_ends(first, last, self.source)
        return regex(f"[{re.escape(low)}-{re.escape(high)}]")


def literal_text(token: Token, source: str) -> str:
    """The text of a string token."""
    text = _unescaped(token, token.text[1 : token.text.rindex('"')], source)
    return text.replace("\\\\", "\\")


def range_ends(first: Token, last: Token, source: str) -> tuple[str, str]:
    """The characters of ``"a".."z"``, from its two string tokens."""
    low, high = literal_text(first, source), literal_text(last, source)
    span = first.start, last.end
    if not first.text.endswith('"') or not last.text.endswith('"'):
        wrong = "the ends of a range take no flags; write a pattern, such as /[a-z]/i"
    elif len(low) != 1 or len(high) != 1:
        wrong = 'the ends of a range are strings of one character each, as in "a".."z"'
    elif low > high:
        wrong = f"a range begins with the lower character: {high!r} comes before {low!r}"
    else:
        return low, high
    raise PatternError(wrong, code="lark-syntax", source=source, span=span)


def _unescaped(token: Token, text: str, source: str) -> str:
    """A string or pattern as Lark reads its escapes."""
    try:
        return unescaped(text)
    except (ValueError, SyntaxError) as error:
        raise PatternError(
            f"the escapes in {token.text} cannot be read", code="lark-syntax", source=source, span=token.span
        ) from error


def literal(token: Token, source: str) -> Constraint:
    text = literal_text(token, source)
    if token.text.endswith("i"):
        return regex(re.escape(text), flags="i")
    return Literal(text)


def regex_of(token: Token, source: str) -> Constraint:
    """The constraint of a regular expression between slashes."""
    cut = token.text.rindex("/")
    flags = token.text[cut + 1 :]
    pattern = _unescaped(token, token.text[1:cut], source)
    try:
        made = regex(pattern, flags="".join(sorted(set(flags))))
    except GuiderailError as error:
        words = "this regular expression cannot be used: "
        raise relocated(error, words, source=source, span=(token.start, token.end)) from error
    if "x" in flags and _ends_in_comment(pattern):
        raise PatternError(
            "with the flag x, the # at the end of this regular expression begins a comment, which would hide the rest "
            "of the terminal, too; write \\# for the character, or end the comment with a line break",
            code="lark-syntax",
            source=source,
            span=(token.start, token.end),
        )
    return made


def _ends_in_comment(pattern: str) -> bool:
    """Whether a pattern with the flag ``x`` ends in a comment, so that a parenthesis after it belongs to that."""
    try:
        regex(f"(?x:{pattern})")
    except GuiderailError:
        return True
    return False


def structured(source: str, token: Token, start: int, end: int) -> Constraint:
    """The constraint of ``%regex {…}``: substrings of a text by chunks, words or characters.

    Raises:
        PatternError: it is not a JSON object, or has other keys.
    """

    def fail(message: str, code: str = "lark-syntax") -> NoReturn:
        raise PatternError(message, code=code, source=source, span=(token.start, end))

    try:
        value: Any = loads(source[start:end])
    except ValueError as error:
        fail(f"%regex takes a JSON object, and this is not one: {error}")
    made: SubstringOf | SubstringOfChunks | None = None
    if isinstance(value, dict) and len(value) == 1:
        (key, what), *_ = value.items()
        if key == "substring_chunks" and isinstance(what, list) and all(isinstance(c, str) for c in what):
            made = SubstringOfChunks(tuple(what))
        elif key == "substring_words" and isinstance(what, str):
            made = SubstringOfChunks(tuple(_WORDS.findall(what)))
        elif key == "substring_chars" and isinstance(what, str):
            made = SubstringOf((what,))
    if made is None:
        fail('%regex takes {"substring_chunks": […]}, {"substring_words": "…"} and {"substring_chars": "…"}')
    if any(map(has_surrogate, made.texts)):  # JSON can escape one
        fail(
            "the text of %regex contains half of a surrogate pair, which is not a character; remove it",
            "lone-surrogate",
        )
    return made


@dataclass(frozen=True, slots=True)
class SubstringOfChunks(Constraint):
    """Any run of consecutive chunks, the empty one too."""

    texts: tuple[str, ...]

    def _lower(self, b: _core.Builder) -> int:
        return b.substring_of_chunks([chunk.encode() for chunk in self.texts])


def without_empty(e: Constraint) -> Constraint:
    """``e`` without the empty text."""
    return AllOf((e, Sequence((any_character(), any_text()))))
