"""CSV and Parquet, by pyarrow.

The rows of a table are written as JSON Lines first, and everything else reads those: they can be cut anywhere, and
they are what an answer's ``input`` shows. Cells of CSV stay the texts that they are (``007`` is not 7). Dates and
decimals of Parquet become texts, in ISO 8601 and in digits.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, time
from pathlib import Path
from typing import Any

from guiderail.batch.files import whole, write_whole
from guiderail.batch.values import line_of
from guiderail.errors import ModelError
from guiderail.support.numerals import json_text
from guiderail.support.packages import package

__all__ = [
    "BATCH_ROWS", "SUFFIXES", "Columns", "batches", "columns", "is_parquet", "is_table", "need", "schema",
    "write_batches", "write_lines",
]  # fmt: skip

SUFFIXES = (".csv", ".tsv", ".parquet")
BATCH_ROWS = 16_384
_BLOCK = 32 << 20  # bytes of CSV that are read at once; no row may be longer


def is_table(file: Path) -> bool:
    """Whether pyarrow reads and writes a file, by its name."""
    return file.suffix.lower() in SUFFIXES


def is_parquet(file: Path) -> bool:
    """Whether a file is Parquet, by its name."""
    return file.suffix.lower() == ".parquet"


def need(files: Iterable[Path]) -> None:
    """Says so before any work is done if pyarrow is needed and missing.

    Raises:
        ModelError: ``missing-package``.
    """
    for file in filter(is_table, files):
        for module in ("pyarrow.csv", "pyarrow.parquet"):
            needs = f"the file {file.name} needs pyarrow, which JSON Lines do not"
            package(module, needs, extra="tables", error=ModelError)


def schema(file: Path) -> Any:
    """The columns of a table, as pyarrow describes them.

    Raises:
        ModelError: ``bad-input``: the file is not a table, or two columns have the same name; ``missing-file``.
    """
    from pyarrow import parquet

    with _reading(file):
        found = parquet.read_schema(file) if is_parquet(file) else _csv(file).schema
    twice = sorted({name for name in found.names if found.names.count(name) > 1})
    if twice:
        raise ModelError(f"{file.name} has several columns called {twice[0]!r}; rename all but one", code="bad-input")
    return found


def columns(file: Path) -> list[str]:
    """The names of a table's columns; raises as :func:`schema` does."""
    return list(schema(file).names)


def batches(file: Path) -> Iterator[Any]:
    """The rows of a table, some thousands at once; raises as :func:`schema` does."""
    import pyarrow
    from pyarrow import parquet

    names = columns(file)
    with _reading(file):
        if is_parquet(file):
            with parquet.ParquetFile(file) as found:
                yield from found.iter_batches(BATCH_ROWS)
        else:
            yield from _csv(file, column_types=dict.fromkeys(names, pyarrow.string()), strings_can_be_null=False)


def write_lines(file: Path, target: Path) -> Path:
    """Writes the rows of a table as JSON Lines, and returns where; raises as :func:`schema` does."""
    write_whole(target, map(_line, _rows(file)))
    return target


def write_batches(file: Path, schema: Any, found: Iterable[Any]) -> None:
    """Writes record batches of a schema into a table, all or nothing."""
    from pyarrow import csv, parquet

    with whole(file) as path:
        if is_parquet(file):
            writer: Any = parquet.ParquetWriter(path, schema)
        else:
            writer = csv.CSVWriter(path, schema, write_options=csv.WriteOptions(delimiter=_delimiter(file)))
        with writer:
            for batch in found:
                writer.write_batch(batch)


class Columns:
    """Names and types of columns that are found row by row. Nested or mixed values are JSON texts."""

    def __init__(self) -> None:
        self.kinds: dict[str, str | None] = {}

    def see(self, row: Mapping[str, Any]) -> None:
        """Takes the members of a row into account."""
        for name, value in row.items():
            known, kind = self.kinds.get(name), _kind(value)
            if kind is None or known == kind:
                self.kinds.setdefault(name, kind)
            else:
                self.kinds[name] = kind if known is None else _BOTH.get(frozenset((known, kind)), "json")

    def schema(self) -> Any:
        """The columns, as pyarrow describes them."""
        import pyarrow

        kinds = {"json": "string", None: "string", "int53": "int64"}
        return pyarrow.schema(
            [(_utf8(name), pyarrow.type_for_alias(kinds.get(kind, kind))) for name, kind in self.kinds.items()]
        )

    def arrays(self, rows: Sequence[Mapping[str, Any]]) -> list[Any]:
        """The values of some rows, column by column."""
        import pyarrow

        return [
            pyarrow.array([_cell(row.get(name), kind) for row in rows], field.type)
            for (name, kind), field in zip(self.kinds.items(), self.schema(), strict=True)
        ]


_BOTH = {
    frozenset(("int53", "int64")): "int64",
    frozenset(("int53", "float64")): "float64",  # of larger integers, a float loses digits
}


def _kind(value: Any) -> str | None:
    """The type of the column that holds a value exactly; ``int53`` is an integer that a float also holds."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "int53" if abs(value) <= 2**53 else "int64" if -(2**63) <= value < 2**63 else "json"
    if isinstance(value, float):
        return "float64" if math.isfinite(value) else "json"
    return "string" if isinstance(value, str) else "json"


def _cell(value: Any, kind: str | None) -> Any:
    if value is None:
        return None
    if kind == "json" and not isinstance(value, str):
        value = json_text(value)
    return _utf8(value) if isinstance(value, str) else value


def _utf8(text: str) -> str:
    """A text without halves of surrogate pairs, which JSON can spell but UTF-8 cannot."""
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


def _csv(file: Path, **convert: Any) -> Any:
    from pyarrow import csv

    return csv.open_csv(
        file,
        csv.ReadOptions(block_size=_BLOCK),
        csv.ParseOptions(delimiter=_delimiter(file), newlines_in_values=True),
        csv.ConvertOptions(**convert),
    )


def _delimiter(file: Path) -> str:
    return "\t" if file.suffix.lower() == ".tsv" else ","


@contextmanager
def _reading(file: Path) -> Iterator[None]:
    import pyarrow

    try:
        yield
    except (pyarrow.ArrowException, ValueError) as error:
        raise ModelError(f"{file.name} cannot be read as a table: {error}", code="bad-input") from None
    except OSError as error:
        raise ModelError(f"the rows cannot be read: {error}", code="missing-file") from None


def _rows(file: Path) -> Iterator[dict[str, Any]]:
    for batch in batches(file):
        with _reading(file):
            rows = list(zip(*map(_values, batch.columns), strict=True))
        yield from (dict(zip(batch.schema.names, row, strict=True)) for row in rows)


def _values(column: Any) -> list[Any]:
    """A column's values as Python types; as texts if there are nanoseconds, which these types lack."""
    import pyarrow

    if pyarrow.types.is_timestamp(column.type) and column.type.unit == "ns":
        try:
            column = column.cast(pyarrow.timestamp("us", column.type.tz))
        except pyarrow.ArrowInvalid:
            column = column.cast(pyarrow.string())
    return list(column.to_pylist())


def _line(row: Mapping[str, Any]) -> bytes:
    return line_of(_plain(row))


def _plain(value: Any) -> Any:
    """A value of Arrow as a JSON value."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return base64.b64encode(value).decode()
    return str(value)
