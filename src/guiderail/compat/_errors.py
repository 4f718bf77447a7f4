"""Errors that users of the other library catch, and that are guiderail's errors at the same time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from guiderail.errors import GuiderailError

__all__ = ["CompatError", "raised_as"]


class CompatError(GuiderailError, RuntimeError):
    """An error of guiderail as the ``RuntimeError`` that these interfaces raise.

    ``code``, ``message``, ``source`` and ``span`` are those of the original error, its ``__cause__``.
    """


@contextmanager
def raised_as(kind: type[CompatError] = CompatError) -> Iterator[None]:
    """Turns guiderail's errors into errors of ``kind``."""
    try:
        yield
    except CompatError:
        raise
    except GuiderailError as error:
        raise kind(error.message, code=error.code, source=error.source, span=error.span) from error
