"""One text of an engine that draws by itself: it is given masks, and says which tokens it drew.

An engine ends with all its requests where an error leaves its backend. So a text that meets a limit of the core gets a
mask of the tokens that end it, the next token is refused, and no other text is touched.
"""

from __future__ import annotations

from typing import Any

from guiderail.errors import LimitError
from guiderail.generation.budget import BudgetedMasks
from guiderail.matching.matcher import Matcher

__all__ = ["EngineText"]


class EngineText:
    """Where a text stands.

    Args:
        matcher: at the start of the text.
        most: tokens that the text may have, with the one that ends it, so that it is complete by then; None: unknown,
            or it need not be.

    Attributes:
        matcher: may be replaced by a fork of it.
        error: a limit that the text has met, or None.
    """

    __slots__ = ("_at", "_budget", "_size", "error", "matcher")

    def __init__(self, matcher: Matcher, most: int | None = None) -> None:
        self.matcher = matcher
        self.error: LimitError | None = None
        self._at = 0  # tokens that the text had there
        self._budget = None if most is None else BudgetedMasks(matcher, most)
        self._size = matcher.guide.vocabulary.size

    def read(self, token: int) -> bool:
        """Reads a token; False where it cannot come. Tokens after the end of the text do not count.

        Raises:
            LimitError: the text has met a limit, here or when its mask was filled.
        """
        if self.matcher.is_terminated():
            return True
        if self.error is not None:
            raise self.error
        return 0 <= token < self._size and self.matcher.accept_token(token)

    def rollback(self, count: int) -> None:
        """Undoes the last tokens read: those of a draft, for example, and a limit that was met in it."""
        self.matcher.rollback(count)
        if self.matcher.step_count < self._at:
            self.error = None

    def reset(self) -> None:
        """Back to the start of the text."""
        self.matcher.reset()
        self.error = None

    def is_plain(self, before: int = 0) -> bool:
        """Whether :meth:`fill` would write only the mask of the matcher.

        Args:
            before: tokens that the request spent before the text.
        """
        return self._budget is None or self._budget.is_far(before + self.matcher.step_count)

    def fill(self, bitmask: Any, index: int, before: int = 0, at: Matcher | None = None) -> bool:
        """Writes which tokens may come; near the end of the tokens that it may have, which lead to its end.

        Args:
            bitmask: a CPU tensor, int32.
            index: the row.
            before: tokens that the request spent before the text.
            at: a fork of the matcher, where it stood; by default where it stands.

        Returns:
            False where a limit is met: only tokens that end the text are in the mask then.
        """
        matcher = self.matcher if at is None else at
        try:
            if self._budget is None:
                matcher.fill_next_token_bitmask(bitmask, index)
            else:
                self._budget.fill(matcher, before + matcher.step_count, bitmask, index)
        except LimitError as error:
            here = matcher.step_count == self.matcher.step_count  # or a draft's token, which may not come
            if here and (self.error is None or matcher.step_count < self._at):
                self.error, self._at = error, matcher.step_count
            row = bitmask[index].numpy()
            row[:] = 0
            for token in matcher.stop_token_ids():
                row[token // 32] |= 1 << token % 32 if token % 32 < 31 else -(1 << 31)
            return False
        return True
