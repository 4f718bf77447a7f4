"""Models that guiderail can run, and :func:`load_model`, which makes one from what you have.

| you have | you get |
| --- | --- |
| nothing | :class:`EmbeddedModel`: SmolLM2-135M-Instruct from the ``demo`` extra |
| the path of a GGUF file | :class:`GGUFModel`: llama.cpp on the CPU |
| the folder or hub name of a transformers model | :class:`TransformersModel` |
| a transformers model, or ``(model, tokenizer)`` | :class:`TransformersModel` |
| a ``llama_cpp.Llama`` | :class:`LlamaCppModel` |
| a :class:`Model` of your own | itself |
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from guiderail.errors import ModelError
from guiderail.generation.models.base import Logits, Model, Session
from guiderail.generation.models.gguf import EmbeddedModel, GGUFModel
from guiderail.generation.models.llama_cpp_model import LlamaCppModel
from guiderail.generation.models.transformers_model import TransformersModel
from guiderail.support.arguments import checked
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


@checked
def load_model(
    source: Any = None,
    *,
    threads: int | None = None,
    context_length: int | None = None,
    gpu_layers: int | None = None,
    device: str | None = None,
) -> Model:
    """Makes a model from what you have.

    Args:
        source: None for the embedded model, the path of a GGUF file, the folder or hub name of a transformers model, a
            transformers model, a pair ``(model, tokenizer)``, a ``llama_cpp.Llama``, or a :class:`Model`, which is
            returned as it is.
        threads: the number of threads, for models run by llama.cpp. By default, GGUF files use all idle cores, and the
            embedded model one.
        context_length: maximum number of tokens of prompt and text together; by default what the model was trained
            with.
        gpu_layers: for models run by llama.cpp, how many layers a GPU computes: 0 by default, -1 for all.
        device: for a transformers model that is loaded by name, the device it runs on: ``"cuda"``, ``"cuda:1"``,
            ``"mps"``, ``"cpu"``, or ``"auto"`` to spread it over several (needs accelerate). A model that you loaded
            stays where it is.

    Raises:
        ModelError: the source is none of these, it cannot be read, or a package is missing; the message says what to
            install. ``bad-option``: an option is out of range, or does not apply to this kind of model.
    """
    by_llama_cpp = source is None or _is_gguf(source)
    named = isinstance(source, str | os.PathLike) and not by_llama_cpp
    pair = isinstance(source, tuple) and len(source) == 2
    for name, value, applies, whose in (
        ("threads", threads, by_llama_cpp, "GGUF models and the embedded model"),
        ("gpu_layers", gpu_layers, by_llama_cpp, "GGUF models and the embedded model; for others see device"),
        ("device", device, named, "transformers models that are loaded by their name; for GGUF models see gpu_layers"),
        ("context_length", context_length, by_llama_cpp or named or pair, "models that are loaded here"),
    ):
        if value is not None and not applies:
            raise ModelError(f"{name} is an option of {whose}; leave it out", code="bad-option")
    if source is None:
        return EmbeddedModel(threads=threads, context_length=context_length, gpu_layers=gpu_layers or 0)
    if isinstance(source, str | os.PathLike):
        if by_llama_cpp:
            return GGUFModel(source, threads=threads, context_length=context_length, gpu_layers=gpu_layers or 0)
        return _from_pretrained(os.fspath(source), device, context_length)
    if pair:
        return TransformersModel(*source, context_length=context_length)
    root = type(source).__module__.partition(".")[0]
    if root == "llama_cpp":
        return LlamaCppModel(source)
    if all(callable(getattr(type(source), method, None)) for method in ("encode", "new_session", "close")):
        model: Model = source  # by its methods: looking at the properties would load the vocabulary
        return model
    if any(kind.__module__.startswith("transformers.") for kind in type(source).__mro__):
        return TransformersModel(source)
    raise ModelError(
        f"cannot make a model from {type(source).__name__}; pass None (the embedded model), the path of a GGUF file, "
        "a transformers model or (model, tokenizer), or a llama_cpp.Llama",
        code="bad-model",
    )


@lru_cache(maxsize=1)
def default_model() -> Model:
    """The embedded model, loaded once per process."""
    return EmbeddedModel()


def model_of(source: Any) -> tuple[Model, bool]:
    """The model of a call, by default the embedded one, and whether it was loaded for this call only."""
    if source is None:
        return default_model(), False
    model = load_model(source)
    return model, model is not source


@contextmanager
def opened(source: Any) -> Iterator[Model]:
    """The model of a call; closed afterwards if it was loaded for this call only."""
    model, owned = model_of(source)
    try:
        yield model
    finally:
        if owned:
            model.close()


def _is_gguf(source: Any) -> bool:
    return isinstance(source, str | os.PathLike) and Path(os.fspath(source)).suffix.lower() == ".gguf"


def _from_pretrained(place: str, device: str | None, context_length: int | None) -> Model:
    if "/" not in place and not Path(place).exists():
        raise ModelError(
            f"there is no model {place!r}: pass the path of a GGUF file, or the folder or hub name (owner/name) of a "
            "transformers model",
            code="missing-file",
        )
    if Path(place).exists() and not (Path(place) / "config.json").is_file():
        lacks = "this folder has no config.json" if Path(place).is_dir() else "this is a file, but not a .gguf file"
        raise ModelError(
            f"there is no model in {place!r}: {lacks}; pass a GGUF file, or the folder of a transformers model",
            code="bad-model",
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
        model = AutoModelForCausalLM.from_pretrained(place, **({"device_map": "auto"} if device == "auto" else {}))
    except (OSError, ValueError, ImportError) as error:
        raise ModelError(f"transformers cannot load {place!r}: {error}", code="bad-model") from error
    if device not in (None, "auto"):
        try:
            model = model.to(device)
        except (RuntimeError, AssertionError, ValueError) as error:  # no such device, or no room on it
            reason = str(error).splitlines()[0]
            raise ModelError(
                f"the model cannot be put on the device {device!r}: {reason}", code="bad-option"
            ) from error
    return TransformersModel(model, tokenizer, context_length=context_length)
