"""Estimates how likely a model is to keep to a constraint by itself.

An output that is drawn under masks has an importance weight: the probability that the model writes it without masks,
over the probability with which it was drawn. The mean weight is the probability that the model writes an output of the
constraint. Weights lie between 0 and 1, and nothing else is assumed about them. The confidence interval comes from
betting: it excludes every mean against which a bettor would have grown rich by now (Waudby-Smith & Ramdas 2024,
"Estimating means of bounded random variables by betting", JRSS B 86, §4: hedged capital with predictable plug-in bets).
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
from guiderail.generation.models import opened
from guiderail.generation.options import DEFAULT_MAX_TOKENS, MOST_TEXTS, options_of
from guiderail.generation.probabilities import MAX_PREFIXES, Counting, probabilities_of
from guiderail.generation.result import Generation
from guiderail.generation.targets import as_constraint, uncompiled
from guiderail.support.arguments import checked
from guiderail.support.options import check_integer, is_real
from guiderail.support.texts import shown

__all__ = ["Mass", "interval", "mass"]

SAMPLES = 64
_FEW_TEXTS = 64  # up to this many texts, probabilities are computed instead of estimated
_FEW_PREFIXES = 1024
_TRUNCATED = 0.5  # maximum part of its capital that a bet may lose


@dataclass(frozen=True, slots=True)
class Mass:
    """The probability that a model obeys a constraint by itself.

    Attributes:
        estimate: the probability.
        low, high: a confidence interval. It holds for every constraint and every model.
        confidence: the confidence of the interval; 1 if the probability was computed exactly.
        exact: whether the probability was computed from the probabilities of all matches, without sampling.
        samples: the number of outputs drawn.
        effective_samples: how many equally weighted outputs would be worth as much, from 0 to ``samples``. If it is far
            lower than ``samples``, a few outputs hold most of the weight, and the estimate is probably too low.
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


@checked
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
    """Estimates how likely a model is to obey a constraint without masks: to write a match, and nothing else.

    A small value means that the prompt does not fit the constraint: masks then make the model write what it would not
    have written. The probability is computed exactly if the constraint matches few texts, and otherwise estimated from
    outputs drawn under masks.

    Args:
        model, prompt, system, chat, describe: as for :func:`generate`.
        constraint: any target that :func:`generate` takes.
        samples: the number of outputs to draw, from 2 to 65,536.
        confidence: the confidence of the interval, between 0 and 1.
        max_tokens: an output counts only if the model ends it within this many tokens.
        seed: makes the estimate repeatable.
        exact: True computes the probability, False estimates it, None computes it if there are at most 64 matches.

    Returns:
        A :class:`Mass`, with ``estimate``, ``low`` and ``high``.

    Raises:
        LimitError: ``too-many-texts``, ``too-many-prefixes``: with ``exact=True``.
        CompileError: the constraint is not a target, or cannot be compiled.
        ModelError: the model cannot be loaded or run, the prompt does not fit, or an option is out of range.
    """
    check_integer("samples", samples, 2, MOST_TEXTS, error=ModelError, code="bad-option")
    if not is_real(confidence) or not 0 < confidence < 1:
        raise ModelError(f"confidence must lie between 0 and 1, not {shown(confidence)}", code="bad-option")
    if exact is not None and not isinstance(exact, bool):
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
    """The result from the probabilities of all outputs; None if they are too many and need not be computed."""
    limits: dict[str, Any] = {} if must else {"limit": _FEW_TEXTS}
    counting = Counting("all", "stop", max_prefixes=MAX_PREFIXES if must else _FEW_PREFIXES)
    try:
        texts = texts_of(uncompiled(as_constraint(constraint)), **limits)
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
