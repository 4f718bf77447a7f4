"""The probabilities of a token and its rivals, kept in place of the logits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from guiderail.generation.sampling import largest, probabilities
from guiderail.generation.weights import log_sum
from guiderail.support.arguments import checked

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


@checked
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
    # From the logits again: the remaining probability may be too small to divide by.
    masked = np.where(allowed, logits[:width], -np.inf).astype(np.float32)
    after = probabilities(masked) if allowed.any() and np.isfinite(masked.max()) else np.zeros(width)
    own = float(before[token]) if token < width else 0.0
    forbidden = np.where(allowed, -1.0, before)
    preferred = int((forbidden > own).sum())
    blocked = [i for i in largest(forbidden, min(top, preferred)).tolist() if forbidden[i] > own]
    best = [i for i in largest(np.where(allowed, before, -1.0), top).tolist() if allowed[i]]
    return Weights(
        own,
        float(after[token]) if token < width else 0.0,
        min(1.0, float(before[~allowed].sum())),
        preferred,
        tuple((i, float(before[i])) for i in blocked),
        tuple((i, float(before[i]), float(after[i])) for i in best),
        min(0.0, log_sum(masked) - log_sum(logits[:width])),
    )
