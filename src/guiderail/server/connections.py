"""Connections that are not kept open by those who do not speak, or do not listen.

uvicorn waits without end for the head of a request and for a client that does not read its answer. This protocol,
which ``guiderail serve`` uses, does not. In a server of your own::

    uvicorn.run(app, http=guiderail.server.connections.protocol(head_seconds=10, write_seconds=60))
"""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["protocol"]

_TOO_LATE = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


class _Impatient(H11Protocol):
    """HTTP/1.1 with a limit of time for the head of a request, and for a client to take what is sent."""

    head_seconds = 10.0
    write_seconds = 60.0
    _head: asyncio.TimerHandle | None = None
    _write: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._await_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._head, self._write):
            if timer is not None:
                timer.cancel()
        self._head = self._write = None
        super().connection_lost(exc)

    def _await_head(self) -> None:
        """Sets the clock where a head is awaited, without setting it back for each byte; stops it where one is there.

        Between two requests uvicorn waits for ``timeout_keep_alive`` by itself.
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
    """A protocol for uvicorn's option ``http``.

    Args:
        head_seconds: for the head of a request to arrive; beyond: 408.
        write_seconds: in which a client must take what is waiting to be sent; beyond, its connection is cut.
    """
    made: type[asyncio.Protocol] = type(
        "Impatient", (_Impatient,), {"head_seconds": head_seconds, "write_seconds": write_seconds}
    )
    return made
