"""The body of a request: read within its limits of bytes and time, and checked to be JSON that can be answered."""

from __future__ import annotations

import asyncio
import gc
import json
import re
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from starlette.responses import Response

from guiderail.server.errors import ApiError

__all__ = ["Gone", "LastWord", "calm_collector", "parse_json", "read_body", "uncollected"]

DRAINED_BYTES = 64 << 20
"""Of a body that nobody wants, which are read and thrown away before the connection is closed."""
DRAINED_SECONDS = 5.0
"""For which they are read."""

_Receive = Callable[[], Awaitable[Any]]
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")  # the escape of one, alone or of a pair


class Gone(Exception):
    """The client closed the connection before it had an answer."""


async def read_body(receive: _Receive, headers: Any, limit: int, seconds: float) -> bytes:
    """All bytes of a body.

    Args:
        headers: of the request.
        limit: bytes it may have.
        seconds: for its arrival.

    Raises:
        ApiError: 413 when it is larger, 408 when it takes longer.
        Gone: the client left while sending.
    """
    said = headers.get("content-length", "")
    if said.isdecimal() and int(said) > limit:
        raise _too_large(limit)
    try:
        return await asyncio.wait_for(_all_of(receive, limit), seconds)
    except (TimeoutError, asyncio.TimeoutError):
        raise ApiError(
            408, f"the body of the request did not arrive within {seconds:g} seconds", code="body-timeout"
        ) from None


async def _all_of(receive: _Receive, limit: int) -> bytes:
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Gone
        body += message.get("body", b"")
        if len(body) > limit:
            raise _too_large(limit)
        if not message.get("more_body", False):
            return bytes(body)


def _too_large(limit: int) -> ApiError:
    return ApiError(413, f"the request has more than the {limit:,} bytes that are allowed", code="body-too-large")


class LastWord(Response):
    """An answer to a request whose body is still arriving.

    A connection that is closed with bytes unread is reset, and the client may never see the answer. So what still
    arrives is read and thrown away, within bounds, before the answer is ended.
    """

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await send({"type": "http.response.body", "body": self.body, "more_body": True})
        with suppress(TimeoutError, asyncio.TimeoutError):  # who has not read the answer by then does not want it
            await asyncio.wait_for(_drain(receive), DRAINED_SECONDS)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _drain(receive: _Receive) -> None:
    left = DRAINED_BYTES
    while left > 0:
        message = await receive()
        if message["type"] == "http.disconnect" or not message.get("more_body", False):
            return
        left -= len(message.get("body", b""))


SWITCH_SECONDS = 0.0002
"""For which a thread of Python may keep the interpreter while others want it."""


def calm_collector() -> None:
    """For a process that is a server.

    What is there now is not looked at any more by the collector of cycles, and all of the rest seldom; threads take
    turns more often than they would by default (5 ms), for a step of the model needs several of them one after the
    other.
    """
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 50, 100)


@contextmanager
def uncollected() -> Iterator[None]:
    """Without the collector of cycles: it would look at all objects again and again while thousands are made."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def parse_json(body: bytes, most_values: int) -> dict[str, Any]:
    """The JSON object of a body.

    Args:
        most_values: it may hold; while it is read, nobody else is served. Counted are the characters that separate
            values, also those in texts.

    Raises:
        ApiError: 413: it holds more values.
        ApiError: 400: it is none (``invalid-json``), or holds half of a surrogate pair, which is no character and
            cannot be shown to a model (``lone-surrogate``, with its place).
    """
    if sum(map(body.count, (b",", b"[", b"{"))) > most_values:
        raise ApiError(
            413, f"the request has more than the {most_values:,} values that are allowed (commas and brackets, also "
            "those in texts, are counted)", code="body-too-large",
        )  # fmt: skip
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ApiError(400, f"the body is not UTF-8: byte {error.start}", code="invalid-json") from None
    try:
        data = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise ApiError(400, f"the body is not JSON: {error}", code="invalid-json") from None
    if not isinstance(data, dict):
        raise ApiError(400, "the body is not a JSON object", code="invalid-json")
    if _SURROGATE.search(text):
        _refuse_surrogates(data)
    return data


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is not a number in JSON")


def _refuse_surrogates(data: Any) -> None:
    open_: list[tuple[str, Any]] = [("", data)]
    while open_:
        place, value = open_.pop()
        if isinstance(value, str):
            _refuse_surrogate(place, value)
        elif isinstance(value, dict):
            for name, inner in value.items():
                _refuse_surrogate(place, name)
                open_.append((f"{place}.{name}" if place else name, inner))
        elif isinstance(value, list):
            open_ += [(f"{place}.{i}", inner) for i, inner in enumerate(value)]


def _refuse_surrogate(place: str, text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        at = error.start
        raise ApiError(
            400,
            f"{place or 'a name'}: character {at} is the lone surrogate U+{ord(text[at]):04X}, half of a pair and no "
            "character; remove it",
            code="lone-surrogate",
            param=place or None,
            place={"span": [at, at + 1]},
        ) from None
