"""Errors as the other library's users catch them, which are guiderail's at the same time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from guiderail.errors import GuiderailError

__all__ = ["CompatError", "raised_as"]


class CompatError(GuiderailError, RuntimeError):
    """What guiderail raises elsewhere as an error of its own, as the ``RuntimeError`` that these interfaces raise.

    ``code``, ``message``, ``source`` and ``span`` are those of the error that it stands for, its ``__cause__``.
    """


@contextmanager
def raised_as(kind: type[CompatError] = CompatError) -> Iterator[None]:
    """Turns errors of guiderail's inside into errors of ``kind``."""
    try:
        yield
    except CompatError:
        raise
    except GuiderailError as error:
        raise kind(error.message, code=error.code, source=error.source, span=error.span) from error
