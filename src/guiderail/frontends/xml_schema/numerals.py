"""Integers, decimals and floating-point numbers of XML Schema, with exact bounds.

Numbers are spelled plainly (``-0.5``: no ``+``, no leading zeros, a digit on both sides of the point) unless a pattern
applies to the spelling: then the pattern chooses among all spellings of the lexical space.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from guiderail import _core
from guiderail.frontends.json_schema.lowering.number_digits import digits_of
from guiderail.frontends.json_schema.lowering.number_spelling import NumberSpelling, lower_numbers
from guiderail.frontends.json_schema.values.numbers import Numbers
from guiderail.frontends.xml_schema.temporal import at_least, at_most

__all__ = ["INTEGERS", "Bounds", "decimal", "floating"]

INTEGERS: dict[str, tuple[int | None, int | None]] = {
    "integer": (None, None),
    "nonPositiveInteger": (None, 0),
    "negativeInteger": (None, -1),
    "nonNegativeInteger": (0, None),
    "positiveInteger": (1, None),
    "long": (-(2**63), 2**63 - 1),
    "int": (-(2**31), 2**31 - 1),
    "short": (-(2**15), 2**15 - 1),
    "byte": (-(2**7), 2**7 - 1),
    "unsignedLong": (0, 2**64 - 1),
    "unsignedInt": (0, 2**32 - 1),
    "unsignedShort": (0, 2**16 - 1),
    "unsignedByte": (0, 2**8 - 1),
}
"""Built-in types derived from ``integer``: least and greatest value."""

# A decimal with no more digits survives a round trip, so different ones are different values in the same order.
_EXACT_DIGITS = {"double": 15, "float": 6}

_MOST_STATES = 300
"""More digits are counted by a loop of the core. Up to here, a state for each makes smaller masks."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """An interval; None: unbounded."""

    low: Fraction | None = None
    high: Fraction | None = None
    low_closed: bool = True
    high_closed: bool = True

    def narrowed(self, *, low: Fraction | None = None, high: Fraction | None = None, closed: bool = True) -> Bounds:
        """Within one more bound."""
        old = self
        if low is not None and (old.low is None or (low, not closed) > (old.low, not old.low_closed)):
            old = Bounds(low, old.high, closed, old.high_closed)
        if high is not None and (old.high is None or (high, closed) < (old.high, old.high_closed)):
            old = Bounds(old.low, high, old.low_closed, closed)
        return old

    @property
    def is_open(self) -> bool:
        """Whether an end is excluded."""
        return (self.low is not None and not self.low_closed) or (self.high is not None and not self.high_closed)

    def mirrored(self) -> Bounds:
        low = None if self.high is None else -self.high
        high = None if self.low is None else -self.low
        return Bounds(low, high, self.high_closed, self.low_closed)

    def numbers(self, *, integers: bool = False) -> Numbers:
        return Numbers.between(
            minimum=self.low if self.low_closed else None,
            exclusive_minimum=None if self.low_closed else self.low,
            maximum=self.high if self.high_closed else None,
            exclusive_maximum=None if self.high_closed else self.high,
            multiple_of=1 if integers else None,
        )


def decimal(
    b: _core.Builder,
    bounds: Bounds,
    *,
    integers: bool,
    total_digits: int | None = None,
    fraction_digits: int | None = None,
    every_spelling: bool = False,
) -> int:
    """Decimals, or ``integers``, within bounds.

    ``total_digits`` and ``fraction_digits`` count the digits that are written, without zeros in front (the
    specification does not count zeros at the end either).
    """
    if integers and total_digits is not None and total_digits <= _MOST_STATES:
        most = Fraction(10**total_digits - 1)
        bounds = bounds.narrowed(low=-most, high=most)
        total_digits = None
    counted_fraction = fraction_digits is not None and fraction_digits > _MOST_STATES
    spelling = NumberSpelling(exponents=False, max_fraction_digits=None if counted_fraction else fraction_digits)
    if not every_spelling:
        found = lower_numbers(bounds.numbers(integers=integers), b, spelling)
    else:
        positive = _magnitude(b, bounds, integers, spelling)
        negative = _magnitude(b, bounds.mirrored(), integers, spelling)
        found = b.union([b.concat([b.repeat(b.literal(b"+"), 0, 1), positive]), b.concat([b.literal(b"-"), negative])])
    digit, point = b.byte_class(b"0123456789"), b.repeat(b.literal(b"."), 0, 1)
    sign = b.repeat(b.byte_class(b"+-"), 0, 1)
    parts = [found]
    if total_digits is not None:
        counted = b.repeat(b.concat([digit, point]), 0, total_digits)
        parts.append(b.concat([sign, b.repeat(b.literal(b"0"), 0), point, counted]))
    if fraction_digits is not None and counted_fraction:
        parts.append(b.concat([sign, b.repeat(digit, 0), point, b.repeat(digit, 0, fraction_digits)]))
    return b.intersection(parts) if len(parts) > 1 else found


def _magnitude(b: _core.Builder, bounds: Bounds, integers: bool, spelling: NumberSpelling) -> int:
    """All unsigned spellings of the values from 0 on, within bounds."""
    bounds = bounds.narrowed(low=Fraction(0))
    numbers = bounds.numbers(integers=integers)
    if numbers.is_empty():
        return b.EMPTY
    digit, point = b.byte_class(b"0123456789"), b.literal(b".")
    unsigned = b.repeat(b.byte_class(b"0123456789."), 0)
    zeros = b.repeat(b.literal(b"0"), 0)
    plain = b.intersection([unsigned, lower_numbers(numbers, b, spelling)])
    if integers:
        return b.concat([zeros, plain])
    found = [b.concat([zeros, plain])]
    whole = bounds.numbers(integers=True)
    if not whole.is_empty():
        found.append(b.concat([zeros, b.intersection([unsigned, lower_numbers(whole, b, spelling)]), point]))
    assert bounds.low is not None
    cap = spelling.max_fraction_digits
    if bounds.low < 1 and cap != 0:  # ".5"
        parts = [b.concat([point, b.repeat(digit, 1, -1 if cap is None else cap)])]
        if bounds.low > 0 or not bounds.low_closed:
            parts.append(at_least(b, _fraction(bounds.low), closed=bounds.low_closed))
        if bounds.high is not None and bounds.high < 1:
            parts.append(at_most(b, _fraction(bounds.high), closed=bounds.high_closed))
        found.append(b.intersection(parts))
    return b.union(found)


def _fraction(value: Fraction) -> str:
    return "." + digits_of(value)[1]


def floating(b: _core.Builder, kind: str, bounds: Bounds | None, *, every_spelling: bool, plus_infinity: bool) -> int:
    """``float`` or ``double``; values beyond the type's range become infinite or zero, as the type says.

    A bound is compared with the value as read, which is rounded. Rounding preserves order, so inclusive bounds are
    exact. Under an exclusive bound, numbers have only as many digits as survive rounding.

    Args:
        b: the builder.
        kind: ``"float"`` or ``"double"``.
        bounds: the interval (``NaN`` is in none), or None.
        every_spelling: also allow ``+1``, ``007``, ``1.`` and ``.5``, if there are no bounds.
        plus_infinity: ``+INF`` is in the lexical space (XML Schema 1.1).
    """
    digit = b.byte_class(b"0123456789")
    sign = b.repeat(b.byte_class(b"+-"), 0, 1)
    names = [b"INF", b"-INF", b"NaN"]
    if bounds is None:
        digits, point = b.repeat(digit, 1), b.literal(b".")
        exponent = b.repeat(b.concat([b.byte_class(b"eE"), sign, digits]), 0, 1)
        if every_spelling:
            names += [b"+INF"] if plus_infinity else []
            some = b.concat([digits, b.repeat(b.concat([point, b.repeat(digit, 0)]), 0, 1)])
            number = b.concat([sign, b.union([some, b.concat([point, digits])]), exponent])
        else:
            whole = b.union([b.literal(b"0"), b.concat([b.byte_class(b"123456789"), b.repeat(digit, 0)])])
            number = b.concat([
                b.repeat(b.literal(b"-"), 0, 1), whole, b.repeat(b.concat([point, digits]), 0, 1), exponent
            ])  # fmt: skip
        return b.union([number, b.choice(names)])
    found = [lower_numbers(bounds.numbers(), b, NumberSpelling())]
    if bounds.is_open:
        few = b.repeat(b.concat([digit, b.repeat(b.literal(b"."), 0, 1)]), 1, _EXACT_DIGITS[kind])
        exponent = b.concat([b.byte_class(b"eE"), sign, b.repeat(digit, 1, 1)])
        found = [b.intersection([found[0], b.concat([sign, few, b.repeat(exponent, 0, 1)])])]
    found += [b.literal(b"INF")] if bounds.high is None else []
    found += [b.literal(b"-INF")] if bounds.low is None else []
    return b.union(found)
