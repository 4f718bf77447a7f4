"""Measures the cost of ``canonical=True``: mask and accept of each token, with and without it, in one run.

Both guides are compiled for each schema of a sample of MaskBench. Then they take turns over the tokens of each valid
instance: first the mask, then the token. The tokenizer spells the instances, so both guides accept them. Times are CPU
time of one thread.

    python benchmarks/canonical.py --data maskbench.jsonl.gz --sample 200
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

# This folder must not be searched for modules: transformers imports a package called regex.
sys.path[0] = str(Path(__file__).parent / "support")
from report import mean_and_quantiles, table  # noqa: E402
from schema_data import choose, load  # noqa: E402

import guiderail as gr  # noqa: E402
from engines import load_tokenizer  # noqa: E402


class Walk:
    """The measurements of one guide, with or without ``canonical``."""

    def __init__(self, vocabulary: gr.Vocabulary, canonical: bool) -> None:
        self.vocabulary, self.canonical = vocabulary, canonical
        self.mask = gr.allocate_token_bitmask(1, vocabulary.size)
        self.microseconds: list[float] = []
        self.compiling: list[float] = []
        self.refused = 0

    def compile(self, schema: Any) -> gr.Guide:
        started = time.process_time()
        guide = gr.compile(gr.json_schema(schema), self.vocabulary, canonical=self.canonical, cache=False)
        self.compiling.append(1e6 * (time.process_time() - started))
        return guide

    def walk(self, guide: gr.Guide, tokens: list[int]) -> None:
        matcher = guide.matcher()
        clock = time.thread_time_ns
        for token in tokens:
            started = clock()
            matcher.fill_next_token_bitmask(self.mask)
            accepted = matcher.accept_token(token)
            self.microseconds.append((clock() - started) / 1000)
            if not accepted:
                self.refused += 1
                print(f"refused: {self.vocabulary.decode(tokens[: matcher.step_count])!r} + {token}", file=sys.stderr)
                return


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sample", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tokenizer", help="folder of a tokenizer; Llama 3's by default")
    parser.add_argument("--slowest", type=int, default=0, help="show this many schemas to which canonical adds most")
    options = parser.parse_args()
    tokenizer, size = load_tokenizer(options.tokenizer)
    vocabulary = gr.Vocabulary.from_huggingface(tokenizer, size=size)
    started = time.process_time()
    _ = vocabulary.spelling
    print(f"the spelling of {vocabulary.token_count} tokens: {time.process_time() - started:.2f} s")
    documents = load(options.data)
    plain, canonical = Walk(vocabulary, False), Walk(vocabulary, True)
    added: list[tuple[float, str]] = []
    limited = 0
    for name in choose(list(documents), options.sample, options.seed):
        document = documents[name]
        texts = [json.dumps(test["data"], ensure_ascii=False) for test in document["tests"] if test["valid"]]
        try:
            guides = [walk.compile(document["schema"]) for walk in (plain, canonical)]
        except gr.GuiderailError:
            continue
        before = sum(canonical.microseconds) - sum(plain.microseconds)
        for text in texts:
            tokens = vocabulary.encode(text)
            try:
                for walk, guide in zip((plain, canonical), guides, strict=True):
                    walk.walk(guide, tokens)
            except gr.LimitError as error:
                limited += 1
                print(f"{name}: {error}", file=sys.stderr)
        added.append((sum(canonical.microseconds) - sum(plain.microseconds) - before, name))
    rows = []
    for title, walk in (("plain", plain), ("canonical", canonical)):
        mean, median, slow, slowest = mean_and_quantiles(walk.microseconds)
        rows.append([title, str(len(walk.microseconds)), *(f"{x:.1f}" for x in (mean, median, slow, slowest))])
    print(table(["mask + accept, µs", "tokens", "mean", "50 %", "90 %", "99 %"], rows))
    means = [sum(walk.microseconds) / max(1, len(walk.microseconds)) for walk in (plain, canonical)]
    print(f"ratio of means: {means[1] / means[0]:.2f}; refused: {canonical.refused}; at a limit: {limited}")
    print(f"memory of the spelling: {vocabulary.spelling.memory_size_bytes() >> 20} MiB")
    for extra, name in sorted(added, reverse=True)[: options.slowest]:
        print(f"{extra / 1000:8.1f} ms  {name}")


if __name__ == "__main__":
    main()
