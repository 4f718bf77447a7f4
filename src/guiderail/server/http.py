"""Access control, and answers as events that notice when clients leave."""

from __future__ import annotations

import asyncio
import base64
import hmac
import ipaddress
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar
from urllib.parse import urlsplit

from fastapi import Request
from starlette.responses import JSONResponse, Response

from guiderail.server.bodies import Gone
from guiderail.server.errors import ApiError
from guiderail.server.metrics import Metrics

__all__ = ["Events", "Gate", "Gone", "while_listening"]

T = TypeVar("T")


async def _left(receive: Callable[[], Awaitable[Any]]) -> None:
    """Returns when the client has closed the connection."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _ended(task: asyncio.Future[T], receive: Callable[[], Awaitable[Any]]) -> bool:
    """Waits for a task, which is cancelled at once if the client leaves. Returns whether it has ended by itself."""
    both: list[asyncio.Future[Any]] = [task, asyncio.ensure_future(_left(receive))]
    try:
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        return task.done()
    finally:
        for one in both:
            if not one.done():
                one.cancel()
                with suppress(asyncio.CancelledError, Exception):
                    await one


async def while_listening(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Returns the result of ``work``, which is cancelled at once if the client leaves.

    Raises:
        Gone: the client left.
    """
    task = asyncio.ensure_future(work)
    if not await _ended(task, request.receive):
        raise Gone
    return task.result()


class Gate:
    """Requires the API key under ``/v1`` and ``/inspect``, and counts answers by path and status.

    Under ``/inspect``, a browser may send the key as the password of HTTP's Basic scheme, with any user name. Without a
    key, only requests from this machine, by its own name, have access. This keeps out pages of other origins whose name
    resolves to this machine (DNS rebinding).

    It is plain ASGI: a wrapper around ``receive`` and ``send`` would hide from a response that its client has left.
    """

    def __init__(self, app: Any, api_key: str | None, metrics: Metrics) -> None:
        self._app, self._key, self._metrics = app, api_key, metrics

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def watch(message: Any) -> None:
            if message["type"] == "http.response.start":
                status = message["status"]
                path = scope["path"] if status not in (404, 405) else "other"
                for many in ("/v1/models", "/inspect"):
                    path = many if path.startswith(many) else path
                self._metrics.requests.labels(path if status != 401 else "/v1", str(status)).inc()
            await send(message)

        app = self._app
        inside = scope["path"].startswith("/inspect")
        error: ApiError | None = None
        if (inside or scope["path"].startswith("/v1")) and not self._admits(scope, inside):
            error = ApiError(401, "the API key is missing or wrong", code="invalid-api-key", param=None)
        elif inside and self._key is None and not _is_local(scope):
            error = ApiError(
                403, "without an API key, only this machine may look inside, at http://localhost", code="not-local"
            )
        if error is not None:
            self._metrics.errors.labels(error.code).inc()
            asked = {"WWW-Authenticate": 'Basic realm="guiderail", charset="UTF-8"'}
            app = JSONResponse(error.body(), error.status, asked if inside and self._key else error.headers())
        await app(scope, receive, watch)

    def _admits(self, scope: Any, inside: bool) -> bool:
        if self._key is None:
            return True
        header = dict(scope["headers"]).get(b"authorization", b"")
        scheme, _, key = header.partition(b" ")
        if inside and scheme.lower() == b"basic":
            try:
                _, _, key = base64.b64decode(key, validate=True).partition(b":")
            except ValueError:
                return False
        elif scheme.lower() != b"bearer":
            return False
        return hmac.compare_digest(key, self._key.encode())


def _is_local(scope: Any) -> bool:
    """Whether a request comes from this machine and addresses it by its own name."""
    host = dict(scope["headers"]).get(b"host", b"").decode("latin-1")
    peer = scope.get("client")
    try:
        name = urlsplit(f"//{host}").hostname or ""
        if name != "localhost" and not ipaddress.ip_address(name).is_loopback:
            return False
        return peer is None or ipaddress.ip_address(peer[0]).is_loopback  # None: a socket among this machine's files
    except ValueError:  # no address
        return False


class Events(Response):
    """A response of server-sent events, closed as soon as the client leaves.

    ``events`` is always closed, so that its ``finally`` frees what it holds. ``on_end`` is called last, even if the
    response never began.
    """

    media_type = "text/event-stream"

    def __init__(self, events: AsyncIterator[bytes], on_end: Callable[[], None], headers: dict[str, str]) -> None:
        self.status_code, self.background = 200, None
        self._events, self._on_end = events, on_end
        self.init_headers({"Cache-Control": "no-cache", "X-Accel-Buffering": "no", **headers})

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        writing = asyncio.ensure_future(self._write(send))
        try:
            if await _ended(writing, receive):
                writing.result()
        finally:
            self._on_end()

    async def _write(self, send: Any) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        try:
            async for chunk in self._events:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        except OSError:  # a connection that broke while an event was being sent
            return
        finally:
            close = getattr(self._events, "aclose", None)
            if close is not None:
                await close()
        await send({"type": "http.response.body", "body": b"", "more_body": False})
