"""A logits processor for llama-cpp-python.

    >>> from guiderail.integrations.llama_cpp import logits_processor
    >>> only_dates = logits_processor(gr.patterns.date(), llama)
    >>> llama(prompt, logits_processor=llama_cpp.LogitsProcessorList([only_dates]))

It has the documented signature of ``llama_cpp.LogitsProcessor``: ``f(input_ids, scores) -> scores``, for one row. To
run a ``Llama`` object with guiderail's own loop instead, pass it to :func:`guiderail.generate`.

With a ``draft_model``, ``input_ids`` ends with unverified drafts, and the library does not say where they begin. But it
calls once for each token it samples, and follows a draft only as far as it was sampled. So each call adds one verified
token. The processor needs the ``Llama`` object for this.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from guiderail.errors import BitmaskError, MatcherError
from guiderail.integrations._rows import RowState, check_width, fill_rows
from guiderail.integrations._tracker import StateTracker, single_tracker
from guiderail.matching.bitmask import allocate_token_bitmask, apply_token_bitmask_inplace
from guiderail.support.arguments import checked, checked_methods
from guiderail.vocabulary import Vocabulary

__all__ = ["LlamaCppLogitsProcessor", "logits_processor"]


@checked_methods
class LlamaCppLogitsProcessor:
    """Masks logits for llama-cpp-python. Made by :func:`logits_processor`.

    Args:
        tracker: a tracker with one guide.
        drafts: whether the histories end with unverified tokens.
    """

    def __init__(self, tracker: StateTracker, *, drafts: bool = False) -> None:
        self.tracker = tracker
        self._drafts = drafts
        self._row: RowState | None = None  # with drafts: the text in progress,
        self._prompt = 0  # where it begins,
        self._verified = np.empty(0, np.int64)  # and all its tokens so far, with those of the prompt

    def __repr__(self) -> str:
        return f"<LlamaCppLogitsProcessor of {self.tracker!r}>"

    def reset(self) -> None:
        """Makes the next call begin a new prompt, even one that continues the last text."""
        self.tracker.reset()
        self._row = None

    def __call__(self, input_ids: NDArray[np.intc], scores: NDArray[np.single]) -> NDArray[np.single]:
        """Called by llama-cpp-python once per step.

        Args:
            input_ids: the tokens so far, including the prompt, shape ``(tokens,)``.
            scores: logits, float32, shape ``(n_vocab,)``, with any strides.

        Returns:
            A new array: ``scores`` with -inf where a token is forbidden.

        Raises:
            BitmaskError: ``bitmask-shape``: the arguments are no such arrays.
            VocabularyError: ``vocabulary-mismatch``: the model has fewer tokens than the constraint's vocabulary.
        """
        given, logits = np.asarray(input_ids), np.asarray(scores)
        numbers = (given.dtype.kind in "iu" or given.size == 0) and logits.dtype.kind in "fiu"
        if given.ndim != 1 or logits.ndim != 1 or not numbers:
            raise BitmaskError(
                "expected the tokens of one text and its logits, two arrays of one dimension, not "
                f"{given.dtype} of shape {given.shape} and {logits.dtype} of shape {logits.shape}",
                code="bitmask-shape",
            )
        vocabulary = self.tracker.vocabulary
        check_width(vocabulary, len(logits))
        bitmask = allocate_token_bitmask(1, vocabulary.size)
        ids = given.astype(np.int64)
        if self._drafts:
            fill_rows([self._row_after(ids).matcher], bitmask)
        else:
            self.tracker.fill(ids[None, :], bitmask)
        masked = np.array(logits, np.single)
        apply_token_bitmask_inplace(masked, bitmask[0], vocab_size=min(vocabulary.size, len(masked)))
        return masked

    def _row_after(self, ids: NDArray[np.int64]) -> RowState:
        """The text in progress, one token further, or a new one after ``ids``."""
        row, length = self._row, len(self._verified)
        continues = row is not None and len(ids) > length and np.array_equal(ids[:length], self._verified)
        # A row is never queried after a stop token.
        if row is not None and continues and int(ids[length]) not in self.tracker.stop_token_ids:
            with suppress(MatcherError):  # the token was never sampled, so this is a new prompt
                row.follow(ids[self._prompt : length + 1].tolist())
                self._verified = ids[: length + 1].copy()
                return row
        self._verified, self._prompt = ids.copy(), len(ids)  # the first call of a text is shown no drafts
        self._row = RowState(self.tracker.guides[0], self.tracker.stop_token_ids)
        return self._row


@checked
def logits_processor(
    constraint: Any, llama: Any = None, *, stop_token_ids: int | Sequence[int] | None = None
) -> LlamaCppLogitsProcessor:
    """Makes a logits processor for one ``llama_cpp.Llama``.

    Args:
        constraint: a guide or a constraint.
        llama: the ``Llama`` object, the path of its GGUF file, or a Vocabulary. A constraint needs one of them; with a
            draft model it must be the object itself.
        stop_token_ids: the token, or tokens, that end a text; by default the vocabulary's.

    Raises:
        CompileError: see :func:`guiderail.compile`; ``no-vocabulary``: ``llama`` is missing; ``other-vocabulary``: a
            guide is for another model.
        MatcherError: ``bad-batch``: several constraints, but a ``Llama`` writes one text.
    """
    vocabulary = llama if llama is None or isinstance(llama, Vocabulary) else Vocabulary.from_gguf(llama)
    drafts = getattr(llama, "draft_model", None) is not None
    return LlamaCppLogitsProcessor(single_tracker(constraint, vocabulary, stop_token_ids), drafts=drafts)
