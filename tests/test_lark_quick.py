"""Grammars read in one pass: the same result as Lark with its surroundings, or none."""

from __future__ import annotations

import random
import subprocess
import sys
from typing import Any

import pytest

pytest.importorskip("lark")
from lark.load_grammar import eval_escaping

import guiderail as gr
from guiderail.frontends.grammar.lark import LarkGrammar, by_lark, read
from guiderail.frontends.grammar.lark.patterns import unescaped
from guiderail.frontends.grammar.lark.quick import quick
from guiderail.frontends.grammar.library import READY
from test_lark_notation import GRAMMARS, mutants

SMALL = [
    """start: "a"i~2 b~1..3 | /x\\/[y]/i -> name
  | ("b" [c] d)? // comment
# another

b.2: c+ d*
c: "c"
d: A
A: "x" """,
    """start: _x{a, "b"} | y{/z/} a
_x{p,q}: p q "+" w{p}
y{p}: "<" p ">" | w{p} "-"
w{p}: "(" p ")" "::"
a: "::" | "q"~2
""",
    """!start: b (A | B C)? [D]
?b: "if" | "else"i | "i\\u0066"
A.3: B | C "x"~2..4 | "0".."9"
B: /b+/
C: ("c" | D)+ D?
D: "dd" | "ddd"
%ignore " "
%ignore /[ \\t]+/
%ignore WS
WS: /\\n/
UNUSED: "u"
""",
    """start:
  | a
  |

  | b // x


a: A
b: a a?
%declare A _B
""",
    """start: line+
line: "é" | "É"i | "…" | "\\"" | "\\\\" | "'" | "\\n" | "\\r\\n" | "0".."9" | "a".."f"
""",
    """start: (((("a" b) "cc") b~0..2) "ddd" | "ee")* -> x
b: "f" [("g" | "h")]
""",
    """start: "++" (a | "--") t{"**", t{"//", A}}
a: "==" | "b" -> z
t{x, y}: x y "%%" | y "##"+
A: "A"
""",
]


def outcome(read: Any, text: str) -> tuple[Any, ...]:
    try:
        found = read(text)
    except gr.GuiderailError as error:
        return type(error), str(error)
    grammar = found.grammar
    rules = [(name, rule.body, rule.span) for name, rule in grammar.rules.items()]
    return rules, grammar.start, grammar.lexer, grammar.notes, found.notes, found.unused, found.imported


def by_lark_alone(text: str, start: str = "start", indenter: Any = None) -> LarkGrammar:
    return by_lark.read(text, start, (), indenter, {}, None)


def agrees(text: str, indenter: Any = None) -> bool:
    """Returns whether the text was read; fails if the result differs from Lark's."""
    if quick(text) is None:
        return False
    ours = outcome(lambda text: read(text, indenter=indenter), text)
    assert ours == outcome(lambda text: by_lark_alone(text, indenter=indenter), text), text
    return True


@pytest.mark.parametrize("name", [name for name, ready in READY.items() if ready.syntax == "lark"])
def test_ready_grammars_are_read_in_one_pass(name: str) -> None:
    from guiderail.frontends.grammar.library import grammar_text

    assert agrees(grammar_text(name), READY[name].indentation)


@pytest.mark.parametrize("text", [*GRAMMARS, *SMALL], ids=lambda text: text[:30])
def test_grammars_are_read_as_by_lark(text: str) -> None:
    assert agrees(text) or text not in SMALL


def test_mutated_grammars_are_read_as_by_lark_or_left_to_it() -> None:
    assert sum(map(agrees, mutants(SMALL, 11, 1500))) > 200


def test_escapes_are_read_as_by_lark() -> None:
    rng = random.Random(1)
    pieces = [*"\\\\\\\\abnNtrfuUx\"'01{}d/é", "\\x41", "\\u0041", "\n", "\r", "\0", "\\N{DIGIT ONE}", "\\\n"]

    def attempt(read: Any, text: str) -> str | None:
        try:
            return str(read(text))
        except Exception:  # Lark raises many kinds
            return None

    for _ in range(20_000):
        text = "".join(rng.choice(pieces) for _ in range(rng.randint(0, 7)))
        assert attempt(unescaped, text) == attempt(eval_escaping, text), repr(text)


@pytest.mark.parametrize("text", ['start: "9".."0"', 'start: A\nA: "9".."0"', 'start: A\nA: "9".."0" | "x"'])
def test_a_range_that_ends_before_it_begins_is_refused(text: str) -> None:
    with pytest.raises(gr.GuiderailError, match="range"):
        gr.grammar(text, "lark")


def test_lark_is_not_imported_for_the_usual_form() -> None:
    code = """
import sys
import guiderail as gr
from guiderail import grammars
assert gr.grammar('start: A "b"~2 | c{A}\\nc{x}: x+ -> y\\nA: "a".."c" | /d+/\\n%ignore " "', "lark").matches("ab b")
assert grammars.sql().matches("SELECT 1") and grammars.python().matches("a = 1") and grammars.json().matches("[1]")
assert not any(name == "lark" or name.startswith("lark.") for name in sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("text", ['start: "a"?', 'start: "a" // b', 'start: A?\nA: "a"', 'start: A\nA: "b"?  '])
def test_the_last_line_may_end_anywhere(text: str) -> None:
    assert agrees(text)
