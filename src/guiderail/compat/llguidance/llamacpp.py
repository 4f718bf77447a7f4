"""``llguidance.llamacpp``: vocabularies of llama-cpp-python."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from guiderail.compat._errors import CompatError, CompatValueError
from guiderail.compat.llguidance._tokenizer import LLTokenizer
from guiderail.support.packages import package

__all__ = ["lltokenizer_from_vocab"]

_LONGEST = 1 << 14  # bytes of a token


def lltokenizer_from_vocab(
    vocab: Any,
    n_vocab: int | None = None,
    eos_token: int | Sequence[int] | None = None,
    slices: Sequence[str] | None = None,
) -> LLTokenizer:
    """Makes an LLTokenizer from a vocabulary of llama-cpp-python. This takes a moment, so keep the result.

    Args:
        vocab: a ``llama_vocab_p``. Its model must live as long as the result.
        n_vocab: the width of the model's logits, if it is more than the number of tokens.
        eos_token: the stop tokens; None: the vocabulary's.
        slices: as for :class:`LLTokenizer`.

    Raises:
        CompatError: ``missing-package``: llama-cpp-python is not installed.
        CompatValueError: a token cannot be read.
    """
    get = "pip install llama-cpp-python, or pass a GGUF file: LLTokenizer('x.gguf')"
    llama_cpp = package("llama_cpp", "llguidance.llamacpp needs llama-cpp-python", get=get, error=CompatError)
    if eos_token is None:
        eos_token = llama_cpp.llama_vocab_eos(vocab)
    tokens = [_token(llama_cpp, vocab, i) for i in range(llama_cpp.llama_vocab_n_tokens(vocab))]
    tokens += [b""] * ((n_vocab or 0) - len(tokens))
    address = ctypes.cast(llama_cpp.llama_cpp._lib.llama_tokenize, ctypes.c_void_p).value
    return LLTokenizer.from_llamacpp(
        tokens=tokens, vocab_ptr=vocab, tokenize_fptr=address or 0, eos_token=eos_token, slices=slices
    )


def _token(llama_cpp: Any, vocab: Any, token: int) -> bytes:
    """The bytes of a token, after a byte 0xFF if it is a special one."""
    buffer = ctypes.create_string_buffer(_LONGEST + 1)
    length = llama_cpp.llama_token_to_piece(vocab, token, buffer, _LONGEST, 0, True)
    if not 0 <= length <= _LONGEST:
        raise CompatValueError(f"token {token} has more than {_LONGEST} bytes (llama_token_to_piece: {length})")
    text = buffer.raw[:length]
    kind = llama_cpp.llama_token_get_attr(vocab, token)
    named = kind & llama_cpp.LLAMA_TOKEN_ATTR_USER_DEFINED and text.startswith(b"<") and text.endswith(b">")
    return b"\xff" + text if named or kind & llama_cpp.LLAMA_TOKEN_ATTR_CONTROL else text
