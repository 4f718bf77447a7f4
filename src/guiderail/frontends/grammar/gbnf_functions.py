"""What XGrammar's EBNF writes as functions: ``TagDispatch(("<tag>", rule), excludes=("</a>",))``, ``Regex("[a-z]+")`` …

What XGrammar prints is read, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from guiderail import _core
from guiderail.constraints.constraint import (
    AllOf,
    Choice,
    Complement,
    Constraint,
    Sequence,
    TokenSet,
    any_character,
    any_text,
)
from guiderail.constraints.special_tokens import current_special_tokens
from guiderail.constraints.triggers import before_any, up_to
from guiderail.errors import GuiderailError, LimitError
from guiderail.frontends.grammar import syntax
from guiderail.frontends.grammar.build import choice, repetition, sequence
from guiderail.frontends.grammar.lark.terms import SubstringOfChunks
from guiderail.frontends.grammar.syntax import Embedded, Expression, Name, Text
from guiderail.frontends.regex import regex
from guiderail.support.places import relocated

if TYPE_CHECKING:
    from guiderail.frontends.grammar.reader import Reader

__all__ = ["FUNCTIONS", "OtherTokens", "function"]

_SPACE = re.compile(r"(?:[ \t\r\n]|#[^\r\n]*)*")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_NUMBER = re.compile(r"[0-9]+")
_INLINE_FLAGS = re.compile(r"\(\?([imsu]+)\)")
_PLAIN = r'[^"\\\x00-\x1f]*'  # the characters of a JSON string that need no escape


@dataclass(frozen=True, slots=True)
class OtherTokens(Constraint):
    """Any one token except these and stop tokens. Without a vocabulary, one character stands for it."""

    names: tuple[str | int, ...]

    def _lower(self, b: _core.Builder) -> int:
        token = b.token_set(list(self.names), but=True)
        known = current_special_tokens()
        return token if known.names or known.stops else b.union([token, any_character()._lower(b)])

    def __repr__(self) -> str:
        return f"any_token_but({', '.join(map(repr, self.names))})"


@dataclass
class _Arguments:
    """The arguments of a function: strings, numbers, tuples, names of rules; and ``key=value``."""

    plain: list[Any]
    named: dict[str, Any]
    begin: int
    end: int


class _Rule(str):
    """The name of a rule among the arguments."""

    span: tuple[int, int] = (0, 0)


class _Parser:
    def __init__(self, reader: Reader, quoted: Callable[[], str], what: str) -> None:
        self.reader, self.quoted, self.what = reader, quoted, what

    def run(self, begin: int) -> _Arguments:
        reader = self.reader
        found = _Arguments([], {}, begin, begin)
        reader.take("(")
        while True:
            reader.match(_SPACE)
            if reader.take(")"):
                break
            at = reader.at
            value = self.value()
            reader.match(_SPACE)
            if isinstance(value, _Rule) and reader.take("="):
                if value in found.named:
                    reader.fail(f"{value} is given twice; leave one out", at)
                reader.match(_SPACE)
                found.named[str(value)] = self.value()
            elif found.named:
                reader.fail("positional arguments must come first", at)
            else:
                found.plain.append(value)
            reader.match(_SPACE)
            if not reader.peek(")") and not reader.take(","):
                reader.fail(f"expected ')', found {reader.found()}")
        found.end = reader.at
        return found

    def value(self) -> Any:
        reader, begin = self.reader, self.reader.at
        if reader.peek('"'):
            return self.quoted()
        if reader.take("("):
            items: list[Any] = []
            while True:
                reader.match(_SPACE)
                if reader.take(")"):
                    return tuple(items)
                items.append(self.value())
                reader.match(_SPACE)
                if not reader.peek(")") and not reader.take(","):
                    reader.fail(f"expected ')', found {reader.found()}")
        number = reader.match(_NUMBER)
        if number:
            if len(number[0]) > 10 or int(number[0]) >= 2**31:
                reader.fail("this number is too large", begin, reader.at)
            return int(number[0])
        word = reader.match(_WORD)
        if not word:
            reader.fail(f"expected an argument of {self.what}, found {reader.found()}", begin)
        if word[0] in ("true", "false"):
            return word[0] == "true"
        rule = _Rule(word[0])
        rule.span = word.span()
        return rule


def function(name: str, reader: Reader, quoted: Callable[[], str], begin: int) -> Expression:
    """The expression of a function.

    Args:
        name: the function, one of `FUNCTIONS`.
        reader: positioned at the opening parenthesis.
        quoted: reads a quoted text.
        begin: the position of the name.

    Raises:
        PatternError: an argument is missing or wrong.
    """
    given = _Parser(reader, quoted, name).run(begin)
    return FUNCTIONS[name](reader, given)


def _named(reader: Reader, given: _Arguments, **kinds: type[Any]) -> dict[str, Any]:
    """The named arguments, each of its kind; one string or number counts as a tuple."""
    found: dict[str, Any] = {}
    for name, value in given.named.items():
        if name not in kinds:
            reader.fail(f"there is no argument {name!r} here; there are {', '.join(kinds)}", given.begin, given.end)
        if kinds[name] is tuple and isinstance(value, str | int) and not isinstance(value, bool | _Rule):
            value = (value,)
        if type(value) is not kinds[name]:
            expected = {"bool": "true or false", "tuple": "a list in brackets", "str": "a text"}
            reader.fail(f"{name} must be {expected[kinds[name].__name__]}", given.begin, given.end)
        found[name] = value
    return found


def _texts(reader: Reader, given: _Arguments, values: tuple[Any, ...], what: str) -> tuple[str, ...]:
    for value in values:
        if type(value) is not str or not value:
            reader.fail(f"{what} must be strings of at least one character", given.begin, given.end)
    return values


def _tokens(reader: Reader, given: _Arguments, values: list[Any] | tuple[Any, ...]) -> tuple[str | int, ...]:
    for value in values:
        if type(value) not in (str, int):
            reader.fail("tokens must be numbers or quoted strings", given.begin, given.end)
    return tuple(dict.fromkeys(values))


def _token(reader: Reader, given: _Arguments) -> Expression:
    if not given.plain or given.named:
        reader.fail("Token takes one or more tokens", given.begin, given.end)
    return Embedded(TokenSet(_tokens(reader, given, given.plain)))


def _exclude_token(reader: Reader, given: _Arguments) -> Expression:
    if given.named:
        reader.fail("ExcludeToken takes tokens", given.begin, given.end)
    return Embedded(OtherTokens(_tokens(reader, given, given.plain)))


def _substring(reader: Reader, given: _Arguments) -> Expression:
    if given.named or any(type(value) is not str for value in given.plain):
        reader.fail("Substring takes strings in quotes", given.begin, given.end)
    return Embedded(SubstringOfChunks(tuple(given.plain))) if given.plain else Text("")


def _regex(reader: Reader, given: _Arguments) -> Expression:
    if len(given.plain) != 1 or type(given.plain[0]) is not str:
        reader.fail("Regex takes one pattern in quotes", given.begin, given.end)
    named = _named(reader, given, json_string=bool, flags=str)
    pattern, flags = given.plain[0], named.get("flags", "")
    inline = _INLINE_FLAGS.match(pattern)
    if inline:
        pattern, flags = pattern[inline.end() :], flags + inline[1]
    point = set() if "flags" in named else {"s"}  # a point alone is any character
    flags = "".join(sorted({*flags, "u"} | point))
    try:
        found: Constraint = regex(pattern, dialect="ecma", flags=flags)
    except GuiderailError as error:
        try:  # Python's ways to name groups, and escapes that mean nothing
            found = regex(pattern, flags=flags.replace("u", ""))
        except GuiderailError:
            if isinstance(error, LimitError):
                span = given.begin, given.end
                raise relocated(error, "in this pattern: ", source=reader.text, span=span) from None
            reader.fail(f"in this pattern: {error.message}", given.begin, given.end)
    return Embedded(AllOf((found, regex(_PLAIN))) if named.get("json_string") else found)


def _pairs(reader: Reader, given: _Arguments, what: str) -> list[tuple[Any, Name]]:
    found: list[tuple[Any, Name]] = []
    for value in given.plain:
        if not isinstance(value, tuple) or len(value) != 2 or not isinstance(value[1], _Rule):
            reader.fail(f"expected {what} and the rule that follows it, in parentheses", given.begin, given.end)
        found.append((value[0], Name(str(value[1]), value[1].span)))
    return found


def _tag_dispatch(reader: Reader, given: _Arguments) -> Expression:
    """Free text; each tag is followed by its rule, then free text again."""
    named = _named(reader, given, excludes=tuple, loop_after_dispatch=bool, stop_eos=bool, stop_str=tuple)
    pairs = _pairs(reader, given, "a tag")
    tags = _texts(reader, given, tuple(tag for tag, _ in pairs), "tags")
    excludes = _texts(reader, given, named.get("excludes", ()), "excludes")
    if set(tags) & set(excludes):
        reader.fail("a tag cannot be excluded; leave it out of excludes", given.begin, given.end)
    stops = _texts(reader, given, named.get("stop_str", ()), "the texts of stop_str")
    forbidden = tuple(dict.fromkeys((*tags, *stops, *excludes)))
    late = before_any(forbidden)  # one object, so that what is asked of it is found once for all tags
    led: list[Expression] = [
        syntax.Sequence((Embedded(up_to(tag, forbidden, late)), rule))
        for tag, (_, rule) in zip(tags, pairs, strict=True)
    ]
    ends: list[Expression] = [Embedded(up_to(stop, forbidden, late)) for stop in stops]
    if named.get("stop_eos", True):
        ends.append(Embedded(_without(forbidden)))
    if named.get("loop_after_dispatch", True):
        return sequence([repetition(choice(led), 0, None), choice(ends)]) if led else choice(ends)
    return choice([*led, *ends])


def _token_tag_dispatch(reader: Reader, given: _Arguments) -> Expression:
    """The same with tokens."""
    named = _named(reader, given, excludes=tuple, loop_after_dispatch=bool)
    pairs = _pairs(reader, given, "a token")
    triggers = _tokens(reader, given, [token for token, _ in pairs])
    excludes = _tokens(reader, given, named.get("excludes", ()))
    if set(triggers) & set(excludes):
        reader.fail("a token cannot be a tag and excluded; leave it out of excludes", given.begin, given.end)
    free = repetition(Embedded(OtherTokens((*triggers, *excludes))), 0, None)
    led = [syntax.Sequence((Embedded(TokenSet((token,))), rule)) for token, rule in pairs]
    if not led:
        return free
    if named.get("loop_after_dispatch", True):
        return sequence([free, repetition(sequence([choice(led), free]), 0, None)])
    return sequence([free, repetition(choice(led), 0, 1)])


def _without(texts: tuple[str, ...]) -> Constraint:
    """Any text that contains none of these."""
    if not texts:
        return any_text()
    return Complement(Sequence((any_text(), Choice(texts), any_text())))


FUNCTIONS: dict[str, Callable[[Reader, _Arguments], Expression]] = {
    "ExcludeToken": _exclude_token,
    "Regex": _regex,
    "Substring": _substring,
    "TagDispatch": _tag_dispatch,
    "Token": _token,
    "TokenTagDispatch": _token_tag_dispatch,
}
"""By name."""
