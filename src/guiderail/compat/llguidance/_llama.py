"""llama.cpp's tokenizer, called through a pointer to its function."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from guiderail.compat._errors import CompatValueError

__all__ = ["encoder"]

_TOKENIZE = ctypes.CFUNCTYPE(
    ctypes.c_int32,  # the number of tokens; negative: minus the number that there is no room for
    ctypes.c_void_p,  # the vocabulary
    ctypes.c_char_p,
    ctypes.c_int32,
    ctypes.POINTER(ctypes.c_int32),
    ctypes.c_int32,
    ctypes.c_bool,  # with the tokens that begin and end a text
    ctypes.c_bool,  # names of special tokens are these tokens
)
_OVERFLOW = -(2**31)


def encoder(vocab: int, function: int, size: int) -> Callable[[str], list[int]]:
    """Returns a function from a text to its tokens.

    Args:
        vocab: the address of a ``llama_vocab``. It must live as long as the result.
        function: the address of ``llama_tokenize``.
        size: the number of tokens; others are errors.
    """
    tokenize = _TOKENIZE(function)

    def encode(text: str) -> list[int]:
        data = text.encode()
        room = len(data) + 2
        for _ in range(2):
            found = (ctypes.c_int32 * room)()
            count = tokenize(vocab, data, len(data), found, room, False, False)
            if 0 <= count <= room:
                tokens = found[:count]
                if all(0 <= token < size for token in tokens):
                    return tokens
                raise CompatValueError(f"llama_tokenize returned a token that the vocabulary of {size} does not have")
            if count >= 0 or count == _OVERFLOW:
                break
            room = -count
        raise CompatValueError(f"llama_tokenize failed on a text of {len(data)} bytes (it returned {count})")

    return encode
