"""The JSON Schema of a type, plus what JSON Schema cannot express.

A string that a constraint of the user's describes has the keyword ``x-guiderail-text``. Its value is the index of that
constraint among ``TypeSchema.texts``, so that the schema stays plain data.
"""

from __future__ import annotations

import marshal
from dataclasses import replace
from typing import Any

from guiderail import _core
from guiderail.constraints.constraint import Constraint
from guiderail.frontends.json_schema.constraint import JsonSchema, json_schema
from guiderail.frontends.json_schema.documents.references import Document, Node
from guiderail.frontends.json_schema.keywords.evaluate import evaluate
from guiderail.frontends.json_schema.lowering.lower import Lowering
from guiderail.frontends.json_schema.normal_form.shape import ANY_ARRAY, ANY_OBJECT, Shape
from guiderail.frontends.json_schema.options import SchemaOptions
from guiderail.frontends.json_schema.report import Report
from guiderail.frontends.json_schema.values.numbers import Numbers
from guiderail.frontends.json_schema.values.strings import Strings
from guiderail.frontends.python_types.nodes import TEXT

__all__ = ["TypeSchema", "type_schema"]


class TypeSchema(JsonSchema):
    """A schema whose strings may be described by constraints.

    Attributes:
        texts: the constraints that ``x-guiderail-text`` refers to by index.
    """

    __slots__ = ("texts",)

    def __init__(self, text: bytes, options: SchemaOptions, texts: tuple[Constraint, ...]) -> None:
        super().__init__(text, options)
        self.texts = texts

    def document(self) -> Document:
        return Document(marshal.loads(self._text), self.options, self._evaluate)

    def _evaluate(self, node: Node) -> Shape:
        shape = evaluate(node)
        index = node.schema.get(TEXT)
        if index is None:
            return shape
        strings = Strings.constraint(self.texts[index])
        described = Shape(True, 3, Numbers.ALL, strings, (ANY_ARRAY,), (ANY_OBJECT,))
        return node.scope.document.algebra.and_shapes(shape, described)

    def lowering(self, b: _core.Builder, document: Document) -> Lowering:
        # Types repeat themselves: every float of one builder is written by the same expression.
        made = super().lowering(b, document)
        write, known = made.notation.number, dict[Numbers, int]()

        def number(numbers: Numbers) -> int:
            handle = known.get(numbers)
            if handle is None:
                handle = known[numbers] = write(numbers)
            return handle

        made.notation.number = number  # type: ignore[method-assign]
        return made

    def _with_options(self, options: SchemaOptions) -> TypeSchema:
        return TypeSchema(self._text, options, self.texts)

    def report(self) -> Report:
        """Like the report of any schema; ``x-guiderail-text`` counts as enforced."""
        entries = super().report().entries
        return Report(tuple(replace(e, status="enforced", detail="") if e.keyword == TEXT else e for e in entries))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TypeSchema) and self.texts == other.texts and super().__eq__(other)

    def __hash__(self) -> int:
        return super().__hash__()

    def __reduce__(self) -> tuple[object, ...]:
        return TypeSchema, (self._text, self.options, self.texts)


def type_schema(schema: dict[str, Any], texts: tuple[Constraint, ...], options: dict[str, Any]) -> TypeSchema:
    """Like ``json_schema``, with the constraints that the schema refers to.

    Raises:
        SchemaError: the schema allows nothing that could be written.
        CompileError: an option is wrong.
    """
    plain = json_schema(schema, **options)
    return TypeSchema(plain._text, plain.options, texts)
