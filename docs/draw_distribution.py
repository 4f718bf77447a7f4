"""Draws the picture of docs/distribution.md from figures that benchmarks/distribution.py measured.

python docs/draw_distribution.py

The figures are in ``docs/distribution.json``; each point is a mean over 30 seeds.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

from draw import FAINT, INK, PAPER

HERE = Path(__file__).parent
COLOURS = {"masked": "#b35900", "exact": "#1a7f37", "weighted": "#0969da", "genlm-control": "#8250df"}
LEFT, TOP, WIDTH, HEIGHT = 56, 24, 460, 260  # of the plot, pixels
MOST = 2048  # forward passes at the right end


def x_of(passes: float) -> float:
    return LEFT + WIDTH * math.log(max(passes, 4) / 4) / math.log(MOST / 4)


def y_of(error: float) -> float:
    return TOP + HEIGHT * (1 - error)


def svg(curves: dict[str, list[list[float]]]) -> str:
    """Plots the error of each method against its forward passes."""
    width, height = LEFT + WIDTH + 130, TOP + HEIGHT + 48
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'font-family="ui-monospace,Menlo,Consolas,monospace" font-size="12">',
        f'<rect width="100%" height="100%" rx="8" fill="{PAPER}"/>',
    ]
    for passes in (4, 16, 64, 256, 1024):
        x = x_of(passes)
        parts.append(f'<path d="M{x:.1f} {TOP}V{TOP + HEIGHT}" stroke="{FAINT}" stroke-width="0.4"/>')
        parts.append(f'<text x="{x:.1f}" y="{TOP + HEIGHT + 16}" text-anchor="middle" fill="{INK}">{passes}</text>')
    for error in (0.0, 0.25, 0.5, 0.75, 1.0):
        y = y_of(error)
        parts.append(f'<path d="M{LEFT} {y:.1f}H{LEFT + WIDTH}" stroke="{FAINT}" stroke-width="0.4"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end" fill="{INK}">{error:g}</text>')
    parts.append(f'<text x="{LEFT}" y="{TOP + HEIGHT + 36}" fill="{INK}">forward passes</text>')
    parts.append(f'<text x="{LEFT}" y="{TOP - 9}" fill="{INK}">total variation from the truth</text>')
    labels = sorted((y_of(points[-1][1]), way, points) for way, points in curves.items())
    below = 0.0
    for y, way, points in labels:
        colour = COLOURS[way]
        path = "L".join(f"{x_of(passes):.1f} {y_of(error):.1f}" for passes, error in points)
        parts.append(f'<path d="M{path}" stroke="{colour}" stroke-width="1.8" fill="none"/>')
        parts += [
            f'<circle cx="{x_of(passes):.1f}" cy="{y_of(error):.1f}" r="2.6" fill="{colour}"/>'
            for passes, error in points
        ]
        below = max(y, below + 15)
        parts.append(f'<text x="{x_of(points[-1][0]) + 8:.1f}" y="{below + 4:.1f}" fill="{colour}">{way}</text>')
    return "\n".join([*parts, "</svg>", ""])


def main() -> None:
    curves = json.loads((HERE / "distribution.json").read_text(encoding="utf-8"))["curves"]
    (HERE / "pictures" / "distribution.svg").write_text(svg(curves), encoding="utf-8")


if __name__ == "__main__":
    main()
