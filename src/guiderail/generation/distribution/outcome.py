"""What a draw says about itself: what it cost, and how sure its estimates are."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from guiderail.errors import ModelError

__all__ = ["Distribution", "Draw", "Estimate", "Particle", "PassesError", "log_mass_of"]

Distribution = Literal["masked", "exact", "weighted"]

_NORMAL = 1.959963984540054  # 95 % of a normal distribution lie within so many standard deviations
_LEAST_FREEDOM = 2.0  # degrees of freedom below which nothing is said about an error


class PassesError(ModelError):
    """No text was accepted within ``max_passes`` forward passes.

    Attributes:
        passes: that were made for this text.
        mass: the probability that the model keeps to the constraint is not greater than this, as far as it was seen.
    """

    code = "max-passes"
    passes: int = 0
    mass: float = 1.0


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number that was estimated.

    Attributes:
        value: the estimate.
        low: where an interval begins that holds the true number in about 95 of 100 estimates.
        high: where it ends.
    """

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Particle:
    """One of the weighted texts of a population.

    Attributes:
        text: the text.
        tokens: its tokens.
        log_weight: the logarithm of its share of the population; the shares sum to 1. ``-inf``: it did not end in time.
        family: the particle of the start that it descends from; those of a family are not independent.
    """

    text: str
    tokens: tuple[int, ...]
    log_weight: float
    family: int


@dataclass(frozen=True, slots=True)
class Draw:
    """How a text was drawn from the model's own distribution under the constraint.

    Attributes:
        distribution: ``"exact"`` or ``"weighted"``.
        passes: forward passes of one text (a row of a batch counts as one) that this draw needed, beyond what earlier
            draws of the same prompt had learned.
        attempts: how many texts were begun.
        log_mass: the natural logarithm of the probability that the model keeps to the constraint by itself and ends in
            time. ``"exact"``: an upper bound, what is not known to be wrong. ``"weighted"``: an unbiased estimate (of
            the probability, not of its logarithm).
        effective_size: ``"weighted"``: how many independent texts the population is worth, Kish's 1 / Σ share²; else
            None.
        resampled: ``"weighted"``: how often texts of little weight were given up for copies of others.
        particles: ``"weighted"``: the population; else empty.
    """

    distribution: Distribution
    passes: int
    attempts: int
    log_mass: float
    effective_size: float | None = None
    resampled: int = 0
    particles: tuple[Particle, ...] = ()

    @property
    def mass(self) -> Estimate:
        """The probability that the model keeps to the constraint by itself and ends in time.

        ``"exact"``: the interval reaches from 0 to what is not known to be wrong. ``"weighted"``: an estimate; its
        interval is that of a log-normal number whose variance is taken from the families of the population (Lee &
        Whiteley 2018, "Variance estimation in the particle filter", §2).
        """
        most = math.exp(self.log_mass)
        if not self.particles:
            return Estimate(most, 0.0, most)
        spread = self._deviations * math.sqrt(self._variance(lambda _: 1.0))
        return Estimate(most, math.exp(self.log_mass - spread), min(1.0, math.exp(min(0.0, self.log_mass + spread))))

    def mean(self, function: Callable[[str], float]) -> Estimate:
        """Estimates the mean of a number over the texts that the model would write under the constraint.

        Args:
            function: from a text to a number; 0 or 1 for the probability of something.

        Raises:
            ModelError: ``bad-option``: there is no population.
        """
        if not self.particles:
            raise ModelError(
                'an estimate needs a population: pass distribution="weighted", or take the mean over texts that were '
                "drawn one by one",
                code="bad-option",
            )
        shares = [(math.exp(one.log_weight), one.text) for one in self.particles]
        value = sum(share * function(text) for share, text in shares if share > 0)
        spread = self._deviations * math.sqrt(self._variance(lambda text: function(text) - value))
        return Estimate(value, value - spread, value + spread)

    @property
    def _deviations(self) -> float:
        """So many standard deviations hold 95 % of Student's distribution: a small population tells its own variance
        badly (Abramowitz & Stegun 1964, 26.7.5)."""
        z, freedom = _NORMAL, max(_LEAST_FREEDOM, (self.effective_size or 1.0) - 1)
        return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)

    def _variance(self, function: Callable[[str], float]) -> float:
        """Of the weighted sum of a function over the population, relative to the population's own total."""
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


def log_mass_of(alive: float) -> float:
    """The logarithm of a probability; ``-inf`` of 0."""
    return math.log(alive) if alive > 0 else -math.inf
