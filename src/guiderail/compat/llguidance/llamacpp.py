"""``llguidance.llamacpp``: vocabularies of llama-cpp-python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from guiderail.compat._errors import CompatError

__all__ = ["lltokenizer_from_vocab"]


def lltokenizer_from_vocab(
    vocab: Any,
    n_vocab: int | None = None,
    eos_token: int | Sequence[int] | None = None,
    slices: Sequence[str] | None = None,
) -> NoReturn:
    """Always raises: a pointer to a vocabulary does not say enough to determine its tokens.

    Raises:
        CompatError: ``compat-unsupported``; the message says what to write instead.
    """
    raise CompatError(
        "guiderail cannot read a vocabulary through a pointer; pass the model or its file: LLTokenizer(llama), "
        "LLTokenizer('x.gguf')",
        code="compat-unsupported",
    )
