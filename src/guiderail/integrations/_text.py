"""One text of an engine that samples by itself: it gets masks and reports the tokens it sampled.

If an error leaves its backend, an engine ends with all its requests. So a text that reaches a limit of the core gets a
mask with only stop tokens, its next token is rejected, and no other text is affected.
"""

from __future__ import annotations

from typing import Any

from guiderail.errors import LimitError
from guiderail.generation.budget import BudgetedMasks
from guiderail.integrations._rows import set_bits
from guiderail.matching.matcher import Matcher

__all__ = ["EngineText"]


class EngineText:
    """The state of a text.

    Args:
        matcher: a matcher at the start of the text.
        most: maximum number of tokens of the text, including the one that ends it, so that it is complete by then;
            None: unknown, or the text need not be complete.

    Attributes:
        matcher: the matcher; may be replaced by a fork of it.
        error: the limit that the text has reached, or None.
    """

    __slots__ = ("_at", "_budget", "_size", "error", "matcher")

    def __init__(self, matcher: Matcher, most: int | None = None) -> None:
        self.matcher = matcher
        self.error: LimitError | None = None
        self._at = 0  # tokens that the text had there
        self._budget = None if most is None else BudgetedMasks(matcher, most)
        self._size = matcher.guide.vocabulary.size

    def read(self, token: int) -> bool:
        """Reads a token; returns False if it is not allowed. Tokens after the end of the text do not count.

        Raises:
            LimitError: the text has reached a limit, now or when its mask was filled.
        """
        if self.matcher.is_terminated():
            return True
        if self.error is not None:
            raise self.error
        return 0 <= token < self._size and self.matcher.accept_token(token)

    def rollback(self, count: int) -> None:
        """Undoes the last tokens, such as those of a draft, and a limit that was reached in them."""
        self.matcher.rollback(count)
        if self.matcher.step_count < self._at:
            self.error = None

    def reset(self) -> None:
        """Returns to the start of the text."""
        self.matcher.reset()
        self.error = None

    def is_plain(self, before: int = 0) -> bool:
        """Whether :meth:`fill` would write just the mask of the matcher.

        Args:
            before: tokens that the request spent before the text.
        """
        return self._budget is None or self._budget.is_far(before + self.matcher.step_count)

    def fill(self, bitmask: Any, index: int, before: int = 0, at: Matcher | None = None) -> bool:
        """Writes the mask; near the end of the token budget, only tokens that lead to the end of the text.

        Args:
            bitmask: a CPU tensor, int32.
            index: the row.
            before: tokens that the request spent before the text.
            at: a fork of the matcher at the position to fill for; by default the current one.

        Returns:
            False if a limit was reached: the mask then has only stop tokens.
        """
        matcher = self.matcher if at is None else at
        try:
            if self._budget is None:
                matcher.fill_next_token_bitmask(bitmask, index)
            else:
                self._budget.fill(matcher, before + matcher.step_count, bitmask, index)
        except LimitError as error:
            here = matcher.step_count == self.matcher.step_count  # or a token of a draft, which may not be accepted
            if here and (self.error is None or matcher.step_count < self._at):
                self.error, self._at = error, matcher.step_count
            row = bitmask[index].numpy()
            row[:] = 0
            set_bits(row, matcher.stop_token_ids(), allowed=True)
            return False
        return True
