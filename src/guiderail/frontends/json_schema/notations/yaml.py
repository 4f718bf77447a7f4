"""YAML, block style, as PyYAML reads it (YAML 1.1).

    "name": Ada Lovelace
    "tags":
      - "a: b"
      - "x": 1
        "y": []

Mappings and sequences use block style, two spaces a level; below ``block_depth`` levels (so that recursion needs no
more copies of itself) and under ``uniqueItems`` the rest is in flow style, written as JSON. Strings stand in double
quotes, with JSON's escapes, which YAML has too; those that could be nothing else are also written plain.

What PyYAML would read as something else is not written:

- numbers have a point and a signed exponent or no exponent (``1e5`` is a string in YAML 1.1);
- plain strings begin with a letter, hold no ``:`` or ``#``, and are no word such as ``yes`` or ``null``;
- DEL, C1 controls, the byte order mark, two non-characters and Unicode's line breaks, which the reader refuses or
  folds, occur in strings that the schema lists (as escapes) but in no others, and in no key that it does not name;
- keys that the schema does not name have at most ``KEY_LENGTH`` characters (a simple key ends after 1,024).
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Final

from guiderail import _core
from guiderail.errors import CompileError
from guiderail.frontends.json_schema.documents.references import Document
from guiderail.frontends.json_schema.errors import SchemaError
from guiderail.frontends.json_schema.lowering.layout import Frame, JsonNotation
from guiderail.frontends.json_schema.lowering.lower import Lowering
from guiderail.frontends.json_schema.lowering.number_spelling import NumberSpelling, lower_numbers
from guiderail.frontends.json_schema.normal_form.shape import FALSE, TRUE, ArrayCell, KeyRules, ObjectCell, Shape, Term
from guiderail.frontends.json_schema.normal_form.votes import Vote, cells_of
from guiderail.frontends.json_schema.options import SchemaOptions
from guiderail.frontends.json_schema.values.numbers import Numbers
from guiderail.frontends.json_schema.values.strings import Strings

__all__ = ["KEY_LENGTH", "YamlLowering"]

KEY_LENGTH: Final = 160
"""Most characters of a key that the schema does not name; each may take six as an escape."""

_ESCAPED: Final = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_SAFE: Final = r"^[^\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]*$"
_LETTER: Final = (
    r"A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02af\u0388-\u03ff\u0400-\u052f\u3041-\u30ff\u4e00-\u9fff\uac00-\ud7a3"
)
_INSIDE: Final = rf"{_LETTER}0-9_.,;/()'\x22+&%!?=*@\-"
_WORDS: Final = "yes|no|on|off|true|false|null|y|n"
_PLAIN: Final = rf"[{_LETTER}](?:[ {_INSIDE}]*[{_INSIDE}])?"
_IS_PLAIN: Final = re.compile(_PLAIN)
_IS_WORD: Final = re.compile(_WORDS, re.IGNORECASE)


def _is_plain(text: str) -> bool:
    return _IS_PLAIN.fullmatch(text) is not None and _IS_WORD.fullmatch(text) is None


def _quoted(text: str) -> str:
    """In double quotes, with escapes for characters that the reader does not accept unescaped."""
    return _ESCAPED.sub(lambda match: f"\\u{ord(match[0]):04x}", json.dumps(text, ensure_ascii=False))


def _plain_strings() -> Strings:
    words = "|".join("".join(f"[{c}{c.upper()}]" for c in word) for word in _WORDS.split("|"))
    return Strings.pattern(rf"^(?!(?:{words})$){_PLAIN}$")


class _Notation(JsonNotation):
    """Scalars of YAML, and JSON's frames for the flow style.

    Attributes:
        plain: whether strings may be written without quotes.
    """

    def __init__(self, builder: _core.Builder, options: SchemaOptions, plain: bool) -> None:
        super().__init__(builder, replace(options, layout="spaced", separators=None, integers="plain"))
        self._spelling = NumberSpelling("plain", options.max_integer_digits, options.max_fraction_digits)
        self._cautious = NumberSpelling(
            "plain", options.max_integer_digits, options.max_fraction_digits, exponents=False
        )
        self._plain = plain
        self._numbers: dict[Numbers, int] = {}

    def number(self, numbers: Numbers) -> int:
        handle = self._numbers.get(numbers)
        if handle is None:
            handle = self._numbers[numbers] = self._number(numbers)
        return handle

    def _number(self, numbers: Numbers) -> int:
        b = self.builder
        if numbers.is_integral() or numbers.is_finite():
            return lower_numbers(numbers, b, self._cautious)
        digits = b.repeat(b.byte_class(b"0123456789"), 1)
        sign = b.repeat(b.literal(b"-"), 0, 1)
        exponent = b.concat([b.byte_class(b"eE"), b.byte_class(b"+-"), digits])
        fraction = b.concat([b.literal(b"."), digits, b.repeat(exponent, 0, 1)])
        try:
            return b.intersection(
                [lower_numbers(numbers, b, self._spelling), b.concat([sign, digits, b.repeat(fraction, 0, 1)])]
            )
        except CompileError as error:
            if error.code != "not-regular":  # rules, which the digits of some numbers need
                raise
            return lower_numbers(numbers, b, self._cautious)

    def string(self, strings: Strings) -> int:
        b = self.builder
        texts = strings.finite_texts()
        if texts is not None:
            ways = [_quoted(text) for text in sorted(texts)]
            ways += [text for text in sorted(texts) if self._plain and _is_plain(text)]
            return b.choice([way.encode() for way in ways])
        quoted = super().string(strings & Strings.pattern(_SAFE))
        if not self._plain:
            return quoted
        plain = strings & _plain_strings()
        return quoted if plain.is_empty() else b.union([quoted, plain.lower(b, self.texts)])


class _BlockNotation(_Notation):
    """Frames of blocks. ``place`` is the position of the next container: see ``YamlLowering``."""

    def __init__(self, builder: _core.Builder, options: SchemaOptions) -> None:
        super().__init__(builder, options, plain=True)
        self.place = 0

    def _block(self, empty: str, mark: str) -> Frame:
        b, place = self.builder, self.place
        line = "\n" + "  " * (place >> 1)
        before = "" if place == 0 else " " if place & 1 else line
        return Frame(
            b.literal((before + mark).encode()),
            b.literal((line + mark).encode()),
            b.literal(b":"),
            b.EPSILON,
            b.literal(((" " if place else "") + empty).encode()),
        )

    def array(self, level: int) -> Frame:
        return self._block("[]", "-")

    def object(self, level: int) -> Frame:
        return self._block("{}", "")


class _FlowLowering(Lowering):
    """Lowers the values below the blocks."""

    def object(self, cell: ObjectCell, level: int) -> int:
        return super().object(_writable(self, cell), level)


class YamlLowering(Lowering):
    """Blocks, with ``_FlowLowering`` below them.

    A ``level`` is here ``2 * depth``, plus 1 for the items of a sequence, whose first line continues after the dash.
    """

    def __init__(self, builder: _core.Builder, document: Document) -> None:
        options = document.options
        if options.escapes != "canonical" or options.layout not in (None, "flexible", "indented") or options.separators:
            raise CompileError(
                "YAML has one layout and one spelling of strings; leave out escapes, layout and separators",
                code="bad-schema-option",
            )
        if options.indent != 2 or options.integers != "plain":
            raise CompileError(
                "YAML has two spaces a level, and reads 1.0 as no integer; leave out indent and integers",
                code="bad-schema-option",
            )
        self.blocks = _BlockNotation(builder, options)
        super().__init__(builder, document, self.blocks)
        self.flow = _FlowLowering(builder, document, _Notation(builder, options, plain=False))
        self.depths = self.max_depth
        self.block_depth = options.block_depth
        self.leveled = True

    def term(self, term: Term, level: int = 0) -> int:
        if level >> 1 < self.block_depth:
            return super().term(term, level)
        return self._spaced(self.flow.term(term, level >> 1), level)

    def _spaced(self, handle: int, level: int) -> int:
        """After the colon or the dash."""
        b = self.builder
        return handle if level == 0 or handle == b.EMPTY else b.concat([b.literal(b" "), handle])

    def shape(self, shape: Shape, level: int) -> int:
        b = self.builder
        scalars = super().shape(Shape(shape.null, shape.booleans, shape.numbers, shape.strings, (), ()), level)
        parts = [self._spaced(scalars, level)]
        if self.depths is None or level >> 1 < self.depths:
            for array in shape.arrays:
                if (
                    array.unique or array.repeated
                ):  # equal items are recognized by their texts, of which each has only one
                    parts.append(self._spaced(self.flow.array(array, level >> 1), level))
                else:
                    parts.append(self.array(array, level))
            parts += [self.object(cell, level) for cell in shape.objects]
        parts = [part for part in parts if part != b.EMPTY]
        return parts[0] if len(parts) == 1 else b.union(parts)

    def array(self, cell: ArrayCell, level: int) -> int:
        self.blocks.place = level
        return super().array(cell, (level >> 1) * 2 + 2)  # items: one more

    def object(self, cell: ObjectCell, level: int) -> int:
        self.blocks.place = level
        return super().object(_writable(self, cell), (level >> 1) * 2 + 1)  # members: one more


def _writable(lowering: Lowering, cell: ObjectCell) -> ObjectCell:
    """Without the keys that would not be read back as written."""
    if isinstance(cell, Vote):
        names = {name for part in cells_of(cell.formula) for name in part.named if _ESCAPED.search(name)}
        safe = ObjectCell(dict.fromkeys(sorted(names), FALSE), TRUE, rules=(KeyRules(((_keys(), TRUE),), FALSE),))
        found = lowering.algebra._and_object(cell, safe)
        return cell if found is None else found
    named = cell.named
    unsafe = [name for name in named if _ESCAPED.search(name)]
    if unsafe:
        if not cell.required.isdisjoint(unsafe):
            raise SchemaError(
                f"the property {unsafe[0]!r} is required, but YAML cannot write all of its characters as they are; "
                "rename it, or use JSON",
                code="yaml-key",
                pointer=lowering.document.where(),
            )
        named = {**named, **dict.fromkeys(unsafe, FALSE)}
    rules = cell.rules
    if cell.rest is not FALSE:
        rules = (*rules, KeyRules(((_keys(), TRUE),), FALSE))
    elif not unsafe:
        return cell
    return ObjectCell(named, cell.rest, cell.required, rules, cell.min, cell.max, cell.obligations)


def _keys() -> Strings:
    return Strings.pattern(_SAFE) & Strings.length(0, KEY_LENGTH)
