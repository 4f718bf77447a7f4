"""The rows of a batch: files in, shards of rows out."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from guiderail.batch import tables
from guiderail.batch.values import read_row
from guiderail.errors import ModelError
from guiderail.support.files import reason
from guiderail.support.suggestions import resembling

__all__ = ["LINES", "Input", "Shard", "as_lines", "check_names", "input_files", "read_shard"]

LINES = (".jsonl", ".ndjson")
_SHOWN = 30  # columns that an error lists


@dataclass(frozen=True, slots=True)
class Shard:
    """Some rows of one file that are answered and written together.

    Attributes:
        index: of all shards.
        path: of the file.
        start: its first byte.
        end: after its last.
        first_row: of all rows of the input, from 0.
        rows: how many.
    """

    index: int
    path: str
    start: int
    end: int
    first_row: int
    rows: int

    @property
    def name(self) -> str:
        """The name of its file in the output."""
        return f"part-{self.index:06}.jsonl"


@dataclass(frozen=True, slots=True)
class Input:
    """The rows to be answered.

    Attributes:
        shards: all of them, in order.
        rows: of all together.
        sha256: of all bytes.
    """

    shards: tuple[Shard, ...]
    rows: int
    sha256: str

    @classmethod
    def scan(cls, files: Sequence[Path], shard_rows: int) -> Input:
        """Reads through files of JSON Lines, skipping blank lines.

        Raises:
            ModelError: ``missing-file``; ``bad-option``: there is nothing to do.
        """
        digest = hashlib.sha256()
        shards: list[Shard] = []
        total = 0
        for file in files:
            start = end = rows = 0
            for line in _lines(file):
                digest.update(line)
                end += len(line)
                if line.strip():
                    rows += 1
                if rows == shard_rows:
                    shards.append(Shard(len(shards), str(file), start, end, total, rows))
                    total, start, rows = total + rows, end, 0
            if rows:
                shards.append(Shard(len(shards), str(file), start, end, total, rows))
                total += rows
        if not shards:
            raise ModelError("the input has no rows; pass a file with at least one", code="bad-option")
        return cls(tuple(shards), total, digest.hexdigest())


def input_files(source: str | os.PathLike[str]) -> list[Path]:
    """The file that is named, or all files of rows in the folder that is, by name.

    Raises:
        ModelError: ``missing-file``, or ``bad-option``: nothing there is a file of rows.
    """
    path = Path(source).resolve()
    known = (*LINES, *tables.SUFFIXES)
    if path.is_dir():
        files = sorted(
            file for file in path.iterdir() if file.suffix.lower() in known and not file.name.startswith(".")
        )
        if not files:
            raise ModelError(f"the folder {path} has no file of rows ({', '.join(known)})", code="bad-option")
        return files
    if not path.exists():
        raise ModelError(f"the rows cannot be read: {path} does not exist", code="missing-file")
    if path.suffix.lower() not in known:
        raise ModelError(
            f"{path.name} does not look like a file of rows: its name must end with {', '.join(known)}",
            code="bad-option",
        )
    return [path]


def as_lines(files: Sequence[Path], folder: Path) -> list[Path]:
    """The files as JSON Lines; others are converted into the folder."""
    return [
        tables.write_lines(file, folder / f".input-{index:03}.jsonl") if tables.is_table(file) else file
        for index, file in enumerate(files)
    ]


def check_names(names: Sequence[str], files: Sequence[Path]) -> None:
    """Rejects a prompt that names a column that no row has. What only some rows lack is an error of those rows.

    Raises:
        ModelError: ``unknown-column``.
    """
    missing, seen = set(names), dict[str, None]()
    for file in files:
        for columns in [tables.columns(file)] if tables.is_table(file) else _members(file):
            seen.update(dict.fromkeys(columns))
            missing -= seen.keys()
            if not missing:
                return
    if not seen:  # no row, or none that is an object: an error of the input or of each row
        return
    name = next(name for name in names if name in missing)
    close = resembling(name, seen)
    shown = ", ".join(list(seen)[:_SHOWN]) + (f" and {len(seen) - _SHOWN} more" if len(seen) > _SHOWN else "")
    meant = f"did you mean {{{close}}}?" if close else f"name one of them in the prompt, such as {{{next(iter(seen))}}}"
    raise ModelError(
        f"the prompt names {{{name}}}, but no row has it; the columns are {shown}; {meant}", code="unknown-column"
    )


def read_shard(shard: Shard) -> Iterator[tuple[int, Any]]:
    """The rows of a shard with their numbers. A row that is not a JSON object is replaced by the error that says so."""
    with open(shard.path, "rb") as file:
        file.seek(shard.start)
        data = file.read(shard.end - shard.start)
    for number, line in enumerate(filter(bytes.strip, data.split(b"\n")), shard.first_row):
        yield number, _row(line)


def _members(file: Path) -> Iterator[Sequence[str]]:
    for line in _lines(file):
        row = _row(line) if line.strip() else None
        if isinstance(row, dict):
            yield list(row)


def _lines(file: Path) -> Iterator[bytes]:
    try:
        with file.open("rb") as lines:
            yield from lines
    except OSError as error:
        raise ModelError(f"the rows cannot be read: {file}: {reason(error)}", code="missing-file") from None


def _row(line: bytes) -> dict[str, Any] | ModelError:
    try:
        row = read_row(line)
    except ValueError as error:
        return ModelError(f"the row cannot be read as JSON: {error}", code="bad-row")
    if not isinstance(row, dict):
        return ModelError(f"a row must be a JSON object, not {line[:60]!r}", code="bad-row")
    return row
