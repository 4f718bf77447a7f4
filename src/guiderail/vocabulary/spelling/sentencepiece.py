"""The spelling rules of a SentencePiece model: its pieces with their scores, read from the serialized model."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np

from guiderail.vocabulary.spelling.characters import SPACE, read_characters
from guiderail.vocabulary.spelling.patterns import UnreadablePattern
from guiderail.vocabulary.spelling.rules import SpellingRules, unsupported

__all__ = ["sentencepiece_rules"]

_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED, _BYTE = range(1, 7)
_KINDS = {1: "unigram", 3: "words", 4: "characters"}
_BPE = 2


def sentencepiece_rules(model: bytes) -> SpellingRules:
    """The rules of a serialized model: parts whose texts together are a piece merge with the score of that piece.

    Raises:
        VocabularyError: ``no-spelling``.
    """
    try:
        pieces, trainer, normalizer = _read(model)
    except (IndexError, struct.error, UnicodeDecodeError) as error:
        raise unsupported(f"its SentencePiece model cannot be read ({error})") from error
    kind = int(trainer.get(3, 1))
    if kind != _BPE:
        raise unsupported(f"the SentencePiece model's kind is {_KINDS.get(kind, kind)}, not BPE")
    if normalizer.get(2, b""):
        raise unsupported("the SentencePiece model changes characters before it spells (normalization_rule_name)")
    for number, default, wanted, name in ((4, 1, 0, "remove_extra_whitespaces"), (5, 1, 1, "escape_whitespaces")):
        if int(normalizer.get(number, default)) != wanted:
            raise unsupported(f"the SentencePiece model has {name}={not wanted}")
    if trainer.get(24, 0):
        raise unsupported("the SentencePiece model has treat_whitespace_as_suffix=True")
    if any(kind == _UNUSED for _, _, kind in pieces):
        raise unsupported("the SentencePiece model has unused pieces")
    return _rules(pieces)


def _rules(pieces: list[tuple[str, float, int]]) -> SpellingRules:
    ids = {text: token for token, (text, _, kind) in enumerate(pieces) if kind == _NORMAL}
    apart = {text: token for token, (text, _, kind) in enumerate(pieces) if kind == _USER_DEFINED}
    fallback = {int(text[3:5], 16): token for token, (text, _, kind) in enumerate(pieces) if kind == _BYTE}
    order = {score: rank for rank, score in enumerate(sorted({score for _, score, _ in pieces}, reverse=True))}
    merges: list[tuple[int, int, int, int]] = []
    made: list[str] = []
    for text, token in ids.items():
        if len(text) > 1 and not all(char in ids for char in text):
            raise unsupported(f"its piece {text!r} has a character that is no piece")
        rank = order[pieces[token][1]]
        splits = [(text[:at], text[at:]) for at in range(1, len(text))]
        found = [(ids[left], ids[right], token, rank) for left, right in splits if left in ids and right in ids]
        merges += found
        if found:
            made.append(text)
    try:
        singles, characters = read_characters({**ids, **apart}, fallback, made, added=apart.values())
    except UnreadablePattern as error:
        raise unsupported(f"it has {error}") from error
    separate = tuple(text.replace(SPACE, " ").encode() for text in apart)
    return SpellingRules(np.array(merges, np.uint32).reshape(-1, 4), singles, separate=separate, characters=characters)


# -- protocol buffers --------------------------------------------------------------------------------------------------
def _read(model: bytes) -> tuple[list[tuple[str, float, int]], dict[int, int | bytes], dict[int, int | bytes]]:
    """Text, score and kind of each piece; and the fields of the trainer's and the normalizer's specification."""
    pieces: list[tuple[str, float, int]] = []
    specs: dict[int, dict[int, int | bytes]] = {2: {}, 3: {}}
    for number, value in _fields(model):
        if number == 1 and isinstance(value, bytes):
            piece = dict(_fields(value))
            text, score = piece.get(1, b""), piece.get(2, bytes(4))
            if not isinstance(text, bytes) or not isinstance(score, bytes):
                raise IndexError("a piece without its text")
            pieces.append((text.decode(), struct.unpack("<f", score)[0], int(piece.get(3, _NORMAL))))
        elif number in specs and isinstance(value, bytes):
            specs[number] |= dict(_fields(value))
    return pieces, specs[2], specs[3]


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Number and value of each field; for numbers of fixed size, the bytes."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        value: int | bytes
        match tag & 7:
            case 0:
                value, at = _varint(message, at)
            case 1 | 5 | 2 as wire:
                length = 8 if wire == 1 else 4
                if wire == 2:
                    length, at = _varint(message, at)
                value, at = message[at : at + length], at + length
                if len(value) != length:
                    raise IndexError("it ends within a field")
            case wire:
                raise IndexError(f"a field of the unknown type {wire}")
        yield tag >> 3, value


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
        if shift > 63:
            raise IndexError("a number without an end")
