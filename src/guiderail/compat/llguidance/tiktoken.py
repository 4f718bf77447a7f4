"""``llguidance.tiktoken``: encodings of tiktoken."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from guiderail.compat._errors import CompatTypeError
from guiderail.compat.llguidance._tokenizer import LLTokenizer
from guiderail.support.texts import shown

__all__ = ["lltokenizer_from_encoding"]


def lltokenizer_from_encoding(
    encoding: Any,
    *,
    n_vocab: int | None = None,
    eos_token: int | Sequence[int] | None = None,
    slices: Sequence[str] | None = None,
) -> LLTokenizer:
    """Makes an LLTokenizer from a tiktoken encoding. Arguments as for it; by default ``eos_token`` is ``eot_token``.

    Raises:
        ValueError: the encoding cannot be read.
    """
    if not hasattr(encoding, "eot_token"):
        raise CompatTypeError(f"encoding must be an encoding of tiktoken, not {shown(encoding)}")
    return LLTokenizer(encoding, n_vocab, encoding.eot_token if eos_token is None else eos_token, slices)
