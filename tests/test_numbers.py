"""Sets of numbers and their spellings, against exact arithmetic on every short text."""

from __future__ import annotations

import json
import math
import re
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import example, given, strategies as st

from core_support import PROPERTY, bits_of, plain, words
from guiderail import _core
from guiderail.errors import CompileError, LimitError
from guiderail.frontends.json_schema.lowering import number_spelling
from guiderail.frontends.json_schema.lowering.number_spelling import NumberSpelling, lower_numbers
from guiderail.frontends.json_schema.values.numbers import Numbers
from guiderail.support.caches import clear_caches

ALPHABET = "-+.eE0159"
LONGEST = 6
JSON_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
PLAIN = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?")
INTEGER = re.compile(r"0|-?[1-9][0-9]*")
NORMALISED = re.compile(r"-?([1-9](\.[0-9]+)?|0(\.0+)?)[eE][+-]?[0-9]+")
# Values that scientific notation certainly accepts with a divisor.
TIDY = re.compile(r"-?([1-9](\.([0-9]*[1-9]|0))?|0(\.0+)?)[eE][+-]?[0-9]+")
between = Numbers.between


@lru_cache(maxsize=1)
def short_texts() -> list[tuple[str, Fraction]]:
    """Returns all JSON numbers over the alphabet up to a length, with their values."""
    start = re.compile(r"-?((0|[1-9][0-9]*)(\.[0-9]*)?([eE][+-]?[0-9]*)?)?")
    found, level = [], [""]
    for _ in range(LONGEST):
        level = [t + c for t in level for c in ALPHABET]
        level = [t for t in level if (m := start.match(t)) and m.end() == len(t) and not re.search(r"\.[eE]", t)]
        found += [(t, Fraction(t)) for t in level if JSON_NUMBER.fullmatch(t) and len(t.split("e")[-1]) < 5]
    return found


class Texts:
    """Runs the expression of a set without a vocabulary."""

    def __init__(self, numbers: Numbers, spelling: NumberSpelling | None = None) -> None:
        builder = _core.Builder()
        self.program = builder.finish(lower_numbers(numbers, builder, spelling))

    def __contains__(self, text: str) -> bool:
        p = self.program
        return p.is_nullable(p.derivative(p.root, text.encode()))


def must_be_spelled(text: str, value: Fraction, numbers: Numbers, any_integers: bool) -> bool:
    """Returns whether the documentation promises this text for a member."""
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
            inside = members[value] = numbers.contains(value)
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
    kind = draw(st.integers(0, 6)) if depth else draw(st.sampled_from([0, 1, 2, 6]))
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
    if kind == 6:
        return ~between(multiple_of=draw(STEPS))
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


# -- caps and single values ----------------------------------------------------------------------------------------
@PROPERTY
@given(numbers_sets(depth=1), st.integers(1, 3), st.integers(0, 2))
@example(Numbers.ALL, 1, 0)
@example(~Numbers.value(0), 2, 1)
def test_caps_are_exact(numbers: Numbers, whole: int, fraction: int) -> None:
    """Caps remove the texts that are too long, and no others."""
    free = Texts(numbers)
    capped = Texts(numbers, NumberSpelling(max_integer_digits=whole, max_fraction_digits=fraction))
    alone = {c.low for c in numbers.cells() if c.low == c.high is not None}
    for text, value in short_texts():
        found = re.match(r"-?([0-9]+)\.?([0-9]*)", text)
        assert found is not None
        fits = len(found[1]) <= whole and len(found[2]) <= fraction
        assert (text in capped) == (text in free and (fits or value in alone)), (numbers, text)


