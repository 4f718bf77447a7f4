"""``LLExecutor``: many matchers at once, in one native call."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from guiderail.compat._errors import CompatTypeError, CompatValueError, integer, integers
from guiderail.compat.llguidance._matcher import LLMatcher, check_matcher, check_place, fill_draft, target
from guiderail.errors import LimitError
from guiderail.matching.matcher import fill_next_token_bitmasks
from guiderail.support.arguments import checked_methods
from guiderail.support.texts import shown

__all__ = ["LLExecutor"]


@checked_methods
class LLExecutor:
    """Fills the masks of many matchers on several threads.

    Args:
        num_threads: maximum number of threads; None or 0: four fifths of the cores, at most 32.
    """

    def __init__(self, num_threads: int | None = None) -> None:
        if num_threads is not None and integer("num_threads", num_threads) < 0:
            raise CompatValueError(f"num_threads must be 0 or more, not {shown(num_threads)}")
        self._threads = num_threads or max(1, min(32, (os.cpu_count() or 1) * 4 // 5))

    def unsafe_compute_mask_ptr(
        self, interpreters: Sequence[tuple[LLMatcher, int]], trg_ptr: int, one_mask_bytes: int, trg_batch_size: int
    ) -> None:
        """Writes the masks of many matchers to memory.

        Args:
            interpreters: pairs of a matcher and the index of its mask.
            trg_ptr: the address of the first mask.
            one_mask_bytes: the size of a mask in bytes.
            trg_batch_size: the number of masks that there is room for.

        Raises:
            ValueError: an index is out of range, or a mask is too small.
        """
        whole = target(trg_ptr, one_mask_bytes, trg_batch_size)
        interpreters = _tuples(interpreters, 2)
        for matcher, place in interpreters:
            check_place(matcher, place, trg_batch_size, one_mask_bytes)
        running, rows, left = [], [], []
        for matcher, place in interpreters:
            inner = matcher.matcher
            if inner is None or matcher.is_error() or inner.is_terminated():
                left.append((matcher, place))
            else:
                running.append(inner)
                rows.append(place)
        try:
            if running:
                fill_next_token_bitmasks(running, whole, rows=rows, threads=self._threads)
        except LimitError:  # an error of one matcher: call each separately, so that the others continue
            left = list(interpreters)
        for matcher, place in left:
            matcher._fill(whole[place])

    def unsafe_compute_mask_ptr_with_draft_token(
        self,
        interpreters: Sequence[tuple[LLMatcher, int, Sequence[int]]],
        trg_ptr: int,
        one_mask_bytes: int,
        trg_batch_size: int,
    ) -> None:
        """Like :meth:`unsafe_compute_mask_ptr`, for ``(matcher, index, draft)``; the masks after each token of the
        draft follow.

        After a token that is not allowed, or after the end of the text, the remaining masks stay as they are.

        Raises:
            ValueError: an index is out of range, or a mask is too small.
        """
        asked = [(one, place, integers("a draft", draft)) for one, place, draft in _tuples(interpreters, 3)]
        for matcher, place, draft in asked:
            check_place(matcher, place, trg_batch_size, one_mask_bytes)
            check_place(matcher, place + len(draft), trg_batch_size, one_mask_bytes)
        for matcher, place, draft in asked:
            fill_draft(matcher, place, draft, trg_ptr, one_mask_bytes, trg_batch_size)

    def consume_token_par(self, matchers_and_tokens: Sequence[tuple[LLMatcher, int]]) -> list[bool]:
        """Reads one token with each ``(matcher, token)`` and returns which were allowed. The others are in an error
        state.
        """
        asked = _tuples(matchers_and_tokens, 2)
        tokens = integers("tokens", [token for _, token in asked])  # before any of them is read
        for matcher, _ in asked:
            check_matcher(matcher)
        return [matcher.consume_token(token) for (matcher, _), token in zip(asked, tokens, strict=True)]


def _tuples(given: Any, length: int) -> list[Any]:
    """The items of a list, each a tuple of this length.

    Raises:
        CompatTypeError, CompatValueError: it is something else.
    """
    if isinstance(given, str | bytes) or not hasattr(given, "__iter__"):
        raise CompatTypeError(f"expected a list of tuples, not {shown(given)}")
    found = list(given)
    for one in found:
        if not isinstance(one, tuple | list):
            raise CompatTypeError(f"expected a tuple that begins with an LLMatcher, not {shown(one)}")
        if len(one) != length:
            raise CompatValueError(f"expected tuples of {length}, not of {len(one)}", code="compat-batch")
    return found
