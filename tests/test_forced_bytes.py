"""What must come next, if the text so far can be read in very many ways."""

from __future__ import annotations

import guiderail as gr
from core_support import byte_vocabulary
from guiderail import _core


def test_forced_bytes_look_at_what_ways_share_once():
    """n_0 = "a"? token, n_k = (n_{k-1} "b" | n_{k-1} "c") and so on: 2^60 readings, 60 expressions."""
    b = _core.Builder()
    rules = [b.rule(f"r{i}") for i in range(60)]
    special = b.token(["<x>"])
    b.define(rules[0], b.concat([b.repeat(b.literal(b"a"), 0, 1), b.union([special, b.literal(b"z")])]))
    for i in range(1, 60):
        inner = rules[i - 1]
        b.define(rules[i], b.union([b.concat([inner, b.literal(b"b")]), b.concat([inner, b.literal(b"c")])]))
    program = b.finish(rules[-1])
    assert program.first_symbols(program.root) == ["<x>"]
    assert program.forced_bytes(program.root, 8) == b""


def test_forced_bytes_of_an_ambiguous_grammar():
    grammar = (
        'root ::= r0{2} root* r1+ | "b"* "a"? | "" | "+b"? "+"{0,2}\n'
        'r0 ::= ")" | root | "a"{2} "b"? ","? | root{0,2}\nr1 ::= "+"'
    )
    matcher = gr.compile(gr.grammar(grammar, syntax="gbnf"), byte_vocabulary()).matcher()
    for byte in b"bbbba)+aab+bb+":
        if matcher.accept_token(byte):
            assert matcher.forced_bytes(1) == b""
