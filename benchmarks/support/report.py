"""Formats the benchmarks' output: Markdown tables, quantiles, microseconds; shows how far they are."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np


def table(head: list[str], rows: list[list[str]]) -> str:
    """Formats a Markdown table: the first column is aligned left, the others right."""
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]

    def line(cells: list[str]) -> str:
        padded = (c.rjust(w) if i else c.ljust(w) for i, (c, w) in enumerate(zip(cells, widths, strict=True)))
        return f"| {' | '.join(padded)} |"

    rule = "|" + "|".join("-" * (w + 1) + (":" if i else "-") for i, w in enumerate(widths)) + "|"
    return "\n".join([line(head), rule, *map(line, rows)])


def micro(nanoseconds: float) -> str:
    """Formats nanoseconds as microseconds with three significant digits; NaN is a dash."""
    if not np.isfinite(nanoseconds):
        return "–"
    value = nanoseconds / 1e3
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def mean_and_quantiles(values: Sequence[float], percents: Sequence[float] = (50, 90, 99)) -> list[float]:
    """Returns the mean, then these percentiles; NaN if there are no values."""
    if not len(values):
        return [float("nan")] * (1 + len(percents))
    a = np.asarray(values, float)
    return [float(a.mean()), *(float(q) for q in np.percentile(a, percents))]


def progress(text: str) -> None:
    """Shows a line that the next one overwrites, only on a terminal."""
    if sys.stderr.isatty():
        print(f"\r{text:<110}\r", end="", file=sys.stderr, flush=True)
