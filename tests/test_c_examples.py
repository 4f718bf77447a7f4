"""The examples in C and Rust: built against an installed library in each documented way, and run."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import c_library
import guiderail as gr
from c_library import ROOT
from test_saved import VOCABULARY

SCHEMA = {
    "type": "object",
    "properties": {"title": {"type": "string", "maxLength": 20}, "priority": {"enum": ["low", "high"]}},
    "required": ["title", "priority"],
    "additionalProperties": False,
}


def need(*programs: str) -> None:
    if c_library.folder() is None:
        pytest.skip("libguiderail is not built: make test-c")
    for program in programs:
        if not shutil.which(program):
            pytest.skip(f"no compiler {program} here")


def run(*command: object, **environment: str) -> str:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, env=os.environ | environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def installed() -> Path:
    """The prefix under which ``make lib`` installed header, libraries, the CMake package and the pkg-config file."""
    need()
    where = c_library.folder()
    assert where is not None
    prefix = next((one for one in where.parents if (one / "include" / "guiderail.h").exists()), None)
    if prefix is None or prefix == ROOT:
        pytest.skip("libguiderail is not built: make test-c")
    return prefix


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("files")
    gr.json_schema(SCHEMA).save(folder / "ticket.rail")
    VOCABULARY.save(folder / "model.rail")
    return folder / "ticket.rail", folder / "model.rail"


def check(text: str) -> None:
    value = json.loads(text)
    assert set(value) == {"title", "priority"} and value["priority"] in ("low", "high")
    assert gr.json_schema(SCHEMA).matches(text.rstrip("\n"))


def test_with_cmake(installed: Path, files: tuple[Path, Path], tmp_path: Path) -> None:
    need("cmake", "cc")
    run("cmake", "-S", ROOT / "examples" / "c", "-B", tmp_path, f"-DCMAKE_PREFIX_PATH={installed}")
    run("cmake", "--build", tmp_path)
    check(run(tmp_path / "generate", *files))


def test_with_pkg_config(installed: Path, files: tuple[Path, Path], tmp_path: Path) -> None:
    need("pkg-config", "cc")
    (config,) = installed.rglob("guiderail.pc")
    flags = run("pkg-config", "--cflags", "--libs", "guiderail", PKG_CONFIG_PATH=str(config.parent)).split()
    program = tmp_path / "generate"
    source = ROOT / "examples" / "c" / "generate.c"
    run("cc", "-std=c99", "-Wall", "-Wextra", "-Werror", source, *flags, "-o", program)
    check(run(program, *files, LD_LIBRARY_PATH=str(config.parent.parent)))


def test_errors_of_the_example(installed: Path, files: tuple[Path, Path], tmp_path: Path) -> None:
    need("pkg-config", "cc")
    (config,) = installed.rglob("guiderail.pc")
    flags = run("pkg-config", "--cflags", "--libs", "guiderail", PKG_CONFIG_PATH=str(config.parent)).split()
    program = tmp_path / "generate"
    run("cc", ROOT / "examples" / "c" / "generate.c", *flags, "-o", program)
    environment = os.environ | {"LD_LIBRARY_PATH": str(config.parent.parent)}
    done = subprocess.run([program, files[1], files[1]], capture_output=True, text=True, env=environment)
    assert done.returncode == 1
    assert "holds a vocabulary, not a program" in done.stderr and "[saved-file]" in done.stderr


def test_the_page_in_the_docs(installed: Path, files: tuple[Path, Path], tmp_path: Path) -> None:
    need("pkg-config", "cc")
    page = (ROOT / "docs" / "c.md").read_text(encoding="utf-8")
    (source,) = re.findall(r"^```c\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "page.c").write_text(source, encoding="utf-8")
    static = next(installed.rglob("libguiderail.a"))
    header = next(installed.rglob("guiderail.h")).parent
    command = ["cc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-DGUIDERAIL_STATIC", "-I", header, "page.c", static]
    done = subprocess.run([*command, "-lstdc++", "-lm", "-pthread", "-o", "page"], cwd=tmp_path)
    assert done.returncode == 0
    out = subprocess.run([tmp_path / "page"], cwd=files[0].parent, capture_output=True, text=True, check=True).stdout
    assert out == 'it continues with: tle":\n'


def test_rust(installed: Path, files: tuple[Path, Path], tmp_path: Path) -> None:
    need("cargo", "rustc")
    (config,) = installed.rglob("guiderail.pc")
    folder = ROOT / "examples" / "rust"
    environment = {"GUIDERAIL_LIB": str(config.parent.parent), "CARGO_TARGET_DIR": str(tmp_path)}
    run("cargo", "build", "--offline", "--quiet", "--manifest-path", folder / "Cargo.toml", **environment)
    check(run(tmp_path / "debug" / "guiderail-example", *files))
    assert not (folder / "target").exists()
