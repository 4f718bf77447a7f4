"""Dates, times and durations of RFC 3339 (section 5.6 and appendix A), with the calendar and leap seconds.

A leap second is second 60 of 23:59 UTC, so the clock that shows it depends on the offset: ``01:29:60+01:30`` is one,
``23:59:60+01:30`` is not. With an offset ``-hh:mm`` the clock shows ``23:59`` minus ``hh:mm`` of the same day, with
``+hh:mm`` one minute less than ``hh:mm`` of the next. Both work digit by digit, except for carries, so all 2,880
spellings are an intersection of three short expressions (see ``_Clock.leap``).

RFC 3339 has leap seconds at the end of June and of December (UTC) only. ``date-time`` checks the day accordingly, in
any year, since future ones are not known.

The expressions are built without patterns: a date is the most frequent format and must be cheap to lower.
"""

from __future__ import annotations

from dataclasses import dataclass

from guiderail import _core
from guiderail.constraints.constraint import Constraint

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

    def concat(self, *parts: int) -> int:
        return self.b.concat(parts)

    def ordinary(self) -> int:
        """Any time but a leap second."""
        colon = self.colon
        offset = self.b.union([
            self.zulu, self.concat(self.b.byte_class(b"+-"), self.hour, colon, self.sixty)
        ])  # fmt: skip
        return self.concat(self.hour, colon, self.sixty, colon, self.sixty, self.fraction, offset)

    def leap(self, signs: bytes, wraps: bool) -> int:
        """``HH:MM:60…±HH:MM`` with this sign; ``wraps``: 23:59 also matches ``+00:00``.

        The conditions on the hours, on the tens and on the ones of the minutes are one expression each. Each is
        deterministic from the left: it branches over what it requires of the clock, and then knows what it requires of
        the offset.
        """
        b, one, digit = self.b, self.one, self.digit
        second = self.concat(b.literal(b":60"), self.fraction)
        two_digits = self.concat(digit, digit)
        before = self.concat(two_digits, self.colon)  # "HH:"
        behind, ahead = b"-"[0] in signs, b"+"[0] in signs

        def tail(*offsets: int) -> int:
            return self.concat(second, b.union(offsets))

        def branches(low: int, high: int, back: list[int], same: list[int], following: list[int], at: int) -> int:
            """``low``: the clock, if the offset ahead has the same digit; ``high``: if it has the next one."""
            if not ahead:
                return self.concat(b.union([low, high]), tail(back[at]))
            first = self.concat(low, tail(back[at], same[at]) if behind else tail(same[at]))
            rest = [x[at] for x in (back, following) if x and x[at] != b.EMPTY]
            return b.union([first, self.concat(high, tail(*rest))]) if rest else first

        # the last minute of an hour belongs to the next hour of the offset, any other to the same hour
        minutes = self.concat(self.colon, two_digits)
        early = b.union([self.concat(b.byte_class(b"01234"), digit), self.concat(one[5], b.byte_class(b"012345678"))])
        back = [self.concat(b.literal(b"-%02d" % (23 - h)), minutes) for h in range(24)] if behind else []
        same = [self.concat(b.literal(b"+%02d" % h), minutes) for h in range(24)] if ahead else []
        following = [*same[1:], same[0] if wraps else b.EMPTY] if ahead else []
        late = b.literal(b"59")
        hours = [
            self.concat(one[h % 10], self.colon, branches(early, late, back, same, following, h)) for h in range(24)
        ]
        of_hour = b.union([self.concat(one[t], b.union(hours[10 * t : 10 * t + 10])) for t in range(3)])

        # the last minute of ten belongs to the next tens
        signed = [self.concat(b.literal(sign), before) for sign in (b"-", b"+")]
        back = [self.concat(signed[0], one[5 - t], digit) for t in range(6)]
        same = [self.concat(signed[1], one[t], digit) for t in range(6)]
        low = b.byte_class(b"012345678")
        tens = [
            self.concat(one[t], branches(low, one[9], back if behind else [], same, [*same[1:], same[0]], t))
            for t in range(6)
        ]

        signed = [self.concat(sign, digit) for sign in signed]
        ones = []
        for d in range(10):
            offsets = [self.concat(signed[0], one[9 - d])] if behind else []
            if ahead:
                offsets.append(self.concat(signed[1], one[(d + 1) % 10]))
            ones.append(self.concat(one[d], tail(*offsets)))
        return b.intersection([of_hour, self.concat(before, b.union(tens)), self.concat(before, digit, b.union(ones))])

    def leap_in_utc(self) -> int:
        """Leap seconds at UTC, as ``Z`` or ``+00:00``."""
        b = self.b
        return self.concat(b.literal(b"23:59:60"), self.fraction, b.union([self.zulu, b.literal(b"+00:00")]))


@dataclass(frozen=True, slots=True)
class _Moment(Constraint):
    """``full-date``, ``full-time`` or ``date-time``."""

    day: bool
    clock: bool

    def _lower(self, b: _core.Builder) -> int:
        if not self.clock:
            return _days(b)
        clock = _Clock(b)
        ordinary, in_utc = clock.ordinary(), clock.leap_in_utc()
        if not self.day:
            return b.union([ordinary, in_utc, clock.leap(b"+-", True)])
        between = b.byte_class(b"Tt")
        year = b.concat([clock.digit] * 4)

        def ends(*days: bytes) -> int:
            return b.concat([year, b.union([b.literal(day) for day in days]), between])

        return b.union([
            b.concat([_days(b), between, ordinary]),
            b.concat([ends(b"-06-30", b"-12-31"), b.union([in_utc, clock.leap(b"-", False)])]),
            b.concat([ends(b"-07-01", b"-01-01"), clock.leap(b"+", False)]),
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
    from guiderail.frontends import patterns

    return patterns.duration()
