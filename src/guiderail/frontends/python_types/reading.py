"""Strings of a Python type as values of the type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from guiderail.constraints.reading import Partial, Unfinished

if TYPE_CHECKING:
    from guiderail.frontends.python_types.constraint import PythonType

__all__ = ["TypeReading"]


@dataclass(frozen=True, slots=True)
class TypeReading:
    """Reads a value of a Python type."""

    type: PythonType[Any]
    is_text = False
    bounds = "max_length, ge, le"

    def read(self, text: str) -> Any:
        return self.type.read(text)

    def partial(self, *, growing_strings: bool) -> Partial:
        from guiderail.frontends.python_types.partial import partial_of

        return partial_of(self.type, growing_strings=growing_strings) or Unfinished()
