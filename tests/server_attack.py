"""What hostile clients send to a server, and how, for ``tests/server_soak.py``."""

from __future__ import annotations

import asyncio
import collections
import json
import random
import re
import time
from collections.abc import Callable
from typing import Any

__all__ = ["BAD_BYTES", "CHAT", "HELLO", "BadClients", "bad_body"]

CHAT = "/v1/chat/completions"
COMPLETIONS, RESPONSES = "/v1/completions", "/v1/responses"
HELLO = [{"role": "user", "content": "hello"}]

AMBIGUOUS = (
    'root ::= r0{2} root* r1+ | "b"* "a"? | "" | "+b"? "+"{0,2}\n'
    'r0 ::= ")" | root | "a"{2} "b"? ","? | root{0,2}\nr1 ::= "+"'
)
GAPS = {"type": "object", "properties": {"a": {"not": {"pattern": "x.{20,40}y.{20,40}z"}, "type": "string"}},
        "required": ["a"]}  # fmt: skip


def nested(depth: int) -> dict[str, Any]:
    ways = [{"properties": {f"k{depth}{i}": nested(depth - 1) if depth else {"type": "integer"}},
             "required": [f"k{depth}{i}"]} for i in range(6)]  # fmt: skip
    return {"type": "object", "oneOf": ways}


def deep(depth: int) -> dict[str, Any]:
    made: dict[str, Any] = {"type": "integer"}
    for _ in range(depth):
        made = {"type": "object", "properties": {"a": made}, "required": ["a"]}
    return made


