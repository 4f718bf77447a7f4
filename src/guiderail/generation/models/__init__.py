"""Models that guiderail can run, and :func:`load_model`, which makes one of what you have.

| you have | you get |
| --- | --- |
| nothing | :class:`EmbeddedModel`: SmolLM2-135M-Instruct from the ``demo`` extra |
| the path of a GGUF file | :class:`GGUFModel`: llama.cpp on the CPU |
| a folder or hub name of a transformers model | :class:`TransformersModel` |
| a transformers model, or ``(model, tokenizer)`` | :class:`TransformersModel` |
| a ``llama_cpp.Llama`` | :class:`LlamaCppModel` |
| a :class:`Model` of your own | itself |
"""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import Any

from guiderail.errors import ModelError
from guiderail.generation.models.base import Logits, Model, Session
from guiderail.generation.models.gguf import EmbeddedModel, GGUFModel
from guiderail.generation.models.llama_cpp_model import LlamaCppModel
from guiderail.generation.models.transformers_model import TransformersModel
from guiderail.support.packages import install

__all__ = [
    "EmbeddedModel",
    "GGUFModel",
    "LlamaCppModel",
    "Logits",
    "Model",
    "Session",
    "TransformersModel",
    "load_model",
]


def load_model(source: Any = None, *, threads: int | None = None) -> Model:
    """Makes a model of what you have; see the table of this module.

    Args:
        source: None for the embedded model, a path (``*.gguf``, or a folder or hub name of a transformers model),
            a transformers model, a pair ``(model, tokenizer)``, a ``llama_cpp.Llama``, or a model already.
        threads: threads for models run by llama.cpp (GGUF files: the idle cores by default; the embedded one: 1).

    Raises:
        ModelError: it is none of these, it cannot be read, or a package is missing; the message says what to install.
    """
    if threads is not None and not (source is None or _is_gguf(source)):
        raise ModelError("only GGUF models and the embedded model take threads; leave it out", code="bad-option")
    if source is None:
        return EmbeddedModel(threads=threads)
    if isinstance(source, str | os.PathLike):
        if _is_gguf(source):
            return GGUFModel(source, threads=threads)
        return _from_pretrained(os.fspath(source))
    if isinstance(source, tuple) and len(source) == 2:
        return TransformersModel(*source)
    root = type(source).__module__.partition(".")[0]
    if root == "llama_cpp":
        return LlamaCppModel(source)
    if all(callable(getattr(type(source), method, None)) for method in ("encode", "new_session", "close")):
        model: Model = source  # by its methods: looking at the properties would load the vocabulary
        return model
    if any(kind.__module__.startswith("transformers.") for kind in type(source).__mro__):
        return TransformersModel(source)
    raise ModelError(
        f"cannot make a model of {type(source).__name__}; pass None (the embedded model), the path of a "
        f"GGUF file, "
        "a transformers model or (model, tokenizer), or a llama_cpp.Llama",
        code="bad-model",
    )


@lru_cache(maxsize=1)
def default_model() -> Model:
    """The embedded model, loaded once a process."""
    return EmbeddedModel()


def _is_gguf(source: Any) -> bool:
    return isinstance(source, str | os.PathLike) and Path(os.fspath(source)).suffix.lower() == ".gguf"


def _from_pretrained(place: str) -> Model:
    if "/" not in place and not Path(place).exists():
        raise ModelError(
            f"there is no model {place!r}: pass the path of a GGUF file, or the folder or hub name "
            f"(owner/name) of "
            "a transformers model",
            code="missing-file",
        )
    try:
        from transformers import AutoModelForCausalLM, AutoTokenizer
    except ImportError as error:
        raise ModelError(
            f"{place!r} is not a GGUF file; for transformers models: {install('transformers', 'torch')}",
            code="missing-package",
        ) from error
    try:
        tokenizer = AutoTokenizer.from_pretrained(place)
        return TransformersModel(AutoModelForCausalLM.from_pretrained(place), tokenizer)
    except (OSError, ValueError) as error:
        raise ModelError(f"transformers cannot load {place!r}: {error}", code="bad-model") from error
