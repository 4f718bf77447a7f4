"""Random walks through the masks of Python's grammar: ``ast.parse`` accepts whatever they write.

A walk continues at random for 200 tokens of a real vocabulary, and then ends at the first possible place. Three kinds
take turns: all allowed tokens are equally likely; all first bytes are equally likely, so that no kind of token drowns
the others; and tokens are as frequent as in Python, which leads beyond comments and strings. Hardly any text ends by
chance, so from the 200th token on, the choice prefers tokens that close something: quotes where nearly every token is
allowed (inside a string or a comment), else brackets, else ends of statements. One in five is still any token.

``GUIDERAIL_PYTHON_WALKS=300`` makes 300 of them; by default there are a few.
"""

from __future__ import annotations

import ast
import json
import os
import random
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import guiderail as gr
from guiderail import _core
from python_corpus import python_program

pytest.importorskip("lark", reason="Lark reads the grammar")
pytestmark = pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the grammar is that of Python 3.11")

FEATURES = json.loads((Path(__file__).parent / "data" / "python_features.json").read_text(encoding="utf-8"))
WALKS = int(os.environ.get("GUIDERAIL_PYTHON_WALKS", "30"))
SHARES = 6  # tests that share the walks, so that they can run in parallel
TOKENS = 200
MOST_TOKENS = 5000  # a walk without an end by then has failed
BRACKETS = (")", "]", "}")
QUOTES = ("'", '"', "'''", '"""', "\n", "}")
STATEMENTS = ("\n", "a", "1", " pass", ":", " in", " else", "=")


class Walker:
    """Walks with one vocabulary; they share the guide and its caches."""

    def __init__(self, vocabulary: gr.Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.guide = _core.Guide(python_program(), vocabulary.core, {}, 64 << 20)
        self.first = np.array([(vocabulary.token_bytes(i) or b"\0")[0] for i in range(vocabulary.token_count)])
        self.usual = np.zeros(vocabulary.size)
        for text in FEATURES["same"]:
            np.add.at(self.usual, vocabulary.encode(text + "\n"), 1)
        self.groups = [
            np.array([token for text in group if (token := vocabulary.core.find(text.encode())) >= 0])
            for group in (QUOTES, BRACKETS, STATEMENTS)
        ]

    def walk(self, seed: int) -> tuple[bytes, bool]:
        """Returns the text, and whether it ended."""
        chance, kind = np.random.default_rng(seed), seed % 3
        matcher = _core.Matcher(self.guide)
        bits = gr.allocate_token_bitmask(1, self.vocabulary.size)
        read = bytearray()
        for number in range(MOST_TOKENS):
            matcher.fill_next_token_bitmask(bits, 0)
            allowed = gr.bitmask_to_bool(bits, self.vocabulary.size)[0]
            stops = allowed[list(self.vocabulary.stop_token_ids)]
            assert stops.all() == stops.any() == matcher.is_accepting()
            if number >= TOKENS and matcher.is_accepting():
                return bytes(read), True
            allowed[list(self.vocabulary.stop_token_ids)] = False
            ids = np.flatnonzero(allowed)
            if not len(ids):
                assert matcher.is_complete()
                return bytes(read), True
            if number >= TOKENS and chance.random() < 0.8:
                token = int(chance.choice(self.ending(allowed, ids)))
            else:
                token = self.anything(ids, kind, chance)
            assert matcher.accept_token(token)
            read += self.vocabulary.token_bytes(token)
        return bytes(read), False

    def anything(self, ids: NDArray[np.intp], kind: int, chance: np.random.Generator) -> int:
        if kind == 1:
            ids = ids[self.first[ids] == chance.choice(np.unique(self.first[ids]))]
        elif kind == 2 and (weights := self.usual[ids]).any() and chance.random() < 0.98:
            return int(chance.choice(ids, p=weights / weights.sum()))
        return int(chance.choice(ids))

    def ending(self, allowed: NDArray[np.bool_], ids: NDArray[np.intp]) -> NDArray[np.intp]:
        """Returns the tokens that lead to an end."""
        quotes, brackets, statements = (group[allowed[group]] for group in self.groups)
        if len(ids) > self.vocabulary.size // 2 and len(quotes):
            return quotes
        return next((group for group in (brackets, statements) if len(group)), ids)


@pytest.fixture(scope="module")
def walker(deepseek: gr.Vocabulary) -> Walker:
    return Walker(deepseek)


@pytest.mark.parametrize("share", range(SHARES))
def test_walks_parse(walker: Walker, share: int) -> None:
    wrong = []
    for seed in range(share, WALKS, SHARES):
        data, ended = walker.walk(seed)
        assert ended, (seed, data[-200:])
        text = data.decode()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                ast.parse(text)
            except (SyntaxError, ValueError) as error:
                wrong.append((seed, str(error), text))
    assert wrong == []


def test_walks_meet_all_of_the_language(walker: Walker) -> None:
    """The walks are meaningful: they contain statements, brackets, strings and indentation."""
    kinds: set[str] = set()
    for seed in random.Random(0).sample(range(2, 3 * WALKS, 3), min(10, WALKS)):
        data, _ = walker.walk(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            kinds |= {type(node).__name__ for node in ast.walk(ast.parse(data.decode()))}
    assert {"Call", "Compare", "Constant", "Name", "List", "JoinedStr"} <= kinds, sorted(kinds)
