"""An intersection as a model writes it.

Only one part decides how the text is written: two schemas may have their properties in different orders, and a pattern
may leave no room for the usual spaces. So the first part with open options takes its usual form, and the others stay as
they are. If they rule that form out, nothing is decided.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from guiderail import _core
from guiderail.constraints.constraint import _AS_WRITTEN, AllOf, Constraint, _Composed
from guiderail.constraints.sharing import each, lowered

__all__ = ["Preferred", "intersection_as_written"]


@dataclass(frozen=True, slots=True)
class Preferred(_Composed):
    """Matches ``usual``, which is narrower than ``whole``; or ``whole``, if no text matches ``usual``."""

    whole: Constraint
    usual: Constraint

    def _lower(self, b: _core.Builder) -> int:
        usual = lowered((self.usual,), b)[0]
        return lowered((self.whole,), b)[0] if b.is_empty(usual) else usual

    def as_written(self) -> Preferred:
        return self

    def __repr__(self) -> str:
        return repr(self.usual)


def intersection_as_written(made: AllOf) -> Constraint:
    """Returns an intersection with its first part that leaves something open as a model writes it."""
    for at, part in enumerate(made.parts):
        written = each((part,), _AS_WRITTEN, _AS_WRITTEN)[0]
        if written is not part and written != part:
            return Preferred(made, replace(made, parts=(*made.parts[:at], written, *made.parts[at + 1 :])))
    return made
