"""Dates, times and durations of RFC 3339 (section 5.6 and appendix A), with its calendar and its leap seconds.

A leap second is the second 60 of 23:59 UTC, so the clock that shows it depends on the offset: ``01:29:60+01:30``
is one, ``23:59:60+01:30`` is not. With offset ``-hh:mm`` the local time is ``23-hh:59-mm`` on the same day; with
``+hh:mm`` it is ``hh:mm`` minus one minute on the next. Hours and minutes are therefore independent, but for
the borrow at ``mm = 00``, and two short unions intersected stand for all 2,880 spellings. RFC 3339 has leap seconds
at the end of June and of December (UTC) only; ``date-time`` holds the day to that, whatever the year.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from guiderail import _core
from guiderail.constraint import Constraint
from guiderail.frontends.json_schema.formats._made import made

__all__ = ["date", "date_time", "duration", "time"]

_FOURTH = "(?:0[48]|[2468][048]|[13579][26])"  # 04, 08 … 96
_LEAP_YEAR = f"(?:[0-9]{{2}}{_FOURTH}|(?:00|{_FOURTH})00)"
_DATE = (
    "(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    f"|02-(?:0[1-9]|1[0-9]|2[0-8]))|{_LEAP_YEAR}-02-29)"
)
_HOUR = "(?:[01][0-9]|2[0-3])"
_SIXTY = "[0-5][0-9]"
_FRACTION = r"(?:\.[0-9]+)?"
_TIME = f"{_HOUR}:{_SIXTY}:{_SIXTY}{_FRACTION}(?:[Zz]|[+-]{_HOUR}:{_SIXTY})"


@dataclass(frozen=True, slots=True)
class _LeapSeconds(Constraint):
    """Leap seconds whose local day is that of UTC (``ahead=False``) or the next one.

    Written digit by digit: what a digit of the offset says of a digit of the clock is a union of at most ten cases,
    and the intersection of these unions is the whole relation.
    """

    ahead: bool

    def _lower(self, b: _core.Builder) -> int:
        text = b.literal
        digit, colon = b.byte_class(b"0123456789"), text(b":")
        two = b.concat([digit, digit])
        fraction = b.repeat(b.concat([text(b"."), b.repeat(digit, 1)]), 0, 1)
        sixty = b.concat([text(b":60"), fraction, text(b"+" if self.ahead else b"-")])
        five = b.concat([two, sixty])  # minutes of the clock to the sign

        def hours(pairs: Iterable[tuple[int, int]]) -> int:
            middle, end = b.concat([colon, five]), b.concat([colon, two])
            return b.union([b.concat([text(b"%02d" % c), middle, text(b"%02d" % o), end]) for c, o in pairs])

        def minutes(tens: Iterable[tuple[int, int]], units: Iterable[tuple[int, int]]) -> int:
            before, behind = b.concat([two, colon]), b.concat([sixty, two, colon])
            wide, last = b.concat([digit, behind]), b.concat([behind, digit])
            first = b.union([b.concat([text(b"%d" % c), wide, text(b"%d" % o)]) for c, o in tens])
            second = b.union([b.concat([text(b"%d" % c), last, text(b"%d" % o)]) for c, o in units])
            return b.intersection([b.concat([before, first, digit]), b.concat([before, digit, second])])

        if not self.ahead:
            utc = b.concat([text(b"23:59:60"), fraction, b.union([b.byte_class(b"Zz"), text(b"+00:00")])])
            behind = b.intersection([
                hours((23 - hour, hour) for hour in range(24)),
                minutes([(5 - m, m) for m in range(6)], [(9 - m, m) for m in range(10)]),
            ])  # fmt: skip
            return b.union([utc, behind])
        same = hours((hour, hour) for hour in range(24))
        previous = hours((hour - 1, hour) for hour in range(1, 24))
        on_the_hour = b.concat([two, text(b":59"), sixty, two, text(b":00")])
        units_borrow = minutes([(m, m) for m in range(6)], [(m - 1, m) for m in range(1, 10)])
        tens_borrow = minutes([(m - 1, m) for m in range(1, 6)], [(9, 0)])
        return b.union([
            b.intersection([previous, on_the_hour]),
            b.intersection([same, b.union([units_borrow, tens_borrow])]),
        ])  # fmt: skip


_BEHIND, _AHEAD = _LeapSeconds(False), _LeapSeconds(True)


def date() -> Constraint:
    """``full-date``: a day of the Gregorian calendar, years 0000 to 9999."""
    return made(_DATE)


@lru_cache(maxsize=1)
def time() -> Constraint:
    """``full-time``: a time of day with an offset; a leap second where UTC has 23:59:60."""
    return made(_TIME) | _BEHIND | _AHEAD


@lru_cache(maxsize=1)
def date_time() -> Constraint:
    """``date-time``: a ``full-date``, ``T`` and a ``full-time``; leap seconds at the end of June and December, UTC."""
    return (
        made(f"{_DATE}[Tt]{_TIME}")
        | made("[0-9]{4}-(?:06-30|12-31)[Tt]") + _BEHIND
        | made("[0-9]{4}-(?:07-01|01-01)[Tt]") + _AHEAD
    )


def duration() -> Constraint:
    """``duration`` of appendix A: ``P3Y6M4DT12H30M5S``, ``P2W``; no fractions, no unit skipped between two others."""
    from guiderail import patterns

    return patterns.duration()
