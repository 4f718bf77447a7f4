"""Types that are refused."""

from __future__ import annotations

from guiderail.errors import CompileError

__all__ = ["unsupported"]


def unsupported(what: str, why: str, code: str = "type-unsupported") -> CompileError:
    """The refusal of a type: what it is, and why or what to use in its place."""
    return CompileError(f"{what}: {why}", code=code)
