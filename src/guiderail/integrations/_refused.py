"""A text that can be written no further because a limit was met: its request ends, and no other one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from guiderail.errors import LimitError

__all__ = ["Refused"]


class Refused:
    """Where a text met a limit. The engine gets a mask of the tokens that end it, and the next token is refused."""

    __slots__ = ("_at", "error")

    def __init__(self) -> None:
        self.error: LimitError | None = None
        self._at = 0

    def meet(self, error: LimitError, at: int, stops: Sequence[int], row: Any) -> None:
        """Notes a limit.

        Args:
            error: what was met.
            at: tokens that the text has there.
            stops: tokens that end it.
            row: of a bitmask, as an array; it allows those alone.
        """
        if self.error is None or at < self._at:
            self.error, self._at = error, at
        row[:] = 0
        for token in stops:
            row[token // 32] |= 1 << token % 32 if token % 32 < 31 else -(1 << 31)

    def back(self, at: int) -> None:
        """The text has so many tokens again: those of a draft were taken back."""
        if at < self._at:
            self.error = None
