"""Reports for each keyword of a schema whether it is enforced, approximated, ignored, annotation or unsatisfiable."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from guiderail.frontends.json_schema.documents.dialects import ANNOTATIONS, companions_of, keywords_of, other_dialect
from guiderail.frontends.json_schema.documents.references import Document
from guiderail.frontends.json_schema.faults import nearest_format, nearest_keyword
from guiderail.frontends.json_schema.values.strings import Strings
from guiderail.support.pointers import extended
from guiderail.support.reports import StatusReport

if TYPE_CHECKING:
    from guiderail.frontends.json_schema.constraint import JsonSchema

__all__ = ["Report", "ReportEntry", "report"]

_ONE = frozenset(
    (
        "additionalItems",
        "additionalProperties",
        "contains",
        "else",
        "if",
        "items",
        "not",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    )
)
_MANY = frozenset(("allOf", "anyOf", "oneOf", "prefixItems", "items"))
_NAMED = frozenset(("$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"))


@dataclass(frozen=True, slots=True)
class ReportEntry:
    """The status of one keyword.

    Attributes:
        pointer: JSON pointer of the schema object, as a URI fragment.
        keyword: the keyword, or ``""`` for the schema object as a whole.
        status: ``"enforced"``; ``"approximated"``: fewer strings are allowed than the schema means; ``"ignored"``: not
            enforced, as the option ``on_unsupported`` says; ``"annotation"``: constrains nothing by definition;
            ``"unsatisfiable"``: no value satisfies this schema object.
        detail: the reason, in words; may be empty.
    """

    pointer: str
    keyword: str
    status: str
    detail: str = ""

    @property
    def place(self) -> str:
        """JSON pointer of the keyword, or of the schema object, as a URI fragment."""
        return extended(self.pointer, self.keyword) if self.keyword else self.pointer


class Report(StatusReport[ReportEntry]):
    """All entries, in the order of the schema."""

    __slots__ = ()


def report(constraint: JsonSchema) -> Report:
    """Walks a schema and says of every keyword what becomes of it.

    Raises:
        SchemaError: the schema is malformed.
        SchemaLimitError: its exact meaning is too large.
    """
    from guiderail import _core

    document = constraint.document()
    builder = _core.Builder()
    with document.evaluating():
        constraint.lowering(builder, document).term(document.term())
        dropped = {(pointer, keyword): reason for pointer, keyword, reason in document.unsupported}
        return Report(tuple(_walk(document, document.contents, "#", dropped)))


def _walk(document: Document, schema: Any, pointer: str, dropped: dict[tuple[str, str], str]) -> Iterator[ReportEntry]:
    if schema is False:
        yield ReportEntry(pointer, "", "unsatisfiable", "the schema false")
    if not isinstance(schema, dict):
        return
    term = document.root.child(schema)
    if document.algebra.emptiness.term(term):
        yield ReportEntry(pointer, "", "unsatisfiable", "no value satisfies this schema")
    dialect = document.dialect
    keywords, companions = keywords_of(dialect), companions_of(dialect)
    alone = document.root.old and "$ref" in schema
    for keyword, value in schema.items():
        reason = dropped.get((f"{pointer}/{keyword}", keyword))
        if reason is not None:
            yield ReportEntry(pointer, keyword, "ignored", reason)
        elif alone and keyword != "$ref":
            if keyword in keywords:
                yield ReportEntry(pointer, keyword, "annotation", f"{dialect} ignores keywords beside $ref")
        elif keyword == "format":
            yield _format(document, pointer, value)
        elif keyword in keywords:
            yield ReportEntry(pointer, keyword, "enforced")
        elif keyword in companions:
            beside = companions[keyword]
            if beside in schema:
                yield ReportEntry(pointer, keyword, "enforced")
            else:
                yield ReportEntry(pointer, keyword, "annotation", f"means nothing without {beside}")
        elif keyword in ANNOTATIONS:
            yield ReportEntry(pointer, keyword, "annotation")
        else:
            other = other_dialect(keyword, dialect)
            meant = "" if other else nearest_keyword(keyword, dialect)
            hint = f", but of {other}" if other else f'; did you mean "{meant}"?' if meant else ""
            yield ReportEntry(pointer, keyword, "annotation", f"not a keyword of {dialect}{hint}")
    for keyword, value in schema.items():
        place = extended(pointer, keyword)
        if keyword in _NAMED and isinstance(value, dict):
            for name, inner in value.items():
                yield from _walk(document, inner, extended(place, name), dropped)
        elif keyword in _MANY and isinstance(value, list):
            for i, inner in enumerate(value):
                yield from _walk(document, inner, f"{place}/{i}", dropped)
        elif keyword in _ONE and isinstance(value, dict):
            yield from _walk(document, value, place, dropped)


def _format(document: Document, pointer: str, name: Any) -> ReportEntry:
    if document.options.format == "annotate":
        return ReportEntry(pointer, "format", "annotation", "format='annotate'")
    known = Strings.format(name) if isinstance(name, str) else None
    if known is None:
        meant = nearest_format(name) if isinstance(name, str) else ""
        hint = f'; did you mean "{meant}"?' if meant else ""
        return ReportEntry(pointer, "format", "annotation", f"unknown format {name!r}{hint}")
    if not known.is_exact():
        return ReportEntry(pointer, "format", "approximated", f"a subset of {name} that an automaton can express")
    return ReportEntry(pointer, "format", "enforced")
