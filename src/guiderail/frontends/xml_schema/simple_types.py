"""The strings of simple types. Values are written in normalised form, as ``whiteSpace`` leaves them."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable
from decimal import Decimal
from fractions import Fraction
from typing import Any

from guiderail._core import CharSet
from guiderail.errors import PatternError
from guiderail.frontends.json_schema.values.formats import uris
from guiderail.frontends.regex.charsets import word
from guiderail.frontends.xml_schema import patterns
from guiderail.frontends.xml_schema.characters import (
    ALL_SPACES,
    SPACES,
    Writer,
    legal,
    name_chars,
    name_starts,
    normalized,
)
from guiderail.frontends.xml_schema.facets import (
    NAMES,
    STRINGS,
    TEXTS,
    Gathered,
    collapses,
    gather,
    holds_names,
    white_space,
    within,
)
from guiderail.frontends.xml_schema.namespaces import Prefixes
from guiderail.frontends.xml_schema.numerals import INTEGERS, Bounds, decimal, floating
from guiderail.frontends.xml_schema.temporal import (
    COMPARABLE,
    DURATION_DIGITS,
    at_least,
    at_most,
    in_zone,
    is_within,
    split_zone,
    temporal,
)
from guiderail.support.work import spend

__all__ = ["SimpleTypes", "approximations", "check_patterns", "keeps", "namespaces_of_values", "unsupported"]

_COLON, _BLANK = CharSet([(58, 58)]), CharSet([(32, 32)])
_IDENTIFIERS = {
    "ID": "values of ID differ within a document",
    "IDREF": "an IDREF names an ID of the document",
    "ENTITY": "an ENTITY is declared in a DTD",
}
_DURATIONS = ("duration", "dayTimeDuration", "yearMonthDuration")
_GREATEST = {"float": 3.4028234663852886e38, "double": sys.float_info.max}
_FLOATS = tuple(_GREATEST)


def namespaces_of_values(simple: Any, component: Any) -> set[str]:
    """The namespaces of the names that a schema writes: those enumerated, and the fixed value of the component."""
    namespaces: set[str] = set()

    def seen(namespace: str, local: str) -> str:
        namespaces.add(namespace)
        return local

    listed = [found for found in within(simple) if found.enumeration is not None and holds_names(found.type)]
    values = [(found.type, *one) for found in listed for one in found.enumeration or ()]
    if getattr(component, "fixed", None) is not None:
        values.append((simple, component.fixed, component.schema))
    for kind, text, schema in values:
        _spelled(kind, text, schema, seen)
    return namespaces


def _normalized(simple: Any, text: str) -> str:
    return normalized(text, getattr(simple, "white_space", None))


def _spelled(simple: Any, text: str, schema: Any, name: Callable[[str, str], str]) -> str:
    """A value that a schema writes, normalised; ``name`` writes the names in it, by namespace and local part."""
    text, found = _normalized(simple, text), gather(simple)
    if found.kind in NAMES:
        prefix, _, local = text.rpartition(":")
        return name(schema.namespaces.get(prefix, ""), local)
    if found.kind == "list":
        return " ".join([_spelled(found.base.item_type, item, schema, name) for item in text.split(" ") if item])
    if found.kind == "union":
        first = (one for one in found.base.member_types if one.is_valid(text, namespaces=schema.namespaces))
        member = next(first, None)
        return text if member is None else _spelled(member, text, schema, name)
    return text


def keeps(derived: Any, declared: Any, text: str, schema: Any) -> bool:
    """Whether a value that a schema writes is the same value of a derived type, too."""
    value = _normalized(derived, text)
    return value == _normalized(declared, text) and _is_value(gather(derived), value, schema)


def unsupported(simple: Any) -> list[str]:
    """What a type needs that no automaton can enforce, in words."""
    return list(dict.fromkeys(reason for found in within(simple) for reason in _unsupported(found)))


def _unsupported(found: Gathered) -> list[str]:
    reasons = []
    if found.kind in _IDENTIFIERS:
        reasons.append(_IDENTIFIERS[found.kind])
    if found.kind == "NOTATION" and found.enumeration is None:
        reasons.append("a NOTATION is one of those that the type lists")
    if found.assertions:
        reasons.append("assertions are programs in XPath")
    if found.is_bounded and found.enumeration is None and found.kind in _DURATIONS:
        reasons.append("the digits of durations do not tell their order")
    if found.kind in _FLOATS and found.enumeration is None:
        low, high = ([float(text) for text, _ in bounds] for bounds in (found.low, found.high))
        if math.inf in low or -math.inf in high or any(map(math.isnan, low + high)):
            reasons.append("a bound that leaves no number")
    return reasons


def approximations(simple: Any) -> list[str]:
    """What is left out of the values of a type, in words."""
    return list(dict.fromkeys(reason for found in within(simple) for reason in _approximations(found)))


def _approximations(found: Gathered) -> list[str]:
    reasons = []
    if found.enumeration is not None:
        if found.kind not in (*STRINGS, "union", "list", "anyURI", "NMTOKEN", "NCName", "Name", "QName", "language"):
            reasons.append("enumerated values are spelled as the schema spells them")
    elif found.kind in COMPARABLE or found.kind == "dateTimeStamp":
        if "Year" in found.kind or "date" in found.kind:
            reasons.append("years are 0001 to 9999")
        if found.is_bounded:
            reasons.append("bounded dates and times have a bound's time zone")
    elif found.kind in _DURATIONS:
        reasons.append(f"the numbers of a duration have at most {DURATION_DIGITS} digits")
    elif found.kind in ("float", "double") and found.is_bounded:
        reasons.append("bounded floating-point numbers are plain or in normalised scientific notation")
    elif (found.kind in INTEGERS or found.kind in ("decimal", "float", "double")) and not found.patterns:
        reasons.append("numbers are spelled plainly: without a leading + or needless leading zeros")
    elif found.kind == "anyURI":
        reasons.append("URIs are those of RFC 3987")
    elif found.kind == "base64Binary":
        reasons.append("base64 is written without whitespace")
    elif found.kind == "union" and found.patterns and not collapses(found.base):
        reasons.append("values under a pattern have no spaces that a member of the union would take away")
    elif found.kind == "QName":
        reasons.append("prefixes are those declared at the root")
    return reasons


class SimpleTypes:
    """The strings of simple types, with one writer.

    Attributes:
        writer: for text between tags, or for attributes.
    """

    def __init__(self, writer: Writer, prefixes: Prefixes, max_length: int | None, version: str) -> None:
        self.writer = writer
        self.prefixes = prefixes
        self.max_length = max_length
        self.version = version
        self._known: dict[int, int] = {}

    def texts(self, simple: Any) -> int:
        """The expression of the spelled values of a type; EMPTY if there are none."""
        handle = self._known.get(id(simple))
        if handle is None:
            handle = self._known[id(simple)] = self._made(gather(simple))
        return handle

    def some_text(self, simple: Any) -> tuple[int, bool]:
        """The values of a type except the empty one, and whether the empty one is a value."""
        found, b = gather(simple), self.writer.b
        everything = self.texts(simple)
        if not b.is_nullable(everything):
            return everything, False
        if found.kind in STRINGS and not found.patterns and found.enumeration is None:
            found.min_length = 1  # stated like this, it stays a simple loop
            return self._made(found), True
        return b.intersection([everything, self.writer.repeat(self.writer.any_char(), 1)]), True

    def any_text(self, least: int) -> int:
        """Any characters, at least this many: the text of mixed content between its elements."""
        return self.writer.repeat(self.writer.any_char(), least, -1 if self.max_length is None else self.max_length)

    def value(self, simple: Any, text: str, schema: Any) -> str:
        """A value that a schema writes (fixed, enumerated), in the form that a document needs."""
        return _spelled(simple, text, schema, self.prefixes.qname) if holds_names(simple) else _normalized(simple, text)

    def _made(self, found: Gathered) -> int:
        w = self.writer
        if found.enumeration is not None:
            count = len(found.enumeration)  # each is compared with all others: strings are fast to compare
            spend(20 * count + count * count // 20 if found.kind in TEXTS else 5 * count * count)
            qname = self.prefixes.qname if holds_names(found.type) else None
            values = [
                _spelled(found.type, text, schema, qname) if qname is not None else _normalized(found.type, text)
                for text, schema in found.enumeration
                if found.kind in NAMES or _is_value(found, _normalized(found.type, text), schema)
            ]
            return w.choice(list(dict.fromkeys(values))) if values else w.EMPTY
        base = self._list(found) if found.kind == "list" else self._union(found) if found.kind == "union" else None
        parts = [self._atomic(found) if base is None else base]
        for step in found.patterns:
            parts.append(w.union([self._pattern(pattern) for pattern in step]))
        return parts[0] if len(parts) == 1 else w.intersection(parts)

    def _pattern(self, pattern: str) -> int:
        return patterns.emit(patterns.parse(pattern), self.writer)

    def _list(self, found: Gathered) -> int:
        w = self.writer
        item = self.texts(found.base.item_type)
        if gather(found.base.item_type).kind in (*TEXTS, "anyURI", "union") or w.b.is_nullable(item):
            item = w.intersection([item, w.repeat(w.char_class(legal() - ALL_SPACES), 1)])
        if found.max_length == 0:
            return w.EPSILON if found.min_length == 0 else w.EMPTY
        most = -1 if found.max_length is None else found.max_length - 1
        if most < -1 or -1 < most < found.min_length - 1:
            return w.EMPTY
        some = w.concat([item, w.repeat(w.concat([w.literal(b" "), item]), max(found.min_length - 1, 0), most)])
        return some if found.min_length else w.optional(some)

    def _union(self, found: Gathered) -> int:
        parts = []
        for at, member in enumerate(found.base.member_types):
            e, kind = self.texts(member), gather(member).kind
            if found.patterns and (at or kind == "union") and not collapses(member):
                # An earlier member may take the text without its spaces; then the patterns are about what remains.
                e = self.writer.intersection([e, self._words(ALL_SPACES)])
            parts.append(e)
        return self.writer.union(parts)

    def _words(self, spaces: CharSet, between: CharSet = _BLANK) -> int:
        """Strings whose whitespace is collapsed: words without ``spaces``, with a character ``between`` two of them."""
        w = self.writer
        word = w.repeat(w.char_class(legal() - spaces), 1)
        return w.optional(w.concat([word, w.repeat(w.concat([w.char_class(between), word]), 0)]))

    # -- built-in types
    def _atomic(self, found: Gathered) -> int:
        b, kind = self.writer.b, found.kind
        if kind in TEXTS:
            return self._string(found)
        if kind in INTEGERS or kind == "decimal":
            return self._decimal(found)
        if kind in ("float", "double"):
            bounds = self._bounds(found) if found.is_bounded else None
            return floating(b, kind, bounds, every_spelling=bool(found.patterns), plus_infinity=self.version == "1.1")
        if kind == "boolean":
            return b.choice([b"true", b"false", b"1", b"0"])
        if kind in COMPARABLE or kind == "dateTimeStamp":
            return self._temporal(found)
        if kind in _DURATIONS:
            return temporal(b, kind)
        if kind == "hexBinary":
            pair = b.repeat(b.byte_class(b"0123456789ABCDEFabcdef"), 2, 2)
            return self._times(pair, found.min_length, found.max_length)
        if kind == "base64Binary":
            return self._base64(found)
        if kind == "QName":
            return self._qname()
        if kind == "error":
            return self.writer.EMPTY
        return self._limited(self._name(found), found)

    def _times(self, unit: int, least: int, most: int | None) -> int:
        if most is not None and most < least:
            return self.writer.EMPTY
        return self.writer.repeat(unit, least, -1 if most is None else most)

    def _limited(self, e: int, found: Gathered) -> int:
        """Strings with the length that the facets require."""
        most = found.max_length
        if most is None and found.kind in (*TEXTS, "anyURI") and not found.patterns:
            most = None if self.max_length is None else max(self.max_length, found.min_length)
        if not found.min_length and most is None:
            return e
        return self.writer.intersection([e, self._times(self.writer.any_char(), found.min_length, most)])

    def _string(self, found: Gathered) -> int:
        w = self.writer
        level = white_space(found)
        if level == "collapse":
            # A space of Unicode between two words counts as one character, whether or not it is collapsed.
            spaces, between = _spaces(found), _BLANK if found.patterns else ALL_SPACES - SPACES | _BLANK
            return self._limited(self._words(spaces, between if spaces == ALL_SPACES else _BLANK), found)
        unit = w.any_char()
        if level == "replace":
            others = ALL_SPACES if found.patterns else SPACES
            unit = w.char_class(legal() - (others - _BLANK))
        most = found.max_length
        if most is None and self.max_length is not None and not found.patterns:
            most = max(self.max_length, found.min_length)
        return self._times(unit, found.min_length, most)

    def _name(self, found: Gathered) -> int:
        w, kind = self.writer, found.kind
        starts, chars = name_starts(), name_chars()
        if kind == "anyURI":
            e = w.lower(uris.iri_reference())
            return (
                e if _spaces(found) == SPACES else w.intersection([e, w.repeat(w.char_class(legal() - ALL_SPACES), 0)])
            )
        if kind == "language":
            letters, all_of = CharSet([(65, 90), (97, 122)]), CharSet([(48, 57), (65, 90), (97, 122)])
            more = w.concat([w.literal(b"-"), w.repeat(w.char_class(all_of), 1, 8)])
            return w.concat([w.repeat(w.char_class(letters), 1, 8), w.repeat(more, 0)])
        if kind == "NMTOKEN":
            return w.repeat(w.char_class(chars), 1)
        if kind != "Name":  # NCName and the types derived from it
            starts, chars = starts - _COLON, chars - _COLON
        return w.concat([w.char_class(starts), w.repeat(w.char_class(chars), 0)])

    def _qname(self) -> int:
        w = self.writer
        starts, chars = (name_starts() - _COLON) & word(), (name_chars() - _COLON) & (word() | CharSet([(45, 46)]))
        name = w.concat([w.char_class(starts), w.repeat(w.char_class(chars), 0)])  # xmlschema takes no others
        found = [w.concat([w.literal(prefix.encode() + b":"), name]) for prefix in self.prefixes.declared() if prefix]
        return w.union([name, *found])

    def _base64(self, found: Gathered) -> int:
        b = self.writer.b
        letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
        one = b.byte_class(letters)
        ends = [
            b.EPSILON,
            b.concat([one, b.byte_class(b"AQgw"), b.literal(b"==")]),
            b.concat([one, one, b.byte_class(b"AEIMQUYcgkosw048"), b.literal(b"=")]),
        ]
        parts = []
        for rest, end in enumerate(ends):
            most = None if found.max_length is None else (found.max_length - rest) // 3
            if most is None or most >= 0:
                least = max(0, -((rest - found.min_length) // 3))
                parts.append(b.concat([self._times(b.repeat(one, 4, 4), least, most), end]))
        return self.writer.union(parts)

    def _bounds(self, found: Gathered) -> Bounds:
        low, high = INTEGERS.get(found.kind, (None, None))
        bounds = Bounds(None if low is None else Fraction(low), None if high is None else Fraction(high))
        for text, closed in found.low:
            end, closed = _end(text, closed, found.kind)
            bounds = bounds.narrowed(low=end, closed=closed)
        for text, closed in found.high:
            end, closed = _end(text, closed, found.kind)
            bounds = bounds.narrowed(high=end, closed=closed)
        return bounds

    def _decimal(self, found: Gathered) -> int:
        return decimal(
            self.writer.b,
            self._bounds(found),
            integers=found.kind != "decimal",
            total_digits=found.total_digits,
            fraction_digits=found.fraction_digits,
            every_spelling=bool(found.patterns),
        )

    def _temporal(self, found: Gathered) -> int:
        b = self.writer.b
        if not found.is_bounded:
            return temporal(b, found.kind, found.zone)
        zones = _zones(found)
        made = self._in_zones(found, zones)
        if b.is_empty(made) and found.zone != "prohibited":  # there may still be values between bounds in two zones
            made = self._in_zones(found, _HOURS)
        return made

    def _in_zones(self, found: Gathered, zones: Iterable[str]) -> int:
        b = self.writer.b
        return b.union([b.concat([self._in_zone(found, zone), b.literal(zone.encode())]) for zone in zones])

    def _in_zone(self, found: Gathered, zone: str) -> int:
        """Bounded values of one time zone, without it."""
        b = self.writer.b
        body = [temporal(b, found.kind, "prohibited", bounded=True)]
        for bounds, compare, beyond in ((found.low, at_least, -1), (found.high, at_most, 1)):
            for text, closed in bounds:
                side = _era(found.kind, text)
                bound = side or in_zone(found.kind, text, zone, closed=closed, low=beyond < 0)
                if bound == -beyond:
                    return b.EMPTY  # the bound excludes every value
                if not isinstance(bound, int):
                    body.append(compare(b, bound[0], closed=bound[1]))
        return b.intersection(body)


def _spaces(found: Gathered) -> CharSet:
    """The characters that end a word of a collapsed string. Where facets depend on it, they are spaces of Unicode, too,
    since some validators collapse these."""
    return ALL_SPACES if found.patterns or found.min_length else SPACES


_HOURS = [f"{sign}{hour:02}:00" for hour in range(1, 15) for sign in "+-"]


def _zones(found: Gathered) -> list[str]:
    """The time zones of bounded values: those of their bounds, as far as a facet allows them."""
    zones = list(dict.fromkeys(split_zone(text)[1] for text, _ in found.low + found.high))
    if found.patterns:  # they may ask for another one
        zones = list(dict.fromkeys([*zones, "Z", ""]))
    required, prohibited = found.zone == "required" or found.kind == "dateTimeStamp", found.zone == "prohibited"
    return [zone for zone in zones if not (prohibited if zone else required)] or ["Z" if required else ""]


def _is_value(found: Gathered, text: str, schema: Any) -> bool:
    """Whether a listed value is one of its type.

    No bound holds for NaN, NaN is no bound, and dates with a time zone and dates without one are in order only if they
    are far enough apart, whatever ``xmlschema`` says.
    """
    if not found.type.is_valid(text, namespaces=schema.namespaces):
        return False
    bounds = [(bound, closed, True) for bound, closed in found.low] + [(*bound, False) for bound in found.high]
    if found.kind in _FLOATS:
        return not bounds or "NaN" not in (text, *(bound for bound, _, _ in bounds))
    if found.kind not in COMPARABLE and found.kind != "dateTimeStamp":
        return True
    return all(
        _era(found.kind, bound) or is_within(found.kind, text, bound, closed=closed, low=low)
        for bound, closed, low in bounds
        if not _era(found.kind, text)
    )


def _end(text: str, closed: bool, kind: str) -> tuple[Fraction | None, bool]:
    """A bound, as the end of an interval: its value (None: there is no end there), and whether it belongs to it."""
    if kind not in _FLOATS:
        return Fraction(Decimal(text)), closed
    value = float(text)  # infinite beyond the range
    if math.isinf(value) and not closed:  # and so are large numbers
        value, closed = math.copysign(_GREATEST[kind], value), True
    return Fraction(repr(value)) if math.isfinite(value) else None, closed


def _era(kind: str, text: str) -> int:
    """-1: a date before the year 0001, 1: after 9999, 0: neither."""
    if "date" not in kind and "Year" not in kind:
        return 0
    if text.startswith("-"):
        return -1
    year = split_zone(text)[0].partition("-")[0]
    return 1 if len(year) > 4 else -1 if year == "0000" else 0


def check_patterns(simple: Any) -> PatternError | None:
    """What is wrong with the patterns of a type, if anything."""
    for step in gather(simple).patterns:
        for pattern in step:
            try:
                patterns.parse(pattern)
            except PatternError as error:
                return error
    return None
