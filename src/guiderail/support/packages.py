"""Messages for missing optional packages."""

from __future__ import annotations

import re
from importlib import metadata

__all__ = ["install"]


def install(*extras: str) -> str:
    """The command that installs the packages of some extras.

    It does not name guiderail, so it works wherever that came from.

    >>> install("yaml")
    'pip install "pyyaml>=6"'
    """
    try:
        requires = metadata.requires("guiderail") or []
    except metadata.PackageNotFoundError:  # run from its source
        requires = []
    asked = re.compile(rf"""extra\s*==\s*["']({"|".join(map(re.escape, extras))})["']""")
    needed = [one.partition(";")[0].strip() for one in requires if asked.search(one)]
    if not needed:
        return f"pip install '.[{','.join(extras)}]' in a checkout of guiderail"
    return "pip install " + " ".join(f'"{one}"' for one in needed)
