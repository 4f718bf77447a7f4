"""Strings with tool calls as values: reasoning, content and calls."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from guiderail.constraints.reading import Partial

if TYPE_CHECKING:
    from guiderail.frontends.tools.reader import ToolText
    from guiderail.frontends.tools.tool_calls import ToolCalls

__all__ = ["CallsReading"]


class _GrowingCalls:
    """The content and the calls so far. Without growing strings, calls appear when they are complete."""

    finished: list[str] = []  # noqa: RUF012 - calls have no place in a document
    path: str | None = None
    is_complete = True  # the text ends when its pieces end

    def __init__(self, calls: ToolCalls, growing: bool) -> None:
        self._reader, self._growing = calls.reader(), growing

    def feed(self, chunk: str) -> None:
        self._reader.feed(chunk)

    def snapshot(self) -> ToolText:
        found = self._reader.snapshot()
        # The reader continues to write into the last one.
        found.calls = [replace(call) for call in found.calls if call.complete or self._growing]
        return found


@dataclass(frozen=True, slots=True)
class CallsReading:
    """Reads reasoning, content and tool calls."""

    calls: ToolCalls
    is_text = False
    bounds = "parallel=False, or maxLength and maxItems in a tool's schema"

    def read(self, text: str) -> ToolText:
        return self.calls.parse(text)

    def partial(self, *, growing_strings: bool) -> Partial:
        return _GrowingCalls(self.calls, growing_strings)
