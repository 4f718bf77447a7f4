"""The JavaScript package: its own tests, run by Node on files that Python has written.

Needs node and emscripten, or a ``guiderail.wasm`` that ``make js`` has built; skipped if neither is there.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

import guiderail as gr

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "bindings/js"
WASM = PACKAGE / "dist/guiderail.wasm"
NODE = shutil.which("node")

pytestmark = [
    pytest.mark.skipif(NODE is None, reason="node is not installed"),
    pytest.mark.skipif(not WASM.is_file(), reason="guiderail.wasm is not built: make js (needs emscripten)"),
]


@pytest.mark.parametrize("name", sorted(path.name for path in (PACKAGE / "test").glob("*.test.js")))
def test_in_node(name: str, cases: Path) -> None:
    gr.choice(["red", "green", "blue"]).save(cases / "colours.rail")
    assert NODE
    done = subprocess.run(
        [NODE, "--test", str(PACKAGE / "test" / name)],
        env={**os.environ, "GUIDERAIL_JS_CASES": str(cases)},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert "# fail 0" in done.stdout or "fail 0" in done.stdout


def test_the_module_is_small() -> None:
    import gzip

    data = WASM.read_bytes()
    assert len(data) <= 1_000_000 and len(gzip.compress(data)) <= 400_000
