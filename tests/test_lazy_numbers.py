"""Numbers that the core reads lazily, against automata made in advance and exact arithmetic."""

from __future__ import annotations

import json
import math
import random
import re
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, strategies as st

import guiderail as gr
from core_support import PROPERTY, plain
from guiderail import _core
from guiderail.errors import LimitError
from guiderail.frontends.json_schema.lowering import number_spelling
from guiderail.frontends.json_schema.lowering.number_spelling import NumberSpelling, Spelling
from guiderail.frontends.json_schema.values.numbers import Numbers
from test_numbers import assert_masks_agree, numbers_sets

between = Numbers.between


def lowered(numbers: Numbers, spelling: NumberSpelling, lazily: bool) -> tuple[_core.Program, bool]:
    """Returns the program, and whether any part of it is lazy."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(number_spelling, "MAX_MODULUS", 0 if lazily else 10**9)
        plan = Spelling(numbers, spelling).build()
    builder = _core.Builder()
    return builder.finish(plan.replay(builder)), bool(plan.lazy)


FAR = st.sampled_from([10**40, 10**40 + 9, -(10**40) + 3, 10**9 + 1, Decimal("1e-12"), Decimal("3.14159"), 99999])


@st.composite
def sets(draw: st.DrawFn) -> Numbers:
    numbers = draw(numbers_sets())
    if draw(st.booleans()):
        numbers = numbers & between(draw(FAR))
    if draw(st.booleans()):
        numbers = numbers & between(None, None, draw(FAR))
    if draw(st.booleans()):
        numbers = numbers & between(multiple_of=draw(st.sampled_from([13.5, 0.07, 33, 77, 97, 997])))
    return numbers


@PROPERTY
@given(
    sets(),
    st.builds(
        NumberSpelling,
        st.sampled_from(["plain", "any"]),
        st.sampled_from([None, None, 1, 2, 4]),
        st.sampled_from([None, None, 0, 1, 3]),
        st.booleans(),
    ),
    st.randoms(use_true_random=False),
)
def test_reads_what_the_automaton_reads(numbers: Numbers, spelling: NumberSpelling, chance: random.Random) -> None:
    try:
        made, _ = lowered(numbers, spelling, False)
    except LimitError:
        return
    read, _ = lowered(numbers, spelling, True)
    for _ in range(4):
        a, b, text = made.root, read.root, ""
        for _ in range(45):
            possible = made.first_bytes(a)
            assert possible == read.first_bytes(b), (numbers, spelling, text)
            assert made.is_nullable(a) == read.is_nullable(b), (numbers, spelling, text)
            if not possible:
                break
            byte = bytes([chance.choice(possible)])
            text += byte.decode()
            a, b = made.derivative(a, byte), read.derivative(b, byte)
        if a and chance.random() < 0.2:
            one, other = made.shortest(a, 200), read.shortest(b, 200)
            assert one is not None and other is not None and len(one) == len(other), (numbers, spelling, text)


# -- large divisors, by arithmetic -----------------------------------------------------------------------------------
def completes(text: str, step: Fraction, gaps: list[Fraction], low: Fraction, high: Fraction) -> bool:
    """Returns whether a plain decimal with this prefix is a multiple of the step, but of no gap, within the bounds."""
    digits = text.lstrip("-")
    sign = -1 if text.startswith("-") else 1
    scale = max(q.denominator.bit_length() for q in (step, *gaps))  # decimals at most
    whole, _, fraction = digits.partition(".")
    if not whole:
        return any(completes(text + d, step, gaps, low, high) for d in "0123456789")
    grown = [0] if "." in digits or whole == "0" else range(45)
    for more in grown:
        start = Fraction(int(whole + fraction) * 10**more, 10 ** len(fraction))
        size = Fraction(10**more, 10 ** len(fraction))
        ends = sorted((sign * start, sign * (start + size)))
        least, most = max(ends[0], low), min(ends[1], high)
        first, last = math.ceil(least / step), math.floor(most / step)
        for k in range(first, min(last, first + 1000) + 1):
            value = k * step
            inside = start <= abs(value) < start + size and value != 0 and (value < 0) == (sign < 0)
            inside = inside or (
                value == start == 0 and low <= 0 <= high and (sign > 0 or step.denominator > 1)
            )  # -0 is not an integer
            fits = len(fraction) <= scale or Fraction(digits) == abs(value)
            if inside and fits and all((value / n).denominator != 1 for n in gaps) and low <= value <= high:
                return True
    return False


@pytest.mark.parametrize(
    ("step", "gaps", "low", "high"),
    [
        (1000000007, [], 0, 10**20),
        (1000000007, [], 10**15, 10**15 + 3 * 10**9),
        (1000000007, [2, 3, 5], -(10**12), 10**12),
        ("86399.97", [], 0, 10**12),
        ("0.000001", ["0.000007"], "0.5", "0.50001"),
        (12012, [24, 9, 5], -(10**6), 10**7),
        ("13.5", [11, 7, 2, 1001], "-99999.5", "12345.25"),
        ("123456789.125", [], 10**30, 10**30 + 10**9),
    ],
)
def test_large_divisors(step: object, gaps: list[object], low: object, high: object) -> None:
    step_, low_, high_ = (Fraction(str(x)) for x in (step, low, high))
    gaps_ = [Fraction(str(n)) for n in gaps]
    numbers = between(low_, None, high_, None, step_)
    for n in gaps_:
        numbers = numbers & ~between(multiple_of=n)
    if step_.denominator == 1:
        numbers = numbers & Numbers.INTEGERS
    program, _ = lowered(numbers, NumberSpelling(exponents=False), True)
    chance = random.Random(7)
    prefix = re.compile(r"(0|-?[1-9][0-9]*|-)?" if step_.denominator == 1 else r"(-?((0|[1-9][0-9]*)(\.[0-9]*)?)?)")
    found = 0
    for _ in range(12):
        state, text = program.root, ""
        for _ in range(34):
            expected = b""
            for byte in b"-.0123456789":
                longer = text + chr(byte)
                if prefix.fullmatch(longer) and completes(longer, step_, gaps_, low_, high_):
                    expected += bytes([byte])
            assert program.first_bytes(state) == expected, text
            try:
                value = Fraction(text)
                assert program.is_nullable(state) == (numbers.contains(value) and text[-1] != ".")
                found += numbers.contains(value)
            except ValueError:
                assert not program.is_nullable(state)
            if not expected:
                break
            byte = bytes([chance.choice(expected)])
            text += byte.decode()
            state = program.derivative(state, byte)
    assert found


@pytest.mark.parametrize(
    ("schema", "valid", "invalid"),
    [
        ({"type": "integer", "multipleOf": 86400}, ["0", "86400", "-172800"], ["1", "86401", "86400.0"]),
        ({"type": "number", "multipleOf": 1234.5678}, ["1234.5678", "2469.1356", "0"], ["1", "1234.56781"]),
        ({"type": "integer", "multipleOf": 20011, "minimum": 30000, "maximum": 50000}, ["40022"], ["20011", "60033"]),
        (
            {"type": "number", "anyOf": [{"multipleOf": 30011}, {"multipleOf": 40009, "maximum": 0}]},
            ["30011", "-40009", "-30011", "0"],
            ["40009", "-70020"],
        ),
        ({"type": "integer", "not": {"multipleOf": 50021}}, ["1", "50020"], ["0", "50021", "-50021"]),
        ({"type": "number", "oneOf": [{"multipleOf": 30011}, {"minimum": 7}]}, ["30012", "7.5", "0"], ["30011", "6"]),
    ],
)
def test_schemas(schema: object, valid: list[str], invalid: list[str]) -> None:
    constraint = gr.json_schema(schema)
    assert [t for t in valid if not constraint.matches(t)] == []
    assert [t for t in invalid if constraint.matches(t)] == []


@pytest.mark.parametrize(
    "numbers",
    [
        between(multiple_of=1000000007),
        between(5, None, 10**12, multiple_of=Decimal("86399.5")),
        ~between(multiple_of=100003) & Numbers.INTEGERS,
        between(-(10**10), None, 10**10, None, 30030) & ~between(multiple_of=8),
    ],
)
def test_masks_and_derivatives_agree(numbers: Numbers) -> None:
    tokens = [bytes([b]) for b in b"0123456789-+.eE"] + [b"%03d" % n for n in range(0, 1000, 7)] + [b".5", b"0.", b"-1"]
    assert_masks_agree(numbers, tokens)


def test_identities_are_those_of_the_language() -> None:
    """Equal sets of numbers have one identity in every arena, different sets have different ones."""

    def identity(numbers: Numbers, text: bytes = b"") -> object:
        program, _ = lowered(numbers, NumberSpelling(exponents=False), True)
        return _core.identity(program, program.derivative(program.root, text))

    one = between(0, multiple_of=20011)
    assert identity(one) == identity(one) is not None
    found = [identity(n) for n in (one, between(0, multiple_of=20021), between(1, multiple_of=20011))]
    found += [identity(one, t) for t in (b"1", b"2", b"12")]
    assert len(set(found)) == len(found)


def test_a_fresh_arena_reads_on() -> None:
    """Guides whose states outgrow their memory start new texts on a copy."""
    tokens = [bytes([b]) for b in b"0123456789"]
    schema = {"type": "integer", "multipleOf": 1000000007, "minimum": 1}
    guide = gr.compile(gr.json_schema(schema), plain(tokens), max_memory=1 << 20)
    for start in range(40):
        matcher = guide.matcher()
        text = str(1000000007 * (10**300 + 7**start))
        assert all(matcher.accept_token(int(c)) for c in text), text
        assert matcher.is_accepting()
    assert json.loads(text) % 1000000007 == 0
