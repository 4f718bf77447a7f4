"""Front ends: each turns one kind of description into constraints."""

from importlib import import_module
from types import ModuleType

__all__ = ["grammars", "patterns"]


def __getattr__(name: str) -> ModuleType:
    if name in __all__:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
