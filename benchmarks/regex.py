"""Compares guiderail with llguidance, XGrammar and outlines-core on regular expressions from real use, in one run.

Every engine compiles each pattern of ``data/regex_patterns.json`` and replays the same 200 tokens. The engines take
turns pattern by pattern in one process. The tokens are those of the pattern's sample texts, or a seeded random walk
under the masks of the first engine. Times are wall clock, measured around one call from Python.

- *first*: the first compilation of the pattern in this process and the first replay of its tokens;
- *again*: the median, position by position, of further rounds with freshly compiled guides. Anything that an engine
  caches in its vocabulary between compilations is warm here.
- *compile*: from the text of the pattern until its first mask is filled; the tokenizer's set-up is not counted.

    python benchmarks/regex.py --engines guiderail,llguidance --json result.json

``--data benchmarks/data/bounded_texts.json`` measures texts of bounded length in its place: labels, sentences, fields,
passwords, texts without certain words.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import multiprocessing
import os
import platform
import random
import resource
import statistics
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

# This folder must not be searched for modules: transformers imports a package called regex.
sys.path[0] = str(Path(__file__).parent / "support")
from report import mean_and_quantiles, micro, progress, table  # noqa: E402

from engines import ENGINES, Engine, load_tokenizer  # noqa: E402

DATA = Path(__file__).with_name("data") / "regex_patterns.json"
now = time.perf_counter_ns
SLOW = 1_000_000_000  # nanoseconds of compiling; slower patterns get no further rounds


@dataclass
class Round:
    """One compilation and one replay: times in nanoseconds, one entry per token."""

    compile: int = 0
    mask: list[int] = field(default_factory=list)
    accept: list[int] = field(default_factory=list)
    repeated: int = 0  # a second mask in the same state: the median
    memory: int | None = None
    refused: list[tuple[int, int]] = field(default_factory=list)  # (position, token) that the engine rejected

    error: str | None = None


def allowed(engine: Engine, token: int) -> bool:
    return bool(int(engine.bits[0, token // 32]) >> (token % 32) & 1)


def measure(engine: Engine, pattern: str, texts: list[list[int]]) -> Round:
    """Compiles ``pattern`` and replays ``texts``, each from the start of the pattern."""
    out = Round()
    started = now()
    guide = engine.compile(pattern)
    fill, accept = engine.start(guide)
    fill()
    out.compile = now() - started
    position = 0
    for text in texts:
        fill, accept = engine.start(guide)
        for token in text:
            t0 = now()
            fill()
            t1 = now()
            if not allowed(engine, token):
                out.refused.append((position, token))
                position += len(text)
                break
            t2 = now()
            accept(token)
            t3 = now()
            out.mask.append(t1 - t0)
            out.accept.append(t3 - t2)
            position += 1
    fill()
    again = []
    for _ in range(32):
        t0 = now()
        fill()
        again.append(now() - t0)
    out.repeated = int(statistics.median(again))
    out.memory = engine.memory(guide)
    return out


def walk(engine: Engine, pattern: str, tokens: int, seed: str, lengths: list[int]) -> list[list[int]]:
    """Returns a seeded random walk of this many tokens that prefers long, frequent tokens and delays the end."""
    chance = random.Random(seed)
    guide = engine.compile(pattern)
    texts: list[list[int]] = []
    left = tokens
    while left:
        fill, accept = engine.start(guide)
        text: list[int] = []
        while len(text) < left:
            fill()
            ids = np.flatnonzero(np.unpackbits(engine.bits.view(np.uint8), bitorder="little"))
            ids = [int(i) for i in ids if i < len(lengths) and lengths[i]]
            if not ids:
                break
            some = [chance.choice(ids) for _ in range(12)]
            token = max(some, key=lambda i: lengths[i] - math.log2(i + 2) / 4)
            text.append(token)
            accept(token)
        if not text:
            raise ValueError("the walk cannot begin: the first mask holds no text token")
        texts.append(text)
        left -= len(text)
    return texts


def tokens_of(tokenizer: Any, samples: list[str], count: int) -> list[list[int]]:
    texts = []
    for sample in samples:
        text = tokenizer.encode(sample, add_special_tokens=False)[:count]
        count -= len(text)
        texts.append(text)
        if not count:
            break
    return texts


def apart(engine: Engine, pattern: str, texts: list[list[int]], seconds: float, memory: int) -> Round:
    """Like ``measure``, in a forked child with limits of time and memory."""
    here, there = multiprocessing.Pipe(duplex=False)

    def child() -> None:
        with open("/proc/self/statm") as f:
            used = int(f.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + memory, used + memory))
        sys.stderr.flush()
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # an aborted allocation writes to it
        there.send(attempt(engine, pattern, texts))

    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    there.close()
    try:
        if here.poll(seconds):
            out: Round = here.recv()
            return out
        return Round(error=f"more than {seconds:g} s")
    except EOFError:
        return Round(error=f"died (more than {memory >> 30} GiB?)")
    finally:
        process.kill()
        process.join()


def attempt(engine: Engine, pattern: str, texts: list[list[int]]) -> Round:
    try:
        return measure(engine, pattern, texts)
    except Exception as error:  # any exception of any engine: the table shows it
        text = str(error) or type(error).__name__
        return Round(error=" ".join(text.split())[:200])


def differences(engines: list[Engine], pattern: str, texts: list[list[int]], text_bits: Any) -> dict[str, Any]:
    """Returns how many masks differ from the first engine's (text tokens only), and the first bit that differs."""
    first, *others = engines
    found: dict[str, Any] = {}

    def masks(engine: Engine) -> list[Any]:
        guide, out = engine.compile(pattern), []
        for text in texts:
            fill, accept = engine.start(guide)
            for token in text:
                fill()
                out.append(engine.bits[0, : len(text_bits)].copy() & text_bits)
                if not allowed(engine, token):
                    return out
                accept(token)
        return out

    expected = masks(first)
    for engine in others:
        for position, (a, b) in enumerate(zip(expected, masks(engine), strict=False)):
            bits = np.flatnonzero(np.unpackbits((a ^ b).view(np.uint8), bitorder="little"))
            if len(bits):
                row = found.setdefault(engine.name, {"masks": 0, "bits": 0, "at": position, "token": int(bits[0])})
                row["masks"] += 1
                row["bits"] += len(bits)
    return found


