"""The place of a limit error in a constraint: in what the user wrote, or else in the constraint as Python writes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from guiderail.errors import GuiderailError, LimitError
from guiderail.support.places import in_text, is_placed

if TYPE_CHECKING:
    from guiderail.constraints.constraint import Constraint

__all__ = ["in_python", "placing"]


class placing:
    """Inside a ``with`` block, limit errors of compiling a constraint get a place.

    Raises:
        LimitError: as inside, with the place.
    """

    __slots__ = ("_constraint",)

    def __init__(self, constraint: Constraint) -> None:
        self._constraint = constraint

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, LimitError):
            placed = self._constraint._placed(error)
            if not is_placed(placed):
                placed = in_python(placed, self._constraint)
            if placed is not error:
                raise placed from None


def in_python(error: LimitError, constraint: Constraint, prefix: str = "") -> LimitError:
    """The error with its place in a constraint as Python writes it: the part that was being lowered."""
    part = getattr(error, "part", constraint)
    try:
        whole, written = repr(constraint), repr(part)
    except (GuiderailError, ValueError):  # nested too deep to be written
        return error
    begin = whole.find(written)
    if begin < 0:  # left out of the whole, which is long
        whole, begin = written, 0
    begin += len(prefix)
    return in_text(error, prefix + whole, (begin, begin + len(written)))
