"""Integers of any length as text. Python's ``int`` and ``str`` stop at 4,300 digits (`sys.set_int_max_str_digits`)."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

__all__ = ["amount", "clamped", "digits", "integer", "is_digit_limit", "json_text"]

_SHORT = 600  # digits that `int` always reads: the limit cannot be set lower than 640


def integer(text: str) -> int:
    """The integer that decimal digits spell, possibly after a minus sign; in less than quadratic time."""
    if len(text) <= _SHORT:
        return int(text)
    if text[0] == "-":
        return -integer(text[1:])
    half = len(text) // 2
    power: int = 10 ** (len(text) - half)
    return integer(text[:half]) * power + integer(text[half:])


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
    """A JSON value as ``json.dumps`` writes it."""
    try:
        return json.dumps(value, ensure_ascii=ascii_only)
    except ValueError as error:
        if not is_digit_limit(error):
            raise
    if isinstance(value, dict):
        pairs = [f"{json_text(name, ascii_only)}: {json_text(one, ascii_only)}" for name, one in value.items()]
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join([json_text(one, ascii_only) for one in value]) + "]"
    return digits(value)


def is_digit_limit(error: object) -> bool:
    """Whether an error is Python's for an integer of too many digits. Only its text tells."""
    return isinstance(error, ValueError) and str(error).startswith("Exceeds the limit (")
