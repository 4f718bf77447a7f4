"""Measures the value of each mask strategy: every benchmark without it, compared with all of them.

The core computes masks with an ordered table of strategies, then by a walk over the vocabulary's trie. States share
masks (``core/mask/strategies.cpp``). This script turns off one strategy at a time. All settings take turns case by case
in one process. Each has its own vocabulary, so none profits from what another one cached. Every mask is compared with
the full table's; a difference is an error.

    python benchmarks/ablation.py --data maskbench.jsonl.gz --sample 100
    python benchmarks/ablation.py --suites schemas --data hard.jsonl.gz --off keywords,self-loops+class-loops

Each row shows how much larger the figures are without the strategy, in percent: mean, p99 and p99.9 of the time of a
mask, the time of all compilations, and the memory of all guides and of what they share. *nothing* is the full table
again, which shows the noise. Times are CPU time of the thread; for each mask, the median over the rounds. *steps* is
the mean number of steps of work for a mask, which other processes cannot change. *made* is the number of masks or parts
of masks that the strategy computed in the full table. *refused* is the number of texts that hit a limit without it.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

# This folder must not be searched for modules: transformers imports a package called regex.
sys.path[0] = str(Path(__file__).parent / "support")
from grammar_texts import json_documents, modules, statements  # noqa: E402
from report import micro, table  # noqa: E402
from schema_data import choose, load  # noqa: E402

from engines import load_tokenizer  # noqa: E402

SUITES = ("schemas", "regex", "json", "sql", "python")
PATTERNS = Path(__file__).with_name("data") / "regex_patterns.json"
WORTH = 3.0  # percent of any figure: a strategy that gains less can be removed
now = time.thread_time_ns


@dataclass
class Case:
    """A constraint and the tokens of its texts."""

    make: Callable[[], Any]
    texts: list[list[int]]


@dataclass
class Setting:
    """The strategies that are off, and the measurements: nanoseconds, steps and bytes."""

    off: tuple[str, ...]
    vocabulary: Any
    masks: list[list[float]] = field(default_factory=list)  # by round; NaN after a refusal
    steps: list[float] = field(default_factory=list)  # in the first round
    refused: int = 0  # texts that hit a limit
    compile: list[int] = field(default_factory=list)  # by round
    memory: int = 0

    @property
    def name(self) -> str:
        return " + ".join(self.off) or "nothing"

    def figures(self) -> dict[str, float]:
        masks = np.median(np.array(self.masks), axis=0)
        p99, p999 = np.nanpercentile(masks, (99, 99.9))
        return {
            "mean": float(np.nanmean(masks)),
            "p99": float(p99),
            "p99.9": float(p999),
            "compile": statistics.median(self.compile),
            "memory": self.memory,
            "steps": float(np.nanmean(self.steps)),
        }


def encode(tokenizer: Any, text: str) -> list[int]:
    tokens: list[int] = tokenizer.encode(text, add_special_tokens=False)
    return tokens


def cut(texts: list[list[int]], count: int) -> list[list[int]]:
    """Returns the first texts, up to ``count`` tokens in all."""
    out = []
    for text in texts:
        out.append(text[:count])
        count -= len(text)
        if count <= 0:
            break
    return out


def cases(suite: str, tokenizer: Any, options: argparse.Namespace) -> list[Case]:
    import guiderail as gr
    from guiderail import grammars

    if suite == "schemas":
        data = load(options.data)
        found = []
        for name in choose(list(data), options.sample, options.seed):
            entry = data[name]
            try:
                gr.json_schema(entry["schema"]).program()
            except gr.GuiderailError:
                continue
            texts = [encode(tokenizer, json.dumps(t["data"], ensure_ascii=False)) for t in entry["tests"] if t["valid"]]
            if texts:
                make = lambda schema=entry["schema"]: gr.json_schema(schema)  # noqa: E731
                found.append(Case(make, texts))
        return found
    if suite == "regex":
        return [
            Case(lambda p=row["pattern"]: gr.regex(p), cut([encode(tokenizer, s) for s in row["samples"]], 60))
            for row in json.loads(PATTERNS.read_text(encoding="utf-8"))
            if row["samples"]
        ]
    texts = {
        "json": lambda: json_documents(options.data),
        "sql": lambda: statements(None),
        "python": lambda: (text for _, text in modules()),
    }[suite]()
    taken: list[list[int]] = []
    for text in texts:
        taken.append(encode(tokenizer, text))
        if sum(map(len, taken)) >= options.tokens:
            break
    make = {"json": grammars.json, "sql": grammars.sql, "python": grammars.python}[suite]
    return [Case(make, cut(taken, options.tokens))]


class Ablation:
    def __init__(self, tokenizer: Any, settings: list[tuple[str, ...]]) -> None:
        import guiderail as gr
        from guiderail import _core

        self.gr, self.core = gr, _core
        self.settings = [Setting(off, gr.Vocabulary.from_huggingface(tokenizer)) for off in settings]
        self.bits = gr.allocate_token_bitmask(1, self.settings[0].vocabulary.size)
        self.clock = statistics.median(self.measured(lambda: None)[0] for _ in range(1000))
        self.expected: list[int] = []

    def measured(self, call: Callable[[], Any]) -> tuple[int, int, Any]:
        steps = self.core.spent_work()
        start = now()
        result = call()
        return now() - start, self.core.spent_work() - steps, result

    def run(self, case: Case, setting: Setting, first: bool, full: bool) -> None:
        """Runs one case with one setting; ``full``: nothing is off."""
        for name in setting.off:
            self.core.switch_mask_strategy(name, False)
        gc.collect(0)
        gc.disable()
        try:
            taken, _, guide = self.measured(lambda: self.gr.compile(case.make(), setting.vocabulary, cache=False))
            setting.compile[-1] += taken
            position = 0
            for at, text in enumerate(case.texts):
                matcher = guide.matcher()
                for number, token in enumerate(text):
                    try:
                        taken, steps, _ = self.measured(lambda: matcher.fill_next_token_bitmask(self.bits, 0))  # noqa: B023
                        setting.masks[-1].append(max(0, taken - int(self.clock)))
                        allowed = matcher.accept_token(token)
                    except self.gr.LimitError:
                        if full:
                            raise
                        setting.masks[-1] += [float("nan")] * (len(text) - number)
                        setting.steps += [float("nan")] * ((len(text) - number) if first else 0)
                        setting.refused += first
                        position += len(text) - number
                        break
                    if first:
                        setting.steps.append(steps)
                        mask = hash(self.bits.tobytes())
                        if full and len(self.expected) == position:
                            self.expected.append(mask)
                        elif self.expected[position] != mask:
                            raise SystemExit(f"without {setting.name} a mask is another one: {case.make()!r:.200}")
                    position += 1
                    if not allowed:
                        case.texts[at] = text[: number + 1]
                        break
            if first:
                setting.memory += guide.memory_size_bytes()
        finally:
            gc.enable()
            for name in setting.off:
                self.core.switch_mask_strategy(name, True)

    def suite(self, found: list[Case], rounds: int) -> None:
        for number in range(rounds):
            for setting in self.settings:
                setting.vocabulary.core.clear_cache()
                setting.masks.append([])
                setting.compile.append(0)
            for turn, case in enumerate(found):
                self.expected = []
                order = self.settings[1:]
                at = turn % len(order) if order else 0
                for setting in [self.settings[0], *order[at:], *order[:at]]:
                    self.run(case, setting, number == 0, setting is self.settings[0])
            if number == 0:
                for setting in self.settings:
                    setting.memory += setting.vocabulary.core.cache_size_bytes()


def shown(more: float) -> str:
    return f"**{more:+.0f} %**" if more >= WORTH else f"{more:+.0f} %"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="schemas with instances; without it, no suite of schemas")
    parser.add_argument("--suites", default=",".join(SUITES))
    parser.add_argument("--sample", type=int, default=100, help="schemas; 0: all")
    parser.add_argument("--tokens", type=int, default=3000, help="tokens of each grammar's texts")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--off", help="strategies to turn off, one setting each; a+b: both at once (default: each)")
    parser.add_argument("--tokenizer")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()

    from guiderail import _core

    tokenizer, _ = load_tokenizer(options.tokenizer)
    names = [row["name"] for row in _core.mask_strategies()]
    off = [tuple(part.split("+")) for part in options.off.split(",")] if options.off else [(name,) for name in names]
    results = {}
    for suite in options.suites.split(","):
        if suite == "schemas" and options.data is None:
            continue
        found = cases(suite, tokenizer, options)
        ablation = Ablation(tokenizer, [(), (), (), *off])  # the first judges the masks, the second is the baseline
        before = {row["name"]: row["made"] for row in _core.mask_strategies()}
        ablation.suite(found[:1], 1)  # warm-up: imports, first pages of memory
        for setting in ablation.settings:
            setting.masks, setting.steps, setting.compile, setting.memory, setting.refused = [], [], [], 0, 0
        ablation.suite(found, options.rounds)
        made = {row["name"]: row["made"] - before[row["name"]] for row in _core.mask_strategies()}
        full = ablation.settings[1].figures()
        rows = []
        results[suite] = {"full": full, "made": made, "without": []}
        for setting in ablation.settings[2:]:
            figures = setting.figures()
            more = {key: 100 * (figures[key] / full[key] - 1) if full[key] else 0.0 for key in full}
            results[suite]["without"].append({"off": setting.off, "figures": figures})
            used = sum(made[name] for name in setting.off) // len(ablation.settings)
            rows.append(
                [setting.name, *map(shown, more.values()), f"{used:,}" if setting.off else "", f"{setting.refused}"]
            )
        masks = len(ablation.settings[1].masks[0])
        print(
            f"\n### {suite}: {len(found)} constraints, {masks:,} masks; with all: mean {micro(full['mean'])} µs, "
            f"p99 {micro(full['p99'])} µs, p99.9 {micro(full['p99.9'])} µs, {full['steps']:.1f} steps, compilations "
            f"{full['compile'] / 1e6:,.1f} ms, {full['memory'] / 1e6:,.1f} MB\n"
        )
        print(table(["without", *full, "made", "refused"], rows), flush=True)
        if options.json:
            options.json.write_text(json.dumps(results))
        del ablation


if __name__ == "__main__":
    main()
