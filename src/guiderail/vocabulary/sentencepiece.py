"""SentencePiece models: ``▁`` is a space, ``<0x0A>`` a byte, control pieces are special.

The library's ``decode`` drops the first space of a string (the *dummy prefix* that encoding has added). Generated text
continues a prompt, so here the space belongs to the token, even to the first one. If a constraint must not begin with a
space, pieces without ``▁`` match it; one that follows ``Answer:`` usually needs ``" ?"`` in front.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from guiderail.errors import VocabularyError
from guiderail.vocabulary._library import choose_stops, is_path, not_read, require
from guiderail.vocabulary._read import ReadTokenizer
from guiderail.vocabulary._table import TokenTable
from guiderail.vocabulary.spelling import SpellingRules, sentencepiece_rules, unsupported

__all__ = ["from_sentencepiece"]

UNUSED = "the model marks this piece as unused"


def from_sentencepiece(
    processor: Any, *, size: int | None, stop_token_ids: Sequence[int] | int | None, verify: bool
) -> ReadTokenizer:
    name = None
    if is_path(processor):
        path = os.fspath(processor)
        library = require("sentencepiece")
        if not os.path.isfile(path):
            raise VocabularyError(f"{path} does not exist", code="bad-tokenizer-file")
        try:
            processor = library.SentencePieceProcessor(model_file=path)
        except (OSError, RuntimeError) as error:
            raise VocabularyError(
                f"{path} cannot be read as a SentencePiece model: {error}", code="bad-tokenizer-file"
            ) from error
        name = os.path.basename(path)
    if not hasattr(processor, "id_to_piece") or not hasattr(processor, "is_byte"):
        raise not_read(processor, "a SentencePieceProcessor or the path of a SentencePiece model")
    count = processor.get_piece_size()
    ids = list(range(count))
    try:
        pieces: list[str] = processor.id_to_piece(ids)
        tokens: list[bytes | None] = [piece.replace("▁", " ").encode() for piece in pieces]
        for token in _where(processor.is_byte(ids)):
            tokens[token] = bytes([int(pieces[token][3:5], 16)])
    except ValueError as error:  # not UTF-8 (UnicodeDecodeError is one), or not a byte
        raise VocabularyError(
            f"a piece of the SentencePiece model is malformed: {error}", code="bad-tokenizer-file"
        ) from error
    control = {*_where(processor.is_control(ids)), *_where(processor.is_unknown(ids))}
    special = {pieces[token]: token for token in sorted(control)}
    for text, token in special.items():
        tokens[token] = text.encode()
    unused = [token for token in _where(processor.is_unused(ids)) if token not in control]
    for token in unused:
        tokens[token] = b""
    table = TokenTable.from_tokens(tokens)
    table.unplaced |= dict.fromkeys(unused, UNUSED)
    declared = [token if (token := processor.eos_id()) >= 0 else None]
    bos = processor.bos_id()
    return ReadTokenizer(
        table,
        special,
        choose_stops(stop_token_ids, declared, special, {piece: i for i, piece in enumerate(pieces)}),
        size=size,
        encode=SentencePieceEncoder(processor),
        bos_token_id=bos if bos >= 0 else None,
        name=name,
        oracle=SentencePieceDecoder(processor),
        verify=verify,
    )


def _where(flags: Sequence[bool]) -> list[int]:
    return [token for token, flag in enumerate(flags) if flag]


class SentencePieceEncoder:
    """``SentencePieceProcessor`` → ids of a string."""

    def __init__(self, processor: Any) -> None:
        self.processor = processor

    def __call__(self, text: str) -> list[int]:
        return list(self.processor.encode(text))

    def spelling_rules(self) -> SpellingRules:
        serialized = getattr(self.processor, "serialized_model_proto", None)
        if serialized is None:
            raise unsupported("this version of sentencepiece does not show its model")
        return sentencepiece_rules(serialized())


class SentencePieceDecoder:
    """``SentencePieceProcessor`` → strings of lists of ids."""

    def __init__(self, processor: Any) -> None:
        self.processor = processor

    def __call__(self, batch: list[list[int]]) -> list[str]:
        return list(self.processor.decode(batch))
