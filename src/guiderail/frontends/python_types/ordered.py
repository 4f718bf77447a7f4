"""Strings before or after a given one: bounds of dates and times by their digits.

``2024-02-29T12:00:00.5`` and its like have fixed places, except for the fraction of a second, so that they are ordered
as their values are, character by character. A bound becomes a pattern that fixes a prefix of it and lets the next
digit differ. Which of these strings are dates at all is another pattern's business.
"""

from __future__ import annotations

__all__ = ["between"]


def between(side: str, limit: str, suffix: str = "") -> str:
    """A pattern of the strings on one side of ``limit``.

    Args:
        side: ``"gt"``, ``"ge"``, ``"lt"`` or ``"le"``.
        limit: digits and separators; a fraction of at most six digits may follow ``.``.
        suffix: the text after the digits (``"Z"``).
    """
    clock = ":" in limit
    head, _, fraction = limit.partition(".")
    fraction = fraction.rstrip("0")
    rest = r"[0-9:.T-]*"
    upwards = side in ("gt", "ge")
    ways: list[str] = []
    for place, digit in enumerate(head):
        if digit.isdigit():
            other = _above(digit) if upwards else _below(digit)
            if other:
                ways.append(_literal(head[:place]) + other + rest)
    if not clock:
        if side in ("ge", "le"):
            ways.append(_literal(head))
        return _joined(ways, suffix)
    start = _literal(head)
    for place, digit in enumerate(fraction):
        other = _above(digit) if upwards else _below(digit)
        if other:
            ways.append(rf"{start}\.{fraction[:place]}{other}[0-9]*")
    if upwards:
        # the same digits and then anything not zero
        ways.append(rf"{start}\.{fraction}0*[1-9][0-9]*")
    else:
        # a fraction that stops early, or continues with zeros only
        ways += [rf"{start}\.{fraction[:place]}" for place in range(1, len(fraction))]
        if fraction:
            ways.append(start)
    if side in ("ge", "le"):
        ways.append(rf"{start}\.{fraction}0*" if fraction else rf"{start}(?:\.0+)?")
    return _joined(ways, suffix)


def _joined(ways: list[str], suffix: str) -> str:
    # no way at all: an empty class would be a syntax error, so a look-ahead that never holds
    return f"(?:{'|'.join(ways)}){suffix}" if ways else "(?!)"


def _above(digit: str) -> str:
    return f"[{int(digit) + 1}-9]" if digit != "9" else ""


def _below(digit: str) -> str:
    return f"[0-{int(digit) - 1}]" if digit != "0" else ""


def _literal(text: str) -> str:
    return text.replace(".", r"\.")
