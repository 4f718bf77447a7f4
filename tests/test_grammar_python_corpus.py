"""The standard library under Python's grammar, token by token: a sample against the file of exceptions.

``python tests/python_corpus.py`` walks all of it, and writes that file.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from zlib import crc32

import pytest

import guiderail as gr
from guiderail import _core
from python_corpus import load_exceptions, modules, python_program, token_refusal

pytest.importorskip("lark", reason="Lark reads the grammar")
pytestmark = pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the grammar is that of Python 3.11")

LEAST_ACCEPTED = 0.995
EVERY = int(os.environ.get("GUIDERAIL_PYTHON_MODULES_EVERY", "60"))  # one of this many modules; 1: all of them
LONGEST = 60_000  # characters
MASKS_EVERY = 150
EXCEPTIONS = load_exceptions()


@pytest.fixture(scope="module")
def guide(deepseek: gr.Vocabulary) -> _core.Guide:
    return _core.Guide(python_program(), deepseek.core, {}, 64 << 20)


def test_nearly_all_of_the_standard_library() -> None:
    refused = EXCEPTIONS["refused"]
    assert len(refused) <= (1 - LEAST_ACCEPTED) * EXCEPTIONS["modules"]
    assert [name for name, row in refused.items() if not row["reason"]] == []


def test_modules_are_accepted_token_by_token(guide: _core.Guide, deepseek: gr.Vocabulary) -> None:
    some = modules(
        lambda path: crc32("/".join(path.parts[-2:]).encode()) % EVERY == 0 and path.stat().st_size <= LONGEST
    )
    found = {
        name: token_refusal(guide, deepseek, text, MASKS_EVERY)
        for name, text in some
        if name not in EXCEPTIONS["refused"]
    }
    assert EVERY > 100 or len(found) > 5
    assert {name: why for name, why in found.items() if why} == {}


def test_exceptions_are_still_refused(guide: _core.Guide, deepseek: gr.Vocabulary) -> None:
    """Accepted modules must leave the list; another patch release may have changed them."""
    if ".".join(map(str, sys.version_info[:3])) != EXCEPTIONS["python"]:
        pytest.skip(f"the list is that of Python {EXCEPTIONS['python']}")
    listed = dict(modules(lambda path: path.name in {Path(name).name for name in EXCEPTIONS["refused"]}))
    found = {name: token_refusal(guide, deepseek, listed[name]) for name in EXCEPTIONS["refused"] if name in listed}
    assert found == {name: row["at"] for name, row in EXCEPTIONS["refused"].items() if name in listed}
