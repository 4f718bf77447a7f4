"""JSON of rows and answers: what is read can be written again as it was, for any reader of JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from guiderail.support.json_objects import loads, unique_names
from guiderail.support.numerals import json_text, read_float, refuse_constant

__all__ = ["MOST_LEVELS", "line_of", "read_row", "read_value"]

MOST_LEVELS = 250
"""Maximum nesting of a row or a value. Python's stack must hold it wherever a line is written, or read again."""


def read_row(line: bytes) -> Any:
    """The value of a line of the input.

    Raises:
        ValueError: as :func:`read_value`, or two members of an object have one name and different values.
    """
    return _read(line, unique_names)


def read_value(text: str) -> Any:
    """The value of an answer. A number that no float can hold is written as it was read.

    Raises:
        ValueError: it is not JSON, it is nested deeper than ``MOST_LEVELS``, or an integer has more digits than Python
            converts.
    """
    return _read(text, None)


def _read(text: str | bytes, members: Callable[[list[tuple[str, Any]]], Any] | None) -> Any:
    value = loads(text, parse_float=read_float, parse_constant=refuse_constant, object_pairs_hook=members)
    level = _open([value])
    for _ in range(MOST_LEVELS):
        if not level:
            return value
        level = _open(inner for one in level for inner in (one.values() if isinstance(one, dict) else one))
    if level:
        raise ValueError(f"it is nested deeper than {MOST_LEVELS} levels; flatten it")
    return value


def _open(values: Iterable[Any]) -> list[Any]:
    """Those that are arrays and objects."""
    return [value for value in values if isinstance(value, dict | list)]


def line_of(value: Any) -> bytes:
    """A value as a line of JSON."""
    try:
        return json_text(value).encode() + b"\n"
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can spell and UTF-8 cannot
        return json_text(value, ascii_only=True).encode() + b"\n"
