"""The Python grammar over the standard library of the running interpreter, byte by byte.

Run ``python tests/python_corpus.py [--seconds N]``: prints how many modules that ``ast.parse`` accepts the grammar
accepts too, and where it stops in the others.
``--update`` writes those to ``tests/data/python_grammar_exceptions.json``.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import sysconfig
import time
import tokenize
import warnings
from collections.abc import Iterator
from pathlib import Path

import guiderail as gr
from guiderail import _core
from guiderail.errors import GuiderailError
from guiderail.frontends.grammar.syntax import Indentation

EXCEPTIONS = Path(__file__).parent / "data" / "python_grammar_exceptions.json"
INDENTATION = Indentation(
    newline="_NEWLINE",
    indent="_INDENT",
    dedent="_DEDENT",
    opening=("LPAR", "LSQB", "LBRACE"),
    closing=("RPAR", "RSQB", "RBRACE"),
    strict_tabs=True,
    final_newline=True,
    initial_newline=True,
)


def python_program(fuel: int = 200_000) -> _core.Program:
    """The grammar of the package, lowered; ``fuel`` bounds each search for a completion."""
    from guiderail.frontends import grammar

    text = (Path(grammar.__file__).parent / "library" / "python.lark").read_text(encoding="utf-8")
    constraint = gr.grammar(text, syntax="lark", indenter=INDENTATION)
    builder = _core.Builder(fuel=fuel)
    return builder.finish(constraint._lower(builder))


def parses(text: str) -> bool:
    """Whether ``ast.parse`` accepts ``text``."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ast.parse(text)
        except (SyntaxError, ValueError):
            return False
    return True


def modules() -> Iterator[tuple[str, str]]:
    """Name and text of every module of the standard library that ``ast.parse`` accepts."""
    root = Path(sysconfig.get_paths()["stdlib"])
    for path in sorted(root.rglob("*.py")):
        if "site-packages" in path.parts:
            continue
        data = path.read_bytes()
        try:
            text = data.decode(tokenize.detect_encoding(io.BytesIO(data).readline)[0])
        except (SyntaxError, UnicodeDecodeError):
            continue
        if parses(text):
            yield path.relative_to(root).as_posix(), text


def refusal(program: _core.Program, text: str) -> str | None:
    """Why ``program`` does not accept ``text``; None if it does."""
    state = program.root
    for number, line in enumerate(text.encode().splitlines(True), 1):
        try:
            state = program.derivative(state, line)
            if not program.is_live(state):
                return f"line {number}: {line.decode(errors='replace').strip()[:80]}"
        except GuiderailError as error:
            return f"line {number}: {error.code}"
    return None if program.is_nullable(state) else "not finished"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=3600, help="stop after so long")
    options.add_argument("--update", action="store_true", help="write what is refused to the file of exceptions")
    given = options.parse_args()
    program, began, count, refused = python_program(), time.monotonic(), 0, {}
    for name, text in modules():
        if time.monotonic() - began > given.seconds:
            break
        count += 1
        if why := refusal(program, text):
            refused[name] = why
            print(name, why)
    print(f"{count - len(refused)} of {count} accepted: {100 * (count - len(refused)) / max(count, 1):.2f} %")
    if given.update:
        EXCEPTIONS.write_text(json.dumps(refused, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
