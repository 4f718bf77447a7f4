"""The languages' own parsers, with which the tests compare ready-made grammars, and texts with mistakes."""

from __future__ import annotations

import ast
import csv
import io
import json
import random
import re
import sqlite3
import warnings
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

GRAMMARS = Path(__file__).parent / "data" / "grammars"
CASES: dict[str, dict[str, list[str]]] = json.loads((GRAMMARS / "cases.json").read_text(encoding="utf-8"))
STATEMENTS = [
    part.strip("\n") for part in (GRAMMARS / "sql_statements.sql").read_text(encoding="utf-8").split("\n;;\n")
]
REFUSED_STATEMENTS: list[str] = json.loads((GRAMMARS / "sql_refused.json").read_text(encoding="utf-8"))

_C_LEFT_OUT = re.compile(r'("(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\')|/\*.*?\*/|//[^\n]*|\[\s*(?=\*)', re.DOTALL)


def read_json(text: str) -> None:
    def refuse(name: str) -> None:
        raise ValueError(name)

    json.loads(text, parse_constant=refuse)


def read_graphql(text: str) -> None:
    graphql = pytest.importorskip("graphql")
    definitions = graphql.parse(text, no_location=True).definitions
    if not all(isinstance(one, graphql.ExecutableDefinitionNode) for one in definitions):
        raise ValueError("a definition of a type")


def read_c(text: str) -> None:
    parser = pytest.importorskip("pycparser.c_parser").CParser()
    # Comments are blanks; after `[` in a declarator, pycparser takes `*` for an open size.
    bare = _C_LEFT_OUT.sub(lambda found: found[1] or ("[+" if found[0][0] == "[" else " "), text.replace("\r\n", "\n"))
    tree = parser.parse(bare)
    if not tree.ext:
        raise ValueError("nothing in it")


def read_csv(text: str) -> None:
    rows = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    quoted = re.compile(r'(?:[^",\r\n]*|"(?:[^"]|"")*")(?:(?:,|\r?\n)(?:[^",\r\n]*|"(?:[^"]|"")*"))*')
    if not quoted.fullmatch(text):
        raise ValueError(f"a quote within {rows}")


def read_table(text: str) -> None:
    lines = re.split(r"\r?\n", re.sub(r"\r?\n\Z", "", text))
    rows = [re.findall(r"(?:\\.|[^\\|])+(?=\|)", line) for line in lines]
    whole = all(re.fullmatch(r"\|(?:(?:\\.|[^\\|])+\|)+", line) for line in lines)
    if not whole or len(rows) < 2 or len({len(row) for row in rows}) > 1:
        raise ValueError("rows of unequal length")
    if not all(re.fullmatch(" *:?-+:? *", cell) for cell in rows[1]):
        raise ValueError("no delimiters")


READERS: dict[str, Callable[[str], Any]] = {
    "json": read_json,
    "arithmetic": lambda text: ast.parse(text.strip(" \t"), mode="eval"),
    "csv": read_csv,
    "xml": lambda text: ElementTree.fromstring(text.encode()),
    "graphql": read_graphql,
    "c": read_c,
    "regex": re.compile,
    "markdown_table": read_table,
    "python": ast.parse,
}


def takes(name: str, text: str) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            READERS[name](text)
        except pytest.skip.Exception:
            raise
        except Exception:  # each parser has its own errors
            return False
    return True


def prepares(statement: str, tables: str = "") -> str:
    """The error of SQLite when it prepares a statement; empty if there is none, or only unknown names."""
    database = sqlite3.connect(":memory:")
    database.executescript(tables)
    try:
        database.execute(f"EXPLAIN {statement}")
    except sqlite3.ProgrammingError as error:
        return "" if "Incorrect number of bindings" in str(error) else str(error)
    except sqlite3.Error as error:
        return "" if str(error).startswith(("no such", "unknown")) else str(error)
    return ""


def mutants(text: str, rng: random.Random, others: str) -> Iterator[str]:
    """Returns texts with one mistake: a character removed, added, replaced or swapped, a piece twice, no end."""
    at, to = sorted(rng.randrange(len(text) + 1) for _ in range(2))
    yield text[:at] + text[at + 1 :]
    yield text[:at] + rng.choice(others) + text[at:]
    yield text[:at] + rng.choice(others) + text[at + 1 :]
    yield text[:at] + text[at + 1 : at + 2] + text[at : at + 1] + text[at + 2 :]
    yield text[:at] + text[at : at + 6] + text[at:]
    yield text[:at] + text[to:]
    yield text[:at]
