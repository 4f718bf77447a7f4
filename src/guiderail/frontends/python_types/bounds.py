"""Collects the metadata in ``Annotated[T, …]``: annotated-types, pydantic's ``Field``, msgspec's ``Meta``, constraints,
descriptions.

Classes are recognized by name and module, so neither library need be installed. Metadata of other libraries is ignored,
as PEP 593 says; unknown metadata of annotated-types or pydantic is rejected.
"""

from __future__ import annotations

import datetime
import math
import re
import typing
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

from guiderail.constraints.constraint import Constraint
from guiderail.errors import LimitError
from guiderail.frontends.json_schema.values.numbers import MAX_DECIMAL_EXPONENT, is_far
from guiderail.frontends.python_types.errors import unsupported
from guiderail.frontends.python_types.rust_patterns import SETTLED, rust_pattern
from guiderail.frontends.regex import regex
from guiderail.support.texts import shown

__all__ = ["Bounds", "common_multiple", "describes_itself", "exact", "gather", "number_bound", "of_re", "tag_of"]

_ORDER = ("gt", "ge", "lt", "le")


@dataclass(frozen=True, slots=True)
class Bounds:
    """Restrictions of one value. Each is None (or empty) if unspecified."""

    gt: Any = None
    ge: Any = None
    lt: Any = None
    le: Any = None
    multiple_of: Any = None
    min_length: int | None = None
    max_length: int | None = None
    max_digits: int | None = None
    decimal_places: int | None = None
    texts: tuple[str | Constraint, ...] = ()  # the string matches all of them; str: an ECMA-262 pattern, searched for
    strip: bool = False  # whitespace at the ends is cut off before lengths are checked
    case: bool = False  # letters are changed to upper or lower case, after all else is checked
    timezone: Any = field(default=...)  # ...: either; None: naive; True: aware
    ascii: bool = False
    by_pydantic: bool = False  # pydantic checks whether floats are multiples
    tag: str | None = None  # the attribute by which pydantic tells alternatives apart
    checks: tuple[Callable[[Any], Any], ...] = ()  # predicates, run on the value that was read
    validators: tuple[Any, ...] = ()  # pydantic's, in the order of the annotation
    description: str | None = None

    def but(self, **changes: Any) -> Bounds:
        """The same bounds, with other values of these fields."""
        return replace(self, **changes)

    def __and__(self, other: Bounds) -> Bounds:
        changes: dict[str, Any] = {}
        for name, pick in (("gt", max), ("ge", max), ("lt", min), ("le", min), ("min_length", max), ("max_length", min),
                           ("max_digits", min), ("decimal_places", min)):  # fmt: skip
            mine, theirs = getattr(self, name), getattr(other, name)
            if theirs is not None:
                try:
                    changes[name] = theirs if mine is None else pick(mine, theirs)
                except TypeError:
                    raise unsupported(
                        f"the bounds {shown(mine)} and {shown(theirs)}",
                        "cannot be compared; give both the same type",
                        "type-metadata",
                    ) from None
        if other.multiple_of is not None:
            if self.multiple_of is not None and self.multiple_of != other.multiple_of:
                changes["multiple_of"] = common_multiple(exact(self.multiple_of), exact(other.multiple_of))
            else:
                changes["multiple_of"] = other.multiple_of
        changes["texts"] = self.texts + other.texts
        changes["strip"] = self.strip or other.strip
        changes["case"] = self.case or other.case
        changes["ascii"] = self.ascii or other.ascii
        changes["by_pydantic"] = self.by_pydantic or other.by_pydantic
        changes["tag"] = self.tag if other.tag is None else other.tag
        changes["checks"] = self.checks + other.checks
        changes["validators"] = self.validators + other.validators
        if other.timezone is not ...:
            if self.timezone is not ... and self.timezone != other.timezone:
                raise unsupported("Annotated", "one constraint requires a time zone and another forbids one")
            changes["timezone"] = other.timezone
        if other.description is not None:
            changes["description"] = other.description
        return replace(self, **changes)


def exact(value: Any) -> Fraction:
    """A bound as the number with its decimal spelling (0.1 is exactly a tenth)."""
    if isinstance(value, float):
        return Fraction(Decimal(repr(value)))
    return Fraction(value)


def common_multiple(a: Fraction, b: Fraction) -> Fraction:
    """The least common multiple."""
    return Fraction(math.lcm(a.numerator, b.numerator), math.gcd(a.denominator, b.denominator))


_PASSED_OVER = {"Strict", "AllowInfNan", "Unit", "Tag", "FailFast", "OnErrorOmit", "SkipValidation",
                "WithJsonSchema", "SkipJsonSchema", "Examples", "PlainSerializer", "WrapSerializer",
                "SerializeAsAny", "Deprecated"}  # fmt: skip
