"""Threads for small pieces of work, any of which may turn out to take long.

What a text needs between two steps of the model (reading a token, its mask, sampling) usually takes microseconds, but
seconds under a hard constraint. That cannot be predicted, and a native call cannot be interrupted. So a worker does one
piece of work after another. When one takes longer than ``patience``, its waiters stop waiting: the worker keeps it and
ends with it, and a new worker takes over the rest. So there is one worker for each long piece of work, plus one. All
have the same priority: a thread with a lower one, suspended while it holds the interpreter lock, would block everyone.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable

__all__ = ["PATIENCE", "Work", "Workers"]

PATIENCE = 0.005
"""Seconds after which waiters give up on a piece of work."""
_IDLE = 5.0  # seconds after which a worker without work ends
_log = logging.getLogger("guiderail.server")


class Work:
    """A function to be called once, on some thread.

    Attributes:
        over: whether it has returned.
        late: whether it took longer than others could wait.
        seconds: how long it took.
    """

    __slots__ = ("began", "function", "late", "over", "seconds")

    def __init__(self, function: Callable[[], None]) -> None:
        self.function = function
        self.began: float | None = None
        self.over = self.late = False
        self.seconds = 0.0


class _Worker:
    def __init__(self) -> None:
        self.work: Work | None = None


class Workers:
    """See the module. Safe to use from any thread."""

    def __init__(self, patience: float = PATIENCE) -> None:
        self.patience = patience
        self._changed = threading.Condition()
        self._waiting: deque[Work] = deque()
        self._worker: _Worker | None = None  # the worker that takes the next work
        self._idle = False
        self._late = 0
        self._closed = False

    @property
    def late(self) -> int:
        """The long-running work that has not ended."""
        return self._late

    def put(self, function: Callable[[], None], *, aside: bool = False) -> Work:
        """Schedules a function to be called soon.

        Args:
            aside: it is known to take long: run it at once on a thread of its own.
        """
        work = Work(function)
        with self._changed:
            if aside:
                work.late = True
                self._late += 1
                work.began = time.monotonic()
                self._start(work)
            else:
                self._waiting.append(work)
                if self._worker is None:
                    self._start(None)
                elif self._idle:
                    self._changed.notify_all()
        return work

    def settle(self, works: Iterable[Work]) -> None:
        """Waits until each piece of work is over or takes too long."""
        open_ = list(works)
        with self._changed:
            while open_ := [work for work in open_ if not (work.over or work.late)]:
                worker = self._worker
                current = None if worker is None else worker.work
                left = self.patience
                if current is not None and current.began is not None:
                    left -= time.monotonic() - current.began
                    if left <= 0:
                        self._leave_alone()
                        continue
                self._changed.wait(left)

    def wait(self, seconds: float) -> None:
        """Waits until some long-running work is over, up to a time limit."""
        with self._changed:
            if self._late:
                self._changed.wait(seconds)

    def close(self) -> None:
        """Drops work that has not begun, and ends the threads when they are done."""
        with self._changed:
            self._closed = True
            self._waiting.clear()
            self._changed.notify_all()

    # -- with the lock held ------------------------------------------------------------------------------------
    def _leave_alone(self) -> None:
        """Lets a worker keep its work, and starts another in its place."""
        worker = self._worker
        assert worker is not None and worker.work is not None
        worker.work.late = True
        self._late += 1
        self._worker = None
        if self._waiting:
            self._start(None)

    def _start(self, work: Work | None) -> None:
        worker = _Worker()
        if work is None:
            self._worker, self._idle = worker, False
        thread = threading.Thread(target=self._run, args=(worker, work), name="guiderail-mask", daemon=True)
        thread.start()

    # -- the threads -------------------------------------------------------------------------------------------
    def _run(self, worker: _Worker, own: Work | None) -> None:
        if own is not None:
            self._do(own)
            return
        while (work := self._next(worker)) is not None:
            self._do(work)

    def _next(self, worker: _Worker) -> Work | None:
        with self._changed:
            worker.work = None
            if self._worker is not worker:
                return None  # this worker was replaced
            if not self._waiting and not self._closed:
                self._idle = True
                self._changed.wait_for(lambda: self._waiting or self._closed, _IDLE)
                self._idle = False
            if not self._waiting:
                self._worker = None
                return None
            work = worker.work = self._waiting.popleft()
            work.began = time.monotonic()
            return work

    def _do(self, work: Work) -> None:
        began = time.perf_counter()
        try:
            work.function()
        except Exception:  # the caller of put handles errors
            _log.exception("a work failed")
        with self._changed:
            work.seconds = time.perf_counter() - began
            work.over = True
            self._late -= work.late
            if work.late or not self._waiting:  # a waiter waits for all of its works
                self._changed.notify_all()
