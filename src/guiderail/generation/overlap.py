"""Fills the masks of the next step while the model computes (XGrammar 2024, §3.5), for every loop over a batch.

A loop knows what it feeds the model, and so the state after it, before the model has computed. It says which masks it
will need, lets the model compute, and then requests them; native threads may have filled them meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from guiderail import _core
from guiderail.matching.matcher import Matcher, fill_next_token_bitmasks

__all__ = ["Masks", "may_be_forced"]


def may_be_forced(matcher: Matcher, has_symbols: bool) -> bool:
    """Whether only one token may be allowed next, so that its mask should be checked before the model is asked.

    The answer must not depend on which masks are already known: a text must be fed in the same portions each time.

    Args:
        has_symbols: whether the constraint names tokens, see ``Program.symbols``.
    """
    if matcher.forced_bytes(1):
        return True
    return has_symbols and not matcher.program.first_bytes(matcher.state)


class Masks:
    """Fills the masks of a step, either before the model computes or meanwhile: whichever delays the loop less.

    Waking a thread costs some microseconds on an idle machine, and a time slice of the scheduler if all cores are busy.
    A mask costs from a microsecond to many milliseconds. So both ways are timed, if masks are worth a thread at all: a
    thread also disturbs the model, which cannot be timed here. Only speed depends on the choice.
    """

    RETRY = 64  # steps after which the other mode is tried again
    WORTH = 50e-6  # minimum seconds of a step's masks that justify waking a thread

    def __init__(self, bitmask: NDArray[np.int32]) -> None:
        self.bitmask = bitmask
        self.steps = 0
        self.before: float | None = None  # recent delay of a step in seconds; None: not measured yet
        self.meanwhile: float | None = None
        self.filling: _core.Filling | None = None
        self.seconds: list[float] = []  # of each mask of the last step, if they were filled during the forward pass
        self.held_up = 0.0

    def begin(self, matchers: list[Matcher], rows: list[int], fill: Callable[[], None] | None = None) -> None:
        """Fills the rows or begins to; do not touch matchers and rows until ``finish``.

        Args:
            fill: fills them now, if that is the faster way.
        """
        began = time.perf_counter()
        self.seconds = []
        if self._overlaps():
            self.filling = _core.Filling(matchers, self.bitmask, rows)
            self.held_up = time.perf_counter() - began
            return
        if fill is None:
            fill_next_token_bitmasks(matchers, self.bitmask, rows, threads=1)
        else:
            fill()
        self.held_up = time.perf_counter() - began
        self.before = _smoothed(self.before, self.held_up)

    def finish(self) -> float:
        """Waits for the masks; returns for how many seconds they delayed the loop. Raises errors of making them."""
        filling, self.filling = self.filling, None
        if filling is not None:
            began = time.perf_counter()
            filling.wait()
            self.held_up += time.perf_counter() - began
            self.meanwhile = _smoothed(self.meanwhile, self.held_up)
            self.seconds = filling.seconds()
        return self.held_up

    def _overlaps(self) -> bool:
        self.steps += 1
        if self.meanwhile is None:
            return True  # the first pass reads the prompt, and the first masks take longest
        if self.before is None or self.before < self.WORTH:
            return False
        return (self.meanwhile < self.before) != (self.steps % self.RETRY == 0)


def _smoothed(past: float | None, now: float) -> float:
    return now if past is None else 0.75 * past + 0.25 * now
