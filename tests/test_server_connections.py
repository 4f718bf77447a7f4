"""Requests that arrive in very many small parts are read in turn with all others, and completely."""

from __future__ import annotations

import asyncio
import json
import random
import socket
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest

from guiderail.server import connections
from server_support import ToyModel, httpx, listening

CHAT = "/v1/chat/completions"


def exchanged(base: str, pieces: list[bytes]) -> bytes:
    """Returns a server's answer to these bytes."""
    place = urlsplit(base)
    with socket.create_connection((place.hostname, place.port), timeout=30) as client:
        for piece in pieces:
            client.sendall(piece)
        answer = b""
        while more := client.recv(1 << 16):
            answer += more
    return answer


def chunked(body: bytes, size: int) -> bytes:
    parts = [body[i : i + size] for i in range(0, len(body), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


@pytest.mark.parametrize("moment", [None, 0.0])  # 0: others have their turn after each piece
def test_bodies_in_tiny_chunks_and_requests_in_a_row_are_answered(moment, monkeypatch):
    if moment is not None:
        monkeypatch.setattr(connections, "_MOMENT", moment)
        monkeypatch.setattr(connections, "_TURN", moment)
    body = json.dumps({"messages": [{"role": "user", "content": "x" * 3000}], "max_tokens": 2}).encode()
    head = f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n".encode()
    rng = random.Random(3)
    with listening(ToyModel("ok"), max_body_bytes=100_000) as (base, _):
        for size in (1, 2, 700):
            told = head + b"Transfer-Encoding: chunked\r\n\r\n" + chunked(body, size)
            cuts = sorted(rng.sample(range(len(told)), 5))
            pieces = [told[i:j] for i, j in zip([0, *cuts], [*cuts, len(told)], strict=True)]
            answer = exchanged(base, pieces)
            assert answer.startswith(b"HTTP/1.1 200") and b'"ok"' in answer, answer[:300]
        answer = exchanged(base, [head + b"Transfer-Encoding: chunked\r\n\r\n" + chunked(b" " * 101_000, 5)])
        assert answer.startswith(b"HTTP/1.1 413")
        rows = b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n" * 60
        answer = exchanged(base, [rows + b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"])
        assert answer.count(b"HTTP/1.1 200") == 61 and b'"status":"ok"' in answer.split(b"HTTP/1.1")[-1]
        large = b'{"x": "' + b"y" * 90_000 + b'"}'
        answer = exchanged(base, [head + b"Content-Length: %d\r\n\r\n" % len(large), large])
        assert answer.startswith(b"HTTP/1.1 400") and b"missing" in answer
        assert httpx.get(base + "/health", timeout=20).status_code == 200


def test_others_have_their_turn_while_much_is_read(monkeypatch):
    """A protocol that is slow for each byte: the loop runs between its pieces, which stay in order."""
    monkeypatch.setattr(connections, "_MOMENT", 0.0)
    monkeypatch.setattr(connections, "_TURN", 0.0)
    seen: list[bytes] = []
    paused = {"now": False}
    made = connections.protocol(head_seconds=1, write_seconds=1)
    one = made.__new__(made)
    one.transport = SimpleNamespace(
        is_closing=lambda: False, pause_reading=lambda: paused.update(now=True),
        resume_reading=lambda: paused.update(now=False),
    )  # fmt: skip
    one.flow = SimpleNamespace(read_paused=False)
    monkeypatch.setattr(connections.H11Protocol, "data_received", lambda self, data: seen.append(bytes(data)))
    monkeypatch.setattr(made, "_await_head", lambda self: None)
    data = bytes(random.Random(1).randrange(256) for _ in range(20_000))
    turns = 0

    async def main() -> None:
        nonlocal turns
        one.loop = asyncio.get_running_loop()
        one.data_received(data[:15_000])
        assert paused["now"] and len(seen) == 1
        one.data_received(data[15_000:])
        while paused["now"]:
            turns += 1
            await asyncio.sleep(0)

    asyncio.run(main())
    assert b"".join(seen) == data and turns > 10


def test_what_is_left_of_a_closed_connection_is_forgotten(monkeypatch):
    monkeypatch.setattr(connections, "_MOMENT", 0.0)
    monkeypatch.setattr(connections, "_TURN", 0.0)
    made = connections.protocol(head_seconds=1, write_seconds=1)
    one = made.__new__(made)
    closing = {"now": False}
    one.transport = SimpleNamespace(is_closing=lambda: closing["now"], pause_reading=lambda: None)
    seen: list[bytes] = []
    monkeypatch.setattr(connections.H11Protocol, "data_received", lambda self, data: seen.append(data))
    monkeypatch.setattr(made, "_await_head", lambda self: None)

    async def main() -> None:
        one.loop = asyncio.get_running_loop()
        one.data_received(b"x" * 10_000)
        closing["now"] = True
        await asyncio.sleep(0.01)

    asyncio.run(main())
    assert len(seen) == 1 and one._rest == b""


def test_many_connections_share_the_time_of_one_turn(monkeypatch):
    """A clock that runs only while something is read: no turn takes longer than its limit, and all are read alike."""
    clock = {"now": 0.0}
    read: dict[int, bytes] = {}

    def slow(self, data: bytes) -> None:
        clock["now"] += 1e-6 * len(data)
        read[self.number] = read.get(self.number, b"") + data

    monkeypatch.setattr(connections, "time", SimpleNamespace(perf_counter=lambda: clock["now"]))
    monkeypatch.setattr(connections.H11Protocol, "data_received", slow)
    made = connections.protocol(head_seconds=1, write_seconds=1)
    monkeypatch.setattr(made, "_await_head", lambda self: None)
    data = random.Random(2).randbytes(3_000)
    spans: list[float] = []
    begun: list[int] = []

    async def main() -> None:
        many = []
        for number in range(50):
            one = made.__new__(made)
            one.number, one.loop = number, asyncio.get_running_loop()
            one.transport = SimpleNamespace(
                is_closing=lambda: False, pause_reading=lambda: None, resume_reading=lambda: None
            )
            one.flow = SimpleNamespace(read_paused=False)
            many.append(one)
        before = clock["now"]
        for one in many:
            one.data_received(data)
        while any(one._rest for one in many):
            spans.append(clock["now"] - before)
            begun.append(len(read))
            before = clock["now"]
            await asyncio.sleep(0)

    asyncio.run(main())
    assert len(spans) > 10 and max(spans) < connections._TURN + 2 * connections._MOMENT
    assert begun[8] == 50  # nobody waits until others have been read completely
    assert all(read[i] == data for i in range(50))
