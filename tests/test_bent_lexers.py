"""Lexers that no front end makes, as a damaged program file may describe them: masks and acceptance still agree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

import guiderail as gr
from core_support import mask_of, plain
from guiderail import _core

STATES = 60  # examined for each lexer
LETTER_A, LETTER_B = ord("a"), ord("b")
VOCABULARY = plain(
    [b"a", b"b", b"c", b" ", b"\n", b"x", b"ab", b"ba", b"aa", b"a1.", b"a270.", b"\x01", b"\x7f", b"a\nb"]
)

Build = Callable[[_core.Builder], int]


@dataclass(frozen=True)
class Built(gr.Constraint):
    """A constraint that a function makes with a builder."""

    build: Build

    def _lower(self, b: _core.Builder) -> int:
        return self.build(b)


@dataclass
class Bent:
    """A lexer of terminals, each a text or a function that makes it, and a body over them."""

    terminals: list[Any]
    body: Callable[[_core.Builder, list[int]], int]
    ignored: list[int] = field(default_factory=list)
    indentation: tuple[Any, ...] | None = None
    traps: list[int] = field(default_factory=list)

    def __call__(self, b: _core.Builder) -> int:
        entries = []
        for one in self.terminals:
            text, *how = one if isinstance(one, tuple) else (one,)
            ends, keyword_of, guard_of = (*how, *(0, [], None)[len(how) :])
            entries.append((text(b) if callable(text) else b.literal(text), ends, keyword_of, guard_of))
        lexer = b.lexer(entries, self.ignored, self.indentation, b"", self.traps)
        return b.lexed(lexer, self.body(b, [*(b.terminal(lexer, i) for i in range(len(entries))), b.never(lexer)]))


def letters(b: _core.Builder) -> int:
    return b.repeat(b.char_class(_core.CharSet([(LETTER_A, ord("c"))])), 1, -1)


def nothing(b: _core.Builder) -> int:
    return b.EMPTY


def empty(b: _core.Builder) -> int:
    return b.EPSILON


def rule_of_nothing(b: _core.Builder) -> int:
    rule = b.rule("nothing")
    b.define(rule, b.EPSILON)
    return rule


def dead(b: _core.Builder) -> int:
    """Matches nothing, which takes a proof."""
    text = b.concat([letters(b), b.literal(b"x"), letters(b)])
    return b.intersection([text, b.complement(b.concat([letters(b), b.literal(b"x"), b.repeat(letters(b), 1, 1)]))])


def line_break(b: _core.Builder) -> int:
    return b.concat([b.literal(b"\n"), b.repeat(b.literal(b" "), 0, -1)])


def of_another(b: _core.Builder, count: int, terminal: int) -> int:
    lexer = b.lexer([(b.literal(b"a%d." % i), 0, [], None) for i in range(count)], [])
    return b.terminal(lexer, terminal)


def after(*rest: Callable[[_core.Builder, list[int]], int]) -> Callable[[_core.Builder, list[int]], int]:
    """Terminal 1, then either terminal 1 again, or terminal 2 and a possibly invalid part."""
    return lambda b, t: b.concat([t[1], b.union([t[1], b.concat([t[2], *(one(b, t) for one in rest)])])])


def blocks(b: _core.Builder, t: list[int]) -> int:
    block = b.rule("block")
    statement = b.concat([t[3], b.union([t[0], b.concat([t[0], t[1], block, t[2]])])])
    b.define(block, b.repeat(statement, 1, -1))
    return block


def first(_: _core.Builder, t: list[int]) -> int:
    return t[0]


def indented(indent: int, dedent: int, newline: int = 0, **more: Any) -> Bent:
    marks = (newline, indent, dedent, more.get("opening", []), more.get("closing", []), 8, False, False)
    return Bent([line_break, nothing, more.get("text", nothing), b"a"], blocks, indentation=marks)


MANY = [b"a%d." % i for i in range(300)]
LEXERS: dict[str, Bent] = {
    "a terminal without a text": Bent([nothing, b"a", b"b"], after(first)),
    "one whose text is dead": Bent([dead, b"a", b"b"], after(first)),
    "nested, and only the empty text": Bent([(empty, 3), b"a", b"b"], after(first)),
    "nested, and no text": Bent([(nothing, 3), b"a", b"b"], after(first)),
    "nested, and dead": Bent([(dead, 3), b"a", b"b"], after(first)),
    "nested, only that": Bent([(empty, 3), b"a", b"b"], lambda b, t: b.concat([t[1], t[0]])),
    "nested twice, and only the empty text": Bent(
        [(lambda b: b.token_set(["<eos>"], True), 3), b"a", b"b", (empty, 3)],
        lambda b, t: b.concat([t[1], b.union([b.concat([t[0], t[3]]), b.concat([t[2], t[0], t[3]])])]),
    ),
    "nested, a rule of the empty text": Bent([(rule_of_nothing, 3), b"a", b"b"], after(first)),
    "nested, ignored": Bent([(letters, 3), b"a", b"b"], after(first), ignored=[0]),
    "ignored, in the body": Bent([b" ", b"a", b"b"], after(first), ignored=[0]),
    "all ignored": Bent([b" ", b"a", b"b"], after(first), ignored=[0, 1, 2]),
    "a terminal of another lexer": Bent([b"a", b"b", b"c"], after(lambda b, t: of_another(b, 5, 4))),
    "the same in a lexer of many": Bent(MANY, after(lambda b, t: of_another(b, 1000, 900))),
    "half a terminal of many": Bent(MANY, after(lambda b, t: of_another(b, 200, 150))),
    "two halves": Bent(MANY, after(lambda b, t: of_another(b, 250, 240), lambda b, t: of_another(b, 250, 249))),
    "one of many in a lexer of few": Bent([b"a", b"b", b"c"], after(lambda b, t: of_another(b, 1000, 900))),
    "a literal in the body": Bent([b"a", b"b", b"c"], after(lambda b, t: b.literal(b"x"))),
    "numbers as a literal": Bent([b"a", b"b"], lambda b, t: b.literal(b"\x00\x01\x00")),
    "characters as a body": Bent([b"a", b"b"], lambda b, t: b.repeat(b.char_class(_core.CharSet([(0, 900)])), 2, 3)),
    "an intersection as a body": Bent(
        [b"a", b"b"],
        lambda b, t: b.intersection(
            [b.repeat(b.union(t[:2]), 2, 4), b.concat([t[0], b.repeat(b.union(t[:2]), 0, -1)])]
        ),
    ),
    "a complement as a body": Bent([b"a", b"b"], lambda b, t: b.complement(b.concat(t[:2]))),
    "a counted body": Bent([b"a", b"b"], lambda b, t: b.counted(b.repeat(b.union(t[:2]), 1, 5), 2)),
    "a scope as a body": Bent(
        [b"a", b"b"],
        lambda b, t: b.scope(b.concat([b.look_ahead(b.concat(t[:2]), False), b.repeat(b.union(t[:2]), 1, 5)])),
    ),
    "a token in the body": Bent([b"a", b"b", b"c"], after(lambda b, t: b.token(["<eos>"]))),
    "its own keyword": Bent([(b"a", 0, [0]), b"b", b"c"], after(first)),
    "keywords of each other": Bent([(b"a", 0, [2]), b"b", (letters, 0, [0])], after(first)),
    "a keyword that the other does not read": Bent([(b"x", 0, [2]), b"b", letters], after(first)),
    "its own guard": Bent([(b"a", 0, [], 0), b"b", b"c"], after(first)),
    "guards of each other": Bent([(b"a", 0, [], 1), (b"b", 0, [], 0), b"c"], after(first)),
    "a guard of the same text": Bent([(b"a", 0, [], 2), b"b", b"a"], after(first)),
    "outranked everywhere": Bent([b"a", b"a", b"b"], lambda b, t: b.concat([t[2], t[1], t[0]])),
    "outranked by what is ignored": Bent([b"a", b"b", b"a"], after(first), ignored=[0]),
    "never, everywhere": Bent([b"a", b"b", b"c"], after(lambda b, t: t[-1])),
    "a trap": Bent([b"a", b"b", b"c"], after(lambda b, t: t[-1]), traps=[2, 1]),
    "indented": indented(1, 2),
    "an indent that is the dedent": indented(1, 1),
    "an indent with a text": indented(3, 2),
    "a dedent with a text": indented(1, 2, text=lambda b: b.literal(b"b")),
    "a line break without a text": indented(1, 2, newline=1),
    "a line break that opens": indented(1, 2, opening=[0], closing=[3]),
    "an indent that opens": indented(1, 2, opening=[1], closing=[2]),
    "a lexed text as a lexeme": Bent(
        [lambda b: Bent([b"a", b"b"], lambda b, t: b.repeat(b.union(t[:2]), 1, 3))(b), b"b", b"a"], after(first)
    ),
    "a terminal as a lexeme": Bent([lambda b: of_another(b, 120, 97), b"b", b"c"], after(first)),
}


@pytest.mark.parametrize("name", LEXERS)
def test_the_mask_is_what_is_accepted(name: str) -> None:
    try:
        guide = gr.Guide(Built(LEXERS[name]), VOCABULARY)
    except gr.GuiderailError:  # a rejection is fine, too
        return
    open_, seen = [guide.matcher()], 0
    while open_ and seen < STATES:
        matcher = open_.pop(0)
        seen += 1
        allowed = mask_of(matcher)
        for token in range(VOCABULARY.size):
            fork = matcher.fork()
            accepted = fork.accept_token(token)
            assert accepted == allowed[token], (name, matcher.dump(), VOCABULARY.token_bytes(token))
            if accepted and not fork.is_terminated():
                open_.append(fork)


def loose(b: _core.Builder) -> int:
    lexer = b.lexer([(b.literal(b"a"), 0, [], None)], [])
    return b.terminal(lexer, 0)


def by_rule(b: _core.Builder) -> int:
    rule = b.rule("r")
    b.define(rule, b.concat([loose(b), loose(b)]))
    return rule


OUTSIDE: dict[str, Build] = {
    "as a whole": loose,
    "repeated": lambda b: b.repeat(loose(b), 0, 1),
    "beside a text": lambda b: b.concat([b.literal(b"x"), loose(b)]),
    "in an intersection": lambda b: b.intersection([b.literal(b"x"), loose(b)]),
    "in a complement": lambda b: b.complement(loose(b)),
    "in a look-ahead": lambda b: b.scope(b.look_ahead(loose(b), False)),
    "as a lexeme": lambda b: b.lexer([(loose(b), 0, [], None)], []),
    "by a rule": by_rule,
    "by a rule of a rule": lambda b: b.union([b.literal(b"x"), b.concat([b.literal(b"y"), by_rule(b)])]),
    "as an item": lambda b: b.distinct(b.item(by_rule(b))),
}


@pytest.mark.parametrize("where", OUTSIDE)
def test_a_terminal_outside_of_a_lexed_text_is_refused(where: str) -> None:
    with pytest.raises(gr.GuiderailError) as error:
        gr.Guide(Built(OUTSIDE[where]), VOCABULARY)
    assert error.value.code == "bad-shape"


TEXTS: dict[str, Callable[[_core.Builder, list[int]], int]] = {
    "a literal": lambda b, t: b.literal(b"x"),
    "a special token": lambda b, t: b.token(["<eos>"]),
    "a token of a set": lambda b, t: b.token_set([0, 1], True),
    "a complement": lambda b, t: b.complement(b.literal(b"x")),
    "a lexed text": lambda b, t: Bent([b"a", b"b"], lambda b, t: b.union(t[:2]))(b),
    "by a rule": lambda b, t: b.union([t[0], text_by_rule(b)]),
    "in an intersection": lambda b, t: b.intersection(
        [b.concat([t[0], b.literal(b"x")]), b.concat([b.repeat(t[0], 1, 3), b.literal(b"x")])]
    ),
}


def text_by_rule(b: _core.Builder) -> int:
    rule = b.rule("r")
    b.define(rule, b.concat([b.literal(b"x"), b.repeat(b.literal(b"y"), 0, -1)]))
    return rule


@pytest.mark.parametrize("what", TEXTS)
def test_a_text_in_the_grammar_of_a_lexed_text_is_refused(what: str) -> None:
    with pytest.raises(gr.GuiderailError) as error:
        gr.Guide(Built(Bent([b"a", b"b", b"c"], after(TEXTS[what]))), VOCABULARY)
    assert error.value.code == "bad-shape"