def copy_unit(words: int) -> float:
    """Returns the nanoseconds of copying one row of a mask with NumPy, with both rows in the cache."""
    a, b = np.zeros(words, np.int32), np.ones(words, np.int32)
    times = []
    for _ in range(2_000):
        t0 = now()
        np.copyto(a, b)
        times.append(now() - t0)
    return statistics.median(times)


def import_seconds(package: str) -> float:
    """Returns the seconds of ``import package`` in a new process, without Python's start; the median of five."""
    code = f"import time; t = time.perf_counter(); import {package}; print(time.perf_counter() - t)"
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(5)]
    return statistics.median(float(run.stdout) for run in runs)


# -- the report ---------------------------------------------------------------------------------
def step(row: Round) -> list[int]:
    return [m + a for m, a in zip(row.mask, row.accept, strict=True)]


def again(rounds: list[Round]) -> Round:
    """Returns the rounds after the first as one: the median at each position."""
    later = rounds[1:] or rounds
    return Round(
        compile=int(statistics.median(r.compile for r in later)),
        mask=[int(statistics.median(v)) for v in zip(*(r.mask for r in later), strict=True)],
        accept=[int(statistics.median(v)) for v in zip(*(r.accept for r in later), strict=True)],
        repeated=int(statistics.median(r.repeated for r in later)),
    )


def summary(results: dict[str, dict[str, list[Round]]], names: list[str], unit: float) -> str:
    out = []
    supported = {n: [p for p, by in results.items() if by[n][0].error is None and not by[n][0].refused] for n in names}
    for title, pick in (("first", lambda rounds: rounds[0]), ("again", again)):
        data = {n: {p: pick(results[p][n]) for p in supported[n]} for n in names}
        out.append(f"### mask + accept, {title}\n\n{costs(data)}")
        rows = multiples(data[names[0]], {n: data[n] for n in names[1:]})
        if rows:
            head = ["times " + names[0], "patterns", "mean", "p50", "p90", "p99", "compile, median", "least", "of sums"]
            out.append(f"#### as multiples of {names[0]}, {title}, patterns that both support\n\n{table(head, rows)}")
    rows = []
    for n in names:
        if supported[n]:
            repeated = statistics.median(again(results[p][n]).repeated for p in supported[n])
            sizes = [results[p][n][0].memory for p in supported[n]]
            known = [size for size in sizes if size is not None]
            rows.append([n, micro(repeated), f"{repeated / unit:.1f}",
                         f"{statistics.mean(known) / 1e6:.2f}" if known else "–",
                         f"{max(known) / 1e6:.2f}" if known else "–"])  # fmt: skip
    head = ["engine", "repeated state µs", "in copies of the mask", "guide MB, mean", "largest"]
    out.append(f"### a repeated state (one copy of the mask: {unit / 1e3:.2f} µs) and memory\n\n{table(head, rows)}")
    return "\n\n".join(out)


