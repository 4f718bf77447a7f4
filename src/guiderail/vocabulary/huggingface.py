"""Hugging Face tokenizers: reads the bytes of tokens off the tokenizer's own decoder.

A fast tokenizer decodes by a chain of small steps (replace ``▁`` by a space, turn ``<0x0A>`` into a byte, map the
characters of byte-level BPE to bytes, put a space before what does not begin with ``##`` …). This module applies the
same steps to all tokens at once, as for a token in the middle of a string. It leaves out what a decoder does only at
the very start or end of a string (dropping the leading space). If a step cannot be done token by token, the adapter
asks the library's ``decode`` for every token in context. In both cases the result is then compared with ``decode``.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from guiderail.errors import VocabularyError
from guiderail.vocabulary._check import in_context
from guiderail.vocabulary._ids import check_last
from guiderail.vocabulary._library import choose_stops, is_path, not_read, read_json, require
from guiderail.vocabulary._read import ReadTokenizer
from guiderail.vocabulary._table import HOLE, TokenTable, byte_level_table
from guiderail.vocabulary.spelling import SpellingRules, flat_steps, hugging_face_rules

__all__ = ["from_huggingface"]

_BYTE = re.compile("<0x([0-9a-fA-F]{2})>")
UNKNOWABLE = "its bytes cannot be told from the tokenizer's decode"


def from_huggingface(
    tokenizer: Any, *, size: int | None, stop_token_ids: Sequence[int] | int | None, verify: bool
) -> ReadTokenizer:
    folder: str | None = None
    source = tokenizer
    if is_path(tokenizer):
        backend, folder, source = _read_path(os.fspath(tokenizer))
    elif type(tokenizer).__module__.split(".")[0] == "tokenizers" and hasattr(tokenizer, "decode_batch"):
        backend, source = tokenizer, None
    else:
        source = _unwrap(tokenizer)
        backend = getattr(source, "backend_tokenizer", None)
        folder = _folder_of(source)
        if backend is None or not hasattr(backend, "decode_batch"):
            return _from_slow(source, folder, size=size, stop_token_ids=stop_token_ids, verify=verify)

    added = backend.get_added_tokens_decoder()
    special = {token.content: int(i) for i, token in sorted(added.items()) if token.special}
    declared, bos, every = _declared(source, backend.token_to_id)
    for text in every:
        if text not in special and (token := backend.token_to_id(text)) is not None and text != "":
            special[text] = int(token)
    spellings = _spellings(backend)
    oracle = FastDecoder(backend)
    table = _table(backend, spellings, oracle)
    # The text of a special token represents it in messages; it is never matched.
    table = table.replace({i: text.encode("utf-8", "replace") for text, i in special.items() if i < table.count})
    for token in special.values():
        table.unplaced.pop(token, None)
    config = _Configuration(folder)
    return ReadTokenizer(
        table,
        special,
        choose_stops(stop_token_ids, [*declared, *config.stops], special, _texts(added)),
        size=size if size is not None else max(config.size, table.count),
        encode=FastEncoder(backend),
        bos_token_id=bos,
        name=_name(source, folder),
        oracle=oracle,
        verify=verify,
    )


class FastEncoder:
    """``tokenizers.Tokenizer`` → ids of a string, without the tokens that begin and end one."""

    def __init__(self, backend: Any) -> None:
        self.backend = backend

    def __call__(self, text: str) -> list[int]:
        return list(self.backend.encode(text, add_special_tokens=False).ids)

    def spelling_rules(self) -> SpellingRules:
        return hugging_face_rules(json.loads(self.backend.to_str()))


class FastDecoder:
    """``tokenizers.Tokenizer`` → strings of lists of ids, special tokens included."""

    def __init__(self, backend: Any) -> None:
        self.backend = backend

    def __call__(self, batch: list[list[int]]) -> list[str]:
        return list(self.backend.decode_batch(batch, skip_special_tokens=False))


class SlowDecoder:
    """A tokenizer written in Python → strings of lists of ids, without any tidying."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer

    def __call__(self, batch: list[list[int]]) -> list[str]:
        decode = self.tokenizer.decode
        return [
            decode(
                ids,
                skip_special_tokens=False,
                clean_up_tokenization_spaces=False,
                spaces_between_special_tokens=False,
            )
            for ids in batch
        ]


