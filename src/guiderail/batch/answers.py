"""One file of all rows and their answers, assembled from the parts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

from guiderail.batch import tables
from guiderail.batch.files import write_whole
from guiderail.batch.parts import answers

__all__ = ["write_answers"]

_OURS = {"text": "string", "finish_reason": "string", "prompt_tokens": "int64", "tokens": "int64", "error": "string"}


def write_answers(file: Path, parts: Sequence[Path], sources: Sequence[Path]) -> None:
    """Writes all rows with their answers, in the order of the input.

    The columns are those of the input; ``value.NAME`` for each member of the answers if these are objects, otherwise
    ``value``; then ``text``, ``finish_reason``, ``prompt_tokens``, ``tokens`` and ``error``. A name that the input also
    has gets the prefix ``answer.``. Nested values, and those of several types, are JSON texts.

    Args:
        file: CSV or Parquet by its name; anything else is the concatenated parts.
        parts: the parts that the batch has written.
        sources: the files of the input. From Parquet to Parquet, columns keep their types.
    """
    if not tables.is_table(file):
        write_whole(file, (part.read_bytes() for part in parts))
        return
    import pyarrow

    given, made = tables.Columns(), tables.Columns()
    objects = all(isinstance(row.get("value"), dict | None) for row in _rows(parts))
    for row in _rows(parts):
        given.see(row["input"] or {})
        made.see(_value(row, objects))
    made.kinds |= _OURS
    kept = _kept_schema(file, sources)
    first = given.schema() if kept is None else kept
    fields = [*first, *_renamed(made.schema(), set(first.names))]
    schema = pyarrow.schema(fields)

    def batches() -> Iterator[Any]:
        rows = _rows(parts)
        if kept is None:
            while some := list(islice(rows, tables.BATCH_ROWS)):
                inputs = given.arrays([row["input"] or {} for row in some])
                yield pyarrow.record_batch([*inputs, *made.arrays([_answer(row, objects) for row in some])], schema)
            return
        for batch in chain.from_iterable(map(tables.batches, sources)):
            some = [_answer(row, objects) for row in islice(rows, batch.num_rows)]
            yield pyarrow.record_batch([*batch.columns, *made.arrays(some)], schema)

    tables.write_batches(file, schema, batches())


def _rows(parts: Sequence[Path]) -> Iterator[dict[str, Any]]:
    return chain.from_iterable(map(answers, parts))


def _value(row: Mapping[str, Any], objects: bool) -> dict[str, Any]:
    if not objects:
        return {"value": row["value"]}
    return {f"value.{name}": value for name, value in (row.get("value") or {}).items()}


def _answer(row: Mapping[str, Any], objects: bool) -> dict[str, Any]:
    error = row["error"]
    ours = {name: row.get(name) for name in _OURS}
    return {**_value(row, objects), **ours, "error": error and f"{error['code']}: {error['message']}"}


def _kept_schema(file: Path, sources: Sequence[Path]) -> Any:
    """The columns of the input with their types, if both input and output are Parquet; otherwise None."""
    if not all(map(tables.is_parquet, (file, *sources))):
        return None
    first, *others = map(tables.schema, sources)
    return first.remove_metadata() if all(first.equals(other) for other in others) else None


def _renamed(fields: Any, taken: set[str]) -> Iterator[Any]:
    for field in fields:
        name = field.name
        while name in taken:
            name = f"answer.{name}"
        taken.add(name)
        yield field.with_name(name)
