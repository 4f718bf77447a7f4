"""A server on a socket under stress: it stays up, answers in time, and returns its memory."""

from __future__ import annotations

import gc
import json
import platform
import re
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import guiderail as gr
from server_support import ToyModel, events_of, httpx, listening, wait_for

CHAT = "/v1/chat/completions"
HELLO = [{"role": "user", "content": "hello"}]


def idle(model, service):
    """Waits until everything that ran has ended."""
    wait_for(lambda: model.open == 0 and service.engine.load == (0, 0))
    assert model.reserved == 0


def answers(base: str, seconds: float = 10.0) -> None:
    """Checks that the server answers a plain request in time."""
    started = time.monotonic()
    body = {"messages": HELLO, "structured_outputs": {"choice": ["yes", "no"]}}
    response = httpx.post(base + CHAT, json=body, timeout=seconds)
    assert response.status_code == 200 and time.monotonic() - started < seconds


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_leaves_frees_its_work_at_once(stream):
    model = ToyModel("x" * 4000, delay=0.005)
    with listening(model) as (base, service):
        body = json.dumps({"messages": HELLO, "max_tokens": 4000, "stream": stream, "temperature": 0}).encode()
        place = urlsplit(base)
        with socket.create_connection((place.hostname, place.port)) as client:
            client.sendall(
                f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(body)}\r\n\r\n".encode()
                + body
            )
            if stream:
                assert b"200" in client.recv(100)
            wait_for(lambda: len(model.feeds) > 5)
        left = time.monotonic()
        idle(model, service)
        assert time.monotonic() - left < 2 and len(model.feeds) < 1000
        assert service.metrics.registry.get_sample_value("guiderail_cancelled_total") >= 1
        wait_for(lambda: service.metrics.registry.get_sample_value("guiderail_active_streams") == 0)
        answers(base)


def test_a_client_that_leaves_while_its_constraint_is_compiled(monkeypatch):
    from guiderail.server import compiling

    started, ended = threading.Event(), threading.Event()

    def slowly(*_, **__):
        started.set()
        try:
            end = time.monotonic() + 30
            while time.monotonic() < end:
                sum(range(50))
        finally:
            ended.set()

    monkeypatch.setattr(compiling, "compile", slowly)
    with listening(ToyModel(), compile_isolated=False) as (base, service):
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(base + CHAT, json={"messages": HELLO, "guided_regex": "a"}, timeout=0.5)
        assert started.is_set() and ended.wait(5)
        assert service.engine.load == (0, 0)


def test_64_streams_at_once_are_served_in_turn():
    model = ToyModel(lambda prompt: "word " * 8 + prompt[-3:-1], delay=0.0005)
    with listening(model, max_rows=16, max_cached_tokens=2048) as (base, service):
        first = {}

        def stream(i):
            pieces = []
            body = {"messages": [{"role": "user", "content": f"number {i:02d}"}], "stream": True, "temperature": 0,
                    "max_tokens": 60}  # fmt: skip
            with httpx.stream("POST", base + CHAT, json=body, timeout=60) as response:
                assert response.status_code == 200
                for line in response.iter_lines():
                    if line.startswith("data: {"):
                        (choice,) = json.loads(line.removeprefix("data: "))["choices"]
                        piece = choice["delta"].get("content")
                        if piece:
                            first.setdefault(i, time.monotonic())
                            pieces.append(piece)
            return "".join(pieces)

        with ThreadPoolExecutor(64) as pool:
            texts = list(pool.map(stream, range(64)))
        assert texts == ["word " * 8 + f"{i:02d}" for i in range(64)]
        assert model.most_reserved <= 2048
        idle(model, service)
        answers(base)