_VALIDATORS = {"AfterValidator", "BeforeValidator", "PlainValidator", "WrapValidator"}
# Classes whose subclasses, defined elsewhere, mean the same.
_INHERITED = {
    *((name, "annotated_types") for name in ("Gt", "Ge", "Lt", "Le", "Interval", "MultipleOf", "MinLen", "MaxLen",
                                             "Len", "Timezone", "Predicate", "Not")),
    *((name, "pydantic") for name in ("FieldInfo", "StringConstraints", *_VALIDATORS)),
}  # fmt: skip
# Attributes of FieldInfo and StringConstraints in addition to the classes of annotated-types.
_GENERAL = {"strict", "allow_inf_nan", "coerce_numbers_to_str", "union_mode", "fail_fast", "regex_engine",
            "ascii_only"}  # fmt: skip


def gather(metadata: Iterable[Any], *, engine: str = "rust-regex") -> Bounds:
    """The bounds that metadata of ``Annotated`` state, in order.

    Args:
        metadata: the metadata.
        engine: how pydantic reads patterns, ``"rust-regex"`` or ``"python-re"``.

    Raises:
        CompileError: a constraint that cannot be enforced (``type-metadata``).
        PatternError: a malformed pattern.
    """
    bounds = Bounds()
    for item in metadata:
        bounds &= _one(item, engine)
    return bounds


def _one(item: Any, engine: str) -> Bounds:
    kind, module = _known_class(item)
    if isinstance(item, str):
        return Bounds(description=item)
    if typing.get_origin(item) is typing.Annotated:
        raise unsupported(f"Annotated[…, {item}]", "is a type of its own, e.g. IsAscii[str]", "type-metadata")
    if isinstance(item, Constraint):
        return Bounds(texts=(item,))
    if kind in ("Doc", "DocInfo") and isinstance(getattr(item, "documentation", None), str):
        return Bounds(description=item.documentation)
    if module == "annotated_types":
        return _annotated_types(item, kind, engine)
    if module == "pydantic":
        return _pydantic(item, kind, engine)
    if (kind, module) == ("Meta", "msgspec"):
        return _msgspec(item)
    if getattr(item, "__is_annotated_types_grouped_metadata__", False) is True:
        return gather(item, engine=engine)
    return Bounds(validators=(item,)) if describes_itself(item) else Bounds()


def _known_class(item: Any) -> tuple[str, str]:
    """The name and the library of the class of an item, or of the bound that it is derived from."""
    kinds = [(kind.__name__, kind.__module__.partition(".")[0]) for kind in type(item).__mro__]
    return next((kind for kind in kinds if kind in _INHERITED), kinds[0])


def _annotated_types(item: Any, kind: str, engine: str) -> Bounds:
    if kind in ("Gt", "Ge", "Lt", "Le", "MultipleOf"):
        name = "multiple_of" if kind == "MultipleOf" else kind.lower()
        return Bounds(**{name: number_bound(name, getattr(item, name))})
    if kind == "MinLen":
        return Bounds(min_length=item.min_length)
    if kind == "MaxLen":
        return Bounds(max_length=item.max_length)
    if kind in ("Interval", "Len"):
        return gather(item, engine=engine)
    if kind == "Timezone":
        if item.tz is None:
            return Bounds(timezone=None)
        if item.tz is ...:
            return Bounds(timezone=True)
        raise unsupported(
            f"Timezone({item.tz!r})", "only Timezone(None) and Timezone(...) can be enforced", "type-metadata"
        )
    if kind in ("Predicate", "Not"):
        return _predicate(item, kind)
    if kind in _PASSED_OVER:
        return Bounds()
    raise unsupported(f"annotated_types.{kind}", "is not known; use a bound, a pattern or a Predicate", "type-metadata")


# Patterns of strings for which a method is true, perhaps not of all of them.
_OF_STRINGS: tuple[tuple[Any, tuple[str, ...]], ...] = (
    (str.isdigit, ("^[0-9]+$",)),
    (str.isdecimal, ("^[0-9]+$",)),
    (str.isnumeric, ("^[0-9]+$",)),
    (str.isalpha, (r"^\p{L}+$", SETTLED)),
    (str.isalnum, (r"^[\p{L}\p{Nd}]+$", SETTLED)),
    (str.islower, (r"^[^\p{Uppercase}\p{Lt}]*\p{Ll}[^\p{Uppercase}\p{Lt}]*$", SETTLED)),
    (str.isupper, (r"^[^\p{Lowercase}\p{Lt}]*\p{Lu}[^\p{Lowercase}\p{Lt}]*$", SETTLED)),
)


def _predicate(item: Any, kind: str) -> Bounds:
    test = item.func
    if kind == "Not":
        return Bounds(checks=(lambda value: not test(value),))
    if test is str.isascii:
        return Bounds(ascii=True)
    for method, texts in _OF_STRINGS:  # the predicate may not be hashable
        if test is method:
            return Bounds(texts=texts)
    return Bounds(checks=(test,))


