"""Inputs that could hang, crash or exhaust memory: hostile patterns, huge inputs, small limits. Each ends soon."""

from __future__ import annotations

import os
import random
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import guiderail as gr
from core_support import mask_of, plain
from guiderail import CompileError, GuiderailError, LimitError
from guiderail.constraints.program import build_program
from guiderail.support.nesting import MOST_PARTS, is_plain_json
from guiderail.support.work import spent

WORDS = [
    "ab",
    "aaaa",
    "aaaaaaaa",
    "xx",
    "xxxx",
    "word",
    " the",
    "ÿ",
    "€",
    "0101",
    "1111",
    "==",
    "\n\n",
    "256",
    "item",
    " number",
]
VOCABULARY = plain([bytes([b]) for b in range(128)] + [w.encode() for w in WORDS])
SOON = 15.0 * float(os.environ.get("GUIDERAIL_SLOWER", "1"))  # seconds of CPU time: four times what the slowest needs


@pytest.fixture(autouse=True)
def soon() -> Iterator[None]:
    start = time.process_time()
    yield
    assert time.process_time() - start < SOON


def generate(guide: gr.Guide, steps: int = 40, seed: int = 1) -> str:
    """Returns a random walk along the masks."""
    rng = random.Random(seed)
    matcher, text = guide.matcher(), b""
    for _ in range(steps):
        allowed = np.flatnonzero(mask_of(matcher)[: VOCABULARY.size - 1])
        if not len(allowed):
            assert matcher.is_accepting()
            break
        token = int(rng.choice(allowed))
        assert matcher.accept_token(token)
        text += VOCABULARY.token_bytes(token)
    return text.decode(errors="ignore")


# -- hostile patterns -------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [
        ("(a|a)*b", "a" * 5000 + "b", "a" * 5000),
        ("(x+x+)+y", "x" * 5000 + "y", "x" * 5000),
        ("(.*.*.*)*=.*", "x" * 3000 + "=" + "x" * 3000, "x" * 6000),
        ("(a*)*b", "a" * 5000 + "b", "a" * 5000 + "c"),
        ("(a|b|ab)*c", "ab" * 2000 + "c", "ab" * 2000),
        ("([a-z]+)*[0-9]", "a" * 5000 + "1", "a" * 5000),
        ("(a?){500}a{500}", "a" * 700, "a" * 499),
        ("((a{0,100}){0,100}){0,100}", "a" * 5000, "a" * 5000 + "b"),
        ("(a{0,50}){0,50}", "a" * 2500, "a" * 2501),
        ("a{0,100000}", "a" * 100_000, "a" * 100_001),
        ("(ab){1000,100000}", "ab" * 1000, "ab" * 999),
        ("[01]*1[01]{12}", "1" + "0" * 12, "0" * 13),
        ("(.{1,30}x){1,30}", "aax" * 20, "aa" * 20),
        (r"(\w+\s?)+!", "word " * 800 + "!", "word " * 800),
        ("(a|aa|aaa|aaaa)+b", "a" * 2000 + "b", "a" * 2000),
        ("(?=.*a)(?=.*b)(?!.*cc).{2,40}", "xa" + "b" * 20, "x" * 20),
        (r"(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)(?:\.(?!$)|$)){4}", "192.168.1.1", "192.168.1."),
    ],
)
def test_hostile_patterns(pattern: str, good: str, bad: str) -> None:
    constraint = gr.regex(pattern)
    assert constraint.matches(good)
    assert not constraint.matches(bad)
    guide = gr.compile(constraint, VOCABULARY, cache=False)
    generate(guide)
    assert guide.memory_size_bytes() < 5_000_000


def test_a_deterministic_automaton_would_explode() -> None:
    """[01]*1[01]{20} has two million deterministic states; a text visits a few of them."""
    constraint = gr.regex("[01]*1[01]{20}")
    rng = random.Random(1)
    text = "".join(rng.choice("01") for _ in range(60))
    assert constraint.matches(text) == (text[-21] == "1")
    guide = gr.compile(constraint, VOCABULARY, cache=False)
    generate(guide, 20)
    assert guide.memory_size_bytes() < 5_000_000


