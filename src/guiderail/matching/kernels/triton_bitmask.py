"""Applies bitmasks on CUDA devices.

A program takes a block of one row: it loads the packed words (one for 32 logits, 1/64 of the traffic for 16-bit logits)
and stores -inf where a bit is 0. Logits are never read. Blocks whose words are all ones store nothing. Of the others,
only memory sectors with a forbidden token are written. So a mask that allows few tokens costs one write of the row,
which is the lower bound set by a fill of the same memory.

Nothing of guiderail is imported here, so that the file can be measured on its own.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import triton
import triton.language as tl

__all__ = ["apply_rows"]

BLOCK = 4096  # logits per program: 128 words
WARPS = 8


@triton.jit  # type: ignore[untyped-decorator]
def _apply_kernel(  # type: ignore[no-untyped-def]
    logits,
    bitmask,
    rows,
    columns,
    covered,
    logits_row_stride,
    logits_column_stride,
    mask_row_stride,
    mask_column_stride,
    HAS_ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    # 64-bit offsets: 2**31 logits are only 17,000 rows of 128 k tokens.
    row = tl.program_id(0).to(tl.int64)
    if HAS_ROWS:
        row = tl.load(rows + row).to(tl.int64)
    start = tl.program_id(1) * BLOCK
    word = start // 32 + tl.arange(0, BLOCK // 32)
    # Words past the end count as 0: tokens that the mask does not cover are banned.
    packed = tl.load(
        bitmask + row * mask_row_stride + word.to(tl.int64) * mask_column_stride, word * 32 < covered, other=0
    )
    bits = (packed[:, None] >> tl.arange(0, 32)[None, :]) & 1
    column = start + tl.arange(0, BLOCK)
    banned = (bits.reshape(BLOCK) == 0) | (column >= covered)
    tl.store(
        logits + row * logits_row_stride + column.to(tl.int64) * logits_column_stride,
        -float("inf"),
        banned & (column < columns),
    )


def apply_rows(
    logits: torch.Tensor, bitmask: torch.Tensor, rows: Sequence[int] | torch.Tensor | None, covered: int
) -> None:
    """Writes -inf into ``logits[row, i]`` where bit ``i`` of ``bitmask[row]`` is 0, or ``i >= covered``.

    The arguments must already be checked.

    Args:
        logits: ``(batch, columns)``, floating point, any strides.
        bitmask: int32 ``(batch, words)`` on the same device, any strides.
        rows: the rows; None for all. A tensor on the device saves a copy.
        covered: how many tokens the bitmask covers, at most ``columns`` and ``32 * words``.
    """
    columns = logits.shape[1]
    if rows is None:
        count = logits.shape[0]
    else:
        rows = torch.as_tensor(rows, dtype=torch.int32).to(logits.device)
        count = len(rows)
    if count == 0 or columns == 0:
        return
    with torch.cuda.device_of(logits):
        _apply_kernel[(count, triton.cdiv(columns, BLOCK))](
            logits,
            bitmask,
            rows,
            columns,
            covered,
            logits.stride(0),
            logits.stride(1),
            bitmask.stride(0),
            bitmask.stride(1),
            HAS_ROWS=rows is not None,
            BLOCK=BLOCK,
            num_warps=WARPS,
        )
