"""Checks and measures the Triton kernel that applies bitmasks on a CUDA device.

    python benchmarks/gpu_bitmask.py --json result.json

Needs only torch, triton and NumPy. The kernel is loaded by its path, so the package need not be built. XGrammar's own
Triton kernel is measured too, if it is installed.

*Bytes* counts the bytes that must move: the words of the mask, and the 32-byte sectors of the logits that contain a
banned token. The rate is compared with that of a copy between two buffers on the same device in the same run (bytes
read and written both count). Buffers rotate, so no call finds its logits in the cache. Times are medians of CUDA events
around a batch of calls.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

SECTOR = 32  # bytes: the smallest write to a GPU's memory
ROTATION = 2**29  # bytes of logits to touch before a buffer is used again


def load_kernel() -> Any:
    path = Path(__file__).parents[1] / "src/guiderail/matching/kernels/triton_bitmask.py"
    spec = importlib.util.spec_from_file_location("triton_bitmask", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def load_xgrammar() -> Callable[..., None] | None:
    try:
        from xgrammar.kernels.apply_token_bitmask_inplace_triton import apply_token_bitmask_inplace_triton
    except ImportError:
        return None
    return apply_token_bitmask_inplace_triton


def packed(bits: np.ndarray) -> torch.Tensor:
    padded = np.zeros((len(bits), -(-bits.shape[1] // 32) * 32), bool)
    padded[:, : bits.shape[1]] = bits
    return torch.from_numpy(np.packbits(padded, axis=1, bitorder="little").view(np.int32)).cuda()


def check(kernel: Any) -> int:
    """Compares the kernel with torch's ``masked_fill``, and returns the number of cases that agreed."""
    rng = np.random.default_rng(0)
    cases = 0
    dtypes = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
    widths = ((1, 1), (33, 33), (128256, 128256), (128256, 128000), (151936, 151669))
    layouts = ("plain", "rows apart", "columns apart", "transposed")
    for dtype, (columns, covered), layout, rows in itertools.product(dtypes, widths, layouts, (None, [6, 1, 3])):
        bits = rng.random((7, covered)) < rng.choice([0.001, 0.5, 0.999])
        bits[2] = True
        mask = packed(bits)
        values = torch.randn(7, columns, device="cuda").to(dtype)
        logits = values.clone()
        if layout == "rows apart":
            logits = torch.zeros(7, columns + 13, device="cuda", dtype=dtype)[:, :columns].copy_(values)
            mask = torch.cat([mask, mask], dim=1)[:, : mask.shape[1]]
        elif layout == "columns apart":
            logits = torch.zeros(7, columns * 2, device="cuda", dtype=dtype)[:, ::2].copy_(values)
            mask = mask.repeat_interleave(2, dim=1)[:, ::2]
        elif layout == "transposed":
            logits = values.t().contiguous().t()
        kernel.apply_rows(logits, mask, rows, covered)
        banned = np.ones((7, columns), bool)
        banned[:, :covered] = ~bits[:, : min(covered, columns)]
        if rows is not None:
            banned[[row for row in range(7) if row not in rows]] = False
        expected = values.masked_fill(torch.from_numpy(banned).cuda(), float("-inf"))
        assert torch.equal(logits, expected), (dtype, columns, covered, layout, rows)
        cases += 1
    # more than 2**31 logits: offsets must not wrap
    count = 2**31 // 128256 + 8
    if torch.cuda.mem_get_info()[0] > count * 128256 * 2 * 1.2:
        logits = torch.zeros(count, 128256, device="cuda", dtype=torch.bfloat16)
        mask = packed(rng.random((1, 128256)) < 0.5).repeat(count, 1)
        kernel.apply_rows(logits, mask, None, 128256)
        assert torch.equal(logits[0], logits[-1]) and logits[-1].isneginf().any()
        cases += 1
    return cases


def median_us(calls: list[Callable[[], object]], repeats: int) -> float:
    """Returns the median microseconds per call; ``calls`` take turns."""
    for call in calls:
        call()
    torch.cuda.synchronize()
    times = []
    for _ in range(repeats):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for call in calls:
            call()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) * 1000 / len(calls))
    return statistics.median(times)


def copy_rate(repeats: int) -> float:
    """Returns the rate of a copy on the device in GB/s; bytes read and written both count."""
    size = 2**30
    source = torch.empty(size, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    return 2 * size / median_us([lambda: target.copy_(source)] * 4, repeats) / 1e3


def moved_bytes(bits: np.ndarray, batch: int, itemsize: int) -> int:
    per_sector = SECTOR // itemsize
    padded = np.zeros(-(-bits.shape[1] // per_sector) * per_sector, bool)
    padded[: bits.shape[1]] = ~bits[0]
    sectors = int(padded.reshape(-1, per_sector).any(axis=1).sum())
    return batch * (sectors * SECTOR + -(-bits.shape[1] // 32) * 4)


def measure(kernel: Any, vocabulary: int, repeats: int) -> list[dict[str, Any]]:
    rival = load_xgrammar()
    rng = np.random.default_rng(1)
    results = []
    for dtype, batch, allowed in itertools.product(
        (torch.bfloat16, torch.float32), (1, 32, 256, 2048), (0.0001, 0.5, 0.9999, 1.0)
    ):
        itemsize = dtype.itemsize
        bits = np.repeat(rng.random((1, vocabulary)) < allowed, batch, axis=0)
        if allowed == 1.0:
            bits[:] = True
        mask = packed(bits)
        copies = max(2, min(64, ROTATION // (batch * vocabulary * itemsize) + 1))
        buffers = [torch.zeros(batch, vocabulary, device="cuda", dtype=dtype) for _ in range(copies)]
        ours = median_us(
            [lambda b=b, mask=mask: kernel.apply_rows(b, mask, None, vocabulary) for b in buffers], repeats
        )
        moved = moved_bytes(bits, batch, itemsize)
        row = {
            "dtype": str(dtype).removeprefix("torch."),
            "batch": batch,
            "allowed": allowed,
            "us": round(ours, 2),
            "gb_per_s": round(moved / ours / 1e3, 1),
        }
        row["fill_us"] = round(median_us([lambda b=b: b.fill_(0) for b in buffers], repeats), 2)
        if rival is not None:
            row["xgrammar_us"] = round(median_us([lambda b=b, mask=mask: rival(b, mask) for b in buffers], repeats), 2)
        results.append(row)
        print(json.dumps(row), flush=True)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--vocabulary", type=int, default=128256)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("no CUDA device; the tests check the kernel in Triton's interpreter")
    kernel = load_kernel()
    report: dict[str, Any] = {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "vocabulary": arguments.vocabulary,
        "cases_that_agree": check(kernel),
        "copy_gb_per_s": round(copy_rate(arguments.repeats), 1),
    }
    print(json.dumps(report), flush=True)
    report["rows"] = measure(kernel, arguments.vocabulary, arguments.repeats)
    for row in report["rows"]:
        row["share_of_copy"] = round(row["gb_per_s"] / report["copy_gb_per_s"], 3)
    largest = [r for r in report["rows"] if r["batch"] == 2048 and r["allowed"] < 0.9]
    print("share of a copy's rate, largest batch:", [r["share_of_copy"] for r in largest])
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
