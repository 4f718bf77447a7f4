"""The captures of rules in a finished text."""

from __future__ import annotations

import pickle
import re

import pytest
from hypothesis import given, settings, strategies as st

import guiderail as gr
from guiderail.generation.decoding import read_by

LARK: dict[str, tuple[str, str, dict[str, list[str]]]] = {  # grammar, text, what is captured
    "by the rule's name": ('start: "a" x\nx[capture]: /[0-9]+/', "a12", {"x": ["12"]}),
    "by another name": ('start: "a" x\nx[capture="n"]: /[0-9]+/', "a12", {"n": ["12"]}),
    "several": ('start: x ("," x)*\nx[capture]: /[a-z]*/', "ab,,c", {"x": ["ab", "", "c"]}),
    "none": ('start: "a" x?\nx[capture]: "b"', "a", {"x": []}),
    "the start": ("start[capture]: /.*/", "all", {"start": ["all"]}),
    "within each other": (
        'start: a+\na[capture]: "(" b* ")"\nb[capture]: "x" | a', "(x(x))",
        {"a": ["(x)", "(x(x))"], "b": ["x", "x", "(x)"]},
    ),
    "ignored text": (
        'start: x ("," x)*\nx[capture]: A B?\nA: /a+/\nB: "b"\n%ignore " "', " aa b , a ", {"x": ["aa b", "a"]},
    ),
    "left recursion": ('start: e\ne[capture]: e "+" N | N\nN: /[0-9]/', "1+2+3", {"e": ["1", "1+2", "1+2+3"]}),
    "a rule that is itself": ('start: e\ne[capture]: e | "x"', "x", {"e": ["x"]}),
    "a suffix": (
        'start: x "!"\nx[capture, suffix=/<[a-z]>/, stop_capture="end"]: /.*/', "ab<c>!", {"x": ["ab"], "end": ["<c>"]},
    ),
    "a stop that follows": (
        'start: o\no[capture]: x "."\nx[capture, stop="."]: /[^!]*/', "ab.", {"o": ["ab."], "x": ["ab"]},
    ),
    "a stop that is written": ('start: x "!"\nx[capture, stop="."]: /[^!]*/', "ab.!", {"x": ["ab"]}),
    "a stop that is not": ('start: x "!"\nx[capture, stop="."]: /[^!]*/', "ab!", {"x": ["ab"]}),
    "bounds": ('start: x "!"\nx[capture, max_tokens=3]: /[a-z]*/', "ab!", {"x": ["ab"]}),
    "lazy": ('start: x x "."\nx[capture, lazy]: /[a-z]*;/', "a;b;.", {"x": ["a;", "b;"]}),
    "JSON": ('start: "f(" x ")"\nx[capture]: %json {"type": "array"}', "f([1, [2]])", {"x": ["[1, [2]]"]}),
    "nested": ('start: "<" %lark { start: x+\n x[capture]: /[0-9]/ } ">"', "<12>", {"x": ["1", "2"]}),
    "parameters": ('start: p::0\np::_[capture]: "a" p::incr(_) %if lt(_, 1) | "b"', "ab", {"p": ["b", "ab"]}),
    "names with hyphens": ('start: a-b\na-b[capture]: "x"', "x", {"a-b": ["x"]}),
    "characters of several bytes": ('start: x "é" x\nx[capture]: /[äß]+/', "äßéä", {"x": ["äß", "ä"]}),
    "a text that is not complete": ('start: x ("," x)* "."\nx[capture]: /[a-z]+/', "ab,c", {"x": ["ab"]}),
    "a text of another kind": ('start: x "."\nx[capture]: /[a-z]+/', "12", {"x": []}),
    "tools": (
        'start: ( f | g )* end\nend: TEXT\nTEXT: /(.|\\n)*/\nfh[lazy]: TEXT "<f>"\nf: fh n "</f>"\n'
        'n[capture]: /[0-9]+/\ngh[lazy]: TEXT "<g>"\ng: gh w "</g>"\nw[capture]: /[a-z]+/',
        "one <f>12</f> two\n<g>x</g> three", {"n": ["12"], "w": ["x"]},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LARK)
def test_captures_of_lark(name: str) -> None:
    grammar, text, expected = LARK[name]
    assert gr.grammar(grammar, syntax="lark").captures(text) == expected


def test_captures_of_gbnf() -> None:
    number = gr.grammar(
        'root ::= "a" v ("," w)*\nv[capture="num"] ::= [0-9]+\nw[capture, max_chars=2] ::= [a-z]*', "gbnf"
    )
    assert number.captures("a77,xy,") == {"num": ["77"], "w": ["xy", ""]}


def test_a_grammar_without_captures() -> None:
    assert gr.grammar('root ::= "a"', "gbnf").captures("a") == {}
    assert gr.grammar('start: "a"', "lark").captures("a") == {}


def test_special_tokens_may_stand_in_the_text_or_not() -> None:
    thought = gr.grammar('start: <think> x </think> "."\nx[capture]: /[a-z]*/', syntax="lark")
    assert thought.captures("<think>ab</think>.") == thought.captures("ab.") == {"x": ["ab"]}


def test_captures_of_a_generation() -> None:
    grammar = gr.grammar('start: x "."\nx[capture]: /[a-z]+/', syntax="lark")
    made = read_by(grammar.reading(), "ab.", (1, 2), "complete", True, 0, 0, 0.0, 0.0)
    assert made.captures == {"x": ["ab"]}
    assert made.value == "ab."
    assert pickle.loads(pickle.dumps(made)).captures == {"x": ["ab"]}
    other = read_by(gr.regex("a").reading(), "a", (1,), "complete", True, 0, 0, 0.0, 0.0)
    assert other.captures == {}


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["k", "key"]), st.integers(0, 999)), max_size=5), st.integers(0, 2))
def test_captures_agree_with_groups(pairs: list[tuple[str, int]], spaces: int) -> None:
    """A regular expression finds the same in the text."""
    grammar = gr.grammar(
        'start: pair*\npair: name "=" value ";"\nname[capture]: /[a-z]+/\nvalue[capture]: /[0-9]+/\n%ignore " "',
        syntax="lark",
    )
    text = "".join(f"{name}{' ' * spaces}= {value};" for name, value in pairs)
    found = grammar.captures(text)
    assert list(zip(found["name"], found["value"], strict=True)) == re.findall(r"([a-z]+) *= *([0-9]+);", text)