def costs(data: dict[str, dict[str, Round]]) -> str:
    """The costs of each engine over the patterns that it supports."""
    rows = []
    for n, by in data.items():
        if not by:
            rows.append([n, "0", *["–"] * 8])
            continue
        steps = mean_and_quantiles([v for r in by.values() for v in step(r)])
        masks = statistics.mean(v for r in by.values() for v in r.mask)
        accepts = statistics.mean(v for r in by.values() for v in r.accept)
        compiles = mean_and_quantiles([r.compile for r in by.values()])
        rows.append([n, str(len(by)), *map(micro, steps), micro(masks), micro(accepts),
                     f"{compiles[1] / 1e6:.2f}", f"{compiles[0] / 1e6:.2f}"])  # fmt: skip
    head = ["engine", "patterns", "mean µs", "p50", "p90", "p99", "mask", "accept", "compile ms, median", "mean"]
    return table(head, rows)


def multiples(first: dict[str, Round], others: dict[str, dict[str, Round]]) -> list[list[str]]:
    """What the other engines cost, as multiples of the first, over the patterns that both support."""
    rows = []
    for n, by in others.items():
        common = [p for p in by if p in first]
        if not common:
            continue
        mine, theirs = [first[p] for p in common], [by[p] for p in common]
        a = mean_and_quantiles([v for r in mine for v in step(r)])
        b = mean_and_quantiles([v for r in theirs for v in step(r)])
        ratios = sorted(t.compile / m.compile for m, t in zip(mine, theirs, strict=True))
        total = sum(t.compile for t in theirs) / sum(m.compile for m in mine)
        rows.append([n, str(len(common)), *(f"{y / x:.1f}" for x, y in zip(a, b, strict=True)),
                     f"{statistics.median(ratios):.1f}", f"{ratios[0]:.2f}", f"{total:.1f}"])  # fmt: skip
    return rows


def details(results: dict[str, dict[str, list[Round]]], names: list[str]) -> str:
    rows = []
    for p, by in results.items():
        cells = [p]
        for n in names:
            r = by[n][0]
            if r.error is not None or r.refused:
                cells += ["refuses a token" if r.error is None else r.error[:28], "", ""]
            else:
                mean, _, _, p99 = mean_and_quantiles(step(r))
                cells += [micro(mean), micro(p99), f"{r.compile / 1e6:.2f}"]
        size = by[names[0]][0].memory
        rows.append([*cells, "–" if size is None else f"{size / 1e6:.2f}"])
    head = ["pattern", *(c for n in names for c in (f"{n} µs", "p99", "compile ms")), "MB"]
    return table(head, rows)


def disagreements(results: dict[str, dict[str, list[Round]]], names: list[str], show: Any) -> str:
    lines = []
    for p, by in results.items():
        for n in names:
            if by[n][0].refused:
                position, token = by[n][0].refused[0]
                lines.append(f"- {p}: {n} refuses {show(token)} at token {position}, one of {len(by[n][0].refused)}")
            elif by[n][0].error is not None:
                lines.append(f"- {p}: {n}: {by[n][0].error}")
    return "\n".join(lines) or "none"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engines", default=",".join(ENGINES), help="comma-separated; ratios are to the first")
    parser.add_argument(
        "--tokenizer", help="folder of a Hugging Face tokenizer (default: Llama 3's, from llama-models)"
    )
    parser.add_argument("--data", type=Path, default=DATA, help="file of patterns")
    parser.add_argument(
        "--patterns", default="", help="only patterns whose name contains one of these, comma-separated"
    )
    parser.add_argument("--tokens", type=int, default=200, help="to replay for each pattern")
    parser.add_argument("--rounds", type=int, default=3, help="compilations and replays of each pattern")
    parser.add_argument("--limit", type=float, default=10, help="seconds per pattern, for separate processes")
    parser.add_argument("--walk", action="store_true", help="walk at random even if there are sample texts")
    parser.add_argument("--check", action="store_true", help="also compare every mask with the first engine's")
    parser.add_argument("--json", help="write every measurement to this file")
    return parser.parse_args()


