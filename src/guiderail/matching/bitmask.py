"""Token bitmasks: make them, convert them to booleans and back, apply them to logits.

A bitmask is ``int32`` of shape ``(batch, ceil(vocabulary / 32))``: token *i* is bit ``i % 32`` of word ``i // 32``,
least significant first, 1 = allowed. XGrammar, llguidance, vLLM and SGLang use the same layout.

    word      0                                 1
    bit       0 1 2 3 ...                    31 0 1 ...
    token     0 1 2 3 ...                    31 32 33 ...

Applying a mask writes ``-inf`` where the bit is 0. Tokens that the mask does not cover (logits wider than the mask, or
than ``vocab_size``) are never allowed: they become ``-inf`` too.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from guiderail import _core
from guiderail.errors import BitmaskError
from guiderail.support.arguments import checked
from guiderail.support.texts import shown

if TYPE_CHECKING:
    import torch

__all__ = [
    "allocate_token_bitmask",
    "apply_token_bitmask",
    "apply_token_bitmask_inplace",
    "bitmask_shape",
    "bitmask_to_bool",
    "bool_to_bitmask",
    "reset_token_bitmask",
]


def bitmask_shape(batch_size: int, vocab_size: int) -> tuple[int, int]:
    """``(batch_size, ceil(vocab_size / 32))``."""
    return _natural("batch_size", batch_size), (_natural("vocab_size", vocab_size, least=1) + 31) // 32


@checked
def allocate_token_bitmask(batch_size: int, vocab_size: int) -> NDArray[np.int32]:
    """Makes a bitmask that allows everything.

    Returns:
        int32, shape ``(batch_size, ceil(vocab_size / 32))``, every bit 1. ``torch.from_numpy`` shares its memory.

    Raises:
        BitmaskError: ``bitmask-size``: a size is negative or not an integer, or the vocabulary's is zero.
    """
    shape = bitmask_shape(batch_size, vocab_size)
    size = 4 * shape[0] * shape[1]
    # Ready masks begin at the beginning of a page, and copying between addresses that are equal modulo 4096 takes a
    # processor twice as long.
    room = np.empty(size + 4096, np.uint8)
    begin = (2048 - room.ctypes.data) % 4096
    bitmask = room[begin : begin + size].view(np.int32).reshape(shape)
    bitmask.fill(-1)
    return bitmask


@checked
def reset_token_bitmask(bitmask: Any, *, indices: Sequence[int] | None = None) -> None:
    """Sets every bit to 1, in all rows or in those of ``indices``.

    Raises:
        BitmaskError: as :func:`apply_token_bitmask_inplace`.
    """
    _check_mask(bitmask)
    if isinstance(bitmask, np.ndarray) and not bitmask.flags.writeable:
        raise BitmaskError("the bitmask is read-only; copy it first", code="bitmask-readonly")
    if indices is None:
        bitmask[...] = -1
    else:
        rows = bitmask.reshape(1, -1) if bitmask.ndim == 1 else bitmask
        for row in _rows(indices, rows.shape[0], "bitmask"):
            rows[row] = -1


@checked
def bitmask_to_bool(bitmask: Any, vocab_size: int | None = None) -> NDArray[np.bool_]:
    """Converts a bitmask to booleans, True = allowed.

    Args:
        bitmask: int32, shape ``(words,)`` or ``(batch, words)``, NumPy or torch (copied from its device).
        vocab_size: the number of tokens to return; by default ``32 * words``.

    Returns:
        bool, shape ``(vocab_size,)`` or ``(batch, vocab_size)``.

    Raises:
        BitmaskError: ``bitmask-dtype``, ``bitmask-shape``; ``bitmask-size``: ``vocab_size`` is out of range.
    """
    _check_mask(bitmask)
    width = _width(vocab_size, bitmask)
    words = _host(bitmask)
    return np.unpackbits(_as_bytes(words), axis=-1, count=width, bitorder="little").view(np.bool_)


@checked
def bool_to_bitmask(allowed: Any) -> NDArray[np.int32]:
    """Converts booleans, True = allowed, to a bitmask. Padding bits are 0.

    Args:
        allowed: bool, shape ``(vocabulary,)`` or ``(batch, vocabulary)``.

    Returns:
        int32, shape ``(ceil(vocabulary / 32),)`` or ``(batch, ceil(vocabulary / 32))``.

    Raises:
        BitmaskError: ``bitmask-dtype``, ``bitmask-shape``.
    """
    values = np.asarray(allowed)
    if values.dtype != np.bool_:
        raise BitmaskError(
            f"allowed tokens must be booleans, not {values.dtype}; compare first, e.g. mask != 0",
            code="bitmask-dtype",
        )
    if values.ndim not in (1, 2) or values.shape[-1] == 0:
        raise BitmaskError(
            f"allowed tokens must have shape (vocabulary,) or (batch, vocabulary), not {values.shape}",
            code="bitmask-shape",
        )
    words = (values.shape[-1] + 31) // 32
    packed = np.zeros((*values.shape[:-1], words * 4), np.uint8)
    bits = np.packbits(values, axis=-1, bitorder="little")
    packed[..., : bits.shape[-1]] = bits
    return packed.view("<i4").astype(np.int32, copy=False)


@checked
def apply_token_bitmask_inplace(
    logits: Any, bitmask: Any, *, indices: Sequence[int] | None = None, vocab_size: int | None = None
) -> None:
    """Writes ``-inf`` into ``logits`` wherever ``bitmask`` has a 0.

    ``bitmask[row]`` masks ``logits[row]``. With ``indices`` it masks only those rows; the others stay as they are, and
    the batch sizes may differ. XGrammar's ``indices`` mean the same. Columns from ``vocab_size`` on become ``-inf``;
    XGrammar leaves them, so that a model could sample a padding token.

    Args:
        logits: ``(vocabulary,)`` or ``(batch, vocabulary)``, with any strides: NumPy float16, float32 or float64, or
            torch (bfloat16 too) on any device. On CUDA a Triton kernel is used if Triton can be imported.
        bitmask: int32 ``(words,)`` or ``(batch, words)``, NumPy or torch. A bitmask on the CPU is copied to the
            device of the logits first.
        indices: the rows to mask; by default all.
        vocab_size: number of tokens that the bitmask covers, at most ``32 * words``; by default all its bits.

    Raises:
        BitmaskError: the arrays do not fit; the logits are unchanged then. Codes: ``bitmask-dtype``,
            ``bitmask-shape``, ``bitmask-device``, ``bitmask-index``, ``bitmask-size``, ``bitmask-readonly``.
    """
    if isinstance(logits, np.ndarray):
        infinity = _INFINITIES.get(logits.dtype)
        if infinity is None:
            raise BitmaskError(f"logits must be float16, float32 or float64, not {logits.dtype}", code="bitmask-dtype")
        if not logits.flags.writeable:
            raise BitmaskError("the logits are read-only; copy them first", code="bitmask-readonly")
        rows, _, limit = _agree(logits, bitmask, indices, vocab_size)
        words = _host(bitmask)
        _check_apart(logits, words)
        _apply_host(logits, words, infinity, rows, limit)
    elif _is_torch(logits):
        _apply_torch(logits, bitmask, indices, vocab_size)
    else:
        raise BitmaskError(
            f"logits must be a NumPy array or a torch tensor, not {type(logits).__name__}; for immutable arrays "
            "(JAX) use apply_token_bitmask",
            code="bitmask-dtype",
        )


@checked
def apply_token_bitmask(logits: Any, bitmask: Any, *, vocab_size: int | None = None) -> Any:
    """Returns new logits with ``-inf`` wherever ``bitmask`` has a 0, for arrays that cannot be changed in place.

    Args:
        logits: floating point, ``(vocabulary,)`` or ``(batch, vocabulary)``: NumPy, torch, or any array with an
            ``__array_namespace__`` (JAX, also under ``jit``).
        bitmask: int32 ``(words,)`` or ``(batch, words)``, of the same library or NumPy.
        vocab_size: as in :func:`apply_token_bitmask_inplace`.

    Raises:
        BitmaskError: as :func:`apply_token_bitmask_inplace`.
    """
    if isinstance(logits, np.ndarray):
        copy = logits.copy()
        apply_token_bitmask_inplace(copy, bitmask, vocab_size=vocab_size)
        return copy
    if _is_torch(logits):
        clone = logits.clone()
        apply_token_bitmask_inplace(clone, bitmask, vocab_size=vocab_size)
        return clone
    namespace = getattr(logits, "__array_namespace__", None)
    if namespace is None:
        raise BitmaskError(
            f"{type(logits).__name__} follows no array standard (no __array_namespace__)",
            code="bitmask-dtype",
        )
    xp = namespace()
    words = xp.asarray(bitmask)
    if words.dtype != xp.int32:
        raise BitmaskError(f"a bitmask must be int32, not {words.dtype}", code="bitmask-dtype")
    if words.ndim not in (1, 2) or logits.ndim not in (1, 2) or words.shape[:-1] != logits.shape[:-1]:
        raise BitmaskError(_mismatch(logits.shape, words.shape), code="bitmask-shape")
    limit = _width(vocab_size, words)
    bits = (words[..., None] >> xp.arange(32, dtype=xp.int32)) & 1
    bits = xp.reshape(bits, (*words.shape[:-1], words.shape[-1] * 32))[..., : min(limit, logits.shape[-1])]
    missing = logits.shape[-1] - bits.shape[-1]
    if missing:
        bits = xp.concat([bits, xp.zeros((*bits.shape[:-1], missing), dtype=bits.dtype)], axis=-1)
    return xp.where(bits != 0, logits, xp.asarray(float("-inf"), dtype=logits.dtype))


def mask_rows(logits: NDArray[np.float32], bitmask: NDArray[np.int32], rows: list[int], width: int) -> None:
    """Like :func:`apply_token_bitmask_inplace`, without checks, for loops over arrays that are known to fit.

    After a forward pass little is cached, and Python code that checks the arrays takes longer than the masks.

    Args:
        logits: shape ``(batch, vocabulary)``.
        bitmask: shape ``(batch, words)``.
        width: number of tokens that the bitmask covers.
    """
    if logits.dtype != np.float32:
        raise BitmaskError(f"a model's logits must be float32, not {logits.dtype}", code="bitmask-dtype")
    _core.apply_bitmask(logits, bitmask, rows, width, _INFINITY["float32"])


# -- the host ------------------------------------------------------------------------------------------------
_INFINITY = {"float16": 0xFC00, "bfloat16": 0xFF80, "float32": 0xFF800000, "float64": 0xFFF0000000000000}
"""The bits of -inf."""
_INFINITIES = {np.dtype(name): _INFINITY[name] for name in ("float16", "float32", "float64")}  # native byte order
_INT32 = np.dtype(np.int32)


def _apply_host(
    logits: NDArray[Any], bitmask: NDArray[np.int32], infinity: int, rows: Sequence[int], limit: int
) -> None:
    """Masks rows of logits, or of integers with the same bits; the core does it without the GIL."""
    if logits.size and len(rows):
        _core.apply_bitmask(logits, bitmask, list(rows), limit, infinity)


def _as_bytes(words: NDArray[np.int32]) -> NDArray[np.uint8]:
    """The bytes of the words, least significant first."""
    return np.ascontiguousarray(words, "<i4").view(np.uint8)


def _host(bitmask: Any) -> NDArray[np.int32]:
    if isinstance(bitmask, np.ndarray):
        return bitmask
    array: NDArray[np.int32] = bitmask.detach().cpu().numpy()
    return array


# -- torch ---------------------------------------------------------------------------------------------------
def _apply_torch(logits: torch.Tensor, bitmask: Any, indices: Sequence[int] | None, vocab_size: int | None) -> None:
    kind = _tensor_kinds().get(logits.dtype)
    if kind is None:
        raise BitmaskError(
            f"logits must be float16, bfloat16, float32 or float64, not {logits.dtype}", code="bitmask-dtype"
        )
    if logits.layout is not _strided():
        raise BitmaskError(f"logits must be a dense tensor, not {logits.layout}; use to_dense()", code="bitmask-dtype")
    rows, columns, limit = _agree(logits, bitmask, indices, vocab_size)
    if _is_torch(bitmask) and bitmask.device != logits.device and bitmask.device.type != "cpu":
        raise BitmaskError(
            f"the bitmask is on {bitmask.device}; move it: bitmask.to({str(logits.device)!r})",
            code="bitmask-device",
        )
    data = logits.detach()
    if data.device.type == "cpu":
        whole, infinity = kind
        _apply_host(data.view(whole).numpy(), _host(bitmask), infinity, rows, limit)
        return
    if not rows or not columns:
        return
    import torch

    # Blocking on purpose: a pinned mask may be refilled as soon as this returns.
    words = (bitmask if _is_torch(bitmask) else torch.from_numpy(np.ascontiguousarray(bitmask))).to(data.device)
    data = data.unsqueeze(0) if data.ndim == 1 else data
    words = words.unsqueeze(0) if words.ndim == 1 else words
    if data.device.type == "cuda" and _has_triton():
        from guiderail.matching.kernels.triton_bitmask import apply_rows

        apply_rows(data, words, None if indices is None else rows, min(limit, columns))
        return
    _apply_generic(data, words, rows, min(limit, columns))


@lru_cache(maxsize=1)
def _tensor_kinds() -> dict[Any, tuple[Any, int]]:
    """For each type of logits the integers of its size, and the bits of -inf."""
    import torch

    return {
        torch.float16: (torch.int16, _INFINITY["float16"]),
        torch.bfloat16: (torch.int16, _INFINITY["bfloat16"]),
        torch.float32: (torch.int32, _INFINITY["float32"]),
        torch.float64: (torch.int64, _INFINITY["float64"]),
    }


@lru_cache(maxsize=1)
def _strided() -> Any:
    import torch

    return torch.strided


def _apply_generic(logits: torch.Tensor, bitmask: torch.Tensor, rows: Sequence[int], covered: int) -> None:
    """Any device: by torch's own operations, row by row so that the bits of one row alone are unpacked."""
    import torch

    shifts = torch.arange(32, dtype=torch.int32, device=logits.device)
    for row in rows:
        bits = (bitmask[row, : (covered + 31) // 32].unsqueeze(-1) >> shifts) & 1
        logits[row, :covered].masked_fill_(bits.reshape(-1)[:covered] == 0, float("-inf"))
        logits[row, covered:].fill_(float("-inf"))


@lru_cache(maxsize=1)
def _has_triton() -> bool:
    try:
        import triton  # noqa: F401
    except ImportError:
        return False
    return True


# -- agreement of shapes and types ---------------------------------------------------------------------------
def _agree(
    logits: Any, bitmask: Any, indices: Sequence[int] | None, vocab_size: int | None
) -> tuple[Sequence[int], int, int]:
    """The rows to mask, the number of columns, and how many tokens the mask covers."""
    _check_mask(bitmask)
    if logits.ndim not in (1, 2):
        raise BitmaskError(
            f"logits must have shape (vocabulary,) or (batch, vocabulary), not {tuple(logits.shape)}",
            code="bitmask-shape",
        )
    batch = 1 if logits.ndim == 1 else logits.shape[0]
    masks = 1 if bitmask.ndim == 1 else bitmask.shape[0]
    limit = _width(vocab_size, bitmask)
    if indices is None:
        if batch != masks:
            raise BitmaskError(_mismatch(logits.shape, bitmask.shape), code="bitmask-shape")
        return range(batch), logits.shape[-1], limit
    return _rows(indices, min(batch, masks), "logits and bitmask"), logits.shape[-1], limit


def _check_apart(logits: NDArray[Any], words: NDArray[np.int32]) -> None:
    """Refuses memory that is written twice, or read after it was written."""
    if not logits.flags.forc:
        extent = logits.itemsize
        for stride, length in sorted((abs(s), n) for s, n in zip(logits.strides, logits.shape, strict=True) if n > 1):
            if stride < extent:
                raise BitmaskError("rows of the logits share memory; copy them first", code="bitmask-shape")
            extent += stride * (length - 1)
    if np.may_share_memory(logits, words) and np.shares_memory(logits, words, max_work=-1):
        raise BitmaskError("the logits and the bitmask share memory; copy one of them first", code="bitmask-shape")


def _check_mask(bitmask: Any) -> None:
    if isinstance(bitmask, np.ndarray):
        right = bitmask.dtype == _INT32
    elif _is_torch(bitmask):
        right = str(bitmask.dtype) == "torch.int32"
    else:
        raise BitmaskError(
            f"a bitmask must be a NumPy array or a torch tensor, not {type(bitmask).__name__}",
            code="bitmask-dtype",
        )
    if not right:
        raise BitmaskError(f"a bitmask must be int32, not {bitmask.dtype}", code="bitmask-dtype")
    if bitmask.ndim not in (1, 2) or bitmask.shape[-1] == 0:
        raise BitmaskError(
            f"a bitmask must have shape (words,) or (batch, words), not {tuple(bitmask.shape)}",
            code="bitmask-shape",
        )


def _mismatch(logits: Any, bitmask: Any) -> str:
    return (
        f"logits of shape {tuple(logits)} and a bitmask of shape {tuple(bitmask)} differ in their batch; "
        "name the rows to mask with indices=... of apply_token_bitmask_inplace"
    )


def _rows(indices: Any, count: int, what: str) -> list[int]:
    """Row numbers from a list, an array or a tensor, each validated."""
    if hasattr(indices, "tolist"):
        indices = indices.tolist()
    rows = []
    for index in indices:
        if isinstance(index, bool) or not hasattr(index, "__index__"):
            raise BitmaskError(f"indices must be row numbers, not {shown(index)}", code="bitmask-index")
        row = operator.index(index)
        if not 0 <= row < count:
            raise BitmaskError(f"row {row} is out of range: {what} have {count} rows", code="bitmask-index")
        rows.append(row)
    return rows


def _width(vocab_size: int | None, bitmask: Any) -> int:
    """How many tokens a bitmask covers."""
    most: int = bitmask.shape[-1] * 32
    if vocab_size is None:
        return most
    width = _natural("vocab_size", vocab_size, least=1)
    if width > most:
        raise BitmaskError(f"vocab_size={width} is more than the {most} bits of the bitmask", code="bitmask-size")
    return width


def _natural(what: str, value: Any, least: int = 0) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__") or operator.index(value) < least:
        raise BitmaskError(f"{what} must be an integer of at least {least}, not {shown(value)}", code="bitmask-size")
    return operator.index(value)


def _is_torch(value: object) -> bool:
    """Whether ``value`` is a tensor, without importing torch: if it is one, torch has been imported."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)
