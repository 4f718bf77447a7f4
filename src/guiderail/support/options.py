"""Checks options that users pass. A boolean is not a number."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from typing import TypeGuard

from guiderail.errors import CompileError, GuiderailError
from guiderail.support.other_names import instead
from guiderail.support.texts import shown

__all__ = ["MOST_COUNT", "check_bounds", "check_choice", "check_flag", "check_integer", "check_names", "is_real"]

MOST_COUNT = 2**32 - 2  # counts have 32 bits in the core; the last value means "without bound"


def check_integer(
    name: str,
    value: object,
    least: int,
    most: int | None = None,
    *,
    optional: bool = False,
    meaning: str = "",
    error: type[GuiderailError] = CompileError,
    code: str = "bad-bound",
) -> None:
    """Checks that a value is an integer within bounds.

    Args:
        name: the name of the option, for the message.
        value: its value.
        least: the smallest integer allowed.
        most: the largest; None: there is no largest.
        optional: whether None is allowed.
        meaning: what the bounds mean, for the message.
        error: the class of the error.
        code: its code.

    >>> check_integer("n", 0, 1, optional=True)
    Traceback (most recent call last):
    guiderail.errors.CompileError: n must be an integer, 1 or more, or None, not 0 [bad-bound]
    """
    if value is None and optional:
        return
    if isinstance(value, bool) or not isinstance(value, int) or value < least or (most is not None and value > most):
        bounds = f", {least:,} or more" if most is None else f" from {least:,} to {most:,}"
        meant = f" ({meaning})" if meaning else ""
        raise error(f"{name} must be an integer{bounds}{meant}{', or None' * optional}, not {shown(value)}", code=code)


def check_bounds(name: str, min: int, max: int | None) -> None:
    """Checks the least and the largest number of repetitions that ``name`` takes; ``max`` may be None.

    Raises:
        CompileError: ``bad-bound``: one is not a count, or ``max`` is below ``min``.
    """
    check_integer("min", min, 0, MOST_COUNT)
    check_integer("max", max, 0, MOST_COUNT, optional=True)
    if max is not None and max < min:
        raise CompileError(f"{name}: max ({max}) is below min ({min})", code="bad-bound")


def check_flag(name: str, value: object, *, error: type[GuiderailError] = CompileError, code: str) -> None:
    """Checks that a value is True or False."""
    if not isinstance(value, bool):
        raise error(f"{name} must be True or False, not {shown(value)}", code=code)


def check_choice(
    name: str,
    value: object,
    choices: Collection[str],
    *,
    optional: bool = False,
    error: type[GuiderailError] = CompileError,
    code: str,
) -> None:
    """Checks that a value is one of some strings, or None if that is allowed.

    >>> check_choice("layout", "wide", ["compact", "spaced", "free"], code="bad-option")
    Traceback (most recent call last):
    guiderail.errors.CompileError: layout must be 'compact', 'spaced' or 'free', not 'wide' [bad-option]
    """
    if value in choices if isinstance(value, str) else value is None and optional:
        return
    *some, last = map(repr, choices)
    listed = f"{', '.join(some)} or {last}" if some else last
    raise error(f"{name} must be {listed}{', or None' * optional}, not {shown(value)}", code=code)


def check_names(function: str, given: Iterable[str], known: Iterable[str], *, code: str) -> None:
    """Checks that a function has the options that it was given."""
    known = sorted(known)
    for name in given:
        if name not in known:
            raise CompileError(f"{function} has no option {name!r}; {instead(name, known)}", code=code)


def is_real(value: object) -> TypeGuard[float]:
    """Whether a value is a finite number that a float can hold.

    >>> is_real(1), is_real(True), is_real(float("nan")), is_real(10**400)
    (True, False, False, False)
    """
    try:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:
        return False