class SlowEncoder:
    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer

    def __call__(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False))


# -- where things are ----------------------------------------------------------------------------------------
def _read_path(path: str) -> tuple[Any, str, dict[str, Any]]:
    tokenizers = require("tokenizers")
    file = os.path.join(path, "tokenizer.json") if os.path.isdir(path) else path
    if not os.path.isfile(file):
        raise VocabularyError(
            f"there is no file {file!r}, and nothing is downloaded; pass the path of a tokenizer.json, its folder, or "
            "a loaded tokenizer such as AutoTokenizer.from_pretrained(…)",
            code="bad-tokenizer-file",
        )
    try:
        backend = tokenizers.Tokenizer.from_file(file)
    except Exception as error:  # the library raises plain Exception
        raise VocabularyError(f"{file} cannot be read: {error}", code="bad-tokenizer-file") from error
    folder = os.path.dirname(os.path.abspath(file))
    return backend, folder, read_json(os.path.join(folder, "tokenizer_config.json"), optional=True)


def _unwrap(tokenizer: Any) -> Any:
    """The tokenizer of a processor (text and images), which is an attribute of it."""
    inner = getattr(tokenizer, "tokenizer", None)
    if inner is not None and not hasattr(tokenizer, "get_vocab") and hasattr(inner, "get_vocab"):
        return inner
    return tokenizer


def _folder_of(tokenizer: Any) -> str | None:
    path = getattr(tokenizer, "name_or_path", None)
    return path if isinstance(path, str) and os.path.isdir(path) else None


def _name(source: Any, folder: str | None) -> str | None:
    name = None if isinstance(source, dict) else getattr(source, "name_or_path", None)
    return os.path.basename(os.path.normpath(name or folder or "")) or None if name or folder else None


class _Configuration:
    """Reads ``config.json`` and ``generation_config.json`` next to a tokenizer."""

    def __init__(self, folder: str | None) -> None:
        self.size = 0
        self.stops: list[int] = []
        if folder is None:
            return
        config = read_json(os.path.join(folder, "config.json"), optional=True)
        for part in (config, config.get("text_config")):
            if isinstance(part, dict) and isinstance(part.get("vocab_size"), int):
                self.size = max(self.size, part["vocab_size"])
        ends = read_json(os.path.join(folder, "generation_config.json"), optional=True).get("eos_token_id")
        self.stops = [i for i in (ends if isinstance(ends, list) else [ends]) if isinstance(i, int)]


def _declared(source: Any, token_to_id: Callable[[str], int | None]) -> tuple[list[int | None], int | None, list[str]]:
    """The declared end and beginning of sequence, and the strings of all declared special tokens."""
    if source is None:
        return [], None, []
    if not isinstance(source, dict):
        texts = [text for text in getattr(source, "all_special_tokens", None) or [] if isinstance(text, str)]
        return [getattr(source, "eos_token_id", None)], getattr(source, "bos_token_id", None), texts
    texts = []
    ids: dict[str, int | None] = {}
    for key, value in source.items():
        text = value.get("content") if isinstance(value, dict) else value
        if key.endswith("_token") and isinstance(text, str):
            texts.append(text)
            ids[key] = token_to_id(text)
    return [ids.get("eos_token")], ids.get("bos_token"), texts


def _texts(added: Mapping[int, Any]) -> dict[str, int]:
    return {token.content: int(i) for i, token in sorted(added.items())}


# -- spellings → bytes ---------------------------------------------------------------------------------------
def _spellings(backend: Any) -> list[str | None]:
    """Every token as the tokenizer writes it, in the order of the ids; None for a hole."""
    count = backend.get_vocab_size(with_added_tokens=True)
    spellings: list[str | None] = list(map(backend.id_to_token, range(count)))
    if None not in spellings:
        return spellings  # the count equals the size, so there are no holes
    return _by_id(backend.get_vocab(with_added_tokens=True))


