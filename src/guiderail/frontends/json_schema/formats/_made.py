"""How the format modules write their parts: patterns of the Python dialect, read once per process."""

from __future__ import annotations

from guiderail.constraints.constraint import Constraint
from guiderail.frontends.regex import regex
from guiderail.support.caches import cached

__all__ = ["made"]


@cached(4 << 20)
def made(pattern: str, max_length: int | None = None) -> Constraint:
    """The constraint of a pattern that matches the whole text, of at most ``max_length`` code points."""
    return regex(pattern, max_length=max_length)
