"""The importance weight of a text: what its masks left of the model's own distribution, as one number.

At each step, a mask leaves some of the probability that the model gives to all tokens. The product of these is the
importance weight of the text: a text ``x`` is written with probability ``q(x)``, and the model alone writes it with
``p(x) = q(x) · weight(x)``. So a weighted mean over texts is a mean over what the model itself would have written and
the constraint allows, and the mean weight is the probability that the model keeps to the constraint by itself (Loula et
al. 2025, arXiv 2504.13139, §2).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from guiderail.generation.penalties import Penalties, Tally
from guiderail.generation.sampling import Sampling

__all__ = ["LogWeight", "log_sum"]


def log_sum(logits: NDArray[np.float32], temperature: float = 1.0) -> float:
    """``log(sum(exp(logits / temperature)))``, within 1e-6; ``-inf`` if there is nothing.

    Args:
        logits: shape ``(tokens,)``; ``-inf`` for tokens that are not allowed. Not changed.
    """
    top = float(logits.max(initial=-np.inf))
    if not math.isfinite(top):
        return top
    with np.errstate(over="ignore", under="ignore"):  # a logit far below the maximum underflows to zero
        weights = (logits - np.float32(top)) / np.float32(max(temperature, 1e-30))
        return top / temperature + math.log(float(np.exp(weights, out=weights).sum(dtype=np.float64)))


class LogWeight:
    """The weight of one text while it is written; see ``Generation.log_weight`` for its meaning.

    Attributes:
        value: the log-weight of the tokens counted; None once one cannot be counted.
        counted: how many tokens were counted.
        closed: whether the end of the text was counted, too.
    """

    def __init__(self, sampling: Sampling, penalties: Penalties, prompt: Sequence[int]) -> None:
        self.value: float | None = 0.0
        self.counted = 0
        self.closed = False
        self._temperature = sampling.temperature or 1.0
        self._tally = Tally(penalties, prompt) if penalties else None

    def whole(self, logits: NDArray[np.float32]) -> float:
        """The total before the mask, of logits after penalties, shape ``(tokens,)``: for :meth:`drawn`."""
        return log_sum(logits, self._temperature)

    def drawn(self, token: int, whole: float, logits: NDArray[np.float32], *, refused: bool = False) -> None:
        """Counts a sampled token.

        Args:
            logits: the masked logits that it was sampled from, shape ``(tokens,)``.
            refused: whether it replaced a token that would have left too few tokens to finish.
        """
        self._count(token, -math.inf if refused else log_sum(logits, self._temperature) - whole)

    def forced(self, token: int, logits: NDArray[np.float32]) -> None:
        """Counts a token that was written without asking the model.

        Args:
            logits: before it, of the model, shape ``(tokens,)``; not changed.
        """
        logits = self._penalized(logits)
        own = float(logits[token]) / self._temperature if token < len(logits) else -math.inf
        self._count(token, own - log_sum(logits, self._temperature))

    def ended(self, logits: NDArray[np.float32], stops: Sequence[int]) -> None:
        """Counts the end of a text after which only a stop token could come.

        Args:
            logits: after its last token, as for :meth:`forced`.
            stops: the stop tokens; without one, the end costs nothing.
        """
        self.closed = True
        if stops:
            logits = self._penalized(logits)
            known = [stop for stop in stops if stop < len(logits)]
            self._add(log_sum(logits[known], self._temperature) - log_sum(logits, self._temperature))

    def _count(self, token: int, left: float) -> None:
        self.counted += 1
        if self._tally is not None:
            self._tally.note(token)
        self._add(left)

    def _add(self, left: float) -> None:
        if self.value is not None:
            self.value += min(0.0, left)  # rounding may leave a little more than there was

    def _penalized(self, logits: NDArray[np.float32]) -> NDArray[np.float32]:
        if self._tally is not None:
            logits = logits.copy()
            self._tally.apply(logits)
        return logits
