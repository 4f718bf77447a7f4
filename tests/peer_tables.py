"""Finds the tables of other libraries' tests, which are not part of the project.

They are read from ``$GUIDERAIL_PEERS``, else from ``shared/peers`` in a folder above this one.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

__all__ = ["SKIP", "folder", "rows"]

SKIP = "the tables of other libraries' tests (GUIDERAIL_PEERS or ../shared/peers) are not here"


def folder(library: str) -> Path | None:
    """Returns the folder of a library's tables; None: not available."""
    given = os.environ.get("GUIDERAIL_PEERS")
    places = [Path(given)] if given else [p / "shared" / "peers" for p in Path(__file__).resolve().parents]
    return next((place / library for place in places if (place / library).is_dir()), None)


def rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yields the lines of a compressed JSON Lines file."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)
