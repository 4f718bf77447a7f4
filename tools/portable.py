"""Compiles the core with every compiler on this machine, without linking: GCC, Clang with both libraries, and for
other systems.

    python tools/portable.py                       # all that are installed
    python tools/portable.py libc++ emscripten     # some
    python tools/portable.py --jobs 4 --only run/

``ziglang`` compiles for macOS and Windows: it is a Clang with the headers of both. Install it for this Python
(``pip install ziglang``). The Python bindings (``core/bind/``) are left out, because they need Python's own headers.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[1]
CHECK = ["-fsyntax-only"]
OBJECT = ["-O0", "-c"]  # zig's driver has no syntax-only mode
ZIG = [sys.executable, "-m", "ziglang", "c++", "-target"]
DEFINED = ["-DGUIDERAIL_BUILDS", '-DGUIDERAIL_VERSION="0"']  # as core/capi/CMakeLists.txt does
COMPILERS = {
    "gcc": ["g++", *CHECK, "-Wno-restrict"],
    "clang": ["clang++", *CHECK],
    "libc++": ["clang++", "-stdlib=libc++", *CHECK],
    "emscripten": ["em++", "-fwasm-exceptions", *CHECK],
    "macos-x86_64": [*ZIG, "x86_64-macos", *OBJECT],
    "macos-arm64": [*ZIG, "aarch64-macos", *OBJECT],
    "windows-x86_64": [*ZIG, "x86_64-windows-gnu", *OBJECT],
}


def missing(name: str, command: list[str], folder: str) -> str | None:
    """Returns why a compiler cannot be used here, or None."""
    if "ziglang" in command:
        return None if importlib.util.find_spec("ziglang") else "no package ziglang"
    if shutil.which(command[0]) is None:
        return f"no {command[0]}"
    if name == "libc++":
        probe = Path(folder, "probe.cpp")
        probe.write_text("#include <vector>\n")
        if subprocess.run([*command, str(probe)], capture_output=True, check=False).returncode:
            return "no libc++"
    return None


def compile_one(command: list[str], source: Path, folder: str, number: int) -> str:
    """Compiles one file and returns the compiler's messages, empty if there are none. Warnings are errors."""
    out = ["-o", str(Path(folder, f"{number}.o"))] if "-c" in command else []
    flags = ["-std=c++20", "-Wall", "-Wextra", "-Werror", *DEFINED]
    flags += ["-I", str(ROOT / "core"), "-I", str(ROOT / "include")]
    done = subprocess.run([*command, *flags, *out, str(source)], capture_output=True, text=True, check=False)
    return (done.stderr or f"{command[0]} failed") if done.returncode else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help=f"compilers: {', '.join(COMPILERS)}; all if none is named")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", default="", help="only sources whose path contains this")
    given = parser.parse_args()
    unknown = set(given.names) - set(COMPILERS)
    if unknown:
        parser.error(f"no such compiler: {', '.join(sorted(unknown))}")
    sources = [path for path in sorted((ROOT / "core").rglob("*.cpp")) if path.parent.name != "bind"]
    sources = [path for path in sources if given.only in path.as_posix()]
    failed = False
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(given.jobs) as pool:
        for name in given.names or COMPILERS:
            command = COMPILERS[name]
            if reason := missing(name, command, folder):
                print(f"{name}: skipped, {reason}")
                failed |= bool(given.names)  # requested by name
                continue
            jobs = [pool.submit(compile_one, command, path, folder, i) for i, path in enumerate(sources)]
            messages = {path: job.result() for path, job in zip(sources, jobs, strict=True)}
            bad = [path.relative_to(ROOT).as_posix() for path, text in messages.items() if text]
            print(f"{name}: {len(sources) - len(bad)} of {len(sources)} sources compile")
            for text in filter(None, messages.values()):
                print(text, file=sys.stderr)
            failed |= bool(bad)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