@pytest.mark.parametrize(
    "pattern", ["a{0,100000}", "(a{0,50}){0,50}", ".{0,4000}", "(ab?){3,9999}", "(?:[a-z]+ ){0,500}"]
)
def test_counters_take_little_memory(pattern: str) -> None:
    guide = gr.compile(gr.regex(pattern), VOCABULARY, cache=False)
    assert guide.memory_size_bytes() < 500_000
    generate(guide, 200)
    assert guide.memory_size_bytes() < 2_000_000


# -- depth ------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "make",
    [
        lambda: gr.regex("(" * 10_000 + "a" + ")" * 10_000),
        lambda: gr.regex("(?:" * 10_000 + "a" + ")*" * 10_000),
        lambda: gr.regex("(?=" * 3_000 + "a" + ")" * 3_000),
        lambda: gr.regex("[" * 10_000),
        lambda: gr.regex("a" + "|b" * 20_000),
        lambda: gr.regex("a?" * 3_000),
        lambda: gr.regex("(a|b)" * 2_000),
    ],
    ids=["groups", "loops", "looks", "brackets", "alternatives", "optionals", "sequence"],
)
def test_deep_and_long_patterns_end(make: Callable[[], gr.Constraint]) -> None:
    """They compile, or an error gives the reason; they never crash."""
    try:
        constraint = make()
        generate(gr.compile(constraint, VOCABULARY, cache=False), 5)
    except GuiderailError as error:
        assert error.code
        return
    assert not constraint.matches("\x00")


@pytest.mark.parametrize("depth", [500, 3_000, 100_000])
@pytest.mark.parametrize(
    "wrap",
    [
        lambda c: gr.repeat(c, 0, 2) + "x",
        lambda c: ~(c + "x"),
        lambda c: gr.separated_by(c, ",", 1, 2),
        lambda c: (c + "a") & gr.any_text(),
    ],
    ids=["repeat", "complement", "list", "intersection"],
)
def test_deep_constraints_end(wrap: Callable[[gr.Constraint], gr.Constraint], depth: int) -> None:
    constraint = gr.literal("a")
    for _ in range(depth):
        constraint = wrap(constraint)
    try:
        build_program(constraint)
    except GuiderailError as error:
        assert error.code in ("depth", "fuel", "unsatisfiable")
    assert depth < 100_000 or _is_refused(constraint)


def _is_refused(constraint: gr.Constraint) -> bool:
    with pytest.raises(GuiderailError) as caught:
        build_program(constraint)
    return caught.value.code == "depth"


# -- size -------------------------------------------------------------------------------------------
def test_long_literals() -> None:
    text = "the quick brown fox ÿ€😀 " * 5_000
    constraint = gr.literal(text)
    assert constraint.matches(text)
    assert not constraint.matches(text[:-1])
    guide = gr.compile(constraint, VOCABULARY, cache=False)
    matcher = guide.matcher()
    assert matcher.accept_string(text[:60_000])
    assert mask_of(matcher).any()
    assert guide.memory_size_bytes() < 60_000_000


def test_a_choice_of_100_000_strings() -> None:
    options = [f"item number {i * 7919 % 1_000_003} of {i % 97}" for i in range(100_000)]
    constraint = gr.choice(options)
    assert all(constraint.matches(option) for option in options[::1000])
    assert not constraint.matches(options[5] + "x")
    generate(gr.compile(constraint, VOCABULARY, cache=False))


def test_a_choice_of_10_000_strings_costs_little_work() -> None:
    options = [f"item number {i * 7919 % 1_000_003}" for i in range(10_000)]
    constraint = gr.choice(options)
    build_program(constraint)
    before = spent()
    build_program(constraint)
    assert spent() - before < 500_000


def test_substrings_of_a_megabyte() -> None:
    rng = random.Random(2)
    text = "".join(rng.choice("abcdefgh ÿ\n") for _ in range(950_000))
    program = build_program(gr.substring_of(text))
    for _ in range(200):
        start = rng.randrange(len(text))
        part = text[start : start + rng.randrange(50)]
        assert program.is_nullable(program.derivative(program.root, part.encode()))
    assert not program.derivative(program.root, b"abcz")
    assert program.memory_size_bytes() < 500_000_000


