"""Measures how long it takes to apply a bitmask to logits on the CPU, in microseconds per row.

    python benchmarks/apply_bitmask.py --columns 128256 --batches 1,16

- *numpy*: two passes of NumPy, ``max(x, floor)`` with the bits of -inf for banned tokens as unsigned numbers. The
  floors come from a table of bytes.
- *torch*: ``masked_fill_`` with a boolean mask, on one thread. Converting the bits to booleans is not counted.
- *xgrammar*: its own CPU kernel, if it is installed (float32 and bfloat16).
- *native*: all of ``apply_token_bitmask_inplace``; *core* is only its call into the core.

*allowed* is the share of tokens that the mask allows, at random positions. With ``block`` it allows the first half.
Results are medians of as many calls as fit into a tenth of a second.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path[0] = str(Path(__file__).parent / "support")  # this folder has a regex.py
from guiderail import _core, apply_token_bitmask_inplace, bool_to_bitmask  # noqa: E402

INFINITY = {"float16": 0xFC00, "bfloat16": 0xFF80, "float32": 0xFF800000, "float64": 0xFFF0000000000000}


def microseconds(call: Callable[[], object]) -> float:
    call()
    times: list[float] = []
    until = time.perf_counter() + 0.1
    while time.perf_counter() < until or len(times) < 5:
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return statistics.median(times) * 1e6


def by_numpy(words: np.ndarray, bitmask: np.ndarray, infinity: int) -> Callable[[], object]:
    bits = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little")
    table = np.where(bits == 0, words.dtype.type(infinity), words.dtype.type(0))
    floors = np.empty((bitmask.shape[1] * 4, 8), words.dtype)

    def call() -> None:
        for row, mask in zip(words, bitmask, strict=True):
            table.take(mask.view(np.uint8), axis=0, out=floors, mode="clip")
            np.maximum(row, floors.reshape(-1)[: row.size], out=row)

    return call


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--columns", type=int, default=128_256)
    parser.add_argument("--batches", default="1,16")
    parser.add_argument("--dtypes", default="float32,bfloat16")
    arguments = parser.parse_args()
    try:
        import torch
    except ImportError:
        torch = None
    try:
        from xgrammar.kernels.apply_token_bitmask_inplace_cpu import apply_token_bitmask_inplace_cpu as theirs
    except ImportError:
        theirs = None
    if torch is not None:
        torch.set_num_threads(1)
    columns = arguments.columns
    rng = np.random.default_rng(0)
    print(
        f"{'dtype':9} {'batch':>5} {'allowed':>8} {'numpy':>8} {'torch':>8} {'xgrammar':>8} {'core':>8} {'native':>8}"
    )
    for dtype in arguments.dtypes.split(","):
        for batch in map(int, arguments.batches.split(",")):
            for share in (0.001, 0.5, "block", 0.999, 1.0):
                if share == "block":
                    allowed = np.repeat(np.arange(columns)[None] < columns // 2, batch, axis=0)
                else:
                    allowed = rng.random((batch, columns)) < share
                bitmask = bool_to_bitmask(allowed)
                scores = rng.standard_normal((batch, columns)).astype(np.float32)
                size = np.dtype("f2" if dtype == "bfloat16" else dtype).itemsize
                if dtype == "bfloat16":
                    words = (scores.view(np.uint32) >> 16).astype(np.uint16)
                else:
                    words = scores.astype(dtype).view(f"u{size}")
                cells = [by_numpy(words, bitmask, INFINITY[dtype]), None, None, None, None]
                if torch is not None:
                    kind = {2: torch.int16, 4: torch.int32, 8: torch.int64}[size]
                    signed = torch.from_numpy(words.view(f"i{size}").copy())
                    tensor = signed.view(getattr(torch, dtype)) if kind else signed
                    banned, held = torch.from_numpy(~allowed), torch.from_numpy(bitmask)
                    cells[1] = lambda t=tensor, b=banned: t.masked_fill_(b, float("-inf"))
                    if theirs is not None and dtype in ("float32", "bfloat16"):
                        cells[2] = lambda t=tensor, m=held: theirs(t, m)
                    cells[4] = lambda t=tensor, m=held: apply_token_bitmask_inplace(t, m)
                rows = list(range(batch))
                cells[3] = lambda w=words, m=bitmask, r=rows, i=INFINITY[dtype]: _core.apply_bitmask(
                    w, m, r, columns, i
                )
                shown = "".join(
                    " " * 8 + "-" if cell is None else f"{microseconds(cell) / batch:9.1f}" for cell in cells
                )
                print(f"{dtype:9} {batch:5} {share:>8}{shown}")


if __name__ == "__main__":
    main()
