"""Runs measurements that need a new process: cold compilations, and memory.

``compile GRAMMAR --vocabulary FILE [--loaded]`` prints the nanoseconds of one compilation, the first in the process.
``--loaded`` reads and compiles a one-line grammar before, so that importing modules is not counted. The cache on disk
is used if ``GUIDERAIL_CACHE_DIR`` is set.

``memory GRAMMAR --vocabulary FILE --tokens FILE`` feeds one matcher and prints the growth of the resident memory.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import time
from importlib import import_module
from pathlib import Path

import numpy as np
from grammar_engines import GRAMMARS

import guiderail as gr


def resident() -> int:
    """Returns the resident bytes of this process; Linux only."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def compilation(name: str, vocabulary: gr.Vocabulary, loaded: bool) -> dict[str, int]:
    """Returns the wall and CPU nanoseconds of the grammar's compilation, and of the first mask after it."""
    gr.compile(gr.regex("a"), vocabulary)
    if loaded:
        import_module("guiderail.frontends.grammars")
        gr.compile(gr.grammar('start: "a"', syntax="lark"), vocabulary)
        gr.compile(gr.grammar('root ::= "a"', syntax="gbnf"), vocabulary)
    bits = gr.allocate_token_bitmask(1, vocabulary.size)
    gc.disable()
    wall, cpu = time.perf_counter_ns(), time.thread_time_ns()
    guide = gr.compile(GRAMMARS[name](), vocabulary)
    compiled = time.perf_counter_ns(), time.thread_time_ns()
    guide.matcher().fill_next_token_bitmask(bits, 0)
    done = time.perf_counter_ns(), time.thread_time_ns()
    return {
        "wall": compiled[0] - wall,
        "cpu": compiled[1] - cpu,
        "first_mask_wall": done[0] - compiled[0],
        "first_mask_cpu": done[1] - compiled[1],
    }


def memory(name: str, vocabulary: gr.Vocabulary, tokens: list[int], every: int) -> dict[str, object]:
    """Returns the growth of resident bytes since the first mask, at regular intervals and at the end."""
    guide = gr.compile(GRAMMARS[name](), vocabulary)
    bits = gr.allocate_token_bitmask(1, vocabulary.size)
    matcher = guide.matcher()
    matcher.fill_next_token_bitmask(bits, 0)
    gc.collect()
    before = resident()
    growth: list[tuple[int, int]] = []
    begun = time.monotonic()
    for number, token in enumerate(tokens, 1):
        matcher.fill_next_token_bitmask(bits, 0)
        if not bits[0, token // 32] >> (token % 32) & 1 or not matcher.accept_token(token):
            read = b"".join(map(vocabulary.token_bytes, tokens[max(0, number - 12) : number]))
            return {"refused": number - 1, "read": read.decode(errors="replace"), "growth": growth, "before": before}
        if number % every == 0 or number == len(tokens):
            growth.append((number, resident() - before))
    return {
        "growth": growth,
        "before": before,
        "guide": guide.memory_size_bytes(),
        "seconds": time.monotonic() - begun,
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("work", choices=["compile", "memory"])
    parser.add_argument("grammar", choices=list(GRAMMARS))
    parser.add_argument("--vocabulary", type=Path, required=True, help="a file of Vocabulary.save")
    parser.add_argument("--loaded", action="store_true", help="import the grammar modules before the clock starts")
    parser.add_argument("--tokens", type=Path, help="a .npy of token ids")
    parser.add_argument("--every", type=int, default=10_000)
    options = parser.parse_args()
    vocabulary = gr.Vocabulary.load(options.vocabulary)
    _ = vocabulary.core  # builds the native trie, which the first compilation would build otherwise
    if options.work == "compile":
        answer: dict[str, object] = {**compilation(options.grammar, vocabulary, options.loaded)}
    else:
        answer = memory(options.grammar, vocabulary, np.load(options.tokens).tolist(), options.every)
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
