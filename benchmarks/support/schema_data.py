"""Reads schemas with instances, from a file of lines or a folder: the data of ``schemas.py``.

Each document is ``{"id": …, "schema": …, "tests": [{"data": …, "valid": true}, …]}``. A ``.jsonl`` or
``.jsonl.gz`` has one per line. A folder has one per file; a document without an id gets the file's name.
"""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any


def load(path: Path) -> dict[str, dict[str, Any]]:
    """Returns all documents by id, in order of id."""
    if path.is_dir():
        rows = [{"id": file.name, **json.loads(file.read_text(encoding="utf-8"))} for file in path.glob("*.json")]
    else:
        with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as lines:
            rows = [json.loads(line) for line in lines if line.strip()]
    return {row["id"]: row for row in sorted(rows, key=lambda row: row["id"])}


def family(name: str) -> str:
    """Returns the collection of a schema: the part of its id before ``---``, otherwise before the first ``_``."""
    return name.split("---" if "---" in name else "_")[0]


def choose(names: list[str], sample: int, seed: int) -> list[str]:
    """Returns a seeded sample with a share of every family; ``sample`` 0: all documents."""
    if not 0 < sample < len(names):
        return names
    families: dict[str, list[str]] = {}
    for name in names:
        families.setdefault(family(name), []).append(name)
    chance = random.Random(seed)
    chosen: list[str] = []
    for members in (families[key] for key in sorted(families)):
        count = max(1, round(sample * len(members) / len(names)))
        chosen += chance.sample(members, min(count, len(members)))
    return sorted(chosen)
