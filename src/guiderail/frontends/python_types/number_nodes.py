"""Numbers: ``int``, ``float``, ``Decimal``, and which JSON spellings each of them can represent."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

from guiderail.frontends.json_schema.values.numbers import MAX_DECIMAL_EXPONENT, is_far
from guiderail.frontends.python_types.bounds import Bounds, common_multiple, exact
from guiderail.frontends.python_types.errors import unsupported
from guiderail.frontends.python_types.nodes import LARGEST, TEXT, Node, Schemas, call_user, only
from guiderail.support.numerals import digits
from guiderail.support.texts import shown
from guiderail.support.trees import Mismatch, Number, Tree

__all__ = ["Decimals", "Floats", "Integers"]

_MOST = 10**300
_MOST_SPLITS = 28  # of the digits of a Decimal: a step has no more digits
_WHOLE_FLOATS = 2**53  # up to here a float is the number that its digits say, if that has few binary places
# pydantic lets a float differ from a multiple by 1e-9. Its rounding, and that of the divisor times the quotient, stay
# within half of that each up to here: 2**22 * 2**-53 = 4.7e-10.
_PYDANTIC_MULTIPLES = 2**22
_MOST_EXPONENT = 999_999  # of the usual context of ``decimal``

_FLOAT_KEY = re.compile(r"-?(?:0|[1-9][0-9]{0,15})(?:\.[0-9]{1,16})?", re.ASCII)
MAX_KEY_DIGITS = 300
"""Digits of an int as a key of a dict."""


@dataclass
class _Numeric(Node):
    bounds: Bounds = field(default_factory=Bounds)
    make: Callable[[Any], Any] | None = None  # a subclass of int, float …
    kinds = frozenset({"number"})

    def constrained(self, bounds: Bounds) -> Node:
        if not only(bounds, "gt", "ge", "lt", "le", "multiple_of", "by_pydantic"):
            return super().constrained(bounds)
        if not all(isinstance(b, int | float | Decimal | Fraction) for b in _stated(bounds)):
            raise unsupported(f"a bound of {self.name}", "must be a number", "type-metadata")
        return replace(self, bounds=self.bounds & bounds)

    def within(self, value: Any) -> None:
        """Raises Mismatch if a bound does not hold."""
        b = self.bounds
        for bound, holds, words in (
            (b.gt, b.gt is None or value > b.gt, "above"),
            (b.ge, b.ge is None or value >= b.ge, "at least"),
            (b.lt, b.lt is None or value < b.lt, "below"),
            (b.le, b.le is None or value <= b.le, "at most"),
        ):
            if not holds:
                raise Mismatch(f"is {_worded(value)}, not {words} {_worded(bound)}")

    def multiple(self, value: Fraction | int | Decimal) -> None:
        step = self.bounds.multiple_of
        if step is None or not value:
            return
        far = isinstance(value, Decimal) and is_far(value)  # too many digits to divide
        if far or Fraction(value) % exact(step) != 0:
            raise Mismatch(f"is {_worded(value)}, not a multiple of {_worded(step)}")

    def made(self, value: Any) -> Any:
        return value if self.make is None else call_user(self.make, value)


def _worded(value: Any) -> str:
    if type(value) is int:
        return shown(value)
    try:
        return str(value)
    except ValueError:  # a fraction of many digits
        return shown(value)


def _stated(bounds: Bounds) -> list[Any]:
    return [b for b in (bounds.gt, bounds.ge, bounds.lt, bounds.le, bounds.multiple_of) if b is not None]


def _next(bound: Any, towards: float) -> int | float:
    """The next float after a bound."""
    try:
        return math.nextafter(float(bound), towards)
    except OverflowError:  # there is none so far from 0
        beyond: int = math.floor(bound)
        return beyond


def spelled(bound: Any, towards: float = 0.0) -> int | float:
    """A bound as a number in a schema: without rounding, or (``towards`` ±infinity) to a float on that side."""
    value = exact(bound)
    if value.denominator == 1:
        return value.numerator
    if exact(float(value)) == value:
        return float(value)
    if not towards:
        raise unsupported(f"a multiple of {_worded(bound)}", "has no short decimal form", "type-metadata")
    near = float(value)
    return near if (exact(near) > value) == (towards > 0) else math.nextafter(near, towards)


def _finite(bounds: Bounds, name: str) -> Bounds:
    """Without infinite bounds, which have no effect."""
    for side, nothing in (("gt", -math.inf), ("ge", -math.inf), ("lt", math.inf), ("le", math.inf)):
        value = getattr(bounds, side)
        if isinstance(value, float) and math.isinf(value):
            if value != nothing:
                raise unsupported(
                    f"{side}={value} of {name}", "no number that JSON can write satisfies it", "type-metadata"
                )
            bounds = bounds.but(**{side: None})
    return bounds


@dataclass
class Integers(_Numeric):
    """Whole numbers, with at most 4300 digits."""

    name: str = "int"

    def schema(self, out: Schemas) -> dict[str, Any]:
        made: dict[str, Any] = {"type": "integer"}
        b = _finite(self.bounds, self.name)
        # 1e999999999 is short but takes a gigabyte
        lows, highs = ([-_MOST], [_MOST]) if out.exponents else ([], [])
        lows += [math.ceil(exact(b.ge))] if b.ge is not None else []
        lows += [math.floor(exact(b.gt)) + 1] if b.gt is not None else []
        highs += [math.floor(exact(b.le))] if b.le is not None else []
        highs += [math.ceil(exact(b.lt)) - 1] if b.lt is not None else []
        if lows:
            made["minimum"] = max(lows)
        if highs:
            made["maximum"] = min(highs)
        if b.multiple_of is not None:
            made["multipleOf"] = exact(b.multiple_of).numerator  # of its multiples, those that are whole
        return made

    def read(self, tree: Tree) -> Any:
        value = tree.integer() if isinstance(tree, Number) else None
        if value is None:
            raise self.fail(tree)
        self.within(value)
        self.multiple(value)
        return self.made(value)

    def key(self, out: Schemas) -> tuple[dict[str, Any], Callable[[str], Any]]:
        def read(name: str) -> Any:
            if (
                not name.lstrip("-").isdigit()
                or (name.startswith("0") and name != "0")
                or name.startswith(("-0", "--"))
            ):
                raise Mismatch(f"has the key {name[:40]!r}, which is not an int")
            return self.read(Number(name))

        names: dict[str, Any] = {"pattern": f"^(?:0|-?[1-9][0-9]{{0,{MAX_KEY_DIGITS - 1}}})$"}
        if self.bounds != Bounds():
            from guiderail.frontends.json_schema.constraint import json_schema

            names[TEXT] = out.text(json_schema(self.schema(Schemas())))
        return names, read


@dataclass
class Floats(_Numeric):
    """Finite floats.

    Rounding can carry a number onto a bound that it does not reach (1e-400 is above 0, the float it becomes is
    not), so the exclusive bounds of the type are the inclusive ones of the next float in the schema.
    """

    name: str = "float"
    fractional: bool = True
    injective: bool = False

    def schema(self, out: Schemas) -> dict[str, Any]:
        b = _finite(self.bounds, self.name)
        low: Any = -LARGEST
        high: Any = LARGEST
        if b.ge is not None:
            low = max(low, spelled(b.ge, math.inf))
        if b.gt is not None:
            low = max(low, _next(b.gt, math.inf))
        if b.le is not None:
            high = min(high, spelled(b.le, -math.inf))
        if b.lt is not None:
            high = min(high, _next(b.lt, -math.inf))
        if b.by_pydantic and b.multiple_of is not None:
            step = exact(b.multiple_of)
            most = _WHOLE_FLOATS if Fraction(float(step)) == step else _PYDANTIC_MULTIPLES
            low, high = max(low, -most), min(high, most)
        made: dict[str, Any] = {"type": "number", "minimum": low, "maximum": high}
        if b.multiple_of is not None:
            made["multipleOf"] = spelled(b.multiple_of)
        return made

    def read(self, tree: Tree) -> Any:
        if not isinstance(tree, Number):
            raise self.fail(tree)
        value = float(tree.text)
        if math.isinf(value):
            raise Mismatch(f"is beyond the largest float ({tree.text[:40]})")
        self.within(value)
        if self.bounds.multiple_of is not None:
            self.multiple(tree.decimal())
        return self.made(value)

    def key(self, out: Schemas) -> tuple[dict[str, Any], Callable[[str], Any]]:
        if self.bounds != Bounds():
            return super().key(out)

        def read(name: str) -> Any:
            if not _FLOAT_KEY.fullmatch(name):
                raise Mismatch(f"has the key {name[:40]!r}, which is not a float")
            return self.read(Number(name))

        return {"pattern": f"^{_FLOAT_KEY.pattern}$"}, read


@dataclass
class Decimals(_Numeric):
    """Decimals of at most 28 digits before the point (or what digits the type allows)."""

    name: str = "Decimal"
    fractional: bool = True

    def constrained(self, bounds: Bounds) -> Node:
        plain_bounds = replace(bounds, max_digits=None, decimal_places=None)
        made = super().constrained(plain_bounds) if plain_bounds != Bounds() else self
        assert isinstance(made, Decimals)
        places = Bounds(max_digits=bounds.max_digits, decimal_places=bounds.decimal_places)
        return replace(made, bounds=made.bounds & places)

    @property
    def _no_whole(self) -> bool:
        """Whether every digit comes after the point. Then zero is not allowed: it has a digit before the point."""
        b = self.bounds
        return b.max_digits is not None and b.decimal_places is not None and b.max_digits <= b.decimal_places

    def _cells(self) -> list[tuple[int, int | None]]:
        """Pairs (digits before the point, digits after it), one of which must hold: pydantic counts digits this way."""
        b = self.bounds
        if max(b.max_digits or 0, b.decimal_places or 0) > MAX_DECIMAL_EXPONENT:
            raise unsupported(
                f"a Decimal with more than {MAX_DECIMAL_EXPONENT:,} digits", "is not supported", "type-metadata"
            )
        if b.max_digits is None:
            return [(28, b.decimal_places)]
        if b.decimal_places is not None:
            return [(max(0, b.max_digits - b.decimal_places), min(b.decimal_places, b.max_digits))]
        # The most common ones, where a number has too many digits for all.
        places = range(b.max_digits + 1) if b.max_digits <= _MOST_SPLITS else (0, 2)
        return [(b.max_digits - after, after) for after in places]

    def schema(self, out: Schemas) -> dict[str, Any]:
        b = _finite(self.bounds, self.name)
        if b.multiple_of is not None:
            step = exact(b.multiple_of)
        cells: list[dict[str, Any]] = []
        for before, after in self._cells():
            cell: dict[str, Any] = {"exclusiveMinimum": -(10**before), "exclusiveMaximum": 10**before}
            unit = None if after is None else Fraction(1, 10**after)
            if b.multiple_of is not None:
                # pydantic divides with 28 digits
                before = max(0, min(before, 28 - len(digits(math.ceil(1 / step)))))
                cell = {"exclusiveMinimum": -(10**before), "exclusiveMaximum": 10**before}
                unit = step if unit is None else common_multiple(unit, step)
            if unit is not None:
                cell["multipleOf"] = spelled(unit)
            if self._no_whole:
                cell["not"] = {"const": 0}
            for bound, keyword, inner, pick in (
                (b.ge, "minimum", "exclusiveMinimum", max),
                (b.le, "maximum", "exclusiveMaximum", min),
                (b.gt, "exclusiveMinimum", "exclusiveMinimum", max),
                (b.lt, "exclusiveMaximum", "exclusiveMaximum", min),
            ):
                if bound is not None:
                    value = spelled(bound, math.inf if "Min" in inner else -math.inf)
                    cell[keyword] = pick(cell[inner], value) if keyword == inner else value
            cells.append(cell)
        return {"type": "number", **cells[0]} if len(cells) == 1 else {"type": "number", "anyOf": cells}

    def read(self, tree: Tree) -> Any:
        if isinstance(tree, str):  # as pydantic writes it; a guide writes a number
            try:
                tree = Number(str(Decimal(tree)))
            except ArithmeticError:
                raise self.fail(tree) from None
        if not isinstance(tree, Number):
            raise self.fail(tree)
        value = tree.decimal()
        if not value.is_finite():
            raise Mismatch("is not finite")
        if value and value.adjusted() > _MOST_EXPONENT:
            raise Mismatch(f"is too large for a Decimal to be computed with ({tree.text[:40]})")
        self.within(value)
        parts = _normal(value)
        assert isinstance(parts.exponent, int)
        after = max(0, -parts.exponent)
        count = max(len(parts.digits) + max(parts.exponent, 0), after)
        if self.bounds.max_digits is not None and count > self.bounds.max_digits:
            raise Mismatch(f"has {count} digits, more than {self.bounds.max_digits}")
        if not value and self._no_whole:
            raise Mismatch("has a digit before the point, where none is allowed")
        if self.bounds.decimal_places is not None and after > self.bounds.decimal_places:
            raise Mismatch(f"has {after} digits after the point, more than {self.bounds.decimal_places}")
        if self.bounds.multiple_of is not None:
            self.multiple(value)
        return self.made(value)

    def within(self, value: Any) -> None:
        b = self.bounds
        changed = {n: Decimal(repr(v)) for n in ("gt", "ge", "lt", "le") if isinstance(v := getattr(b, n), float)}
        super(Decimals, replace(self, bounds=b.but(**changed)) if changed else self).within(value)


def _normal(value: Decimal) -> Any:
    """Like ``normalize``, but without rounding to the precision and the exponents of the context."""
    if not value:
        return Decimal(0).as_tuple()
    sign, written, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    kept = "".join(map(str, written)).rstrip("0") or "0"
    return Decimal((sign, tuple(map(int, kept)), exponent + len(written) - len(kept))).as_tuple()
