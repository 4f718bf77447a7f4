"""Errors about structural tags, tools and formats, with their location."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from guiderail.errors import GuiderailError, LimitError, PatternError
from guiderail.frontends.json_schema.errors import AtPointer, SchemaLimitError

__all__ = ["ToolError", "ToolTextError", "ToolWarning", "named", "of_tool", "placed"]


class ToolError(AtPointer, ValueError):
    """A structural tag, a tool or a tool-call format cannot be read or used.

    Attributes:
        pointer: JSON pointer (as a URI fragment, ``#/format/tags/0``) of the part at fault, or None.
    """

    code = "tool"


class ToolTextError(PatternError):
    """A text is not in the tool-call format that it is read as; ``span`` says where."""

    code = "tool-text"


class ToolWarning(UserWarning):
    """A tool was left out because it cannot be used; the message says why."""


def named(error: GuiderailError, name: str) -> GuiderailError:
    """The error with the tool that is at fault."""
    if isinstance(error, LimitError):
        return of_tool(error, name)
    where = f"{name} (counted from 0)" if re.fullmatch(r"tool \d+", name) else f"the tool {name!r}"
    return ToolError(f"{where}: {error.message}", code=error.code, source=error.source, span=error.span)


def of_tool(error: LimitError, name: str) -> LimitError:
    """The error with the tool whose arguments are at fault."""
    said = f"the tool {name!r}: {error.reason}"
    pointer = getattr(error, "pointer", None)
    if pointer is not None:
        return SchemaLimitError(said, code=error.code, pointer=pointer, source=error.source, span=error.span)
    return LimitError(said, code=error.code, source=error.source, span=error.span)


@contextmanager
def placed(pointer: str) -> Iterator[None]:
    """Adds the location in a structural tag to an error of another front end, which keeps its code."""
    try:
        yield
    except ToolError:
        raise
    except GuiderailError as error:
        inner = getattr(error, "pointer", None)  # of a schema: continues from here
        if isinstance(inner, str) and inner.startswith("#"):
            pointer += inner[1:]
        kind = SchemaLimitError if isinstance(error, LimitError) else ToolError
        raise kind(error.reason, code=error.code, pointer=pointer, source=error.source, span=error.span) from error
