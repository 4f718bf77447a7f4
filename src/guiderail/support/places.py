"""The place of an error, added by whoever knows the text that was being read."""

from __future__ import annotations

from copy import copy

from guiderail.errors import CompileError, GuiderailError, LimitError, PatternError

__all__ = ["in_text", "is_placed", "relocated"]


def is_placed(error: LimitError) -> bool:
    """Whether an error has a place: in a text, or in a schema by a pointer or path."""
    return error.source is not None or type(error) is not LimitError


def in_text(error: LimitError, source: str, span: tuple[int, int] | None = None) -> LimitError:
    """The error with a place in a text, by default the whole text; as it is if it has a place already."""
    if is_placed(error):
        return error
    whole = (0, max(1, len(source))) if span is None else span
    return LimitError(error.message, code=error.code, source=source, span=whole)


def relocated(
    error: GuiderailError, words: str, *, source: str | None = None, span: tuple[int, int] | None = None
) -> GuiderailError:
    """The error of a part that a text embeds: of the same kind, with words in front and its place in that text.

    The error of an embedded schema keeps its pointer.
    """
    if getattr(error, "pointer", None) is not None:
        moved = copy(error)
        moved.source, moved.span = source, span
        return moved
    kinds: tuple[type[GuiderailError], ...] = (LimitError, CompileError)
    kind = next((one for one in kinds if isinstance(error, one)), PatternError)
    return kind(f"{words}{error.message}", code=error.code, source=source, span=span)
