"""Compares engines on context-free grammars: time per token, compilation time, and memory.

Every text is split into tokens by the model's tokenizer. At each token the mask is computed and must contain the token,
which is then accepted. The engines take turns text by text in one process, so that they meet the same noise. Tables
cover the texts that all engines accept. No language model is needed.

- **JSON**: any value, over long documents. guiderail's ready-made grammar and a grammar without a lexer (GBNF),
  XGrammar's built-in grammar, and llguidance's Lark dialect.
- **Python**: all of Python 3.11 with its indentation, over modules of the standard library. llguidance cannot read such
  a grammar; the report shows its error.
- **SQL**: SQLite's statements, over a corpus of queries or files of them (``--sql``). llguidance uses the same language
  in its own dialect.
- **compile**: a new process for each; *in a new process* includes the imports. From disk: see ``gr.set_cache_dir``.
- **memory**: how much one matcher grows over 100,000 tokens of a text whose nesting stays shallow.

    python benchmarks/grammar.py --data maskbench.jsonl.gz --json grammar.json
    python benchmarks/grammar.py --only python --tokens 5000 --no-rivals --slowest 10

Times cover one mask and one accept, called from Python with the garbage collector off, minus the cost of reading the
clocks. *cpu* is the CPU time of the thread. *wall* includes the time taken by other processes: on a busy machine,
compare *cpu*. There is no warm-up: the figures include the first masks of each grammar.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

# This folder must not be searched for modules: transformers imports a package called regex.
SUPPORT = Path(__file__).parent / "support"
sys.path[0] = str(SUPPORT)
from grammar_engines import Contender, Makers  # noqa: E402
from grammar_texts import flat_json, json_documents, modules, statements  # noqa: E402
from report import mean_and_quantiles, micro, progress, table  # noqa: E402

from engines import load_tokenizer  # noqa: E402

SECTIONS = ("json", "python", "sql", "compile", "memory")
QUANTILES = (50, 90, 99, 99.9, 100)
MEMORY_LIMIT = 200e6  # maximum bytes for 100,000 tokens
# Targets: microseconds for the mean and p99 of a token, or fractions of a rival's; milliseconds for a compilation.
MOST_MICROSECONDS = {"python": (25.0, 400.0), "sql": (25.0, 400.0)}
PARTS = {"json": ("xgrammar, built-in", 1 / 6, 1 / 4), "sql": ("llguidance", 1 / 5, None)}
MOST_MILLISECONDS = {"JSON": 5.0, "SQL": 50.0, "Python": 400.0}
MOST_FROM_DISK = 20.0
CLOCKS = ("cpu", "wall")


@dataclass
class Walk:
    """One text with one engine: nanoseconds of each step by both clocks, and the index of a rejected token."""

    cpu: list[int] = field(default_factory=list)
    wall: list[int] = field(default_factory=list)
    refused: int | None = None  # index of the token


def clock_cost() -> tuple[int, int]:
    """Returns the nanoseconds of an empty step by both clocks, the median of many."""
    walk = Walk()
    for _ in range(2000):
        step(walk, lambda: None, lambda token: None, 0)
    return int(np.median(walk.cpu)), int(np.median(walk.wall))


def step(walk: Walk, fill: Callable[[], object], accept: Callable[[int], object], token: int) -> object:
    thread_time, wall_time = time.thread_time_ns, time.perf_counter_ns
    cpu = thread_time()
    wall = wall_time()
    fill()
    taken = accept(token)
    wall_end = wall_time()
    cpu_end = thread_time()
    walk.cpu.append(cpu_end - cpu)
    walk.wall.append(wall_end - wall)
    return taken


def walk(contender: Contender, tokens: list[int], cost: tuple[int, int]) -> Walk:
    """Walks token by token until a mask excludes the next one. An engine that contradicts its own mask is an error."""
    found = Walk()
    fill, accept = contender.start()
    gc.collect(0)
    gc.disable()
    try:
        for position, token in enumerate(tokens):
            taken = step(found, fill, accept, token)
            if not contender.allows(token):
                if taken is True and contender.name.startswith("guiderail"):
                    raise AssertionError(f"{contender.name}: the mask forbids token {token}, accept takes it")
                found.refused = position
                break
            if taken is False:
                raise AssertionError(f"{contender.name}: the mask allows token {token}, accept refuses it")
    finally:
        gc.enable()
    found.cpu = [max(0, value - cost[0]) for value in found.cpu]
    found.wall = [max(0, value - cost[1]) for value in found.wall]
    return found


@dataclass
class Section:
    """The results for one language.

    Attributes:
        walks: contender → one walk per text.
        errors: contender → why it did not compile.
        names: of the texts.
        compile: contender → nanoseconds (wall) of the compilation in this process.
        tokens: of each text.
    """

    walks: dict[str, list[Walk]]
    errors: dict[str, str]
    names: list[str]
    compile: dict[str, int]
    tokens: list[list[int]]

    def common(self) -> list[int]:
        """Returns the texts that all contenders accept."""
        return [i for i in range(len(self.names)) if all(by[i].refused is None for by in self.walks.values())]

    def steps(self, name: str, clock: str) -> list[int]:
        return [value for i in self.common() for value in getattr(self.walks[name][i], clock)]


def measure(
    title: str, contenders: list[Contender], texts: Iterable[tuple[str, str]], tokenizer: Any, limit: int
) -> Section:
    section = Section({}, {}, [], {}, [])
    ready = []
    for contender in contenders:
        progress(f"{title}: {contender.name} compiles")
        start = time.perf_counter_ns()
        try:
            contender.guide = contender.compile()
        except Exception as error:  # any exception of any engine: the report shows it
            section.errors[contender.name] = " ".join(str(error).split())[:300]
            continue
        section.compile[contender.name] = time.perf_counter_ns() - start
        section.walks[contender.name] = []
        ready.append(contender)
    cost, total = clock_cost(), 0
    for number, (name, text) in enumerate(texts):
        tokens = tokenizer.encode(text, add_special_tokens=False)
        section.names.append(name)
        section.tokens.append(tokens)
        turn = number % max(1, len(ready))
        for contender in ready[turn:] + ready[:turn]:
            progress(f"{title}: {total:,} tokens, {contender.name}, {name[:50]}")
            section.walks[contender.name].append(walk(contender, tokens, cost))
        total += len(tokens)
        if total >= limit:
            break
    progress("")
    return section


# -- the report ---------------------------------------------------------------------------------------------------
def times(title: str, section: Section) -> str:
    common = section.common()
    body = []
    for clock in CLOCKS:
        for name in section.walks:
            values = section.steps(name, clock)
            if values:
                body.append(
                    [f"{name}, {clock}", *map(micro, mean_and_quantiles(values, QUANTILES)), f"{len(values):,}"]
                )
    head = [f"{title}: µs of mask + accept, {len(common)} texts", "mean", "p50", "p90", "p99", "p99.9", "max", "tokens"]
    lines = [table(head, body) if body else f"{title}: no text that all take"]
    for name, walks in section.walks.items():
        refused = [(section.names[i], w.refused) for i, w in enumerate(walks) if w.refused is not None]
        if refused:
            told = ", ".join(f"{text[:60]!r} at token {at}" for text, at in refused[:5])
            lines.append(f"- {name} refuses {len(refused)} of {len(walks)} texts: {told}")
    lines += [f"- {name} does not take the grammar: {error}" for name, error in section.errors.items()]
    return "\n".join(lines)


def goals(key: str, section: Section) -> list[list[str]]:
    """Returns the rows of the table of goals: name, goal, result, whether it is met. In CPU time."""
    rows: list[list[str]] = []
    for name in section.walks:
        if not name.startswith("guiderail") or not section.steps(name, "cpu"):
            continue
        mean, p99 = (value / 1e3 for value in mean_and_quantiles(section.steps(name, "cpu"), (99,)))
        if key in MOST_MICROSECONDS:
            for label, most, value in zip(("mean", "p99"), MOST_MICROSECONDS[key], (mean, p99), strict=True):
                rows.append([f"{key}, {name}: {label}", f"{most:g} µs", f"{value:.1f} µs", met(value <= most)])
        if key in PARTS and section.walks.get(PARTS[key][0]):
            rival, *parts = PARTS[key]
            theirs = (value / 1e3 for value in mean_and_quantiles(section.steps(rival, "cpu"), (99,)))
            for label, part, mine, other in zip(("mean", "p99"), parts, (mean, p99), theirs, strict=True):
                if part is not None:
                    row = [f"{key}, {name}: {label} / {rival}", f"1/{1 / part:.0f}", f"1/{other / mine:.2f}"]
                    rows.append([*row, met(mine <= part * other)])
    return rows


def met(yes: bool) -> str:
    return "yes" if yes else "**no**"


def slowest(section: Section, tokenizer: Any, count: int) -> str:
    """Returns the slowest steps, with the text before them."""
    lines = []
    for name, walks in section.walks.items():
        costs = [(cost, i, at) for i, one in enumerate(walks) for at, cost in enumerate(one.cpu)]
        for cost, i, at in sorted(costs, reverse=True)[:count]:
            before = tokenizer.decode(section.tokens[i][max(0, at - 10) : at])
            token = tokenizer.decode(section.tokens[i][at : at + 1])
            lines.append(f"- {name}, {section.names[i][:40]}: {micro(cost)} µs: {before!r} → {token!r}")
    return "\n".join(lines)


# -- compilations and memory, each in its own process ---------------------------------------------------------------
def worker(*arguments: str, cache: str = "") -> Any:
    environment = {**os.environ, "GUIDERAIL_CACHE_DIR": cache}
    command = [sys.executable, str(SUPPORT / "grammar_worker.py"), *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(arguments)} failed:\n{done.stderr}")
    return json.loads(done.stdout)


def compilations(vocabulary: Path, rounds: int) -> tuple[dict[str, dict[str, list[dict[str, int]]]], list[list[str]]]:
    """Returns the results of each round by grammar and kind, and the rows of goals."""
    found: dict[str, dict[str, list[dict[str, int]]]] = {}
    rows = []
    for grammar in ("JSON", "JSON, GBNF", "SQL", "Python"):
        kinds: dict[str, list[dict[str, int]]] = {"compile": [], "new process": [], "from disk": [], "disk, new": []}
        with tempfile.TemporaryDirectory() as folder:
            arguments = ("compile", grammar, "--vocabulary", str(vocabulary))
            worker(*arguments, cache=folder)  # fills the cache
            for number in range(rounds):
                progress(f"compile {grammar}: {number + 1} of {rounds}")
                kinds["compile"].append(worker(*arguments, "--loaded"))
                kinds["new process"].append(worker(*arguments))
                kinds["from disk"].append(worker(*arguments, "--loaded", cache=folder))
                kinds["disk, new"].append(worker(*arguments, cache=folder))
        found[grammar] = kinds
        if grammar in MOST_MILLISECONDS:
            for kind, most in (("compile", MOST_MILLISECONDS[grammar]), ("from disk", MOST_FROM_DISK)):
                value = middle(kinds[kind], "cpu") / 1e6
                rows.append([f"{kind}, {grammar}", f"{most:g} ms", f"{value:.2f} ms", met(value <= most)])
    progress("")
    return found, rows


def middle(runs: list[dict[str, int]], key: str) -> float:
    return float(np.median([run[key] for run in runs]))


def compile_table(found: dict[str, dict[str, list[dict[str, int]]]]) -> str:
    titles = {"compile": "", "new process": ", in a new process", "from disk": ", from disk"}
    titles["disk, new"] = ", from disk, in a new process"
    body = [
        [f"{grammar}{titles[kind]}", *(f"{middle(runs, key) / 1e6:.2f}" for key in runs[0])]
        for grammar, kinds in found.items()
        for kind, runs in kinds.items()
    ]
    return table(["compile, ms (median)", "wall", "cpu", "first mask, wall", "first mask, cpu"], body)


def long_text(kind: str, tokenizer: Any, count: int) -> list[int]:
    """Returns at least so many tokens of one text: a list of records, or modules in sequence."""
    if kind == "JSON":
        return list(tokenizer.encode(flat_json(4 * count), add_special_tokens=False))
    parts, total = [], 0
    for _, text in modules(seed=1):
        parts.append(text if text.endswith("\n") else text + "\n")
        total += len(tokenizer.encode(text, add_special_tokens=False))
        if total >= count * 1.05:
            break
    return list(tokenizer.encode("".join(parts), add_special_tokens=False))


def memory(vocabulary: Path, tokenizer: Any, count: int) -> tuple[dict[str, Any], list[list[str]]]:
    found, rows = {}, []
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("JSON", "Python"):
            progress(f"memory: {count:,} tokens of {kind}")
            file = Path(folder, f"{kind}.npy")
            np.save(file, np.array(long_text(kind, tokenizer, count)[:count], np.int32))
            answer = worker("memory", kind, "--vocabulary", str(vocabulary), "--tokens", str(file))
            found[kind] = answer
            if "refused" in answer:
                value = f"refused at {answer['refused']}: {answer['read']!r}"
                rows.append([f"memory, {kind}", f"{MEMORY_LIMIT / 1e6:g} MB", value, met(False)])
                continue
            grown = max(size for _, size in answer["growth"])
            label = f"memory, {kind}, {answer['growth'][-1][0]:,} tokens"
            rows.append([label, f"{MEMORY_LIMIT / 1e6:g} MB", f"{grown / 1e6:.0f} MB", met(grown <= MEMORY_LIMIT)])
    progress("")
    return found, rows


def memory_table(found: dict[str, Any]) -> str:
    body = []
    for kind, answer in found.items():
        growth = answer["growth"]
        quarters = [growth[max(0, len(growth) * q // 4 - 1)][1] / 1e6 for q in (1, 2, 3, 4)] if growth else []
        cells = [f"{value:.0f}" for value in quarters] or ["–"] * 4
        body.append([kind, f"{answer['before'] / 1e6:.0f}", *cells, f"{answer.get('guide', 0) / 1e6:.0f}"])
    head = ["resident memory, MB", "before", "+ after ¼", "+ after ½", "+ after ¾", "+ at the end", "guide"]
    return table(head, body)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokenizer", help="folder of a Hugging Face tokenizer (default: Llama 3's)")
    parser.add_argument("--vocabulary", type=Path, help="its vocabulary as written by Vocabulary.save, to start sooner")
    parser.add_argument("--data", type=Path, help="schemas with instances for JSON documents (default: random ones)")
    parser.add_argument("--sql", type=Path, help="folder of SQL files (default: 152 short statements)")
    parser.add_argument("--only", default=",".join(SECTIONS), help=f"some of {', '.join(SECTIONS)}")
    parser.add_argument("--tokens", type=int, default=40_000, help="maximum to walk in each language, in whole texts")
    parser.add_argument("--no-rivals", action="store_true", help="guiderail alone")
    parser.add_argument("--rounds", type=int, default=5, help="compilations of each kind")
    parser.add_argument("--memory-tokens", type=int, default=100_000)
    parser.add_argument("--slowest", type=int, default=0, help="show this many of the slowest steps of each engine")
    parser.add_argument("--json", type=Path, help="write every measurement to this file")
    options = parser.parse_args()
    wanted = [name for name in options.only.split(",") if name]
    if unknown := set(wanted) - set(SECTIONS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(SECTIONS)}")

    tokenizer, size = load_tokenizer(options.tokenizer)
    makers = Makers(tokenizer, size, options.vocabulary, not options.no_rivals)
    engines = [e for e in (makers.guiderail, makers.llguidance, makers.xgrammar) if e is not None]
    versions = {engine.name: engine.version for engine in engines}
    told = ", ".join(f"{name} {value}" for name, value in versions.items())
    print(f"{told}; Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} processors.")
    languages: dict[str, tuple[Callable[[], list[Contender]], Callable[[], Iterable[tuple[str, str]]]]] = {
        "json": (makers.json, lambda: ((text[:30], text) for text in json_documents(options.data))),
        "python": (makers.python, modules),
        "sql": (makers.sql, lambda: ((text, text) for text in statements(options.sql))),
    }
    written: dict[str, Any] = {"engines": versions, "languages": {}}
    rows: list[list[str]] = []

    def show(text: str) -> None:
        print(f"\n{text}", flush=True)

    for key, (contenders, texts) in languages.items():
        if key in wanted:
            section = measure(key, contenders(), texts(), tokenizer, options.tokens)
            show(times(key, section))
            if options.slowest:
                show(slowest(section, tokenizer, options.slowest))
            rows += goals(key, section)
            written["languages"][key] = {
                "texts": section.names,
                "errors": section.errors,
                "compile": section.compile,
                "walks": {
                    name: [{"cpu": w.cpu, "wall": w.wall, "refused": w.refused} for w in walks]
                    for name, walks in section.walks.items()
                },
            }
            del section
    with tempfile.TemporaryDirectory() as folder:
        vocabulary = options.vocabulary
        if vocabulary is None:
            vocabulary = Path(folder, "vocabulary.rail")
            makers.guiderail.vocabulary.save(vocabulary)
        if "compile" in wanted:
            written["compile"], more = compilations(vocabulary, options.rounds)
            show(compile_table(written["compile"]))
            rows += more
        if "memory" in wanted:
            written["memory"], more = memory(vocabulary, tokenizer, options.memory_tokens)
            show(memory_table(written["memory"]))
            rows += more
    if rows:
        show(table(["goal (processor time)", "aimed at", "found", "met"], rows))
    if options.json:
        options.json.write_text(json.dumps({**written, "goals": rows}), encoding="utf-8")


if __name__ == "__main__":
    main()
