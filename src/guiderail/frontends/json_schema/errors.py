"""What goes wrong with a schema, and where in it."""

from __future__ import annotations

from collections.abc import Callable

from guiderail.errors import CompileError, LimitError

__all__ = ["SchemaError", "SchemaLimitError", "SelfReference", "TooMany", "Undecided", "at_pointer"]


class SchemaError(CompileError):
    """A JSON Schema cannot be read, resolved or satisfied.

    Attributes:
        pointer: JSON pointer (as a URI fragment, ``#/properties/a``) of the schema at fault, or None.
    """

    code = "invalid-schema"

    def __init__(self, message: str, *, code: str | None = None, pointer: str | None = None) -> None:
        super().__init__(f"{pointer}: {message}" if pointer else message, code=code)
        self.pointer = pointer
        self.reason = message

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.reason, self.code, self.pointer)


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
        return _rebuild, (type(self), self.reason, self.code, self.pointer)


def _rebuild(
    kind: type[SchemaError] | type[SchemaLimitError], message: str, code: str, pointer: str | None
) -> SchemaError | SchemaLimitError:
    return kind(message, code=code, pointer=pointer)


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
