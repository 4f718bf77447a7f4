"""The thread that runs the model.

Waiting texts start in the order of arrival, as many at once as there is room for, and share a session of the model:
each step of a session is one forward pass over all its texts. Sessions take steps in turn. So a text that arrives while
others are written waits for one step, not for their end, and texts that arrive together run together. If a session can
clear a row (``clear_row(row)``), a waiting text takes the row of one that has ended. A session that is opened beside
others has spare rows for later texts: if each text had a session of its own, every text would wait for a step of all
others.

Memory is bounded by what sessions reserve, rows times tokens per row, in total at most ``max_cached_tokens``. After a
second without work, free memory goes back to the system.

What a text needs between two steps, and its mask while the model computes, is the work of a :class:`Workers`. Work that
takes long blocks nobody else: its text skips steps until the work is over. From then on its work runs on a thread of
its own, until it is quick again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from guiderail._core import trim_heap
from guiderail.errors import LimitError, ModelError
from guiderail.generation.models import Model
from guiderail.generation.models.base import Session, context_full, feed_rows
from guiderail.matching.guide import Guide
from guiderail.server.lending import Loan
from guiderail.server.metrics import Metrics
from guiderail.server.options import ServerOptions
from guiderail.server.portions import shared_out
from guiderail.server.rows import Job, Row
from guiderail.server.workers import Workers

__all__ = ["Engine", "Overloaded", "TimedOut"]

_QUICK_SECONDS = 0.002  # if one work of a slow text takes less, the text counts as fast again
_ROOMY = 8  # rows of a session that is opened next to others
_SPARED = 8  # spare rows may reserve 1/_SPARED of the remaining tokens
_LEAST_LENGTH = 256  # minimum length of spare rows; otherwise a power of two, if there is room
_REST_SECONDS = 1.0  # idle time after which the heap returns its free memory
_log = logging.getLogger("guiderail.server")
T = TypeVar("T")


class Overloaded(ModelError):
    """Too many texts are waiting."""

    code = "overloaded"


class TimedOut(ModelError):
    """A text was not finished in time."""

    code = "timeout"


class _Team:
    """A session and the texts in its rows."""

    def __init__(self, session: Session, shape: tuple[int, int], rows: list[Row]) -> None:
        self.session = session
        batch, self.length = shape
        self.rows: list[Row | None] = [*rows, *[None] * (batch - len(rows))]
        self.clear_row: Callable[[int], None] | None = getattr(session, "clear_row", None)

    @property
    def cost(self) -> int:
        """The number of cache tokens reserved."""
        return len(self.rows) * self.length

    def running(self) -> list[tuple[int, Row]]:
        return [(i, row) for i, row in enumerate(self.rows) if row is not None]


class Engine:
    """Runs jobs on a model. Start it, submit jobs from any thread, stop it."""

    def __init__(self, model: Model, options: ServerOptions, metrics: Metrics) -> None:
        self.model, self.options, self.metrics = model, options, metrics
        self._wake = threading.Condition()
        self._queue: deque[Row] = deque()
        self._tasks: deque[tuple[Future[Any], Callable[[], Any], int]] = deque()
        self._loans: deque[Loan] = deque()  # that wait
        self._lent: list[Loan] = []
        self._teams: list[_Team] = []
        self._clears = False  # sessions of this model can clear a row
        self._stopping = False
        self._thread: threading.Thread | None = None
        self.workers = Workers()
        self.on_hard: Callable[[Guide], None] = lambda _: None  # called with guides whose work outlasts their texts

    # -- from any thread ---------------------------------------------------------------------------------------
    def start(self) -> None:
        """Starts the thread."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="guiderail-engine", daemon=True)
            self._thread.start()

    def stop(self, timeout: float = 10.0) -> None:
        """Abandons all texts and ends the thread."""
        with self._wake:
            self._stopping = True
            self._wake.notify_all()
        if self._thread is not None:
            self._thread.join(timeout)
        self.workers.close()

    @property
    def is_alive(self) -> bool:
        return self._thread is not None and self._thread.is_alive() and not self._stopping

    @property
    def load(self) -> tuple[int, int]:
        """The numbers of texts being written and of texts that wait."""
        return self._running(), len(self._queue)

    def _running(self) -> int:
        return sum(len(team.running()) for team in list(self._teams))

    def submit(self, job: Job) -> None:
        """Queues the texts of a job.

        Raises:
            ModelError: ``context-full``: the prompt with its ``limit`` of tokens can never fit.
            Overloaded: the queue is full.
        """
        need = len(job.prompt) + job.limit
        room = min(self.model.context_length, self.options.max_cached_tokens)
        if need > room:
            raise ModelError(
                f"the prompt has {len(job.prompt)} tokens and up to {job.limit} may follow, but together they may "
                f"have at most {room}; shorten the prompt or lower max_tokens",
                code="context-full",
            )
        working = [row.work for team in list(self._teams) for _, row in team.running()]
        given_up = self.workers.late - sum(work is not None and work.late for work in working)
        if given_up >= self.options.max_rows:  # texts whose threads have not ended
            raise Overloaded("too many expensive constraints are in progress; try again later")
        rows = [Row(job, number) for number in range(job.count)]
        with self._wake:
            if self._stopping:
                raise ModelError("the server is shutting down", code="closed")
            if self._queue and len(self._queue) + len(rows) > self.options.max_queue:
                raise Overloaded(f"{len(self._queue)} texts are waiting already; try again later")
            self._queue.extend(rows)
            self.metrics.waiting.set(len(self._queue))
            self._wake.notify_all()

    def ask(self, function: Callable[[], T], cost: int = 0) -> Future[T]:
        """Runs another query of the model between two steps of the texts. It should not take long.

        Args:
            cost: cache tokens that it needs while it runs. It waits for room, and later texts wait for it.

        Raises:
            ModelError: ``context-full``: there can never be that much room.
            Overloaded: too much is waiting.
        """
        if cost > self.options.max_cached_tokens:
            raise context_full(self.model.name, cost, self.options.max_cached_tokens)
        future: Future[T] = Future()
        with self._wake:
            if self._stopping:
                raise ModelError("the server is shutting down", code="closed")
            if self._tasks and len(self._tasks) >= self.options.max_queue:
                raise Overloaded(f"{len(self._tasks)} questions to the model are waiting already; try again later")
            self._tasks.append((future, function, cost))
            self._wake.notify_all()
        return future

    def lend(self, loan: Loan) -> None:
        """Lends the model, in turn with waiting texts.

        Raises:
            ModelError: ``context-full``: there can never be that much room.
            Overloaded: too many wait for it.
        """
        room = min(self.model.context_length, self.options.max_cached_tokens)
        if loan.length > room:
            raise context_full(self.model.name, loan.length, room)
        with self._wake:
            if self._stopping:
                raise ModelError("the server is shutting down", code="closed")
            if self._loans and len(self._loans) >= self.options.max_queue:
                raise Overloaded(f"{len(self._loans)} draws are waiting already; try again later")
            loan.wake = self._wake
            self._loans.append(loan)
            self._wake.notify_all()

    # -- the thread --------------------------------------------------------------------------------------------
    def _run(self) -> None:
        while True:
            self._await_work()
            if self._stopping:
                break
            try:
                for team in self._teams:
                    self._leave(team)
                self._answer()
                if not self._tasks_wait():
                    self._admit()
                self._measure()
                moved = self._serve_loans()
                for team in list(self._teams):
                    moved |= self._turn(team)
                if not moved and self._teams:
                    self.workers.wait(0.02)
                elif not moved and self._lent:
                    with self._wake:
                        if not self._is_wanted():
                            self._wake.wait(0.02)  # the borrower is processing the model's answer
            except Exception as error:  # any exception: other requests must still be served
                _log.exception("a step failed")
                for team in list(self._teams):
                    self._disband(team, error)
        gone = ModelError("the server is shutting down", code="closed")
        for team in list(self._teams):
            self._disband(team, gone)
        with self._wake:
            rest = list(self._queue)
            self._queue.clear()
            loans = [*self._loans, *self._lent]
            for task, *_ in self._tasks:
                if task.set_running_or_notify_cancel():
                    task.set_exception(gone)
            self._tasks.clear()
        for row in rest:
            row.fail(gone)
        for loan in loans:
            loan.end(gone)
        self._measure()

    def _await_work(self) -> None:
        def some() -> bool:
            return bool(self._queue or self._teams or self._tasks or self._loans) or self._is_wanted()

        with self._wake:
            if self._wake.wait_for(some, _REST_SECONDS):
                return
        # Memory that many threads allocated and freed is scattered, and an allocator returns little of it on its own.
        trim_heap()
        with self._wake:
            self._wake.wait_for(some)

    def _is_wanted(self) -> bool:
        """Whether a query or loan can be served without waiting for others."""
        return self._stopping or any(loan.wants for loan in self._lent)

    def _answer(self) -> None:
        """Returns the next query of the model that need not wait for texts."""
        if not self._tasks or self._tasks_wait():
            return
        future, function, _ = self._tasks.popleft()
        if not future.set_running_or_notify_cancel():
            return
        try:
            future.set_result(function())
        except Exception as error:
            future.set_exception(error)

    def _tasks_wait(self) -> bool:
        """Whether the next query waits: for room, or, if the model has only one row, for texts to end."""
        if not self._tasks:
            return False
        if self.model.max_batch == 1:
            return bool(self._lent) or not self._close_idle()
        room = self.options.max_cached_tokens - self._tasks[0][2]
        if self._reserved > room:
            self._close_idle()
        return self._reserved > room

    def _close_idle(self) -> bool:
        """Closes sessions without texts, and returns whether none is left."""
        for team in list(self._teams):
            if not team.running():
                self._close(team)
        return not self._teams

    def _measure(self) -> None:
        self.metrics.waiting.set(len(self._queue))
        self.metrics.running.set(self._running())
        self.metrics.reserved_tokens.set(self._reserved)

    @property
    def _reserved(self) -> int:
        """The number of cache tokens reserved."""
        return sum(team.cost for team in self._teams) + sum(loan.cost for loan in self._lent)

    # -- loans of the model -----------------------------------------------------------------------------------
    def _lend(self) -> None:
        """Lends the model to those who wait for it, in order of arrival, as far as there is room."""
        with self._wake:
            self._loans = deque(loan for loan in self._loans if not loan.is_given_up())
        alone = self.model.max_batch == 1
        while self._loans and len(self._lent) < self.options.max_draws:
            loan = self._loans[0]
            if alone and (self._lent or not self._close_idle()):
                return
            if loan.cost > self.options.max_cached_tokens - self._reserved:
                return
            with self._wake:
                if self._queue and self._queue[0].arrived < loan.arrived:
                    return
                self._lent.append(self._loans.popleft())
            loan.begin()

    def _serve_loans(self) -> bool:
        """Serves one request of each loan; returns whether there was any."""
        moved = False
        for loan in list(self._lent):
            started = time.perf_counter()
            if loan.serve():
                moved = True
                self.metrics.model_seconds.inc(time.perf_counter() - started)
            if loan.over:
                self._lent.remove(loan)
                moved = True
        return moved

    def _must_wait(self, row: Row) -> bool:
        """Whether a text must wait for a current or earlier loan; called with the lock held."""
        if self._lent and self.model.max_batch == 1:
            return True
        is_next = bool(self._loans) and len(self._lent) < self.options.max_draws
        return is_next and self._loans[0].arrived < row.arrived

    # -- who may run -------------------------------------------------------------------------------------------
    def _admit(self) -> None:
        """Starts waiting texts in order, as far as there is room."""
        with self._wake:
            stays = deque(row for row in self._queue if not self._given_up(row))
            self._queue = stays
        for team in list(self._teams):
            if team.clear_row is not None:
                self._fill_rows(team, team.clear_row)
            if not team.running():
                self._close(team)
        self._lend()
        rows = self._next_rows()
        if not rows:
            return
        length = max(row.need for row in rows)
        shape = self._shape(len(rows), length)
        try:
            session = self.model.new_session(*shape)
        except ModelError as error:
            if self._teams:  # wait in order until there is room
                with self._wake:
                    self._queue.extendleft(reversed(rows))
                return
            if len(rows) > 1:  # fewer rows at a time
                with self._wake:
                    self._queue.extendleft(reversed(rows[1:]))
                rows = rows[:1]
                shape = 1, rows[0].need
                try:
                    session = self.model.new_session(*shape)
                except ModelError as again:
                    rows[0].fail(again)
                    return
            else:
                rows[0].fail(error)
                return
        team = _Team(session, shape, rows)
        self._clears = team.clear_row is not None
        self._teams.append(team)
        for row in rows:
            self._enter(row)

    def _shape(self, count: int, length: int) -> tuple[int, int]:
        """Rows and length of a session for a number of texts; if other sessions are open, with room for later ones."""
        if not self._teams or not self._clears:
            return count, length
        room = self.options.max_cached_tokens - self._reserved - count * length
        longer = min(max(_LEAST_LENGTH, 1 << (length - 1).bit_length()), self.model.context_length)
        most = min(_ROOMY, self.options.max_rows, self.model.max_batch or _ROOMY)
        for rows in range(most, count, -1):
            for each in (longer, length):
                if _SPARED * (rows * each - count * length) <= room:
                    return rows, each
        return count, length

    def _enter(self, row: Row) -> None:
        self.metrics.prompt_tokens.inc(len(row.job.prompt))
        self._put(row, row.start)

    def _fill_rows(self, team: _Team, clear_row: Callable[[int], None]) -> None:
        for i, row in enumerate(team.rows):
            if row is not None:
                continue
            with self._wake:
                if not self._queue or self._queue[0].need > team.length or self._running() >= self.options.max_rows:
                    return
                if self._must_wait(self._queue[0]):
                    return
                new = self._queue.popleft()
            clear_row(i)
            team.rows[i] = new
            self._enter(new)

    def _next_rows(self) -> list[Row]:
        """The first texts of the queue that together fit into a session, in addition to the open ones."""
        most = self.options.max_rows - self._running()
        if self.model.max_batch is not None:
            most = min(most, self.model.max_batch)
        room = self.options.max_cached_tokens - self._reserved
        rows: list[Row] = []
        longest = 0
        with self._wake:
            while self._queue and len(rows) < most and not self._must_wait(self._queue[0]):
                longest = max(longest, self._queue[0].need)
                if longest * (len(rows) + 1) > room:
                    break
                rows.append(self._queue.popleft())
        return rows

    def _given_up(self, row: Row) -> bool:
        """Whether a text is no longer wanted; reports it."""
        if row.done:
            return True
        if row.job.cancelled:
            row.done = True
            self.metrics.cancelled.inc()
            return True
        if time.monotonic() > row.job.deadline:
            self.metrics.cancelled.inc()
            row.fail(TimedOut(f"the text was not finished within {self.options.request_seconds:g} seconds"))
            return True
        since = row.mask_since
        spent = row.mask_seconds + (0.0 if since is None else time.perf_counter() - since)
        if spent > self.options.mask_seconds:
            row.fail(
                LimitError(
                    f"the masks of this text took more than {self.options.mask_seconds:g} seconds; the constraint is "
                    "too hard",
                    code="mask-timeout",
                )
            )
            return True
        return False

    # -- one step of a session ---------------------------------------------------------------------------------
    def _turn(self, team: _Team) -> bool:
        """Makes one step; returns whether anything was done."""
        self._settle(team)
        for _, row in team.running():
            if row.work is None and not row.done:
                if row.held is not None and row.filled:
                    self._draw(row, row.held)
                elif row.held is not None:
                    self._put(row, row.fill_mask)
                elif not row.ready:
                    self._put(row, partial(row.write_forced, fill=False))
        self._settle(team)
        feed, wanted = self._portions(team)
        if not any(feed):
            return any(row.done for _, row in team.running())
        for i, row in team.running():
            if feed[i] and not row.filled and row.work is None:
                self._put(row, row.fill_mask)
        started = time.perf_counter()
        try:
            logits = feed_rows(team.session, feed, [i for i, _ in wanted])
        except Exception as error:
            self._settle(team)
            self._disband(team, error)
            return True
        self.metrics.model_seconds.inc(time.perf_counter() - started)
        self.metrics.steps.inc()
        self._settle(team)
        for i, row in wanted:
            if row.done:
                continue  # it has no mask
            if row.work is None:
                self._draw(row, logits[i].copy())  # the next pass may write over them
            else:
                row.held = logits[i].copy()
        return True

    def _put(self, row: Row, function: Callable[[], None]) -> None:
        """Schedules work for a text; an error ends only that text."""

        def work() -> None:
            before = row.mask_seconds
            try:
                function()
            except Exception as error:
                row.fail(error)
            finally:
                row.mask_since = None
            self.metrics.mask_seconds.inc(row.mask_seconds - before)

        row.work = self.workers.put(work, aside=row.slow)

    def _draw(self, row: Row, logits: NDArray[np.float32]) -> None:
        """Schedules sampling and reading the next token, and what it forces."""
        row.held = None

        self._put(row, partial(row.advance, logits))

    def _settle(self, team: _Team) -> None:
        """Waits for the quick work of a team."""
        working = [row for _, row in team.running() if row.work is not None]
        self.workers.settle([row.work for row in working if row.work is not None])
        for row in working:
            work = row.work
            if work is not None and work.late:
                row.slow = True
            if work is not None and work.over:
                row.work = None
                if row.slow and work.seconds < _QUICK_SECONDS:
                    row.slow = False

    def _portions(self, team: _Team) -> tuple[list[list[int]], list[tuple[int, Row]]]:
        """What each row is fed, with prompts in portions, and the rows whose logits are then those of their next
        token. A long prompt does not delay short ones, nor the forced tokens of a text in progress.
        """
        feed: list[list[int]] = [[] for _ in team.rows]
        wanted = []
        reading = [
            (i, row)
            for i, row in team.running()
            if not row.done and row.ready and row.work is None and row.held is None
        ]
        shares = shared_out(self.options.prefill_tokens, [len(row.pending) for _, row in reading])
        for (i, row), share in zip(reading, shares, strict=True):
            share = max(share, int(len(row.pending) == 1))  # a text in progress never waits
            feed[i], row.pending = row.pending[:share], row.pending[share:]
            if share and not row.pending:
                wanted.append((i, row))
        return feed, wanted

    # -- ends ----------------------------------------------------------------------------------------------------
    def _leave(self, team: _Team) -> None:
        """Removes texts that have ended or are no longer wanted; long-running work ends by itself."""
        self._settle(team)
        for i, row in team.running():
            if self._given_up(row) or row.done:
                self._count(row)
                team.rows[i] = None
                if row.work is not None and row.work.late:
                    self.on_hard(row.job.guide)

    def _count(self, row: Row) -> None:
        self.metrics.generated_tokens.inc(len(row.tokens))
        self.metrics.forced_tokens.inc(row.forced)

    def _close(self, team: _Team) -> None:
        self._teams.remove(team)
        team.session.close()

    def _disband(self, team: _Team, error: Exception) -> None:
        """Fails all texts of a session and closes it."""
        for _, row in team.running():
            self._count(row)
            row.fail(error)
        team.rows = []
        if team in self._teams:
            self._teams.remove(team)
        try:
            team.session.close()
        except Exception:
            _log.exception("a session could not be closed")
