"""Compiles constraints off the event loop, once for all concurrent equal requests, within limits.

A request's constraint is first compiled in a separate process (:mod:`guiderail.server.compile_process`); its
operations are then repeated here. If this takes longer than ``compile_seconds``, it is interrupted: an exception is
raised in its thread (``PyThreadState_SetAsyncExc``), which Python code sees at once and the core when its call returns.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import pickle
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

from guiderail import _core
from guiderail.constraints.constraint import Constraint
from guiderail.errors import LimitError, ModelError
from guiderail.matching.bitmask import allocate_token_bitmask
from guiderail.matching.guide import Guide, compile
from guiderail.server.compile_process import CompileProcess
from guiderail.server.contents import Contents, Manner, read_contents
from guiderail.server.fair_queue import Turns
from guiderail.server.metrics import Metrics
from guiderail.server.options import ServerOptions
from guiderail.server.recipes import Recipe
from guiderail.support.work import max_work
from guiderail.vocabulary import Vocabulary

__all__ = ["Compiler", "interruptible"]

_log = logging.getLogger("guiderail.server")

Build = Callable[[], tuple[Any, Constraint]] | Recipe


class _Interrupted(BaseException):
    """Raised in a thread that has taken too long. Not an Exception, so that no ``except Exception`` catches it."""


class _Work:
    """A function on a thread of its own that can be awaited and interrupted."""

    def __init__(
        self, function: Callable[[], Any], loop: asyncio.AbstractEventLoop, on_end: Callable[[], None] | None
    ) -> None:
        self.future: asyncio.Future[Any] = loop.create_future()
        self.future.add_done_callback(lambda done: done.cancelled() or done.exception())  # the waiter may be gone
        self._function, self._loop, self._on_end = function, loop, on_end
        self._lock = threading.Lock()
        self._over = False
        self._thread = threading.Thread(target=self._run, name="guiderail-compile", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        result: Any = None
        error: BaseException | None = None
        try:
            try:
                result = self._function()
            except Exception as raised:
                error = raised
            finally:
                with self._lock:
                    self._over = True
        except _Interrupted:
            error = error or asyncio.CancelledError()
        try:
            self._loop.call_soon_threadsafe(self._tell, result, error)
        except RuntimeError:
            return  # the loop has ended, and with it every waiter

    def _tell(self, result: Any, error: BaseException | None) -> None:
        if self._on_end is not None:
            self._on_end()
        if self.future.done():
            return
        if error is None:
            self.future.set_result(result)
        elif isinstance(error, asyncio.CancelledError):
            self.future.cancel()
        else:
            self.future.set_exception(error)

    def interrupt(self) -> None:
        with self._lock:
            if not self._over and self._thread.ident is not None:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(self._thread.ident), ctypes.py_object(_Interrupted)
                )


async def interruptible(function: Callable[[], Any], seconds: float, on_end: Callable[[], None] | None = None) -> Any:
    """Returns what a function on a thread of its own returns; interrupts it after some seconds or on cancellation.

    Args:
        on_end: called on the event loop when the thread has ended, which may be after the interruption.

    Raises:
        TimeoutError: it took longer.
    """
    work = _Work(function, asyncio.get_running_loop(), on_end)
    try:
        return await asyncio.wait_for(asyncio.shield(work.future), seconds)
    finally:
        work.interrupt()


class _Elsewhere(Constraint):
    """A constraint that has been compiled elsewhere.

    Attributes:
        file: its program file.
        inner: the constraint, for inspection; None if texts are not inspected.
    """

    __slots__ = ("file", "inner")

    def __init__(self, file: bytes, inner: Constraint | None) -> None:
        self.file, self.inner = file, inner

    def _lower(self, b: _core.Builder) -> int:
        return b.replay(self.file)


class _Shared:
    """One compilation, and the number of requests that wait for it."""

    def __init__(self) -> None:
        self.waiting = 0
        self.task: asyncio.Task[Any] | None = None


class Compiler:
    """Compiled constraints by key; for one event loop."""

    def __init__(
        self, vocabulary: Vocabulary, options: ServerOptions, metrics: Metrics, manner: Manner | None = None
    ) -> None:
        self.vocabulary, self.options, self.metrics = vocabulary, options, metrics
        self._cache: OrderedDict[Hashable, tuple[Any, Guide]] = OrderedDict()
        self._shared: dict[Hashable, _Shared] = {}
        self._turns = Turns(options.compile_workers, options.max_compile_queue)
        self._loop = asyncio.get_running_loop()
        self._counting = False
        self._tending: asyncio.Future[None] | None = None
        self._readings = Turns(options.compile_workers, options.max_compile_queue, "large requests wait to be read")
        self._process: CompileProcess | None = None
        if options.compile_isolated and CompileProcess.available:
            self._process = CompileProcess(vocabulary, options, manner)

    async def guide(self, key: Hashable, build: Build, param: str = "") -> tuple[Any, Guide]:
        """Returns the first result of ``build``, and the guide of the constraint that is its second result.

        Args:
            key: equal keys mean the same constraint.
            build: a recipe, or a function that runs on another thread; used only if the key is new.
            param: the parameter of the request that describes the constraint.

        Raises:
            GuiderailError: see ``build`` and :func:`guiderail.compile`.
            LimitError: ``compile-timeout``.
        """
        known = self._cache.get(key)
        if known is not None:
            self._cache.move_to_end(key)
            self.metrics.cache_hits.inc()
            return known
        self.metrics.cache_misses.inc()
        shared = self._shared.get(key)
        if shared is None:
            shared = self._shared[key] = _Shared()
            shared.task = asyncio.ensure_future(self._compile(key, build, param, shared))
            shared.task.add_done_callback(lambda done: done.cancelled() or done.exception())  # the waiter may be gone
        assert shared.task is not None
        shared.waiting += 1
        try:
            result: tuple[Any, Guide] = await asyncio.shield(shared.task)
            return result
        finally:
            shared.waiting -= 1
            if not shared.waiting and not shared.task.done():  # it is no longer wanted
                shared.task.cancel()
                self._forget(key, shared)

    async def _compile(self, key: Hashable, build: Build, param: str, shared: _Shared) -> tuple[Any, Guide]:
        seconds = self.options.compile_seconds
        began = time.monotonic()

        def left() -> float:
            return max(seconds - (time.monotonic() - began), 0.001)

        try:
            await asyncio.wait_for(self._turns.take(), seconds)
            held = True
            try:
                started = time.perf_counter()
                if isinstance(build, Recipe):
                    build = await self._tried(build, param, left())
                held = False  # from here on, the thread returns the turn when it ends
                made: tuple[Any, Guide] = await interruptible(self._work(build), left(), self._turns.give_back)
                self.metrics.compile_seconds.observe(time.perf_counter() - started)
            finally:
                if held:
                    self._turns.give_back()
        except (TimeoutError, asyncio.TimeoutError):
            raise LimitError(
                f"the constraint was not compiled within {seconds:g} seconds; simplify it", code="compile-timeout"
            ) from None
        finally:
            self._forget(key, shared)
        self._cache[key] = made
        await self._make_room()
        return made

    async def _tried(self, recipe: Recipe, param: str, seconds: float) -> Callable[[], tuple[Any, Constraint]]:
        """A function that builds a recipe, after a separate process has done so.

        Raises:
            ApiError, LimitError, TimeoutError: it failed there, or exceeded its limits.
        """
        vocabulary = self.vocabulary
        if self._process is None or recipe.is_free:
            return lambda: recipe.build(vocabulary)
        try:
            plan, constraint, file = await self._process.compile(recipe, param, seconds)
        except ModelError as error:  # no process can be started here
            _log.warning("constraints are compiled on threads from now on: %s", error)
            self._process = None
            return lambda: recipe.build(vocabulary)

        def again() -> tuple[Any, Constraint]:
            inner: Any = pickle.loads(constraint) if self.options.inspect != "off" else None
            return plan and pickle.loads(plan), _Elsewhere(file, inner)

        return again

    def _work(self, build: Callable[[], tuple[Any, Constraint]]) -> Callable[[], tuple[Any, Guide]]:
        options = self.options

        def work() -> tuple[Any, Guide]:
            with max_work(options.max_work):
                plan, constraint = build()
            guide = compile(
                constraint,
                self.vocabulary,
                cache=False,
                max_nodes=options.max_nodes,
                fuel=options.fuel,
                max_work=options.max_work,
                max_step_work=options.max_step_work,
                max_memory=max(options.max_cached_bytes // 4, 1 << 20),
            )
            if isinstance(constraint, _Elsewhere) and constraint.inner is not None:
                guide.constraint = constraint.inner
            # The first mask of a constraint often costs most. It is made here, where no other request waits for it.
            guide.matcher().fill_next_token_bitmask(allocate_token_bitmask(1, self.vocabulary.size), 0)
            return plan, guide

        return work

    async def read(self, kind: str, body: bytes, manner: Manner) -> Contents:
        """Reads a request in a separate process.

        Raises:
            ApiError, GuiderailError: it cannot be read.
            Overloaded: too many requests wait to be read.
            TimeoutError: it takes longer than ``compile_seconds``.
        """
        seconds = self.options.compile_seconds
        began = time.monotonic()
        await asyncio.wait_for(self._readings.take(), seconds)
        try:
            if self._process is not None:
                try:
                    return await self._process.read(kind, body, max(seconds - (time.monotonic() - began), 0.001))
                except ModelError as error:
                    if error.code != "closed":
                        raise
                    _log.warning("large requests are read by the server itself from now on: %s", error)
                    self._process = None
            contents: Contents = await interruptible(lambda: read_contents(kind, body, manner), seconds)
            return contents
        finally:
            self._readings.give_back()

    async def start(self) -> None:
        """Prepares what the first constraint would wait for."""
        if self._process is not None:
            try:
                await self._process.start()
            except ModelError as error:
                _log.warning("constraints are compiled on threads: %s", error)
                self._process = None

    def close(self) -> None:
        if self._process is not None:
            self._process.close()

    def forget_soon(self, guide: Guide) -> None:
        """Drops a guide from the cache; callable from any thread."""
        try:
            self._loop.call_soon_threadsafe(self.forget, guide)
        except RuntimeError:
            return  # the loop has ended

    def forget(self, guide: Guide) -> None:
        """Drops a guide from the cache because its texts reached a limit: what it holds is large and useless."""
        dropped = [self._cache.pop(key) for key, (_, other) in list(self._cache.items()) if other is guide]
        self._free(dropped)

    def _free(self, dropped: list[tuple[Any, Guide]]) -> None:
        """Empties a list of guides on another thread. Freeing a large one takes a tenth of a second."""
        if dropped:
            self._loop.run_in_executor(None, dropped.clear)

    def _forget(self, key: Hashable, shared: _Shared) -> None:
        if self._shared.get(key) is shared:
            del self._shared[key]

    def tend(self) -> None:
        """Limits the total size of guides, which grow with their texts; call it when a text ends."""
        if not self._counting:
            self._counting = True
            self._tending = asyncio.ensure_future(self._make_room())

    async def _make_room(self) -> None:
        dropped = []
        while len(self._cache) > self.options.max_cached_guides:
            dropped.append(self._cache.popitem(last=False)[1])
        guides = {key: guide for key, (_, guide) in self._cache.items()}
        self._counting = True
        try:  # a guide may be busy
            sizes = await asyncio.to_thread(lambda: {key: guide.memory_size_bytes() for key, guide in guides.items()})
        finally:
            self._counting = False
            guides.clear()
        total = sum(sizes.values())
        share = self.options.max_cached_bytes / max(len(sizes), 1)
        # Guides above their share go first, or one client's large ones would displace everyone's small ones.
        for key, size in sorted(sizes.items(), key=lambda item: item[1] <= share):
            if total <= self.options.max_cached_bytes or len(self._cache) <= 1:
                break
            if key in self._cache:
                dropped.append(self._cache.pop(key))
                total -= size
        self._free(dropped)
