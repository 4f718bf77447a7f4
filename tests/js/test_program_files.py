"""Program files that Python saved, read in C and in a browser: the same verdicts and masks. In Node: ``test_js.py``."""

from __future__ import annotations

import ctypes as c
import hashlib
import http.server
import json
import shutil
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import c_library
from browser import Browser, find_browser

PACKAGE = Path(__file__).parents[2] / "bindings/js"
WASM = PACKAGE / "dist/guiderail.wasm"

# The page's script.
REPLAY = """
(async () => {
  const { Vocabulary, load } = await import("/guiderail/src/index.js");
  const { replay } = await import("/guiderail/test/replay.js");
  await load();
  const read = async (name) => new Uint8Array(await (await fetch("/cases/" + name)).arrayBuffer());
  const { vocabularies, cases } = JSON.parse(new TextDecoder().decode(await read("cases.json")));
  const made = {};
  for (const [name, { file }] of Object.entries(vocabularies)) made[name] = Vocabulary.fromFile(await read(file));
  return replay(cases, read, made);
})()
"""


def test_in_c(cases: Path) -> None:
    lib = c_library.library()
    description = json.loads((cases / "cases.json").read_text())
    vocabularies = {
        name: lib.made("vocabulary_load", str(cases / entry["file"]).encode())
        for name, entry in description["vocabularies"].items()
    }
    for case in description["cases"]:
        program = lib.made("program_load", str(cases / case["program"]).encode(), None)
        vocabulary = vocabularies[case["vocabulary"]]
        guide = lib.made("guide_new", program, vocabulary, None)
        lib.program_free(program)
        for number, text in enumerate(case["texts"]):
            found = in_c(lib, guide, text["tokens"], lib.vocabulary_bitmask_words(vocabulary))
            assert found == {name: text[name] for name in found}, (case["name"], number)
        lib.guide_free(guide)
    for vocabulary in vocabularies.values():
        lib.vocabulary_free(vocabulary)


def in_c(lib: c_library.Library, guide: c.c_void_p, tokens: list[int], words: int) -> dict[str, Any]:
    matcher = lib.made("matcher_new", guide)
    digest, accepted = hashlib.sha256(), 0
    for token in [*tokens, None]:
        if lib.asked(c.c_bool, "matcher_is_terminated", matcher):
            break
        digest.update(lib.mask(matcher, words).tobytes())
        if token is None or not lib.accept(matcher, token):
            break
        accepted += 1
    accepting = lib.asked(c.c_bool, "matcher_is_accepting", matcher)
    lib.matcher_free(matcher)
    return {"accepted": accepted, "digest": digest.hexdigest(), "accepting": accepting}


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def page(cases: Path, tmp_path: Path) -> Iterator[Browser]:
    """A page next to the package and the cases."""
    shutil.copytree(PACKAGE, tmp_path / "guiderail", ignore=shutil.ignore_patterns("node_modules"))
    (tmp_path / "cases").symlink_to(cases, target_is_directory=True)
    (tmp_path / "index.html").write_text('<!doctype html><link rel="icon" href="data:,">')
    handler = partial(Quiet, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser = Browser(find_browser())
        browser.open(f"http://127.0.0.1:{server.server_address[1]}/index.html")
        yield browser
        browser.close()
        server.shutdown()


@pytest.mark.skipif(not WASM.is_file(), reason="guiderail.wasm is not built: make js (needs emscripten)")
def test_in_a_browser(page: Browser, cases: Path) -> None:
    done = page.run(REPLAY)
    description = json.loads((cases / "cases.json").read_text())
    assert done["programs"] == len(description["cases"]) > 20
    assert done["texts"] == sum(len(case["texts"]) for case in description["cases"])
    assert done["masks"] > done["texts"]
    assert page.complaints == []
