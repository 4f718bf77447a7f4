"""The probabilities of a token and its rivals, kept in place of the logits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from guiderail.generation.sampling import probabilities
from guiderail.generation.weights import log_sum

__all__ = ["Weights", "weigh"]


@dataclass(frozen=True, slots=True)
class Weights:
    """The result of :func:`weigh`: ``before`` … ``preferred`` as in :class:`Step`, and tokens with their
    probabilities.

    ``log_left`` is the natural logarithm of the total probability of the allowed tokens.
    """

    before: float
    after: float
    removed: float
    preferred: int
    blocked: tuple[tuple[int, float], ...]
    candidates: tuple[tuple[int, float, float], ...]
    log_left: float


def weigh(token: int, allowed: NDArray[np.bool_], logits: NDArray[np.float32], top: int) -> Weights:
    """Extracts the probabilities of a token and its rivals, so that the logits need not be kept.

    Args:
        token: the token that came.
        allowed: the tokens that could come, shape ``(size,)``.
        logits: the model's logits before the mask, shape ``(logits_size,)``.
        top: how many of the allowed tokens to keep, and how many of the forbidden ones.
    """
    width = min(len(allowed), len(logits))
    allowed = allowed[:width]
    before = probabilities(logits[:width])
    # The logits again: what is left may be too little for the quotient of the probabilities.
    masked = np.where(allowed, logits[:width], -np.inf).astype(np.float32)
    after = probabilities(masked) if allowed.any() and np.isfinite(masked.max()) else np.zeros(width)
    own = float(before[token]) if token < width else 0.0
    forbidden = np.where(allowed, -1.0, before)
    preferred = int((forbidden > own).sum())
    blocked = [i for i in _largest(forbidden, min(top, preferred)) if forbidden[i] > own]
    best = [i for i in _largest(np.where(allowed, before, -1.0), top) if allowed[i]]
    return Weights(
        own,
        float(after[token]) if token < width else 0.0,
        min(1.0, float(before[~allowed].sum())),
        preferred,
        tuple((i, float(before[i])) for i in blocked),
        tuple((i, float(before[i]), float(after[i])) for i in best),
        min(0.0, log_sum(masked) - log_sum(logits[:width])),
    )


def _largest(values: NDArray[np.float64], count: int) -> list[int]:
    """The indices of the greatest values in descending order; of equal values, the lower index first."""
    if count <= 0:
        return []
    if count < len(values):
        border = np.partition(values, -count)[-count]
        kept = np.flatnonzero(values >= border)
    else:
        kept = np.arange(len(values))
    order = np.lexsort((kept, -values[kept]))[:count]
    return [int(i) for i in kept[order]]
