"""Compares guiderail with other engines on JSON Schemas: what they wrongly reject or accept, and how fast they are.

For every schema: compile it, then walk the tokens of each instance, with the mask before each token. Instances are
written as ``json.dumps`` writes them: on one line, with a space after commas and colons (``--layout compact``: none).
An instance counts as accepted if every token is in its mask and the text may end after the last. No language model is
needed. The data is a folder of documents or a ``.jsonl.gz`` of them, each ``{"id", "schema", "tests": [{"data",
"valid"}]}``, as in MaskBench.

- ``--engines a,b`` measures each in its own process. A crash or a timeout loses only that schema.
- ``--interleave a,b`` puts them into one process, where they take turns instance by instance, so that both meet the
  same noise. Use this for ratios of times.

    python benchmarks/schemas.py --data maskbench.jsonl.gz --interleave guiderail,llguidance --svg docs/schemas.svg
    python benchmarks/schemas.py --data maskbench.jsonl.gz --engines guiderail,xgrammar --sample 300 --out runs.jsonl
    python benchmarks/schemas.py --report runs.jsonl --list 20

Times are of one thread, around one call from Python, in wall-clock time, or in CPU time with ``--clock cpu``. On a
busy machine, the slowest of a thousand wall-clock calls are those that waited for a processor. *Again* is the
compilation of a schema that was compiled before. Ratios are over the schemas that both engines compile.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TextIO

# This folder must not be searched for modules: transformers imports a package called regex.
SUPPORT = Path(__file__).parent / "support"
sys.path[0] = str(SUPPORT)
from report import mean_and_quantiles, micro, progress, table  # noqa: E402
from schema_data import choose, load  # noqa: E402
from svg import distribution  # noqa: E402

ENGINES = ("guiderail", "guiderail-unprepared", "llguidance", "xgrammar", "outlines-core", "lm-format-enforcer")
GRACE_S = 15  # grace seconds after the limit; then the process is killed, because native code ignores the alarm
Rows = dict[str, dict[str, dict[str, Any]]]  # engine → id of the schema → measurements


class Worker:
    """A process that measures. ``ask`` returns the result for a schema, or the engine that was busy when it failed."""

    def __init__(self, engines: str, options: argparse.Namespace) -> None:
        command = [sys.executable, str(SUPPORT / "schema_worker.py"), "--engines", engines, "--data", str(options.data)]
        command += ["--limit-s", str(options.limit_s), "--clock", options.clock, "--layout", options.layout]
        command += ["--tokenizer", options.tokenizer] if options.tokenizer else []
        errors = None if options.verbose else subprocess.DEVNULL
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors)
        self.rest = b""
        head = next(self._lines(600), None)
        if head is None:
            raise SystemExit(f"the process of {engines} did not start; --verbose shows why")
        self.head = head

    def _lines(self, seconds: float) -> Iterator[dict[str, Any]]:
        """Yields the lines of the process, until it is silent for this long or dead."""
        assert self.process.stdout is not None
        pipe = self.process.stdout.fileno()
        while True:
            while b"\n" in self.rest:
                line, self.rest = self.rest.split(b"\n", 1)
                yield json.loads(line)
            if not select.select([pipe], [], [], seconds)[0]:
                return
            piece = os.read(pipe, 1 << 20)
            if not piece:
                return
            self.rest += piece

    def ask(self, name: str, seconds: float) -> tuple[dict[str, Any] | None, str, str]:
        """Returns ``(answer, busy engine, how it ended)``; the answer is None if the process is gone."""
        assert self.process.stdin is not None
        busy = ""
        try:
            self.process.stdin.write(name.encode() + b"\n")
            self.process.stdin.flush()
            for line in self._lines(seconds):
                if "busy" in line:
                    busy = line["busy"]
                else:
                    return line, busy, "timeout" if line.get("timeout") else ""
        except BrokenPipeError:
            pass  # the process is dead: reported below
        if self.process.poll() is None and self._hangs():
            self.process.kill()
            self.process.wait()
            return None, busy, "timeout: killed"
        code = self.process.wait()
        return None, busy, f"crash: {signal.Signals(-code).name if code < 0 else f'exit status {code}'}"

    def _hangs(self) -> bool:
        try:
            self.process.wait(2)
        except subprocess.TimeoutExpired:
            return True
        return False

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def run(engines: str, names: list[str], options: argparse.Namespace, out: TextIO, deadline: float) -> None:
    """Measures the engines, which share a process. Writes a line to ``out`` for each engine and schema."""
    worker: Worker | None = None
    for number, name in enumerate(names):
        if time.monotonic() > deadline:
            print(f"\nthe budget is spent: {number} of {len(names)} schemas", file=sys.stderr)
            break
        if worker is None:
            worker = Worker(engines, options)
            out.write(json.dumps(worker.head) + "\n")
        progress(f"{engines}: {number + 1}/{len(names)} {name[:60]}")
        answer, busy, ended = worker.ask(name, options.limit_s + GRACE_S)
        if ended:
            for engine in engines.split(","):
                error = ended if engine == busy or not busy else "not measured"
                out.write(json.dumps({"id": name, "engine": engine, "tests": -1, "row": {"error": error}}) + "\n")
        elif answer is not None:
            for engine, row in answer["rows"].items():
                out.write(json.dumps({"id": name, "engine": engine, "tests": answer["tests"], "row": row}) + "\n")
        out.flush()
        if answer is None:
            worker = None
    progress("")
    if worker is not None:
        worker.close()


def read(files: list[Path]) -> tuple[dict[str, str], dict[str, int], Rows]:
    """Returns versions, resident memory before the first schema, and rows from files written by ``run``."""
    versions: dict[str, str] = {}
    before: dict[str, int] = {}
    rows: Rows = {}
    for file in files:
        with file.open(encoding="utf-8") as lines:
            for line in map(json.loads, lines):
                if "engines" in line:
                    versions.update(line["engines"])
                    before.update(dict.fromkeys(line["engines"], line["resident"]))
                elif line["row"]["error"] != "not measured":
                    row = {"compile": None, "again": None, "mask": [], "accept": [], "right": 0, "false_accepts": [],
                           "false_rejects": [], "size": None, "resident": 0, **line["row"]}  # fmt: skip
                    row["tests"] = line["tests"]
                    rows.setdefault(line["engine"], {})[line["id"]] = row
    return versions, before, rows


# -- the report ---------------------------------------------------------------------------------------------------
def steps(rows: list[dict[str, Any]]) -> list[int]:
    """Returns mask + accept of every token, in nanoseconds."""
    return [m + a for row in rows for m, a in zip(row["mask"], row["accept"], strict=True)]


def outcomes(rows: Rows) -> str:
    body = []
    for engine, by in rows.items():
        errors = [row["error"] or "" for row in by.values()]
        passing = sum(not (r["error"] or r["false_accepts"] or r["false_rejects"]) for r in by.values())
        body.append(
            [
                engine,
                f"{len(by):,}",
                f"{passing:,}",
                f"{100 * passing / len(by):.2f} %",
                *(str(sum(e.startswith(kind) for e in errors)) for kind in ("compile", "run", "timeout", "crash")),
                *(str(sum(bool(r[kind]) for r in by.values())) for kind in ("false_rejects", "false_accepts")),
            ]
        )
    head = ["engine", "schemas", "passing", "", "refused", "run error", "time-out", "crash", "false reject"]
    return table([*head, "false accept"], body)


QUANTILES = (50, 90, 99, 99.9, 100)


def times(rows: Rows, names: list[str]) -> str:
    """Returns the times of every engine, over the schemas that all of ``names`` compile."""
    common = compiled_by(rows, names)
    picks: list[tuple[str, Callable[[list[dict[str, Any]]], list[int]]]] = [
        ("mask + accept", steps),
        ("mask", lambda some: [m for row in some for m in row["mask"]]),
        ("accept", lambda some: [a for row in some for a in row["accept"]]),
        ("compile", lambda some: [row["compile"] for row in some]),
        ("compile again", lambda some: [row["again"] for row in some if row["again"] is not None]),
    ]
    body = []
    for title, pick in picks:
        for name in names:
            values = pick([rows[name][i] for i in common])
            if values:
                body.append(
                    [f"{title}, {name}", *map(micro, mean_and_quantiles(values, QUANTILES)), f"{len(values):,}"]
                )
    head = [f"µs, over {len(common):,} schemas", "mean", "p50", "p90", "p99", "p99.9", "max", "values"]
    return table(head, body)


def compiled_by(rows: Rows, names: list[str]) -> list[str]:
    """Returns the schemas that all these engines compile and run without an error."""
    common = set.intersection(*(set(rows[name]) for name in names))
    return sorted(i for i in common if all(rows[n][i]["error"] is None and rows[n][i]["mask"] for n in names))


def ratios(rows: Rows, first: str) -> str:
    """Returns how many times longer each other engine takes, over the schemas that both compile."""
    body = []
    for name in rows:
        if name == first or not (common := compiled_by(rows, [first, name])):
            continue
        mine, theirs = [rows[first][i] for i in common], [rows[name][i] for i in common]
        cells = [name, f"{len(common):,}"]
        compiles = [row["compile"] for row in mine], [row["compile"] for row in theirs]
        for a, b, percents in ((steps(mine), steps(theirs), (50, 90, 99, 99.9)), (*compiles, (50, 99))):
            pairs = zip(mean_and_quantiles(a, percents), mean_and_quantiles(b, percents), strict=True)
            cells += [f"{y / x:.2f}" for x, y in pairs]
        body.append(cells)
    head = [f"times {first}", "schemas", "mean", "p50", "p90", "p99", "p99.9", "compile mean", "p50", "p99"]
    return table(head, body) if body else ""


def memory(rows: Rows, before: dict[str, int]) -> str:
    body = []
    for name, by in rows.items():
        sizes = [row["size"] for row in by.values() if row["size"] is not None]
        cells = [f"{v / 1e3:,.0f}" if v == v else "–" for v in mean_and_quantiles(sizes, (50, 99, 100))]
        peak = max(row["resident"] for row in by.values())
        body.append([name, *cells, f"{before.get(name, 0) / 1e6:,.0f}", f"{peak / 1e6:,.0f}"])
    head = ["size of a guide, kB", "mean", "p50", "p99", "max", "process before, MB", "most after a schema, MB"]
    return table(head, body)


def slowest(rows: Rows, name: str, count: int) -> str:
    """Returns the most expensive schemas: in total, by their worst token, in compilation, in memory."""
    good = {i: row for i, row in rows[name].items() if row["mask"]}
    costs: list[tuple[str, Callable[[dict[str, Any]], float], str]] = [
        ("all tokens, ms", lambda row: sum(steps([row])) / 1e6, ",.2f"),
        ("slowest token, µs", lambda row: max(steps([row])) / 1e3, ",.0f"),
        ("compile, µs", lambda row: (row["compile"] or 0) / 1e3, ",.0f"),
        ("size, kB", lambda row: (row["size"] or 0) / 1e3, ",.0f"),
    ]
    parts = []
    for title, cost, form in costs:
        top = sorted(good, key=lambda i: -cost(good[i]))[:count]
        body = [[i, format(cost(good[i]), form), f"{len(good[i]['mask'])}"] for i in top]
        parts.append(table([f"{name}: most in {title}", "", "tokens"], body))
    return "\n\n".join(parts)


def listing(rows: Rows, name: str, count: int) -> str:
    """Returns the schemas that an engine gets wrong, by name, with the reason."""
    lines = []
    for kind in ("false_accepts", "false_rejects", "error"):
        found = [(i, row[kind]) for i, row in rows[name].items() if row[kind]]
        lines += [f"- {kind.replace('_', ' ')}: {i}: {what}" for i, what in found[:count]]
        if len(found) > count:
            lines.append(f"- … {len(found) - count} more")
    return "\n".join(lines) or "none"


def report(versions: dict[str, str], before: dict[str, int], rows: Rows, options: argparse.Namespace) -> str:
    names = list(rows)
    first = names[0]
    told = ", ".join(f"{name} {versions.get(name, '')}".strip() for name in names)
    parts = [
        f"{told}; Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} processors.",
        outcomes(rows),
    ]
    if compiled_by(rows, names):
        parts.append(times(rows, names))
    if len(names) > 1:
        parts.append(ratios(rows, first))
    parts.append(memory(rows, before))
    if options.list:
        parts.append(slowest(rows, first, min(options.list, 15)))
        parts += [f"### {name}: wrong or refused\n\n{listing(rows, name, options.list)}" for name in names]
    return "\n\n".join(part for part in parts if part)


def picture(rows: Rows) -> str:
    """Draws mask + accept of every engine over the schemas that all compile."""
    common = compiled_by(rows, list(rows))
    series = {name: steps([by[i] for i in common]) for name, by in rows.items()}
    count = max(map(len, series.values()))
    title = f"JSON Schema: mask + accept, {len(common):,} schemas, {count:,} tokens"
    return distribution(series, title)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder, .jsonl or .jsonl.gz of schemas with instances")
    parser.add_argument("--tokenizer", help="folder of a Hugging Face tokenizer (default: Llama 3's)")
    parser.add_argument("--engines", default="", help=f"each in its own process, comma-separated: {', '.join(ENGINES)}")
    parser.add_argument("--interleave", default="", help="engines that take turns in one process, comma-separated")
    parser.add_argument("--sample", type=int, default=0, help="number of schemas, a share of each family; 0: all")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--only", default="", help="only schemas whose id contains one of these, comma-separated")
    parser.add_argument("--limit-s", type=int, default=60, help="seconds for one schema")
    parser.add_argument("--budget-s", type=float, default=float("inf"), help="seconds for each process's run")
    parser.add_argument(
        "--clock", choices=["wall", "cpu"], default="wall", help="cpu excludes the time of other processes"
    )
    parser.add_argument("--layout", choices=["spaced", "compact"], default="spaced", help="of the instances' texts")
    parser.add_argument("--out", type=Path, help="write every measurement to this file, one line of JSON each")
    parser.add_argument("--report", type=Path, nargs="+", help="only print the report of these files")
    parser.add_argument("--svg", type=Path, help="draw the distribution of mask + accept")
    parser.add_argument("--list", type=int, default=0, help="name this many of the slow, wrong and refused schemas")
    parser.add_argument("--verbose", action="store_true", help="show what the engines write to stderr")
    options = parser.parse_args()

    if options.report:
        versions, before, rows = read(options.report)
    else:
        if options.data is None or not (options.engines or options.interleave):
            parser.error("--data, and --engines or --interleave, say what to measure")
        groups = [name for name in options.engines.split(",") if name]
        groups += [options.interleave] if options.interleave else []
        if unknown := {name for group in groups for name in group.split(",")} - set(ENGINES):
            parser.error(f"unknown engines: {', '.join(sorted(unknown))}; there are {', '.join(ENGINES)}")
        wanted = [part for part in options.only.split(",") if part]
        names = [n for n in load(options.data) if not wanted or any(part in n for part in wanted)]
        names = choose(names, options.sample, options.seed)
        out = options.out or Path(f".schemas-{os.getpid()}.jsonl")
        try:
            with out.open("w", encoding="utf-8") as lines:
                for group in groups:
                    run(group, names, options, lines, time.monotonic() + options.budget_s)
            versions, before, rows = read([out])
        finally:
            if options.out is None:
                out.unlink(missing_ok=True)
    if not rows:
        raise SystemExit("nothing was measured")
    print(report(versions, before, rows, options))
    if options.svg:
        options.svg.write_text(picture(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
