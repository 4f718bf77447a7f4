"""Where the tables of other libraries' tests are. They are no part of the project.

They are read from where they lie: ``$GUIDERAIL_PEERS``, else ``shared/peers`` in a folder around this one.
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
    """Where those of a library are; None: not at hand."""
    given = os.environ.get("GUIDERAIL_PEERS")
    places = [Path(given)] if given else [p / "shared" / "peers" for p in Path(__file__).resolve().parents]
    return next((place / library for place in places if (place / library).is_dir()), None)


def rows(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a file of JSON, compressed."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)
