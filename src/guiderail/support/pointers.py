"""JSON pointers (RFC 6901): written, read, and followed through dicts and lists."""

from __future__ import annotations

import re
from typing import Any, Final
from urllib.parse import unquote

__all__ = ["Places", "extended", "followed", "inside", "steps", "unescaped"]

_INDEX: Final = re.compile("0|[1-9][0-9]{0,17}")  # no list is longer, and int() refuses thousands of digits


def extended(pointer: str, *steps: str | int) -> str:
    """The pointer, continued by keys and indexes.

    >>> extended("#/properties", "a/b", 0)
    '#/properties/a~1b/0'
    """
    return "/".join([pointer, *[str(step).replace("~", "~0").replace("/", "~1") for step in steps]])


def unescaped(step: str) -> str:
    """The key or index that one step of a JSON pointer spells."""
    return step.replace("~1", "/").replace("~0", "~")


def steps(fragment: str) -> list[str]:
    """The keys and indexes of a JSON pointer in a URI fragment, given without its ``#``.

    >>> steps("/a~1b/0")
    ['a/b', '0']
    """
    path = unquote(fragment) if "%" in fragment else fragment
    return [unescaped(step) for step in path.split("/")[1:]]


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


class Places:
    """Where the dicts and lists of a document stand. It is searched once, when something is first looked for."""

    __slots__ = ("_document", "_found")

    def __init__(self, document: Any) -> None:
        self._document = document
        self._found: dict[int, tuple[int, str | int]] | None = None  # by identity: what each is in, and the step to it

    def of(self, target: object) -> str | None:
        """The pointer to a dict or list, as a URI fragment; None if it is not in the document."""
        if self._found is None:
            self._found = self._search()
        path: list[str | int] = []
        at = id(target)
        while at != id(self._document):
            place = self._found.get(at)
            if place is None:
                return None
            at, step = place
            path.append(step)
        return extended("#", *reversed(path))

    def _search(self) -> dict[int, tuple[int, str | int]]:
        found: dict[int, tuple[int, str | int]] = {}
        waiting = [self._document]
        for value in waiting:
            pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
            for step, part in pairs:
                if isinstance(part, dict | list) and id(part) not in found:
                    found[id(part)] = id(value), step
                    waiting.append(part)
        return found
