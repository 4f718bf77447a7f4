"""A model lent by the engine to code that reads texts in its own order.

The borrower runs on another thread, but the model does not: the engine's thread makes each of its passes between two
steps of the texts, and none is longer than one of theirs. So others wait for a pass, but not for masks or for work on
the logits. The cache that a loan reserves counts together with that of texts.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

import numpy as np

from guiderail.errors import ModelError
from guiderail.generation.models import Logits, Model, Session
from guiderail.generation.models.base import feed_rows
from guiderail.vocabulary import Vocabulary

__all__ = ["LentModel", "Loan"]

T = TypeVar("T")


class Loan:
    """The right to use the model, requested with ``Engine.lend``.

    Attributes:
        length: the number of tokens that a row may hold.
        cost: the number of cache tokens reserved.
        arrived: when it was requested, as ``time.monotonic`` gives it.
        wake: wakes the engine, which sets it.
        over: whether it was given back.
        busy: how many seconds the borrower worked on the model's results.
    """

    def __init__(
        self,
        rows: int,
        length: int,
        *,
        work: Callable[[Loan], None],
        given_up: Callable[[Loan], bool],
        failed: Callable[[Exception], None],
    ) -> None:
        """Nothing is lent yet.

        Args:
            rows: maximum number of rows of a session.
            work: called on a thread of its own when the model is lent.
            given_up: returns whether the loan is no longer wanted or allowed; it has then informed the waiters.
            failed: called if the engine ends before the model is lent.
        """
        self.rows, self.length, self.cost = rows, length, rows * length
        self.arrived = time.monotonic()
        self.wake = threading.Condition()
        self.over = False
        self.busy = 0.0
        self._since = 0.0
        self._work, self._given_up, self._failed = work, given_up, failed
        self._task: tuple[Future[Any], Callable[[], Any]] | None = None
        self._begun = False
        self._gone: Exception | None = None
        self._sessions: list[Session] = []

    # -- the engine's thread -----------------------------------------------------------------------------------
    @property
    def wants(self) -> bool:
        """Whether the engine has something to do for it."""
        return self._task is not None or self.over

    def is_given_up(self) -> bool:
        return self._given_up(self)

    def begin(self) -> None:
        """Starts the loan."""
        self._begun = True
        self._since = time.perf_counter()
        try:
            threading.Thread(target=self._run, name="guiderail-draw", daemon=True).start()
        except RuntimeError as error:  # the system cannot start more threads
            self.over = True
            self._failed(error)

    def serve(self) -> bool:
        """Serves a request of the borrower; returns whether there was any."""
        with self.wake:
            task, self._task = self._task, None
        if task is None:
            return False
        future, function = task
        try:
            future.set_result(function())
        except Exception as error:
            future.set_exception(error)
        return True

    def end(self, error: Exception) -> None:
        """Called when the engine ends: no more requests are possible."""
        with self.wake:
            task, self._task, self._gone = self._task, None, error
        for session in self._sessions:
            session.close()
        self._sessions.clear()
        if task is not None:
            task[0].set_exception(error)
        if not self._begun:
            self._failed(error)

    # -- the thread that works ---------------------------------------------------------------------------------
    def _run(self) -> None:
        try:
            self._work(self)
        finally:
            with self.wake:
                self.over = True
                self.wake.notify_all()

    def ask(self, function: Callable[[], T]) -> T:
        """Has the engine's thread call a function of the model.

        Raises:
            ModelError: ``closed``: the engine has ended.
        """
        future: Future[T] = Future()
        with self.wake:
            if self._gone is not None:
                raise self._gone
            self.busy += time.perf_counter() - self._since
            self._task = future, function
            self.wake.notify_all()
        try:
            return future.result()
        finally:
            self._since = time.perf_counter()

    def working(self) -> float:
        """How many seconds the borrower has worked on the model's results so far."""
        return self.busy + (time.perf_counter() - self._since if self._begun else 0.0)

    def open(self, model: Model, batch: int, length: int) -> Session:
        def opened() -> Session:
            session = model.new_session(batch, length)
            self._sessions.append(session)
            return session

        return self.ask(opened)

    def close(self, session: Session) -> None:
        """Closes a session, unless the engine has done so at its end."""

        def closed() -> None:
            if session in self._sessions:
                self._sessions.remove(session)
                session.close()

        try:
            self.ask(closed)
        except ModelError as error:
            if error is not self._gone:
                raise


class LentModel:
    """A lent model, as its borrower sees it."""

    def __init__(self, model: Model, loan: Loan, portion: int) -> None:
        """Queries nothing yet.

        Args:
            portion: maximum number of tokens to read in one pass.
        """
        self._model, self._loan, self._portion = model, loan, portion
        self.name: str = model.name
        self.vocabulary: Vocabulary = model.vocabulary
        self.logits_size: int = model.logits_size
        self.context_length: int = model.context_length
        self.max_batch: int | None = loan.rows

    def encode(self, prompt: str, *, chat: bool, system: str | None = None) -> list[int]:
        return self._model.encode(prompt, chat=chat, system=system)

    def new_session(self, batch: int, length: int) -> Session:
        return _LentSession(self._loan, self._loan.open(self._model, batch, length), self.logits_size, self._portion)

    def close(self) -> None:
        """Does nothing: the model belongs to the server."""


class _LentSession:
    answers_some = True

    def __init__(self, loan: Loan, session: Session, width: int, portion: int) -> None:
        self._loan, self._session, self._portion = loan, session, portion
        self.batch = session.batch
        self._logits = np.zeros((self.batch, width), np.float32)
        if hasattr(session, "cut_row"):
            self.cut_row = self._cut_row
        if hasattr(session, "copy_rows"):
            self.copy_rows = self._copy_rows

    def feed(self, rows: Sequence[Sequence[int]], asked: Collection[int] | None = None) -> Logits:
        rest = [list(row) for row in rows]
        while any(rest):
            left = self._portion
            fed = []
            for i, row in enumerate(rest):
                fed.append(row[:left])
                rest[i] = row[left:]
                left -= len(fed[-1])
            ready = [i for i, row in enumerate(fed) if row and not rest[i] and (asked is None or i in asked)]
            self._loan.ask(lambda fed=fed, ready=ready: self._pass(fed, ready))  # type: ignore[misc]
        return self._logits

    def _pass(self, fed: list[list[int]], ready: list[int]) -> None:
        logits = feed_rows(self._session, fed, ready)
        self._logits[ready] = logits[ready]

    def _cut_row(self, row: int, length: int) -> None:
        self._loan.ask(lambda: self._session.cut_row(row, length))  # type: ignore[attr-defined]

    def _copy_rows(self, pairs: Sequence[tuple[int, int]]) -> None:
        self._loan.ask(lambda: self._session.copy_rows(pairs))  # type: ignore[attr-defined]

    def close(self) -> None:
        self._loan.close(self._session)
