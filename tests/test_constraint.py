"""Constraints as values, and what they match, against Python and the slow implementation in ``oracle.py``."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import random
import re
from collections.abc import Callable
from functools import reduce
from operator import add, or_
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

import guiderail as gr
from core_support import PROPERTY, mask_of, plain
from guiderail import CompileError, PatternError
from oracle import oracle_of

UNICODE = st.text(st.characters(codec="utf-8"), max_size=8)


def oracle(constraint: gr.Constraint, text: str) -> bool:
    return oracle_of(constraint).matches(text.encode())


# -- what they match --------------------------------------------------------------------------------
@settings(PROPERTY, max_examples=100)
@given(UNICODE, UNICODE)
def test_literal(text: str, other: str) -> None:
    constraint = gr.literal(text)
    assert constraint.matches(text) and constraint.matches(text.encode())
    assert constraint.matches(other) == (text == other)
    assert not constraint.matches(text + "x") and not constraint.matches("x" + text)


@settings(PROPERTY, max_examples=100)
@given(st.lists(UNICODE, min_size=1, max_size=20), st.lists(UNICODE, max_size=20))
def test_choice(options: list[str], others: list[str]) -> None:
    constraint = gr.choice(options)
    for text in [*options, *others, *(o[:-1] for o in options), *(o + "a" for o in options)]:
        assert constraint.matches(text) == (text in options)


def test_choice_takes_any_collection_and_ignores_doubles() -> None:
    assert gr.choice(["b", "a", "b"]) == gr.choice(("b", "a")) == gr.choice(t for t in ["b", "b", "a"])
    assert gr.choice({"x": 1, "y": 2}).matches("y")


@settings(PROPERTY, max_examples=100)
@given(st.lists(UNICODE, min_size=1, max_size=3), UNICODE, st.randoms(use_true_random=False))
def test_substring_of(texts: list[str], other: str, rng: random.Random) -> None:
    constraint = gr.substring_of(*texts)
    for text in texts:
        for start in range(len(text) + 1):
            for end in range(start, len(text) + 1):
                assert constraint.matches(text[start:end])
    for _ in range(20):
        shuffled = "".join(rng.choice("".join(texts) + other + "a") for _ in range(rng.randrange(1, 5)))
        assert constraint.matches(shuffled) == any(shuffled in t for t in texts)
    for data in (t.encode()[1:] for t in texts):
        try:
            expected = any(data.decode() in t for t in texts)
        except UnicodeDecodeError:
            expected = False  # not part of a character
        assert constraint.matches(data) == expected


@settings(PROPERTY, max_examples=100)
@given(st.text("ab€", min_size=1, max_size=4), st.lists(st.text("ab€z", max_size=9), max_size=20))
def test_text_until(stop: str, texts: list[str]) -> None:
    to_the_stop, before = gr.text_until(stop), gr.text_until(stop, include_stop=False)
    for text in [*texts, *(t + stop for t in texts), stop + stop, stop, ""]:
        assert to_the_stop.matches(text) == (text.find(stop) >= 0 and text.find(stop) == len(text) - len(stop))
        assert before.matches(text) == (stop not in text)


@settings(PROPERTY, max_examples=60)
@given(
    st.sampled_from(["a", "", "ab", "a*", "[ab]", "(ab)?"]),
    st.sampled_from([",", ", ", "a", ""]),
    st.integers(0, 3),
    st.sampled_from([None, 0, 1, 2]),
    st.booleans(),
)
def test_separated_by(item: str, separator: str, low: int, more: int | None, trailing: bool) -> None:
    high = None if more is None else low + more
    constraint = gr.regex(item).separated_by(separator, low, high, trailing=trailing)
    # compared with Python's re: every number of items written out
    most = 6 if high is None else high
    counts = [
        f"(?:{item})" + f"(?:{separator})(?:{item})" * (n - 1) + (f"(?:{separator})?" if trailing else "")
        for n in range(max(low, 1), most + 1)
    ]
    pattern = re.compile("|".join([*([""] if low == 0 else []), *counts]) if counts or low == 0 else "(?!)")
    rng = random.Random(f"{item}{separator}{low}{high}{trailing}")
    for _ in range(60):
        text = "".join(rng.choice("ab, ") for _ in range(rng.randrange(6)))
        assert constraint.matches(text) == (pattern.fullmatch(text) is not None), text
        assert oracle(constraint, text) == constraint.matches(text)


@settings(PROPERTY, max_examples=60)
@given(st.sampled_from(["a", "ab", "aÿ"]), st.integers(0, 4), st.sampled_from([None, 0, 1, 3]), st.integers(0, 9))
def test_repeat_and_optional(text: str, low: int, more: int | None, count: int) -> None:
    high = None if more is None else low + more
    expected = low <= count and (high is None or count <= high)
    for constraint in (gr.repeat(text, low, high), gr.literal(text).repeat(low, high)):
        assert constraint.matches(text * count) == expected
        assert not constraint.matches(text * max(low, 1) + "x")
    for constraint in (gr.optional(text), gr.literal(text).optional()):
        assert constraint.matches(text * count) == (count <= 1)


def test_empty_nothing_any_text() -> None:
    assert gr.empty().matches("") and not gr.empty().matches(" ")
    assert not gr.nothing().matches("") and not gr.nothing().matches("a")
    assert gr.any_text().matches("") and gr.any_text().matches("a\n\x00ÿ😀\U0010ffff")
    for data in (b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80"):
        assert not gr.any_text().matches(data), "no UTF-8"
        assert not (~gr.nothing()).matches(data)
    assert not gr.any_text().matches("\ud800")


def test_operators_take_strings_on_both_sides() -> None:
    word = gr.regex("[a-z]+")
    assert ("<" + word + ">").matches("<ab>")
    assert ("1" | word | "2").matches("1") and ("1" | word | "2").matches("2") and ("1" | word).matches("q")
    assert ("ab" & word).matches("ab") and not (word & "ab").matches("abc")
    assert gr.sequence("a", word, "b").matches("axb")
    assert gr.sequence().matches("") and not gr.sequence().matches("a")
    assert (~word).matches("1") and not (~word).matches("a")
    assert ~~word == word
    assert word.limited_to(2).matches("ab") and not word.limited_to(2).matches("abc")
    assert gr.literal("ÿ😀").limited_to(2).matches("ÿ😀"), "characters, not bytes"
    assert gr.delimited_list(word, ", ", ".").matches("a, b.")
    assert not gr.delimited_list(word, ", ", ".").matches(".")


def test_special_tokens_are_no_text() -> None:
    constraint = gr.literal("a") + gr.special_token("<x>").optional()
    assert constraint.matches("a") and not constraint.matches("a<x>")


@pytest.mark.parametrize("nested", [3, 40])
def test_nesting(nested: int) -> None:
    constraint: gr.Constraint = gr.literal("x")
    for _ in range(nested):
        constraint = ("(" + constraint + ")").separated_by(",", 1, 2)
    assert constraint.matches("(" * nested + "x" + ")" * nested)
    assert not constraint.matches("(" * nested + "x" + ")" * (nested - 1))


# -- values -----------------------------------------------------------------------------------------
def samples() -> list[gr.Constraint]:
    return [
        gr.literal("a\"'\n€"),
        gr.empty(),
        gr.nothing(),
        gr.any_text(),
        gr.choice(["yes", "no"]),
        gr.regex("[a-z]+", flags="i"),
        gr.literal("a") + gr.choice(["b", "c"]) + "d",
        gr.literal("a") | gr.regex("b+") | "c",
        gr.regex("a+") & gr.regex(".{3}"),
        (gr.literal("a") | "b") & ~gr.literal("b"),
        (gr.literal("a") | "b") + (gr.regex("x") & "x"),
        ~gr.literal("a"),
        gr.literal("ab").repeat(2, 5),
        gr.literal("ab").repeat(),
        gr.regex("a").optional(),
        gr.separated_by("a", ", ", 1, 3, trailing=True),
        gr.text_until("END"),
        gr.text_until("END", include_stop=False),
        gr.substring_of("one", "two"),
        gr.special_token("<x>", 3),
    ]


each = pytest.mark.parametrize("number", range(len(samples())), ids=[repr(c) for c in samples()])


@each
def test_they_are_values(number: int) -> None:
    one, two = samples()[number], samples()[number]
    assert one is not two and one == two and hash(one) == hash(two)
    assert one != "a" and one != gr.literal("something else")
    assert sum(one == other for other in samples()) == 1
    for again in (pickle.loads(pickle.dumps(one)), copy.copy(one), copy.deepcopy(one)):
        assert again == one and hash(again) == hash(one) and repr(again) == repr(one)
    for field in dataclasses.fields(one):  # type: ignore[arg-type]
        with pytest.raises((dataclasses.FrozenInstanceError, AttributeError)):
            setattr(one, field.name, "x")
    with pytest.raises((AttributeError, TypeError)):
        one.anything = 1  # type: ignore[attr-defined]


@each
def test_reprs_can_be_evaluated(number: int) -> None:
    one = samples()[number]
    names: dict[str, Any] = {name: getattr(gr, name) for name in dir(gr) if not name.startswith("_")}
    assert eval(repr(one), names) == one


def test_long_reprs_are_cut() -> None:
    assert len(repr(gr.choice([f"option {i}" for i in range(5000)]))) < 200
    assert "5000" in repr(gr.choice([f"option {i}" for i in range(5000)]))
    assert len(repr(gr.substring_of("x" * 100_000))) < 100


def test_programs_and_guides_are_shared() -> None:
    assert gr.regex("a+b").program() is gr.regex("a+b").program()
    vocabulary = plain([b"a", b"b"])
    one = gr.compile(gr.regex("a+b"), vocabulary)
    assert gr.compile(gr.regex("a+b"), vocabulary) is one
    assert gr.compile(gr.regex("a+b"), vocabulary, cache=False) is not one
    assert gr.compile(gr.regex("a+b"), plain([b"a", b"b"])) is not None
    again = pickle.loads(pickle.dumps(one))
    assert (mask_of(again.matcher()) == mask_of(one.matcher())).all()


# -- errors -----------------------------------------------------------------------------------------
MISTAKES: list[tuple[str, Callable[[], object]]] = [
    ("not-a-constraint", lambda: gr.literal(5)),
    ("not-a-constraint", lambda: gr.literal(b"a")),
    ("not-a-constraint", lambda: gr.literal("a") + 5),
    ("not-a-constraint", lambda: gr.literal("a") | None),
    ("not-a-constraint", lambda: gr.literal("a") & b"a"),
    ("not-a-constraint", lambda: gr.sequence("a", 1)),
    ("not-a-constraint", lambda: gr.repeat(None)),
    ("not-a-constraint", lambda: gr.separated_by("a", 5)),
    ("not-a-constraint", lambda: gr.compile("a+", plain([b"a"]))),
    ("not-a-constraint", lambda: gr.compile(5, plain([b"a"]))),
    ("bad-bound", lambda: gr.repeat("a", -1)),
    ("bad-bound", lambda: gr.repeat("a", 3, 2)),
    ("bad-bound", lambda: gr.repeat("a", 0, -1)),
    ("bad-bound", lambda: gr.repeat("a", 1.5)),
    ("bad-bound", lambda: gr.repeat("a", True)),
    ("bad-bound", lambda: gr.repeat("a", "1")),
    ("bad-bound", lambda: gr.repeat("a", None)),
    ("bad-bound", lambda: gr.separated_by("a", ",", 2, 1)),
    ("bad-bound", lambda: gr.literal("a").limited_to(-1)),
    ("bad-bound", lambda: gr.literal("a").limited_to(None)),
    ("bad-choice", lambda: gr.choice([])),
    ("bad-choice", lambda: gr.choice("yes")),
    ("bad-choice", lambda: gr.choice(["a", 1])),
    ("bad-stop", lambda: gr.text_until("")),
    ("bad-substring", lambda: gr.substring_of()),
    ("bad-substring", lambda: gr.substring_of("a", b"b")),
    ("bad-substring", lambda: gr.substring_of(["a", "b"])),
    ("bad-token", lambda: gr.special_token()),
]


@pytest.mark.parametrize(("code", "make"), MISTAKES)
def test_mistakes(code: str, make: Callable[[], object]) -> None:
    with pytest.raises(CompileError) as caught:
        make()
    assert caught.value.code == code
    assert len(caught.value.message) > 15


@pytest.mark.parametrize(
    "make",
    [
        lambda t: gr.literal(t),
        lambda t: gr.choice(["a", t]),
        lambda t: gr.substring_of(t),
        lambda t: gr.text_until(t),
        lambda t: gr.literal("a") + t,
    ],
)
def test_lone_surrogates_are_shown(make: Callable[[str], object]) -> None:
    with pytest.raises(PatternError) as caught:
        make("ab\ud834c")
    error = caught.value
    assert (error.code, error.span, error.source) == ("lone-surrogate", (2, 3), "ab\ud834c")
    assert "U+D834" in str(error)
    str(error).encode()  # fit to be printed


@pytest.mark.parametrize(
    ("code", "make"),
    [
        ("bad-stop", lambda: gr.text_until(5)),
        ("bad-token", lambda: gr.special_token(None)),
        ("bad-token", lambda: gr.special_token(1.5)),
        ("bad-token", lambda: gr.special_token(-1)),
        ("bad-bound", lambda: gr.repeat("a", 2**70)),
        ("bad-choice", lambda: gr.choice(5)),
        ("bad-choice", lambda: gr.choice(None)),
    ],
)
def test_mistakes_of_type(code: str, make: Callable[[], gr.Constraint]) -> None:
    with pytest.raises(CompileError) as caught:
        make().matches("")
    assert caught.value.code == code


def test_as_written_of_parts_that_are_shared() -> None:
    """Each level has the one below it twice, so 2^60 paths lead to the last."""
    shared: gr.Constraint = gr.literal("q")
    for i in range(60):
        shared = gr.separated_by(shared, shared, 0, 1) if i % 2 else gr.separated_by(shared | "a", shared, 1, 1)
    assert shared.as_written() == shared


TWICE: dict[str, Callable[[gr.Constraint], gr.Constraint]] = {
    "|": lambda c: c | c,
    "&": lambda c: c & c,
    "one of two, and both": lambda c: gr.delimited_subsequence_of([c, "q"], c, min=1) & (c | "q"),
}


@pytest.mark.parametrize("name", TWICE)
def test_operators_share_what_is_on_both_sides(name: str) -> None:
    made: gr.Constraint = gr.literal("q")
    for _ in range(40):
        made = TWICE[name](made)
    assert made.matches("q") and not made.matches("qq")
    assert made.as_written().matches("q")


def test_a_constraint_added_to_itself_again_and_again_exceeds_a_limit() -> None:
    made: gr.Constraint = gr.literal("q")
    for _ in range(40):
        made += made
    with pytest.raises(gr.LimitError):
        made.program()


def test_long_chains_of_operators_are_flat() -> None:
    words = [gr.literal(f"w{i} ") for i in range(5_000)]
    one, all_of_them = reduce(or_, words), reduce(add, words)
    assert one.matches("w4999 ") and not one.matches("w5000 ")
    assert all_of_them.matches("".join(f"w{i} " for i in range(5_000)))


A, B = gr.regex("a+"), gr.regex("b+")


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (A & B, "no text matches both regex('a+') and regex('b+')"),
        ("x" + (A & "ab" & ~B).optional().repeat(1) + (A & B), "both regex('a+') and regex('b+')"),
        (A & gr.regex(".*c|b*") & gr.regex(".*d|[ab]*"), "both regex('a+') and regex('.*c|b*')"),
        (gr.regex("a|b") & gr.regex("b|c") & gr.regex("c|a"), "all of regex('a|b'), regex('b|c'), regex('c|a')"),
        ((A & B) | gr.nothing(), "both regex('a+') and regex('b+')"),
        (gr.separated_by(A, gr.nothing(), 2), "no text matches nothing()"),
        (gr.delimited_subsequence_of(["a", A & B], ",", min=2), "both regex('a+') and regex('b+')"),
        (gr.literal("abc").limited_to(2), "both literal('abc') and repeat(any_character(), 0, 2)"),
        (~gr.any_text() + "x", "no text matches ~(any_text())"),
        (gr.infill(A, before="b"), "no text matches infill(regex('a+'), 'b', '')"),
        (gr.grammar("start: [start] A\nA: /x/") + (A & B), "both regex('a+') and regex('b+')"),
        (gr.special_token("<x>") + (A & B), "both regex('a+') and regex('b+')"),
        ((gr.json_schema({"type": "null"}) & gr.regex(r"\\d")).as_written(), "and regex('\\\\\\\\d')"),
        (A & gr.choice(["b" * 500]), "both regex('a+') and choice(['bbbbbbb"),
    ],
)
def test_the_part_that_nothing_matches(made: gr.Constraint, why: str) -> None:
    vocabulary = gr.Vocabulary([b"a", b"b", b"x", b"<x>"], special_tokens={"<x>": 3}, stop_token_ids=[])
    with pytest.raises(CompileError, match=r"^the constraint matches no text at all, .*: no text matches") as caught:
        gr.compile(made, vocabulary)
    assert caught.value.code == "unsatisfiable" and why in str(caught.value)
    assert len(str(caught.value)) < 400 and not made.matches("a")


@pytest.mark.parametrize(
    ("part", "way_out"),
    [(b"a", "value.decode()"), (None, "gr.empty()"), (3, "gr.literal(str(value))"), (int, "gr.python_type")],
)
def test_what_to_write_in_place_of_a_part(part: Any, way_out: str) -> None:
    with pytest.raises(CompileError, match=re.escape(way_out)):
        gr.literal("a") | part
