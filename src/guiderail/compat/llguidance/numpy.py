"""``llguidance.numpy``: masks in NumPy arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from guiderail.compat._errors import CompatAssertionError, CompatIndexError, CompatValueError, integer, raised_as
from guiderail.compat.llguidance._executor import LLExecutor
from guiderail.compat.llguidance._matcher import LLMatcher
from guiderail.matching import bitmask as native
from guiderail.support.arguments import checked

__all__ = [
    "allocate_token_bitmask", "apply_token_bitmask_inplace", "consume_token_par", "fill_next_token_bitmask",
    "fill_next_token_bitmask_par", "fill_next_token_bitmask_par_with_draft_tokens", "get_bitmask_shape",
]  # fmt: skip


def get_bitmask_shape(batch_size: int, vocab_size: int) -> tuple[int, int]:
    """Returns ``(batch_size, ceil(vocab_size / 32))``."""
    return integer("batch_size", batch_size), (integer("vocab_size", vocab_size) + 31) // 32


def allocate_token_bitmask(batch_size: int, vocab_size: int) -> NDArray[np.int32]:
    """Returns an int32 array of that shape that allows all tokens."""
    return native.allocate_token_bitmask(batch_size, vocab_size)


def apply_token_bitmask_inplace(logits: NDArray[Any], mask: NDArray[np.int32]) -> None:
    """Writes -inf to the logits of tokens that the mask forbids or has no bit for.

    Raises:
        CompatError: the arrays do not fit.
    """
    apply(logits, mask)


def apply(logits: Any, mask: Any) -> None:
    """Applies a mask to logits, arrays or tensors; rows may come without a batch.

    Raises:
        CompatAssertionError: the mask is not int32, or has another number of rows.
        CompatError: the logits have another dtype, or something is no array.
    """
    given = [one.reshape(1, -1) if getattr(one, "ndim", 0) == 1 else one for one in (logits, mask)]
    dtype, rows = getattr(mask, "dtype", None), [len(one) if hasattr(one, "shape") else 0 for one in given]
    if dtype is not None and str(dtype).removeprefix("torch.") != "int32":
        raise CompatAssertionError(f"a mask must be int32, not {dtype}", code="bitmask-dtype")
    if rows[0] != rows[1]:
        raise CompatAssertionError(f"there are {rows[1]} masks for {rows[0]} rows of logits", code="bitmask-shape")
    with raised_as():
        native.apply_token_bitmask_inplace(*given)


apply_token_bitmask_inplace_kernel = apply_token_bitmask_inplace


@checked
def fill_next_token_bitmask(interp: LLMatcher, bitmask: NDArray[np.int32], index: int = 0) -> None:
    """Writes the mask into row ``index`` of an int32 array ``(batch, words)``.

    Raises:
        CompatAssertionError: the array has another shape or dtype.
        CompatValueError: it is read-only.
        CompatIndexError: there is no such row.
    """
    rows = len(_checked(bitmask))
    if not -rows <= integer("the row", index) < rows:
        raise CompatIndexError(f"row {index} is out of range: the mask has {rows}")
    row = bitmask[index]
    interp.unsafe_compute_mask_ptr(row.ctypes.data, row.size * row.itemsize)


@checked
def fill_next_token_bitmask_par(
    executor: LLExecutor, matchers: Sequence[tuple[LLMatcher, int]], bitmask: NDArray[np.int32]
) -> None:
    """Writes the mask of each ``(matcher, row)``, in one call.

    Raises:
        CompatAssertionError: the array has another shape or dtype.
        CompatValueError: a row is out of range.
    """
    batch, words = _checked(bitmask).shape
    executor.unsafe_compute_mask_ptr(matchers, bitmask.ctypes.data, words * 4, batch)


@checked
def fill_next_token_bitmask_par_with_draft_tokens(
    executor: LLExecutor, matchers: Sequence[tuple[LLMatcher, int, Sequence[int]]], bitmask: NDArray[np.int32]
) -> None:
    """Like :func:`fill_next_token_bitmask_par`, for ``(matcher, row, draft)``; the masks after each token of the draft
    follow.

    Raises:
        CompatAssertionError: the array has another shape or dtype.
        CompatValueError: a row is out of range.
    """
    batch, words = _checked(bitmask).shape
    executor.unsafe_compute_mask_ptr_with_draft_token(matchers, bitmask.ctypes.data, words * 4, batch)


@checked
def consume_token_par(executor: LLExecutor, matchers: Sequence[tuple[LLMatcher, int]]) -> list[bool]:
    """Reads one token with each ``(matcher, token)`` and returns which were allowed."""
    return executor.consume_token_par(matchers)


def _checked(bitmask: NDArray[np.int32]) -> NDArray[np.int32]:
    if not isinstance(bitmask, np.ndarray):
        raise CompatValueError(f"a mask must be an array, not {type(bitmask).__name__}", code="bitmask-array")
    if bitmask.dtype != np.int32 or bitmask.ndim != 2 or not bitmask.flags["C_CONTIGUOUS"]:
        raise CompatAssertionError(
            f"a mask is a contiguous array of int32, (batch, words), not {bitmask.dtype} of shape {bitmask.shape}",
            code="bitmask-shape",
        )
    if not bitmask.flags.writeable:
        raise CompatValueError("the mask is read-only; copy it first", code="bitmask-readonly")
    return bitmask