@pytest.mark.parametrize(
    ("given_as", "spelled", "refused"),
    [
        (5, ["5"], ["5.0", "05", "5e0", "-5", "50"]),
        (5.0, ["5", "5.0"], ["5.00", "5e0"]),
        (0, ["0"], ["-0", "0.0"]),
        (0.0, ["0", "0.0", "-0.0"], ["-0", "0.00"]),
        (-0.0, ["0", "0.0", "-0.0"], ["00"]),
        (0.1, ["0.1"], ["0.10", "1e-1", ".1"]),
        (1e-07, ["1e-07", "0.0000001"], ["1e-7", "1e-08"]),
        (1e16, ["1e+16", "10000000000000000", "10000000000000000.0"], ["1e16"]),
        (10**16, ["10000000000000000"], ["1e+16"]),
        (Decimal("0.1000000000000000000000001"), ["0.1000000000000000000000001"], ["0.1"]),
        (18446744073709551615, ["18446744073709551615"], ["18446744073709551616", "1.8446744073709552e+19"]),
        (5e-324, ["5e-324", "0." + "0" * 323 + "5"], ["0.0"]),
        (-1.5, ["-1.5"], ["1.5", "-1.50"]),
    ],
)
def test_a_value_alone(given_as: float, spelled: list[str], refused: list[str]) -> None:
    texts = Texts(Numbers.value(given_as))
    assert all(t in texts for t in spelled)
    assert not any(t in texts for t in refused)
    plain = Texts(Numbers.value(given_as), NumberSpelling(exponents=False))
    assert [t for t in spelled if t in plain] == [t for t in spelled if "e" not in t]


def test_a_value_alone_is_remembered_as_a_float_only_while_alone() -> None:
    assert Numbers.INTEGERS | Numbers.value(5.0) == Numbers.INTEGERS
    assert Numbers.value(5.0) != Numbers.value(5)
    assert Numbers.value(5.0) & Numbers.INTEGERS == Numbers.value(5.0)
    assert Numbers.value(5.0) & ~Numbers.value(5) == Numbers.NONE


def test_integers_in_any_form() -> None:
    any_form = NumberSpelling(integers="any")
    texts = Texts(Numbers.INTEGERS, any_form)
    for text in ["1", "1.0", "10.00", "1e2", "1.2e1", "1.0E10", "-3.0", "0", "-0.0", "1e308", "1.2345e+4", "0e5"]:
        assert text in texts, text
    for text in ["1.5", "1e-1", "1.25e1", "12e", "1.2345e3"]:
        assert text not in texts, text
    one = Texts(Numbers.value(10), any_form)
    assert all(t in one for t in ["10", "10.0", "1e1", "1.0e+01"]) and "1.1e1" not in one


# -- what json.dumps writes ----------------------------------------------------------------------------------------
FLOATS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([0.0, -0.0, 1e308, -1e308, 5e-324, 1e16, 1e-7, 0.1, 1 / 3, 972783798187987123879878123.18878137]),
)


@PROPERTY
@given(st.one_of(FLOATS, st.integers(-(10**25), 10**25)), FLOATS, st.booleans(), st.integers(-2, 2))
def test_floats_beside_bounds(bound: float, value: float, exclusive: bool, near: int) -> None:
    """Every float, and the neighbours of the bound itself, as json.dumps writes them."""
    numbers = between(None, bound) if exclusive else between(bound)
    texts, negated = Texts(numbers), Texts(~numbers)
    neighbour = float(bound)
    for _ in range(abs(near)):
        neighbour = math.nextafter(neighbour, math.inf if near > 0 else -math.inf)
    for v in (value, bound, neighbour):
        if math.isfinite(v):
            text = json.dumps(v)
            assert (text in texts) == (numbers.contains(v)) == (numbers.contains(Fraction(text))), (numbers, text)
            assert (text in negated) == (not numbers.contains(v)), (numbers, text)


@PROPERTY
@given(FLOATS, FLOATS, FLOATS)
def test_floats_between(a: float, b: float, value: float) -> None:
    a, b = sorted((a, b))
    texts = Texts(between(a, None, b))
    for v in (value, a, b, (a / 2 + b / 2)):
        assert (json.dumps(v) in texts) == (a <= v <= b) or a == b, (a, b, v)


@PROPERTY
@given(st.integers(1, 60), st.integers(-(10**30), 10**30), st.integers(-(10**12), 10**12), st.integers(0, 10**13))
def test_integers_in_ranges_with_divisors(step: int, value: int, low: int, width: int) -> None:
    numbers = between(low, None, low + width, None, step) & Numbers.INTEGERS
    if numbers.is_empty():
        return
    texts = Texts(numbers)
    multiple = low + value % (width + 1)
    for v in (value, low, low - 1, low + width, low + width + 1, multiple, multiple - multiple % step):
        assert (str(v) in texts) == (low <= v <= low + width and v % step == 0), (low, width, step, v)


