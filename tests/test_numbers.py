"""Sets of numbers and their spellings, against exact arithmetic on every short text."""

from __future__ import annotations

import itertools
import json
import math
import re
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from core_support import PROPERTY
from guiderail import _core
from guiderail.errors import CompileError, LimitError
from guiderail.frontends.json_schema.number_spelling import NumberSpelling
from guiderail.frontends.json_schema.numbers import Numbers

ALPHABET = "-+.eE0159"
LONGEST = 6
JSON_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
PLAIN = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?")
INTEGER = re.compile(r"0|-?[1-9][0-9]*")
NORMALISED = re.compile(r"-?([1-9](\.[0-9]+)?|0(\.0+)?)[eE][+-]?[0-9]+")
# What scientific notation is sure to take under a divisor.
TIDY = re.compile(r"-?([1-9](\.([0-9]*[1-9]|0))?|0(\.0+)?)[eE][+-]?[0-9]+")
between = Numbers.between


@lru_cache(maxsize=1)
def short_texts() -> list[tuple[str, Fraction]]:
    """All JSON numbers up to a length over the alphabet, with their values."""
    start = re.compile(r"-?((0|[1-9][0-9]*)(\.[0-9]*)?([eE][+-]?[0-9]*)?)?")
    found, level = [], [""]
    for _ in range(LONGEST):
        level = [t + c for t in level for c in ALPHABET]
        level = [t for t in level if (m := start.match(t)) and m.end() == len(t) and not re.search(r"\.[eE]", t)]
        found += [(t, Fraction(t)) for t in level if JSON_NUMBER.fullmatch(t) and len(t.split("e")[-1]) < 5]
    return found


class Texts:
    """The expression of a set, run without a vocabulary."""

    def __init__(self, numbers: Numbers, spelling: NumberSpelling | None = None) -> None:
        builder = _core.Builder()
        self.program = builder.finish(numbers.lower(builder, spelling))

    def __contains__(self, text: str) -> bool:
        p = self.program
        return p.is_nullable(p.derivative(p.root, text.encode()))


def must_be_spelled(text: str, value: Fraction, numbers: Numbers, any_integers: bool) -> bool:
    """Whether the documentation promises this text of a member."""
    for cell in numbers.cells():
        if cell.low is not None and (value < cell.low or (value == cell.low and not cell.low_closed)):
            continue
        if cell.high is not None and (value > cell.high or (value == cell.high and not cell.high_closed)):
            continue
        step = cell.multiple_of
        if (step is not None and (value / step).denominator != 1) or any(
            (value / n).denominator == 1 for n in cell.not_multiple_of
        ):
            continue
        integral = cell.low == cell.high is not None or (step is not None and step.denominator == 1)
        if integral and not any_integers:
            promised = INTEGER if value.denominator == 1 else re.compile("(?!)")
        elif cell.low == cell.high is not None and value.denominator != 1:
            promised = re.compile("(?!)")
        elif cell.not_multiple_of or step is not None:
            promised = PLAIN
        elif cell.low == cell.high is None:
            promised = JSON_NUMBER
        else:
            promised = re.compile(f"{PLAIN.pattern}|{NORMALISED.pattern}")
        if promised.fullmatch(text):
            return True
    return False


def check(numbers: Numbers, spelling: NumberSpelling | None = None) -> None:
    texts = Texts(numbers, spelling)
    any_integers = spelling is not None and spelling.integers == "any"
    members: dict[Fraction, bool] = {}
    for text, value in short_texts():
        inside = members.get(value)
        if inside is None:
            inside = members[value] = value in numbers
        spelled = text in texts
        assert inside or not spelled, (numbers, text)
        if inside and not spelled:
            assert not must_be_spelled(text, value, numbers, any_integers), (numbers, text)


VALUES = st.one_of(
    st.integers(-20, 20),
    st.sampled_from([0.5, 0.1, -0.5, 1.5, 55, 91, 100, 155, -100, 0.05, 9.5, 5e4, 1e-3, 0.015, 1000, 10**5, -1e-3]),
)
STEPS = st.sampled_from([1, 2, 3, 5, 7, 10, 0.5, 0.1, 0.05, 0.25, 2.5, 1.5, 0.01, 0.3, 1e-5, 100, 60, 15])


@st.composite
def numbers_sets(draw: st.DrawFn, depth: int = 2) -> Numbers:
    kind = draw(st.integers(0, 5)) if depth else draw(st.integers(0, 2))
    if kind == 0:
        ends = {
            name: draw(VALUES)
            for name in ("minimum", "exclusive_minimum", "maximum", "exclusive_maximum")
            if draw(st.integers(0, 2)) == 0
        }
        return between(**ends)
    if kind == 1:
        return between(multiple_of=draw(STEPS))
    if kind == 2:
        return Numbers.values(draw(st.lists(VALUES, max_size=3)))
    if kind == 3:
        return ~draw(numbers_sets(depth=depth - 1))
    a, b = draw(numbers_sets(depth=depth - 1)), draw(numbers_sets(depth=depth - 1))
    return a & b if kind == 4 else a | b


@PROPERTY
@given(numbers_sets(), st.booleans())
@example(Numbers.ALL, False)
@example(Numbers.INTEGERS, False)
@example(Numbers.INTEGERS, True)
@example(between(0, None, 1), False)
@example(between(exclusive_minimum=0) & ~Numbers.INTEGERS, False)
@example(~Numbers.value(0), False)
@example(~Numbers.value(0.1), True)
def test_texts(numbers: Numbers, any_integers: bool) -> None:
    check(numbers, NumberSpelling(integers="any") if any_integers else None)
