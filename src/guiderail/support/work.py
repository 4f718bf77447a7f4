"""The cost of compiling, counted in steps, not in seconds.

A step is an elementary operation of the core (an expression made, an operand processed) and takes some 0.1 µs. Python
code in front ends counts for roughly as many steps as it takes time. The count depends on the request alone: not on the
machine, on what others compiled before, or on caches. So a request that exceeds its limit does so everywhere and
always. The core counts separately for each thread.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Hashable
from contextvars import ContextVar
from typing import Any

from guiderail import _core
from guiderail.errors import CompileError, LimitError
from guiderail.support.texts import shown

__all__ = [
    "MAX_STEP_WORK",
    "MAX_WORK",
    "allowed",
    "check_steps",
    "compilation",
    "limited",
    "max_work",
    "out_of_work",
    "reading",
    "spend",
    "spent",
]

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
        is_limited: whether something limits its steps.
    """

    results: dict[Hashable, Any] | None = None
    making: Any = None
    is_limited = False


compilation = _Compilation()
_allowed: ContextVar[int | None] = ContextVar("max_work", default=None)
_HOW = "raise max_work"
_HOW_HERE = "raise max_work (with gr.max_work(…):)"


def check_steps(name: str, steps: Any) -> None:
    """Checks that a limit is a number of steps.

    Raises:
        CompileError: the limit is not a number above 0.
    """
    if type(steps) is not int or not 0 < steps < _MOST:
        raise CompileError(f"{name} must be a number of steps above 0, not {shown(steps)}", code="bad-bound")


class max_work:
    """Sets how many steps of work a constraint may take, for everything inside a ``with`` block.

        >>> import guiderail as gr
        >>> with gr.max_work(200_000_000):
        ...     names = gr.regex("|".join(f"name{i}" for i in range(1000)))

    It applies to what reads a constraint: :func:`regex`, :func:`json_schema`, :func:`grammar`, :func:`tool_calls`,
    :meth:`Constraint.matches` …; and to :func:`compile`, unless that is given a ``max_work`` of its own. Other threads
    and tasks have limits of their own. The default is 20,000,000 steps, about two seconds.

    Raises:
        CompileError: the limit is not a number above 0.
        LimitError: ``work``, inside the block: something takes more.
    """

    __slots__ = ("_steps", "_tokens")

    def __init__(self, steps: int) -> None:
        check_steps("max_work", steps)
        self._steps = steps
        self._tokens: list[Any] = []

    def __repr__(self) -> str:
        return f"max_work({self._steps:_})"

    def __enter__(self) -> None:
        self._tokens.append(_allowed.set(self._steps))

    def __exit__(self, *_: object) -> None:
        _allowed.reset(self._tokens.pop())


def allowed() -> int:
    """The steps that a constraint may take here, if nothing else was said: those of :class:`max_work`."""
    steps = _allowed.get()
    return MAX_WORK if steps is None else steps


class limited:
    """Limits the steps of this thread inside a ``with`` block; an outer limit still applies.

    Python's cyclic garbage collector pauses meanwhile. A compilation allocates much and leaves few cycles, so
    collections of the whole process would fall into it and find next to nothing.

    Raises:
        CompileError: the limit is not a number above 0.
    """

    __slots__ = ("_before", "_collects", "_inner", "_most", "_outermost")

    def __init__(self, most: int) -> None:
        check_steps("max_work", most)
        self._most = most

    def __enter__(self) -> None:
        self._before = _core.limit_work(self._most)
        self._inner, compilation.is_limited = compilation.is_limited, True
        self._outermost = compilation.results is None
        if self._outermost:
            compilation.results = {}
            self._collects = gc.isenabled()
            gc.disable()

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        _core.restore_work(self._before)
        compilation.is_limited = self._inner
        if self._outermost:
            compilation.results = None
            if self._collects:
                gc.enable()
        if not self._inner and isinstance(error, LimitError) and out_of_work(error) and _allowed.get() is None:
            error.reason = error.reason.replace(_HOW, _HOW_HERE)
            error.message = error.message.replace(_HOW, _HOW_HERE)
            error.args = (error.message,)


class reading(limited):
    """Limits the steps of this thread to :func:`allowed`, except within a compilation, which has a limit already."""

    __slots__ = ("_within",)

    def __init__(self) -> None:
        super().__init__(allowed())

    def __enter__(self) -> None:
        self._within = compilation.is_limited
        if not self._within:
            super().__enter__()

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if not self._within:
            super().__exit__(kind, error, trace)


def out_of_work(error: LimitError) -> bool:
    """Whether the limit of the whole compilation was reached, so that trying another way is pointless."""
    return error.code == "work"
