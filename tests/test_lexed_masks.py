"""Masks of lexed grammars, alone and inside other constraints: each bit says whether the token is accepted."""

from __future__ import annotations

import random
from typing import Any

import lark
import lark.indenter
import numpy as np
import pytest

import guiderail as gr
from core_support import mask_of, plain

CALC = """
start: expr
expr: expr "+" term | term
term: NAME | NUMBER | "(" expr ")" | "if" expr "then" expr
NAME: /[a-z]+/
NUMBER: /[0-9]+/
%ignore /[ \\n]+/
"""
LAST = """
start: (NAME ";")* NOTE?
NAME: /[a-z]+/
NOTE: /#[^\\n]*/
LINE: /#[^\\n]*\\n/
%ignore LINE
%ignore " "
"""
BLOCKS = """
start: _NEWLINE? statement+
statement: NAME _NEWLINE | "if" NAME ":" _NEWLINE _INDENT statement+ _DEDENT
         | NAME LPAR [NAME ("," NAME)*] RPAR _NEWLINE
NAME: /[a-z]+/
LPAR: "("
RPAR: ")"
_NEWLINE: /(\\n *)+/
%ignore " "
%declare _INDENT _DEDENT
"""


class Blocks(lark.indenter.Indenter):
    NL_type = "_NEWLINE"
    OPEN_PAREN_types = ("LPAR",)
    CLOSE_PAREN_types = ("RPAR",)
    INDENT_type = "_INDENT"
    DEDENT_type = "_DEDENT"
    tab_len = 4


PIECES = [bytes([b]) for b in b"abif+()0123 \n;#,:<>/q-!"] + [
    b"if", b"then", b" then ", b" th", b"if(", b"if a", b"a+b", b"+ ", b") +", b"))", b")))", b"((", b"1+1", b"12",
    b"ab", b"a;", b";a", b"; a;#", b"#a\n", b"#\n#", b"\n  ", b"\n    ", b":\n  ", b"(a,", b",b)\n", b"\n\n",
    b"\n  if a:\n    ", b"</q>", b")</q>", b"a</q", b"a-", b"-1", b"!a", b"1!", b"<q>", b"<q>if", b"e", b"n", b"en",
    b"a then 1",
]  # fmt: skip


def constraints() -> dict[str, Any]:
    calc = gr.grammar(CALC, syntax="lark")
    return {
        "calc": calc,
        "a comment that only the end may follow": gr.grammar(LAST, syntax="lark"),
        "blocks": gr.grammar(BLOCKS, syntax="lark", indenter=Blocks),
        "within a tag": gr.literal("<q>") + calc + gr.literal("</q>"),
        "what follows may look like it": calc + gr.regex("[a-z]{2}!|-[0-9]*"),
        "twice": calc + calc,
        "or something else": calc | gr.regex("[a-b]+-[0-9]+"),
        "many": calc.separated_by(gr.literal(","), 1, 3),
    }


@pytest.mark.parametrize("name", list(constraints()))
def test_masks_say_what_can_be_accepted(name: str) -> None:
    vocabulary = plain([*PIECES, b"if", b"a+b"])  # two have the same text
    guide = gr.compile(constraints()[name], vocabulary, cache=False)
    for seed in range(25):
        rng = random.Random(seed)
        matcher = guide.matcher()
        for _ in range(14):
            mask = mask_of(matcher)
            allowed = [matcher.fork().accept_token(token) for token in range(vocabulary.size)]
            assert mask.tolist()[: vocabulary.size] == allowed, matcher.history()
            some = [token for token in np.flatnonzero(allowed).tolist() if token != vocabulary.size - 1]
            if not some:
                break
            matcher.accept_token(rng.choice(some))
