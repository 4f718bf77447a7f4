"""Mistral's tekken: a JSON file with the bytes of every token, in base64, after a block of special tokens.

Ids are the ranks in the file, moved up by the number of special tokens. Only as many ranks are used as fit into
``default_vocab_size``.
"""

from __future__ import annotations

import binascii
import importlib.util
import os
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from guiderail.errors import VocabularyError
from guiderail.vocabulary._ids import check_last
from guiderail.vocabulary._library import choose_stops, is_path, not_read, read_json, require
from guiderail.vocabulary._read import ReadTokenizer
from guiderail.vocabulary._table import TokenTable
from guiderail.vocabulary.spelling import SpellingRules, ranked_rules, unsupported

__all__ = ["from_tekken"]

# Files older than version 7 do not list their special tokens: these come first, the others are fillers.
_EARLY_SPECIAL_TOKENS = (
    "<unk>",
    "<s>",
    "</s>",
    "[INST]",
    "[/INST]",
    "[AVAILABLE_TOOLS]",
    "[/AVAILABLE_TOOLS]",
    "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]",
    "[TOOL_CALLS]",
    "[IMG]",
    "<pad>",
    "[IMG_BREAK]",
    "[IMG_END]",
    "[PREFIX]",
    "[MIDDLE]",
    "[SUFFIX]",
    "[SYSTEM_PROMPT]",
    "[/SYSTEM_PROMPT]",
    "[TOOL_CONTENT]",
)


def from_tekken(
    tokenizer: Any, *, size: int | None, stop_token_ids: Sequence[int] | int | None, verify: bool
) -> ReadTokenizer:
    if is_path(tokenizer):
        return _from_file(os.fspath(tokenizer), size=size, stop_token_ids=stop_token_ids)
    inner = _innermost(tokenizer)
    if hasattr(inner, "id_to_byte_piece") and hasattr(inner, "num_special_tokens"):
        return _from_tekkenizer(inner, size=size, stop_token_ids=stop_token_ids, verify=verify)
    model = getattr(inner, "_model", None)
    if hasattr(model, "id_to_piece"):
        from guiderail.vocabulary.sentencepiece import from_sentencepiece

        return from_sentencepiece(model, size=size, stop_token_ids=stop_token_ids, verify=verify)
    raise not_read(tokenizer, "a tokenizer of mistral-common or the path of a tekken.json")


def _innermost(tokenizer: Any) -> Any:
    """MistralTokenizer → instruct tokenizer → Tekkenizer."""
    for name in ("instruct_tokenizer", "tokenizer"):
        tokenizer = getattr(tokenizer, name, tokenizer)
    return tokenizer


def _from_file(path: str, *, size: int | None, stop_token_ids: Sequence[int] | int | None) -> ReadTokenizer:
    if os.path.isdir(path):
        path = os.path.join(path, "tekken.json")
    content = read_json(path)
    try:
        config = content["config"]
        special_count = int(config["default_num_special_tokens"])
        total = int(config["default_vocab_size"])
        listed = content.get("special_tokens")
        if listed is None:
            special = {text: rank for rank, text in enumerate(_EARLY_SPECIAL_TOKENS)}
        else:
            special = {str(entry["token_str"]): int(entry["rank"]) for entry in listed}
        entries = content["vocab"][: max(0, total - special_count)]
        decode = binascii.a2b_base64
        spelled = [decode(entry["token_bytes"]) for entry in entries]
        ranks = [entry["rank"] for entry in entries]
    except (KeyError, TypeError, ValueError, binascii.Error) as error:
        raise VocabularyError(f"{path} is not a tekken file: {error!r}", code="bad-tokenizer-file") from error
    if ranks != list(range(len(ranks))):
        raise VocabularyError(f"{path}: the ranks of the tokens are not 0, 1, 2 …", code="bad-tokenizer-file")
    if any(not 0 <= rank < special_count for rank in special.values()) or special_count > total:
        raise VocabularyError(
            f"{path}: a special token lies outside of the {special_count} reserved ids",
            code="bad-tokenizer-file",
        )
    check_last(special_count - 1, len(spelled))
    taken = set(special.values())
    special |= {f"<SPECIAL_{rank}>": rank for rank in range(special_count) if rank not in taken}
    return ReadTokenizer(
        _table(special, special_count, spelled),
        special,
        choose_stops(stop_token_ids, [special.get("</s>")], special),
        size=size,
        encode=_file_encoder(config.get("pattern"), spelled, special_count),
        bos_token_id=special.get("<s>"),
        name=os.path.basename(path),
    )


