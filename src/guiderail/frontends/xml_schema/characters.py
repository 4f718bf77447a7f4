"""Characters of XML, and a builder for decoded strings that writes them with the escapes of XML.

Facets are about decoded strings: ``a<b``, which a document spells ``a&lt;b``. Spelling is a homomorphism: each
character has one spelling, that of Canonical XML 1.0 (section 2.3), and no spelling is a prefix of another. So it
commutes with every operation of the builder, even intersection, and an expression is lowered by a builder that spells
its leaves.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import cast

from guiderail import _core
from guiderail._core import CharSet
from guiderail.constraints.constraint import Constraint
from guiderail.frontends.xml_schema import _names

__all__ = ["ALL_SPACES", "SPACES", "Writer", "escape", "legal", "name_chars", "name_starts", "normalized"]

SPACES = CharSet([(9, 10), (13, 13), (32, 32)])
ALL_SPACES = SPACES | CharSet([
    (0x85, 0x85), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A), (0x2028, 0x2029), (0x202F, 0x202F),
    (0x205F, 0x205F), (0x3000, 0x3000),
])  # fmt: skip
"""The spaces of XML, and the others of Unicode, which ``xmlschema`` takes for spaces, too."""
_IN_TEXT: Mapping[str, str] = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#xD;"}
_IN_ATTRIBUTE: Mapping[str, str] = {
    "&": "&amp;",
    "<": "&lt;",
    '"': "&quot;",
    "\t": "&#x9;",
    "\n": "&#xA;",
    "\r": "&#xD;",
}


@lru_cache(maxsize=1)
def legal() -> CharSet:
    """``Char`` of XML 1.0, section 2.2."""
    return CharSet([(9, 10), (13, 13), (0x20, 0xD7FF), (0xE000, 0xFFFD), (0x10000, 0x10FFFF)])


def _ranges(packed: str) -> CharSet:
    ranges, last = [], 0
    for word in packed.split():
        gap, _, length = word.partition("+")
        first = last + int(gap, 16)
        last = first + int(length or "0", 16)
        ranges.append((first, last))
    return CharSet(ranges)


@lru_cache(maxsize=1)
def name_starts() -> CharSet:
    r"""``\i``: the characters that may begin a ``Name``, including the colon."""
    return _ranges(_names.STARTS)


@lru_cache(maxsize=1)
def name_chars() -> CharSet:
    r"""``\c``: the characters of a ``Name``, including the colon."""
    return _ranges(_names.CHARS)


def escape(text: str, *, attribute: bool) -> str:
    """The spelling of a string between tags, or between the quotes of an attribute."""
    table = _IN_ATTRIBUTE if attribute else _IN_TEXT
    return "".join([table.get(c, c) for c in text])


def normalized(text: str, level: str | None) -> str:
    """A value as ``whiteSpace`` leaves it: only the spaces of XML count."""
    if level == "replace":
        return text.translate({9: " ", 10: " ", 13: " "})
    if level == "collapse":
        return " ".join([word for word in re.split("[ \t\n\r]+", text) if word])
    return text


class Writer:
    """The part of a builder's interface that strings need; what it builds is spelled for its place.

    Attributes:
        b: the underlying builder, for what needs no escapes.
        attribute: whether the place is an attribute.
    """

    def __init__(self, b: _core.Builder, *, attribute: bool) -> None:
        self.b = b
        self.attribute = attribute
        self.EMPTY, self.EPSILON = b.EMPTY, b.EPSILON
        table = _IN_ATTRIBUTE if attribute else _IN_TEXT
        self._special = [(ord(c), b.literal(spelled.encode())) for c, spelled in table.items()]
        self._plain = legal() - CharSet([(c, c) for c, _ in self._special])
        self._classes: dict[CharSet, int] = {}

    def literal(self, data: bytes) -> int:
        return self.b.literal(escape(data.decode(), attribute=self.attribute).encode())

    def char_class(self, chars: CharSet) -> int:
        found = self._classes.get(chars)
        if found is None:
            plain = chars & self._plain
            parts = [self.b.char_class(plain)] if len(plain) else []
            parts += [spelled for c, spelled in self._special if c in chars]
            found = self._classes[chars] = self.b.union(parts) if parts else self.EMPTY
        return found

    def byte_class(self, values: bytes) -> int:
        return self.char_class(CharSet([(c, c) for c in values]))

    def any_char(self) -> int:
        return self.char_class(legal())

    def choice(self, texts: Sequence[str]) -> int:
        return self.b.choice([escape(text, attribute=self.attribute).encode() for text in texts])

    def concat(self, parts: Sequence[int]) -> int:
        return self.b.concat(parts)

    def union(self, parts: Sequence[int]) -> int:
        return self.b.union(parts) if parts else self.EMPTY

    def intersection(self, parts: Sequence[int]) -> int:
        return self.b.intersection(parts)

    def repeat(self, e: int, least: int, most: int = -1) -> int:
        return self.b.repeat(e, least, most)

    def optional(self, e: int) -> int:
        return self.b.repeat(e, 0, 1)

    def lower(self, constraint: Constraint) -> int:
        """The strings of a constraint that lowers itself with the operations above only."""
        return constraint._lower(cast(_core.Builder, self))
