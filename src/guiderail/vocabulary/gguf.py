"""GGUF: the tokens, their types and the end tokens are in the metadata of the model file.

The bytes of a token are decided as in llama.cpp's ``token_to_piece``. A *normal* token is decoded by the alphabet of
its kind (GPT-2's bytes, or ``▁`` for a space). A *byte* token is that byte, and a *user-defined* one is its text.
*Control* and *unknown* tokens are special, and *unused* ones are empty.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from guiderail.errors import VocabularyError
from guiderail.vocabulary._gguf_metadata import read_metadata
from guiderail.vocabulary._library import choose_stops, is_path, not_read
from guiderail.vocabulary._read import ReadTokenizer
from guiderail.vocabulary._table import TokenTable, byte_level_table
from guiderail.vocabulary.spelling import GPT2_PATTERN, SpellingRules, merge_rules, unsupported

__all__ = ["from_gguf"]

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
_UNUSED_REASON = "the model marks this token as unused"
_BYTE_REASON = "a byte token whose text is not like <0x0A>"

_BYTE_LEVEL = {"gpt2"}
# SentencePiece BPE, WordPiece (its ## already undone), SentencePiece unigram
_WHITESPACE = {"llama", "bert", "t5"}
_SCALARS = ("model", "bos_token_id", "eos_token_id", "eot_token_id", "eom_token_id")

# How llama.cpp splits texts, by the name in the file. Text between matches is a piece, too.
_LLAMA3 = (
    r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_PATTERNS = {
    "gpt-2": [(GPT2_PATTERN, True)],
    "smollm": [(r"\p{N}", True), (GPT2_PATTERN, True)],
    "llama-bpe": [(_LLAMA3, True)],
    "qwen2": [(_LLAMA3.replace("{1,3}", ""), True)],
}
_WHOLE = {"llama-bpe"}


def from_gguf(model: Any, *, size: int | None, stop_token_ids: Sequence[int] | int | None) -> ReadTokenizer:
    path = model if is_path(model) else getattr(model, "model_path", None)
    if path is None or not is_path(path):
        raise not_read(model, "the path of a GGUF file or a llama_cpp.Llama")
    path = os.fspath(path)
    prefix = "tokenizer.ggml."
    wanted = {prefix + key for key in (*_SCALARS, "tokens", "token_type")}
    metadata = {
        key.removeprefix(prefix): value
        for key, value in read_metadata(path, lambda key: key in wanted or key.endswith(".vocab_size")).items()
    }
    tokens = metadata.get("tokens")
    kind = metadata.get("model")
    if not isinstance(tokens, list) or not isinstance(kind, str):
        raise VocabularyError(
            f"{path} has no tokenizer; a split model keeps it in its first part", code="bad-tokenizer-file"
        )
    if kind not in _BYTE_LEVEL | _WHITESPACE:
        raise VocabularyError(
            f"{path} has a tokenizer of kind {kind!r}; guiderail reads {sorted(_BYTE_LEVEL | _WHITESPACE)}; "
            "give the bytes of the tokens yourself: Vocabulary(tokens, ...)",
            code="unsupported-tokenizer",
        )
    types: NDArray[Any] = np.asarray(metadata.get("token_type", np.full(len(tokens), NORMAL)))
    if types.shape != (len(tokens),):
        raise VocabularyError(
            f"{path} lists {len(tokens)} tokens but {types.size} token types", code="bad-tokenizer-file"
        )
    special: dict[str, int] = {}
    for i in np.flatnonzero(np.isin(types, (UNKNOWN, CONTROL))).tolist():
        text = tokens[i].decode("utf-8", "replace")
        special[f"<token {i}>" if text in special else text] = i
    others = {tokens[i].decode("utf-8", "replace"): i for i in np.flatnonzero(types == USER_DEFINED).tolist()}
    ends = [metadata.get(f"{name}_token_id") for name in ("eos", "eot", "eom")]
    widths = [value for key, value in metadata.items() if key.endswith(".vocab_size") and isinstance(value, int)]
    bos = metadata.get("bos_token_id")
    return ReadTokenizer(
        _table(kind, tokens, types),
        special,
        choose_stops(stop_token_ids, [i for i in ends if _inside(i, tokens)], special, others),
        size=size if size is not None else max(len(tokens), *widths, 0),
        encode=None if is_path(model) else LlamaEncoder(model),
        bos_token_id=bos if _inside(bos, tokens) else None,
        name=os.path.basename(path),
    )


def _inside(token: int | None, tokens: list[bytes]) -> bool:
    """Whether the token exists: some files write 2**32 - 1 for one that they do not have."""
    return token is not None and 0 <= token < len(tokens)


def _table(kind: str, tokens: list[bytes], types: NDArray[Any]) -> TokenTable:
    if kind in _BYTE_LEVEL:
        table = byte_level_table([token.decode("utf-8", "replace") for token in tokens])
    else:
        space = "▁".encode()
        table = TokenTable.from_tokens([token.replace(space, b" ") for token in tokens])
    changes = {i: tokens[i] for i in np.flatnonzero(np.isin(types, (UNKNOWN, CONTROL, USER_DEFINED))).tolist()}
    unplaced = {}
    for i in np.flatnonzero(types == BYTE).tolist():
        try:
            changes[i] = bytes.fromhex(tokens[i].decode().removeprefix("<0x").removesuffix(">"))
        except ValueError:
            changes[i] = b""
        if len(changes[i]) != 1:
            unplaced[i] = _BYTE_REASON
    for i in np.flatnonzero(types == UNUSED).tolist():
        changes[i] = b""
        unplaced[i] = _UNUSED_REASON
    table = table.replace(changes)
    table.unplaced |= unplaced
    return table


class LlamaEncoder:
    """``llama_cpp.Llama`` → ids of a string; special tokens in it are read as text."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def __call__(self, text: str) -> list[int]:
        return list(self.model.tokenize(text.encode(), add_bos=False, special=False))

    def spelling_rules(self) -> SpellingRules:
        wanted = {f"tokenizer.ggml.{key}" for key in ("model", "tokens", "token_type", "merges", "pre")}
        metadata = read_metadata(self.model.model_path, wanted.__contains__)
        kind, pre = (_text(metadata.get(f"tokenizer.ggml.{key}")) for key in ("model", "pre"))
        if kind not in _BYTE_LEVEL:
            raise unsupported(f"the model's tokenizer is of kind {kind!r}")
        if pre not in _PATTERNS:
            raise unsupported(f"guiderail does not know the model's pre-tokenizer, {pre!r}")
        tokens = [token.decode("utf-8", "replace") for token in metadata["tokenizer.ggml.tokens"]]
        merges = [merge.decode("utf-8", "replace") for merge in metadata["tokenizer.ggml.merges"]]
        types = metadata.get("tokenizer.ggml.token_type", [NORMAL] * len(tokens))
        ids = {text: i for i, (text, kind) in enumerate(zip(tokens, types, strict=True)) if kind == NORMAL}
        rules = merge_rules(ids, merges, _PATTERNS[pre], whole=pre in _WHOLE)
        apart = [text.encode() for text, kind in zip(tokens, types, strict=True) if kind == USER_DEFINED]
        return dataclasses.replace(rules, separate=tuple(apart))


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
