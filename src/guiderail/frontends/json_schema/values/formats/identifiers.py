"""UUIDs and JSON pointers."""

from __future__ import annotations

from guiderail.constraints.constraint import Constraint
from guiderail.frontends.json_schema.values.formats._cached_regex import cached_regex

__all__ = ["json_pointer", "relative_json_pointer", "relative_json_pointer_shifted", "uuid"]

_POINTER = "(?:/(?:[^/~]|~[01])*)*"
_INTEGER = "(?:0|[1-9][0-9]*)"


def uuid() -> Constraint:
    """A UUID of RFC 4122 in any version: 8-4-4-4-12 hexadecimal digits of either case."""
    return cached_regex("[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")


def json_pointer() -> Constraint:
    """A JSON pointer of RFC 6901, section 3 (as text, not as a URI fragment)."""
    return cached_regex(_POINTER)


def relative_json_pointer() -> Constraint:
    """A number of levels, then a JSON pointer or ``#``."""
    return cached_regex(rf"{_INTEGER}(?:{_POINTER}|\#)")


def relative_json_pointer_shifted() -> Constraint:
    """With an index shift (``0-1/name``), which later drafts of relative pointers define."""
    return cached_regex(rf"{_INTEGER}(?:[+-]{_INTEGER})?(?:{_POINTER}|\#)")
