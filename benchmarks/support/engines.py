"""One adapter per engine. The benchmarks call each engine through its own public Python interface.

An adapter is made once per vocabulary (its set-up is not measured), compiles a pattern, and starts
a generation as two callables, ``fill()`` and ``accept(token)``, bound in advance so that no adapter
code runs inside a measurement. ``fill`` writes into ``bits``, int32 of shape ``(1, ceil(vocabulary
/ 32))``, allocated once.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Fill = Callable[[], object]
Accept = Callable[[int], object]

LLAMA3_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
LLAMA3_SPECIAL = [
    *("<|begin_of_text|>", "<|end_of_text|>", "<|reserved_special_token_0|>", "<|reserved_special_token_1|>"),
    *("<|finetune_right_pad_id|>", "<|step_id|>", "<|start_header_id|>", "<|end_header_id|>", "<|eom_id|>"),
    *("<|eot_id|>", "<|python_tag|>"),
]


class Engine:
    """An engine, as the benchmarks use it."""

    name: str
    package: str
    isolated = False  # compile in a child process with limits of time and memory
    bits: NDArray[np.int32]

    @property
    def version(self) -> str:
        try:
            return version(self.package)
        except PackageNotFoundError:
            return "from the work tree"

    def compile(self, pattern: str) -> Any:
        """Compiles a pattern without using an earlier result. Raises if the engine does not support the pattern."""
        raise NotImplementedError

    def start(self, guide: Any) -> tuple[Fill, Accept]:
        raise NotImplementedError

    def memory(self, guide: Any) -> int | None:
        """Returns the bytes that the guide uses, if the engine reports them."""
        return None


class Guiderail(Engine):
    name = package = "guiderail"

    def __init__(self, tokenizer: Any, size: int) -> None:
        import guiderail as gr

        self.gr = gr
        self.vocabulary = gr.Vocabulary.from_huggingface(tokenizer)
        _ = self.vocabulary.core  # builds the native trie, which the first compilation would build otherwise
        self.bits = np.zeros((1, (self.vocabulary.size + 31) // 32), np.int32)
        self.warm_up()

    def warm_up(self) -> None:
        """Loads the modules; import time is measured separately."""
        self.compile("")

    def compile(self, pattern: str) -> Any:
        constraint = self.gr.regex(pattern, flags="u")  # the samples have words of many scripts
        return self.gr.compile(constraint, self.vocabulary, cache=False)

    def start(self, guide: Any) -> tuple[Fill, Accept]:
        matcher = guide.matcher()
        return partial(matcher.fill_next_token_bitmask, self.bits, 0), matcher.accept_token

    def memory(self, guide: Any) -> int | None:
        return int(guide.memory_size_bytes())


class LLGuidance(Engine):
    name = package = "llguidance"

    def __init__(self, tokenizer: Any, size: int) -> None:
        import llguidance
        import llguidance.hf
        import llguidance.numpy

        self.llg = llguidance
        self.tokenizer = llguidance.hf.from_tokenizer(tokenizer)
        self.bits = llguidance.numpy.allocate_token_bitmask(1, self.tokenizer.vocab_size)

    def compile(self, pattern: str) -> Any:
        matcher = self.llg.LLMatcher(self.tokenizer, self.llg.grammar_from("regex", pattern))
        if matcher.is_error():
            raise ValueError(matcher.get_error())
        return matcher

    def start(self, guide: Any) -> tuple[Fill, Accept]:
        matcher = guide.deep_copy()
        return partial(self.llg.numpy.fill_next_token_bitmask, matcher, self.bits, 0), matcher.consume_token


class XGrammar(Engine):
    name = package = "xgrammar"
    isolated = True

    def __init__(self, tokenizer: Any, size: int) -> None:
        import xgrammar

        self.xgr = xgrammar
        info = xgrammar.TokenizerInfo.from_huggingface(tokenizer, vocab_size=size)
        self.compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)
        self.tensor = xgrammar.allocate_token_bitmask(1, info.vocab_size)
        self.bits = self.tensor.numpy()

    def compile(self, pattern: str) -> Any:
        return self.compiler.compile_regex(pattern)

    def start(self, guide: Any) -> tuple[Fill, Accept]:
        matcher = self.xgr.GrammarMatcher(guide)
        return partial(matcher.fill_next_token_bitmask, self.tensor, 0), matcher.accept_token

    def memory(self, guide: Any) -> int | None:
        return int(guide.memory_size_bytes)


class OutlinesCore(Engine):
    name = package = "outlines-core"
    isolated = True

    def __init__(self, tokenizer: Any, size: int) -> None:
        import outlines_core
        from transformers.convert_slow_tokenizer import bytes_to_unicode

        self.core = outlines_core
        back = {character: byte for byte, character in bytes_to_unicode().items()}
        special = set(tokenizer.all_special_ids) | set(tokenizer.added_tokens_decoder)
        tokens: dict[bytes, list[int]] = {}
        for text, index in tokenizer.get_vocab().items():
            if index not in special:
                tokens.setdefault(bytes(back[character] for character in text), []).append(index)
        self.vocabulary = outlines_core.Vocabulary(tokenizer.eos_token_id, tokens)
        self.bits = np.zeros((1, (size + 31) // 32), np.int32)

    def compile(self, pattern: str) -> Any:
        return self.core.Index(pattern, self.vocabulary)

    def start(self, guide: Any) -> tuple[Fill, Accept]:
        matcher = self.core.Guide(guide)
        fill = partial(matcher.write_mask_into, self.bits.ctypes.data, self.bits.size, self.bits.itemsize)
        return fill, partial(matcher.advance, return_tokens=False)


ENGINES: dict[str, type[Engine]] = {e.name: e for e in (Guiderail, LLGuidance, XGrammar, OutlinesCore)}


def load_tokenizer(folder: str | None) -> tuple[Any, int]:
    """Loads a Hugging Face tokenizer from a folder, or Llama 3's (128,256 tokens) from the package llama-models."""
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    if folder is None:
        return llama3_tokenizer(), 128_256
    config = Path(folder, "config.json")
    tokenizer = (
        AutoTokenizer.from_pretrained(folder)
        if config.exists()
        else PreTrainedTokenizerFast(tokenizer_file=str(Path(folder, "tokenizer.json")))
    )
    size = json.loads(config.read_text())["vocab_size"] if config.exists() else len(tokenizer)
    return tokenizer, max(size, len(tokenizer))


def llama3_tokenizer() -> Any:
    """Makes Llama 3's tokenizer as a fast tokenizer from the vocabulary in the package llama-models."""
    from importlib.metadata import files

    from transformers import PreTrainedTokenizerFast
    from transformers.convert_slow_tokenizer import TikTokenConverter

    path = next(f for f in files("llama-models") or [] if f.match("llama3/tokenizer.model")).locate()
    special = [*LLAMA3_SPECIAL]
    special += [f"<|reserved_special_token_{i + 2}|>" for i in range(256 - len(special))]
    converter = TikTokenConverter(vocab_file=str(path), pattern=LLAMA3_PATTERN, extra_special_tokens=special)
    return PreTrainedTokenizerFast(
        tokenizer_object=converter.converted(), bos_token="<|begin_of_text|>", eos_token="<|eot_id|>"
    )
