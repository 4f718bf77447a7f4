"""Look-arounds at the edges of Lark's terminals, against Lark's own LALR parser and the slow oracle."""

from __future__ import annotations

import itertools
import re
from typing import Any

import lark
import pytest

import guiderail as gr
from guiderail.frontends.grammar.lark import read
from lexer_oracle import accepts

# What undoes a match may be a part of a longer one: grammar, pieces of texts.
PENDING = {
    "digits up to the end of a word": ('start: INT INT ";" | ";"+\nINT: /\\d+\\b/', "1a ;"),
    "numbers without a point": ("start: (INT | FLOAT)+\nINT: /\\d+(?![\\w.])/\nFLOAT: /\\d+\\.\\d+/", "1.a "),
    "numbers that are no beginning of names": (
        'start: (INT | NAME | "-")+\nINT: /\\d+(?![a-z0-9])/\nNAME: /[a-z0-9]+/', "1a- ",
    ),
    "to the end of the line": ("start: A+\nA: /a/\nCOMMENT: /#.*$/m\n%ignore COMMENT", "a#b\n"),
    "as few as possible": ('start: (NAME ";")+\nNAME: /[a-z]+?(?![a-z])/', "ab; "),
    "signed": ('start: (INT ";")+\nINT: ["-"] DIGITS\nDIGITS: /[0-9]+(?![a-z_])/', "1-a;"),
}  # fmt: skip


def _lark_accepts(parser: Any, text: str) -> bool:
    try:
        parser.parse(text)
    except lark.exceptions.LarkError:
        return False
    return True


def _compare(text: str, pieces: str, longest: int) -> None:
    """Compares the verdicts of Lark, of the slow oracle and of the constraint on all texts of these pieces."""
    tree, constraint = read(text).grammar, gr.grammar(text, "lark")
    parser = lark.Lark(text, parser="lalr", g_regex_flags=re.ASCII)
    program = constraint.program()
    verdicts = {}
    for sample in ("".join(parts) for n in range(longest + 1) for parts in itertools.product(pieces, repeat=n)):
        verdicts[sample] = verdict = _lark_accepts(parser, sample)
        assert constraint.matches(sample) == verdict, sample
        assert len(sample) > 4 or accepts(tree, sample) == verdict, sample
    assert len(set(verdicts.values())) == 2
    begun = {sample[:i] for sample, good in verdicts.items() if good for i in range(len(sample) + 1)}
    assert all(program.read(program.start, sample) for sample in begun)


@pytest.mark.parametrize("name", PENDING)
def test_a_match_that_a_longer_one_replaces_is_not_undone(name: str) -> None:
    text, pieces = PENDING[name]
    _compare(text + ("" if "\n" in pieces else '\n%ignore " "'), pieces, 6)


def test_a_match_that_the_end_of_the_text_may_undo() -> None:
    """After ``ab`` nothing is matched: not ``a``, because ``b`` follows, and no longer text."""
    with pytest.raises(gr.CompileError) as caught:
        gr.grammar('start: A "b"?\nA: /a(?!b)|abb/', "lark").program()
    assert caught.value.code == "lark-look-around"
