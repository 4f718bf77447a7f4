"""How texts are read: from what a model wrote to a value.

Every constraint has a :class:`Reading`. For most of them, a text is its own value. Front ends that describe values
(schemas, types, tools, documents) override :meth:`Constraint.reading`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

__all__ = ["TEXT", "Partial", "Reading", "Unfinished"]


class Partial(Protocol):
    """A value that grows with its text."""

    def feed(self, chunk: str) -> None: ...
    def snapshot(self) -> Any: ...  # the value so far; None if there is none
    @property
    def finished(self) -> list[str]: ...  # JSON pointers of what the last feed finished
    @property
    def path(self) -> str | None: ...  # JSON pointer of the value being written
    @property
    def is_complete(self) -> bool: ...


class Reading(Protocol):
    """How a text is read."""

    @property
    def is_text(self) -> bool: ...  # the value is the text itself
    @property
    def bounds(self) -> str: ...  # what bounds the text, for a message about one that became too long
    def read(self, text: str) -> Any: ...  # the value of a finished text
    def partial(self, *, growing_strings: bool) -> Partial: ...


class Unfinished:
    """Shows nothing before the text is finished, or (``as_text``) the text itself."""

    finished: list[str] = []  # noqa: RUF012 - never filled
    path: str | None = ""
    is_complete = False

    def __init__(self, *, as_text: bool = False) -> None:
        self._as_text = as_text
        self._parts: list[str] = []

    def feed(self, chunk: str) -> None:
        self._parts.append(chunk)

    def snapshot(self) -> str | None:
        return "".join(self._parts) if self._as_text else None


@dataclass(frozen=True, slots=True)
class _TextReading:
    """A text is its own value."""

    is_text = True
    bounds = "max_length"

    def read(self, text: str) -> str:
        return text

    def partial(self, *, growing_strings: bool) -> Partial:
        return Unfinished(as_text=True)


TEXT: Reading = _TextReading()
