"""IP addresses, built without a pattern: they occur inside URIs and mail addresses, so they must be cheap to lower."""

from __future__ import annotations

from dataclasses import dataclass

from guiderail import _core
from guiderail.constraints.constraint import Constraint

__all__ = ["Ipv4", "Ipv6"]

_DIGITS = b"0123456789"
_HEX = b"0123456789ABCDEFabcdef"


@dataclass(frozen=True, slots=True)
class Ipv4(Constraint):
    """``dotted-quad`` of RFC 2673, section 3.2: four numbers from 0 to 255 without leading zeros."""

    def _lower(self, b: _core.Builder) -> int:
        digit = b.byte_class(_DIGITS)
        octet = b.union([
            b.concat([b.literal(b"25"), b.byte_class(b"012345")]),
            b.concat([b.literal(b"2"), b.byte_class(b"01234"), digit]),
            b.concat([b.literal(b"1"), digit, digit]),
            b.concat([b.repeat(b.byte_class(b"123456789"), 0, 1), digit]),
        ])  # fmt: skip
        return b.concat([octet, b.repeat(b.concat([b.literal(b"."), octet]), 3, 3)])


@dataclass(frozen=True, slots=True)
class Ipv6(Constraint):
    """An IPv6 address of RFC 4291, section 2.2, without a zone (the ABNF is that of RFC 3986, section 3.2.2).

    The nine forms of the ABNF differ in how many groups stand before ``::``. Organized by the number of groups read,
    they are one form up to the ``::``, and few alternatives have to be followed at a time.
    """

    def _lower(self, b: _core.Builder) -> int:
        group, colon, dotted = b.repeat(b.byte_class(_HEX), 1, 4), b.literal(b":"), Ipv4()._lower(b)
        # by the number of groups so far, of eight, with "::" as one: what may follow a group, and a colon after it
        gapped: list[int] = [b.EPSILON] * 9  # "::" was read
        begun: list[int] = [b.EMPTY] * 9
        for n in range(7, 0, -1):
            begun[n] = b.union([b.concat([group, gapped[n + 1]]), dotted if n <= 6 else b.EMPTY])
            gapped[n] = b.repeat(b.concat([colon, begun[n]]), 0, 1)
        rest = b.EPSILON  # after the eighth group, the seventh …
        for n in range(7, 0, -1):
            gap = b.concat([colon, b.repeat(begun[n + 1], 0, 1)])
            rest = b.concat([colon, b.union([b.concat([group, rest]), gap, dotted if n == 6 else b.EMPTY])])
        return b.union([b.concat([group, rest]), b.concat([colon, colon, b.repeat(begun[1], 0, 1)])])