def _by_id(vocabulary: Mapping[str, int]) -> list[str | None]:
    last = max(vocabulary.values(), default=-1)
    check_last(last, len(vocabulary))
    spellings: list[str | None] = [None] * (last + 1)
    for text, token in vocabulary.items():
        spellings[token] = text
    return spellings


def _table(backend: Any, spellings: list[str | None], oracle: FastDecoder) -> TokenTable:
    if not spellings:
        raise VocabularyError("the tokenizer has no tokens", code="empty-vocabulary")
    steps = _steps(backend.decoder)
    table = _interpret(steps, spellings)
    return table if table is not None else _ask(spellings, oracle)


def _steps(decoder: Any) -> list[dict[str, Any]]:
    """The decoder as a flat list of its steps; without a decoder, tokens are joined by spaces."""
    if decoder is None:
        return [{"type": "Join"}]
    return flat_steps(json.loads(decoder.__getstate__()), "decoders")


def _interpret(steps: list[dict[str, Any]], spellings: list[str | None]) -> TokenTable | None:
    """Applies the decoder's steps to all tokens at once; None if a step does not work token by token."""
    texts = [text or "" for text in spellings]
    raw: dict[int, bytes] = {}  # tokens that stand for one byte
    fused = False  # after "Fuse" a step sees the whole text, not a token
    for number, step in enumerate(steps):
        kind = step["type"]
        if kind == "ByteLevel":
            if number + 1 < len(steps) and any(s["type"] != "Fuse" for s in steps[number + 1 :]):
                return None
            table = byte_level_table([None if spellings[i] is None else text for i, text in enumerate(texts)])
            return table.replace(raw)
        if kind == "Replace" and "String" in step["pattern"]:
            old, new = step["pattern"]["String"], step["content"]
            texts = [text.replace(old, new) for text in texts]
        elif kind == "Metaspace":
            texts = [text.replace(step["replacement"], " ") for text in texts]
        elif kind == "ByteFallback":
            for i, text in enumerate(texts):
                if byte := _BYTE.fullmatch(text):
                    raw[i] = bytes.fromhex(byte[1])
        elif kind == "Fuse":
            fused = True
        elif kind == "Strip":
            if not fused:  # else: only at the ends of the whole text
                texts = [_strip(text, step) for text in texts]
        elif kind == "WordPiece":
            texts = [_word_piece(text, step["prefix"], step["cleanup"]) for text in texts]
        elif kind == "BPEDecoder":
            texts = [text.replace(step["suffix"], " ") for text in texts]
        elif kind == "Join":
            texts = [" " + text for text in texts]
        else:
            return None
    encoded = [text.encode("utf-8", "replace") for text in texts]
    lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
    for i, spelling in enumerate(spellings):
        if spelling is None:
            encoded[i], lengths[i] = b"", 0
    table = TokenTable.from_lengths(b"".join(encoded), lengths).replace(raw)
    table.unplaced = {i: HOLE for i, spelling in enumerate(spellings) if spelling is None}
    return table


def _ask(spellings: list[str | None], oracle: FastDecoder) -> TokenTable:
    """The bytes of each token as the library's ``decode`` shows them in context."""
    plain = ("a", "x", "e", "A", "0", "Ġa", "▁a")
    anchor = next((i for i in range(len(spellings) - 1, -1, -1) if spellings[i] in plain), None)
    if anchor is None:
        raise VocabularyError(
            "the tokenizer's decoder works on whole texts, and no plain letter is there to probe its tokens; "
            "give the bytes of the tokens yourself: Vocabulary(tokens, ...)",
            code="unsupported-tokenizer",
        )
    ids = [i for i, text in enumerate(spellings) if text is not None]
    tokens: list[bytes | None] = [None] * len(spellings)
    unknown = []
    for i, text in zip(ids, in_context(anchor, ids, oracle), strict=True):
        if isinstance(text, str) and "\ufffd" not in text:
            tokens[i] = text.encode("utf-8", "replace")
        else:
            unknown.append(i)
            tokens[i] = b""
    table = TokenTable.from_tokens(tokens)
    table.unplaced |= dict.fromkeys(unknown, UNKNOWABLE)
    return table


