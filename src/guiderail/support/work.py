"""The cost of compiling, counted in steps, not in seconds.

A step is an elementary operation of the core (an expression made, an operand processed) and takes some 0.1 µs. Python
code in front ends counts for roughly as many steps as it takes time. The count depends on the request alone: not on the
machine, on what others compiled before, or on caches. So a request that exceeds its limit does so everywhere and
always. The core counts separately for each thread.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable
from typing import Any

from guiderail import _core
from guiderail.errors import CompileError, LimitError
from guiderail.support.texts import shown

__all__ = ["MAX_STEP_WORK", "MAX_WORK", "check_steps", "compilation", "limited", "out_of_work", "spend", "spent"]

MAX_WORK = 20_000_000
"""Default of ``max_work``: steps of one compilation, some two seconds."""

MAX_STEP_WORK = 500_000
"""Default of ``max_step_work``: steps of one mask, or of reading one token."""

spend = _core.spend_work
"""Counts steps. Raises LimitError (code ``work``) where they are more than allowed."""

spent = _core.spent_work
"""The steps that this thread has counted so far."""

_MOST = 1 << 60  # far below the limit of 64 bits, even for sums


class _Compilation(threading.local):
    """What this thread is compiling.

    Attributes:
        results: the cached results that it has paid for, by what they are results of; None outside of a compilation.
        making: the cached result that is being made.
    """

    results: dict[Hashable, Any] | None = None
    making: Any = None


compilation = _Compilation()


def check_steps(name: str, steps: Any) -> None:
    """Checks that a limit is a number of steps.

    Raises:
        CompileError: the limit is not a number above 0.
    """
    if type(steps) is not int or not 0 < steps < _MOST:
        raise CompileError(f"{name} must be a number of steps above 0, not {shown(steps)}", code="bad-bound")


class limited:
    """Limits the steps of this thread inside a ``with`` block; an outer limit still applies.

    Raises:
        CompileError: the limit is not a number above 0.
    """

    __slots__ = ("_before", "_most", "_outermost")

    def __init__(self, most: int) -> None:
        check_steps("max_work", most)
        self._most = most

    def __enter__(self) -> None:
        self._before = _core.limit_work(self._most)
        self._outermost = compilation.results is None
        if self._outermost:
            compilation.results = {}

    def __exit__(self, *_: object) -> None:
        _core.restore_work(self._before)
        if self._outermost:
            compilation.results = None


def out_of_work(error: LimitError) -> bool:
    """Whether the limit of the whole compilation was reached, so that trying another way is pointless."""
    return error.code == "work"
