"""Texts as the core reads them: Python's ``str`` may contain halves of surrogate pairs, UTF-8 may not."""

from __future__ import annotations

import re
from typing import Final

from guiderail.errors import GuiderailError, PatternError

__all__ = ["clipped", "has_surrogate", "shown", "utf8"]

_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")


def has_surrogate(text: str) -> bool:
    """Whether a text contains half of a surrogate pair, and so has no UTF-8 form."""
    return not text.isascii() and _SURROGATE.search(text) is not None


def utf8(text: str) -> bytes:
    """The bytes of a text.

    Raises:
        PatternError: ``lone-surrogate``, with its position.
    """
    try:
        return str.encode(text)  # CPython 3.11 may crash at `text.encode()` if it is given the class `str`
    except UnicodeEncodeError as error:
        half = text[error.start]
        raise PatternError(
            f"a lone surrogate U+{ord(half):04X} is not a character and has no UTF-8 form; remove it",
            code="lone-surrogate",
            source=text,
            span=(error.start, error.start + 1),
        ) from None


def clipped(text: str, most: int) -> str:
    """The text, or its beginning and an ellipsis: at most so many characters."""
    return text if len(text) <= most else text[: most - 1] + "…"


def shown(value: object, most: int = 60) -> str:
    """A value for a message: short, whatever it is."""
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 512:
        return f"a number of {value.bit_length():,} bits"
    try:
        text = repr(value)
    except (RecursionError, ValueError, GuiderailError):
        return f"this {type(value).__name__}"
    return clipped(text, most)
