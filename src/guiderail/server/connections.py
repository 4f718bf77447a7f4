"""Closes connections of clients that do not send, or do not read.

uvicorn waits forever for the head of a request and for a client to read its answer. It also processes everything that
has arrived on one connection before it looks at the others. This protocol, which ``guiderail serve`` uses, does not.
For a server of your own::

    uvicorn.run(app, http=guiderail.server.connections.protocol(head_seconds=10, write_seconds=60))
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["protocol"]

_TURN = 0.004  # seconds for reading all connections before everything else has its turn
_MOMENT = 0.0005  # seconds for reading one connection before the others have their turn
_PIECE = 256  # bytes read at first without checking the clock
_TOO_LATE = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


class _Turns:
    """Lets the connections of a server read one after the other, for a limited time in each turn of the event loop.

    Chunks of one byte each take some microseconds per byte, and tens of thousands could arrive at once, on each of
    many connections. What is streamed to others must not wait for all of them.
    """

    def __init__(self) -> None:
        self._waiting: deque[_Impatient] = deque()
        self._spent = 0.0  # seconds, in this turn of the event loop
        self._counting = False  # whether the start of the next turn is awaited

    def add(self, connection: _Impatient) -> None:
        """Reads a connection that has received something: in this turn if there is time, else in one of the next."""
        self._waiting.append(connection)
        if not self._counting:
            self._counting = True
            connection.loop.call_soon(self._next, connection.loop)
        self._run()

    def _next(self, loop: asyncio.AbstractEventLoop) -> None:
        self._spent = 0.0
        self._counting = bool(self._waiting)
        if self._counting:
            loop.call_soon(self._next, loop)
            self._run()

    def _run(self) -> None:
        while self._waiting and self._spent <= _TURN:
            before = time.perf_counter()
            connection = self._waiting.popleft()
            if connection.read_for(_MOMENT):
                self._waiting.append(connection)
            self._spent += max(time.perf_counter() - before, 1e-6)  # a clock may stand still


class _Impatient(H11Protocol):
    """HTTP/1.1 with time limits for the head of a request and for a client to read what is sent."""

    head_seconds = 10.0
    write_seconds = 60.0
    turns: _Turns
    _head: asyncio.TimerHandle | None = None
    _write: asyncio.TimerHandle | None = None
    _rest = b""  # received but not parsed yet

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._await_head()

    def data_received(self, data: bytes) -> None:
        if self._rest:  # it waits for its turn already
            self._rest += data
        else:
            self._rest = data
            self.turns.add(self)
        if self._rest and not self.transport.is_closing():
            self.transport.pause_reading()

    def read_for(self, seconds: float) -> bool:
        """Processes what has arrived, and returns whether something is left after this time."""
        data, self._rest = self._rest, b""
        at, piece = 0, _PIECE
        before = time.perf_counter()
        until = before + seconds
        while at < len(data) and not self.transport.is_closing():
            super().data_received(data[at : at + piece])
            at += piece
            now = time.perf_counter()
            if now >= until:
                break
            piece = 2 * piece if now - before < seconds / 8 else max(piece // 2, _PIECE)
            before = now
        self._await_head()
        if self.transport.is_closing():
            return False
        self._rest = data[at:]
        if not self._rest and not self.flow.read_paused:
            self.transport.resume_reading()
        return bool(self._rest)

    def connection_lost(self, exc: Exception | None) -> None:
        self._rest = b""
        for timer in (self._head, self._write):
            if timer is not None:
                timer.cancel()
        self._head = self._write = None
        super().connection_lost(exc)

    def _await_head(self) -> None:
        """Starts the timer when a head is awaited, without restarting it for each byte, and stops it when the head is
        complete.

        Between two requests, uvicorn's own ``timeout_keep_alive`` applies.
        """
        idle = self.conn.their_state is h11.IDLE and (self.cycle is None or self.cycle.response_complete)
        if not idle and self._head is not None:
            self._head.cancel()
            self._head = None
        elif idle and self._head is None and not self.transport.is_closing():
            self._head = self.loop.call_later(self.head_seconds, self._late)

    def _late(self) -> None:
        self._head = None
        if not self.transport.is_closing():
            self.transport.write(_TOO_LATE)
            self.transport.close()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._write is None:
            self._write = self.loop.call_later(self.write_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        if self._write is not None:
            self._write.cancel()
            self._write = None
        super().resume_writing()


def protocol(*, head_seconds: float, write_seconds: float) -> type[asyncio.Protocol]:
    """Returns a protocol for uvicorn's option ``http``.

    Args:
        head_seconds: maximum time for the head of a request to arrive; beyond: 408.
        write_seconds: maximum time for a client to read what is waiting to be sent; beyond: its connection is cut.
    """
    made: type[asyncio.Protocol] = type(
        "Impatient", (_Impatient,), {"head_seconds": head_seconds, "write_seconds": write_seconds, "turns": _Turns()}
    )
    return made
