"""The round trip: compares the bytes of a token with the tokenizer's own ``decode``.

A token alone is not enough: many tokenizers drop a space at the start of a string, or add one at its end. So each token
is decoded between two copies of an *anchor*, a token that spells one plain letter:

    decode([anchor, token, anchor]) == decode([anchor]) + token + the rest of decode([anchor, anchor])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from guiderail.errors import VocabularyError
from guiderail.vocabulary._table import TokenTable

__all__ = ["DecodeBatch", "Mismatch", "disqualify", "find_mismatches", "in_context"]

DecodeBatch = Callable[[list[list[int]]], Sequence[str | bytes]]

_ANCHORS = (b"a", b"x", b"e", b"A", b"0", b".", b" a", b"a ")


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A token whose bytes and decoded text differ.

    Attributes:
        token: the token id.
        expected: the bytes in the vocabulary.
        decoded: what the tokenizer decodes between anchors, or None if the anchors themselves changed.
    """

    token: int
    expected: bytes
    decoded: str | bytes | None

    def __str__(self) -> str:
        shown = "its neighbours too" if self.decoded is None else repr(self.decoded)
        return f"token {self.token} spells {self.expected!r} but the tokenizer decodes it as {shown}"


def in_context(anchor: int, tokens: Sequence[int], decode: DecodeBatch) -> list[str | bytes | None]:
    """The text that each token adds between two anchors; None if the anchors changed."""
    before, pair = decode([[anchor], [anchor, anchor]])
    after = pair[len(before) :]
    if not _starts(pair, before) or not before.strip() or after.strip() != before.strip():
        return [None] * len(tokens)  # a decoder that drops repetitions, or cleans up even this text
    found: list[str | bytes | None] = []
    for text in decode([[anchor, token, anchor] for token in tokens]):
        whole = len(text) >= len(pair) and _starts(text, before) and _ends(text, after)
        found.append(text[len(before) : len(text) - len(after)] if whole else None)
    return found


def find_anchors(table: TokenTable) -> list[int]:
    """Up to two text tokens that spell one plain letter, of different origin if possible.

    A tokenizer with byte tokens spells ``a`` twice: as a piece, usually the later one, and as a byte, which runs
    together with an adjacent byte token.
    """
    plain = [
        token
        for token in np.flatnonzero((table.lengths() <= 2) & (table.special == 0)).tolist()
        if table.bytes_of(token) in _ANCHORS
    ]
    return list(dict.fromkeys((plain[-1], plain[0]))) if plain else []


def find_mismatches(table: TokenTable, tokens: Sequence[int], decode: DecodeBatch) -> list[Mismatch]:
    """The tokens whose bytes disagree with the tokenizer's ``decode``; none if no anchor is found."""
    mismatches: list[Mismatch] = []
    for anchor in find_anchors(table):
        mismatches = []
        for token, decoded in zip(tokens, in_context(anchor, tokens, decode), strict=True):
            expected = table.bytes_of(token)
            wanted = expected if isinstance(decoded, bytes) else expected.decode("utf-8", "replace")
            if decoded != wanted:
                mismatches.append(Mismatch(token, expected, decoded))
        tokens = [mismatch.token for mismatch in mismatches]
        if not tokens:
            break
    return mismatches


def disqualify(table: TokenTable, special: set[int], oracle: DecodeBatch, verify: bool) -> None:
    """The self-check of an adapter: tokens whose bytes contradict the tokenizer's ``decode`` become unplaced.

    It first compares a sample (with ``verify``, every token). If one token disagrees, it compares all of them.
    """
    open_ids = np.flatnonzero(table.special == 0)
    ids = [i for i in open_ids.tolist() if i not in special and i not in table.unplaced]
    whole = verify or len(ids) <= 2048
    sample = ids if whole else [*ids[:512], *ids[512:-256:97], *ids[-256:]]
    bad = find_mismatches(table, sample, oracle)
    if bad and len(sample) < len(ids):
        bad = find_mismatches(table, ids, oracle)
    if len(bad) * 2 > len(ids):
        raise VocabularyError(
            f"{len(bad)} of {len(ids)} tokens decode to something other than their bytes, e.g. {bad[0]}; "
            "give the bytes of the tokens yourself: Vocabulary(tokens, ...)",
            code="round-trip",
        )
    for mismatch in bad:
        table.unplaced[mismatch.token] = str(mismatch)


def _starts(text: str | bytes, part: str | bytes) -> bool:
    return text[: len(part)] == part


def _ends(text: str | bytes, part: str | bytes) -> bool:
    return text[len(text) - len(part) :] == part
