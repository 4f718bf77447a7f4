"""Shared by the adapters: optional libraries, files, and the search for stop tokens."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from guiderail.errors import VocabularyError
from guiderail.support.packages import package
from guiderail.vocabulary._ends import end_tokens

__all__ = ["choose_stops", "is_path", "not_read", "read_json", "require"]

_READERS = {
    "transformers": "from_huggingface",
    "tokenizers": "from_huggingface",
    "tiktoken": "from_tiktoken",
    "sentencepiece": "from_sentencepiece",
    "mistral_common": "from_tekken",
    "llama_cpp": "from_gguf",
}
"""The constructor of a vocabulary that reads the objects of a library."""


def require(module: str) -> Any:
    """Imports the library of a tokenizer, whose package has the same name."""
    needs = f"this tokenizer needs the package {module}"
    return package(module, needs, get=f"pip install {module}", error=VocabularyError)


def not_read(tokenizer: object, expected: str, own: str = "") -> VocabularyError:
    """The error about an object that an adapter does not read. It names the constructor that does, if one does.

    Args:
        tokenizer: the object.
        expected: what the adapter reads.
        own: the constructor that the adapter serves.
    """
    libraries = (kind.__module__.partition(".")[0] for kind in type(tokenizer).__mro__)
    reader = next((_READERS[library] for library in libraries if library in _READERS), None)
    if reader is None:
        way = "or pass the bytes of the tokens: gr.Vocabulary(tokens, …)"
    else:
        way = "pass its tokenizer" if reader == own else f"use gr.Vocabulary.{reader}"
    return VocabularyError(f"expected {expected}, not {type(tokenizer).__name__}; {way}", code="unsupported-tokenizer")


def is_path(value: object) -> bool:
    return isinstance(value, str | os.PathLike)


def read_json(path: str, *, optional: bool = False) -> dict[str, Any]:
    """The object in a JSON file; of an ``optional`` file that does not exist, an empty one."""
    try:
        with open(path, encoding="utf-8") as file:
            value = json.load(file)
    except FileNotFoundError as error:
        if optional:
            return {}
        raise VocabularyError(f"{path} does not exist", code="bad-tokenizer-file") from error
    except (OSError, ValueError) as error:
        raise VocabularyError(f"{path} cannot be read as JSON: {error}", code="bad-tokenizer-file") from error
    if not isinstance(value, dict):
        raise VocabularyError(f"{path} does not contain a JSON object", code="bad-tokenizer-file")
    return value


def choose_stops(
    given: Sequence[int] | int | None,
    declared: Iterable[int | None],
    special: Mapping[str, int],
    others: Mapping[str, int] = MappingProxyType({}),
) -> Sequence[int] | int:
    """The stop tokens that the caller passed, otherwise those that the tokenizer declares. Having none is an error."""
    if given is not None:
        return given
    found = end_tokens(declared, special, others)
    if not found:
        raise VocabularyError(
            "the tokenizer declares no stop token; pass stop_token_ids=... ([] if it cannot end)",
            code="no-stop-token",
        )
    return found
