"""Lark's view of terminals: patterns with widths, names, and escapes.

The same as in ``lark.lexer`` and ``lark.load_grammar``, without importing them.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from ast import literal_eval
from collections.abc import Iterable
from importlib import import_module
from typing import ClassVar

from guiderail.support.packages import package
from guiderail.support.work import spend

__all__ = [
    "IN_A_CLASS",
    "AnonymousNames",
    "Definition",
    "Pattern",
    "RegexPattern",
    "TextPattern",
    "copied",
    "copying",
    "joined",
    "unescaped",
]

IN_A_CLASS = frozenset("^[]-&|~\\/")
"""Characters that mean something else, or end the pattern, if they are not escaped in a class of a Lark pattern."""

_CHARACTER, _GROUP = 10, 500  # steps of each that is copied
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_CATEGORY = re.compile(r"\\p{[A-Za-z_]+}")
_SIMPLE = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", '"': '"', "\\": "\\\\"}
_ID_START = frozenset(("Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Pc"))
_ID_CONTINUE = _ID_START | {"Nd", "Nl"}
_NAMES = {
    ".": "DOT", ",": "COMMA", ":": "COLON", ";": "SEMICOLON", "+": "PLUS", "-": "MINUS", "*": "STAR", "/": "SLASH",
    "\\": "BACKSLASH", "|": "VBAR", "?": "QMARK", "!": "BANG", "@": "AT", "#": "HASH", "$": "DOLLAR", "%": "PERCENT",
    "^": "CIRCUMFLEX", "&": "AMPERSAND", "_": "UNDERSCORE", "<": "LESSTHAN", ">": "MORETHAN", "=": "EQUAL",
    '"': "DBLQUOTE", "'": "QUOTE", "`": "BACKQUOTE", "~": "TILDE", "(": "LPAR", ")": "RPAR", "{": "LBRACE",
    "}": "RBRACE", "[": "LSQB", "]": "RSQB", "\n": "NEWLINE", "\r\n": "CRLF", "\t": "TAB", " ": "SPACE",
}  # fmt: skip


class Pattern:
    """What a terminal matches.

    Attributes:
        value: a text or a regular expression.
        flags: letters.
        raw: as it is written; None: it is put together.
    """

    __slots__ = ("flags", "raw", "value")
    type: ClassVar[str]

    def __init__(self, value: str, flags: Iterable[str] = (), raw: str | None = None) -> None:
        self.value, self.flags, self.raw = value, frozenset(flags), raw

    @property
    def key(self) -> tuple[str, str, frozenset[str]]:
        """The same key for equal patterns."""
        return self.type, self.value, self.flags

    def to_regexp(self) -> str:
        """The pattern as a regular expression, including its flags."""
        text = re.escape(self.value) if self.type == "str" else self.value
        for flag in self.flags:
            text = f"(?{flag}:{text})"
        return text

    @property
    def min_width(self) -> int:
        raise NotImplementedError

    @property
    def max_width(self) -> int:
        raise NotImplementedError


class TextPattern(Pattern):
    __slots__ = ()
    type = "str"

    @property
    def min_width(self) -> int:
        return len(self.value)

    @property
    def max_width(self) -> int:
        return len(self.value)


class RegexPattern(Pattern):
    __slots__ = ("_widths",)
    type = "re"

    def __init__(self, value: str, flags: Iterable[str] = (), raw: str | None = None) -> None:
        super().__init__(value, flags, raw)
        self._widths: tuple[int, int] | None = None

    @property
    def widths(self) -> tuple[int, int]:
        """The fewest and the most characters that it matches."""
        if self._widths is None:
            self._widths = _widths(self.to_regexp())
        return self._widths

    @property
    def min_width(self) -> int:
        return self.widths[0]

    @property
    def max_width(self) -> int:
        return self.widths[1]


def _widths(text: str) -> tuple[int, int]:
    if _CATEGORY.search(text) is None:
        try:
            parser = import_module("re._parser" if sys.version_info >= (3, 11) else "sre_parse")
            least, most = parser.parse(text).getwidth()
            return int(least), int(most)
        except re.error:
            pass  # not for `re`: Lark asks the `regex` package
    needs = f"the lark package is needed to tell how long matches of /{text}/ are"
    utils = package("lark.utils", needs, get="pip install lark")
    least, most = utils.get_regexp_width(text)
    return least, most


def joined(alternatives: list[Pattern]) -> Pattern:
    """A pattern for one of several texts, the longest first."""
    if len(alternatives) == 1:
        return alternatives[0]
    order = sorted(alternatives, key=lambda one: (-one.max_width, -one.min_width, -len(one.value)))
    return RegexPattern(f"(?:{'|'.join(one.to_regexp() for one in order)})")


def copied(pattern: Pattern) -> Pattern:
    """Counts a terminal's pattern that becomes a part of another terminal: its text is copied, and read again there."""
    copying(len(pattern.value), pattern.value.count("("))
    return pattern


