"""``llguidance.mlx``: masks over arrays of MLX."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from guiderail.compat._errors import CompatValueError
from guiderail.compat.llguidance.numpy import allocate_token_bitmask, fill_next_token_bitmask, get_bitmask_shape
from guiderail.matching.bitmask import bitmask_to_bool

__all__ = ["allocate_token_bitmask", "apply_token_bitmask", "fill_next_token_bitmask", "get_bitmask_shape"]


def apply_token_bitmask(logits: Any, mask_np: NDArray[np.int32]) -> Any:
    """Returns new logits with -inf where the mask forbids a token or has no bit for it.

    Args:
        logits: ``mlx.core.array``, ``(vocabulary,)`` or ``(batch, vocabulary)``.
        mask_np: int32, ``(words,)`` or ``(batch, words)``.

    Raises:
        CompatValueError: the numbers of masks and logits differ.
    """
    import mlx.core as mx

    logits = logits.reshape(1, -1) if logits.ndim == 1 else logits
    masks = mask_np.reshape(1, -1) if mask_np.ndim == 1 else mask_np
    if len(masks) != logits.shape[0]:
        raise CompatValueError(
            f"there are {len(masks)} masks for {logits.shape[0]} rows of logits", code="bitmask-shape"
        )
    width = logits.shape[-1]
    allowed = np.zeros((len(masks), width), bool)
    known = bitmask_to_bool(masks)[:, :width]
    allowed[:, : known.shape[1]] = known
    return mx.where(mx.array(allowed), logits, float("-inf"))
