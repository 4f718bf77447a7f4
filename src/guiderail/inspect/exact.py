"""What the tokens of a text would be worth if it were drawn from the model's own distribution given the constraint.

A mask looks one token ahead: a token that is likely keeps its probability even if hardly any continuation of it that
the constraint allows is (Willard & Louf 2023, §5). Where a constraint has few texts, the probability with which each
token is followed by the end of one of them can be computed, and so what a token should have had.
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
    """Tells steps their ``exact``, where it can be known at little cost."""
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
