"""The grammar of Python 3.11 against ``ast.parse``."""

from __future__ import annotations

import json
import random
import re
import sys
from pathlib import Path

import pytest

from guiderail import _core
from python_corpus import parses, python_program, refusal

pytest.importorskip("lark", reason="Lark reads the grammar")
pytestmark = pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the grammar is that of Python 3.11")

FEATURES = json.loads((Path(__file__).parent / "data" / "python_features.json").read_text(encoding="utf-8"))
_PIECES = re.compile(r"[ \t]+|\n[ \t]*|\w+|'[^'\n]*'|\"[^\"\n]*\"|[^\w\s]")
FUEL = 3000
# texts for which FUEL does not suffice to decide whether they can be finished; may only shrink
MOST_UNDECIDED = 0.1


@pytest.fixture(scope="module")
def program() -> _core.Program:
    return python_program(FUEL)


def accepts(program: _core.Program, text: str) -> bool | None:
    """Returns whether the text is accepted; None: not decided."""
    why = refusal(program, text)
    return None if why is not None and why.endswith(": fuel") else why is None


def test_agrees_with_the_parser(program: _core.Program) -> None:
    found = {text: accepts(program, text) for text in FEATURES["same"]}
    undecided = [text for text, accepted in found.items() if accepted is None]
    assert len(undecided) <= MOST_UNDECIDED * len(found)
    assert [text for text, accepted in found.items() if accepted is not None and accepted != parses(text)] == []


def test_left_out_on_purpose(program: _core.Program) -> None:
    """Texts that Python accepts but the grammar rejects: a list that may only shrink."""
    assert all(map(parses, FEATURES["narrower"]))
    assert [text for text in FEATURES["narrower"] if accepts(program, text)] == []


def test_nothing_more_than_the_parser(program: _core.Program) -> None:
    """Features with a piece removed, added, replaced or swapped: accepted texts still parse."""
    choose = random.Random(1)
    whole = [_PIECES.findall(text) for text in FEATURES["same"] if "\n" not in text and parses(text)]
    pool = [piece for pieces in whole for piece in pieces]
    accepted = 0
    for _ in range(300):
        pieces = list(choose.choice([w for w in whole if w]))
        at = choose.randrange(len(pieces))
        pieces[at : at + choose.randint(0, 1)] = choose.sample(pool, choose.randint(0, 1))
        text = "".join(pieces)
        if accepts(program, text):
            accepted += 1
            assert parses(text), text
    assert accepted > 20


@pytest.mark.parametrize("text", ["", "(a if b[", "(a if b[(c", "match x", "f'{", "try:\n    x = [y for y in (z"])
def test_a_completion_is_found_for_what_was_begun(program: _core.Program, text: str) -> None:
    rest = program.shortest(program.derivative(program.root, text.encode()), 200)
    assert rest is not None
    assert accepts(program, text + rest.decode())
    assert parses(text + rest.decode())
