"""Log-probabilities of drawn tokens."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from guiderail.generation.sampling import largest

__all__ = ["Likelihoods", "TokenLogprob"]


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """A token with its log-probability (natural logarithm).

    Attributes:
        token: the token id.
        logprob: its log-probability.
        top: the most likely tokens as pairs of id and log-probability, best first. Empty for a forced token: the model
            was not asked.
    """

    token: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()


class Likelihoods:
    """A softmax, kept while the logits change.

    Args:
        logits: shape ``(tokens,)``; ``-inf`` where a token is not allowed.
        count: how many of the most likely allowed tokens to report.
    """

    def __init__(self, logits: NDArray[np.float32], count: int) -> None:
        wide = logits.astype(np.float64)
        top = wide.max()
        self._logprobs: NDArray[np.float64] = wide - (top + np.log(np.exp(wide - top).sum()))
        best = largest(wide, count)
        self._best = best[wide[best] > -np.inf]

    def of(self, token: int) -> TokenLogprob:
        """Returns the log-probability of a token."""
        top = tuple((int(i), float(self._logprobs[i])) for i in self._best)
        return TokenLogprob(token, float(self._logprobs[token]), top)
