"""Separate languages within llguidance's Lark: ``%json {…}``, ``%lark {…}``, ``@name`` and ``<token>``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from guiderail.constraints.constraint import Constraint, SpecialToken, TokenSet
from guiderail.errors import CompileError, GuiderailError, LimitError, PatternError
from guiderail.frontends.grammar.lark.tokens import Token, scan
from guiderail.frontends.grammar.nesting import Nesting
from guiderail.support.json_objects import too_deep
from guiderail.support.numerals import clamped, read_integer
from guiderail.support.places import relocated

__all__ = ["EmbeddedParts", "is_embedded", "json_at"]


_SPECIAL_RANGES = 2**19  # most ids that one `<[…]>` may name


def is_embedded(token: Token) -> bool:
    """Whether a token begins a separate language."""
    return token.kind in ("special", "grammar") or token.text in ("%json", "%lark")


def json_at(source: str, token: Token, begin: int) -> tuple[Any, int]:
    """The JSON value after a directive, which begins at ``begin``, and where the value ends.

    Raises:
        PatternError: there is none.
    """
    if source[begin : begin + 1] != "{":
        raise PatternError(
            f"{token.text} must be followed by a JSON object", code="lark-syntax", source=source, span=token.span
        )
    try:
        return json.JSONDecoder(parse_int=read_integer).raw_decode(source, begin)
    except (json.JSONDecodeError, RecursionError) as why:
        error = why if isinstance(why, json.JSONDecodeError) else too_deep(source, begin)
        raise PatternError(
            f"this is not JSON: {error.msg.lower()}",
            code="lark-syntax",
            source=source,
            span=(error.pos, error.pos + 1),
        ) from None


@dataclass(slots=True)
class EmbeddedParts:
    """Reads the embedded parts of one grammar.

    Attributes:
        source: the grammar.
        constraints: what ``@name`` stands for.
        nested: makes nested grammars and schemas.
        notes: what was read and has no effect.
    """

    source: str
    constraints: Mapping[str, Constraint]
    nested: Nesting | None = None
    notes: list[str] = field(default_factory=list)

    def read(self, token: Token, begin: int) -> tuple[Constraint, int]:
        """The constraint of a part, and where it ends.

        Args:
            token: its first token.
            begin: where the next token begins.

        Raises:
            PatternError: it cannot be read.
            CompileError: it is unknown, or cannot be enforced.
        """
        if token.text == "%json":
            value, end = json_at(self.source, token, begin)
            return self.schema(value, token, end), end
        if token.text == "%lark":
            return self.grammar(token, begin)
        if token.kind == "special":
            return self.special(token), token.end
        name = token.text[1:]
        if name not in self.constraints:
            self.refuse(f"{token.text} is not known; pass it, e.g. constraints={{{name!r}: …}}", token.start, token.end)
        return self.constraints[name], token.end

    def fail(self, message: str, token: Token) -> NoReturn:
        raise PatternError(message, code="lark-syntax", source=self.source, span=token.span)

    def refuse(self, message: str, start: int, end: int) -> NoReturn:
        raise CompileError(message, code="lark-unsupported", source=self.source, span=(start, end))

    def schema(self, value: Any, token: Token, end: int) -> Constraint:
        from guiderail.frontends.grammar.lark.json_options import schema_with_options

        try:
            schema, notes = schema_with_options(value, () if self.nested is None else self.nested.schema_options)
        except CompileError as error:
            if error.code == "lark-unsupported":
                self.refuse(error.message, token.start, end)
            raise relocated(error, "in %json: ", source=self.source, span=(token.start, end)) from error
        except LimitError as error:
            raise relocated(error, "in %json: ", source=self.source, span=(token.start, end)) from error
        self.notes.extend(notes)
        return schema

    def grammar(self, token: Token, begin: int) -> tuple[Constraint, int]:
        """``%lark {…}``, a grammar with a lexer of its own."""
        if self.nested is None:
            self.refuse("only gr.grammar reads a nested grammar", *token.span)
        if self.source[begin : begin + 1] != "{":
            self.fail("%lark must be followed by a grammar in braces", token)
        named: set[str] = set()
        depth = 0
        for one in scan(self.source, begin):
            if one.kind == "mark":
                depth += (one.text == "{") - (one.text == "}")
            if one.kind == "grammar":
                named.add(one.text[1:])
            if not depth:
                break
        else:
            self.fail("the braces of this grammar are never closed; add '}'", token)
        begin, end = begin + 1, one.start
        given = {name: part for name, part in self.constraints.items() if name in named}
        try:
            return self.nested.grammar(self.source[begin:end], given), end + 1
        except GuiderailError as error:
            span = None if error.span is None else (error.span[0] + begin, error.span[1] + begin)
            words = "" if error.message.startswith("in %lark: ") else "in %lark: "
            raise relocated(error, words, source=self.source, span=span or token.span) from error

    def special(self, token: Token) -> Constraint:
        """``<name>``, ``<[12]>``, ``<[10-20,30]>``, ``<[^12]>``, ``<[*]>``."""
        inner = token.text[1:-1]
        if not (inner.startswith("[") and inner.endswith("]")):
            return SpecialToken((token.text,))
        if inner == "[*]":
            return TokenSet((), True)
        but = inner.startswith("[^")
        ids: list[int] = []
        for part in inner[1 + but : -1].split(","):
            low, dash, high = part.partition("-")
            if not low.isdecimal() or (dash and not high.isdecimal()):
                self.fail("ids of tokens look like <[12]>, <[10-20]>, <[10-20,30]>, <[^12]> or <[*]>", token)
            first, last = clamped(low, 2**31), clamped(high if dash else low, 2**31)
            if last < first or last - first + len(ids) >= _SPECIAL_RANGES or last >= 2**31:
                self.fail(
                    f"a range of token ids goes from the lower to the higher, with at most {_SPECIAL_RANGES:,} ids",
                    token,
                )
            ids.extend(range(first, last + 1))
        return TokenSet(tuple(dict.fromkeys(ids)), but)