def _file_encoder(pattern: Any, spelled: list[bytes], special_count: int) -> TekkenFileEncoder | None:
    """An encoder from a file alone, if tiktoken, which runs its byte-pair encoding, is installed."""
    if not isinstance(pattern, str) or importlib.util.find_spec("tiktoken") is None:
        return None
    return TekkenFileEncoder(pattern, spelled, special_count)


def _from_tekkenizer(
    tokenizer: Any, *, size: int | None, stop_token_ids: Sequence[int] | int | None, verify: bool
) -> ReadTokenizer:
    special_count = int(tokenizer.num_special_tokens)
    special = {str(tokenizer.id_to_piece(token)): token for token in range(special_count)}
    # The ranks of the text tokens, through the encoding that mistral-common itself uses if it is installed.
    model = getattr(tokenizer, "_model", None)
    spell = getattr(model, "decode_single_token_bytes", None)
    if spell is None:
        spelled = [tokenizer.id_to_byte_piece(token) for token in range(special_count, tokenizer.n_words)]
    else:
        spelled = [spell(rank) for rank in range(tokenizer.n_words - special_count)]
    return ReadTokenizer(
        _table(special, special_count, spelled),
        special,
        choose_stops(stop_token_ids, [tokenizer.eos_id], special),
        size=size,
        encode=TekkenEncoder(tokenizer),
        bos_token_id=tokenizer.bos_id,
        name="tekken",
        oracle=TekkenDecoder(tokenizer),
        verify=verify,
    )


def _table(special: dict[str, int], special_count: int, spelled: list[bytes]) -> TokenTable:
    texts = {token: text.encode() for text, token in special.items()}
    return TokenTable.from_tokens([*(texts.get(token) for token in range(special_count)), *spelled])


class TekkenFileEncoder:
    """Encodes strings with a tekken file; tiktoken's encoding is built for the first text."""

    def __init__(self, pattern: str, spelled: list[bytes], special_count: int) -> None:
        self.pattern = pattern
        self.spelled = spelled
        self.special_count = special_count

    @cached_property
    def encoding(self) -> Any:
        ranks = {token: rank for rank, token in enumerate(self.spelled)}
        library = require("tiktoken")
        return library.Encoding("tekken", pat_str=self.pattern, mergeable_ranks=ranks, special_tokens={})

    def __call__(self, text: str) -> list[int]:
        return [rank + self.special_count for rank in self.encoding.encode_ordinary(text)]

    def spelling_rules(self) -> SpellingRules:
        ranks = {token: rank for rank, token in enumerate(self.spelled)}
        return ranked_rules(ranks, self.pattern, first=self.special_count)

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key != "encoding"}


class TekkenEncoder:
    """``Tekkenizer`` → ids of a string."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer

    def __call__(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, bos=False, eos=False))

    def spelling_rules(self) -> SpellingRules:
        model: Any = getattr(self.tokenizer, "_model", None)
        if not hasattr(model, "_mergeable_ranks"):
            raise unsupported("this version of mistral-common does not show its merges")
        return ranked_rules(model._mergeable_ranks, model._pat_str, first=int(self.tokenizer.num_special_tokens))


class TekkenDecoder:
    """``Tekkenizer`` → strings of lists of ids."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer

    def __call__(self, batch: list[list[int]]) -> list[str]:
        return [self.tokenizer.decode(ids) for ids in batch]
