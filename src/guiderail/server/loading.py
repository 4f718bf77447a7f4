"""Loads what requests may need before the first one comes.

Python holds its interpreter lock while it loads a module, so loading one for a request delays all running texts.
"""

from __future__ import annotations

import importlib
import pkgutil

from guiderail import frontends

__all__ = ["load_front_ends"]


def load_front_ends() -> None:
    """Loads the modules of all front ends, except those whose extra is not installed."""
    for module in pkgutil.walk_packages(frontends.__path__, f"{frontends.__name__}."):
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as error:
            if (error.name or "").startswith("guiderail"):
                raise
