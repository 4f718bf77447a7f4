"""JSON pointers (RFC 6901), followed through dicts and lists."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote

__all__ = ["followed", "inside", "steps"]

_INDEX = re.compile("0|[1-9][0-9]{0,17}")  # no list is longer, and int() refuses thousands of digits


def steps(fragment: str) -> list[str]:
    """The keys and indexes of a JSON pointer in a URI fragment, given without its ``#``.

    >>> steps("/a~1b/0")
    ['a/b', '0']
    """
    path = unquote(fragment) if "%" in fragment else fragment
    return [step.replace("~1", "/").replace("~0", "~") if "~" in step else step for step in path.split("/")[1:]]


def inside(value: Any, step: str) -> Any:
    """What one step of a JSON pointer leads to: a member of a dict, an item of a list.

    Raises:
        LookupError: there is nothing; also for an index that the RFC does not allow, as ``00``, ``-1`` and ``٠``.
    """
    if isinstance(value, dict):
        return value[step]
    if isinstance(value, list) and _INDEX.fullmatch(step):
        return value[int(step)]
    raise LookupError(step)


def followed(value: Any, fragment: str) -> Any:
    """What a JSON pointer in a URI fragment, given without its ``#``, leads to.

    Raises:
        LookupError: there is nothing.
    """
    for step in steps(fragment):
        value = inside(value, step)
    return value
