"""A toy model for the tests of the server, and clients in this process or over a socket."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import guiderail as gr
import toy_models
from guiderail.server import ServerOptions, create_app

httpx = pytest.importorskip("httpx")
for _needed in ("fastapi", "uvicorn", "prometheus_client", "jinja2"):
    pytest.importorskip(_needed, reason="the extra server")

SPECIAL = {"<|user|>": 256, "<|assistant|>": 257, "<|end|>": 258}
WORDS = [b"the", b"call", b'": "', b"arguments", b"name", b"<tool", b"_call>", b"ab", b"12"]
VOCABULARY = gr.Vocabulary(
    [bytes([i]) for i in range(256)] + [b"<|user|>", b"<|assistant|>", b"<|end|>", *WORDS],
    special_tokens=SPECIAL,
    stop_token_ids=[258],
)
TEMPLATE = (
    "{% for m in messages %}<|user|>{{ m.role }}: {{ m.content }}\n"
    "{% if m.tool_calls %}{% for c in m.tool_calls %}[{{ c.function.name }}]{% endfor %}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


class ToySession(toy_models.ToySession):
    def __init__(self, model: ToyModel, batch: int, length: int) -> None:
        super().__init__(model, batch, length)
        if model.can_clear:
            self.clear_row = self._clear_row

    def feed(self, rows):
        time.sleep(self.model.delay)
        if self.model.broken:
            raise gr.ModelError("the toy is broken", code="decode")
        return super().feed(rows)

    def _clear_row(self, row: int) -> None:
        self.rows[row] = []

    def close(self) -> None:
        if not self.closed:
            self.model.reserved -= self.batch * self.length
        super().close()


class ToyModel(toy_models.ToyModel):
    """Writes ``script`` for the last prompt while the mask allows it; otherwise a hash of the row decides."""

    vocabulary, context_length, logits_size = VOCABULARY, 4096, VOCABULARY.size + 3
    session = ToySession
    chat_template: str | None = TEMPLATE

    def __init__(
        self,
        script: Callable[[str], str] | str | None = None,
        *,
        delay: float = 0.0,
        max_batch: int | None = None,
        can_clear: bool = False,
    ) -> None:
        super().__init__()
        self.script, self.delay, self.max_batch, self.can_clear = script, delay, max_batch, can_clear
        self.broken = False
        self.reserved = self.most_reserved = 0

    def tokenize(self, text: str, *, special: bool = False) -> list[int]:
        ids: list[int] = []
        while text:
            found = next((s for s in SPECIAL if special and text.startswith(s)), None)
            piece = found if found is not None else text[0]
            ids += [SPECIAL[found]] if found is not None else list(piece.encode())
            text = text[len(piece) :]
        return ids

    def encode(self, prompt: str, *, chat: bool, system: str | None = None) -> list[int]:
        return [*self.tokenize((system or "") + prompt), *([257] if chat else [])]

    def score(self, row):
        if self.script is None:
            scores = np.random.default_rng(row).normal(size=self.logits_size).astype(np.float32)
            scores[258] += 1.5
        else:
            scores = np.zeros(self.logits_size, np.float32)
            start = len(row) - row[::-1].index(257) if 257 in row else 0
            prompt = bytes(t for t in row[:start] if t < 256).decode("utf-8", "replace")
            written = b"".join(VOCABULARY.token_bytes(t) for t in row[start:])
            text = (self.script(prompt) if callable(self.script) else self.script).encode()
            rest = text[len(written) :] if text.startswith(written) else b""
            scores[rest[0] if rest else 258] = 30
        scores[VOCABULARY.size :] = 99  # padding: must never be drawn
        return scores

    def new_session(self, batch: int, length: int) -> ToySession:
        self.reserved += batch * length
        self.most_reserved = max(self.most_reserved, self.reserved)
        return super().new_session(batch, length)


class Client:
    """An application in this process, on its own event loop; it lives as long as the client."""

    def __init__(self, model: Any, **options: Any) -> None:
        self.model = model
        options.setdefault("compile_isolated", False)  # a process for each test would be slow
        self.app = create_app(model, ServerOptions(**options))
        self.service = self.app.state.service
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._lifespan = self.app.router.lifespan_context(self.app)
        self.run(self._lifespan.__aenter__())
        transport = httpx.ASGITransport(app=self.app)
        self.http = httpx.AsyncClient(transport=transport, base_url="http://toy", timeout=60)

    def run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    def close(self) -> None:
        self.run(self.http.aclose())
        self.run(self._lifespan.__aexit__(None, None, None))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def request(self, method: str, path: str, **more: Any) -> Any:
        return self.run(self.http.request(method, path, **more))

    def get(self, path: str, **more: Any) -> Any:
        return self.request("GET", path, **more)

    def post(self, path: str, **body: Any) -> Any:
        return self.request("POST", path, json=body)

    def chat(self, text: str = "hello", **body: Any) -> dict[str, Any]:
        """Requests a chat completion of one message, which must succeed."""
        response = self.post("/v1/chat/completions", messages=[{"role": "user", "content": text}], **body)
        assert response.status_code == 200, response.text
        return response.json()

    def error(self, path: str = "/v1/chat/completions", status: int = 400, **body: Any) -> dict[str, Any]:
        """Returns the error object of a request that must fail."""
        if path.endswith("chat/completions"):
            body = {"messages": [{"role": "user", "content": "hello"}], **body}
        response = self.post(path, **body)
        assert response.status_code == status, response.text
        error = response.json()["error"]
        assert {"message", "type", "param", "code"} <= set(error)
        return error

    def chunks(self, path: str = "/v1/chat/completions", **body: Any) -> list[dict[str, Any]]:
        """Returns the events of a streamed answer; ``text`` is the only message of a chat."""
        if path.endswith("chat/completions"):
            body = {"messages": [{"role": "user", "content": body.pop("text", "hello")}], **body}
        response = self.post(path, stream=True, **body)
        assert response.status_code == 200, response.text
        assert response.headers["content-type"].startswith("text/event-stream")
        return events_of(response.text)

    def metric(self, name: str, **labels: str) -> float:
        return self.service.metrics.registry.get_sample_value(f"guiderail_{name}", labels) or 0.0


def events_of(text: str) -> list[dict[str, Any]]:
    """Returns the data of server-sent events; ``[DONE]`` must come last if the interface sends it."""
    found = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    if found and found[-1] == "[DONE]":
        found.pop()
    return [json.loads(data) for data in found]


@contextlib.contextmanager
def client_of(model: Any = None, **options: Any) -> Iterator[Client]:
    client = Client(ToyModel() if model is None else model, **options)
    try:
        yield client
    finally:
        client.close()


@contextlib.contextmanager
def listening(model: Any, **options: Any) -> Iterator[tuple[str, Any]]:
    """Runs a real server on a socket; yields its address and its service."""
    import uvicorn

    from guiderail.server.connections import protocol

    app = create_app(model, ServerOptions(**options))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    given = app.state.service.options
    patience = protocol(head_seconds=given.head_seconds, write_seconds=given.write_seconds)
    server = uvicorn.Server(
        uvicorn.Config(app, host="127.0.0.1", port=port, log_level="error", lifespan="on", http=patience)
    )
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    wait_for(lambda: server.started)
    try:
        yield f"http://127.0.0.1:{port}", app.state.service
    finally:
        server.should_exit = True
        thread.join(20)
        assert not thread.is_alive()


def wait_for(condition: Callable[[], Any], seconds: float = 20.0) -> None:
    """Waits until something holds; fails if it does not in time."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)
