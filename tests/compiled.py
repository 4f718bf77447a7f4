"""The modules that mypyc compiles (``cmake/frontends.txt``), and whether those that are installed are up to date."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parent.parent


def compiled_modules() -> list[str]:
    """Their sources, without ``.py``, relative to ``src``."""
    return [line for line in (ROOT / "cmake" / "frontends.txt").read_text().splitlines() if not line.startswith("#")]


def library_of(module: str) -> Path | None:
    """The file that Python would load instead of a module's source, if there is one."""
    spec = importlib.util.find_spec(module.replace("/", "."))
    assert spec is not None and spec.origin is not None, module
    return None if spec.origin.endswith(".py") else Path(spec.origin)


def outdated() -> list[str]:
    """Modules whose sources are newer than what would be loaded."""
    found = []
    for module in compiled_modules():
        library, source = library_of(module), ROOT / "src" / f"{module}.py"
        if library is not None and library.stat().st_mtime < source.stat().st_mtime:
            found.append(module)
    return found


class _Sources(MetaPathFinder):
    """Finds the sources of modules that mypyc compiles."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        module = name.replace(".", "/")
        source = ROOT / "src" / f"{module}.py"
        return importlib.util.spec_from_file_location(name, source) if module in compiled_modules() else None


def use_sources() -> None:
    """From now on, Python imports the sources of front ends. None must have been imported yet."""
    assert not {module.replace("/", ".") for module in compiled_modules()} & {*sys.modules}
    sys.meta_path.insert(0, _Sources())
