"""JSON as a notation: punctuation, whitespace, and the spelling of scalars."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from guiderail import _core
from guiderail.constraints.constraint import EVERY_CHARACTER, Constraint
from guiderail.errors import CompileError
from guiderail.frontends.json_schema.options import SchemaOptions
from guiderail.frontends.json_schema.values.numbers import Numbers
from guiderail.frontends.json_schema.values.strings import Strings

__all__ = ["Frame", "JsonNotation", "Notation", "PlainKeys", "excluding", "holds", "layout_of"]

_WHITESPACE = b" \t\n\r"
_PLAIN = _core.CharSet([(0x20, 0x21), (0x23, 0x5B), (0x5D, 0x10FFFF)])  # characters that need no escape


class Frame:
    """What surrounds and separates the parts of an array or object, as expressions of one builder.

    Attributes:
        open: before the first part.
        comma: between two parts.
        colon: between a key and its value.
        close: after the last part.
        empty: the whole of an empty array or object if it is not ``open`` and then ``close``; else None.
    """

    __slots__ = ("close", "colon", "comma", "empty", "open")

    def __init__(self, open: int, comma: int, colon: int, close: int, empty: int | None = None) -> None:
        self.open = open
        self.comma = comma
        self.colon = colon
        self.close = close
        self.empty = empty


class Notation:
    """How values are written, as a lowering needs to know it. One object serves one builder.

    Attributes:
        leveled: whether the text of a value depends on its nesting depth.
        depth_limit: maximum depth that a leveled notation can write if nothing else bounds it.
    """

    leveled: bool = False
    depth_limit: int = 16

    def __init__(self, builder: _core.Builder, options: SchemaOptions) -> None:
        self.builder = builder
        self.options = options
        self.texts: dict[Strings, int] = {}

    def null(self) -> int:
        raise NotImplementedError

    def boolean(self, value: bool) -> int:
        raise NotImplementedError

    def number(self, numbers: Numbers) -> int:
        raise NotImplementedError

    def any_number(self, numbers: Numbers) -> int:
        """The same numbers, with integers spelled like other numbers."""
        return self.number(numbers)

    def string(self, strings: Strings) -> int:
        raise NotImplementedError

    def array(self, level: int) -> Frame:
        raise NotImplementedError

    def object(self, level: int) -> Frame:
        raise NotImplementedError


def holds(text: str, excludes: Sequence[str]) -> bool:
    """Whether a string, as it is written in JSON, contains one of these."""
    written = json.dumps(text, ensure_ascii=False)[1:-1]
    return any(one in written for one in excludes)


def excluding(b: _core.Builder, texts: Sequence[str]) -> int:
    """Any text that contains none of these."""
    every = b.repeat(b.char_class(EVERY_CHARACTER), 0)
    return b.complement(b.concat([every, b.choice([text.encode() for text in texts]), every]))


@dataclass(frozen=True, slots=True)
class PlainKeys(Constraint):
    """The keys, other than those that a schema names, that contain none of these strings: without escapes."""

    excludes: tuple[str, ...]

    def _lower(self, b: _core.Builder) -> int:
        return b.intersection([b.repeat(b.char_class(_PLAIN), 0), excluding(b, self.excludes)])


def _blank(b: _core.Builder, whitespace: Constraint) -> int:
    """What a constraint matches of the whitespace that JSON knows."""
    every = b.repeat(b.byte_class(_WHITESPACE), 0)
    given = whitespace._lower(b)
    if b.is_empty(b.intersection([given, b.complement(every)])):
        return given
    blank = b.intersection([given, every])
    if b.is_empty(blank):
        raise CompileError(
            "whitespace must match some of JSON's: spaces, tabs and line breaks, or nothing", code="bad-schema-option"
        )
    return blank


def layout_of(compact: bool, whitespace: str | None) -> dict[str, Any]:
    """Returns the options of ``json_schema`` for what serving engines say about whitespace.

    Args:
        compact: none at all.
        whitespace: a pattern of what stands at each position.

    Raises:
        CompileError: ``bad-option``: both are given.
        PatternError: the pattern is malformed.
    """
    if whitespace is None:
        return {"layout": "compact" if compact else None}
    if compact:
        raise CompileError(
            "disable_any_whitespace and whitespace_pattern exclude each other; leave one out", code="bad-option"
        )
    from guiderail.frontends.regex import regex

    return {"layout": "free", "whitespace": regex(whitespace)}


class JsonNotation(Notation):
    """RFC 8259, in one of the layouts."""

    def __init__(self, builder: _core.Builder, options: SchemaOptions) -> None:
        super().__init__(builder, options)
        self.leveled = options.layout == "indented"
        self._mode = 1 if options.escapes == "all" else 0
        self._spelling = None
        if (
            options.integers != "plain"
            or options.max_integer_digits is not None
            or options.max_fraction_digits is not None
        ):
            from guiderail.frontends.json_schema.lowering.number_spelling import NumberSpelling

            self._spelling = NumberSpelling(
                "any" if options.integers == "any" else "plain",
                options.max_integer_digits,
                options.max_fraction_digits,
            )
        self._excludes = options.excludes
        self._quote = builder.literal(b'"')
        self._space, self._comma, self._colon = self._separators()
        self._frames: dict[tuple[bytes, int], Frame] = {}

    def null(self) -> int:
        return self.builder.literal(b"null")

    def boolean(self, value: bool) -> int:
        return self.builder.literal(b"true" if value else b"false")

    def number(self, numbers: Numbers) -> int:
        from guiderail.frontends.json_schema.lowering.number_spelling import lower_numbers

        return lower_numbers(numbers, self.builder, self._spelling)

    def any_number(self, numbers: Numbers) -> int:
        from guiderail.frontends.json_schema.lowering.number_spelling import NumberSpelling, lower_numbers

        options = self.options
        spelling = NumberSpelling("any", options.max_integer_digits, options.max_fraction_digits)
        return lower_numbers(numbers, self.builder, spelling)

    def string(self, strings: Strings) -> int:
        b = self.builder
        if self._excludes and not strings.has_pattern():
            inside = self._kept(strings)
        else:
            inside = b.escaped(strings.lower(b, self.texts), self._mode)
        return b.EMPTY if inside == b.EMPTY else b.concat([self._quote, inside, self._quote])

    def _kept(self, strings: Strings) -> int:
        """The spellings without an excluded text; a finite set of strings has one spelling for each."""
        b = self.builder
        texts = strings.finite_texts()
        if texts is None:
            inside = b.escaped(strings.lower(b, self.texts), self._mode)
            return b.intersection([inside, excluding(b, self._excludes)])
        kept = [text for text in sorted(texts) if not holds(text, self._excludes)]
        return b.escaped(b.choice([text.encode() for text in kept]), 0) if kept else b.EMPTY

    def array(self, level: int) -> Frame:
        return self._frame(b"[", b"]", level)

    def object(self, level: int) -> Frame:
        return self._frame(b"{", b"}", level)

    def _separators(self) -> tuple[int, int, int]:
        """Whitespace inside brackets, what stands between two parts, and what follows a key; no line breaks yet."""
        b, options = self.builder, self.options
        layout = options.layout
        space, comma, colon = b.EPSILON, b.literal(b","), b.literal(b":")
        if layout in ("flexible", None):
            blank = b.repeat(b.literal(b" "), 0, 1)
            comma, colon = b.concat([comma, blank]), b.concat([colon, blank])
        elif layout == "spaced":
            comma, colon = b.literal(b", "), b.literal(b": ")
        elif layout == "indented":
            colon = b.literal(b": ")
        elif layout == "free":
            if options.whitespace is not None:
                space = _blank(b, options.whitespace)
            else:
                space = b.repeat(b.byte_class(_WHITESPACE), 0, options.max_whitespace)
            comma, colon = b.concat([space, comma, space]), b.concat([space, colon, space])
        if options.separators is not None:
            comma, colon = (
                b.literal(one.encode()) if isinstance(one, str) else one._lower(b) for one in options.separators
            )
        return space, comma, colon

    def _frame(self, left: bytes, right: bytes, level: int) -> Frame:
        level = level if self.leveled else 0
        known = self._frames.get((left, level))
        if known is not None:
            return known
        b, options = self.builder, self.options
        first = last = self._space
        comma = self._comma
        empty = None
        if options.layout == "free":
            empty = b.concat([b.literal(left), self._space, b.literal(right)])  # one place, not two
        elif options.layout == "indented":
            line = b"\n" + b" " * (options.indent * (level + 1))
            comma = b.concat([comma, b.literal(line)])
            first, last = b.literal(line), b.literal(b"\n" + b" " * (options.indent * level))
            empty = b.literal(left + right)
        frame = Frame(b.concat([b.literal(left), first]), comma, self._colon, b.concat([last, b.literal(right)]), empty)
        self._frames[left, level] = frame
        return frame
