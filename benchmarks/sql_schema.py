"""Compares SQL for a database with SQL without names: compilation time, and time per token.

Uses an invented database of ``--tables`` tables, some of which share columns, and random queries: of one table, with
groups, with subqueries, with joins. At each token the mask is computed and the token accepted. *first*: each query uses
tables and columns that no earlier query used; *again*: the same queries again.

    python benchmarks/sql_schema.py --tables 200
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from pathlib import Path

import numpy as np

# This folder must not be searched for modules: transformers imports a package called regex.
sys.path[0] = str(Path(__file__).parent / "support")
from report import micro, table  # noqa: E402

import guiderail as gr  # noqa: E402
from engines import load_tokenizer  # noqa: E402
from guiderail import grammars  # noqa: E402

SHARED = ["id", "name", "created_at", "status", "total"]


def database(count: int) -> dict[str, list[str]]:
    rng = random.Random(1)
    return {f"table{i}": rng.sample(SHARED, 3) + [f"col{i}_{j}" for j in range(6)] for i in range(count)}


def queries(tables: dict[str, list[str]], count: int) -> list[str]:
    rng = random.Random(5)

    def one() -> str:
        (a, of_a), (b, of_b) = rng.sample(sorted(tables.items()), 2)
        c, d = (lambda: rng.choice(of_a)), (lambda: rng.choice(of_b))
        kind = rng.random()
        if kind < 0.3:
            return f"SELECT {c()}, {c()} FROM {a} WHERE {c()} = {rng.randrange(99)} ORDER BY {c()} LIMIT 10"
        if kind < 0.5:
            return f"SELECT {c()}, count(*) FROM {a} GROUP BY {c()} HAVING sum({c()}) > 10 ORDER BY count(*) DESC"
        if kind < 0.65:
            return f"SELECT {c()} FROM {a} WHERE {c()} IN (SELECT {d()} FROM {b} WHERE {d()} LIKE 'a%') LIMIT 5"
        return (
            f"SELECT t1.{c()}, t2.{d()}, t1.{c()} FROM {a} AS t1 JOIN {b} AS t2 ON t1.{c()} = t2.{d()} "
            f"WHERE t2.{d()} = 'open' GROUP BY t1.{c()}"
        )

    return [one() for _ in range(count)]


def walk(guide: gr.Guide, texts: list[list[int]]) -> list[int]:
    """Returns the thread's nanoseconds for the mask and the acceptance of each token."""
    bitmask = gr.allocate_token_bitmask(1, guide.vocabulary.size)
    found = []
    for tokens in texts:
        matcher = guide.matcher()
        for token in tokens:
            begun = time.thread_time_ns()
            matcher.fill_next_token_bitmask(bitmask)
            taken = matcher.accept_token(token)
            found.append(time.thread_time_ns() - begun)
            if not taken:
                raise AssertionError("a query of the database was refused")
        assert matcher.is_accepting()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokenizer", help="folder of a Hugging Face tokenizer (default: Llama 3's)")
    parser.add_argument("--tables", type=int, default=200)
    parser.add_argument("--queries", type=int, default=150)
    options = parser.parse_args()
    tokenizer, size = load_tokenizer(options.tokenizer)
    vocabulary = gr.Vocabulary.from_huggingface(tokenizer, size=size)
    tables = database(options.tables)
    texts = [tokenizer.encode(text, add_special_tokens=False) for text in queries(tables, options.queries)]
    gr.compile(gr.regex("a"), vocabulary)  # the memory that all guides of the vocabulary share
    body = []
    for name, make in (("without names", grammars.sql), ("of the database", lambda: grammars.sql(schema=tables))):
        begun = time.process_time()
        guide = gr.compile(make(), vocabulary, cache=False)
        compiled = time.process_time() - begun
        for run in ("first", "again"):
            times = np.array(walk(guide, texts))
            cells = [micro(times.mean()), *(micro(np.percentile(times, q)) for q in (50, 99))]
            body.append([f"{name}, {run}", f"{compiled * 1000:.0f}", *cells])
    print(table(["SQL", "compile, ms", "mean, µs", "p50", "p99"], body))


if __name__ == "__main__":
    main()
