"""Ambiguous and nullable grammars: the same texts as with Earley's algorithm, and states that grow with the text.

Without shared tails, the work doubles wherever two readings meet: these texts would take longer than the age of the
universe.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import guiderail as gr
from guiderail import Vocabulary
from guiderail.support import work

GRAMMARS = {
    "palindromes": 'root ::= "a" root "a" | "b" root "b" | ""',
    "palindromes-odd": 'root ::= "a" root "a" | "b" root "b" | "a"',
    "lists-of-lists": 'root ::= root root root | root root | "a" | "b" root "b" | ""',
    "twice-recursive": 'root ::= root root | "a" | "b"',
    "both-ends": 'root ::= "a" root | root "a" | "a" | "b" root "b"',
    "operators": 'root ::= root "a" root | root "b" root | "b"',
    "two-halves": 'root ::= x y\nx ::= "a" x "b" | "ab" | x x\ny ::= "b" y "a" | "" | y y "a"?',
    "nullable-everywhere": 'root ::= x x x x\nx ::= "a" x "a" | y y | ""\ny ::= "b"? x? y? "b"?',
    "middle": 'root ::= x root? x | "a"\nx ::= "a" | x x | "a" root "b"',
}


COUNTED = 'root ::= r0{2} root* r1+ | "b"* "a"? | ""\nr0 ::= "aa" | root | "a"{2} "b"? "a"? | root{0,2}\nr1 ::= "b"'


@pytest.fixture(scope="module")
def letters() -> Vocabulary:
    return Vocabulary([b"a", b"b", b"ab", b"ba", b"</s>"], stop_token_ids=[4])


@pytest.mark.parametrize("name", GRAMMARS)
def test_short_texts_as_earley_reads_them(name: str, letters: Vocabulary) -> None:
    constraint = gr.grammar(GRAMMARS[name], "gbnf")
    lark = pytest.importorskip("lark")
    rules = GRAMMARS[name].replace("root", "start").replace("::=", ":").replace('""', "")
    parser = lark.Lark(rules, parser="earley", lexer="dynamic")
    for length in range(7):
        for text in map("".join, itertools.product("ab", repeat=length)):
            try:
                parser.parse(text)
                wanted = True
            except lark.exceptions.UnexpectedInput:
                wanted = False
            assert constraint.matches(text) == wanted, text


def _read_on(matcher: gr.Matcher, letters: Vocabulary, tokens: int) -> np.ndarray:
    """Reads this many of the first two tokens, each with its mask; returns the bitmask."""
    mask = gr.allocate_token_bitmask(1, letters.size)
    wish = itertools.cycle((0, 1, 0, 0, 1, 1))
    for _ in range(tokens):
        matcher.fill_next_token_bitmask(mask, 0)
        allowed = [token for token in range(2) if mask[0, 0] >> token & 1]
        wanted = next(wish)
        assert allowed
        assert matcher.accept_token(wanted if wanted in allowed else allowed[0])
    return mask


@pytest.mark.parametrize("name", GRAMMARS)
def test_states_grow_with_the_text(name: str, letters: Vocabulary) -> None:
    guide = gr.compile(gr.grammar(GRAMMARS[name], "gbnf"), letters, max_nodes=60_000)
    matcher = guide.matcher()
    _read_on(matcher, letters, 400)


@pytest.mark.parametrize(
    "name", ["palindromes", "lists-of-lists", "twice-recursive", "both-ends", "operators", "two-halves", "middle"]
)
def test_ten_thousand_tokens(name: str) -> None:
    """Deeper than a stack allows; each token costs about as much as the first ones."""
    letters = Vocabulary([b"a", b"b", b"ab", b"ba", b"</s>"], stop_token_ids=[4])
    guide = gr.compile(gr.grammar(GRAMMARS[name], "gbnf"), letters, max_step_work=5_000)
    matcher = guide.matcher()
    mask = _read_on(matcher, letters, 10_000)
    matcher.rollback(9_000)
    assert matcher.step_count == 1_000
    matcher.fill_next_token_bitmask(mask, 0)


def test_the_most_ambiguous_stays_polynomial(letters: Vocabulary) -> None:
    """Twice the text takes about four times the work, not its square."""
    grammar = gr.grammar(COUNTED, "gbnf")
    spent = []
    for length in (60, 120, 240):
        matcher = gr.compile(grammar, letters, cache=False).matcher()
        before = work.spent()
        for letter in itertools.islice(itertools.cycle("abaabb"), length):
            assert matcher.accept_string(letter)
        spent.append(work.spent() - before)
    assert spent[2] < 8 * spent[1] < 64 * spent[0]


@pytest.mark.parametrize("rules", [20, 200, 400])
def test_rules_that_each_need_the_next_twice(rules: int) -> None:
    """The ways from the first rule to the last double with each rule."""
    lines = [f'r{i} ::= r{i + 1} r{i + 1} | "a" r{i + 1} | r{i + 1} "b"' for i in range(rules)]
    grammar = gr.grammar("\n".join(["root ::= r0", *lines, f'r{rules} ::= "x"?']), "gbnf")
    assert grammar.matches("x") and not grammar.matches("c")
