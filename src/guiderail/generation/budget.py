"""Completes texts within their token budget: how many tokens are needed, and which tokens leave enough.

The sampler can be asked to sample again (:mod:`guiderail.generation.row`). Then the mask without a budget suffices, and
:meth:`Matcher.accept_within` says whether a token leaves enough. An engine that samples by itself gets masks that
include the budget, :class:`BudgetedMasks`.
"""

from __future__ import annotations

from typing import Any

from guiderail.errors import LimitError
from guiderail.matching.matcher import Matcher

__all__ = ["BudgetedMasks", "check_budget", "least_tokens"]

_FAR = 1024  # remaining tokens, plus four times the initial minimum: with more, masks ignore the budget
_UNKNOWN = 3  # states without a known end after which the search for one stops


def least_tokens(matcher: Matcher, limit: int | None = None) -> int | None:
    """How many tokens complete a text, see :meth:`Matcher.least_tokens`; None also if the search reaches a limit.

    Args:
        limit: search thoroughly if a quick search finds no way within this many tokens; None: quick search only.
    """
    try:
        needed = matcher.least_tokens(thorough=False)
        if limit is not None and (needed is None or needed > limit):
            needed = matcher.least_tokens()
    except LimitError:
        return None
    return needed


def check_budget(needed: int | None, limit: int, *, way_out: str, which: str = "") -> None:
    """Raises an error if a text cannot be promised to be complete within the limit.

    Args:
        needed: number of tokens that complete it; None: no way was found.
        limit: maximum number of tokens.
        way_out: how to do without the promise.
        which: names the text in the message, if there are several.

    Raises:
        LimitError: ``budget-too-small``, ``budget-unknown``.
    """
    if needed is None:
        raise LimitError(
            f"no way to complete the text{which} was found, so guiderail cannot promise to complete it "
            f"within {limit} tokens; bound the constraint, or {way_out}",
            code="budget-unknown",
        )
    if needed > limit:
        raise LimitError(
            f"the text{which} needs {needed} tokens, but it may have no more than {limit}; allow at least {needed} "
            f"(and shorten the prompt, if the model's context is full), bound the constraint, or {way_out}",
            code="budget-too-small",
        )


class BudgetedMasks:
    """Masks for an engine that samples by itself, such that the text is complete in time.

    Masks with a budget cost more than those without, so they are not made while many tokens are left. A text is
    complete in time if its tokens suffice at the point where masks begin to have a budget, which is usually the start.
    If no way to complete it is found then, its masks have no budget.

    Args:
        matcher: a matcher at the start of the text.
        most: maximum number of tokens of the text, including the one that ends it.
    """

    __slots__ = ("_most", "_near", "_thorough", "_unknown")

    def __init__(self, matcher: Matcher, most: int) -> None:
        needed = least_tokens(matcher)
        self._most = most
        self._near = _FAR if needed is None else _FAR + 4 * needed
        self._thorough = True  # whether one thorough, slow search for an end is still allowed
        self._unknown = 0

    def is_far(self, written: int) -> bool:
        """Whether enough tokens are left that masks need no budget yet.

        Args:
            written: number of tokens that the request has spent.
        """
        return self._most - written > self._near

    def fill(self, matcher: Matcher, written: int, bitmask: Any, row: int) -> None:
        """Fills a row with the allowed tokens after which the text can be completed.

        If it can no longer be completed, or no way is found, the row has all allowed tokens.

        Args:
            matcher: the matcher of the text.
            written: number of tokens that the request has spent.
        """
        left = self._most - written
        if 0 < left <= self._near:
            for budget in self._budgets(matcher, left):
                try:
                    matcher.fill_next_token_bitmask(bitmask, row, budget)
                except LimitError:
                    continue
                return
        matcher.fill_next_token_bitmask(bitmask, row)

    def _budgets(self, matcher: Matcher, left: int) -> tuple[int, ...]:
        """Budgets to try: with a token for the end, or else the text alone."""
        if self._unknown == _UNKNOWN:
            return ()
        needed = least_tokens(matcher)
        if needed is None:
            self._unknown += 1
            return ()
        if needed < left:
            return (left - 1,)
        if needed == left:
            return (left,)
        if self._thorough and needed <= left + left // 4 + 1:  # a shorter way may be found
            self._thorough = False
            return (left - 1, left)
        return ()
