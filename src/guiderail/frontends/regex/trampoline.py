"""Recursion over trees without Python recursion: deep patterns cannot exhaust the stack."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from guiderail.support.work import spend

__all__ = ["run"]

_CALL = 10  # steps that a call takes, with what it does to its node


def run(steps: Generator[Any, Any, Any]) -> Any:
    """Runs a generator that yields generators (its recursive calls), and sends back what these return."""
    stack = [steps]
    value: Any = None
    while True:
        spend(_CALL)
        try:
            call = stack[-1].send(value)
        except StopIteration as done:
            stack.pop()
            value = done.value
            if not stack:
                return value
        else:
            stack.append(call)
            value = None
