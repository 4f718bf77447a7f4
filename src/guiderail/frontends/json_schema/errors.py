"""Errors about a schema, with their location in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from guiderail.errors import CompileError, GuiderailError, LimitError

__all__ = ["AtPointer", "SchemaError", "SchemaLimitError", "SelfReference", "TooMany", "Undecided", "at_pointer"]


class AtPointer(GuiderailError):
    """An error with the JSON pointer (as a URI fragment, ``#/properties/a``) of the part at fault."""

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        pointer: str | None = None,
        source: str | None = None,
        span: tuple[int, int] | None = None,
    ) -> None:
        super().__init__(message, code=code, place=pointer, source=source, span=span)
        self.pointer = pointer


class SchemaError(AtPointer, CompileError):
    """A JSON Schema cannot be read, resolved, enforced or satisfied.

    Attributes:
        pointer: JSON pointer (as a URI fragment, ``#/properties/a``) of the schema at fault, or None.
        conflict: if no value satisfies the schema (``unsatisfiable-schema``), a smallest set of keywords that exclude
            each other: pairs of a JSON pointer and the keyword's value, or the part of it that matters. Empty if none
            was found quickly.
    """

    code = "invalid-schema"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        pointer: str | None = None,
        conflict: tuple[tuple[str, Any], ...] = (),
        source: str | None = None,
        span: tuple[int, int] | None = None,
    ) -> None:
        super().__init__(message, code=code, pointer=pointer, source=source, span=span)
        self.conflict = conflict


class SchemaLimitError(AtPointer, LimitError):
    """The exact meaning of a schema would be larger than a limit allows.

    Attributes:
        pointer: JSON pointer (as a URI fragment) of the schema whose meaning grew, or None.
    """

    code = "schema-branches"


def at_pointer(error: LimitError, where: Callable[[], str | None]) -> LimitError:
    """Adds the pointer ``where()`` to a limit error, unless an inner schema has added its own."""
    if isinstance(error, SchemaLimitError):
        return error
    pointer = where()  # searches the document
    if pointer is None:
        return error
    return SchemaLimitError(error.message, code=error.code, pointer=pointer, source=error.source, span=error.span)


class Undecided(Exception):
    """Internal: a question cannot be answered now, and the caller can do without an answer."""


class TooMany(Undecided):
    """Internal: multiplying out would make too many cells."""


class SelfReference(Undecided):
    """Internal: the shape of a schema is needed while it is still being made.

    Attributes:
        schema: the schema object.
    """

    def __init__(self, schema: object) -> None:
        super().__init__(schema)
        self.schema = schema
