"""What may be asked for, as a constraint."""

from __future__ import annotations

from typing import Any

from guiderail.constraints.constraint import Constraint
from guiderail.frontends.given import written_by_model
from guiderail.matching.guide import Guide

__all__ = ["as_constraint"]


def as_constraint(target: Any) -> Constraint | Guide:
    """What a user asks a model to write: a compiled :class:`Guide`, or what ``constraint_of`` takes.

    What options of schemas leave open is decided: see :meth:`Constraint.as_written`.

    Raises:
        CompileError: ``not-a-constraint``: it is none of these; or the schema or the type is refused.
    """
    return target if isinstance(target, Guide) else written_by_model(target)
