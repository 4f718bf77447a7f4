"""Draws the times of calls: one line per engine, with axes that show the slowest call in ten thousand.

The horizontal axis is time, logarithmic. The vertical axis is the share of calls that took at most this time, spaced by
nines: 0 %, 90 %, 99 %, 99.9 % are equally far apart.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

import numpy as np

COLORS = ("#0b7a75", "#d1495b", "#3066be", "#e09f3e", "#7d4e9f", "#6c757d")
WIDTH, HEIGHT = 860, 440
LEFT, RIGHT, TOP, BOTTOM = 74, 190, 54, 56
DECADES = 4  # number of nines on the axis


def distribution(series: Mapping[str, Sequence[int]], title: str, unit: str = "per token") -> str:
    """Returns an SVG of the cumulative distribution of each series.

    Args:
        series: name → times in nanoseconds, in any order; empty series are left out.
        title: written above.
        unit: what one time measures, written below the axis.
    """
    data = {name: np.sort(np.asarray(values, float)) / 1e3 for name, values in series.items() if len(values)}
    if not data:
        raise ValueError("there is nothing to draw: every series is empty")
    shares = 1 - 10 ** -np.linspace(0, DECADES, 400)
    curves = {name: np.quantile(values, shares) for name, values in data.items()}
    low = math.floor(math.log10(max(0.01, min(c[1] for c in curves.values()))))
    high = max(low + 1, math.ceil(math.log10(max(c[-1] for c in curves.values()))))

    def x(microseconds: float) -> float:
        part = (math.log10(max(microseconds, 10.0**low)) - low) / (high - low)
        return LEFT + part * (WIDTH - LEFT - RIGHT)

    def y(nines: float) -> float:
        return HEIGHT - BOTTOM - nines / DECADES * (HEIGHT - TOP - BOTTOM)

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
        ' font-family="system-ui, sans-serif" font-size="13" fill="#333">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="26" font-size="16" font-weight="600">{escape(title)}</text>',
    ]
    for decade in range(low, high + 1):
        at = x(10.0**decade)
        out.append(f'<path d="M{at:.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="#ddd"/>')
        out.append(f'<text x="{at:.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">{_time(decade)}</text>')
        for step in range(2, 10) if decade < high else ():
            minor = x(step * 10.0**decade)
            out.append(f'<path d="M{minor:.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="#f3f3f3"/>')
    for share, label in (
        (0, "0 %"),
        (0.5, "50 %"),
        (0.9, "90 %"),
        (0.99, "99 %"),
        (0.999, "99.9 %"),
        (None, "99.99 %"),
    ):
        at = y(DECADES if share is None else -math.log10(1 - share))
        out.append(f'<path d="M{LEFT} {at:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>')
        out.append(f'<text x="{LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{label}</text>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    out.append(f'<text x="{middle}" y="{HEIGHT - 12}" text-anchor="middle">{escape(f"time {unit}")}</text>')
    used: list[float] = []
    for index, (name, curve) in enumerate(curves.items()):
        color = COLORS[index % len(COLORS)]
        points = " ".join(
            f"{x(value):.1f},{y(nines):.1f}" for value, nines in zip(curve, np.linspace(0, DECADES, 400), strict=True)
        )
        out.append(f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="2.5"/>')
        at = TOP + 14 + 36 * len(used)
        used.append(at)
        start = WIDTH - RIGHT + 16
        mean = float(data[name].mean())
        out.append(f'<path d="M{start} {at - 4}h22" stroke="{color}" stroke-width="3"/>')
        out.append(f'<text x="{start + 28}" y="{at}" font-weight="600">{escape(name)}</text>')
        out.append(f'<text x="{start + 28}" y="{at + 15}" font-size="11" fill="#777">mean {_short(mean)}</text>')
    out.append("</svg>")
    return "\n".join(out) + "\n"


def _time(decade: int) -> str:
    if decade < 0:
        return f"{round(1000 * 10.0**decade)} ns"
    return f"{10**decade} µs" if decade < 3 else f"{10 ** (decade - 3)} ms" if decade < 6 else f"{10 ** (decade - 6)} s"


def _short(microseconds: float) -> str:
    return f"{microseconds:.3g} µs" if microseconds < 1000 else f"{microseconds / 1e3:.3g} ms"
