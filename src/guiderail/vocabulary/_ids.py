"""Checks arguments that are token ids or the width of the logits; names tokens that are given without a string."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

from guiderail.errors import VocabularyError
from guiderail.support.texts import shown
from guiderail.vocabulary._table import TokenTable

__all__ = ["check_last", "is_integer", "logits_width", "name_of", "stop_ids", "token_id"]

_MOST_IDS = 2**22  # four times as many as any tokenizer has: each id takes memory, whether it is a token or not


def is_integer(value: object) -> bool:
    """Whether a value is an integer, of Python, NumPy or torch, and no boolean."""
    try:
        operator.index(value)  # type: ignore[arg-type]
    except TypeError:  # also an array of one number, which has __index__
        return False
    return not isinstance(value, bool)


def token_id(what: str, value: Any) -> int:
    """A token id as a Python integer. It may be beyond the vocabulary.

    Raises:
        VocabularyError: ``bad-token-id``; ``what`` names the argument.
    """
    index = _integer(what, value)
    if not 0 <= index < 2**31 - 64:
        raise VocabularyError(f"{what}: {index} is not a token id; token ids start at 0", code="bad-token-id")
    return index


def _integer(what: str, value: Any) -> int:
    if not is_integer(value):
        raise VocabularyError(f"{what}: a token id must be an integer, not {shown(value)}", code="bad-token-id")
    return operator.index(value)


def check_last(last: int, tokens: int) -> None:
    """Checks the greatest id of a vocabulary with a number of tokens.

    Raises:
        VocabularyError: ``bad-token-id``: most ids would be holes, too many to list.
    """
    if last >= max(tokens, _MOST_IDS):
        raise VocabularyError(f"token id {last} is out of range: there are only {tokens} tokens", code="bad-token-id")


def stop_ids(given: Any) -> tuple[int, ...]:
    """Stop tokens, each once: from one id, or several in a list, a set, an array or a tensor of one dimension.

    They may be out of range.

    Raises:
        VocabularyError: ``bad-token-id``: they are something else.
    """
    try:
        several = (given,) if is_integer(given) else tuple(given)
    except TypeError:
        raise VocabularyError(
            f"stop_token_ids must be a token id or a list of them, not {shown(given)}", code="bad-token-id"
        ) from None
    return tuple(dict.fromkeys(_integer("stop_token_ids", token) for token in several))


def logits_width(size: Any) -> int:
    """The option ``size`` of a vocabulary as a Python integer.

    Raises:
        VocabularyError: ``bad-size``.
    """
    if not is_integer(size) or not 0 < operator.index(size) < 2**31 - 64:
        raise VocabularyError(
            f"size must be the width of the logits, a positive integer, not {shown(size)}", code="bad-size"
        )
    return operator.index(size)


def name_of(table: TokenTable, token: int, taken: Mapping[str, int]) -> str:
    """A string for a special token that was given by its id: its bytes, or ``<token 17>``."""
    text = table.bytes_of(token).decode("utf-8", "replace") if token < table.count else ""
    return text if text and text not in taken else f"<token {token}>"
