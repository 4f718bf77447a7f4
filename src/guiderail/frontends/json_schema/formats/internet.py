"""Host names, mail addresses and IP addresses in ASCII."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from guiderail import _core
from guiderail._core import CharSet
from guiderail.constraint import Constraint
from guiderail.frontends.json_schema.formats._made import made
from guiderail.frontends.json_schema.formats.addresses import Ipv4, Ipv6
from guiderail.frontends.regex.charsets import ANY
from guiderail.patterns import _LABEL

__all__ = ["address_literal", "domain", "email", "hostname", "hostname_wide", "ipv4", "ipv6"]

_ATOM = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_LOCAL = rf'(?:{_ATOM}(?:\.{_ATOM})*|"(?:[ !#-\[\]-~]|\\[ -~])*")'


def ipv4() -> Constraint:
    """``dotted-quad`` of RFC 2673: four numbers from 0 to 255 without leading zeros."""
    return Ipv4()


def ipv6() -> Constraint:
    """An IPv6 address of RFC 4291, section 2.2, without a zone."""
    return Ipv6()


@dataclass(frozen=True, slots=True)
class _Hostname(Constraint):
    """Host names of labels that do not begin with ``xn--``."""

    def _lower(self, b: _core.Builder) -> int:
        alnum = b.char_class(CharSet([(48, 57), (65, 90), (97, 122)]))
        some = b.repeat(b.char_class(CharSet([(45, 45), (48, 57), (65, 90), (97, 122)])), 0, 61)
        label = b.concat([alnum, b.repeat(b.concat([some, alnum]), 0, 1)])
        any_char = b.char_class(ANY)
        coded = b.concat([b.byte_class(b"Xx"), b.byte_class(b"Nn"), b.literal(b"--"), b.repeat(any_char, 0)])
        plain = b.intersection([label, b.complement(coded)])
        name = b.concat([plain, b.repeat(b.concat([b.literal(b"."), plain]), 0)])
        return b.intersection([name, b.repeat(any_char, 1, 253)])


def hostname() -> Constraint:
    """Host names of RFC 1123, section 2.1, without labels that begin with ``xn--`` (see ``hostname_wide``)."""
    return _Hostname()


def hostname_wide() -> Constraint:
    """Host names with any ``xn--`` label.

    Such a label must be the Punycode of a valid international label (RFC 5890), which is a matter of arithmetic
    that no automaton of a bearable size can do: ``hostname`` lies below the format, this above it.
    """
    return domain()


@lru_cache(maxsize=1)
def address_literal() -> Constraint:
    """``address-literal`` of RFC 5321, section 4.1.3, but for the tags that are yet to be registered."""
    return "[" + (Ipv4() | (made("[Ii][Pp][Vv]6:") + Ipv6())) + "]"


def domain() -> Constraint:
    """``Domain`` of RFC 5321, section 4.1.2, with the lengths that DNS allows."""
    return made(rf"{_LABEL}(?:\.{_LABEL})*", 253)


@lru_cache(maxsize=1)
def email() -> Constraint:
    """``Mailbox`` of RFC 5321, section 4.1.2, within the lengths of section 4.5.3.1.

    Dot-strings and quoted strings of at most 64 characters; a domain of host name labels, at most 253, or an
    address literal ``[127.0.0.1]``, ``[IPv6:::1]``; 254 characters in all. The general address literals of tags yet
    to be registered are left out.
    """
    return (made(_LOCAL, 64) + "@" + (domain() | address_literal())).limited_to(254)
