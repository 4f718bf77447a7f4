"""Texts that are complete when the tokens of a request are spent, in engines that draw the tokens themselves.

Such an engine fills a mask and draws; it cannot be asked to draw again, as :mod:`guiderail.decoding` does. So towards
the end the masks are those with a budget. They cost more, and are not made before the end is near.
"""

from __future__ import annotations

from typing import Any

from guiderail.errors import LimitError
from guiderail.matcher import Matcher

__all__ = ["Finish"]

_SLACK = 24  # tokens that are left, beside a quarter more than are needed, when masks begin to lead to the end
_FAR = 64  # tokens that are left, beside twice those needed at the start, before what is needed is looked at
_UNKNOWN = 3  # states of which no end is found, before it is given up to look for one


class Finish:
    """Leads one text to its end.

    What is promised by masks with a budget is tried here: a token that is drawn from a mask without one, while the end
    is far, may make more tokens necessary than there are. Of 15,000 tokens of MaskBench's texts one in a thousand made
    more than 16 more necessary, and the worst 61.

    Args:
        matcher: at the start of the text.
        most: tokens that the text may have, with the one that ends it.
    """

    __slots__ = ("_most", "_near", "_unknown")

    def __init__(self, matcher: Matcher, most: int) -> None:
        needed = matcher.least_tokens(thorough=False)
        self._most = most
        self._near = 0 if needed is None else 2 * needed + _FAR
        self._unknown = 0

    def fill(self, matcher: Matcher, written: int, bitmask: Any, row: int) -> None:
        """Fills a row with the tokens that may come; near the end, after which the text can be completed.

        Where it can be completed no more, or no way is found, the row is that of any token that may come.

        Args:
            matcher: of the text.
            written: tokens that the request has spent.
        """
        left = self._most - written
        if 0 < left <= self._near and self._tight(matcher, left):
            for budget in (left - 1, left):  # with a token for the end, or else the text alone
                try:
                    matcher.fill_next_token_bitmask(bitmask, row, budget)
                except LimitError:
                    continue
                return
        matcher.fill_next_token_bitmask(bitmask, row)

    def _tight(self, matcher: Matcher, left: int) -> bool:
        if self._unknown == _UNKNOWN:
            return False
        needed = matcher.least_tokens(thorough=False)
        if needed is None:
            self._unknown += 1
            return False
        return left <= needed + needed // 4 + _SLACK