def _strip(text: str, step: dict[str, Any]) -> str:
    content, start, stop = step["content"], step["start"], step["stop"]
    begin, end = 0, len(text)
    while begin < min(start, end) and text[begin] == content:
        begin += 1
    while end > begin and len(text) - end < stop and text[end - 1] == content:
        end -= 1
    return text[begin:end]


# The library's tidying of English, in its order.
_CLEANUP = (
    (" .", "."),
    (" ?", "?"),
    (" !", "!"),
    (" ,", ","),
    (" ' ", "'"),
    (" n't", "n't"),
    (" 'm", "'m"),
    (" do not", " don't"),
    (" 's", "'s"),
    (" 've", "'ve"),
    (" 're", "'re"),
)


def _word_piece(text: str, prefix: str, cleanup: bool) -> str:
    text = text[len(prefix) :] if text.startswith(prefix) else " " + text
    if cleanup:
        for old, new in _CLEANUP:
            text = text.replace(old, new)
    return text


# -- slow tokenizers -----------------------------------------------------------------------------------------
def _from_slow(
    tokenizer: Any,
    folder: str | None,
    *,
    size: int | None,
    stop_token_ids: Sequence[int] | int | None,
    verify: bool,
) -> ReadTokenizer:
    """Tokenizers written in Python: over SentencePiece, tiktoken, mistral-common, or GPT-2's alphabet."""
    module = type(tokenizer).__module__.split(".")[0]
    inner = getattr(tokenizer, "tokenizer", None)
    inner_module = type(inner).__module__.split(".")[0]
    if "mistral_common" in (module, inner_module):
        chosen = inner if inner_module == "mistral_common" else tokenizer
        from guiderail.vocabulary.tekken import from_tekken

        return from_tekken(chosen, size=size, stop_token_ids=stop_token_ids, verify=verify)
    if "tiktoken" in (module, inner_module):
        chosen = inner if inner_module == "tiktoken" else tokenizer
        from guiderail.vocabulary.tiktoken import from_tiktoken

        return from_tiktoken(chosen, size=size, stop_token_ids=stop_token_ids, verify=verify)
    if not (hasattr(tokenizer, "get_vocab") and hasattr(tokenizer, "all_special_ids")):
        raise not_read(
            tokenizer, "a transformers tokenizer, a tokenizers.Tokenizer or the path of one", "from_huggingface"
        )
    spellings = _by_id(tokenizer.get_vocab())
    if hasattr(tokenizer, "sp_model"):
        steps = [{"type": "Metaspace", "replacement": "▁"}, {"type": "ByteFallback"}]
    elif hasattr(tokenizer, "byte_decoder"):
        steps = [{"type": "ByteLevel"}]
    else:
        raise VocabularyError(
            f"{type(tokenizer).__name__} is written in Python and its tokens have no known byte form; "
            "load the fast one (AutoTokenizer.from_pretrained(..., use_fast=True)), or give the bytes of the "
            "tokens: Vocabulary(tokens, ...)",
            code="slow-tokenizer",
        )
    table = _interpret(steps, spellings)
    assert table is not None, "these steps work token by token"
    # Added tokens are decoded as they are written.
    added = {int(i): token for i, token in getattr(tokenizer, "added_tokens_decoder", {}).items()}
    special = {str(t): int(i) for t, i in zip(tokenizer.all_special_tokens, tokenizer.all_special_ids, strict=False)}
    special |= {token.content: i for i, token in added.items() if token.special}
    literal = {i: token.content for i, token in added.items()} | {i: text for text, i in special.items()}
    table = table.replace({i: t.encode("utf-8", "replace") for i, t in literal.items() if i < table.count})
    config = _Configuration(folder)
    return ReadTokenizer(
        table,
        special,
        choose_stops(stop_token_ids, [tokenizer.eos_token_id, *config.stops], special, _texts(added)),
        size=size if size is not None else max(config.size, table.count),
        encode=SlowEncoder(tokenizer),
        bos_token_id=tokenizer.bos_token_id,
        name=_name(tokenizer, folder),
        oracle=SlowDecoder(tokenizer),
        verify=verify,
    )
