"""Reads the body of a request within limits of size and time, and checks its JSON."""

from __future__ import annotations

import asyncio
import gc
import re
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from starlette.responses import Response

from guiderail.server.errors import ApiError
from guiderail.support.json_objects import RepeatedName, loads, unique_names
from guiderail.support.numerals import refuse_constant

__all__ = [
    "Gone",
    "LastWord",
    "calm_collector",
    "is_at_most",
    "parse_json",
    "read_body",
    "refuse_surrogates",
    "uncollected",
]

DRAINED_BYTES = 64 << 20
"""Bytes of an unwanted body that are read and discarded before the connection is closed."""
DRAINED_SECONDS = 5.0
"""Maximum time for which they are read."""

_MOST_DIGITS = 18
_Receive = Callable[[], Awaitable[Any]]
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")  # the escape of a surrogate, alone or in a pair


class Gone(Exception):
    """The client closed the connection before it got an answer."""


async def read_body(receive: _Receive, headers: Any, limit: int, seconds: float) -> bytes:
    """Returns all bytes of a body.

    Args:
        headers: the headers of the request.
        limit: maximum size in bytes.
        seconds: maximum time for it to arrive.

    Raises:
        ApiError: 413: it is larger; 408: it takes longer.
        Gone: the client left while sending.
    """
    length = headers.get("content-length", "")
    if length.isdecimal() and not is_at_most(length, limit):
        raise _too_large(limit)
    try:
        return await asyncio.wait_for(_all_of(receive, limit), seconds)
    except (TimeoutError, asyncio.TimeoutError):
        raise ApiError(
            408, f"the body of the request did not arrive within {seconds:g} seconds", code="body-timeout"
        ) from None


def is_at_most(text: str, most: int) -> bool:
    """Whether a text is a number from 0 to ``most``. Python does not convert texts of any length into numbers."""
    return text.isdecimal() and len(text) <= _MOST_DIGITS and int(text) <= most


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
    return ApiError(413, f"the request exceeds the limit of {limit:,} bytes", code="body-too-large")


class LastWord(Response):
    """An answer to a request whose body is still arriving.

    A connection that is closed with unread bytes is reset, and the client may never see the answer. So the rest of the
    body is read and discarded, within bounds, before the answer ends.
    """

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await send({"type": "http.response.body", "body": self.body, "more_body": True})
        with suppress(TimeoutError, asyncio.TimeoutError):  # the client had time to read the answer
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
"""Time for which a Python thread may keep the interpreter while others want it."""


def calm_collector() -> None:
    """Tunes garbage collection and thread switching for a process that is a server.

    Existing objects are exempt from cycle collection, and collections are rare. Threads switch more often than by
    default (5 ms), because a step of the model needs several of them in sequence.
    """
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 50, 100)


@contextmanager
def uncollected() -> Iterator[None]:
    """Pauses cycle collection, which would visit all objects again and again while thousands are made."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def parse_json(body: bytes, most_values: int) -> dict[str, Any]:
    """Returns the JSON object of a body.

    Args:
        most_values: maximum number of values, because nobody else is served while they are parsed. It counts the
            characters that separate values, also inside strings.

    Raises:
        ApiError: 413: there are more values.
        ApiError: 400: it is not a JSON object (``invalid-json``), or contains half of a surrogate pair, which is not a
            character and cannot be shown to a model (``lone-surrogate``, with its location).
    """
    if sum(map(body.count, (b",", b"[", b"{"))) > most_values:
        raise ApiError(
            413, f"the request exceeds the limit of {most_values:,} values (commas and brackets are counted, also "
            "inside strings)", code="body-too-large",
        )  # fmt: skip
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ApiError(400, f"the body is not UTF-8: byte {error.start}", code="invalid-json") from None
    try:
        data = loads(text, parse_constant=refuse_constant, object_pairs_hook=unique_names)
    except RepeatedName as error:
        raise ApiError(400, str(error), code="invalid-json") from None
    except ValueError as error:
        raise ApiError(400, f"the body is not JSON: {error}", code="invalid-json") from None
    if not isinstance(data, dict):
        raise ApiError(400, "the body is not a JSON object", code="invalid-json")
    refuse_surrogates(data, text)
    return data


def refuse_surrogates(data: Any, text: str, place: str = "") -> None:
    """Checks that no text in a JSON value has half of a surrogate pair.

    Args:
        text: the JSON that the value was read from.
        place: where the value is in the request.

    Raises:
        ApiError: 400 ``lone-surrogate``, with its location.
    """
    if not _SURROGATE.search(text):
        return
    open_: list[tuple[str, Any]] = [(place, data)]
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