def test_a_schema_of_a_megabyte():
    schema = {
        "type": "object",
        "properties": {f"property_{i:05d}": {"type": "string", "description": "d" * 60} for i in range(9000)},
        "additionalProperties": False,
    }
    body = {
        "messages": HELLO,
        "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}},
    }
    assert len(json.dumps(body)) > 1_000_000
    model = ToyModel('{"property_00001": "a"}')
    with listening(model, compile_seconds=20) as (base, _):
        with ThreadPoolExecutor(1) as pool:
            big = pool.submit(httpx.post, base + CHAT, json={**body, "temperature": 0}, timeout=60)
            waited = []
            while not big.done():
                started = time.monotonic()
                assert httpx.get(base + "/health", timeout=20).status_code == 200
                waited.append(time.monotonic() - started)
                time.sleep(0.02)
            response = big.result()
        assert response.status_code == 200, response.text
        assert json.loads(response.json()["choices"][0]["message"]["content"]) == {"property_00001": "a"}
        assert max(waited) < 5  # others are answered meanwhile
        answers(base)


PATHOLOGICAL = [
    r"(a|b)*a(a|b){20}",
    r"(a?){5000}a{5000}",
    r"((a{0,100}){0,100}){0,100}",
    r"(x+x+)+y",
    r"(?=.*a.{30})(?=.*b.{40}).*c",
    r"(?!(.*a.{12}){3}).*(?=.*b.{15}c).*",
    "(" * 2000 + "a" + ")*" * 2000,
    "(?:a{1000}){1000}" * 20,
    r"(\w+\s?)*" * 30 + "!",
]


def test_pathological_regular_expressions():
    with listening(ToyModel(), compile_seconds=3, mask_seconds=5, request_seconds=20) as (base, _):
        for pattern in PATHOLOGICAL:
            started = time.monotonic()
            body = {"messages": HELLO, "structured_outputs": {"regex": pattern}, "max_tokens": 20, "seed": 1}
            response = httpx.post(base + CHAT, json=body, timeout=60)
            assert time.monotonic() - started < 20
            if response.status_code == 200:
                (choice,) = response.json()["choices"]
                if choice["finish_reason"] == "stop":
                    assert gr.regex(pattern).matches(choice["message"]["content"])
            else:
                assert response.status_code == 400 and response.json()["error"]["code"], pattern
        answers(base)


