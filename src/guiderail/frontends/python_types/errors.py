"""Errors for unsupported types."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from guiderail.errors import CompileError, PatternError

__all__ = ["in_member", "unsupported"]


def unsupported(what: str, why: str, code: str = "type-unsupported") -> CompileError:
    """The error for a type: what it is, and why it is not supported or what to use instead."""
    return CompileError(f"{what}: {why}", code=code)


@contextmanager
def in_member(owner: str, name: str) -> Iterator[None]:
    """What is wrong with the type of a member says whose it is; the innermost class is named."""
    try:
        yield
    except (CompileError, PatternError) as error:
        kind = type(error)
        if kind not in (CompileError, PatternError) or error.message != error.reason:
            raise
        place = f"{owner}.{name}"
        if error.message.startswith(f"{place}: "):
            raise
        raise kind(
            error.message, code=error.code, source=error.source, span=error.span, place=place
        ) from error.__cause__
