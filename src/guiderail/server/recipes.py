"""What a request wants a constraint of, as plain data: a key of caches, and what another process can build from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from guiderail.constraints.constraint import Constraint, any_text

if TYPE_CHECKING:
    from guiderail.server.constraints import Ask
    from guiderail.server.thinking import Thinking
    from guiderail.server.tools import ToolPlan, ToolSet
    from guiderail.vocabulary import Vocabulary

__all__ = ["Recipe"]


@dataclass(frozen=True, slots=True)
class Recipe:
    """A constraint of a request.

    Attributes:
        ask: what the text must be where no tool is called; None: any text.
        tools: that may be called.
        thinking: that comes before; None: none.
    """

    ask: Ask | None
    tools: ToolSet | None = None
    thinking: Thinking | None = None

    @property
    def is_free(self) -> bool:
        """Whether nothing is requested."""
        return self.ask is None and self.tools is None and self.thinking is None

    def build(self, vocabulary: Vocabulary) -> tuple[ToolPlan | None, Constraint]:
        """How texts are read, where tools may be called, and the constraint; may take long.

        Raises:
            ApiError, GuiderailError: it cannot be built.
        """
        from guiderail.server.tools import ToolPlan

        text = None if self.ask is None else self.ask.constraint(vocabulary)
        if self.tools is None and self.thinking is None:
            return None, any_text() if text is None else text
        plan = ToolPlan(self.tools, text, vocabulary, self.thinking)
        return plan, plan.constraint
