"""The parts of formats: patterns of the Python dialect, each read once per process."""

from __future__ import annotations

from guiderail.constraints.constraint import Constraint
from guiderail.frontends.regex import regex
from guiderail.support.caches import cached

__all__ = ["cached_regex"]


@cached(4 << 20)
def cached_regex(pattern: str, max_length: int | None = None) -> Constraint:
    """The constraint of a pattern that matches the whole text, of at most ``max_length`` code points."""
    return regex(pattern, max_length=max_length)
