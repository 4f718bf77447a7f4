"""Drafts that a constraint offers an engine: right if there is no choice, and without effect on the text."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

import guiderail as gr
from guiderail.integrations._drafts import Habits, Layout, draft

WORDS = ["name", '":', ' "', '",', "yes", "no", "age", "true", "  ", '{"', "}\n", "where"]
TEXTS = sorted({*(chr(i) for i in range(32, 127)), "\n", "é", *WORDS}, key=len, reverse=True)
END, OTHER_END = len(TEXTS), len(TEXTS) + 1


def encode(text: str) -> list[int]:
    """The longest token first."""
    found = []
    while text:
        token = next(i for i, one in enumerate(TEXTS) if text.startswith(one))
        found.append(token)
        text = text[len(TEXTS[token]) :]
    return found


VOCABULARY = gr.Vocabulary(
    [*(text.encode() for text in TEXTS), b"</s>", b"</t>"], stop_token_ids=[END, OTHER_END], encode=encode
)
PERSON = {
    "type": "object",
    "properties": {
        "name": {"enum": ["yes", "no"]},
        "where": {
            "type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"],
            "additionalProperties": False,
        },
    },
    "required": ["name", "where"],
    "additionalProperties": False,
}  # fmt: skip
VALUE = {"name": "yes", "where": {"age": 12}}


def read(matcher: gr.Matcher, layout: Layout, tokens: list[int]) -> None:
    for token in tokens:
        assert matcher.accept_token(token)
        layout.read(VOCABULARY.token_bytes(token))


def passes(constraint: gr.Constraint, text: str, habits: Habits, most: int = 6, same: int = 0) -> tuple[int, int]:
    """Returns the tokens of a text, and the passes of a model that writes it and verifies drafts."""
    guide = gr.compile(constraint, VOCABULARY)
    matcher, layout = guide.matcher(), Layout(habits)
    tokens = [*encode(text), END]
    at = count = 0
    while at < len(tokens):
        state = matcher.state
        guess = draft(matcher, layout, most, same)
        assert len(guess) <= most and matcher.state == state
        kept = 0
        while kept < len(guess) and tokens[at : at + 1 + kept][kept : kept + 1] == [guess[kept]]:
            kept += 1
        taken = min(kept + 1, len(tokens) - at)
        read(matcher, layout, tokens[at : at + taken])
        at, count = at + taken, count + 1
    assert matcher.is_terminated()
    habits.end = END
    return len(tokens), count


@pytest.mark.parametrize("separators", [(", ", ": "), (",", ":"), (", ", ":"), (",", ": ")])
def test_a_draft_has_what_must_come(separators: tuple[str, str]) -> None:
    constraint, habits = gr.json_schema(PERSON), Habits()
    text = json.dumps(VALUE, separators=separators)
    tokens, first = passes(constraint, text, habits)
    assert first < tokens
    _, again = passes(constraint, text, habits)  # the whitespace is known by now
    assert again <= first
    assert again <= 9, "the two choices, the digits, and the ends of drafts of six tokens"


def test_without_a_choice_all_is_drafted() -> None:
    constraint = gr.literal('{"name": "yes"}')
    guide = gr.compile(constraint, VOCABULARY)
    matcher = guide.matcher()
    assert draft(matcher, Layout(Habits()), 99) == [*encode('{"name": "yes"}'), END]
    assert draft(matcher, Layout(Habits()), 3) == encode('{"name": "yes"}')[:3]
    assert draft(matcher, Layout(Habits()), 0) == []
    assert draft(matcher, Layout(Habits(end=OTHER_END)), 99)[-1] == OTHER_END
    assert draft(matcher, Layout(Habits(end=5)), 99)[-1] == END, "a token that cannot end this text"
    read(matcher, Layout(Habits()), [*encode('{"name": "yes"}'), END])
    assert draft(matcher, Layout(Habits()), 9) == []


CASES: dict[str, tuple[gr.Constraint, str, str]] = {
    "a choice": (gr.choice(["yes", "no"]), "", ""),
    "after a choice": (gr.choice(["yes", "no"]), "y", "es"),
    "a token that was cut": (gr.literal("name where"), "n", "ame where"),
    "inside a character": (gr.regex("é{1,2}"), "", "é"),
    "the text may end": (gr.regex("yes(no)?"), "", "yes"),
    "no whitespace but a choice": (gr.regex("[ab ]x"), "", ""),
    "only whitespace": (gr.regex("[ \n]x"), "", ""),
}


@pytest.mark.parametrize("name", CASES)
def test_where_there_is_a_choice_nothing_is_drafted(name: str) -> None:
    constraint, before, expected = CASES[name]
    matcher, layout = gr.compile(constraint, VOCABULARY).matcher(), Layout(Habits())
    read(matcher, layout, [TEXTS.index(c) for c in before])
    found = b"".join(VOCABULARY.token_bytes(token) for token in draft(matcher, layout, 20, 0) if token < END)
    assert found.decode() == expected


@pytest.mark.parametrize("same", [1, 2, 3, 4, 6])
def test_what_came_before_may_come_again(same: int) -> None:
    constraint = gr.regex("[a-z]*(-[a-z]*)*")
    tokens, count = passes(constraint, "-".join(["wherexyesxname"] * 8), Habits(), 6, same)
    assert count < tokens / 2
    _, plain = passes(constraint, "-".join(["wherexyesxname"] * 8), Habits(), 6)
    assert plain == tokens


def test_a_repetition_that_the_constraint_forbids_is_cut() -> None:
    guide = gr.compile(gr.regex("(ab){3}c"), VOCABULARY)
    matcher = guide.matcher()
    read(matcher, Layout(Habits()), encode("abab"))
    assert draft(matcher, Layout(Habits()), 9, 1) == [*encode("abc"), END]
    free = gr.compile(gr.regex("([ab]x){3}c"), VOCABULARY).matcher()
    read(free, Layout(Habits()), encode("axax"))
    assert draft(free, Layout(Habits()), 9, 1) == [*encode("axc"), END]


def test_more_must_be_the_same_the_more_texts_there_are() -> None:
    wanted = [Habits(running=running).same for running in (1, 2, 4, 16, 64, 1000)]
    assert wanted == [1, 1, 2, 4, 6, 0]


def test_indentation_is_kept() -> None:
    """A text in lines, as a grammar allows it."""
    space = "[ \n]{0,9}"
    item = rf'\{{{space}"name":{space}"(yes|no)"{space}\}}'
    constraint = gr.regex(rf"\[{space}{item}(,{space}{item}){{2}}{space}\]")
    text = json.dumps([{"name": "yes"}, {"name": "no"}, {"name": "yes"}], indent=2)
    habits = Habits()
    tokens, first = passes(constraint, text, habits, 12)
    _, second = passes(constraint, text, habits, 12)
    assert second < first < tokens
    assert second <= 8


@pytest.mark.parametrize(
    "text", ['"a\\"b" :', '{"a" : [1 ,{"b": "\\\\"}, ]}', "\\\\ \" ' \n[[[", "}}}}]]] {", "é\u2028"]
)
def test_a_layout_reads_whatever_comes(text: str) -> None:
    layout = Layout(Habits())
    for byte in text.encode() * 3:
        layout.read(bytes((byte,)))
        assert layout.copy().guess(ord("]")) in (*b" \n\t\r]",)


def test_habits_are_bounded() -> None:
    layout = Layout(habits := Habits())
    for _ in range(500):
        for byte in range(33, 127):
            layout.read(bytes((byte, 32)) if byte not in b'"' else b"[")
    layout.read(b" " * 10_000 + b"x")
    assert len(habits.spaces) <= 4200
    assert max(map(len, habits.spaces.values())) <= 64


def test_a_tokenizer_that_cannot_spell_it_offers_nothing() -> None:
    def refusing(text: str) -> list[int]:
        raise ValueError("no token for this")

    cannot: Callable[[str], list[int]] | None
    for cannot in (refusing, None):
        vocabulary = gr.Vocabulary([b"a", b"b", b"</s>"], stop_token_ids=[2], encode=cannot)
        assert draft(gr.compile(gr.literal("ab"), vocabulary).matcher(), Layout(Habits()), 5) == []
