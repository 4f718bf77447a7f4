"""The source of a request's constraint as plain data: a cache key, and enough for another process to build it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from guiderail.constraints.constraint import Constraint, any_text

if TYPE_CHECKING:
    from guiderail.server.constraints import Ask
    from guiderail.server.reasoning import Thinking
    from guiderail.server.tools import ToolPlan, ToolSet
    from guiderail.vocabulary import Vocabulary

__all__ = ["Recipe"]


@dataclass(frozen=True, slots=True)
class Recipe:
    """The source of a constraint.

    Attributes:
        ask: the constraint on text without tool calls; None: any text.
        tools: the tools that may be called.
        thinking: the reasoning before it, or None.
    """

    ask: Ask | None
    tools: ToolSet | None = None
    thinking: Thinking | None = None

    @property
    def is_free(self) -> bool:
        """Whether the request has no constraint."""
        return self.ask is None and self.tools is None and self.thinking is None

    def build(self, vocabulary: Vocabulary) -> tuple[ToolPlan | None, Constraint]:
        """Returns the plan for reading texts, if tools may be called, and the constraint. May take long.

        Raises:
            ApiError, GuiderailError: it cannot be built.
        """
        from guiderail.server.tools import ToolPlan

        text = None if self.ask is None else self.ask.constraint(vocabulary)
        if self.tools is None and self.thinking is None:
            return None, any_text() if text is None else text
        plan = ToolPlan(self.tools, text, vocabulary, self.thinking)
        return plan, plan.constraint
