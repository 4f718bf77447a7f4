"""Optional packages: imported, or said to be missing with the command that installs them."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

from guiderail.errors import CompileError, GuiderailError

__all__ = ["install", "package"]


def package(
    module: str, needs: str, *, extra: str = "", get: str = "", error: type[GuiderailError] = CompileError
) -> Any:
    """A module of an optional package.

    Args:
        module: its name.
        needs: what needs the package, for the message: ``"YAML needs PyYAML"``.
        extra: the extra of guiderail that installs the package.
        get: how to get it, if there is no such extra or another way.
        error: the class of the error.

    Raises:
        GuiderailError: ``missing-package``: it cannot be imported.
    """
    try:
        return import_module(module)
    except ImportError as reason:
        raise error(f"{needs} ({reason}): {get or install(extra)}", code="missing-package") from reason


def install(*extras: str) -> str:
    """The command that installs the packages of some extras.

    It does not name guiderail, so it works wherever that came from.

    >>> install("yaml")
    'pip install "pyyaml>=6"'
    """
    from importlib import metadata  # slow to load, and needed only for messages

    try:
        requires = metadata.requires("guiderail") or []
    except metadata.PackageNotFoundError:  # run from its source
        requires = []
    asked = re.compile(rf"""extra\s*==\s*["']({"|".join(map(re.escape, extras))})["']""")
    needed = [one.partition(";")[0].strip() for one in requires if asked.search(one)]
    if not needed:
        return f"pip install '.[{','.join(extras)}]' in a checkout of guiderail"
    return "pip install " + " ".join(f'"{one}"' for one in needed)
