"""Whose code a warning is about."""

from __future__ import annotations

import sys

__all__ = ["outside"]


def outside() -> int:
    """The ``stacklevel`` of the code that called guiderail, for a warning."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("guiderail."):
        frame, level = frame.f_back, level + 1
    return level
