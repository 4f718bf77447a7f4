"""A logits processor for llama-cpp-python.

    >>> from guiderail.integrations.llama_cpp import logits_processor
    >>> only_dates = logits_processor(gr.patterns.date(), llama)
    >>> llama(prompt, logits_processor=llama_cpp.LogitsProcessorList([only_dates]))

It follows the documented signature of ``llama_cpp.LogitsProcessor``: ``f(input_ids, scores) -> scores``, one
row. To run a ``Llama`` object by guiderail's own loop instead, pass it to :func:`guiderail.generate`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from guiderail.bitmask import allocate_token_bitmask, apply_token_bitmask_inplace
from guiderail.integrations._rows import check_width
from guiderail.integrations._tracker import StateTracker, single_tracker
from guiderail.vocabulary import Vocabulary

__all__ = ["LlamaCppLogitsProcessor", "logits_processor"]


class LlamaCppLogitsProcessor:
    """Made by :func:`logits_processor`. ``reset`` makes the next call begin a new prompt."""

    def __init__(self, tracker: StateTracker) -> None:
        self.tracker = tracker

    def reset(self) -> None:
        """Makes the next call begin a new prompt, even one that continues the last text."""
        self.tracker.reset()

    def __call__(self, input_ids: NDArray[np.intc], scores: NDArray[np.single]) -> NDArray[np.single]:
        """Called by llama-cpp-python once a step.

        Args:
            input_ids: tokens so far, prompt included, shape ``(tokens,)``.
            scores: logits, float32, shape ``(n_vocab,)``; any strides.

        Returns:
            A new array: ``scores`` with -inf where a token is forbidden.

        Raises:
            VocabularyError: ``vocabulary-mismatch``, the model has fewer tokens than the constraint's vocabulary.
        """
        vocabulary = self.tracker.vocabulary
        check_width(vocabulary, len(scores))
        bitmask = allocate_token_bitmask(1, vocabulary.size)
        self.tracker.fill(np.asarray(input_ids, np.int64)[None, :], bitmask)
        masked = np.array(scores, np.single)
        apply_token_bitmask_inplace(masked, bitmask[0], vocab_size=min(vocabulary.size, len(masked)))
        return masked


def logits_processor(
    constraint: Any, llama: Any = None, *, stop_token_ids: Sequence[int] | None = None
) -> LlamaCppLogitsProcessor:
    """A logits processor for one ``llama_cpp.Llama``.

    Args:
        constraint: a guide, or a constraint.
        llama: the ``Llama`` object, the path of its GGUF file, or a Vocabulary; needed for a constraint.
        stop_token_ids: tokens that end a text; by default the vocabulary's.

    Raises:
        CompileError: see :func:`guiderail.compile`; ``no-vocabulary`` when ``llama`` is missing, ``other-vocabulary``
            when a guide is for another model.
        MatcherError: ``bad-batch``, several constraints: a ``Llama`` writes one text.
    """
    vocabulary = llama if llama is None or isinstance(llama, Vocabulary) else Vocabulary.from_gguf(llama)
    return LlamaCppLogitsProcessor(single_tracker(constraint, vocabulary, stop_token_ids))