@PROPERTY
@given(st.sampled_from(["1e-8", "0.01", "1e-4", "0.07", "2.5", "1.5e-5"]), FLOATS, st.integers(-(10**15), 10**15))
def test_multiples(step: str, value: float, k: int) -> None:
    """Members that json.dumps writes without an exponent, or with more decimals than that."""
    numbers = between(multiple_of=Decimal(step))
    texts = Texts(numbers)
    for v in (value, float(k * Decimal(step)), k):
        text = json.dumps(v)
        assert numbers.contains(Fraction(text)) or text not in texts
        if numbers.contains(Fraction(text)) and ("e" not in text or step in ("1e-8", "1.5e-5")):
            assert text in texts, (step, text)
        plain = format(Decimal(text), "f")
        assert (plain in texts) == (numbers.contains(Fraction(text))), (step, plain)


# -- the algebra ---------------------------------------------------------------------------------------------------
PROBES = sorted({v for _, v in short_texts()[::7]} | {Fraction(n, d) for n in range(-24, 25) for d in (1, 2, 20)})


@PROPERTY
@given(numbers_sets(), numbers_sets())
@example(~between(multiple_of=2), ~between(multiple_of=3))
@example(between(multiple_of=2) & ~between(multiple_of=3), between(multiple_of=6) | between(0, None, 9))
def test_laws(a: Numbers, b: Numbers) -> None:
    both, either, other = a & b, a | b, ~a
    for v in PROBES:
        assert (both.contains(v)) == (a.contains(v) and b.contains(v))
        assert (either.contains(v)) == (a.contains(v) or b.contains(v))
        assert (other.contains(v)) == (not a.contains(v))
    assert a & ~a is Numbers.NONE and a | ~a == Numbers.ALL
    assert both.is_empty() == (not both.cells())
    assert hash(a & b) == hash(b & a) and a & b == b & a
    assert (a & ~b).is_empty() or a | b != b
    assert a.is_integral() <= all(v.denominator == 1 for v in PROBES if a.contains(v))


@PROPERTY
@given(numbers_sets(), st.integers(-30, 30), st.integers(0, 40))
def test_counting(a: Numbers, low: int, width: int) -> None:
    numbers = a & between(low, None, low + width) & between(multiple_of=Fraction(1, 20))
    grid = [Fraction(low * 20 + i, 20) for i in range(width * 20 + 1)]
    members = tuple(v for v in grid if a.contains(v))
    assert numbers.count() == len(members)
    assert numbers.is_empty() == (not members)


@PROPERTY
@given(numbers_sets())
def test_cells_cover_the_set(numbers: Numbers) -> None:
    for v in PROBES:
        inside = any(
            (c.low is None or v > c.low or (v == c.low and c.low_closed))
            and (c.high is None or v < c.high or (v == c.high and c.high_closed))
            and (c.multiple_of is None or (v / c.multiple_of).denominator == 1)
            and not any((v / n).denominator == 1 for n in c.not_multiple_of)
            for c in numbers.cells()
        )
        assert inside == (numbers.contains(v)), (numbers, v)


def test_normal_forms() -> None:
    integers = Numbers.INTEGERS
    assert ~~integers is integers and ~Numbers.ALL is Numbers.NONE and ~Numbers.NONE is Numbers.ALL
    assert Numbers.values([]) is Numbers.NONE is integers & Numbers.value(0.5)
    assert integers | ~integers == Numbers.ALL and Numbers.ALL.is_all()
    assert between(0) | between(maximum=0) == Numbers.ALL
    assert between(0) & between(maximum=0) == Numbers.value(0)
    assert between(5, maximum=4) == Numbers.NONE == between(5, None, 5, 5) == Numbers.values([])
    assert between(exclusive_minimum=0, exclusive_maximum=1) & integers == Numbers.NONE
    assert between(exclusive_minimum=0, exclusive_maximum=2) & integers == Numbers.value(1)
    assert integers | Numbers.values([0, 1, 7]) == integers
    assert Numbers.values([1, 2, 3]) | between(0, None, 5) == between(0, None, 5)
    gap = between(0.5, maximum=1.5) & integers & ~Numbers.value(1)
    assert gap.is_empty() and gap == Numbers.NONE
    assert between(0, 0) == between(exclusive_minimum=0)
    assert between(multiple_of=4) & between(multiple_of=6) == between(multiple_of=12)
    assert between(multiple_of=4) | integers == integers
    assert between(multiple_of=0.5) & ~integers | integers == between(multiple_of=0.5)
    assert between(multiple_of=Fraction(1, 3)) == integers  # no decimal is a third
    assert between(multiple_of=Fraction(5, 6)) == between(multiple_of=2.5)
    assert not (between(multiple_of=10**10) | between(multiple_of=10**10 + 1)).is_finite()
    assert (between(0, None, 10**12) & (between(multiple_of=10**10) | between(multiple_of=10**10 + 1))).count() == 200
    assert repr(between(0, maximum=1, multiple_of=0.5)) == "Numbers([0, 1] multiple of 1/2)"


