"""The contents of a tokenizer, from which a `Vocabulary` is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from guiderail.vocabulary._check import DecodeBatch
from guiderail.vocabulary._table import TokenTable

__all__ = ["ReadTokenizer"]


@dataclass(frozen=True, slots=True)
class ReadTokenizer:
    """A tokenizer, read by its adapter.

    Attributes:
        table: the bytes of the tokens.
        special_tokens: a mapping from text to id, or just ids.
        stop_token_ids: the tokens that end the text.
        size: the width of the logits; None: the number of tokens.
        encode: encodes a string as the tokenizer does.
        bos_token_id: the beginning-of-text token.
        name: the name of the tokenizer.
        oracle: the tokenizer's own ``decode``, with which the table is checked.
        verify: whether every token is checked; otherwise a sample.
    """

    table: TokenTable
    special_tokens: Mapping[str, int] | Sequence[int]
    stop_token_ids: Sequence[int] | int
    size: int | None = None
    encode: Callable[[str], Sequence[int]] | None = None
    bos_token_id: int | None = None
    name: str | None = None
    oracle: DecodeBatch | None = None
    verify: bool = False
