"""Other builds of the core, each in a copy of the package. Your working build does not change."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Makes a program use the package that is first on sys.path, despite an editable installation.
START = """
import sys
sys.meta_path[:] = [f for f in sys.meta_path if "Redirecting" not in type(f).__name__]
sys.path.insert(0, sys.argv.pop(1))
import guiderail._core as core
assert core.__file__.startswith(sys.path[0]), core.__file__
"""


def build(name: str, flags: list[str]) -> Path:
    """Builds the core with these flags; returns the folder of its package."""
    folder = ROOT / "build" / name
    # The flags of a build type come last, and would override the optimisation level.
    flags = [
        "-DCMAKE_BUILD_TYPE=RelWithDebInfo",
        "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O1 -g1 -DNDEBUG",
        f"-DPython_EXECUTABLE={sys.executable}",
        *flags,
    ]
    if shutil.which("ninja"):
        flags += ["-G", "Ninja"]
    subprocess.run(["cmake", "-S", ROOT, "-B", folder, *flags, "--log-level=WARNING"], check=True)
    subprocess.run(["cmake", "--build", folder, "--parallel", os.environ.get("JOBS", "2")], check=True)
    package = folder / "package"
    shutil.rmtree(package, ignore_errors=True)
    shutil.copytree(
        ROOT / "src" / "guiderail", package / "guiderail", ignore=shutil.ignore_patterns("*.so", "__pycache__")
    )
    for module in folder.glob("_core.*.so"):
        shutil.copy2(module, package / "guiderail")
    return package
