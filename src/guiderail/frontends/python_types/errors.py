"""What can go wrong between a Python type and a text."""

from __future__ import annotations

from guiderail.errors import CompileError, GuiderailError

__all__ = ["Mismatch", "ReadError", "unsupported"]


class ReadError(GuiderailError, ValueError):
    """A text cannot be read as a value of a Python type.

    What a guide has produced for the type is always read, with one exception: code of the user's own
    (validators of a pydantic model, ``__post_init__``, a predicate) may refuse what the type itself allows;
    its exception is then ``cause``.

    Attributes:
        pointer: where in the value, as a JSON pointer (``"/items/0/price"``; ``""`` is the whole).
        cause: the exception of pydantic or of the user's class, or None.
    """

    code = "read-mismatch"
    pointer: str = ""
    cause: Exception | None = None

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (self.message, self.code, self.pointer, self.cause)


def _rebuild(message: str, code: str, pointer: str, cause: Exception | None) -> ReadError:
    return read_error(message, code=code, pointer=pointer, cause=cause)


def read_error(message: str, *, code: str, pointer: str = "", cause: Exception | None = None) -> ReadError:
    error = ReadError(message, code=code)
    error.pointer, error.cause = pointer, cause
    return error


class Mismatch(Exception):
    """A value does not fit its node. Containers add their step to ``path`` (innermost first) and pass it on."""

    def __init__(self, message: str, cause: Exception | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.cause = cause
        self.path: list[str | int] = []

    def error(self) -> ReadError:
        pointer = "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in reversed(self.path))
        where = f" at {pointer}" if pointer else ""
        if self.cause is None:
            return read_error(f"the value{where} {self.message}", code="read-mismatch", pointer=pointer)
        return read_error(
            f"the value{where} {self.message}: {self.cause}; the type allows it, but its own code does not",
            code="read-refused",
            pointer=pointer,
            cause=self.cause,
        )


def unsupported(what: str, why: str, code: str = "type-unsupported") -> CompileError:
    """The refusal of a type: what it is, and why or what to use in its place."""
    return CompileError(f"{what}: {why}", code=code)
