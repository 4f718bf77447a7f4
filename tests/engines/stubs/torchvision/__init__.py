"""Replaces torchvision, which engines import but text models do not need. Its wheels require another torch."""

from __future__ import annotations

import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

__version__ = "0.28.0"


class Names(type):
    """Classes whose attributes are their own names."""

    def __getattr__(cls, name: str) -> str:
        if name.startswith("__"):
            raise AttributeError(name)
        return f"{cls.__name__}.{name}"


def anything(name: str) -> Any:
    """An attribute of any module below this one."""
    if name.startswith("__"):
        raise AttributeError(name)
    return Names(name, (), {})


class Finder(MetaPathFinder, Loader):
    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        return ModuleSpec(name, self, is_package=True) if name.startswith("torchvision.") else None

    def exec_module(self, module: ModuleType) -> None:
        module.__getattr__ = anything  # type: ignore[method-assign]


sys.meta_path.append(Finder())
