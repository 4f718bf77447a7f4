"""A logits processor for ``model.generate`` of transformers.

    >>> from guiderail.integrations.transformers import GuiderailLogitsProcessor
    >>> only_dates = GuiderailLogitsProcessor(gr.patterns.date(), tokenizer)
    >>> model.generate(**inputs, logits_processor=[only_dates])

It supports batches (with one constraint for each prompt, if they differ), left padding, beams, several returned
sequences, sampling and assisted generation, and can be reused for the next call.
:mod:`guiderail.integrations._tracker` explains how, and names the one case in which you must call
:meth:`GuiderailLogitsProcessor.reset`. Continuous batching needs another kind of processor: see
:mod:`guiderail.integrations.transformers_batching`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from guiderail.errors import BitmaskError
from guiderail.integrations._rows import as_guides, check_width
from guiderail.integrations._tracker import StateTracker
from guiderail.matching.bitmask import allocate_token_bitmask, apply_token_bitmask_inplace
from guiderail.support.arguments import checked_methods

__all__ = ["GuiderailLogitsProcessor"]


@checked_methods
class GuiderailLogitsProcessor:
    """Forbids every token that the constraint does not allow.

    ``generate`` runs its own penalties before this processor, and its warpers (temperature, top-k, top-p) after it, so
    that they choose among allowed tokens. No other processor can bring a forbidden token back, but one that forbids
    more (``min_new_tokens``, ``bad_words_ids``) may leave none.

    Args:
        constraint: a guide or a constraint for all prompts, or a list with one for each prompt of the batch.
        vocabulary: a tokenizer or a Vocabulary; needed for constraints, not for guides.
        stop_token_ids: the token, or tokens, that end a text; by default the vocabulary's. Pass
            ``generation_config.eos_token_id`` if the model is told to stop at others.

    Raises:
        CompileError: see :func:`guiderail.compile`; ``no-vocabulary``: the vocabulary is missing.
    """

    def __init__(
        self, constraint: Any, vocabulary: Any = None, *, stop_token_ids: int | Sequence[int] | None = None
    ) -> None:
        self.tracker = StateTracker(as_guides(constraint, vocabulary), stop_token_ids)

    def __repr__(self) -> str:
        return f"<GuiderailLogitsProcessor of {self.tracker!r}>"

    def reset(self) -> None:
        """Makes the next call begin a new prompt, even one that continues the last text."""
        self.tracker.reset()

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        """Called by transformers once per step.

        Args:
            input_ids: the tokens so far, an integer tensor of shape ``(rows, width)``.
            scores: logits or log-probabilities, a float tensor of shape ``(rows, width)``.

        Returns:
            A new tensor: ``scores`` with -inf where a token is forbidden.

        Raises:
            BitmaskError: ``bitmask-dtype``, ``bitmask-shape``: the arguments are no such tensors.
            MatcherError: ``bad-batch``: the rows cannot be divided among the constraints.
            VocabularyError: ``vocabulary-mismatch``: the model has fewer tokens than the constraint's vocabulary.
        """
        import torch

        _check(input_ids, scores)
        size = self.tracker.vocabulary.size
        check_width(self.tracker.vocabulary, scores.shape[-1])
        bitmask = allocate_token_bitmask(len(input_ids), size)
        self.tracker.fill(input_ids.cpu().numpy(), bitmask)
        masked = scores.clone()
        width = min(size, masked.shape[-1])
        apply_token_bitmask_inplace(masked, torch.from_numpy(bitmask).to(scores.device), vocab_size=width)
        return masked


def _check(input_ids: Any, scores: Any) -> None:
    """Raises an error unless the tokens and their scores fit together."""
    import torch

    for name, given in (("input_ids", input_ids), ("scores", scores)):
        if not isinstance(given, torch.Tensor):
            raise BitmaskError(f"{name} must be a torch tensor, not {type(given).__name__}", code="bitmask-dtype")
    kind = input_ids.dtype
    if kind.is_floating_point or kind.is_complex or kind is torch.bool:
        raise BitmaskError(f"input_ids must be integers, not {kind}", code="bitmask-dtype")
    if input_ids.ndim != 2 or scores.ndim != 2 or len(input_ids) != len(scores):
        raise BitmaskError(
            f"input_ids of shape {tuple(input_ids.shape)} and scores of shape {tuple(scores.shape)} must both have two "
            "dimensions and as many rows",
            code="bitmask-shape",
        )
