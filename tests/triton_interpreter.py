"""Run by test_bitmask.py with TRITON_INTERPRET=1: compares the Triton kernel with torch on the CPU."""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
from pathlib import Path

import numpy as np
import torch


def load_kernel():
    """Loads the kernel's module by its path; nothing else of the package is imported."""
    path = Path(__file__).parents[1] / "src/guiderail/matching/kernels/triton_bitmask.py"
    spec = importlib.util.spec_from_file_location("triton_bitmask", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main() -> None:
    kernel = load_kernel()
    torch.cuda.device_of = lambda tensor: contextlib.nullcontext()
    rng = np.random.default_rng(0)
    cases = 0
    dtypes = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
    for dtype, (columns, covered), layout, rows in itertools.product(
        dtypes, ((40, 40), (4096 + 77, 4096 + 77), (9000, 8200)), ("plain", "strided"), (None, [2, 0])
    ):
        words = (covered + 31) // 32
        bits = rng.random((3, words * 32)) < 0.5
        bits[1] = True
        mask = torch.from_numpy(np.packbits(bits, axis=1, bitorder="little").view(np.int32))
        values = torch.randn(3, columns).to(dtype)
        logits = values.clone()
        if layout == "strided":
            mask = mask.repeat_interleave(2, dim=1)[:, ::2]
            logits = values.repeat_interleave(3, dim=1)[:, ::3]
        kernel.apply_rows(logits, mask, rows, covered)
        banned = np.ones((3, columns), bool)
        banned[:, :covered] = ~bits[:, :covered]
        if rows is not None:
            banned[[r for r in range(3) if r not in rows]] = False
        expected = values.masked_fill(torch.from_numpy(banned), float("-inf"))
        assert torch.equal(logits, expected), (dtype, columns, covered, layout, rows)
        cases += 1
    print(cases, "cases agree")


if __name__ == "__main__":
    main()
