"""IP addresses, built without a pattern: they stand inside URIs and mail addresses, so they must be cheap to lower."""

from __future__ import annotations

from dataclasses import dataclass

from guiderail import _core
from guiderail.constraint import Constraint

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
    """An IPv6 address of RFC 4291, section 2.2, without a zone (the ABNF is that of RFC 3986, section 3.2.2)."""

    def _lower(self, b: _core.Builder) -> int:
        group = b.repeat(b.byte_class(_HEX), 1, 4)
        first = b.concat([group, b.literal(b":")])
        gap = b.literal(b"::")
        low = b.union([b.concat([first, group]), Ipv4()._lower(b)])
        forms = [b.concat([b.repeat(first, 6, 6), low])]
        # "::" with at most n groups before it stands for the groups that are missing
        after = [b.concat([b.repeat(first, n, n), low]) for n in (5, 4, 3, 2, 1)] + [low, group, b.EPSILON]
        for most, tail in enumerate(after):
            before = b.repeat(b.concat([b.repeat(first, 0, most - 1), group]), 0, 1) if most else b.EPSILON
            forms.append(b.concat([before, gap, tail]))
        return b.union(forms)
