"""The vocabulary of whatever tokenizer a user has: made once, then cached."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from typing import Any

from guiderail.errors import ArgumentError
from guiderail.support.locks import free_after_fork
from guiderail.vocabulary.vocabulary import Vocabulary

__all__ = ["forget_vocabularies", "vocabulary_of"]

_MOST = 8  # most recently used tokenizers whose vocabularies are kept
_NONE = (type(None), bool, int, float, complex, bytes, bytearray, list, tuple, dict, set, frozenset)
_kept: OrderedDict[tuple[Any, ...], tuple[Any, Vocabulary]] = OrderedDict()
_lock = free_after_fork(threading.Lock())


def vocabulary_of(source: Any) -> Vocabulary:
    """Returns the vocabulary of what a user passes.

    That is a vocabulary, a model of :func:`guiderail.load_model`, a tokenizer of any library with an adapter, or the
    path of one. The vocabularies of the last 8 tokenizers are cached; adding tokens to a tokenizer makes a new one.

    Raises:
        ArgumentError: it is not a tokenizer.
        VocabularyError: it is one, but no adapter can determine the bytes of its tokens.
    """
    if isinstance(source, Vocabulary):
        return source
    if isinstance(source, _NONE):
        raise ArgumentError(f"expected a vocabulary or a tokenizer, not {type(source).__name__}")
    if isinstance(source, type):
        raise ArgumentError(
            f"expected a vocabulary or a tokenizer, not the class {source.__name__}; the constraint comes first, then "
            "the vocabulary"
        )
    own = getattr(source, "vocabulary", None)  # of a model that guiderail runs
    if isinstance(own, Vocabulary):
        return own
    key = _key(source)
    with _lock:
        known = _kept.get(key)
        if known is not None:
            _kept.move_to_end(key)
            return known[1]
    made = _adapted(source)
    with _lock:
        made = _kept.setdefault(key, (source, made))[1]
        _kept.move_to_end(key)
        while len(_kept) > _MOST:
            _kept.popitem(last=False)
    return made


def forget_vocabularies() -> None:
    """Drops what :func:`vocabulary_of` has cached."""
    with _lock:
        _kept.clear()


def _key(source: Any) -> tuple[Any, ...]:
    if isinstance(source, str | os.PathLike):
        path = os.fspath(source)
        try:
            changed = os.stat(path).st_mtime_ns
        except OSError:
            changed = 0
        return path, changed
    size = getattr(source, "get_vocab_size", None)  # tokenizers.Tokenizer
    try:
        return id(source), size() if callable(size) else len(source)
    except TypeError:
        return (id(source),)


def _adapted(source: Any) -> Vocabulary:
    library = type(source).__module__.partition(".")[0]
    path = isinstance(source, str | os.PathLike) and os.fspath(source)
    if library == "llama_cpp" or (isinstance(path, str) and path.lower().endswith(".gguf")):
        return Vocabulary.from_gguf(source)
    if library == "sentencepiece":
        return Vocabulary.from_sentencepiece(source)
    return Vocabulary.from_huggingface(source)