# -- known hard cases ----------------------------------------------------------------------------------------------
def test_multiples_of_the_official_suite() -> None:
    tiny = between(multiple_of=1e-8)
    assert tiny.contains(12391239123) and "12391239123" in Texts(tiny) and "1e-08" in Texts(tiny)
    assert "1e-09" not in Texts(tiny)
    small = between(multiple_of=0.0001)
    assert "0.0075" in Texts(small) and "0.00751" not in Texts(small)
    assert not (Numbers.INTEGERS & between(multiple_of=0.123456789)).contains(1e308)
    assert "1e+308" in Texts(Numbers.INTEGERS & between(multiple_of=0.5), NumberSpelling(integers="any"))
    wide = Texts(Numbers.INTEGERS & between(multiple_of=0.123456789))
    assert "123456789" in wide and "123456788" not in wide and "1" not in wide


def test_large_bounds() -> None:
    texts = Texts(between(18446744073709551615) & Numbers.INTEGERS)
    assert "18446744073709551615" in texts and "18446744073709551614" not in texts and "1" + "0" * 500 in texts
    bound = "972783798187987123879878123.18878137"
    texts = Texts(between(exclusive_maximum=Decimal(bound)))
    assert bound not in texts and bound[:-1] in texts and bound[:-1] + "69" in texts and bound + "1" not in texts
    assert "9.7278379818798711e+26" in texts and "9.7278379818798713e+26" not in texts


def test_many_digits_without_recursion() -> None:
    far, near = 10**5000 + 7, Fraction(1, 10**3000)
    texts = Texts(between(near, None, far))
    digits = "1" + "0" * 4999 + "7"
    assert digits in texts and digits[:-1] + "8" not in texts and digits + ".0" in texts and "9" * 5000 in texts
    assert "0." + "0" * 2999 + "1" in texts and "0." + "0" * 3000 + "9" not in texts
    assert "1e5000" in texts and "1.1e5000" not in texts and "1e-3000" in texts and "9e-3001" not in texts


def test_states_stay_few() -> None:
    """The expressions after each sample text: those that a generation can reach."""

    def states(numbers: Numbers) -> int:
        builder = _core.Builder()
        program = builder.finish(lower_numbers(numbers, builder))
        found = {program.root}
        todo = [program.root]
        while todo:
            state = todo.pop()
            for byte in program.first_bytes(state):
                to = program.derivative(state, bytes([byte]))
                if to not in found:
                    found.add(to)
                    todo.append(to)
        return len(found)

    integers = Numbers.INTEGERS
    assert states(integers) == 4
    assert states(between(1) & integers) == 2
    assert states(between(0, maximum=255) & integers) <= 7
    assert states(Numbers.ALL) <= 11
    assert states(between(0, maximum=1)) <= 25
    assert states(between(multiple_of=0.01)) <= 8
    assert states(between(multiple_of=7)) <= 10
    assert states(between(multiple_of=100)) <= 6
    assert states(between(multiple_of=1000)) <= 7
    assert states(between(multiple_of=250, minimum=0)) <= 7