def number_bound(name: str, value: Any) -> Any:
    """A bound of order or divisor, checked."""
    if isinstance(value, bool) or not isinstance(
        value, int | float | Decimal | Fraction | datetime.date | datetime.time | datetime.timedelta
    ):
        raise unsupported(f"{name}={shown(value)}", "bounds are numbers, dates or times", "type-metadata")
    shows = f"{name}={shown(value)}"
    if isinstance(value, Decimal) and not value.is_finite():
        value = float(value) if value.is_infinite() else math.nan
    if value != value:
        raise unsupported(shows, "nothing compares with NaN", "type-metadata")
    if name == "multiple_of" and not (isinstance(value, int | float | Decimal | Fraction) and 0 < value < math.inf):
        raise unsupported(shows, "the divisor is a finite number above 0", "type-metadata")
    if isinstance(value, Decimal) and is_far(value):
        raise LimitError(
            f"{shows}: the decimal point of a bound is at most {MAX_DECIMAL_EXPONENT:,} digits away; use another",
            code="number-size",
        )
    return value


def _pydantic(item: Any, kind: str, engine: str) -> Bounds:
    if kind == "FieldInfo":
        inner = gather(item.metadata, engine=engine) & tag_of(item)
        inner = inner.but(by_pydantic=inner.multiple_of is not None)
        return replace(inner, description=item.description) if item.description else inner
    if kind == "Discriminator":
        return tag_of(item)
    if kind == "StringConstraints":
        return gather(list(item), engine=engine)
    if kind in _VALIDATORS:
        return Bounds(validators=(item,))
    if kind == "EncodedStr" or kind == "EncodedBytes" or kind == "UuidVersion" or kind == "PathType":
        return Bounds(validators=(item,))
    if kind in _PASSED_OVER:
        return Bounds()
    if hasattr(item, "__dict__") and "GeneralMetadata" in kind:
        return _general(dict(vars(item)), engine)
    if hasattr(item, "__get_pydantic_core_schema__"):
        return Bounds(validators=(item,))
    raise unsupported(f"{kind} of pydantic", "is not known here and would be ignored", "type-metadata")


def _msgspec(item: Any) -> Bounds:
    """``msgspec.Meta``: bounds, lengths, a pattern that ``re`` searches for, whether a time zone is required."""
    names = (*_ORDER, "multiple_of", "min_length", "max_length", "pattern")
    bounds = _general({name: getattr(item, name) for name in names}, "python-re")
    if item.tz is not None:
        bounds = bounds.but(timezone=True if item.tz else None)
    return replace(bounds, description=item.description) if item.description else bounds


def describes_itself(item: Any) -> bool:
    """Whether metadata is code that may make any schema for pydantic, not a class of pydantic that is known here."""
    kind, module = _known_class(item)
    if module == "pydantic" and kind not in ("GetPydanticSchema", "ValidateAs"):
        return False
    return hasattr(item, "__get_pydantic_core_schema__")


def tag_of(item: Any) -> Bounds:
    """The discriminator of a ``Field`` or ``Discriminator``: a name, or a function, which pydantic calls."""
    name = getattr(item, "discriminator", None)
    if type(name).__name__ == "Discriminator":
        return tag_of(name)
    if name is None or isinstance(name, str):
        return Bounds(tag=name)
    return Bounds(validators=(item,))


def of_re(pattern: str, flags: int, mode: str) -> Bounds:
    """The strings that a pattern matches as ``re`` reads it, and with word characters, digits and spaces of ASCII."""
    ascii = regex(pattern, flags=flags & ~re.UNICODE, mode=mode)
    unicode = ascii._in_unicode()  # as `re` reads it
    return Bounds(texts=(ascii,) if unicode is ascii else (ascii, unicode))


def _general(stated: dict[str, Any], engine: str) -> Bounds:
    bounds = Bounds()
    for name, value in stated.items():
        if value is None or name in _GENERAL:
            continue
        if name == "pattern":
            text = value if isinstance(value, str) else value.pattern
            flags = 0 if isinstance(value, str) else value.flags
            if engine == "rust-regex" and isinstance(value, str):
                bounds &= Bounds(texts=rust_pattern(text))
            else:
                bounds &= of_re(text, flags, "search")
        elif name in ("multiple_of", *_ORDER):
            bounds &= Bounds(**{name: number_bound(name, value)})
        elif name in ("max_digits", "decimal_places", "min_length", "max_length"):
            bounds &= Bounds(**{name: value})
        elif name == "strip_whitespace":
            bounds &= Bounds(strip=bool(value))
        elif name in ("to_upper", "to_lower"):
            bounds &= Bounds(case=bool(value))
        else:
            raise unsupported(f"Field({name}={value!r})", "is not known here and would be ignored", "type-metadata")
    return bounds
