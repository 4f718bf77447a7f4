"""The layout of tokens: one buffer of bytes, offsets into it, and flags of tokens that are not text.

    data     b"hello wor..."
    offsets  [0, 5, 5, 9, ...]   token i is data[offsets[i]:offsets[i + 1]]; token 1 is empty
    special  [0, 1, 0, ...]      1: never matched as text (control token, unplaced, empty)

Everything here is vectorized: 128 k tokens take a few milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from guiderail.errors import VocabularyError

__all__ = ["TokenTable", "byte_level_table", "gpt2_characters"]

HOLE = "the tokenizer has no token with this id"
EMPTY = "the token is empty: it would make no progress"
_MAX_BYTES = 2**32 - 1  # offsets are uint32


@dataclass(slots=True)
class TokenTable:
    """Token bytes in one buffer.

    Attributes:
        data: the bytes of all tokens, concatenated.
        offsets: shape (tokens + 1,), uint32; token ``i`` is ``data[offsets[i]:offsets[i + 1]]``.
        special: shape (tokens,), uint8; 1 = never matched as text.
        unplaced: id → reason, for tokens that are neither text nor a special token. They are ``special`` too.
    """

    data: bytes
    offsets: NDArray[np.uint32]
    special: NDArray[np.uint8]
    unplaced: dict[int, str] = field(default_factory=dict)

    @classmethod
    def from_tokens(cls, tokens: Sequence[bytes | None]) -> TokenTable:
        """A table of ``tokens``; ``None`` is a hole in the numbering."""
        try:
            data = b"".join(token or b"" for token in tokens)
            lengths = np.fromiter((len(t) if t is not None else 0 for t in tokens), np.int64, len(tokens))
        except TypeError:
            at, bad = next((i, t) for i, t in enumerate(tokens) if not isinstance(t, bytes | None))
            raise VocabularyError(
                f"token {at} is a {type(bad).__name__}; tokens are bytes (text.encode()) or None for an unused id",
                code="bad-token",
            ) from None
        table = cls.from_lengths(data, lengths)
        table.unplaced = {i: HOLE for i, token in enumerate(tokens) if token is None}
        return table

    @classmethod
    def from_lengths(cls, data: bytes, lengths: NDArray[np.int64]) -> TokenTable:
        """A table of tokens that are concatenated in ``data``, with their lengths in bytes, shape ``(tokens,)``.

        Raises:
            VocabularyError: ``bad-token``: they are 4 GiB or more.
        """
        if len(data) > _MAX_BYTES:
            raise VocabularyError("the tokens together exceed 4 GiB", code="bad-token")
        offsets = np.zeros(len(lengths) + 1, np.uint32)
        np.cumsum(lengths, out=offsets[1:], dtype=np.uint32)
        return cls(data, offsets, np.zeros(len(lengths), np.uint8))

    @property
    def count(self) -> int:
        return len(self.special)

    def bytes_of(self, token: int) -> bytes:
        return self.data[int(self.offsets[token]) : int(self.offsets[token + 1])]

    def lengths(self) -> NDArray[np.int64]:
        """The length of each token in bytes, shape ``(tokens,)``."""
        ends = self.offsets.astype(np.int64)
        return ends[1:] - ends[:-1]

    def replace(self, changes: Mapping[int, bytes]) -> TokenTable:
        """The same table with other bytes for some tokens."""
        if not changes:
            return self
        pieces: list[bytes] = []
        lengths = self.lengths()
        start = 0
        for token in sorted(changes):
            pieces += (self.data[start : int(self.offsets[token])], changes[token])
            start = int(self.offsets[token + 1])
            lengths[token] = len(changes[token])
        pieces.append(self.data[start:])
        table = TokenTable.from_lengths(b"".join(pieces), lengths)
        table.special[:] = self.special
        table.unplaced = dict(self.unplaced)
        return table

    def extend(self, count: int) -> TokenTable:
        """The same table with holes up to ``count`` tokens."""
        more = count - self.count
        if more <= 0:
            return self
        offsets = np.concatenate([self.offsets, np.full(more, self.offsets[-1], np.uint32)])
        special = np.concatenate([self.special, np.zeros(more, np.uint8)])
        unplaced = {**self.unplaced, **{i: HOLE for i in range(self.count, count)}}
        return TokenTable(self.data, offsets, special, unplaced)

    def close(self, special: Iterable[int]) -> None:
        """Marks tokens that are not text: special tokens, unplaced ones, and empty ones (which become unplaced)."""
        for token in special:
            self.special[token] = 1
            self.unplaced.pop(token, None)
        for token in self.unplaced:
            self.special[token] = 1
        for token in np.flatnonzero((np.diff(self.offsets) == 0) & (self.special == 0)).tolist():
            self.special[token] = 1
            self.unplaced[token] = EMPTY
        self.unplaced = dict(sorted(self.unplaced.items()))


@lru_cache(maxsize=1)
def gpt2_characters() -> dict[str, int]:
    """Character → byte of byte-level BPE: printable Latin-1 stands for itself, the rest is U+0100 and following.

    This is the table of GPT-2 (Radford et al. 2019), which every byte-level tokenizer since then uses.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table = {chr(b): b for b in printable}
    for shift, byte in enumerate(b for b in range(256) if b not in set(printable)):
        table[chr(0x100 + shift)] = byte
    return table


@lru_cache(maxsize=1)
def _gpt2_lookup() -> NDArray[np.int16]:
    """Code point → byte, or -1; code points past the table are clipped to its last entry."""
    table = gpt2_characters()
    lookup = np.full(max(map(ord, table)) + 2, -1, np.int16)
    for character, byte in table.items():
        lookup[ord(character)] = byte
    return lookup


def byte_level_table(tokens: Sequence[str | None]) -> TokenTable:
    """The table of tokens spelled in GPT-2's byte alphabet.

    A token with a character outside that alphabet is its own UTF-8, as the libraries decode it.
    """
    texts = [token or "" for token in tokens]
    codes = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), "<u4")
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    lookup = _gpt2_lookup()
    mapped = lookup[np.minimum(codes, len(lookup) - 1)]
    table = TokenTable.from_lengths(mapped.astype(np.uint8).tobytes(), lengths)
    table.unplaced = {i: HOLE for i, token in enumerate(tokens) if token is None} if None in tokens else {}
    strangers = np.unique(np.searchsorted(table.offsets, np.flatnonzero(mapped < 0), "right") - 1)
    return table.replace({i: texts[i].encode("utf-8", "replace") for i in strangers.tolist()})
