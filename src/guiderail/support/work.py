"""The cost of compiling, counted in steps, not in seconds.

A step is an elementary operation of the core (an expression made, an operand processed) and takes some 0.1 µs. Python
code in front ends counts for roughly as many steps as it takes time. The count depends on the request alone: not on the
machine, on what others compiled before, or on caches. So a request that exceeds its limit does so everywhere and
always. The core counts separately for each thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar

from guiderail import _core
from guiderail.errors import CompileError, LimitError
from guiderail.support.texts import shown

__all__ = ["MAX_STEP_WORK", "MAX_WORK", "cached", "check_steps", "limited", "out_of_work", "pay", "spend", "spent"]

MAX_WORK = 20_000_000
"""Default of ``max_work``: steps of one compilation, some two seconds."""

MAX_STEP_WORK = 500_000
"""Default of ``max_step_work``: steps of one mask, or of reading one token."""

spend = _core.spend_work
"""Counts steps. Raises LimitError (code ``work``) where they are more than allowed."""

spent = _core.spent_work
"""The steps that this thread has counted so far."""

_MOST = 1 << 60  # far below the limit of 64 bits, even for sums
_Argument = TypeVar("_Argument")
_Value = TypeVar("_Value")


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
        self._outermost = _here.paid is None
        if self._outermost:
            _here.paid = set()

    def __exit__(self, *_: object) -> None:
        _core.restore_work(self._before)
        if self._outermost:
            _here.paid = None


def out_of_work(error: LimitError) -> bool:
    """Whether the limit of the whole compilation was reached, so that trying another way is pointless."""
    return error.code == "work"


class _Result:
    """A cached result with its price: its own steps, and the other cached results that it needed."""

    __slots__ = ("elsewhere", "needed", "own", "value")

    def __init__(self) -> None:
        self.value: Any = None
        self.own = 0
        self.elsewhere = 0  # steps counted for `needed` while this was made
        self.needed: list[_Result] = []

    def pay(self, paid: set[object]) -> None:
        if self not in paid:
            paid.add(self)
            spend(self.own)
            for result in self.needed:
                result.pay(paid)


class _Here(threading.local):
    """What this thread's compilation has paid for, what it is making, and what it made last."""

    paid: set[object] | None = None
    making: _Result | None = None
    made: _Result | None = None


_here = _Here()


def pay(result: object, steps: int) -> None:
    """Counts the steps of a result that a cache of another kind keeps: once for each compilation.

    Whoever makes a result counts its steps meanwhile, and then pays 0 for it. Not for use within what `cached` makes.
    """
    paid = _here.paid
    if paid is None:
        spend(steps)
    elif result not in paid:
        paid.add(result)
        spend(steps)


def cached(size: int) -> Callable[[Callable[[_Argument], _Value]], Callable[[_Argument], _Value]]:
    """Caches the results of a function. Each compilation pays once for a result, even if another made it."""

    def decorate(make: Callable[[_Argument], _Value]) -> Callable[[_Argument], _Value]:
        @lru_cache(maxsize=size)
        def kept(argument: _Argument) -> _Result:
            result, before = _Result(), spent()
            outer, _here.making = _here.making, result
            try:
                result.value = make(argument)
            finally:
                _here.making = outer
            result.own = spent() - before - result.elsewhere
            _here.made = result
            return result

        def ask(argument: _Argument) -> _Value:
            before = spent()
            result = kept(argument)
            paid = _here.paid
            if _here.made is result:
                _here.made = None
                if paid is not None:
                    paid.add(result)
            elif paid is None:
                result.pay(set())
            elif result not in paid:
                result.pay(paid)
            outer = _here.making
            if outer is not None:
                outer.needed.append(result)
                outer.elsewhere += spent() - before
            value: _Value = result.value
            return value

        return ask

    return decorate
