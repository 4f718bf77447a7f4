"""A logits processor for mlx-lm.

    >>> from guiderail.integrations.mlx import logits_processor
    >>> only_dates = logits_processor(gr.patterns.date(), tokenizer)
    >>> mlx_lm.generate(model, tokenizer, prompt, logits_processors=[only_dates])

It has the signature that mlx-lm documents: ``f(tokens, logits) -> logits``, for one row. It works with ``generate``,
``stream_generate``, ``generate_step``, speculative decoding with a draft model, ``batch_generate`` and
``BatchGenerator``. In a batch, one processor may serve all texts, or each text may have its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from guiderail.errors import BitmaskError
from guiderail.integrations._rows import check_width
from guiderail.integrations._tracker import StateTracker, single_tracker
from guiderail.matching.bitmask import allocate_token_bitmask, bitmask_to_bool
from guiderail.support.arguments import checked, checked_methods

__all__ = ["MlxLogitsProcessor", "logits_processor"]


@checked_methods
class MlxLogitsProcessor:
    """Masks logits for mlx-lm. Made by :func:`logits_processor`."""

    def __init__(self, tracker: StateTracker) -> None:
        self.tracker = tracker

    def reset(self) -> None:
        """Makes the next call begin a new prompt, even one that continues an earlier text."""
        self.tracker.reset()

    def __call__(self, tokens: Any, logits: Any) -> Any:
        """Called by mlx-lm once per step and text. Waits until the tokens are computed.

        Args:
            tokens: ``mlx.core.array`` of integers, shape ``(tokens,)``: the tokens so far, including the prompt.
            logits: ``mlx.core.array``, shape ``(1, width)`` or ``(width,)``, of any floating type.

        Returns:
            A new array: ``logits`` with -inf where a token is forbidden.

        Raises:
            BitmaskError: ``bitmask-shape``: there is more than one row.
            VocabularyError: ``vocabulary-mismatch``: the model has fewer tokens than the constraint's vocabulary.
        """
        import mlx.core as mx

        width = logits.shape[-1]
        if logits.size != width or tokens.ndim != 1:
            raise BitmaskError(
                f"expected one text per call, not tokens of shape {tuple(tokens.shape)} and logits of "
                f"shape {tuple(logits.shape)}",
                code="bitmask-shape",
            )
        vocabulary = self.tracker.vocabulary
        check_width(vocabulary, width)
        bitmask = allocate_token_bitmask(1, vocabulary.size)
        self.tracker.fill(np.array(tokens, np.int64)[None, :], bitmask)
        allowed = np.zeros(width, bool)
        size = min(width, vocabulary.size)
        allowed[:size] = bitmask_to_bool(bitmask, vocabulary.size)[0, :size]
        return mx.where(mx.array(allowed), logits, mx.array(-np.inf, logits.dtype))


@checked
def logits_processor(
    constraint: Any, tokenizer: Any = None, *, stop_token_ids: int | Sequence[int] | None = None
) -> MlxLogitsProcessor:
    """Makes a logits processor for mlx-lm models.

    Args:
        constraint: a guide or a constraint.
        tokenizer: the tokenizer that ``mlx_lm.load`` returned, a transformers tokenizer, the folder of one, or a
            Vocabulary; needed for a constraint.
        stop_token_ids: the tokens that end a text. By default those at which mlx-lm stops for that tokenizer; for other
            sources, the vocabulary's.

    Raises:
        CompileError: see :func:`guiderail.compile`; ``no-vocabulary``: the tokenizer is missing; ``other-vocabulary``:
            a guide is for another one.
        MatcherError: ``bad-batch``: several constraints; give each text of a batch its own processor.
    """
    stops = stop_token_ids
    if type(tokenizer).__name__ == "TokenizerWrapper":
        stops = sorted(tokenizer.eos_token_ids) if stops is None else stops
        tokenizer = tokenizer._tokenizer
    return MlxLogitsProcessor(single_tracker(constraint, tokenizer, stops))
