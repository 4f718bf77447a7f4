"""A server with hostile and ordinary clients: how long the ordinary ones wait, and what remains afterwards.

    make soak                                             # 60 seconds
    python tests/server_soak.py --seconds 300 --tokenizer FOLDER

Three processes communicate over 127.0.0.1: the server with a light model, so that only the server is measured; the
ordinary clients, which record the gaps between the pieces of their streams, first alone, then during the attack; and
the hostile clients. With ``--most-milliseconds`` the status is 1 if the longest gap grows by more. With ``--stalls``
the server reports what its threads are doing whenever its event loop has been blocked for this many seconds.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any

import numpy as np

import guiderail as gr
from server_attack import CHAT, HELLO, BadClients

STEP_SECONDS = 0.005  # per step of the model

# -- ordinary clients ------------------------------------------------------------------------------------------------
INNOCENT = [
    {},
    {"guided_json": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}},
    {"guided_regex": "[a-z ]{100,400}"},
    {"guided_json": {"type": "array", "items": {"type": "integer"}, "minItems": 50}, "temperature": 1, "top_p": 0.9},
]


class Innocent:
    """Runs streams in sequence; records the gaps between pieces, and the time to the first."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.gaps: list[float] = []
        self.firsts: list[float] = []
        self.errors: collections.Counter[str] = collections.Counter()

    async def run(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        await asyncio.gather(*(self.again(body, until) for body in INNOCENT))

    async def again(self, body: dict[str, Any], until: float) -> None:
        while time.monotonic() < until:
            try:
                await self.one({"messages": HELLO, "max_tokens": 300, "stream": True, **body}, until)
            except OSError as error:
                self.errors[type(error).__name__] += 1

    async def one(self, body: dict[str, Any], until: float) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            told = json.dumps(body).encode()
            writer.write(
                f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len(told)}\r\n\r\n".encode()
                + told
            )
            began, last = time.monotonic(), None
            while time.monotonic() < until and (line := await reader.readline()):
                if line.startswith(b"HTTP/1.1 ") and b" 200 " not in line:
                    self.errors[line.decode().split()[1]] += 1
                if b'"error"' in line:
                    self.errors[line.decode(errors="replace")[:120]] += 1
                if b'"delta":{"content":"' not in line:
                    continue
                now = time.monotonic()
                if last is None:
                    self.firsts.append(now - began)
                else:
                    self.gaps.append(now - last)
                last = now
        finally:
            writer.close()

    def report(self) -> dict[str, Any]:
        gaps, firsts = np.array(self.gaps or [np.nan]), np.array(self.firsts or [np.nan])
        return {
            "pieces": len(self.gaps),
            "gap_median_ms": round(float(np.median(gaps)) * 1e3, 1),
            "gap_p99_ms": round(float(np.percentile(gaps, 99)) * 1e3, 1),
            "gap_longest_ms": round(float(gaps.max()) * 1e3, 1),
            "first_longest_ms": round(float(firsts.max()) * 1e3, 1),
            "errors": dict(self.errors),
        }


# -- the server ------------------------------------------------------------------------------------------------------
class Stalls:
    """Reports what all threads are doing whenever the event loop is blocked, and what took the time.

    A Python thread takes the samples, so it wakes only when a native call releases the interpreter: the report then
    shows the line of that call, or the next one.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._alive = time.perf_counter()
        self._loop_thread = threading.get_native_id()

    async def beat(self) -> None:
        threading.Thread(target=self._watch, daemon=True).start()
        while True:
            self._alive = time.perf_counter()
            await asyncio.sleep(0.005)

    def _waited(self) -> float:
        """Returns the seconds for which the loop's thread was ready to run without a processor."""
        try:
            return int(Path(f"/proc/self/task/{self._loop_thread}/schedstat").read_text().split()[1]) / 1e9
        except OSError:
            return 0.0

    def _watch(self) -> None:
        told = last = 0.0
        before = time.process_time(), self._waited()
        while True:
            time.sleep(0.005)
            now, alive = time.perf_counter(), self._alive
            if alive != last:
                if told:
                    spent, waited = time.process_time() - before[0], self._waited() - before[1]
                    print(f"-- stood still for {1e3 * (alive - last):.0f} ms; the process ran {1e3 * spent:.0f} ms, "
                          f"its loop waited {1e3 * waited:.0f} ms for a core", file=sys.stderr, flush=True)  # fmt: skip
                last, told = alive, 0.0
                before = time.process_time(), self._waited()
            elif now - alive > self._seconds and not told:
                told = now
                names = {thread.ident: thread.name for thread in threading.enumerate()}
                for ident, frame in sys._current_frames().items():
                    if ident != threading.get_ident():
                        stack = traceback.extract_stack(frame)[-6:]
                        place = " < ".join(f"{Path(s.filename).name}:{s.lineno} {s.name}" for s in reversed(stack))
                        print(f"{names.get(ident)}: {place}", file=sys.stderr)


