"""Texts that are complete when the tokens of a request are spent, in engines that draw the tokens themselves.

Such an engine fills a mask and draws; it cannot be asked to draw again, as :mod:`guiderail.generation.decoding` does.
So its masks are those with a budget. They cost more, and are not made where the request may have many tokens more.
"""

from __future__ import annotations

from typing import Any

from guiderail.errors import LimitError
from guiderail.matching.matcher import Matcher

__all__ = ["Finish"]

_FAR = 1024  # tokens that are left, beside four times those needed at the start: masks are without a budget until then
_UNKNOWN = 3  # states of which no end is found, before it is given up to look for one


class Finish:
    """Leads one text to its end.

    A text is complete in time if its tokens suffice when masks begin to have a budget: at the start, mostly. If no way
    to complete it is found then, it goes on as without.

    Args:
        matcher: at the start of the text.
        most: tokens that the text may have, with the one that ends it.
    """

    __slots__ = ("_most", "_near", "_thorough", "_unknown")

    def __init__(self, matcher: Matcher, most: int) -> None:
        needed = _needed(matcher)
        self._most = most
        self._near = _FAR if needed is None else _FAR + 4 * needed
        self._thorough = True  # a thorough search for an end may be made; one, for it takes long
        self._unknown = 0

    def fill(self, matcher: Matcher, written: int, bitmask: Any, row: int) -> None:
        """Fills a row with the tokens that may come, and after which the text can be completed.

        Where it can be completed no more, or no way is found, the row is that of any token that may come.

        Args:
            matcher: of the text.
            written: tokens that the request has spent.
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
        needed = _needed(matcher)
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


def _needed(matcher: Matcher) -> int | None:
    """How many tokens complete the text; None also where the search meets a limit, which must not stop an engine."""
    try:
        return matcher.least_tokens(thorough=False)
    except LimitError:
        return None
