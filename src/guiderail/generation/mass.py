"""How likely a model is to keep to a constraint by itself.

A text that is drawn under masks has an importance weight: how likely the model would have written it without masks,
over how likely it was written. The mean weight is the probability that the model writes a text of the constraint.
Weights lie between 0 and 1, so a confidence interval needs to assume nothing else about them: it is that of a bettor
who would have grown rich by now if the mean were outside (Waudby-Smith & Ramdas 2024, "Estimating means of bounded
random variables by betting", JRSS B 86, §4: hedged capital with predictable plug-in bets).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from guiderail.constraints.enumeration import texts_of
from guiderail.errors import CompileError, LimitError, ModelError
from guiderail.generation.conversation import Prompt, prompts_of
from guiderail.generation.generate import encoded_prompt, generations
from guiderail.generation.options import DEFAULT_MAX_TOKENS, options_of
from guiderail.generation.probabilities import MAX_PREFIXES, Counting, opened, probabilities_of
from guiderail.generation.result import Generation
from guiderail.generation.targets import as_constraint
from guiderail.matching.guide import Guide
from guiderail.support.texts import shown

__all__ = ["Mass", "interval", "mass"]

SAMPLES = 64
_FEW_TEXTS = 64  # of these the probabilities are computed, rather than estimated
_FEW_PREFIXES = 1024
_TRUNCATED = 0.5  # the part of its capital that a bet may lose at most


@dataclass(frozen=True, slots=True)
class Mass:
    """The probability that a model writes a text of a constraint by itself.

    Attributes:
        estimate: the probability.
        low, high: an interval that holds it with probability ``confidence``, whatever the constraint and the model.
        confidence: 1 where it was computed.
        exact: it was computed from the probabilities of all texts; nothing was drawn.
        samples: texts drawn.
        effective_samples: how many equally weighted texts would tell as much, from 0 to ``samples``. Far fewer than
            ``samples``: a few texts hold most of the weight, and the estimate is mostly too low.
    """

    estimate: float
    low: float
    high: float
    confidence: float
    exact: bool
    samples: int
    effective_samples: float

    def __float__(self) -> float:
        return self.estimate


def mass(
    model: Any,
    prompt: Prompt,
    constraint: Any,
    *,
    samples: int = SAMPLES,
    confidence: float = 0.95,
    max_tokens: int = DEFAULT_MAX_TOKENS,
    seed: int | None = None,
    exact: bool | None = None,
    system: str | None = None,
    chat: bool = True,
    describe: bool = False,
) -> Mass:
    """How likely the model is to keep to a constraint without masks: that all it writes is a text of it.

    A figure that tells when a prompt is bad: where it is small, masks make the model write what it would not have
    written. It is computed where the constraint has few texts, and estimated from texts drawn under masks otherwise.

    Args:
        model, prompt, system, chat, describe: as for :func:`generate`.
        constraint: whatever :func:`generate` takes as a target.
        samples: texts to draw, 2 or more.
        confidence: of the interval, between 0 and 1.
        max_tokens: a text counts if the model ends it within so many tokens.
        seed: makes the estimate repeatable.
        exact: compute it (True), or estimate it (False); None computes it for up to 64 texts.

    Returns:
        A :class:`Mass`, with ``estimate``, ``low`` and ``high``.

    Raises:
        LimitError: ``too-many-texts``, ``too-many-prefixes``: with ``exact=True``.
        CompileError: this is not a target, or it cannot be compiled.
        ModelError: the model cannot be loaded or run, the prompt does not fit, or an option is out of range.
    """
    if isinstance(samples, bool) or not isinstance(samples, int) or samples < 2:
        raise ModelError(f"samples must be a whole number, 2 or more, not {shown(samples)}", code="bad-option")
    if isinstance(confidence, bool) or not isinstance(confidence, int | float) or not 0 < confidence < 1:
        raise ModelError(f"confidence must lie between 0 and 1, not {shown(confidence)}", code="bad-option")
    if exact not in (None, True, False):
        raise ModelError(f"exact must be True, False or None, not {shown(exact)}", code="bad-option")
    asked: dict[str, Any] = {"system": system, "chat": chat, "describe": describe, "max_tokens": max_tokens}
    options = options_of("mass", {**asked, "seed": seed})
    prompts, single = prompts_of(prompt, single=True)
    if not single:
        raise ModelError("mass takes one prompt: a string, or a list of messages", code="bad-prompt")
    (one,) = prompts
    with opened(model) as runner:
        if exact is not False:
            tokens = encoded_prompt(runner, one, constraint, options)
            found = _computed(runner, tokens, constraint, must=exact is True, most=max_tokens)
            if found is not None:
                return found
        drawn = generations(
            runner,
            [one],
            constraint,
            n=samples,
            seed=seed,
            temperature=1.0,
            jump_forward=False,
            log_weight=True,
            **asked,
        )
    weights = np.array([_weight(text) for text in drawn])
    low, high = interval(weights, 1 - confidence)
    total, squares = float(weights.sum()), float((weights**2).sum())
    effective = total * total / squares if squares > 0 else 0.0
    return Mass(total / samples, low, high, confidence, False, samples, effective)


def _computed(runner: Any, prompt: Sequence[int], constraint: Any, *, must: bool, most: int) -> Mass | None:
    """From the probabilities of all texts; None where they are too many and need not be computed."""
    wanted = as_constraint(constraint)
    limits: dict[str, Any] = {} if must else {"limit": _FEW_TEXTS}
    counting = Counting("all", "stop", max_prefixes=MAX_PREFIXES if must else _FEW_PREFIXES)
    try:
        texts = texts_of(wanted.constraint if isinstance(wanted, Guide) else wanted, **limits)
        if not must and max((len(text.encode()) for text in texts), default=0) > most:
            return None  # some spellings have more tokens than may be written
        found = probabilities_of(runner, prompt, texts, texts, counting)
    except (LimitError, CompileError) as error:
        if must or error.code not in ("too-many-texts", "too-many-prefixes", "not-enumerable"):
            raise
        return None
    return Mass(found.total, found.total, min(1.0, found.total + found.missing), 1.0, True, 0, 0.0)


def _weight(text: Generation) -> float:
    if text.log_weight is None:
        raise ModelError("the model does not provide the logits that the weight of a text needs", code="bad-model")
    ended = text.matched and text.finish_reason in ("complete", "stop")
    return math.exp(text.log_weight) if ended else 0.0


def interval(values: NDArray[np.float64], alpha: float) -> tuple[float, float]:
    """A confidence interval for the mean of independent values between 0 and 1.

    Args:
        values: shape ``(n,)``.
        alpha: how often it may miss the mean.
    """
    count = len(values)
    means = np.unique(np.concatenate([[0.0], np.geomspace(1e-12, 0.01, 400), np.linspace(0.01, 1, 1981)]))
    rising, falling = np.zeros_like(means), np.zeros_like(means)  # logarithms of the capital
    rejected = np.zeros(len(means), np.bool_)
    seen, spread = 0.5, 0.25
    with np.errstate(divide="ignore"):
        up, down = _TRUNCATED / means, _TRUNCATED / (1 - means)
        for i, value in enumerate(values):
            bet = math.sqrt(2 * math.log(2 / alpha) / (count * spread / (i + 1)))
            rising += np.log1p(np.minimum(bet, up) * (value - means))
            falling += np.log1p(np.minimum(bet, down) * (means - value))
            rejected |= np.maximum(rising, falling) - math.log(2) >= math.log(1 / alpha)
            seen += float(value)
            spread += (float(value) - seen / (i + 2)) ** 2
    kept = np.flatnonzero(~rejected)
    first, last = (kept[0], kept[-1]) if len(kept) else (len(means) // 2, len(means) // 2)
    return float(means[max(0, first - 1)]), float(means[min(len(means) - 1, last + 1)])
