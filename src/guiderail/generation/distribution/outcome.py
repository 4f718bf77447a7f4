"""The result of a draw: what it cost, and how certain its estimates are."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from guiderail.errors import ModelError

__all__ = ["Distribution", "Draw", "Estimate", "Particle", "PassesError", "log_of"]

Distribution = Literal["masked", "exact", "weighted"]

_NORMAL = 1.959963984540054  # standard deviations around the mean that contain 95 % of a normal distribution
_LEAST_FREEDOM = 2.0  # degrees of freedom below which no error is reported


class PassesError(ModelError):
    """No text was accepted within ``max_passes`` forward passes.

    Attributes:
        passes: the forward passes made for this text.
        mass: an upper bound, from what was seen, on the probability that the model keeps to the constraint by itself.
    """

    code = "max-passes"
    passes: int = 0
    mass: float = 1.0


@dataclass(frozen=True, slots=True)
class Estimate:
    """An estimated number with a confidence interval.

    Attributes:
        value: the estimate.
        low: lower end of an interval that holds the true number in about 95 of 100 estimates.
        high: upper end of that interval.
    """

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Particle:
    """A weighted text of a population.

    Attributes:
        text: the text.
        tokens: its token ids.
        log_weight: natural logarithm of its share of the population; the shares sum to 1. ``-inf`` if it did not end in
            time.
        family: index of the initial particle that it descends from. Particles of one family are not independent.
    """

    text: str
    tokens: tuple[int, ...]
    log_weight: float
    family: int


@dataclass(frozen=True, slots=True)
class Draw:
    """How an output was drawn from the model's own distribution under the constraint.

    Attributes:
        distribution: ``"exact"`` or ``"weighted"``.
        passes: forward passes that this draw needed, beyond what earlier draws of the same prompt had learned. Each row
            of a batch counts as one pass.
        attempts: the number of outputs that were begun.
        log_mass: natural logarithm of the probability that the model keeps to the constraint by itself and ends in
            time. ``"exact"``: an upper bound, ``log_bound``. ``"weighted"``: an unbiased estimate (of the probability,
            not of its logarithm).
        log_bound: natural logarithm of the probability of all outputs not yet known to be wrong, an upper bound on the
            above.
        effective_size: with ``"weighted"``, how many independent outputs the population is worth: Kish's 1 / Σ share².
            Otherwise None.
        resampled: with ``"weighted"``, how often outputs of low weight were replaced by copies of others.
        particles: with ``"weighted"``, the population; otherwise empty.
    """

    distribution: Distribution
    passes: int
    attempts: int
    log_mass: float
    log_bound: float
    effective_size: float | None = None
    resampled: int = 0
    particles: tuple[Particle, ...] = ()

    @property
    def mass(self) -> Estimate:
        """The probability that the model keeps to the constraint by itself and ends in time.

        With ``"exact"``, the interval reaches from 0 to the probability of all outputs not yet known to be wrong. With
        ``"weighted"``, it is Wilson's interval for a share of that probability; the variance is estimated from the
        families of the population (Lee & Whiteley 2018, "Variance estimation in the particle filter", §2).
        """
        most = math.exp(self.log_bound)
        if not self.particles:
            return Estimate(most, 0.0, most)
        share = min(1.0, math.exp(self.log_mass - self.log_bound))
        low, high = _wilson(share, share * share * self._variance(lambda _: 1.0), len(self.particles), self._deviations)
        return Estimate(math.exp(self.log_mass), most * low, most * high)

    def mean(self, function: Callable[[str], float]) -> Estimate:
        """Estimates the mean of a number over the outputs that the model would write under the constraint.

        Args:
            function: maps an output to a number. If it returns only 0 and 1, the result is a probability with Wilson's
                interval.

        Raises:
            ModelError: ``bad-option``: there is no population.
        """
        if not self.particles:
            raise ModelError(
                'an estimate needs a population: pass distribution="weighted", or take the mean over independent draws',
                code="bad-option",
            )
        shares = [(math.exp(one.log_weight), one.text) for one in self.particles]
        value = sum(share * function(text) for share, text in shares if share > 0)
        variance = self._variance(lambda text: function(text) - value)
        if {function(text) for share, text in shares if share > 0} <= {0, 1}:
            return Estimate(value, *_wilson(value, variance, self.effective_size or 1.0, self._deviations))
        spread = self._deviations * math.sqrt(variance)
        return Estimate(value, value - spread, value + spread)

    @property
    def _deviations(self) -> float:
        """How many standard deviations hold 95 % of Student's distribution (Abramowitz & Stegun 1964, 26.7.5).

        Student's, because a small population estimates its own variance badly.
        """
        z, freedom = _NORMAL, max(_LEAST_FREEDOM, (self.effective_size or 1.0) - 1)
        return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)

    def _variance(self, function: Callable[[str], float]) -> float:
        """The variance of the weighted sum of a function over the population, relative to the population's total."""
        count = len(self.particles)
        if count == 1:
            return math.inf
        families: dict[int, float] = {}
        total = 0.0
        for one in self.particles:
            share = math.exp(one.log_weight)
            value = share * function(one.text) if share > 0 else 0.0
            families[one.family] = families.get(one.family, 0.0) + value
            total += value
        factor = (count / (count - 1)) ** (self.resampled + 1)
        across = total * total - sum(value * value for value in families.values())
        return max(0.0, total * total - factor * across)


def _wilson(share: float, variance: float, most: float, deviations: float) -> tuple[float, float]:
    """Wilson's interval (1927) of a proportion that was estimated with this variance; its length is never 0.

    Args:
        most: upper bound on the number of successes seen: a unanimous population may have missed rare cases.
    """
    if share <= 0 or math.isinf(variance):
        return 0.0, 1.0
    count = most / share if variance <= 0 else min(most / share, share * (1 - share) / variance)
    square = deviations * deviations
    if count <= 0:
        return 0.0, 1.0
    centre = (share + square / (2 * count)) / (1 + square / count)
    spread = deviations / (1 + square / count) * math.sqrt(share * (1 - share) / count + square / (4 * count * count))
    return max(0.0, centre - spread), min(1.0, centre + spread)


def log_of(chance: float) -> float:
    """The logarithm of a probability; ``-inf`` of 0."""
    return math.log(chance) if chance > 0 else -math.inf
