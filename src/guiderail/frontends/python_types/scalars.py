"""Standard-library types that are written as strings, in the spellings that every Python version reads.

A pattern here is stricter than its standard if a reader is: no year 0000 and no leap second (``datetime`` has neither),
offsets below a day, at most six digits of a second, no zero byte in a path.
"""

from __future__ import annotations

import base64
import binascii
import datetime
import ipaddress
import pathlib
import re
import uuid
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

from guiderail.frontends import patterns
from guiderail.frontends.python_types.bounds import Bounds
from guiderail.frontends.python_types.errors import unsupported
from guiderail.frontends.python_types.nodes import Node, Text, only
from guiderail.frontends.python_types.ordered import between

__all__ = ["scalar"]


def _source(constraint: Any) -> str:
    return str(constraint.pattern)


_DATE = _source(patterns.date())
_CLOCK = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,6})?"
_OFFSET = "(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
_DAYS, _UNIT = "[0-9]{1,6}", "[0-9]{1,6}"
_SECONDS = rf"{_UNIT}(?:\.[0-9]{{1,6}})?S"
_TIME_PART = f"T(?:{_UNIT}H(?:{_UNIT}M)?(?:{_SECONDS})?|{_UNIT}M(?:{_SECONDS})?|{_SECONDS})"
_DURATION = f"-?P(?:{_DAYS}D(?:{_TIME_PART})?|{_TIME_PART})"
_IPV4, _IPV6 = _source(patterns.ipv4()), _source(patterns.ipv6())

_PARTS = re.compile(
    r"(?:(\d{4})-(\d\d)-(\d\d))?T?(?:(\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?)?(?:(Z)|([+-])(\d\d):(\d\d))?", re.ASCII
)
_SPAN = re.compile(r"(-?)P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.(\d{1,6}))?S)?)?", re.ASCII)


def _anchored(*alternatives: str) -> str:
    return f"^(?:{'|'.join(alternatives)})$"


def _pieces(text: str) -> tuple[list[int], list[int], datetime.timezone | None]:
    """The date, clock and zone of a string that fits its pattern. Before Python 3.11, ``fromisoformat`` reads less."""
    match = _PARTS.fullmatch(text)
    assert match is not None  # the pattern has been checked
    year, month, day, hour, minute, second, fraction, z, sign, ahead, minutes = match.groups()
    date = [int(part) for part in (year, month, day) if part is not None]
    clock = [int(part) for part in (hour, minute, second) if part is not None]
    if clock:
        clock.append(int((fraction or "0").ljust(6, "0")))
    zone = None
    if z:
        zone = datetime.timezone.utc
    elif sign:
        offset = datetime.timedelta(hours=int(ahead), minutes=int(minutes))
        zone = datetime.timezone(-offset if sign == "-" else offset)
    return date, clock, zone


def _date(text: str) -> datetime.date:
    return datetime.date(*_pieces(text)[0])


def _time(text: str) -> datetime.time:
    _, clock, zone = _pieces(text)
    hour, minute, second, microsecond = clock
    return datetime.time(hour, minute, second, microsecond, tzinfo=zone)


def _datetime(text: str) -> datetime.datetime:
    date, clock, zone = _pieces(text)
    year, month, day = date
    hour, minute, second, microsecond = clock
    return datetime.datetime(year, month, day, hour, minute, second, microsecond, tzinfo=zone)


def _timedelta(text: str) -> datetime.timedelta:
    match = _SPAN.fullmatch(text)
    assert match is not None  # the pattern has been checked
    sign, days, hours, minutes, seconds, fraction = match.groups()
    span = datetime.timedelta(
        days=int(days or 0),
        hours=int(hours or 0),
        minutes=int(minutes or 0),
        seconds=int(seconds or 0),
        microseconds=int((fraction or "0").ljust(6, "0")),
    )
    return -span if sign else span


def _no_span_order(node: Text, bounds: Bounds) -> Text:
    names = [name for name in ("gt", "ge", "lt", "le") if getattr(bounds, name) is not None]
    if not names or not only(bounds, *names):
        Node.constrained(node, bounds)
    raise unsupported(
        f"{', '.join(names)} of {node.name}",
        "a span has many spellings (PT90M, PT1H30M), so it cannot be bounded; use a number, as "
        "Annotated[int, Le(3600)] for seconds, or a validator",
        "type-metadata",
    )


# -- bytes
_DIGIT = "[A-Za-z0-9+/]"
_ENDS = ("", f"{_DIGIT}[AQgw]==", f"{_DIGIT}{{2}}[AEIMQUYcgkosw048]=")  # of 0, 1 and 2 bytes

_BASE64 = _anchored(f"(?:{_DIGIT}{{4}})*(?:{_ENDS[1]}|{_ENDS[2]})?")


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from None


