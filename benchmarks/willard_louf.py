"""Repeats the experiment of Willard & Louf (2023), section 3.2: time against the number of tokens.

Their naive approach tries every token of the vocabulary at every step. With their index, the cost of a step does not
depend on the vocabulary or on the text so far. This script shows the same for guiderail: the time of a step (mask and
accept) stays flat from the first token to the last, under the paper's pattern of section 3.2 and under a pattern that
counts. With ``--model`` the embedded model writes the tokens, and its own time is shown too.

    python benchmarks/willard_louf.py --max-tokens 400
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from pathlib import Path

import numpy as np

sys.path[0] = str(Path(__file__).parent / "support")
import guiderail as gr  # noqa: E402
from engines import load_tokenizer  # noqa: E402

PATTERNS = {
    "any text, `.*`": r".*",
    "bounded text, `.{0,4000}`": r".{0,4000}",
    "words, `([a-z]+ )*`": r"([a-z]+ )*",
    "numbers, `([0-9]*)?\\.?[0-9]*`": r"([0-9]*)?\.?[0-9]*",
}


def walk(guide: gr.Guide, max_tokens: int, seed: int) -> list[list[int]]:
    """Returns texts of this many tokens in total: random allowed tokens, and a new text when one must end."""
    chance = random.Random(seed)
    size = guide.vocabulary.size
    bitmask = gr.allocate_token_bitmask(1, size)
    stops = set(guide.vocabulary.stop_token_ids)
    texts: list[list[int]] = [[]]
    matcher = guide.matcher()
    for _ in range(max_tokens):
        matcher.fill_next_token_bitmask(bitmask, 0)
        allowed = [i for i in np.flatnonzero(gr.bitmask_to_bool(bitmask, size)[0]).tolist() if i not in stops]
        if not allowed:
            matcher.reset()
            texts.append([])
            continue
        token = min(chance.sample(allowed, min(8, len(allowed))))  # low ids: the frequent tokens
        matcher.accept_token(token)
        texts[-1].append(token)
    return texts


def replay(guide: gr.Guide, texts: list[list[int]]) -> list[int]:
    """Returns the nanoseconds of mask + accept for each token."""
    bitmask = gr.allocate_token_bitmask(1, guide.vocabulary.size)
    times: list[int] = []
    for text in texts:
        matcher = guide.matcher()
        for token in text:
            started = time.perf_counter_ns()
            matcher.fill_next_token_bitmask(bitmask, 0)
            matcher.accept_token(token)
            times.append(time.perf_counter_ns() - started)
    return times


def with_model(pattern: str, counts: list[int]) -> None:
    print("\n| max_tokens | seconds, free | seconds, constrained | ms a token, free | ms a token, constrained |")
    print("|---:|---:|---:|---:|---:|")
    prompt = "Write a long story about a lighthouse."
    for count in counts:
        row = []
        for constraint in (gr.any_text(), gr.regex(pattern)):
            started = time.perf_counter()
            written = gr.stream(
                None, prompt, constraint, max_tokens=count, seed=1, temperature=1.0, on_incomplete="return"
            )
            for _ in written:
                pass
            row.append((time.perf_counter() - started, max(1, len(written.tokens))))
        each = " | ".join(f"{seconds / tokens * 1e3:.1f}" for seconds, tokens in row)
        print(f"| {count} | {row[0][0]:.2f} | {row[1][0]:.2f} | {each} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--max-tokens", type=int, default=400)
    parser.add_argument(
        "--tokenizer", help="folder of a Hugging Face tokenizer (default: Llama 3's, from llama-models)"
    )
    parser.add_argument("--model", action="store_true", help="also let the embedded model write")
    options = parser.parse_args()

    tokenizer, _ = load_tokenizer(options.tokenizer)
    vocabulary = gr.Vocabulary.from_huggingface(tokenizer)
    quarters = [(i * options.max_tokens // 4, (i + 1) * options.max_tokens // 4) for i in range(4)]
    print("Microseconds a step (mask + accept), median over the tokens:\n")
    print("| pattern | " + " | ".join(f"{a}–{b}" for a, b in quarters) + " | all: seconds |")
    print("|---|---:|---:|---:|---:|---:|")
    for name, pattern in PATTERNS.items():
        texts = walk(gr.compile(gr.regex(pattern), vocabulary, cache=False), options.max_tokens, seed=1)
        times = replay(gr.compile(gr.regex(pattern), vocabulary, cache=False), texts)
        cells = " | ".join(f"{statistics.median(times[a:b]) / 1e3:.2f}" for a, b in quarters)
        print(f"| {name} | {cells} | {sum(times) / 1e9:.4f} |")
    if options.model:
        with_model(r"([a-zA-Z,.'\n ]+)", [n for n in (20, 60, 100, 200, 400) if n <= options.max_tokens])


if __name__ == "__main__":
    main()
