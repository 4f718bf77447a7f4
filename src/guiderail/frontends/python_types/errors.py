"""Errors for unsupported types."""

from __future__ import annotations

from guiderail.errors import CompileError

__all__ = ["unsupported"]


def unsupported(what: str, why: str, code: str = "type-unsupported") -> CompileError:
    """The error for a type: what it is, and why it is not supported or what to use instead."""
    return CompileError(f"{what}: {why}", code=code)