def copying(characters: int, groups: int) -> None:
    """Counts the work that copied text of patterns makes until the terminal is compiled."""
    spend(_CHARACTER * characters + _GROUP * groups)


class Definition:
    """A terminal: name, pattern and priority."""

    __slots__ = ("name", "pattern", "priority")

    def __init__(self, name: str, pattern: Pattern, priority: int = 0) -> None:
        self.name, self.pattern, self.priority = name, pattern, priority

    def user_repr(self) -> str:
        return self.pattern.raw or self.name if self.name.startswith("__") else self.name


class AnonymousNames:
    """Names for patterns inside rules: those of equal terminals, or new ones.

    Attributes:
        definitions: all terminals; new ones are added.
    """

    def __init__(self, definitions: list[Definition]) -> None:
        self.definitions = definitions
        self.taken = {one.name for one in definitions}
        self.known = {one.pattern.key: one.name for one in definitions}
        self.count = 0

    def __call__(self, pattern: Pattern) -> str:
        name = self.known.get(pattern.key)
        if name is None and pattern.type == "str":
            name = _NAMES.get(pattern.value)
            if name is None and _is_identifier(pattern.value):
                name = pattern.value.upper()
            if name in self.taken:
                name = None
        if name is None:
            name = f"__ANON_{self.count}"
            self.count += 1
        if name not in self.taken:
            self.taken.add(name)
            self.known[pattern.key] = name
            self.definitions.append(Definition(name, pattern))
        return name


def _is_identifier(text: str) -> bool:
    if text.isascii():
        return text.isidentifier()
    kinds = [unicodedata.category(char) for char in text]
    return kinds[0] in _ID_START and all(kind in _ID_CONTINUE for kind in kinds)


def unescaped(text: str) -> str:
    r"""A string or pattern without its delimiters, as Lark reads its escapes: ``\n`` is a line break, ``\d`` stays.

    Raises:
        ValueError, SyntaxError: an escape is malformed, or the text ends in one.
    """
    if "\\" not in text and "\r" not in text and "\0" not in text:
        return text
    if "\r" in text or "\0" in text or '\\\\"' in text or text.endswith("\\"):  # where the replacements below meet
        return _evaluated(text)
    try:
        return _ESCAPE.sub(_escape, text)
    except KeyError:  # one that Python evaluates
        return _evaluated(text)


def _escape(match: re.Match[str]) -> str:
    char = match[1]
    if char in "Uux":
        raise KeyError(char)
    return _SIMPLE.get(char) or match[0]


def _evaluated(text: str) -> str:
    parts: list[str] = []
    chars = iter(text)
    for char in chars:
        parts.append(char)
        if char == "\\":
            escaped = next(chars, None)
            if escaped is None:
                raise ValueError(f"the text ends in a backslash: {text!r}")
            if escaped == "\\":
                parts.append("\\\\")
            elif escaped not in "Uuxnftr":
                parts.append("\\")
            parts.append(escaped)
    content = "".join(parts).replace('\\"', '"').replace("'", "\\'")
    return str(literal_eval(f"u'''{content}'''"))
