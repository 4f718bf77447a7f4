"""Look-arounds at the edges of Lark's terminals, against Lark's own LALR parser and the slow oracle."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
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


def _compare(text: str, pieces: Sequence[str], longest: int) -> None:
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


# Look-aheads that need something after the lexeme, or a character of some set or the end.
NEEDED = {
    "a blank after a keyword": ('start: (IF NUM ";")*\nIF: /if(?=\\s)/\nNUM: /1+/', ("if", "1", " ", ";")),
    "a bracket after a name": ('start: (CALL "(" "1" ")")*\nCALL: /[a-z]+(?=\\()/', ("a", "(", ")", " ", "1")),
    "next to what it needs": ("start: A B\nA: /a(?=b)/\nB: /b|c/", ("a", "b", "c", " ")),
    "as Lark's own modifiers": (
        'start: (MODIFIERS? NAME ";")+\nMODIFIERS: /(!|![?]?|[?]!?)(?=[a-z])/\nNAME: /[a-z]+/', "a?!; ",
    ),
    "a blank or the end": ("start: (INT | NAME)+\nINT: /\\d+(?=\\s|$)/\nNAME: /[a-z]+/", ("1", "a", " ", "\n")),
    "no blank and no end": ('start: (A ";")+\nA: /a(?!\\s|$)/', ("a", ";", " ", "b")),
    "a line break or the end": ("start: A+\nA: /a/\nC: /#.*(?=\\n|$)/\n%ignore C\n%ignore /\\n/", "a#\n "),
}  # fmt: skip


@pytest.mark.parametrize("name", NEEDED)
def test_what_must_follow_a_match(name: str) -> None:
    text, pieces = NEEDED[name]
    _compare(text + '\n%ignore " "', pieces, 6)


# A text may end where the look-ahead needs more, or another terminal takes the match there.
NEEDED_AT_THE_END = [
    'start: A "b"?\nA: /a(?=b)/',
    "start: IF NAME | NAME\nIF.1: /if(?=\\s)/\nNAME: /[a-z]+/",
    'start: A ";"\nA.1: /ab(?=c)/\nB: /a/\n%ignore B',
    'start: A ";"\nA: /a(?!b)|abb/',
    "start: A\nA: /a(?=b|$)/",
]


@pytest.mark.parametrize("text", NEEDED_AT_THE_END)
def test_what_must_follow_a_match_where_a_text_may_end(text: str) -> None:
    with pytest.raises(gr.CompileError) as caught:
        gr.grammar(text, "lark").program()
    assert caught.value.code == "lark-look-around"
