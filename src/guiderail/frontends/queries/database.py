"""The tables of a database with their columns, from a dict, from SQLAlchemy or from sqlite3."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from guiderail.errors import CompileError, LimitError
from guiderail.support.texts import shown

__all__ = ["AGGREGATES", "FUNCTIONS", "LONGEST_NAME", "Database"]

LONGEST_NAME = 2_000
"""Characters of a name. A mask follows the rest of a name, some hundred steps for each character."""

_MOST_TABLES = 1_000
_MOST_COLUMNS = 20_000

# name → minimum and maximum number of arguments (None: unlimited)
FUNCTIONS: dict[str, tuple[int, int | None]] = {
    "abs": (1, 1), "coalesce": (2, None), "date": (1, 3), "datetime": (1, 3), "hex": (1, 1), "ifnull": (2, 2),
    "instr": (2, 2), "julianday": (1, 3), "length": (1, 1), "lower": (1, 1), "ltrim": (1, 2), "max": (2, None),
    "min": (2, None), "nullif": (2, 2), "replace": (3, 3), "round": (1, 2), "rtrim": (1, 2), "strftime": (2, 4),
    "substr": (2, 3), "time": (1, 3), "trim": (1, 2), "typeof": (1, 1), "upper": (1, 1),
}  # fmt: skip
AGGREGATES = ("avg", "count", "group_concat", "max", "min", "sum", "total")


def _wrong(message: str) -> CompileError:
    return CompileError(message, code="query-schema")


@dataclass(frozen=True, slots=True)
class Database:
    """The names that a query may use.

    Attributes:
        tables: the names of the columns of each table.
        functions: functions of values, with their minimum and maximum number of arguments.
        aggregates: functions of groups of rows.
    """

    tables: tuple[tuple[str, tuple[str, ...]], ...]
    functions: tuple[tuple[str, int, int | None], ...]
    aggregates: tuple[str, ...]

    @classmethod
    def of(cls, schema: Any, functions: Any = None) -> Database:
        """Reads the user's description of a database.

        Raises:
            CompileError: ``query-schema``: it cannot be read, or contains an invalid name.
            LimitError: ``query-schema-size``: it has too many tables or columns.
        """
        tables = _checked(_tables(schema))
        known, aggregates = _functions(functions)
        return cls(tables, known, aggregates)


def _tables(schema: Any) -> list[tuple[Any, list[Any]]]:
    if isinstance(schema, Mapping):
        return [(table, _columns(table, columns)) for table, columns in schema.items()]
    if isinstance(schema, sqlite3.Connection):
        listed = schema.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')").fetchall()
        names = [name for (name,) in listed if not name.startswith("sqlite_")]
        return [(name, [row[1] for row in schema.execute(f'PRAGMA table_info("{_doubled(name)}")')]) for name in names]
    if hasattr(schema, "get_table_names") and hasattr(schema, "get_columns"):
        return _inspected(schema)
    if isinstance(getattr(schema, "tables", None), Mapping) and hasattr(schema, "sorted_tables"):  # MetaData
        return [(table.name, [column.name for column in table.columns]) for table in schema.tables.values()]
    if type(schema).__module__.partition(".")[0] == "sqlalchemy":  # an engine, a connection or a session
        from sqlalchemy import inspect

        return _inspected(inspect(schema.get_bind() if hasattr(schema, "get_bind") else schema))
    raise _wrong(
        "a database schema must be a dict {table: [columns]}, a SQLAlchemy engine, inspector or MetaData, or a "
        f"sqlite3 connection, not {type(schema).__name__}"
    )


def _doubled(name: str) -> str:
    return name.replace('"', '""')


def _inspected(inspector: Any) -> list[tuple[Any, list[Any]]]:
    """Returns the tables and views of the default schema, from SQLAlchemy's inspector."""
    views = inspector.get_view_names() if hasattr(inspector, "get_view_names") else []
    names = [*inspector.get_table_names(), *views]
    return [(name, [column["name"] for column in inspector.get_columns(name)]) for name in names]


