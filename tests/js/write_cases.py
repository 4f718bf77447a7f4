"""Writes constraints, texts and their masks, for JavaScript to compare.

    python tests/js/write_cases.py FOLDER                                            # the constraints of the tests
    python tests/js/write_cases.py FOLDER --data maskbench.jsonl.gz --schemas 300 --tokenizer tokenizer.json

In the folder: ``cases.json`` (texts, their tokens, SHA-256 of all masks along them), program files, the vocabulary.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import random
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import guiderail as gr

SIMPLE = {
    "choice": gr.choice(["red", "green", "blue"]),
    "date": gr.regex(r"[0-9]{4}-(0[1-9]|1[0-2])-[0-3][0-9]"),
    "words": gr.regex(r"(alpha|beta)( (alpha|beta)){0,3}[.!]?"),
    "not": gr.regex(r"(?!.*bad)[a-z ]{3,40}"),
    "umlauts": gr.regex(r"[äöü€😀]{2,6}"),
}
TEXTS = {
    "choice": ["red", "green", "gray"],
    "date": ["2024-02-29", "2024-13-01"],
    "words": ["alpha beta alpha!", "beta gamma"],
    "not": ["this is good", "this is bad indeed"],
    "umlauts": ["äö€😀", "aö"],
}


def letters() -> gr.Vocabulary:
    """A vocabulary of all bytes, some words, special tokens, and a hole."""
    tokens: list[bytes | None] = [bytes([b]) for b in range(256)]
    tokens += [w.encode() for w in ("alpha", " beta", "red", '": "', '{"', '"}', "true", "null", "name", " €", "ä")]
    tokens += [None, b"<|end|>", b"<|pad|>"]
    ends = len(tokens) - 2
    special = {"<|end|>": ends, "<|pad|>": ends + 1}
    return gr.Vocabulary(tokens, special_tokens=special, stop_token_ids=[ends], size=len(tokens) + 37)


def spelled(vocabulary: gr.Vocabulary, text: str) -> list[int]:
    """Returns the tokens of a text: the tokenizer's, or the longest ones from the left."""
    if vocabulary.can_encode:
        try:
            return vocabulary.encode(text)
        except gr.VocabularyError:
            pass
    by_bytes = {vocabulary.token_bytes(i): i for i in range(vocabulary.token_count) if vocabulary.is_text(i)}
    longest = max(map(len, by_bytes))
    data, out = text.encode(), []
    while data:
        length = next(n for n in range(min(longest, len(data)), 0, -1) if data[:n] in by_bytes)
        out.append(by_bytes[data[:length]])
        data = data[length:]
    return out


def followed(guide: gr.Guide, tokens: list[int]) -> dict[str, Any]:
    """Returns the answers of a matcher along the tokens."""
    matcher = guide.matcher()
    bitmask = np.zeros((1, (guide.vocabulary.size + 31) // 32), np.int32)
    digest = hashlib.sha256()
    accepted = 0
    times = []
    for token in [*tokens, None]:
        if matcher.is_terminated():
            break
        begun = time.perf_counter_ns()
        matcher.fill_next_token_bitmask(bitmask)
        filled = time.perf_counter_ns()
        digest.update(bitmask.tobytes())
        if token is None:
            break
        asked = time.perf_counter_ns()
        taken = matcher.accept_token(token)
        times.append(filled - begun + time.perf_counter_ns() - asked)
        if not taken:
            break
        accepted += 1
    return {
        "tokens": tokens,
        "accepted": accepted,
        "digest": digest.hexdigest(),
        "nanoseconds": times,  # of masks and accept_token, for benchmarks/js
        "accepting": matcher.is_accepting(),
        "forced": "" if matcher.is_terminated() else matcher.find_jump_forward_string(),
    }


def constraints(data: Path | None, count: int, seed: int) -> list[tuple[str, gr.Constraint, list[str], Any]]:
    out: list[Any] = [(name, constraint, TEXTS[name], None) for name, constraint in SIMPLE.items()]
    if data is None:
        folder = Path(__file__).parents[1] / "data/schemas"
        files = sorted(folder.glob("*.json"))
        schemas = [(path.name, json.loads(path.read_text()), []) for path in files]
    else:
        with gzip.open(data, "rt") as lines:
            rows = [json.loads(line) for line in lines]
        random.Random(seed).shuffle(rows)
        schemas = [(row["id"], row["schema"], [one["data"] for one in row["tests"]][:4]) for row in rows]
    for name, schema, values in schemas:
        if len(out) >= count + len(SIMPLE):
            break
        try:
            constraint = gr.json_schema(schema)
            constraint.matches("null")
        except gr.GuiderailError:
            continue
        texts = [json.dumps(value, ensure_ascii=False) for value in values] or ["{}", "[1, 2]", '{"name": "Ada"}']
        out.append((name, constraint, texts, schema))
    return out


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", type=Path, help="schemas with instances, JSON lines, gzipped")
    parser.add_argument("--schemas", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tokenizer", type=Path, help="a tokenizer.json; by default a small vocabulary of letters")
    parser.add_argument("--rounds", type=int, default=1, help="walks of each text; the least time of each step counts")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    vocabulary = letters() if given.tokenizer is None else gr.Vocabulary.from_huggingface(str(given.tokenizer))
    vocabulary.save(given.folder / "main.vocabulary")
    entry = {"file": "main.vocabulary", "tokenizer": given.tokenizer and str(given.tokenizer.resolve())}
    cases = []
    for name, constraint, texts, schema in constraints(given.data, given.schemas, given.seed):
        try:
            tokens = [[*spelled(vocabulary, text), *vocabulary.stop_token_ids[:1]] for text in texts]
            rounds = []
            for _ in range(given.rounds):
                guide = gr.Guide(constraint, vocabulary)
                rounds.append([followed(guide, list_) for list_ in tokens])
        except gr.GuiderailError:
            continue  # too large, or not writable with this vocabulary
        rows = rounds[0]
        for row, *others in zip(*rounds, strict=True):
            times = [row["nanoseconds"], *(other["nanoseconds"] for other in others)]
            row["nanoseconds"] = [min(step) for step in zip(*times, strict=True)]
        file = f"{len(cases)}.rail"
        constraint.save(given.folder / file)
        cases.append({"name": name, "program": file, "vocabulary": "main", "schema": schema, "texts": rows})
    description = {"vocabularies": {"main": entry}, "cases": cases}
    (given.folder / "cases.json").write_text(json.dumps(description))
    print(f"{len(cases)} constraints, {sum(len(case['texts']) for case in cases)} texts")
    return 0


if __name__ == "__main__":
    sys.exit(main())
