"""Attributes of a rule in llguidance's Lark: ``name[lazy, max_tokens=10]: …``."""

from __future__ import annotations

from dataclasses import dataclass

from guiderail.errors import CompileError, PatternError
from guiderail.frontends.grammar.lark.tokens import Token
from guiderail.support.numerals import clamped

__all__ = ["Attributes"]

_TEXTS = ("stop", "suffix")
_COUNTS = ("max_tokens", "max_chars")
_KNOWN = ("capture", "lazy", "max_chars", "max_tokens", "stop", "stop_capture", "suffix", "temperature")
_MOST = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Attributes:
    """The attributes of a rule, in brackets.

    Attributes:
        lazy: the shortest match.
        stop: the token of the text that a match must not contain; empty: none.
        suffix: the token of the text that ends a match, at its first occurrence.
        open_end: ``stop=""``: the text may end wherever the body may, whatever follows.
        max_tokens: maximum number of tokens.
        max_chars: maximum number of characters.
        capture: the name of the capture; "": that of the rule; None: not captured.
        stop_capture: the name under which what ended the text is captured.
        temperature: the token of that attribute.
    """

    lazy: bool = False
    stop: tuple[Token, ...] = ()
    suffix: tuple[Token, ...] = ()
    open_end: bool = False
    max_tokens: int | None = None
    max_chars: int | None = None
    capture: str | None = None
    stop_capture: str | None = None
    temperature: Token | None = None

    @property
    def end_early(self) -> bool:
        """Whether a text may end before its longest match."""
        return bool(self.lazy or self.stop or self.suffix)

    @property
    def most(self) -> int | None:
        """The bound of the text, in whichever unit."""
        return self.max_chars if self.max_tokens is None else self.max_tokens

    @property
    def change_texts(self) -> bool:
        return self.end_early or self.open_end or self.most is not None

    @classmethod
    def read(cls, source: str, found: list[Token]) -> Attributes:
        """Reads the tokens between the brackets.

        Raises:
            PatternError: a value is malformed.
            CompileError: an attribute is unknown, or two exclude each other.
        """
        reader = _Reader(source)
        for key, value in reader.pairs(found):
            reader.one(key, value)
        return cls(**reader.values)  # type: ignore[arg-type]


class _Reader:
    def __init__(self, source: str) -> None:
        self.source = source
        self.values: dict[str, object] = {}

    def fail(self, message: str, token: Token) -> PatternError:
        return PatternError(message, code="lark-syntax", source=self.source, span=token.span)

    def pairs(self, found: list[Token]) -> list[tuple[Token, list[Token]]]:
        """The attributes, each with the tokens of its value (only a decimal number has several)."""
        pairs: list[tuple[Token, list[Token]]] = []
        i = 0
        while i < len(found):
            key = found[i]
            if key.kind != "name":
                raise self.fail('expected an attribute of the rule, e.g. lazy or suffix="…"', key)
            if any(key.text == other.text for other, _ in pairs):
                raise self.fail(f"the attribute {key.text!r} is given twice; leave one out", key)
            i += 1
            begin = i
            if i < len(found) and found[i].text == "=":
                i += 2
                while key.text == "temperature" and i < len(found) and found[i].text != ",":
                    i += 1
            pairs.append((key, found[begin + 1 : i]))
            if i < len(found):
                if found[i].text != ",":
                    raise self.fail("expected ',' between two attributes", found[i])
                i += 1
        return pairs

    def one(self, key: Token, value: list[Token]) -> None:
        name, values = key.text, self.values
        first = value[0] if value else None
        if name not in _KNOWN:
            raise CompileError(
                f"there is no attribute {name!r}; there are {', '.join(_KNOWN)}",
                code="lark-unsupported",
                source=self.source,
                span=key.span,
            )
        if name in _COUNTS:
            if first is None or first.kind != "number" or not 0 <= clamped(first.text, _MOST) <= _MOST:
                raise self.fail(f"{name} must be an integer, 0 or more", first or key)
            values[name] = clamped(first.text, _MOST)
        elif name in _TEXTS:
            if first is None or first.kind not in ("string", "regexp", "name"):
                raise self.fail(f"{name} takes a string, a regular expression or a terminal", key)
            if {"stop", "suffix"} & values.keys() or "open_end" in values:
                raise self.fail("a rule can have a stop or a suffix, not both", key)
            if first.text in ('""', "//"):
                values["open_end"] = True
            else:
                values[name] = (first,)
        elif name in ("capture", "stop_capture"):
            values[name] = "" if first is None else self.name(first)
        elif name == "lazy":
            values[name] = True
        else:
            values[name] = key

    def name(self, token: Token) -> str:
        """The name of a capture."""
        text = token.text.strip('"') if token.kind == "string" else ""
        if not text or not all(c.isalnum() or c in "_.-" for c in text):
            raise self.fail("a capture's name must be quoted, and may have letters, digits, '_', '-' and '.'", token)
        return text
