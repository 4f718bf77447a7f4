"""Functions on token bitmasks, for torch tensors as in XGrammar, and for NumPy arrays."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from guiderail.compat._errors import CompatError, CompatValueError, integer, raised_as
from guiderail.matching import bitmask as native
from guiderail.support.texts import shown

__all__ = ["allocate_token_bitmask", "apply_token_bitmask_inplace", "get_bitmask_shape", "reset_token_bitmask"]

_BACKENDS = ("auto", "cpu", "cuda", "triton", "torch_compile", "torch_native")
_DEVICES = {"cpu": ("cpu",), "cuda": ("cuda",), "triton": ("cuda",)}


def get_bitmask_shape(batch_size: int, vocab_size: int) -> tuple[int, int]:
    """Returns ``(batch_size, ceil(vocab_size / 32))``.

    Raises:
        CompatTypeError: one of them is not an integer.
    """
    return integer("batch_size", batch_size), (integer("vocab_size", vocab_size) + 31) // 32


def allocate_token_bitmask(batch_size: int, vocab_size: int) -> Any:
    """Returns an int32 torch tensor of that shape on the CPU that allows all tokens.

    Raises:
        CompatTypeError, CompatError: one of them is not an integer, or is negative.
    """
    import torch

    shape = get_bitmask_shape(batch_size, vocab_size)
    if min(shape) < 0:
        raise CompatError(
            f"a bitmask needs sizes of 0 or more, not {shown(batch_size)} and {shown(vocab_size)}", code="bitmask-size"
        )
    return torch.full(shape, -1, dtype=torch.int32)


def reset_token_bitmask(bitmask: Any) -> None:
    """Allows all tokens again.

    Raises:
        CompatValueError: it is no bitmask.
    """
    with raised_as():
        native.reset_token_bitmask(bitmask)


def apply_token_bitmask_inplace(
    logits: Any,
    bitmask: Any,
    *,
    vocab_size: int | None = None,
    indices: Sequence[int] | None = None,
    backend: str = "auto",
) -> None:
    """Writes -inf to logits whose bit is 0. Logits from ``vocab_size`` on stay as they are, as in XGrammar.

    Args:
        logits: ``(vocabulary,)`` or ``(batch, vocabulary)``, torch or NumPy.
        bitmask: int32, on the device of the logits or on the CPU; from there it is copied.
        vocab_size: the number of logits to mask, at most those that have a bit; None: all of these.
        indices: the rows to mask; None: all.
        backend: one of XGrammar's names. It makes no difference: guiderail uses the best for the device.

    Raises:
        CompatValueError: the backend is unknown, or for another device; or the arrays do not fit. The logits are
            unchanged then.
    """
    if not isinstance(backend, str) or backend not in _BACKENDS:
        raise CompatValueError(f"Unknown backend: {shown(backend)}. The value should be one of them: {list(_BACKENDS)}")
    device = getattr(getattr(logits, "device", None), "type", "cpu")
    if device not in _DEVICES.get(backend, (device,)):
        raise CompatValueError(f"the backend {backend!r} does not support logits on {device!r}; leave it out")
    for name, given in (("logits", logits), ("bitmask", bitmask)):
        if not getattr(given, "ndim", 0):
            raise CompatValueError(f"{name} must be a tensor or an array, not {shown(given)}", code="bitmask-dtype")
    bits, width = bitmask.shape[-1] * 32, logits.shape[-1]
    if vocab_size is not None and not 0 <= integer("vocab_size", vocab_size) <= min(bits, width):
        raise CompatValueError(
            f"vocab_size={vocab_size} must be at most the {bits} bits of the bitmask and the {width} logits",
            code="bitmask-size",
        )
    if vocab_size is None and bits < width:
        warnings.warn(
            f"The bitmask covers only {bits} tokens but logits have {width}: those from {bits} on stay as they are. "
            "Allocate the bitmask for all of them, or pass vocab_size.",
            stacklevel=2,
        )
    limit = min(bits, width if vocab_size is None else vocab_size, width)
    if limit > 0:
        with raised_as():
            native.apply_token_bitmask_inplace(logits[..., :limit], bitmask, indices=indices, vocab_size=limit)
