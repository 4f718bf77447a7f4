"""The texts that ``grammar.py`` walks: JSON documents, modules of the standard library, SQL statements."""

from __future__ import annotations

import ast
import io
import json
import random
import re
import sqlite3
import sysconfig
import tokenize
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from schema_data import load

ROOT = Path(__file__).parent.parent.parent
STATEMENTS = ROOT / "tests" / "data" / "grammars" / "sql_statements.sql"
LONGEST = 20_000  # characters of a JSON document


def json_documents(data: Path | None) -> list[str]:
    """Returns 200 documents, longest first: the valid instances in a file of schemas, or random ones."""
    if data is None:
        chance = random.Random(0)
        found = [json.dumps(_value(chance, 0), ensure_ascii=False) for _ in range(2000)]
    else:
        found = [
            json.dumps(test["data"], ensure_ascii=False)
            for entry in load(data).values()
            for test in entry["tests"]
            if test["valid"]
        ]
    found.sort(key=len, reverse=True)
    return [text for text in found if len(text) < LONGEST][:200]


WORDS = ("value", "total", "name", "identifier", "of the", "and", "a", "Zürich", "naïve", "東京", "🙂", "description")


def _value(chance: random.Random, depth: int) -> Any:
    kind = chance.random()
    if kind < (0.6 if depth < 7 else 0) or depth == 0:
        if chance.random() < 0.4:
            return [_value(chance, depth + 1) for _ in range(chance.randint(0, 6))]
        return {_words(chance, 2): _value(chance, depth + 1) for _ in range(chance.randint(0, 8))}
    if kind < 0.8:
        return _words(chance, 9)
    return chance.choice([None, True, False, chance.randint(-9999, 10**9), round(chance.gauss(0, 100), 4), 6.02e23])


def _words(chance: random.Random, most: int) -> str:
    return " ".join(chance.choices(WORDS, k=chance.randint(1, most)))


def flat_json(characters: int) -> str:
    """Returns a document of about this many characters with shallow nesting: a list of records."""
    chance = random.Random(1)
    rows, length = [], 0
    while length < characters:
        row = {"id": len(rows), "name": _words(chance, 3), "tags": [_words(chance, 1) for _ in range(3)], "x": 0.5}
        rows.append(row)
        length += len(json.dumps(row, ensure_ascii=False)) + 2
    return json.dumps(rows, ensure_ascii=False)


def modules(seed: int = 0) -> Iterator[tuple[str, str]]:
    """Returns names and texts of the standard library's modules that ``ast.parse`` accepts, shuffled, without tests."""
    root = Path(sysconfig.get_paths()["stdlib"])
    paths = sorted(p for p in root.rglob("*.py") if not {"site-packages", "test", "tests", "lib2to3"} & {*p.parts})
    random.Random(seed).shuffle(paths)
    for path in paths:
        data = path.read_bytes()
        try:
            text = data.decode(tokenize.detect_encoding(io.BytesIO(data).readline)[0])
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                ast.parse(text)
        except (SyntaxError, ValueError):
            continue
        if text.strip():
            yield path.relative_to(root).as_posix(), text


def statements(folder: Path | None) -> list[str]:
    """Returns SQL statements, shuffled: the tests' corpus, or those in a folder's files that SQLite can parse.

    Their tables and functions need not exist.
    """
    if folder is None:
        return [text.strip() for text in STATEMENTS.read_text(encoding="utf-8").split("\n;;\n") if text.strip()]
    found = []
    database = sqlite3.connect(":memory:")
    for path in sorted(folder.rglob("*.sql")):
        text = path.read_text(encoding="utf-8", errors="replace")
        for part in re.split(r";[ \t]*\n" if ";" in text else r"\n", text):
            statement = re.sub(r"(?m)^\s*(--|#).*$", "", part).strip().rstrip(";")
            try:
                database.execute(f"EXPLAIN {statement}")
            except sqlite3.Error as error:
                if re.search("syntax error|incomplete input|unrecognized token|not an error", str(error)):
                    continue
            if statement:
                found.append(statement)
    random.Random(0).shuffle(found)
    return found