def token_lengths(tokenizer: Any) -> list[int]:
    """How many characters each token has; 0 for special tokens."""
    special = set(tokenizer.all_special_ids) | set(tokenizer.added_tokens_decoder)
    tokens = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
    return [0 if i in special else len(text) for i, text in enumerate(tokens)]


def measured(engines: list[Any], pattern: str, texts: Any, rounds: int, limit: float) -> dict[str, list[Round]]:
    """The rounds of each engine. Each round begins with another engine."""
    rows: dict[str, list[Round]] = {engine.name: [] for engine in engines}
    for turn in range(rounds):
        for engine in engines[turn % len(engines) :] + engines[: turn % len(engines)]:
            done = rows[engine.name]
            first = done[0] if done else None
            if first and (first.error or first.refused or first.compile > SLOW):
                continue
            gc.collect()
            gc.disable()
            done.append(apart(engine, pattern, texts, limit, 8 << 30) if engine.isolated
                        else attempt(engine, pattern, texts))  # fmt: skip
            gc.enable()
    return rows


def main() -> None:
    options = arguments()
    started = time.monotonic()
    tokenizer, size = load_tokenizer(options.tokenizer)
    engines = [ENGINES[name](tokenizer, size) for name in options.engines.split(",")]
    names = [engine.name for engine in engines]
    walker = next((e for e in engines if not e.isolated), engines[0])
    lengths = token_lengths(tokenizer)
    flags = np.zeros((size + 31) // 32 * 32, np.uint8)
    flags[: len(lengths)] = np.array(lengths) > 0
    text_bits = np.packbits(flags, bitorder="little").view(np.int32)
    wanted = [part for part in options.patterns.split(",") if part]
    entries = [e for e in json.loads(options.data.read_text(encoding="utf-8"))
               if not wanted or any(part in e["name"] for part in wanted)]  # fmt: skip
    unit = copy_unit(engines[0].bits.shape[1])

    results: dict[str, dict[str, list[Round]]] = {}
    masks: dict[str, Any] = {}
    for number, entry in enumerate(entries):
        progress(f"{number + 1}/{len(entries)} {entry['name']}")
        pattern = entry["pattern"]
        if entry["samples"] and not options.walk:
            texts = tokens_of(tokenizer, entry["samples"], options.tokens)
        else:
            texts = walk(walker, pattern, options.tokens, entry["name"], lengths)
        rows = results[entry["name"]] = measured(engines, pattern, texts, options.rounds, options.limit)
        if options.check:
            fit = [e for e in engines if not e.isolated and rows[e.name][0].error is None]
            masks[entry["name"]] = differences(fit, pattern, texts, text_bits) if len(fit) > 1 else {}
    progress("")

    print(f"# {len(entries)} patterns, {options.tokens} tokens each, {size:,} tokens in the vocabulary\n")
    print(f"{', '.join(f'{e.name} {e.version}' for e in engines)}; Python {platform.python_version()},")
    print(f"{platform.machine()}, {os.cpu_count()} processors; {time.monotonic() - started:.0f} s.\n")
    print(summary(results, names, unit))
    print(f"\n### each pattern, first round\n\n{details(results, names)}")
    refused = disagreements(results, names, lambda token: repr(tokenizer.decode([token])))
    print(f"\n### refused by an engine\n\n{refused}")
    if options.check:
        print(f"\n### masks that differ from those of {names[0]}\n")
        for p, found in masks.items():
            for n, row in found.items():
                print(f"- {p}: {n}: {row['masks']} masks, {row['bits']} bits; first at token {row['at']}: "
                      f"{tokenizer.decode([row['token']])!r}")  # fmt: skip
    imports = {e.package.replace("-", "_"): import_seconds(e.package.replace("-", "_")) for e in engines}
    print("\n### import\n\n" + ", ".join(f"{name} {seconds * 1e3:.0f} ms" for name, seconds in imports.items()))
    if options.json:
        data = {
            "engines": {e.name: e.version for e in engines},
            "copy_ns": unit,
            "import_s": imports,
            "differences": masks,
            "patterns": {p: {n: [asdict(r) for r in rs] for n, rs in by.items()} for p, by in results.items()},
        }
        Path(options.json).write_text(json.dumps(data))


if __name__ == "__main__":
    main()
