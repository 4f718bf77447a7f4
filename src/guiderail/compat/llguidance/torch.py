"""``llguidance.torch``: masks in tensors on the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from guiderail.compat._errors import CompatAssertionError, CompatValueError
from guiderail.compat.llguidance import numpy as arrays
from guiderail.compat.llguidance._executor import LLExecutor
from guiderail.compat.llguidance._matcher import LLMatcher
from guiderail.compat.llguidance.numpy import consume_token_par, get_bitmask_shape
from guiderail.matching import bitmask as native
from guiderail.support.arguments import checked

__all__ = [
    "allocate_token_bitmask", "apply_token_bitmask_inplace", "consume_token_par", "fill_next_token_bitmask",
    "fill_next_token_bitmask_par", "fill_next_token_bitmask_par_with_draft_tokens", "get_bitmask_shape",
]  # fmt: skip


def allocate_token_bitmask(batch_size: int, vocab_size: int) -> Any:
    """Returns an int32 tensor on the CPU, pinned if there is a GPU, that allows all tokens."""
    shape = native.allocate_token_bitmask(batch_size, vocab_size).shape  # checks both
    return torch.full(shape, -1, dtype=torch.int32, pin_memory=torch.cuda.is_available())


def apply_token_bitmask_inplace(logits: Any, mask: Any) -> None:
    """Writes -inf to the logits of tokens that the mask forbids or has no bit for, on any device.

    Raises:
        CompatError: the tensors do not fit.
    """
    arrays.apply(logits, mask)


apply_token_bitmask_inplace_kernel = apply_token_bitmask_inplace


def _array(bitmask: Any) -> Any:
    if not isinstance(bitmask, torch.Tensor):
        raise CompatValueError(f"a mask must be a tensor, not {type(bitmask).__name__}", code="bitmask-array")
    if not bitmask.is_cpu:
        raise CompatAssertionError(f"the mask is on {bitmask.device}; it is filled on the CPU", code="bitmask-device")
    return bitmask.numpy()


@checked
def fill_next_token_bitmask(interp: LLMatcher, bitmask: Any, index: int = 0) -> None:
    """Writes the mask into row ``index``.

    Raises:
        CompatAssertionError: the tensor has another shape or dtype, or is not on the CPU.
    """
    arrays.fill_next_token_bitmask(interp, _array(bitmask), index)


@checked
def fill_next_token_bitmask_par(executor: LLExecutor, matchers: Sequence[tuple[LLMatcher, int]], bitmask: Any) -> None:
    """Writes the mask of each ``(matcher, row)``, in one call.

    Raises:
        CompatAssertionError: the tensor has another shape or dtype, or is not on the CPU.
        CompatValueError: a row is out of range.
    """
    arrays.fill_next_token_bitmask_par(executor, matchers, _array(bitmask))


@checked
def fill_next_token_bitmask_par_with_draft_tokens(
    executor: LLExecutor, matchers: Sequence[tuple[LLMatcher, int, Sequence[int]]], bitmask: Any
) -> None:
    """Like :func:`fill_next_token_bitmask_par`, for ``(matcher, row, draft)``; the masks after each token of the draft
    follow.

    Raises:
        CompatAssertionError: the tensor has another shape or dtype, or is not on the CPU.
        CompatValueError: a row is out of range.
    """
    arrays.fill_next_token_bitmask_par_with_draft_tokens(executor, matchers, _array(bitmask))
