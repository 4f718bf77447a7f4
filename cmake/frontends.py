"""Writes the C sources of front ends that mypyc compiles, for CMakeLists.txt.

    frontends.py FOLDER GROUP FILE…

FILE is a module's source, relative to the current folder, which holds the package. Each becomes one in C, and all of
them one library, GROUP, in which they call each other directly. A warning is an error: where mypyc would treat Python
otherwise than the interpreter does, the source must say what both understand.
"""

import ast
import contextlib
import io
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from mypyc.build import mypycify

PROJECT = Path(__file__).parent.parent / "pyproject.toml"
# Types come from the project's own sources only, so the environment may lack every other package.
OPTIONS = ["--follow-imports=silent", "--ignore-missing-imports", "--no-warn-unused-ignores", "--no-warn-return-any",
           "--allow-subclassing-any", "--allow-untyped-calls", "--allow-untyped-decorators",
           f"--cache-dir={os.devnull}"]  # fmt: skip


MISTAKEN = {"__bool__", "__contains__", "__len__"}


def mistaken(file: str) -> Iterator[str]:
    """Methods of classes that mypyc gets wrong: ``x in y`` asks x if its class has ``__contains__``, and a value that
    may be None counts as true whatever its class says."""
    for kind in ast.walk(ast.parse(Path(file).read_text("utf-8"))):
        for method in kind.body if isinstance(kind, ast.ClassDef) else ():
            if isinstance(method, ast.FunctionDef) and method.name in MISTAKEN:
                yield f"{file}:{method.lineno}: mypyc mistranslates {method.name}; use a method with a plain name"


def main(folder: str, group: str, *files: str) -> None:
    if mistakes := [mistake for file in files for mistake in mistaken(file)]:
        sys.exit("\n".join(mistakes))
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            mypycify(
                [f"--config-file={PROJECT}", *OPTIONS, *files],
                target_dir=folder,
                group_name=group,
                multi_file=True,
                include_runtime_files=True,
            )
    except SystemExit:
        sys.exit(said.getvalue())
    if complaints := [line for line in said.getvalue().splitlines() if ": warning: " in line or ": error: " in line]:
        sys.exit("\n".join(complaints))


if __name__ == "__main__":
    main(*sys.argv[1:])
