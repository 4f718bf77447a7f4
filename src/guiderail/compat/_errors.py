"""Errors that users of the other library catch, and that are guiderail's errors at the same time.

The other libraries raise ``RuntimeError`` from their cores, but ``ValueError``, ``TypeError`` and others from their
Python code. Each class here is both.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from guiderail.errors import ArgumentError, BitmaskError, GuiderailError
from guiderail.support.numerals import json_text
from guiderail.support.texts import shown

__all__ = [
    "CompatAssertionError", "CompatError", "CompatIndexError", "CompatTypeError", "CompatValueError", "integer",
    "integers", "json_of", "raised_as",
]  # fmt: skip


class CompatError(GuiderailError, RuntimeError):
    """An error of guiderail as the ``RuntimeError`` that these interfaces raise.

    ``code``, ``message``, ``source`` and ``span`` are those of the original error, its ``__cause__``.
    """


class CompatValueError(CompatError, ValueError):
    """A wrong value, for which the other library raises ``ValueError``."""

    code = "compat-option"


class CompatTypeError(CompatError, TypeError):
    """An argument of a wrong type, for which the other library raises ``TypeError``."""

    code = "argument"


class CompatIndexError(CompatError, IndexError):
    """A row that does not exist, for which the other library raises ``IndexError``."""

    code = "bitmask-row"


class CompatAssertionError(CompatError, AssertionError):
    """A wrong value, for which the other library raises ``AssertionError``."""

    code = "compat-option"


_KINDS: tuple[tuple[type[GuiderailError], type[CompatError]], ...] = (
    (ArgumentError, CompatTypeError),
    (BitmaskError, CompatValueError),
)


@contextmanager
def raised_as(kind: type[CompatError] = CompatError) -> Iterator[None]:
    """Turns guiderail's errors into errors of ``kind``; if that is ``CompatError``, into the class that fits best."""
    try:
        yield
    except CompatError:
        raise
    except GuiderailError as error:
        if error.code == "bitmask-array":  # an object of another type
            kind = CompatTypeError
        elif kind is CompatError:
            kind = next((ours for one, ours in _KINDS if isinstance(error, one)), kind)
        raise kind(error.message, code=error.code, source=error.source, span=error.span) from error


def json_of(what: str, value: Any) -> str:
    """A value as JSON text.

    Raises:
        CompatValueError: JSON cannot write it.
    """
    try:
        return json_text(value, ascii_only=True)
    except (TypeError, ValueError, RecursionError) as error:
        raise CompatValueError(f"{what} is not JSON: {error}", code="compat-json") from None


def integer(what: str, value: Any) -> int:
    """An integer, also of NumPy or torch, as a Python number.

    Raises:
        CompatTypeError: it is something else.
    """
    try:
        return operator.index(value)
    except TypeError:
        raise CompatTypeError(f"{what} must be an integer, not {shown(value)}") from None


def integers(what: str, values: Any) -> list[int]:
    """Integers from a list, an array or a tensor, as Python numbers.

    Raises:
        CompatTypeError: they are something else.
    """
    listed = values.tolist() if hasattr(values, "tolist") else values
    if isinstance(listed, str | type) or not hasattr(listed, "__iter__"):
        raise CompatTypeError(f"{what} must be a list of integers, not {shown(values)}")
    return [integer(what, one) for one in listed]
