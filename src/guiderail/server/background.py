"""Calls functions that may take long off the event loop: each on a thread of its own, within bounds.

Slow calls would block a pool of fixed size as soon as they hold all its threads.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from guiderail.server.engine import Overloaded

__all__ = ["Background"]

T = TypeVar("T")

MOST = 64
"""Maximum number of concurrent calls; abandoned native calls count until they have ended."""


class Background:
    """For use from one event loop."""

    def __init__(self) -> None:
        self._running = 0

    async def run(self, function: Callable[[], T], seconds: float) -> T:
        """Returns what a function returns.

        Raises:
            Overloaded: too many functions are running.
            TimeoutError: it takes longer; its thread continues until it ends by itself.
        """
        if self._running >= MOST:
            raise Overloaded("too many requests are being prepared already; try again later")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        future.add_done_callback(lambda done: done.cancelled() or done.exception())  # the waiter may be gone

        def work() -> None:
            result: Any = None
            error: BaseException | None = None
            try:
                result = function()
            except Exception as raised:
                error = raised
            try:
                loop.call_soon_threadsafe(tell, result, error)
            except RuntimeError:
                return  # the loop has ended, and with it every waiter

        def tell(result: T, error: BaseException | None) -> None:
            self._running -= 1
            if future.done():
                return
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)

        self._running += 1
        threading.Thread(target=work, name="guiderail-aside", daemon=True).start()
        return await asyncio.wait_for(asyncio.shield(future), seconds)
