"""Turns what a user may request into a constraint."""

from __future__ import annotations

from typing import Any

from guiderail.constraints.constraint import Constraint
from guiderail.errors import CompileError
from guiderail.frontends.given import written_by_model
from guiderail.matching.guide import Guide
from guiderail.matching.matcher import Matcher

__all__ = ["as_constraint", "uncompiled"]


def as_constraint(target: Any) -> Constraint | Guide:
    """The constraint for what a user wants written: a compiled :class:`Guide`, or the result of ``constraint_of``.

    Options of schemas that were left open are decided: see :meth:`Constraint.as_written`.

    Raises:
        CompileError: ``not-a-constraint``: it is none of these; or the schema or the type is rejected.
    """
    if isinstance(target, Matcher):
        raise CompileError("a matcher follows one text; pass its guide, matcher.guide", code="not-a-constraint")
    return target if isinstance(target, Guide) else written_by_model(target)


def uncompiled(target: Any) -> Any:
    """The constraint of a compiled guide; any other target as it is."""
    return target.constraint if isinstance(target, Guide) else target
