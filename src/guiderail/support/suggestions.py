"""What to do about an unknown name: the known one that it resembles, or all of them."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

__all__ = ["resembling", "suggestion"]

_LONGEST = 100  # characters of a name that is compared


def resembling(name: object, known: Iterable[str]) -> str | None:
    """The known name that looks like the one that was meant, whatever its case."""
    by_lower = {one.lower(): one for one in known}
    text = str(name).lower()
    close = get_close_matches(text, by_lower, 1) if len(text) <= _LONGEST else []
    return by_lower[close[0]] if close else None


def suggestion(name: object, known: Iterable[str]) -> str:
    """The end of the message about an unknown name.

    >>> suggestion("hermess", ["hermes", "llama3"])
    "did you mean 'hermes'?"
    >>> suggestion("x", ["hermes", "llama3"])
    'there are hermes, llama3'
    """
    known = list(known)
    near = resembling(name, known)
    return f"there are {', '.join(known)}" if near is None else f"did you mean {near!r}?"
