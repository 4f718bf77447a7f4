"""The finished part: the answers of each shard as one file, which exists completely or not at all."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from guiderail.batch.files import write_whole
from guiderail.batch.rows import Shard
from guiderail.batch.values import line_of
from guiderail.errors import CompileError, ModelError
from guiderail.support.numerals import read_json

__all__ = ["Failure", "Totals", "answers", "count", "failures", "kept", "retriable", "to_try", "write_part"]

_MOST_REASONS = 50
_ROWS_NAMED = 5


@dataclass(slots=True)
class Totals:
    """Counts over rows.

    Attributes:
        rows: rows answered, with a valid answer or without.
        failed: rows without one.
        tokens: number of tokens written.
    """

    rows: int = 0
    failed: int = 0
    tokens: int = 0

    def add(self, other: Totals, times: int = 1) -> None:
        """Adds the counts of another; with ``times=-1``, subtracts them."""
        self.rows += times * other.rows
        self.failed += times * other.failed
        self.tokens += times * other.tokens


@dataclass(frozen=True, slots=True)
class Failure:
    """Rows that failed for the same reason.

    Attributes:
        code: the code of the error.
        message: the message of the first of these rows.
        count: the number of rows.
        rows: the first few, by their number in the input, from 0.
    """

    code: str
    message: str
    count: int
    rows: tuple[int, ...]


def answers(file: Path) -> Iterator[dict[str, Any]]:
    """The lines of a part.

    Raises:
        ModelError: ``batch-failed``: it is damaged.
    """
    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            try:
                row = read_json(line.decode())
                _ = row["row"], row["input"], row["tokens"], row["error"] and row["error"]["code"]
            except (ValueError, TypeError, KeyError, RecursionError):
                raise ModelError(
                    f"{file}, line {number}, is not an answer that guiderail wrote; delete the file, and the same call "
                    "answers its rows again",
                    code="batch-failed",
                ) from None
            yield row


def count(file: Path) -> Totals:
    """Counts the rows of a finished part."""
    totals = Totals()
    for row in answers(file):
        totals.add(Totals(1, int(row["error"] is not None), row["tokens"]))
    return totals


def retriable(row: Mapping[str, Any]) -> bool:
    """Whether another try may answer a row: the error does not lie in the row itself."""
    return row["error"] is not None and row["error"]["code"] != "bad-row"


def _changed(row: Mapping[str, Any], now: Mapping[int, Any]) -> bool:
    """Whether the input now has another row than the one that this line answers."""
    return row["row"] not in now or now[row["row"]] != row["input"]


def to_try(file: Path, now: Mapping[int, Any] | None) -> Totals:
    """Returns the rows of a part that are to be tried again.

    Args:
        file: the part.
        now: if the input has changed, its rows by number. Rows that were at fault themselves may have been corrected.

    Raises:
        CompileError: ``batch-differs``: a row that has its answer has changed.
    """
    totals = Totals()
    for row in answers(file):
        mended = now is not None and _changed(row, now)
        if mended and row["error"] is None:
            raise CompileError(
                f"row {row['row']} of the input (counted from 0) has changed since it was answered; only rows that "
                "failed may be corrected. Undo the change, or choose another output",
                code="batch-differs",
            )
        if mended or retriable(row):
            totals.add(Totals(1, 1, row["tokens"]))
    return totals


def kept(file: Path, now: Mapping[int, Any]) -> dict[int, dict[str, Any]]:
    """Returns the lines of a part that are not to be tried again, by the number of their row; none if there is no
    part.

    Args:
        file: the part.
        now: the rows of the input, by number.
    """
    if not file.exists():
        return {}
    return {
        row["row"]: row for row in answers(file) if row["error"] is None or not (retriable(row) or _changed(row, now))
    }


def failures(files: Iterable[Path]) -> tuple[Failure, ...]:
    """The reasons for which rows of these parts failed, the most frequent first."""
    found: dict[tuple[str, str], Failure] = {}
    for row in (row for file in files for row in answers(file) if row["error"] is not None):
        code, message = row["error"]["code"], row["error"]["message"]
        key = code, re.sub(r"\d+", "0", message[:200])
        if len(found) >= _MOST_REASONS and key not in found:
            key = code, ""
        one = found.get(key) or Failure(code, message, 0, ())
        found[key] = replace(one, count=one.count + 1, rows=(*one.rows, row["row"])[:_ROWS_NAMED])
    return tuple(sorted(found.values(), key=lambda one: (-one.count, one.rows)))


def write_part(folder: str, shard: Shard, rows: Sequence[Mapping[str, Any]]) -> None:
    """Writes the answers of a shard, all or none.

    Raises:
        ModelError: ``batch-failed``: their number differs from that of the shard's rows.
    """
    if [row["row"] for row in rows] != list(range(shard.first_row, shard.first_row + shard.rows)):
        raise ModelError(
            f"{shard.path} changed while it was being read (rows {shard.first_row} to {shard.first_row + shard.rows}); "
            "start again with another output",
            code="batch-failed",
        )
    write_whole(Path(folder) / shard.name, map(line_of, rows))