def _bytes_between(node: Text, bounds: Bounds) -> Text:
    """Base 64 of a range of byte counts: whole groups of three, then an end of 0, 1 or 2 bytes."""
    if not only(bounds, "min_length", "max_length"):
        Node.constrained(node, bounds)
    low, high = bounds.min_length or 0, bounds.max_length
    ways = []
    for left, end in enumerate(_ENDS):
        least = max(0, -(-(low - left) // 3))
        most = None if high is None else (high - left) // 3
        if most is None or most >= least:
            ways.append(f"(?:{_DIGIT}{{4}}){{{least},{'' if most is None else most}}}{end}")
    if not ways:
        raise unsupported("bytes", f"no length is at least {low} and at most {high}", "type-metadata")
    texts = (*node.bounds.texts, _anchored(*ways))
    return replace(node, pattern=None, bounds=replace(node.bounds, texts=texts))


def _bytearray(text: str) -> bytearray:
    return bytearray(_bytes(text))


# -- networks
def _ipv4_networks() -> str:
    """``a.b.c.d/p`` without host bits: after the p-th bit all is zero."""
    octet = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
    ways = []
    for length in range(33):
        whole, bits = divmod(length, 8)
        parts = [octet] * whole
        if bits:
            parts.append("(?:" + "|".join(str(n << (8 - bits)) for n in range(1 << bits)) + ")")
        parts += ["0"] * (4 - len(parts))
        ways.append(r"\.".join(parts) + f"/{length}")
    return "|".join(ways)


def _ipv6_networks() -> str:
    """Without host bits, in lower case: ``a:b::/33``, ``::a:0:0/96``. Only zeros after the gap are not written."""
    group, zero = "[0-9a-f]{1,4}", "0{1,4}"
    # groups, one gap, more groups: at most seven, and no second gap
    gap = f"(?!.(?:[^:]*:){{8}}|.*::.*::)(?:{group}(?::{group})*)?::(?:{group}:)*"
    ways = [f"::/{_UP_TO_128[0]}", f"{zero}(?::{zero}){{7}}/0"]
    for whole, lengths in enumerate(_UP_TO_128):
        rest = 7 - whole
        if whole:
            ways.append(f"{group}(?::{group}){{{whole - 1}}}::/{lengths}")
        after = f"(?:(?::{zero}){{{rest}}}|(?::{zero}){{0,{rest - 1}}}::)" if rest else ""
        lasts = [f"{_leading_bits(bits)}{after}/{16 * whole + bits}" for bits in range(1, 17)]
        ways.append(f"(?:(?:{group}:){{{whole}}}|{gap})(?:{'|'.join(lasts)})")
    return "|".join(ways)


# Prefix lengths of at least 0, 16, 32 … bits.
_UP_TO_128 = [
    f"(?:{some}1(?:[01][0-9]|2[0-8]))"
    for some in ("[1-9]?[0-9]|", "1[6-9]|[2-9][0-9]|", "3[2-9]|[4-9][0-9]|", "4[89]|[5-9][0-9]|", "6[4-9]|[7-9][0-9]|",
                 "[89][0-9]|", "9[6-9]|")
] + ["(?:11[2-9]|12[0-8])"]  # fmt: skip


def _leading_bits(bits: int) -> str:
    """A group of an IPv6 address of which only the first 1 to 16 bits may be set."""
    if bits == 16:
        return "[0-9a-f]{1,4}"
    free, some = divmod(bits, 4)
    digit = "".join(format(n << (4 - some), "x") for n in range(1 << some))
    shorter = f"|0{{1,{3 - free}}}" if free < 3 else ""
    return f"(?:[0-9a-f]{{0,{free}}}[{digit}]0{{{3 - free}}}{shorter})"


_HEX = "[0-9a-f]"


def uuid_node(version: int | None = None) -> Text:
    """A UUID in lower case, of a version from 1 to 8 or of any."""
    middle = f"{_HEX}{{4}}-{_HEX}{{4}}" if version is None else f"{version}{_HEX}{{3}}-[89ab]{_HEX}{{3}}"
    return Text("UUID", f"^{_HEX}{{8}}-{_HEX}{{4}}-{middle}-{_HEX}{{12}}$", uuid.UUID)


# -- time, with bounds of order and of zones
def _day_order(node: Text, bounds: Bounds) -> Text:
    return _order(node, bounds, datetime.date)


def _clock_order(node: Text, bounds: Bounds) -> Text:
    return _order(node, bounds, datetime.time)


def _moment_order(node: Text, bounds: Bounds) -> Text:
    return _order(node, bounds, datetime.datetime)


def _order(node: Text, bounds: Bounds, kind: type[Any]) -> Text:
    """Narrows a type to bounds by comparing digits: such strings are ordered like their values."""
    if not only(bounds, "gt", "ge", "lt", "le", "timezone"):
        Node.constrained(node, bounds)
    both = Bounds(timezone=node.bounds.timezone) & bounds
    limits = [(side, getattr(bounds, side)) for side in ("gt", "ge", "lt", "le")]
    limits = [(side, limit) for side, limit in limits if limit is not None]
    zones = set()
    for side, limit in limits:
        if not isinstance(limit, kind) or (kind is datetime.date and isinstance(limit, datetime.datetime)):
            raise unsupported(f"{side}={limit!r} of {node.name}", f"must be a {kind.__name__}", "type-metadata")
        zones.add(None if kind is datetime.date else limit.tzinfo)
    if kind is datetime.date and both.timezone is not ...:
        raise unsupported(node.name, "a date has no time zone", "type-metadata")
    aware: Any = both.timezone
    if zones and kind is not datetime.date:
        if None in zones and len(zones) > 1:
            raise unsupported(node.name, "some bounds have a time zone and others do not", "type-metadata")
        wanted = None if None in zones else True
        if aware is not ... and aware != wanted:
            raise unsupported(
                node.name, "the bounds and Timezone disagree on whether there is a time zone", "type-metadata"
            )
        aware = wanted
    fixed = bool(limits) and aware is True  # one zone, so that order is that of the digits
    if fixed and kind is datetime.time:
        raise unsupported(node.name, "times with a zone have no order; bound those without", "type-metadata")
    zone = ""
    if kind is not datetime.date:
        zone = {None: "", True: "Z" if fixed else _OFFSET}.get(aware, f"{_OFFSET}?")
    body = {datetime.date: _DATE, datetime.time: _CLOCK}.get(kind, f"{_DATE}T{_CLOCK}") + zone
    texts = tuple(_anchored(between(side, _spell(limit), zone)) for side, limit in limits)
    kept = replace(node.bounds, texts=node.bounds.texts + texts, timezone=both.timezone)
    return replace(node, pattern=_anchored(body), bounds=kept)


def _spell(limit: Any) -> str:
    if isinstance(limit, datetime.datetime) and limit.tzinfo is not None:
        limit = limit.astimezone(datetime.timezone.utc).replace(tzinfo=None)
    return str(limit.isoformat())


_NO_ZERO_BYTE = "^[^\\u0000]*$"


def _subpath(kind: type[Any]) -> Text:
    return Text(kind.__name__, _NO_ZERO_BYTE, kind, injective=False)


_MADE: dict[type[Any], Callable[[], Text]] = {
    datetime.date: lambda: Text("date", _anchored(_DATE), _date, order=_day_order),
    datetime.time: lambda: Text("time", _anchored(_CLOCK + _OFFSET + "?"), _time, injective=False, order=_clock_order),
    datetime.datetime: lambda: Text(
        "datetime", _anchored(f"{_DATE}T{_CLOCK}{_OFFSET}?"), _datetime, injective=False, order=_moment_order
    ),
    datetime.timedelta: lambda: Text(
        "timedelta", _anchored(_DURATION), _timedelta, injective=False, order=_no_span_order
    ),
    uuid.UUID: uuid_node,
    bytes: lambda: Text("bytes", _BASE64, _bytes, order=_bytes_between),
    bytearray: lambda: Text("bytearray", _BASE64, _bytearray, hashable=False, order=_bytes_between),
    ipaddress.IPv4Address: lambda: Text("IPv4Address", _anchored(_IPV4), ipaddress.IPv4Address),
    ipaddress.IPv6Address: lambda: Text("IPv6Address", _anchored(_IPV6), ipaddress.IPv6Address, injective=False),
    ipaddress.IPv4Network: lambda: Text("IPv4Network", _anchored(_ipv4_networks()), ipaddress.IPv4Network),
    ipaddress.IPv6Network: lambda: Text(
        "IPv6Network", _anchored(_ipv6_networks()), ipaddress.IPv6Network, injective=False
    ),
    ipaddress.IPv4Interface: lambda: Text(
        "IPv4Interface", _anchored(f"{_IPV4}/(?:[12]?[0-9]|3[0-2])"), ipaddress.IPv4Interface
    ),
    ipaddress.IPv6Interface: lambda: Text(
        "IPv6Interface",
        _anchored(f"{_IPV6}/(?:[1-9]?[0-9]|1[01][0-9]|12[0-8])"),
        ipaddress.IPv6Interface,
        injective=False,
    ),
    Fraction: lambda: Text(
        "Fraction", _anchored("-?(?:0|[1-9][0-9]{0,99})(?:/[1-9][0-9]{0,99})?"), Fraction, injective=False
    ),
}


def scalar(kind: type[Any]) -> Text | None:
    """The node of a type of the standard library that is written as a string, or None."""
    made = _MADE.get(kind)
    if made is not None:
        return made()
    if issubclass(kind, pathlib.PurePath):
        return _subpath(kind)
    return None
