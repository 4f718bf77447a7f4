"""Penalties on tokens that a text already contains: on their logits, before the mask."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from guiderail.errors import ModelError
from guiderail.support.options import is_real
from guiderail.support.texts import shown

__all__ = ["Penalties", "Tally"]

_MOST = float(np.finfo(np.float32).max)


@dataclass(frozen=True, slots=True)
class Penalties:
    """What a token loses for occurring in the text.

    Attributes:
        presence: subtracted from the logit of each token that was written, in [-2, 2].
        frequency: subtracted for each time that it was written, in [-2, 2].
        repetition: divides a positive logit and multiplies a negative one, for tokens that were written or are in the
            prompt; above 0, and 1 changes nothing (Keskar et al. 2019, "CTRL", §4.1).

    Raises:
        ModelError: ``bad-option`` for a value out of range.
    """

    presence: float = 0.0
    frequency: float = 0.0
    repetition: float = 1.0

    def __post_init__(self) -> None:
        for name in ("presence", "frequency"):
            value = getattr(self, name)
            if not is_real(value) or not -2 <= value <= 2:
                raise ModelError(f"{name}_penalty must be from -2 to 2, not {shown(value)}", code="bad-option")
        if not is_real(self.repetition) or not 0 < self.repetition <= 100:
            raise ModelError(
                f"repetition_penalty must be above 0 and at most 100 (1 changes nothing), not {shown(self.repetition)}",
                code="bad-option",
            )

    def __bool__(self) -> bool:
        return bool(self.presence or self.frequency or self.repetition != 1)


class Tally:
    """The tokens of one text, and what they lose."""

    def __init__(self, penalties: Penalties, prompt: Sequence[int]) -> None:
        self._penalties = penalties
        self._seen = set(prompt) if penalties.repetition != 1 else set()
        self._counts: dict[int, int] = {}

    def note(self, token: int) -> None:
        """Counts a token that was written."""
        self._counts[token] = self._counts.get(token, 0) + 1
        if self._penalties.repetition != 1:
            self._seen.add(token)

    def apply(self, logits: NDArray[np.float32]) -> None:
        """Changes logits of shape ``(logits_size,)`` in place."""
        factor = self._penalties.repetition
        if self._seen:
            ids = np.fromiter(self._seen, np.int64, len(self._seen))
            values = logits[ids].astype(np.float64)
            with np.errstate(over="ignore"):  # a tiny factor
                changed = np.where(values > 0, values / factor, values * factor)
            logits[ids] = np.where(np.isfinite(values), np.clip(changed, -_MOST, _MOST), changed)
        if self._counts and (self._penalties.presence or self._penalties.frequency):
            ids = np.fromiter(self._counts, np.int64, len(self._counts))
            counts = np.fromiter(self._counts.values(), np.float32, len(self._counts))
            logits[ids] -= self._penalties.presence + self._penalties.frequency * counts