def bad_body(rng: random.Random) -> tuple[str, dict[str, Any]]:
    """Returns a request that must be answered, and its name. Requests always differ a little, so no cache has them.

    The member ``path`` is the target, if it is not the chat.
    """
    n = rng.randrange(10**9)

    def named(count: int, value: Any) -> dict[str, Any]:
        return {f"property_{n}_{i}": value(i) for i in range(count)}

    def wide() -> dict[str, Any]:
        inner = named(4000, lambda i: {"type": "string", "pattern": f"^[a-z]{{{i % 30},{i % 30 + 9}}}$"})
        return {"guided_json": {"type": "object", "properties": inner}}

    def big() -> dict[str, Any]:
        return {"guided_json": {"type": "object", "properties": named(6000, lambda i: {"description": "d" * 200})}}

    def patterns() -> dict[str, Any]:
        inner = {f"{chr(97 + i)}{n % 97}": {"type": "integer", "minimum": i} for i in range(18)}
        return {"guided_json": {"type": "object", "patternProperties": inner, "additionalProperties": False}}

    def contains() -> dict[str, Any]:
        ways = [{"contains": {"const": i}} for i in range(30)]
        return {"guided_json": {"type": "array", "title": str(n), "allOf": ways}}

    gaps = {"guided_json": {**GAPS, "title": str(n)}, "max_tokens": 60}
    makers: dict[str, Callable[[], dict[str, Any]]] = {
        "ambiguous grammar": lambda: {"guided_grammar": AMBIGUOUS.replace("b", chr(97 + n % 25)), "max_tokens": 40},
        "not, gaps, budget": lambda: gaps,
        "not, gaps, promise": lambda: {**gaps, "guiderail": {"on_incomplete": "finish"}},
        "nested oneOf": lambda: {"guided_json": {**nested(4), "title": str(n)}},
        "patternProperties": patterns,
        "wide schema": wide,
        "big schema": big,
        "contains": contains,
        "look-aheads": lambda: {"guided_regex": f"(?!(.*a.{{12}}){{3}}).*(?=.*b.{{15}}c).*{n}"},
        "nested counts": lambda: {"guided_regex": "((a{0,100}){0,100}){0,100}" + str(n)},
        "lark": lambda: {
            "guided_grammar": f'start: (a | b)+\na: /[a-z]{{1,40}}/ b?\nb: /(?=.*x.{{20}})[a-z ]+/ "{n}"?'
        },
        "many messages": lambda: {"messages": HELLO * 4000},
        "many parts": lambda: {"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}] * 60_000}]},
        "many tools": lambda: {
            "tools": [
                {"type": "function", "function": {"name": f"f{n}_{i}", "parameters": deep(5)}} for i in range(500)
            ],
            "tool_choice": "required",
        },
        "custom tools": lambda: {
            "tools": [
                {
                    "type": "custom",
                    "custom": {
                        "name": f"c{i}",
                        "format": {
                            "type": "grammar",
                            "grammar": {"syntax": "lark", "definition": f"start: /[a-z]{{{n % 50}}}/"},
                        },
                    },
                }
                for i in range(60)
            ],
        },
        "deep schema": lambda: {"guided_json": {**deep(300), "title": str(n)}},
        "many names": lambda: {f"name{i}": n for i in range(100_000)},
        "logit_bias": lambda: {"logit_bias": {str(i): 1 for i in range(100_000)}},
        "stops": lambda: {"stop": [f"{n}{i}" + "x" * 50_000 for i in range(60)]},
        "too many stops": lambda: {"stop": ["x"] * 50_000},
        "n": lambda: {"n": 16, "max_tokens": 20},
        "too many n": lambda: {"n": 10**9},
        "best of": lambda: {"path": COMPLETIONS, "prompt": "x", "messages": None, "best_of": 10**6},
        "many ids": lambda: {"path": COMPLETIONS, "prompt": [n % 200] * 90_000, "messages": None},
        "long number": lambda: {"seed": int("9" * 4000), "guided_json": {"maximum": float(n) * 1e290}},
        "surrogates": lambda: {"guided_json": {"enum": ["\ud83d\ude00" * 50_000, "\udc00"]}},
        "response": lambda: {
            "path": RESPONSES,
            "messages": None,
            "input": "x",
            "max_tokens": None,
            "metadata": {str(i): "x" * 100 for i in range(20_000)},
        },
        "long prompt": lambda: {"messages": [{"role": "user", "content": f"{n} " + "word " * 100_000}]},
    }
    name = rng.choice(list(makers))
    return name, makers[name]()


BAD_BYTES = {
    "no JSON": b"{",
    "deep": b'{"messages": ' + b"[" * 100_000,
    "many values": b'{"messages": [' + b"[]," * 700_000 + b"[]]}",
    "surrogate": b'{"messages": [{"role": "user", "content": "\\ud800"}]}',
    "10 MB": b" " * (10 << 20),
    "no UTF-8": b"\xff" * 1_000_000,
    "a number": b"1" * 1_000_000,
    "names": b'{"messages": [{"role": "user", "content": "x", ' + b'"a": 1, ' * 90_000 + b'"b": 2}]}',
}
HEAD = f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"


def body_of(given: dict[str, Any]) -> tuple[str, bytes]:
    """Returns the path and the body."""
    path = given.pop("path", CHAT)
    return path, json.dumps({name: value for name, value in given.items() if value is not None}).encode()


class BadClients:
    def __init__(self, port: int, seconds: float, seed: int) -> None:
        self.port, self.until, self.rng = port, time.monotonic() + seconds, random.Random(seed)
        self.seen: collections.Counter[str] = collections.Counter()

    async def run(self) -> None:
        kinds = [self.bodies] * 6 + [self.bytes, self.vanish, self.vanish, self.slow_reader, self.slow_loris]
        kinds += [self.slow_upload, self.tiny_chunks, self.pipeline, self.large_heads, self.many_connections]
        await asyncio.gather(*(self.again(kind) for kind in kinds))
        print(json.dumps(self.seen))

    async def again(self, kind: Any) -> None:
        while time.monotonic() < self.until:
            try:
                await asyncio.wait_for(kind(), max(1.0, self.until - time.monotonic() + 2))
            except (OSError, asyncio.IncompleteReadError, asyncio.TimeoutError, TimeoutError) as error:
                self.seen[f"{kind.__name__}: {type(error).__name__}"] += 1
            await asyncio.sleep(0.02)

    async def send(
        self, body: bytes, path: str = CHAT, size: int = 1 << 20
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=size)
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()
        return reader, writer

    async def answered(self, name: str, body: bytes, path: str = CHAT) -> None:
        reader, writer = await self.send(body, path)
        try:
            answer = await reader.read()
        finally:
            writer.close()
        self._note(name, answer)

    def _note(self, name: str, answer: bytes) -> None:
        status = answer[9:12].decode()
        code = re.search(rb'"code": ?"([a-z-]+)"', answer) if status != "200" else None
        self.seen[f"{name}: {status or 'closed'}{'' if code is None else ' ' + code[1].decode()}"] += 1

    async def bodies(self) -> None:
        name, given = bad_body(self.rng)
        path, body = body_of({"messages": HELLO, "max_tokens": 30, **given})
        await self.answered(name, body, path)

    async def bytes(self) -> None:
        name, body = self.rng.choice(list(BAD_BYTES.items()))
        await self.answered(name, body)

    async def vanish(self) -> None:
        _, given = bad_body(self.rng)
        path, body = body_of({"messages": HELLO, "max_tokens": 500, "stream": True, **given})
        _, writer = await self.send(body, path)
        await asyncio.sleep(self.rng.uniform(0, 0.5))
        writer.transport.abort()
        self.seen["vanished"] += 1

    async def slow_upload(self) -> None:
        """A body that arrives byte by byte, too slowly."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(HEAD.encode() + b"Content-Length: 100000\r\n\r\n{")
            while not reader.at_eof() and not writer.is_closing():
                writer.write(b" ")
                await writer.drain()
                try:
                    self._note("slow upload", await asyncio.wait_for(reader.read(1000), 0.1))
                    return
                except (TimeoutError, asyncio.TimeoutError):
                    continue
        finally:
            writer.transport.abort()

    async def tiny_chunks(self) -> None:
        """A body in chunks of one byte."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(HEAD.encode() + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\n \r\n" * 300_000 + b"0\r\n\r\n")
            await writer.drain()
            self._note("tiny chunks", await reader.read(1000))
        finally:
            writer.transport.abort()

    async def pipeline(self) -> None:
        """Requests one after another without waiting for an answer."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n" * 500)
            await writer.drain()
            self._note("pipeline", await reader.read(1000))
            await asyncio.sleep(0.2)
        finally:
            writer.transport.abort()

    async def large_heads(self) -> None:
        """Very many headers, or one very long."""
        lines = b"a:b\r\n" * 12_000 if self.rng.random() < 0.5 else b"a: " + b"b" * 500_000 + b"\r\n"
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(b"GET /health HTTP/1.1\r\nHost: x\r\n" + lines + b"\r\n")
            await writer.drain()
            self._note("large head", await reader.read(1000))
        finally:
            writer.transport.abort()

    async def many_connections(self) -> None:
        opened = [await asyncio.open_connection("127.0.0.1", self.port) for _ in range(100)]
        await asyncio.sleep(0.5)
        for _, writer in opened:
            writer.transport.abort()
        self.seen["many connections"] += 1

    async def slow_reader(self) -> None:
        stream = {"messages": HELLO, "max_tokens": 2000, "stream": True, "logprobs": True, "top_logprobs": 20}
        reader, writer = await self.send(json.dumps(stream).encode(), size=64)
        try:
            for _ in range(50):
                await reader.read(10)
                await asyncio.sleep(0.1)
        finally:
            writer.transport.abort()
        self.seen["slow reader"] += 1

    async def slow_loris(self) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(f"POST {CHAT} HTTP/1.1\r\nHost: x\r\n".encode())
            for _ in range(200):
                writer.write(b"X-A: b\r\n"[:1])
                await writer.drain()
                await asyncio.sleep(0.1)
                if reader.at_eof():
                    break
            answer = await asyncio.wait_for(reader.read(100), 1)
            self.seen[f"slow loris: {answer[9:12].decode() or 'closed'}"] += 1
        finally:
            writer.transport.abort()
