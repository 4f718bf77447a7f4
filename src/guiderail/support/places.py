"""The place of a limit error, added by whoever knows the text that was being read."""

from __future__ import annotations

from guiderail.errors import LimitError

__all__ = ["in_text"]


def in_text(error: LimitError, source: str, span: tuple[int, int] | None = None) -> LimitError:
    """The error with a place in a text, by default the whole text; as it is if it has a place already."""
    if error.source is not None or type(error) is not LimitError:
        return error
    whole = (0, max(1, len(source))) if span is None else span
    return LimitError(error.message, code=error.code, source=source, span=whole)
