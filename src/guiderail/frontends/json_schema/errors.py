"""What goes wrong with a schema, and where in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from guiderail.errors import CompileError, LimitError

__all__ = ["SchemaError", "SchemaLimitError", "SelfReference", "TooMany", "Undecided", "at_pointer"]


class SchemaError(CompileError):
    """A JSON Schema cannot be read, resolved or satisfied.

    Attributes:
        pointer: JSON pointer (as a URI fragment, ``#/properties/a``) of the schema at fault, or None.
        conflict: where no value satisfies a schema (``unsatisfiable-schema``), a smallest set of keywords that exclude
            each other: JSON pointers, each with the keyword's value or the part of it that matters. Empty where none
            is found quickly.
    """

    code = "invalid-schema"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        pointer: str | None = None,
        conflict: tuple[tuple[str, Any], ...] = (),
    ) -> None:
        super().__init__(f"{pointer}: {message}" if pointer else message, code=code)
        self.pointer = pointer
        self.reason = message
        self.conflict = conflict

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuilt, (self.reason, self.code, self.pointer, self.conflict)


class SchemaLimitError(LimitError):
    """The exact meaning of a schema would be larger than a limit allows.

    Attributes:
        pointer: JSON pointer (as a URI fragment) of the schema whose meaning grew, or None.
    """

    code = "schema-branches"

    def __init__(self, message: str, *, code: str | None = None, pointer: str | None = None) -> None:
        super().__init__(f"{pointer}: {message}" if pointer else message, code=code)
        self.pointer = pointer
        self.reason = message

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuilt_limit, (self.reason, self.code, self.pointer)


def _rebuilt(message: str, code: str, pointer: str | None, conflict: tuple[tuple[str, Any], ...]) -> SchemaError:
    return SchemaError(message, code=code, pointer=pointer, conflict=conflict)


def _rebuilt_limit(message: str, code: str, pointer: str | None) -> SchemaLimitError:
    return SchemaLimitError(message, code=code, pointer=pointer)


def at_pointer(error: LimitError, where: Callable[[], str | None]) -> LimitError:
    """A limit that was met while the schema at ``where()`` was read; the innermost schema counts."""
    if isinstance(error, SchemaLimitError):
        return error
    pointer = where()  # searches the document
    if pointer is None:
        return error
    return SchemaLimitError(error.message, code=error.code, pointer=pointer)


class Undecided(Exception):
    """Inside this package only: a question cannot be answered now, and need not be."""


class TooMany(Undecided):
    """Inside this package only: more cells than are worth multiplying out."""


class SelfReference(Undecided):
    """Inside this package only: the shape of a schema is needed while it is being made.

    Attributes:
        schema: the schema object.
    """

    def __init__(self, schema: object) -> None:
        super().__init__(schema)
        self.schema = schema
