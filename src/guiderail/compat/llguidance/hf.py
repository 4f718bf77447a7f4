"""``llguidance.hf``: tokenizers of transformers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from guiderail.compat.llguidance._tokenizer import LLTokenizer

__all__ = ["from_tokenizer"]


def from_tokenizer(
    hf_tokenizer: Any,
    n_vocab: int | None = None,
    eos_token: int | Sequence[int] | None = None,
    slices: Sequence[str] | None = None,
) -> LLTokenizer:
    """Makes an LLTokenizer from a transformers tokenizer. This takes a moment, so keep the result.

    Args:
        hf_tokenizer: a fast tokenizer, or any that guiderail reads.
        n_vocab: the width of the model's logits.
        eos_token: the stop tokens; None: its ``eos_token_id``.
        slices: as for :class:`LLTokenizer`.

    Raises:
        ValueError: the bytes of its tokens are unknown.
    """
    if eos_token is None:
        eos_token = getattr(hf_tokenizer, "eos_token_id", None)
    return LLTokenizer(hf_tokenizer, n_vocab, eos_token, slices)
