"""Files that exist completely or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["whole", "write_whole"]


@contextmanager
def whole(file: Path) -> Iterator[Path]:
    """Yields a path to write to; its contents become the file at the end of the block.

    Readers, and this program after a crash, see the whole file or none.
    """
    temporary = file.with_name(f".{file.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        with temporary.open("rb+") as written:
            os.fsync(written.fileno())
        temporary.replace(file)
    finally:
        temporary.unlink(missing_ok=True)


def write_whole(file: Path, data: Iterable[bytes]) -> None:
    """Writes a file, see :func:`whole`."""
    with whole(file) as path, path.open("wb") as out:
        out.writelines(data)
