"""Finds the value of a JSON pointer in a JSON text."""

from __future__ import annotations

import json
import re
from urllib.parse import unquote

__all__ = ["span_of"]

_TOKEN = re.compile(r'\s*("(?:[^"\\]|\\.)*"|[\[\]{},:]|[^\s\[\]{},:"]+)')


def span_of(text: str, fragment: str) -> tuple[int, int] | None:
    """Returns the half-open span of the value that a fragment (``#/properties/a``) points to, or None.

    >>> span_of('{"a": [1, 22]}', "#/a/1")
    (10, 12)
    """
    if not fragment.startswith("#"):
        return None
    steps = [unquote(one).replace("~1", "/").replace("~0", "~") for one in fragment[1:].split("/")[1:]]
    found: tuple[int, int] | None = None
    stack: list[list[str | int | None]] = []  # for each open value: its kind, and the step to the current value
    starts: list[int] = []

    def begin(at: int) -> None:
        starts.append(at)

    def end(at: int) -> None:
        nonlocal found
        start = starts.pop()
        if found is None and [one[1] for one in stack] == _like(steps, stack):
            found = start, at

    key = False
    for token in _TOKEN.finditer(text):
        what, (at, after) = token[1], token.span(1)
        if what in "]}":
            stack.pop()
            end(after)
            key = False
        elif what == ",":
            top = stack[-1]
            key = top[0] == "{"
            if isinstance(top[1], int):
                top[1] += 1
        elif what == ":":
            key = False
        elif key and stack and stack[-1][0] == "{":
            stack[-1][1] = json.loads(what)
        else:
            begin(at)
            if what in "[{":
                stack.append([what, 0 if what == "[" else None])
                key = what == "{"
            else:
                end(after)
    return found


def _like(steps: list[str], stack: list[list[str | int | None]]) -> list[str | int | None]:
    """Returns the steps in the form of the stack, with numbers for lists."""
    if len(steps) != len(stack):
        return [None, "no such place"]
    return [int(step) if one[0] == "[" and step.isdecimal() else step for step, one in zip(steps, stack, strict=True)]
