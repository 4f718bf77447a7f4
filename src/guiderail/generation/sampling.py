"""Samples a token from masked logits: temperature, top-k, top-p, reproducible by seed."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from guiderail.errors import ModelError
from guiderail.support.options import check_integer, is_real
from guiderail.support.texts import shown

__all__ = ["Sampler", "Sampling", "largest", "probabilities", "random_of"]

_LIKELY = 1024  # tokens among which top_p is usually reached
_FEW = 16  # tokens on which a draw may rest


@dataclass(frozen=True, slots=True)
class Sampling:
    """How to choose a token.

    Attributes:
        temperature: 0 takes the most likely token; 1 samples from the model's own probabilities.
        top_p: keep the most likely tokens that together reach this probability, in (0, 1] (Holtzman et al. 2020,
            "The Curious Case of Neural Text Degeneration", §3.1).
        top_k: keep only this many of the most likely tokens; None keeps all.
        seed: makes a run repeatable; None draws a fresh one.

    Raises:
        ModelError: ``bad-option`` for a value out of range.
    """

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int | None = None
    seed: int | None = None

    def __post_init__(self) -> None:
        if not is_real(self.temperature) or self.temperature < 0:
            raise ModelError(f"temperature must be 0 or more, not {shown(self.temperature)}", code="bad-option")
        if not is_real(self.top_p) or not 0 < self.top_p <= 1:
            raise ModelError(f"top_p must be above 0 and at most 1, not {shown(self.top_p)}", code="bad-option")
        check_integer("top_k", self.top_k, 1, optional=True, error=ModelError, code="bad-option")
        check_integer("seed", self.seed, 0, optional=True, error=ModelError, code="bad-option")

    @property
    def is_greedy(self) -> bool:
        """Whether the most likely token is taken."""
        return self.temperature == 0 or self.top_k == 1


def probabilities(logits: NDArray[np.float32], temperature: float = 1.0) -> NDArray[np.float64]:
    """Softmax of ``logits / temperature``, in double precision; ``-inf`` becomes exactly 0.

    Args:
        logits: shape ``(tokens,)``; ``-inf`` for tokens that are not allowed.
        temperature: above 0.

    Raises:
        ModelError: ``bad-logits``: there is NaN or +inf, or nothing is allowed.
    """
    top = float(np.max(logits, initial=-np.inf))
    if not math.isfinite(top):
        what = "no token is allowed" if top == -math.inf else "the model's logits are not numbers (NaN or infinity)"
        raise ModelError(what, code="bad-logits")
    # Subtracting the greatest before dividing keeps a tiny temperature from overflowing.
    with np.errstate(over="ignore", under="ignore"):  # (x - top) / tiny may reach -inf: exp makes it 0, as it should
        weights: NDArray[np.float64] = np.exp((logits.astype(np.float64) - top) / temperature)
    weights /= weights.sum()
    return weights


def largest(values: NDArray[np.floating], count: int) -> NDArray[np.int64]:
    """The indices of the greatest values in descending order; of equal values, the lower index first.

    Args:
        values: shape ``(values,)``.
        count: at most how many, 0 or more.
    """
    kept = np.arange(len(values))
    if count < len(values):  # sorting all takes long
        kept = np.flatnonzero(values >= np.partition(values, -count)[-count]) if count > 0 else kept[:0]
    return kept[np.argsort(-values[kept], kind="stable")][:count]


def random_of(seed: int | None, row: int) -> np.random.Generator:
    """The random numbers of one row of a call: a row does not depend on the others."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(row,))))


class Sampler:
    """Draws tokens for one row, from a stream of its own: a row does not depend on the others."""

    def __init__(self, sampling: Sampling, row: int = 0) -> None:
        self.sampling = sampling
        self._random = random_of(sampling.seed, row)
        self._kept: tuple[NDArray[np.int64], NDArray[np.float64]] | None = None  # of the last draw

    def __call__(self, logits: NDArray[np.float32]) -> int:
        """Samples the next token.

        Args:
            logits: shape ``(tokens,)``; ``-inf`` for tokens that are not allowed. Not changed.

        Raises:
            ModelError: ``bad-logits``: there is NaN or +inf, or nothing is allowed.
        """
        if self.sampling.is_greedy:
            return self._best(logits)
        self._kept = self._chances(logits)
        return self._pick(*self._kept)

    def witnesses(self, drawn: int) -> list[int] | None:
        """Tokens on which the last draw rests: if they stay allowed, it stands, whichever others prove to be forbidden.

        A draw stands if its token would be at least as likely without those others. ``top_k`` alone only makes room for
        tokens that were not kept. ``top_p`` keeps the most likely tokens until they have that share of the whole. The
        whole shrinks with others, at most to what the kept tokens have together.

        Args:
            drawn: the token of the last draw.

        Returns:
            None: this cannot be said, or they are too many to examine each.
        """
        if self._kept is None or self.sampling.top_p == 1:
            return []
        kept, chances = self._kept
        if len(kept) > _FEW or float(chances[: kept.tolist().index(drawn)].sum()) >= self.sampling.top_p:
            return None
        return [int(token) for token in kept]

    def again(self, first: int, before: NDArray[np.float32], logits: NDArray[np.float32]) -> int:
        """The token in place of one that was drawn before more tokens were forbidden: the same, as often as it can be.

        The result is distributed as a fresh draw, and differs from ``first`` as seldom as any such draw may: with the
        total variation of the two distributions (a maximal coupling; Lindvall 1992, "Lectures on the Coupling Method",
        §I.5).

        Args:
            first: drawn from ``before``.
            before: shape ``(tokens,)``.
            logits: the same with more tokens at ``-inf``.

        Raises:
            ModelError: ``bad-logits``, as for a first draw.
        """
        kept, chances = self._chances(logits)
        past = np.zeros(len(logits))
        earlier, likely = self._chances(before)
        past[earlier] = likely
        (place,) = np.nonzero(kept == first)
        share = float(chances[place[0]]) / past[first] if len(place) else 0.0
        if share >= 1 or (share > 0 and self._random.random() < share):
            return first
        gained = np.maximum(chances - past[kept], 0)
        total = float(gained.sum())
        return self._pick(kept, gained / total) if total > 0 else self._pick(kept, chances)

    @staticmethod
    def _best(logits: NDArray[np.float32]) -> int:
        best = int(logits.argmax()) if len(logits) else 0
        if not len(logits) or not math.isfinite(float(logits[best])):
            probabilities(logits)  # raises, with the reason
        return best

    def _pick(self, kept: NDArray[np.int64], chances: NDArray[np.float64]) -> int:
        place = int(np.searchsorted(np.cumsum(chances), self._random.random(), "right"))
        return int(kept[min(place, len(kept) - 1)])  # rounding may leave the sum a little below 1

    def _chances(self, logits: NDArray[np.float32]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The tokens that may be drawn, with their probabilities."""
        options = self.sampling
        if options.is_greedy:
            return np.array([self._best(logits)]), np.ones(1)
        kept = np.flatnonzero(logits != -np.inf)
        if options.top_k is not None and options.top_k < len(kept):
            kept = kept[largest(logits[kept], options.top_k)]
        chances = probabilities(logits[kept], options.temperature)
        if options.top_p < 1:
            for count in (_LIKELY, len(chances)):
                order = largest(chances, count)
                reached = np.cumsum(chances[order])
                if reached[-1] >= options.top_p:
                    break
            enough = int(np.searchsorted(reached, options.top_p)) + 1
            order = order[:enough]
            kept, chances = kept[order], chances[order] / chances[order].sum()
        return kept, chances
