"""Optional packages: what to say where one is missing."""

from __future__ import annotations

import re
from importlib import metadata

__all__ = ["install"]


def install(extra: str) -> str:
    """The command that installs what an extra consists of: it works in a checkout, and without one.

    >>> install("yaml")
    'pip install "pyyaml>=6"'
    """
    asked = re.compile(rf"""extra\s*==\s*["']{re.escape(extra)}["']""")
    try:
        requires = metadata.requires("guiderail") or []
    except metadata.PackageNotFoundError:  # run from its source
        requires = []
    needed = [one.partition(";")[0].strip() for one in requires if asked.search(one)]
    if not needed:
        return f"pip install '.[{extra}]' in a checkout of guiderail"
    return "pip install " + " ".join(f'"{one}"' for one in needed)