def rss() -> int:
    """Returns the resident bytes of the process."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_memory_comes_back():
    model = ToyModel("x" * 100)
    with listening(model, max_cached_guides=4, max_cached_bytes=8 << 20) as (base, service), httpx.Client() as client:

        def storm(start):
            for i in range(start, start + 25):
                names = {f"p{i}_{k}": {"type": "string", "pattern": f"^[a-z]{{{k + 1},{k + 9}}}$"} for k in range(30)}
                schema = {"type": "object", "properties": names, "required": list(names)}
                body = {"messages": HELLO, "guided_json": schema, "max_tokens": 20}
                assert client.post(base + CHAT, json=body, timeout=30).status_code == 200
            idle(model, service)
            gr.clear_cache()
            gc.collect()

        storm(0)  # warm-up: modules, class masks, the allocator's arenas
        storm(100)
        before = rss()
        for start in (200, 300, 400):
            storm(start)
        assert rss() - before < 24 << 20
        assert len(service.compiler._cache) <= 4


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other heaps return memory at any time")
def test_what_is_free_in_the_heap_goes_back_when_the_server_rests():
    with listening(ToyModel()) as (base, _):
        pieces = [bytes(3000) for _ in range(50_000)]  # allocated separately, too small to be mapped
        kept = pieces[::50]  # so the heap keeps the memory between them, until the server is idle
        before = rss()
        del pieces
        gc.collect()
        answers(base)
        wait_for(lambda: before - rss() > 100 << 20)
        assert len(kept) == 1000
        answers(base)


def test_errors_in_the_middle_of_a_stream_are_events():
    model = ToyModel("x" * 500, delay=0.002)
    with listening(model) as (base, service):
        body = {"messages": HELLO, "stream": True, "temperature": 0, "max_tokens": 400}
        with httpx.stream("POST", base + CHAT, json=body, timeout=30) as response:
            lines = response.iter_lines()
            for _ in range(6):
                next(lines)
            model.broken = True
            rest = "\n".join(lines)
        events = events_of(rest)
        assert events[-1]["error"]["code"] == "decode" and events[-1]["error"]["type"] == "server_error"
        model.broken = False
        idle(model, service)
        answers(base)


def test_bodies_that_never_end_are_cut_off():
    with listening(ToyModel(), max_body_bytes=10_000) as (base, _):
        place = urlsplit(base)
        with socket.create_connection((place.hostname, place.port), timeout=10) as client:
            client.sendall(f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
            sent = 0
            with pytest.raises(ConnectionError):
                while sent < 100 << 20:
                    sent += client.send(b"1000\r\n" + b" " * 4096 + b"\r\n")
            assert sent < 100 << 20
        answers(base)


AMBIGUOUS = (
    'root ::= r0{2} root* r1+ | "b"* "a"? | "" | "+b"? "+"{0,2}\n'
    'r0 ::= ")" | root | "a"{2} "b"? ","? | root{0,2}\nr1 ::= "+"'
)
GAPS = {"type": "object", "properties": {"a": {"type": "string", "not": {"pattern": "x.{20,40}y.{20,40}z"}}},
        "required": ["a"]}  # fmt: skip
HARD = [
    {"guided_grammar": AMBIGUOUS},
    {"guided_json": GAPS},
    {"guided_json": GAPS, "guiderail": {"on_incomplete": "finish"}},
    {"guided_json": {"type": "object", "oneOf": [{"required": [f"k{i}"]} for i in range(9)]}},
    {"guided_regex": "(a|b|ab|ba|aba|bab){2,40}" * 4},
]


def test_an_innocent_stream_goes_on_beside_hard_constraints():
    """Both the pieces of a stream and a whole request are answered meanwhile."""
    with listening(ToyModel("x" * 3000, delay=0.003), mask_seconds=3, compile_seconds=3) as (base, service):
        gaps: list[float] = []
        stop = threading.Event()

        def innocent():
            body = {"messages": HELLO, "stream": True, "max_tokens": 3000, "temperature": 0}
            while not stop.is_set():
                last = time.monotonic()
                with httpx.stream("POST", base + CHAT, json=body, timeout=60) as response:
                    for _ in response.iter_lines():
                        now = time.monotonic()
                        gaps.append(now - last)
                        last = now
                        if stop.is_set():
                            return

        streaming = threading.Thread(target=innocent)
        streaming.start()
        wait_for(lambda: len(gaps) > 20)
        with ThreadPoolExecutor(10) as pool:
            bodies = [{"messages": HELLO, "max_tokens": 60, "temperature": 1, "seed": i, **HARD[i % len(HARD)]}
                      for i in range(10)]  # fmt: skip
            answered = list(pool.map(lambda body: httpx.post(base + CHAT, json=body, timeout=60), bodies))
        answers(base)
        stop.set()
        streaming.join(60)
        assert all(answer.status_code in (200, 400, 503) for answer in answered), [a.text for a in answered]
        assert max(gaps) < 5
        wait_for(lambda: service.engine.workers.late == 0, 60)


def test_guides_that_grow_by_their_texts_are_let_go_of():
    with (
        listening(ToyModel(), max_cached_bytes=1 << 20, max_nodes=500_000) as (base, service),
        httpx.Client() as client,
    ):
        for i in range(6):
            pattern = f"([a-z]{{1,9}}[ ,;]{{1,3}}){{20,60}}{i}"
            body = {"messages": HELLO, "guided_regex": pattern, "max_tokens": 200, "seed": i, "temperature": 1}
            assert client.post(base + CHAT, json=body, timeout=60).status_code == 200
        compiler = service.compiler

        def size():
            return sum(guide.memory_size_bytes() for _, guide in list(compiler._cache.values()))

        wait_for(lambda: size() <= 1 << 20 or len(compiler._cache) == 1)
