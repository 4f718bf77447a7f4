"""Measures engines in its own process: reads ids of schemas, writes a line of JSON for each.

``schemas.py`` starts it once for every set of engines that share a process, and again when it dies. Before it calls an
engine it writes the engine's name (``{"busy": …}``), so that the parent knows which engine failed.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from schema_data import load
from schema_engines import SCHEMA_ENGINES, SchemaEngine

from engines import load_tokenizer

now = time.perf_counter_ns  # or, with --clock cpu, the CPU time of this thread


class OutOfTimeError(BaseException):
    """Raised by the alarm; no ``except Exception`` of an engine swallows it."""


def resident() -> int:
    """Returns the resident bytes of this process, or 0 if the system does not report them."""
    try:
        fields = Path("/proc/self/statm").read_text(encoding="ascii").split()
    except OSError:
        return 0
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")


def blank() -> dict[str, Any]:
    """Returns the empty result of an engine and a schema. Times in nanoseconds, sizes in bytes."""
    return {
        "compile": None,
        "again": None,  # the same document, compiled again
        "mask": [],
        "accept": [],
        "right": 0,
        "false_accepts": [],  # indexes of tests
        "false_rejects": [],  # (index of the test, position of the rejected token; -1: could not end)
        "size": None,
        "resident": 0,
        "error": None,
    }


def compile_timed(engine: SchemaEngine, schema: Any, row: dict[str, Any]) -> Any:
    start = now()
    try:
        guide = engine.compile(schema)
    except Exception as error:  # any exception of any engine: the table shows it
        row["error"] = f"compile: {' '.join(f'{type(error).__name__}: {error}'.split())[:400]}"
        return None
    row["compile"] = now() - start
    return guide


def replay(engine: SchemaEngine, guide: Any, number: int, tokens: list[int], valid: bool, row: dict[str, Any]) -> None:
    """Replays one instance, token by token, until the engine refuses one."""
    fill, accept, final = engine.begin(guide)
    refused = None
    for position, token in enumerate(tokens):
        t0 = now()
        fill()
        t1 = now()
        if not engine.allows(token):
            row["mask"].append(t1 - t0)
            row["accept"].append(0)
            if engine.checks_refusals and accept(token):
                raise AssertionError(f"the mask forbids token {token}, accept takes it")
            refused = position
            break
        t2 = now()
        took = accept(token)
        t3 = now()
        row["mask"].append(t1 - t0)
        row["accept"].append(t3 - t2)
        if engine.checks_refusals and not took:
            raise AssertionError(f"the mask allows token {token}, accept refuses it")
    if refused is None and not final():
        refused = -1
    if (refused is None) == valid:
        row["right"] += 1
    elif valid:
        row["false_rejects"].append((number, refused))
    else:
        row["false_accepts"].append(number)


def measure(engines: list[SchemaEngine], entry: dict[str, Any], texts: list[list[int]], turn: int) -> dict[str, Any]:
    """Measures all engines on one schema: each compiles, then they take turns instance by instance."""
    rows = {engine.name: blank() for engine in engines}
    guides: dict[str, Any] = {}

    def attempt(engine: SchemaEngine, work: Any) -> None:
        say({"busy": engine.name})
        gc.collect(0)
        gc.disable()
        try:
            work()
        except Exception as error:
            rows[engine.name]["error"] = f"run: {' '.join(f'{type(error).__name__}: {error}'.split())[:400]}"
            guides.pop(engine.name, None)
        finally:
            gc.enable()

    order = engines[turn % len(engines) :] + engines[: turn % len(engines)]
    for engine in order:

        def compiles(engine: SchemaEngine = engine) -> None:
            guide = compile_timed(engine, entry["schema"], rows[engine.name])
            if guide is not None:
                guides[engine.name] = guide

        attempt(engine, compiles)
    for number, (test, tokens) in enumerate(zip(entry["tests"], texts, strict=True)):
        order = order[1:] + order[:1]
        for engine in order:
            if engine.name in guides:
                work = (engine, guides[engine.name], number, tokens, test["valid"], rows[engine.name])
                attempt(engine, lambda work=work: replay(*work))
    for engine in order:
        row = rows[engine.name]
        if engine.name in guides:
            row["size"] = engine.memory(guides[engine.name])
            if engine.caches:
                start = now()
                engine.compile(entry["schema"])
                row["again"] = now() - start
        row["resident"] = resident()
    return rows


def say(line: dict[str, Any]) -> None:
    print(json.dumps(line), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--tokenizer")
    parser.add_argument("--engines", required=True)
    parser.add_argument("--limit-s", type=int, required=True)
    parser.add_argument("--clock", choices=["wall", "cpu"], default="wall")
    parser.add_argument("--layout", choices=["spaced", "compact"], default="spaced")
    options = parser.parse_args()
    if options.clock == "cpu":
        global now
        now = time.thread_time_ns

    tokenizer, size = load_tokenizer(options.tokenizer)
    engines = [SCHEMA_ENGINES[name](tokenizer, size) for name in options.engines.split(",")]
    separators = (",", ":") if options.layout == "compact" else (", ", ": ")
    data = load(options.data)

    def on_alarm(*_: object) -> None:
        raise OutOfTimeError

    signal.signal(signal.SIGALRM, on_alarm)
    say({"engines": {e.name: e.version for e in engines}, "resident": resident(), "vocabulary": size})
    for turn, line in enumerate(sys.stdin):
        name = line.strip()
        entry = data[name]
        texts = [
            tokenizer.encode(
                json.dumps(test["data"], ensure_ascii=False, separators=separators), add_special_tokens=False
            )
            for test in entry["tests"]
        ]
        signal.alarm(options.limit_s)
        try:
            rows = measure(engines, entry, texts, turn)
        except OutOfTimeError:
            say({"id": name, "timeout": True})
            continue
        finally:
            signal.alarm(0)
        say({"id": name, "tests": len(texts), "rows": rows})


if __name__ == "__main__":
    main()