def serve(port: int, tokenizer: str | None, stalls: float) -> None:
    import uvicorn

    from guiderail.server import ServerOptions, create_app
    from guiderail.server.bodies import calm_collector
    from guiderail.server.connections import protocol
    from server_support import VOCABULARY

    vocabulary = VOCABULARY if tokenizer is None else gr.Vocabulary.from_huggingface(tokenizer)
    letters = [t for t in range(min(vocabulary.size, 2000)) if vocabulary.token_bytes(t).isalpha()]

    class Session:
        def __init__(self, batch: int) -> None:
            self.logits = np.zeros((batch, vocabulary.size), np.float32)
            self.at = [0] * batch
            self.last = [0] * batch

        def feed(self, rows: list[list[int]]) -> Any:
            time.sleep(STEP_SECONDS)
            for i, row in enumerate(rows):
                if row:
                    self.logits[i, self.last[i]] = 0
                    self.at[i] += len(row)
                    self.last[i] = letters[self.at[i] * 7 % len(letters)]
                    self.logits[i, self.last[i]] = 20
            return self.logits

        def clear_row(self, row: int) -> None:
            self.at[row] = 0

        def close(self) -> None:
            return

    class Model:
        name, context_length, max_batch = "light", 100_000, None
        logits_size = vocabulary.size

        def __init__(self) -> None:
            self.vocabulary = vocabulary

        def encode(self, prompt: str, *, chat: bool, system: str | None = None) -> list[int]:
            return [letters[ord(c) % len(letters)] for c in prompt[:5000]] or letters[:1]

        def new_session(self, batch: int, length: int) -> Session:
            return Session(batch)

        def close(self) -> None:
            return

    options = ServerOptions(max_cached_tokens=200_000, head_seconds=5.0, write_seconds=10.0, body_seconds=10.0)
    app = create_app(Model(), options)
    calm_collector()
    config = uvicorn.Config(
        app, host="127.0.0.1", port=port, log_level="critical", timeout_graceful_shutdown=5,
        http=protocol(head_seconds=options.head_seconds, write_seconds=options.write_seconds),
    )  # fmt: skip

    async def run() -> None:
        watching = asyncio.ensure_future(Stalls(stalls).beat()) if stalls else None
        await uvicorn.Server(config).serve()
        if watching is not None:
            watching.cancel()

    asyncio.run(run())


def children_of(pid: int) -> list[int]:
    """Returns the processes that any thread of a process has started."""
    return [int(c) for told in Path(f"/proc/{pid}/task").glob("*/children") for c in told.read_text().split()]


def state_of(pid: int) -> dict[str, int]:
    """Returns memory, threads and child processes of a process."""
    told = Path(f"/proc/{pid}/status").read_text()
    children = children_of(pid)
    grandchildren = [one for child in children for one in children_of(child)]
    fields = {name: int(re.search(rf"{key}:\s+(\d+)", told)[1]) for name, key in
              (("rss_mb", "VmRSS"), ("peak_mb", "VmHWM"), ("threads", "Threads"))}  # type: ignore[index]  # fmt: skip
    return {**{k: v // 1024 if k.endswith("mb") else v for k, v in fields.items()},
            "processes": len(children), "compilations": len(grandchildren)}  # fmt: skip


def started(port: int, tokenizer: str | None, stalls: float) -> subprocess.Popen[bytes]:
    more = ["--stalls", str(stalls), *([] if tokenizer is None else ["--tokenizer", tokenizer])]
    server = subprocess.Popen([sys.executable, __file__, "--serve", str(port), *more])
    until = time.monotonic() + 120
    while time.monotonic() < until and server.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return server
        time.sleep(0.1)
    server.kill()
    raise SystemExit("the server did not start")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="a third of them without hostile clients")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--tokenizer", help="folder of a transformers tokenizer (default: a toy of 270 tokens)")
    parser.add_argument("--most-milliseconds", type=float, help="maximum growth of the longest gap")
    parser.add_argument("--stalls", type=float, default=0.0, help="report blocks longer than this; 0: off")
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--attack", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve is not None:
        serve(args.serve, args.tokenizer, args.stalls)
        return 0
    if args.attack is not None:
        asyncio.run(BadClients(args.attack, args.seconds, args.seed).run())
        return 0
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = started(port, args.tokenizer, args.stalls)
    try:
        asyncio.run(Innocent(port).run(2))  # warm-up
        before = state_of(server.pid)
        alone, beside = Innocent(port), Innocent(port)
        asyncio.run(alone.run(args.seconds / 3))
        seconds = 2 * args.seconds / 3
        bad = subprocess.Popen(
            [sys.executable, __file__, "--attack", str(port), "--seconds", str(seconds), "--seed", str(args.seed)],
            stdout=subprocess.PIPE, preexec_fn=lambda: os.nice(5),
        )  # fmt: skip
        asyncio.run(beside.run(seconds))
        during = state_of(server.pid)
        seen, _ = bad.communicate(timeout=60)
        until = time.monotonic() + 20
        while time.monotonic() < until and state_of(server.pid)["compilations"]:
            time.sleep(0.5)
        time.sleep(3)  # after a second without work, the heap returns free memory
        after = state_of(server.pid)
        print(json.dumps({"seed": args.seed, "load": os.getloadavg()[0], "alone": alone.report(),
                          "beside": beside.report(), "before": before, "during": during, "after": after,
                          "bad": dict(sorted(json.loads(seen or b"{}").items()))}, indent=1))  # fmt: skip
        more = beside.report()["gap_longest_ms"] - alone.report()["gap_longest_ms"]
        print(f"the longest gap of an ordinary stream grew by {more:.0f} ms")
        failed = any("internal" in name or ": 500" in name for name in json.loads(seen or b"{}"))
        return int(failed or (args.most_milliseconds is not None and more > args.most_milliseconds))
    finally:
        server.terminate()
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            print("the server did not end within 20 seconds")
            server.kill()


if __name__ == "__main__":
    raise SystemExit(main())
