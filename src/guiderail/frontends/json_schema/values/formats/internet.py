"""Host names, mail addresses and IP addresses in ASCII."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from guiderail import _core
from guiderail._core import CharSet
from guiderail.constraints.constraint import Constraint
from guiderail.frontends.json_schema.values.formats._cached_regex import cached_regex
from guiderail.frontends.json_schema.values.formats.addresses import Ipv4, Ipv6
from guiderail.frontends.regex.charsets import ANY
from guiderail.support.caches import cached

__all__ = ["address_literal", "domain", "email", "hostname", "hostname_wide", "ipv4", "ipv6"]

_XS, _NS = CharSet([(0x58, 0x58), (0x78, 0x78)]), CharSet([(0x4E, 0x4E), (0x6E, 0x6E)])
_ATOM = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_LOCAL = rf'(?:{_ATOM}(?:\.{_ATOM})*|"(?:[ !#-\[\]-~]|\\[ -~])*")'


@lru_cache(maxsize=2)
def _alnum(extra: str = "") -> CharSet:
    return CharSet([(0x30, 0x39), (0x41, 0x5A), (0x61, 0x7A), *((ord(c), ord(c)) for c in extra)])


def ipv4() -> Constraint:
    """``dotted-quad`` of RFC 2673: four numbers from 0 to 255 without leading zeros."""
    return Ipv4()


def ipv6() -> Constraint:
    """An IPv6 address of RFC 4291, section 2.2, without a zone."""
    return Ipv6()


def labels(b: _core.Builder, *, coded: bool) -> int:
    """Labels of at most 63 characters, joined by dots; ``coded``: including those that begin with ``xn--``.

    Labels that begin with ``x`` are written out: a complement would need an emptiness search at every step.
    """
    alnum, ldh = b.char_class(_alnum()), b.char_class(_alnum("-"))
    hyphen = b.literal(b"-")

    def rest(most: int) -> int:
        """Nothing, or up to ``most`` characters, the last of which is not a hyphen."""
        return b.repeat(b.concat([b.repeat(ldh, 0, most - 1), alnum]), 0, 1)

    if coded:
        label = b.concat([alnum, rest(62)])
    else:
        after_xn = b.union([  # one hyphen at most
            b.concat([alnum, rest(60)]), b.concat([hyphen, alnum, rest(59)])
        ])  # fmt: skip
        after_x = b.union([
            b.concat([b.char_class(_alnum() - _NS), rest(61)]),
            b.concat([hyphen, b.repeat(ldh, 0, 60), alnum]),
            b.concat([b.char_class(_NS), b.repeat(after_xn, 0, 1)]),
        ])  # fmt: skip
        label = b.union([
            b.concat([b.char_class(_alnum() - _XS), rest(62)]),
            b.concat([b.char_class(_XS), b.repeat(after_x, 0, 1)]),
        ])  # fmt: skip
    return b.concat([label, b.repeat(b.concat([b.literal(b"."), label]), 0)])


@dataclass(frozen=True, slots=True)
class _Domain(Constraint):
    """Host names of at most 253 characters; ``coded``: with labels that begin with ``xn--``."""

    coded: bool

    def _lower(self, b: _core.Builder) -> int:
        return b.intersection([labels(b, coded=self.coded), b.repeat(b.char_class(ANY), 0, 253)])


def hostname() -> Constraint:
    """Host names of RFC 1123, section 2.1, without labels that begin with ``xn--`` (see ``hostname_wide``)."""
    return _Domain(False)


def hostname_wide() -> Constraint:
    """Host names with any ``xn--`` label.

    Such a label must be the Punycode of a valid international label (RFC 5890). This takes arithmetic that no automaton
    of reasonable size can do. So ``hostname`` is a subset of the format, and this is a superset.
    """
    return domain()


@cached(1 << 20)
def address_literal() -> Constraint:
    """``address-literal`` of RFC 5321, section 4.1.3, without the tags that are yet to be registered."""
    return "[" + (Ipv4() | (cached_regex("[Ii][Pp][Vv]6:") + Ipv6())) + "]"


def domain() -> Constraint:
    """``Domain`` of RFC 5321, section 4.1.2, with the lengths that DNS allows."""
    return _Domain(True)


@dataclass(frozen=True, slots=True)
class _Mailbox(Constraint):
    """See ``email``. The first character of each part decides what comes next, which makes masks cheap."""

    def _lower(self, b: _core.Builder) -> int:
        hyphen, some = b.repeat(b.literal(b"-"), 1), b.repeat(b.char_class(_alnum()), 1)
        label = b.concat([some, b.repeat(b.concat([hyphen, some]), 0)])
        domain = b.concat([label, b.repeat(b.concat([b.literal(b"."), label]), 0)])
        where = b.union([domain, address_literal()._lower(b)])
        whole = b.concat([cached_regex(_LOCAL)._lower(b), b.literal(b"@"), where])
        return b.intersection([whole, b.repeat(b.char_class(ANY), 0, 254)])


def email() -> Constraint:
    """``Mailbox`` of RFC 5321, section 4.1.2, of at most 254 characters.

    The limits of section 4.5.3.1 for each part (64 before the ``@``) and those of DNS for labels (63) are not part of
    that rule, and are not enforced. General address literals with unregistered tags are left out.
    """
    return _Mailbox()
