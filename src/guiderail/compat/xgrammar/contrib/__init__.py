"""``xgrammar.contrib``: processors for transformers (``hf``) and mlx-lm (``mlxlm``); loaded when used."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

__all__ = ["hf", "mlxlm"]


def __getattr__(name: str) -> ModuleType:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.{name}")
