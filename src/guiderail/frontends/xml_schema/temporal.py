"""Dates, times and durations of XML Schema, with the calendar, the time zone and exact bounds.

Years have four digits, 0001 to 9999, which every processor must support (part 2, section 5.4). The order of dates is
partial: one with a time zone and one without can be compared only if they are more than 14 hours apart. So under a
bound, values have the bound's own time zone, or none if it has none; their order is that of their digits. Where bounds
have several time zones, each is brought into the zone of the values.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from guiderail import _core
from guiderail.frontends.json_schema.values.formats import dates

__all__ = ["COMPARABLE", "DURATION_DIGITS", "at_least", "at_most", "in_zone", "is_within", "split_zone", "temporal"]

_DIGITS = b"0123456789"
DURATION_DIGITS = 8  # months and seconds in all then fit into the integers that processors count them with
COMPARABLE = ("dateTime", "date", "time", "gYear", "gYearMonth", "gMonth", "gMonthDay", "gDay")
_WIDEST = 14 * 60  # minutes: the time zone that is furthest from UTC
_WITHIN = {"time": (0, "1972-12-31T"), "gMonth": (2, "1972-"), "gMonthDay": (2, "1972-"), "gDay": (3, "1972-12-")}
"""Where on the line of time values are that recur (appendix E.3.4): their dashes, and what stands for these."""
_ZONE = re.compile(r"(Z|[+-][0-9]{2}:[0-9]{2})$")


class _Parts:
    def __init__(self, b: _core.Builder) -> None:
        self.b = b
        self.digit = b.byte_class(_DIGITS)

    def text(self, text: str) -> int:
        return self.b.literal(text.encode())

    def cat(self, *parts: int | str) -> int:
        return self.b.concat([self.text(p) if isinstance(p, str) else p for p in parts])

    def any(self, *parts: int | str) -> int:
        return self.b.union([self.text(p) if isinstance(p, str) else p for p in parts])

    def number(self, first: int, last: int) -> int:
        return self.b.choice([b"%02d" % n for n in range(first, last + 1)])

    def zone(self) -> int:
        minute = self.number(0, 59)
        hours = self.any(self.cat(self.number(0, 13), ":", minute), "14:00")
        return self.any("Z", self.cat(self.b.byte_class(b"+-"), hours))

    def clock(self, midnight: bool) -> int:
        """``hh:mm:ss`` with fractions; ``24:00:00`` is the end of the day."""
        fraction = self.b.repeat(self.cat(".", self.b.repeat(self.digit, 1)), 0, 1)
        sixty = self.number(0, 59)
        ordinary = self.cat(self.number(0, 23), ":", sixty, ":", sixty, fraction)
        return self.any(ordinary, "24:00:00") if midnight else ordinary

    def year(self) -> int:
        return self.at_least("0001", self.b.repeat(self.digit, 4, 4))

    def at_least(self, text: str, e: int) -> int:
        return self.b.intersection([e, at_least(self.b, text, closed=True)])

    def day(self) -> int:
        return self.at_least("0001", dates.date()._lower(self.b))

    def month_day(self) -> int:
        days = {n: 29 if n == 2 else 30 if n in (4, 6, 9, 11) else 31 for n in range(1, 13)}
        return self.b.choice([b"--%02d-%02d" % (m, d) for m, last in days.items() for d in range(1, last + 1)])

    def duration(self, years: bool, rest: bool) -> int:
        """``P…``; at least one part, and at least one after ``T``."""
        b = self.b
        number = b.repeat(self.digit, 1, DURATION_DIGITS)

        def some(parts: list[int]) -> int:
            """At least one of the parts, in their order."""
            found, after = b.EMPTY, b.EPSILON
            for part in reversed(parts):
                found = b.union([b.concat([part, after]), found])
                after = b.concat([b.repeat(part, 0, 1), after])
            return found

        seconds = self.cat(number, b.repeat(self.cat(".", b.repeat(self.digit, 1)), 0, 1), "S")
        clock = self.cat("T", some([self.cat(number, "H"), self.cat(number, "M"), seconds]))
        parts = [self.cat(number, "Y"), self.cat(number, "M")] if years else []
        parts += [self.cat(number, "D"), clock] if rest else []
        return b.concat([b.repeat(self.text("-"), 0, 1), self.text("P"), some(parts)])


def temporal(b: _core.Builder, kind: str, zone: str = "optional", *, bounded: bool = False) -> int:
    """The lexical space of a built-in type.

    Args:
        b: the builder; the strings contain no character that XML escapes.
        kind: its name: ``"dateTime"``, ``"gYear"``, ``"duration"`` …
        zone: ``"optional"``, ``"required"``, ``"prohibited"``, or the only time zone.
        bounded: whether the digits will be compared: then there is no ``24:00:00``, which is the next day.
    """
    p = _Parts(b)
    if kind.lower().endswith("duration"):
        return p.duration(kind != "dayTimeDuration", kind != "yearMonthDuration")
    if kind in ("dateTime", "dateTimeStamp"):
        body = p.cat(p.day(), "T", p.clock(not bounded))
        if kind == "dateTimeStamp" and zone == "optional":
            zone = "required"
    elif kind == "date":
        body = p.day()
    elif kind == "time":
        body = p.clock(not bounded)
    elif kind == "gYear":
        body = p.year()
    elif kind == "gYearMonth":
        body = p.cat(p.year(), "-", p.number(1, 12))
    elif kind == "gMonth":
        body = p.cat("--", p.number(1, 12))
    elif kind == "gMonthDay":
        body = p.month_day()
    else:
        body = p.cat("---", p.number(1, 31))
    if zone == "prohibited":
        return body
    if zone in ("optional", "required"):
        return p.cat(body, p.zone() if zone == "required" else b.repeat(p.zone(), 0, 1))
    return p.cat(body, zone)


def split_zone(text: str) -> tuple[str, str]:
    """A value without its time zone, and the time zone (empty: none)."""
    found = _ZONE.search(text)
    return (text[: found.start()], found[0]) if found else (text, "")


def in_zone(kind: str, bound: str, zone: str, *, closed: bool, low: bool) -> tuple[str, bool] | int:
    """A bound, for values of one time zone (empty: of none; XSD 1.1 part 2, 3.3.7 and appendix E.3).

    Args:
        kind: one of :data:`COMPARABLE`, or ``"dateTimeStamp"``.
        bound: a value whose year, if it has one, has four digits.
        zone: the zone of the values.
        closed: whether the bound itself belongs to the values.
        low: whether it is their least.

    Returns:
        The bound without a time zone, and whether it belongs to the values; -1 if it is before all values, 1 if it is
        after them.
    """
    text, own = split_zone(bound)
    minutes = _offset(zone) - _offset(own)
    if bool(own) != bool(zone):  # equal to none, and in order only if more than 14 hours apart
        minutes += _WIDEST if low else -_WIDEST
        closed = False
    if kind == "time" and text.startswith("24"):
        text = text.replace("24", "00", 1)
    cut, before = _WITHIN.get(kind, (0, ""))
    text = before + text[cut:]
    whole, point, fraction = text.partition(".")
    year, *rest = [int(number) for number in re.findall("[0-9]+", whole)]
    month, day, hour, minute, second = (*rest, *(1, 1, 0, 0, 0)[len(rest) :])
    try:
        at = datetime(year, month, day, 0, minute, second) + timedelta(hours=hour, minutes=minutes)  # 24:00 is allowed
        found = (at.isoformat() + point + fraction, closed) if "T" in text else _beginning(len(whole), at, closed, low)
    except (OverflowError, ValueError):
        return -1 if year < 5000 else 1
    if not found[0].startswith(before):
        return -1 if found[0] < before else 1
    return _part(kind, found[0]), found[1]


def _part(kind: str, text: str) -> str:
    """A value of a kind from the date, time or both that it is part of."""
    cut, before = _WITHIN.get(kind, (0, ""))
    return "-" * cut + text[len(before) :]


def is_within(kind: str, text: str, bound: str, *, closed: bool, low: bool) -> bool:
    """Whether a value is on the right side of a bound."""
    zone = split_zone(text)[1]
    value = in_zone(kind, text, zone, closed=True, low=low)
    limit = in_zone(kind, bound, zone, closed=closed, low=low)
    if isinstance(value, int):
        return False
    if isinstance(limit, int):
        return (limit < 0) == low
    one, other = ((a.rstrip("0").rstrip(".") if "." in a else a) for a in (value[0], limit[0]))
    return (one > other if low else one < other) or (limit[1] and one == other)


def _beginning(size: int, at: datetime, closed: bool, low: bool) -> tuple[str, bool]:
    """A bound of instants, as one of days, months or years (10, 7 or 4 characters), which begin at instants."""
    begin = at.replace(hour=0, minute=0, second=0)
    if size < 10:
        begin = begin.replace(day=1)
    if size < 7:
        begin = begin.replace(month=1)
    if begin != at:
        closed = True
        if low:  # the next one
            begin += timedelta(days={10: 1, 7: 31, 4: 366}[size])
    return begin.date().isoformat()[:size], closed


def _offset(zone: str) -> int:
    """In minutes."""
    if zone in ("", "Z"):
        return 0
    minutes = int(zone[1:3]) * 60 + int(zone[4:])
    return -minutes if zone[0] == "-" else minutes


def _beyond(b: _core.Builder, digits: str, above: bool) -> list[int]:
    """Strings with a common beginning, then a greater (smaller) digit, then anything."""
    rest = b.repeat(b.byte_class(bytes(range(32, 127))), 0)
    found = []
    for i, c in enumerate(digits):
        if c.isdecimal():
            other = _DIGITS[int(c) + 1 :] if above else _DIGITS[: int(c)]
            if other:
                found.append(b.concat([b.literal(digits[:i].encode()), b.byte_class(other), rest]))
    return found


def _trimmed(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text


def at_least(b: _core.Builder, bound: str, *, closed: bool) -> int:
    """Strings of the bound's form (without a time zone) from the bound on."""
    bound = _trimmed(bound)
    rest = b.repeat(b.byte_class(bytes(range(32, 127))), 0)
    zeros, digit = b.repeat(b.byte_class(b"0"), 0), b.byte_class(b"123456789")
    if closed:
        equal = b.concat([b.literal(bound.encode()), rest])
    else:
        point = b.EPSILON if "." in bound else b.literal(b".")
        equal = b.concat([b.literal(bound.encode()), point, zeros, digit, rest])
    return b.union([*_beyond(b, bound, True), equal])


def at_most(b: _core.Builder, bound: str, *, closed: bool) -> int:
    """Strings of the bound's form (without a time zone) up to the bound."""
    bound = _trimmed(bound)
    found = _beyond(b, bound, False)
    if "." in bound:  # shorter fractions are smaller
        whole, fraction = bound.split(".")
        shorter = [whole, *(f"{whole}.{fraction[:i]}" for i in range(1, len(fraction)))]
        found.append(b.choice([text.encode() for text in shorter]))
    if closed:
        zeros = b.repeat(b.byte_class(b"0"), 0)
        tail = zeros if "." in bound else b.repeat(b.concat([b.literal(b"."), b.repeat(b.byte_class(b"0"), 1)]), 0, 1)
        found.append(b.concat([b.literal(bound.encode()), tail]))
    return b.union(found) if found else b.EMPTY
