"""Turns: a bounded number at once, shared fairly among clients, with a bounded queue."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from contextvars import ContextVar

from guiderail.server.engine import Overloaded

__all__ = ["CLIENT", "Turns"]

CLIENT: ContextVar[str] = ContextVar("guiderail-client", default="")
"""Who asks: the address of the client, in the context of its request."""


class Turns:
    """Clients take turns, each in the order of its own requests. A client with many requests does not delay one with
    few.

    For use from one event loop.
    """

    def __init__(self, most: int, most_waiting: int, what: str = "constraints are waiting to be compiled") -> None:
        self._free, self._most_waiting, self._what = most, most_waiting, what
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    @property
    def waiting(self) -> int:
        return sum(map(len, self._waiting.values()))

    async def take(self) -> None:
        """Waits for a turn, which must be given back.

        Raises:
            Overloaded: too many are waiting.
        """
        if self._free > 0:
            self._free -= 1
            return
        if self.waiting >= self._most_waiting:
            raise Overloaded(f"{self._most_waiting} {self._what} already; try again later")
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(CLIENT.get(), deque()).append(future)
        try:
            await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():  # the turn came at the same moment
                self.give_back()
            raise

    def give_back(self) -> None:
        while self._waiting:
            client, queue = self._waiting.popitem(last=False)
            future = queue.popleft()
            if queue:
                self._waiting[client] = queue  # at the end, so that the others come first
            if not future.done():
                future.set_result(None)
                return
        self._free += 1
