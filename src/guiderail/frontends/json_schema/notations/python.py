"""Python literals, as ``ast`` reads them: ``{"name": "Ada", "tags": None}``, and calls of constructors.

The schema of a class contains a property that is not a member of the value, ``CALL``: a constant with the name to call.
It is part of the normal form like any other property, so alternatives keep their classes apart. It is written as a
call:

    Person(name="Ada", friends=[Person(name="Bob")])
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from guiderail import _core
from guiderail.errors import CompileError
from guiderail.frontends.json_schema.documents.references import Document
from guiderail.frontends.json_schema.errors import SchemaError
from guiderail.frontends.json_schema.lowering.layout import JsonNotation
from guiderail.frontends.json_schema.lowering.lower import Lowering
from guiderail.frontends.json_schema.normal_form.shape import (
    FALSE,
    TYPE_TERMS,
    ArrayCell,
    Contains,
    Fixed,
    ObjectCell,
    Shape,
)
from guiderail.frontends.json_schema.normal_form.votes import Vote, cells_of
from guiderail.frontends.json_schema.options import SchemaOptions
from guiderail.frontends.json_schema.values.numbers import Numbers
from guiderail.frontends.json_schema.values.strings import Strings

__all__ = ["CALL", "PythonLowering"]

CALL: Final = "x-guiderail-call"
"""Name of the property whose constant is the constructor."""

_NULL: Final = TYPE_TERMS["null"]
_BOOLEANS: Final = [(Fixed(Shape(False, bit, Numbers.NONE, Strings.NONE, (), ())), bit) for bit in (1, 2)]

_MAX_INTEGER_DIGITS: Final = 300  # Python's own parser stops at 4,300


class _Notation(JsonNotation):
    """JSON, except for three names."""

    # ``ast.parse`` gives up at about 90 levels of brackets in some versions.
    depth_limit = 32

    def __init__(self, builder: _core.Builder, options: SchemaOptions) -> None:
        if options.escapes != "canonical":
            raise CompileError(
                "in Python a string is written with canonical escapes (`\\/` means something else); leave out escapes",
                code="bad-schema-option",
            )
        if options.max_integer_digits is None:
            options = replace(options, max_integer_digits=_MAX_INTEGER_DIGITS)
        super().__init__(builder, options)

    def null(self) -> int:
        return self.builder.literal(b"None")

    def boolean(self, value: bool) -> int:
        return self.builder.literal(b"True" if value else b"False")


class PythonLowering(Lowering):
    """Literals, and calls if a cell names its class."""

    def __init__(self, builder: _core.Builder, document: Document) -> None:
        super().__init__(builder, document, _Notation(builder, document.options))
        if self.max_depth is None:
            self.max_depth = self.notation.depth_limit
        self.leveled = True

    def array(self, cell: ArrayCell, level: int) -> int:
        return super().array(self._distinct(cell) if cell.unique or cell.repeated else cell, level)

    def _distinct(self, cell: ArrayCell) -> ArrayCell:
        """The core compares items as JSON, so items that are spelled differently here are counted instead."""
        if cell.max is not None and cell.max < 2:
            return cell
        shapes = [term.shape() for term in (*cell.prefix, cell.rest)]
        if any(shape.arrays or shape.objects for shape in shapes):
            raise SchemaError(
                "uniqueItems and its negation are enforced in Python's notation only for scalar items; use JSON or "
                "YAML, or leave it out",
                code="python-unique",
                pointer=self.document.where(),
            )
        if cell.repeated:
            return cell
        once = [Contains(0, _NULL, 0, 1)] if any(shape.null for shape in shapes) else []
        once += [Contains(0, term, 0, 1) for term, bit in _BOOLEANS if any(shape.booleans & bit for shape in shapes)]
        return ArrayCell(
            cell.prefix, cell.rest, cell.min, cell.max, (*cell.contains, *once), cell.unique, cell.repeated
        )

    def object(self, cell: ObjectCell, level: int) -> int:
        term = cell.named.get(CALL)
        if isinstance(cell, Vote) and any(CALL in part.named for part in cells_of(cell.formula)):
            raise SchemaError(
                f"{CALL} is in an object with too many alternatives to tell its calls apart; use fewer, or JSON",
                code="python-call",
                pointer=self.document.where(),
            )
        if term is None:
            return super().object(cell, level)
        names = term.shape().strings.finite_texts()
        if not names:
            return self.builder.EMPTY
        if cell.rest is not FALSE or cell.rules or cell.obligations or cell.min or cell.max is not None:
            raise SchemaError(
                f"{CALL} is in an object that allows members it does not name, which a call cannot have; "
                "forbid them with additionalProperties",
                code="python-call",
                pointer=self.document.where(),
            )
        parts = [self._call(name, cell, level) for name in sorted(names)]
        return self.builder.union([part for part in parts if part != self.builder.EMPTY])

    def _call(self, name: str, cell: ObjectCell, level: int) -> int:
        """``name(a=…, b=…)``: from the last argument to the first, with and without an argument before it."""
        b = self.builder
        comma, first = self._punctuation(level)
        after, alone = b.EPSILON, b.EPSILON  # what may follow an argument; what may follow the parenthesis
        for key, term in reversed(cell.named.items()):
            if key == CALL:
                continue
            value = self.term(term, level + 1)
            argument = b.EMPTY if value == b.EMPTY else b.concat([b.literal(f"{key}=".encode()), value])
            ways, starts = [], []
            if argument != b.EMPTY:
                written = b.concat([argument, after])
                ways, starts = [b.concat([comma, written])], [b.concat([first, written])]
            if key not in cell.required:
                ways.append(after)
                starts.append(alone)
            if not ways:
                return b.EMPTY
            after, alone = b.union(ways), b.union(starts)
        rule = b.rule(name)  # not inlined: 64 levels of nesting would make one very deep expression
        b.define(rule, b.concat([b.literal(f"{name}(".encode()), alone, b.literal(b")")]))
        return rule

    def _punctuation(self, level: int) -> tuple[int, int]:
        """The separator between two arguments, and what precedes the first."""
        b, options = self.builder, self.notation.options
        comma = self.notation.object(level).comma
        if options.layout != "indented":
            return comma, b.EPSILON
        line = b.literal(("\n" + " " * (options.indent * (level + 1))).encode())
        return comma, line