# -- errors --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda: between(float("nan")), "not-a-number"),
        (lambda: between(Decimal("inf")), "not-a-number"),
        (lambda: between(maximum=True), "not-a-number"),
        (lambda: Numbers.value("1"), "not-a-number"),
        (lambda: Numbers.value(Fraction(1, 3)), "not-a-number"),
        (lambda: between(multiple_of=0), "bad-bound"),
        (lambda: between(multiple_of=-2), "bad-bound"),
        (lambda: NumberSpelling(integers="all"), "bad-option"),  # type: ignore[arg-type]
        (lambda: NumberSpelling(max_integer_digits=0), "bad-option"),
        (lambda: NumberSpelling(max_fraction_digits=-1), "bad-option"),
        (lambda: NumberSpelling(max_integer_digits=True), "bad-option"),
        (lambda: NumberSpelling(max_states=0), "bad-option"),
    ],
)
def test_errors(make: object, code: str) -> None:
    with pytest.raises(CompileError) as caught:
        make()  # type: ignore[operator]
    assert caught.value.code == code


def test_limits() -> None:
    for numbers in (between(multiple_of=10**30 + 1), between(10**30000), between(10**500, multiple_of=20011)):
        with pytest.raises(LimitError) as caught:
            Texts(numbers)
        assert caught.value.code == "number-states"
    with pytest.raises(LimitError) as caught:
        between(Decimal("1e-999999"))
    assert caught.value.code == "number-size"
    with pytest.raises(LimitError):
        Texts(between(0, maximum=10**9), NumberSpelling(max_states=5))


def test_membership_of_other_things() -> None:
    assert not Numbers.ALL.contains(True) and not Numbers.ALL.contains("1") and not Numbers.ALL.contains(None)
    assert Numbers.ALL.contains(1) and Numbers.ALL.contains(0.5) and Numbers.ALL.contains(Decimal("1e-7"))
    with pytest.raises(TypeError):
        Numbers()


def test_remembered_plans_are_bounded_and_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = number_spelling._plan
    plans = plan.cache
    plans.clear()
    monkeypatch.setattr(plans, "most_bytes", 60_000)
    first = plan(between(1), NumberSpelling())
    assert plan(between(1), NumberSpelling()) is first
    for n in range(2, 40):
        plan(between(n), NumberSpelling())
        assert 0 < plans.bytes <= 60_000
    assert plan(between(1), NumberSpelling()) is not first
    held = plans.bytes
    big = plan(between(multiple_of=97), NumberSpelling())  # larger than the whole cache
    assert big.count >= 97 and plans.bytes == held
    clear_caches()
    assert not plans.bytes and not len(plans) and not number_spelling._exponent_plan.cache.bytes


def test_a_plan_can_be_played_again_and_by_many_threads_at_once() -> None:
    plan = number_spelling.Spelling(between(-3, None, 1234, multiple_of=7), NumberSpelling()).build()
    plan.close()

    def replayed(_: int = 0) -> str:
        builder = _core.Builder()
        return builder.dump(plan.replay(builder))

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(replayed, range(32)))) == 1
    assert replayed() == replayed()


def assert_masks_agree(numbers: Numbers, tokens: list[bytes]) -> None:
    """Along a walk of twelve tokens, each mask allows exactly the tokens with a derivative."""
    vocabulary = plain(tokens)
    builder = _core.Builder()
    program = builder.finish(lower_numbers(numbers, builder))
    matcher = _core.Matcher(_core.Guide(program, vocabulary.core, {}))
    state = program.root
    for turn in range(12):
        bitmask = np.zeros((1, words(vocabulary.size)), np.int32)
        matcher.fill_next_token_bitmask(bitmask)
        expected = [program.derivative(state, t) for t in tokens]
        assert bits_of(bitmask)[: len(tokens)].tolist() == [e != 0 for e in expected], numbers
        allowed = [i for i, e in enumerate(expected) if e]
        if not allowed:
            assert program.is_nullable(state)
            return
        chosen = allowed[turn * 31 % len(allowed)]
        assert matcher.accept_token(chosen)
        state = expected[chosen]


def test_masks_and_derivatives_agree() -> None:
    """With a vocabulary, through states that are rules."""
    tokens = [bytes([b]) for b in b"0123456789-+.eE"] + [b"%02d" % n for n in range(100)]
    tokens += [b"%03d" % n for n in range(0, 1000, 7)] + [b".0", b".5", b"e-", b"1.", b"-1", b"0.", b"00e1"]
    for numbers in [
        between(multiple_of=7),
        between(multiple_of=0.35),
        between(-90, None, 90),
        between(0, None, Decimal("99999999999.99")),
        between(5, multiple_of=60),
    ]:
        assert_masks_agree(numbers, tokens)