def test_substrings_of_too_much() -> None:
    with pytest.raises(LimitError) as caught:
        build_program(gr.substring_of("x" * 4_000_001))
    assert caught.value.code == "memory"


# -- limits -----------------------------------------------------------------------------------------
HARD = ~gr.regex(".*a.{5}b.*") & gr.regex("[abc]*") & ~gr.regex(".*b.{4}[ac].*") & gr.regex(".*c.{3}a.*c.{4}b")


def test_little_fuel_is_a_limit_error_and_nothing_changes() -> None:
    try:
        guide = gr.compile(HARD, VOCABULARY, cache=False, fuel=3)
    except LimitError as error:
        assert error.code == "fuel" and "fuel" in str(error)
        return
    matcher = guide.matcher()
    rng = random.Random(3)
    for _ in range(60):
        before = (matcher.state, matcher.history())
        try:
            mask = mask_of(matcher)
            assert matcher.accept_token(int(rng.choice(np.flatnonzero(mask))))
        except LimitError as error:
            assert error.code == "fuel" and "fuel" in str(error)
            assert (matcher.state, matcher.history()) == before
            with pytest.raises(LimitError):
                mask_of(matcher)  # and again: never a guess
            matcher.rollback(len(before[1]))
            return
    pytest.fail("three states were enough")


def test_enough_fuel_decides() -> None:
    generate(gr.compile(HARD, VOCABULARY, cache=False), 30)


def test_max_nodes_is_a_limit_error() -> None:
    with pytest.raises(LimitError) as caught:
        gr.compile(gr.literal("abcdefgh" * 1000), VOCABULARY, max_nodes=2000)
    assert caught.value.code == "nodes" and "max_nodes" in str(caught.value)


def test_max_nodes_reached_while_generating() -> None:
    guide = gr.compile(gr.regex("[01]*1[01]{14}"), VOCABULARY, cache=False, max_nodes=300)
    matcher = guide.matcher()
    rng = random.Random(4)
    with pytest.raises(LimitError) as caught:
        for _ in range(2000):
            before = (matcher.state, matcher.history())
            mask = mask_of(matcher)
            assert matcher.accept_token(int(rng.choice([t for t in (48, 49) if mask[t]])))
    assert caught.value.code == "nodes"
    assert (matcher.state, matcher.history()) == before
    matcher.reset()
    assert matcher.accept_string("1")


@pytest.mark.parametrize(
    "constraint",
    [
        gr.regex("a") & gr.regex("b"),
        gr.nothing(),
        gr.regex("(?=a)b"),
        gr.regex("a{3}").limited_to(2),
        gr.any_text() & ~gr.any_text(),
        gr.literal("x") + gr.nothing(),
        gr.regex(".*a") & ~gr.regex(".*a"),
        gr.regex("[ab]{3,}") & gr.regex("[bc]{3,}") & gr.regex(".*a.*"),
        gr.regex(r"a\bb"),
    ],
    ids=repr,
)
def test_unsatisfiable_constraints_are_refused(constraint: gr.Constraint) -> None:
    with pytest.raises(CompileError) as caught:
        gr.compile(constraint, VOCABULARY, cache=False)
    assert caught.value.code == "unsatisfiable"
    assert not constraint.matches("") and not constraint.matches("ab")


def shared(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"a": value, "b": value}
    return value


class Text(str):
    __slots__ = ()


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        *[(value, True) for value in ({}, [], "a", None, True, 1.5, 10**40, [[1]] * 3, {"a": [{"b": None}]})],
        *[(value, False) for value in (Text("a"), {1: 2}, {Text("a"): 1}, {"a": (1,)}, [{"c": Text()}], b"", {1, 2})],
        ([1] * (MOST_PARTS - 1), True),
        ([1] * MOST_PARTS, False),
        (shared(10), True),
        (shared(60), False),
        (OrderedDict(), False),
    ],
)
def test_values_that_are_plain_json(value: object, plain: bool) -> None:
    assert is_plain_json(value) == plain


def test_a_value_that_holds_itself_is_not_plain() -> None:
    value: list[Any] = [1]
    value.append(value)
    assert not is_plain_json(value)
    with pytest.raises(gr.GuiderailError, match="contains itself"):
        gr.json_schema({"const": value})
