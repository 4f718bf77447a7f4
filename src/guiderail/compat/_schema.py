r"""A JSON Schema with the spellings of other engines: one for names and listed texts, any for other strings.

So the text of a key is forced and needs no forward pass, while a model may still write ``\u00e9`` elsewhere.
"""

from __future__ import annotations

from typing import Any

from guiderail import _core
from guiderail.frontends.json_schema import JsonSchema, json_schema
from guiderail.frontends.json_schema.documents.references import Document
from guiderail.frontends.json_schema.lowering.layout import JsonNotation
from guiderail.frontends.json_schema.lowering.lower import Lowering
from guiderail.frontends.json_schema.options import SchemaOptions
from guiderail.frontends.json_schema.values.strings import Strings

__all__ = ["spelled_schema"]


class _Notation(JsonNotation):
    def string(self, strings: Strings) -> int:
        texts = None if strings.has_pattern() else strings.finite_texts()
        if not texts:
            return super().string(strings)
        b = self.builder
        quote = b.literal(b'"')
        inside = b.escaped(b.choice([text.encode("utf-8", "surrogatepass") for text in sorted(texts)]), 0)
        return b.concat([quote, inside, quote])


class _Spelled(JsonSchema):
    __slots__ = ()

    def lowering(self, b: _core.Builder, document: Document) -> Lowering:
        made = Lowering(b, document, _Notation(b, self.options))
        made.escapes = 0  # of names
        return made

    def _with_options(self, options: SchemaOptions) -> JsonSchema:
        return _Spelled(self._text, options)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Spelled) and super().__eq__(other)

    __hash__ = JsonSchema.__hash__

    def __reduce__(self) -> tuple[object, ...]:
        return _Spelled, (self._text, self.options)


def spelled_schema(schema: Any, **options: Any) -> JsonSchema:
    """Like :func:`json_schema`, except that ``escapes="all"``, the default here, does not apply to names and listed
    texts.

    Raises:
        SchemaError, CompileError: as :func:`json_schema`.
    """
    made = json_schema(schema, **{"escapes": "all", **options})
    return _Spelled(made._text, made.options)
