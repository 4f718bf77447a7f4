"""Numbers of any size as text.

Python's ``int`` and ``str`` stop at 4,300 digits (`sys.set_int_max_str_digits`), and its floats at 1.8e308.
"""

from __future__ import annotations

import json
import math
from decimal import Decimal
from typing import Any

__all__ = [
    "Beyond",
    "amount",
    "clamped",
    "digits",
    "is_digit_limit",
    "json_text",
    "read_float",
    "read_integer",
    "read_json",
    "refuse_constant",
]

_FAR = 5_000  # exponents from here on are as good as this one, for a comparison with bounds
_SHORT = 600  # digits that `int` always reads: the limit cannot be set lower than 640


def read_integer(text: str) -> int:
    """The integer that decimal digits spell, possibly after a minus sign; in less than quadratic time."""
    if len(text) <= _SHORT:
        return int(text)
    if text[0] == "-":
        return -read_integer(text[1:])
    half = len(text) // 2
    power: int = 10 ** (len(text) - half)
    return read_integer(text[:half]) * power + read_integer(text[half:])


class Beyond(float):
    """A number that no float can hold: infinite, as `json.loads` reads it, but written as it was read."""

    text: str


def read_float(text: str) -> float:
    """The float that a JSON number spells, or a :class:`Beyond`."""
    value = float(text)
    if math.isfinite(value):
        return value
    made = Beyond(value)
    made.text = text
    return made


def _decimal(text: str) -> Decimal:
    mantissa, _, exponent = text.lower().partition("e")
    return Decimal(f"{mantissa}e{clamped(exponent or '0', _FAR)}")


def refuse_constant(text: str) -> Any:
    """For ``json.loads(…, parse_constant=refuse_constant)``: ``NaN`` and ``Infinity`` are not JSON.

    Raises:
        ValueError: always.
    """
    raise ValueError(f"{text} is not JSON")


def read_json(text: str, exact: bool = False) -> Any:
    """A value from its JSON text.

    Args:
        text: JSON; unlike for `json.loads`, ``NaN`` and ``Infinity`` are not.
        exact: numbers with a point or an exponent are decimals, as long as their exponent is moderate, not floats.

    Raises:
        ValueError: it is not JSON.
        RecursionError: it is nested too deeply.
    """
    return json.loads(
        text, parse_int=read_integer, parse_float=_decimal if exact else read_float, parse_constant=refuse_constant
    )


def clamped(text: str, most: int) -> int:
    """The integer that decimal digits spell, possibly after a sign. Where it is larger than ``most``: ``most + 1``, or
    its negative. Time is linear."""
    negative = text.startswith("-")
    found = text.lstrip("+-").lstrip("0") or "0"
    size = int(found) if len(found) <= len(str(most)) else most + 1
    size = min(size, most + 1)
    return -size if negative else size


def digits(value: int) -> str:
    """An integer in decimal digits."""
    return str(value) if value.bit_length() < 2_000 else f"{Decimal(value):f}"


def amount(value: int) -> str:
    """An integer for a message: with commas, or its size if it is enormous."""
    return f"{value:,}" if value.bit_length() <= 512 else f"{'-' * (value < 0)}2^{value.bit_length() - 1:,} or more"


def json_text(value: Any, ascii_only: bool = False) -> str:
    """A JSON value as ``json.dumps`` writes it; a number that no float can hold as it was read."""
    try:
        return json.dumps(value, ensure_ascii=ascii_only, allow_nan=False)
    except ValueError as error:
        if not is_digit_limit(error) and not str(error).startswith("Out of range float"):
            raise
    if isinstance(value, dict):
        names = [json.dumps({name: None}, ensure_ascii=ascii_only)[1:-7] for name in value]
        pairs = [f"{name}: {json_text(one, ascii_only)}" for name, one in zip(names, value.values(), strict=True)]
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join([json_text(one, ascii_only) for one in value]) + "]"
    if isinstance(value, float):
        return value.text if isinstance(value, Beyond) else json.dumps(value)
    return digits(value) if isinstance(value, int) else json.dumps(value, ensure_ascii=ascii_only)


def is_digit_limit(error: object) -> bool:
    """Whether an error is Python's for an integer of too many digits. Only its text tells."""
    return isinstance(error, ValueError) and str(error).startswith("Exceeds the limit (")
