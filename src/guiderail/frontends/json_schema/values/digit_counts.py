"""The number of digits of a number: ``minDigits``, ``maxDigits`` and the others that Outlines adds to JSON Schema.

They are bounds on the value: n digits before the point mean at least 10 to the power of n - 1; digits after the point
mean a multiple of a tenth, hundredth … Zero satisfies every number of digits, as in Outlines.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, Final

from guiderail.frontends.json_schema.values.numbers import Numbers

__all__ = ["DIGIT_COUNTS", "MOST_DIGITS", "with_digits"]

MOST_DIGITS: Final = 1000
_LEAST: Final = ("minDigits", "minDigitsInteger")
_MOST: Final = ("maxDigits", "maxDigitsInteger")
DIGIT_COUNTS: Final = (*_LEAST, *_MOST, "maxDigitsFraction")
"""The keywords."""


def with_digits(schema: Mapping[str, Any], count: Callable[[str], int | None]) -> Numbers:
    """The numbers that a schema's counts of digits allow.

    Args:
        schema: with at least one of the keywords.
        count: reads a keyword as an integer, up to `MOST_DIGITS`.
    """
    found = Numbers.ALL
    for keyword in DIGIT_COUNTS:
        digits = count(keyword) if keyword in schema else None
        if digits is None:
            continue
        if keyword in _LEAST:
            if digits > 1:
                low = 10 ** (digits - 1)
                found &= Numbers.between(None, -1, None, 1) | Numbers.between(low) | Numbers.between(None, None, -low)
        elif keyword in _MOST:
            found &= Numbers.between(None, -(10**digits), None, 10**digits)
        else:
            found &= Numbers.between(multiple_of=Fraction(1, 10**digits))
    return found
