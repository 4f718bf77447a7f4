"""Dates, times and durations of RFC 3339 (section 5.6 and appendix A), with its calendar and its leap seconds.

A leap second is the second 60 of 23:59 UTC, so the clock that shows it depends on the offset: ``01:29:60+01:30`` is
one, ``23:59:60+01:30`` is not. With an offset ``-hh:mm`` the clock shows ``23:59`` minus ``hh:mm`` of the same day,
with ``+hh:mm`` one minute less than ``hh:mm`` of the next. Both are subtractions that go digit by digit, so all
2,880 spellings are an intersection of four short unions, each of one digit of the clock and of the offset.

RFC 3339 has leap seconds at the end of June and of December (UTC) only; ``date-time`` holds the day to that, in any
year, since later ones are not known.

The expressions are made without patterns: a date is the most frequent format of all and must be cheap to lower.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from guiderail import _core
from guiderail.constraint import Constraint

__all__ = ["date", "date_time", "duration", "time"]

_DIGITS = b"0123456789"


def _days(b: _core.Builder) -> int:
    """``full-date``."""
    digit, zero, dash = b.byte_class(_DIGITS), b.literal(b"0"), b.literal(b"-")
    nonzero = b.byte_class(b"123456789")
    early = b.union([b.concat([zero, nonzero]), b.concat([b.byte_class(b"12"), digit])])  # 01 to 29
    day30, day31 = b.literal(b"30"), b.literal(b"31")
    longest = b.concat([
        b.union([b.concat([zero, b.byte_class(b"13578")]), b.concat([b.literal(b"1"), b.byte_class(b"02")])]),
        dash, b.union([early, day30, day31]),
    ])  # fmt: skip
    shorter = b.concat([
        b.union([b.concat([zero, b.byte_class(b"469")]), b.literal(b"11")]), dash, b.union([early, day30])
    ])  # fmt: skip
    to_28 = b.union([
        b.concat([zero, nonzero]),
        b.concat([b.literal(b"1"), digit]),
        b.concat([b.literal(b"2"), b.byte_class(b"012345678")]),
    ])  # fmt: skip
    february = b.literal(b"02-")
    common = b.concat([digit, digit, digit, digit, dash, b.union([longest, shorter, b.concat([february, to_28])])])
    fourth = b.union([
        b.concat([zero, b.byte_class(b"48")]),
        b.concat([b.byte_class(b"2468"), b.byte_class(b"048")]),
        b.concat([b.byte_class(b"13579"), b.byte_class(b"26")]),
    ])  # fmt: skip
    hundred = b.literal(b"00")
    leap = b.union([b.concat([digit, digit, fourth]), b.concat([b.union([hundred, fourth]), hundred])])
    return b.union([common, b.concat([leap, dash, february, b.literal(b"29")])])


class _Clock:
    """The parts of ``full-time`` as expressions of one builder."""

    def __init__(self, b: _core.Builder) -> None:
        self.b = b
        self.digit, self.colon = b.byte_class(_DIGITS), b.literal(b":")
        self.one = [b.literal(b"%d" % d) for d in range(10)]
        self.hour = b.union([
            b.concat([b.byte_class(b"01"), self.digit]), b.concat([self.one[2], b.byte_class(b"0123")])
        ])  # fmt: skip
        self.sixty = b.concat([b.byte_class(b"012345"), self.digit])
        self.fraction = b.repeat(b.concat([b.literal(b"."), b.repeat(self.digit, 1)]), 0, 1)
        self.zulu = b.byte_class(b"Zz")

    def ordinary(self) -> int:
        """Any time but a leap second."""
        b, colon = self.b, self.colon
        offset = b.union([self.zulu, b.concat([b.byte_class(b"+-"), self.hour, colon, self.sixty])])
        return b.concat([self.hour, colon, self.sixty, colon, self.sixty, self.fraction, offset])

    def related(self, sign: bytes, *relations: tuple[int, Iterable[tuple[int, int]]]) -> int:
        """``HH:MM:60…±HH:MM`` where each relation (which digit, pairs of clock and offset) holds."""
        b, digit = self.b, self.digit
        place = [digit, digit, self.colon, digit, digit]
        middle = [b.literal(b":60"), self.fraction, b.literal(sign)]
        found = []
        for which, pairs in relations:
            at = which + (which > 1)
            between = b.concat([*place[at + 1 :], *middle, *place[:at]])
            cases = b.union([b.concat([self.one[clock], between, self.one[offset]]) for clock, offset in pairs])
            found.append(b.concat([*place[:at], cases, *place[at + 1 :]]))
        return b.intersection(found)

    def leap_behind(self) -> int:
        """Leap seconds at an offset of UTC or behind it: the local day is that of UTC."""
        b = self.b
        at_utc = b.concat([b.literal(b"23:59:60"), self.fraction, b.union([self.zulu, b.literal(b"+00:00")])])
        minutes = [(2, [(5 - d, d) for d in range(6)]), (3, [(9 - d, d) for d in range(10)])]
        return b.union([
            at_utc,
            self.related(b"-", *minutes, (0, [(2 - d, d) for d in range(3)]), (1, [(3 - d, d) for d in range(4)])),
            self.related(b"-", *minutes, (0, [(1 - d, d) for d in range(2)]), (1, [(13 - d, d) for d in range(4, 10)])),
        ])  # fmt: skip

    def leap_ahead(self) -> int:
        """Leap seconds at an offset ahead of UTC: the local day is the next one."""
        b = self.b

        def same(below: int) -> list[tuple[int, int]]:
            return [(d, d) for d in range(below)]

        def less(below: int) -> list[tuple[int, int]]:
            return [(d - 1, d) for d in range(1, below)]

        borrow = [(9, 0)]
        hour = b.concat(
            [b.repeat(self.b.byte_class(bytes(range(128))), 0), b.literal(b"+"), self.hour, self.colon, self.sixty]
        )
        return b.intersection([
            hour,
            b.union([
                self.related(b"+", (0, same(3)), (1, same(10)), (2, same(6)), (3, less(10))),
                self.related(b"+", (0, same(3)), (1, same(10)), (2, less(6)), (3, borrow)),
                self.related(b"+", (0, same(3)), (1, less(10)), (2, [(5, 0)]), (3, borrow)),
                self.related(b"+", (0, less(3)), (1, borrow), (2, [(5, 0)]), (3, borrow)),
            ]),
        ])  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Moment(Constraint):
    """``full-date``, ``full-time`` or ``date-time``."""

    day: bool
    clock: bool

    def _lower(self, b: _core.Builder) -> int:
        if not self.clock:
            return _days(b)
        clock = _Clock(b)
        ordinary, behind, ahead = clock.ordinary(), clock.leap_behind(), clock.leap_ahead()
        if not self.day:
            return b.union([ordinary, behind, ahead])
        between = b.byte_class(b"Tt")
        year = b.concat([clock.digit] * 4)

        def ends(*days: bytes) -> int:
            return b.concat([year, b.union([b.literal(day) for day in days]), between])

        return b.union([
            b.concat([_days(b), between, ordinary]),
            b.concat([ends(b"-06-30", b"-12-31"), behind]),
            b.concat([ends(b"-07-01", b"-01-01"), ahead]),
        ])  # fmt: skip

    def __repr__(self) -> str:
        return f"format({'date-time' if self.day and self.clock else 'date' if self.day else 'time'!r})"


def date() -> Constraint:
    """``full-date``: a day of the Gregorian calendar, years 0000 to 9999."""
    return _Moment(True, False)


def time() -> Constraint:
    """``full-time``: a time of day with an offset; a leap second where UTC has 23:59:60."""
    return _Moment(False, True)


def date_time() -> Constraint:
    """``date-time``: a ``full-date``, ``T`` and a ``full-time``; leap seconds at the end of June and December, UTC."""
    return _Moment(True, True)


def duration() -> Constraint:
    """``duration`` of appendix A: ``P3Y6M4DT12H30M5S``, ``P2W``; no fractions, no unit skipped between two others."""
    from guiderail import patterns

    return patterns.duration()
