"""A location in a text and in its constraint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["Place"]


@dataclass(frozen=True, slots=True)
class Place:
    """A location in a text and in its constraint. What does not apply, or is not known, is None or empty.

    Attributes:
        instance: JSON pointer (RFC 6901) of the current value, in the document that is being written.
        role: what comes next there, in words.
        schema: the parts of the JSON Schema that apply to it: URI fragments with JSON pointers.
        possible: the same, for alternatives that the text so far leaves open.
        spans: half-open spans of the pattern that may read the next character.
        rules: for each grammar rule that may read the next character, the open rules, from the outside in.
        terminals: for a grammar with a lexer: the terminals that the current lexeme may be or become, or that may
            begin; a final ``"…"`` stands for more.
        inside: whether such a lexeme has begun.
        rest: what remains to be written, in the notation of :meth:`Guide.dump` with the grammar's own names.
    """

    instance: str | None = None
    role: str = ""
    schema: tuple[str, ...] = ()
    possible: tuple[str, ...] = ()
    spans: tuple[tuple[int, int], ...] = ()
    rules: tuple[tuple[str, ...], ...] = ()
    terminals: tuple[str, ...] = ()
    inside: bool = False
    rest: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Returns the attributes that are not empty, as plain data."""
        values = {name: getattr(self, name) for name in self.__slots__}
        return {name: value for name, value in values.items() if value or (name == "instance" and value is not None)}