def _columns(table: Any, columns: Any) -> list[Any]:
    """Returns the names in a list, in a mapping from names to types, or in dicts with the key ``name``."""
    if isinstance(columns, str | bytes) or not isinstance(columns, Iterable):
        raise _wrong(f"the columns of {shown(table)} must be a list of names, or a dict of names and types")
    return [c.get("name") if isinstance(c, Mapping) else c for c in columns]


def _checked(tables: list[tuple[Any, list[Any]]]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    if not tables:
        raise _wrong("the schema has no tables; a query reads at least one")
    if len(tables) > _MOST_TABLES or sum(len(columns) for _, columns in tables) > _MOST_COLUMNS:
        raise LimitError(
            f"the schema has more than {_MOST_TABLES:,} tables or {_MOST_COLUMNS:,} columns; pass only those that "
            "queries need",
            code="query-schema-size",
        )
    _distinct([name for name, _ in tables], "tables")
    for name, columns in tables:
        if not columns:
            raise _wrong(f"the table {shown(name)} has no columns; leave it out")
        _distinct(columns, f"columns of the table {shown(name)}")
    return tuple((name, tuple(columns)) for name, columns in tables)


def _distinct(names: list[Any], what: str) -> None:
    seen: dict[str, str] = {}
    for name in names:
        if not isinstance(name, str) or not name or "\0" in name or not name.isprintable():
            raise _wrong(f"{shown(name)} is not a name; the names of {what} must consist of printable characters")
        if len(name) > LONGEST_NAME:
            raise LimitError(
                f"the name {shown(name)} has {len(name):,} characters; names of {what} may have at most "
                f"{LONGEST_NAME:,}",
                code="query-schema-size",
            )
        folded = "".join(c.lower() if c.isascii() else c for c in name)
        if folded in seen:
            raise _wrong(f"{shown(seen[folded])} and {shown(name)} are the same name in SQL; keep one of these {what}")
        seen[folded] = name


def _functions(declared: Any) -> tuple[tuple[tuple[str, int, int | None], ...], tuple[str, ...]]:
    if declared is None:
        return tuple((name, *count) for name, count in FUNCTIONS.items()), AGGREGATES
    try:
        counts = list(declared.items() if isinstance(declared, Mapping) else ((name, None) for name in declared))
    except TypeError:
        counts = None
    if counts is None or isinstance(declared, str | bytes):
        raise _wrong(
            "functions must be a list of names of SQLite functions, or a dict from names to numbers of arguments"
        )
    known: list[tuple[str, int, int | None]] = []
    aggregates: list[str] = []
    for name, count in counts:
        if not isinstance(name, str) or not name.isidentifier() or not name.isascii():
            raise _wrong(f"{shown(name)} is not the name of a function; use ASCII letters, digits and _")
        lower = name.lower()
        if count is None:
            if lower not in FUNCTIONS and lower not in AGGREGATES:
                raise _wrong(
                    f"{shown(name)} is not among the known functions of SQLite ({', '.join(sorted(FUNCTIONS))}; "
                    f"{', '.join(AGGREGATES)}); say how many arguments it takes, as {{{name!r}: 1}} or "
                    f"{{{name!r}: (1, 3)}}"
                )
            if lower in FUNCTIONS:
                known.append((lower, *FUNCTIONS[lower]))
            if lower in AGGREGATES:
                aggregates.append(lower)
            continue
        least, most = count if isinstance(count, tuple | list) and len(count) == 2 else (count, count)
        whole = [n for n in (least, most) if n is not None]
        if any(not isinstance(n, int) or isinstance(n, bool) or not 0 <= n <= 100 for n in whole) or least is None:
            raise _wrong(f"the arguments of {shown(name)} must be a number from 0 to 100, or a pair (fewest, most)")
        if most is not None and most < least:
            raise _wrong(f"{shown(name)} takes at least {least} and at most {most} arguments; swap the two numbers")
        known.append((lower, least, most))
    names = [name for name, _, _ in known]
    if len(set(names)) != len(names):
        raise _wrong("functions lists a name twice (case is ignored); leave one out")
    return tuple(known), tuple(aggregates)
