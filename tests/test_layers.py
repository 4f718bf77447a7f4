"""The core's folders are layers: an ``#include`` only points down. Python's modules have no import cycles.

``import-linter`` (``make lint``) checks Python's layers, with the contracts in ``pyproject.toml``.
"""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

CORE = Path(__file__).parents[1] / "core"
PACKAGE = Path(__file__).parents[1] / "src" / "guiderail"
BELOW = {
    "base": "",
    "text": "base",
    "expr": "base text",
    "captures": "base text expr",
    "json": "base text expr",
    "lexed": "base text expr",
    "build": "base text expr captures json lexed",
    "vocab": "base text",
    "mask": "base text expr captures json lexed vocab",
    "mask/lexed": "base text expr captures json lexed vocab mask",
    "search": "base text expr captures json lexed vocab mask mask/lexed",
    "run": "base text expr captures json lexed vocab mask mask/lexed search",
    "capi": "base text expr captures json lexed build vocab mask mask/lexed search run",
    "bind": "base text expr captures json lexed build vocab mask mask/lexed search run",
}
SOURCES = sorted(path.relative_to(CORE).as_posix() for path in CORE.rglob("*.[ch]pp"))


def test_every_source_is_in_a_layer() -> None:
    assert {name.rpartition("/")[0] for name in SOURCES} == set(BELOW)


def test_architecture_names_every_source() -> None:
    page = (CORE.parent / "ARCHITECTURE.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(\w+)(?:\.hpp)?`", page))
    for name in SOURCES:
        if not name.startswith("bind/"):  # the page names only some of these
            assert Path(name).stem in named, f"ARCHITECTURE.md does not say what core/{name} is for"


@pytest.mark.parametrize("name", SOURCES)
def test_includes_point_down(name: str) -> None:
    folder = name.rpartition("/")[0]
    includes = re.findall(r'^#include "([^"]+)"', (CORE / name).read_text(encoding="utf-8"), re.MULTILINE)
    assert all((CORE / included).is_file() for included in includes)
    up = {of for i in includes if (of := i.rpartition("/")[0]) != folder and of not in BELOW[folder].split()}
    assert not up, f"{name} includes of {up}, which {folder}/ must not know"


@pytest.mark.skipif(not shutil.which("c++"), reason="needs a C++ compiler")
def test_the_fuzzers_use_what_the_core_has() -> None:
    fuzzers = [str(CORE.parent / "fuzz" / "core" / name) for name in ("play.cpp", "texts.cpp")]
    flags = ["-std=c++20", "-fsyntax-only", "-w", f"-I{CORE}"]
    done = subprocess.run(["c++", *flags, *fuzzers], stderr=subprocess.PIPE, text=True)
    assert done.returncode == 0, done.stderr[:3000]


def test_the_algebra_names_its_own_kinds_only() -> None:
    numbered = (CORE / "base/kind.hpp").read_text(encoding="utf-8")
    own, others = re.split(r"// json/\n", numbered)
    known = set(re.findall(r"^  (\w+),?", own, re.MULTILINE))
    plugged_in = set(re.findall(r"^  (\w+),?", others, re.MULTILINE))
    assert "Concat" in known and {"Members", "Scan", "Elided"} <= plugged_in
    for name in SOURCES:
        if name.startswith("expr/"):
            named = set(re.findall(r"Kind::(\w+)", (CORE / name).read_text(encoding="utf-8")))
            assert not named & plugged_in, f"{name} names {named & plugged_in}, kinds of other layers"


@pytest.mark.parametrize("name", SOURCES)
def test_files_stay_small(name: str) -> None:
    most = 300 if name == "expr/expression.hpp" else 600  # the arena: interning, storage and memos
    assert len((CORE / name).read_text(encoding="utf-8").splitlines()) <= most


PYTHON = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("name", PYTHON)
def test_python_files_stay_small(name: str) -> None:
    assert len((PACKAGE / name).read_text(encoding="utf-8").splitlines()) <= 600


# -- Python ------------------------------------------------------------------------------------------------------------
def module_name(path: Path) -> str:
    parts = ("guiderail", *path.relative_to(PACKAGE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): ast.parse(path.read_text(encoding="utf-8")) for path in sorted(PACKAGE.rglob("*.py"))}


def imports(node: ast.AST, late: bool) -> Iterator[str]:
    """Returns the imported modules of the package, except those for type checkers.

    Args:
        late: include imports inside functions.
    """
    if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
        return
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) and not late:
        return
    if isinstance(node, ast.Import):
        yield from (one.name for one in node.names if one.name in MODULES)
    if isinstance(node, ast.ImportFrom):
        assert not node.level, "imports are absolute"
        for name in (f"{node.module}.{one.name}" for one in node.names):
            yield from [one for one in (name, node.module) if one in MODULES][:1]
    for child in ast.iter_child_nodes(node):
        yield from imports(child, late)


def circles(late: bool) -> list[set[str]]:
    """Groups of several modules that reach each other."""
    below = {name: set(imports(tree, late)) - {name} for name, tree in MODULES.items()}
    reached = {name: set(some) for name, some in below.items()}
    for middle in MODULES:
        for some in reached.values():
            if middle in some:
                some |= reached[middle]
    found = {frozenset(other for other in some if name in reached[other]) for name, some in reached.items()}
    return [set(circle) for circle in found if len(circle) > 1]


@pytest.mark.parametrize("late", [False, True])
def test_modules_import_each_other_in_no_circle(late: bool) -> None:
    assert circles(late) == []


# -- functions ---------------------------------------------------------------------------------------------------------
MOST_LINES, MOST_PARAMETERS = 80, 7
TOO_MANY_PARAMETERS = {
    ("guiderail.matching.kernels.triton_bitmask", "_apply_kernel"),  # a kernel takes only numbers
    ("guiderail.compat.xgrammar.builtin_structural_tag", "get_model_structural_tag"),  # the parameters are XGrammar's
}


def test_functions_are_short_and_take_few_parameters() -> None:
    """Docstrings and keyword-only parameters do not count: calls name the latter, so many of them are readable.

    Commands are functions whose parameters and docstring are their help.
    """
    found = set()
    for module, tree in MODULES.items():
        for node in ast.walk(tree):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or module.startswith("guiderail.cli"):
                continue
            first = node.body[0]
            docstring = (first.end_lineno or 0) - first.lineno + 1 if ast.get_docstring(node) is not None else 0
            given = [one for one in node.args.posonlyargs + node.args.args if one.arg not in ("self", "cls")]
            if (node.end_lineno or 0) - node.lineno + 1 - docstring > MOST_LINES or len(given) > MOST_PARAMETERS:
                found.add((module, node.name))
    assert found == TOO_MANY_PARAMETERS
