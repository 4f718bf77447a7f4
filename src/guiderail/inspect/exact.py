"""The probabilities of a text's tokens if it were drawn from the model's own distribution under the constraint.

A mask looks one token ahead: a likely token keeps its probability even if the model would hardly ever write a
continuation that the constraint allows (Willard & Louf 2023, §5). If a constraint has few texts, one can compute the
probability with which each token is followed by the end of one of them, and so the probability that the token should
have had.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from guiderail.constraints.enumeration import texts_of
from guiderail.errors import GuiderailError
from guiderail.generation.models import Model
from guiderail.generation.probabilities import Counting, token_chances
from guiderail.inspect.sentences import why
from guiderail.matching.guide import Guide

if TYPE_CHECKING:
    from guiderail.inspect.record import Step

__all__ = ["add_exact"]

_FEW_TEXTS = 64
_COUNTING = Counting("all", "stop", tolerance=1e-4, max_prefixes=512)
_UNKNOWN = ("too-many-texts", "too-many-prefixes", "not-enumerable", "no-stop-token", "context-full", "busy")


def add_exact(steps: Sequence[Step], model: Model, prompt: Sequence[int], guide: Guide) -> None:
    """Sets ``exact`` of steps, if it can be computed at little cost."""
    written = [step for step in steps if step.how != "refused"]
    try:
        texts = texts_of(guide.constraint, _FEW_TEXTS)
        chances = token_chances(model, prompt, texts, [step.token for step in written], _COUNTING)
    except GuiderailError as error:
        if error.code not in _UNKNOWN:
            raise
        return
    for step, chance in zip(written, chances, strict=True):
        object.__setattr__(step, "exact", chance)
        object.__setattr__(step, "why", why(step))
