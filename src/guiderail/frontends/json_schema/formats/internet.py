"""Host names, mail addresses and IP addresses in ASCII."""

from __future__ import annotations

from functools import lru_cache

from guiderail.constraint import Constraint
from guiderail.frontends.json_schema.formats._made import made
from guiderail.patterns import _IPV4, _IPV6, _LABEL

__all__ = ["IPV4", "IPV6", "LDH_LABEL", "email", "hostname", "hostname_wide", "ipv4", "ipv6"]

IPV4, IPV6 = _IPV4, _IPV6
LDH_LABEL = _LABEL
_ATOM = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_LOCAL = rf'(?:{_ATOM}(?:\.{_ATOM})*|"(?:[ !#-\[\]-~]|\\[ -~])*")'
_PLAIN_LABEL = f"(?![Xx][Nn]--){_LABEL}"


def ipv4() -> Constraint:
    """``dotted-quad`` of RFC 2673: four numbers from 0 to 255 without leading zeros."""
    return made(IPV4)


def ipv6() -> Constraint:
    """An IPv6 address of RFC 4291, section 2.2, without a zone."""
    return made(IPV6)


def hostname() -> Constraint:
    """Host names of RFC 1123, section 2.1, without labels that begin with ``xn--`` (see ``hostname_wide``)."""
    return made(rf"{_PLAIN_LABEL}(?:\.{_PLAIN_LABEL})*", 253)


def hostname_wide() -> Constraint:
    """Host names with any ``xn--`` label.

    Such a label must be the Punycode of a valid international label (RFC 5890), which is a matter of arithmetic
    that no automaton of a bearable size can do: ``hostname`` lies below the format, this above it.
    """
    return made(rf"{_LABEL}(?:\.{_LABEL})*", 253)


@lru_cache(maxsize=1)
def email() -> Constraint:
    """``Mailbox`` of RFC 5321, section 4.1.2, within the lengths of section 4.5.3.1.

    Dot-strings and quoted strings of at most 64 characters; a domain of host name labels, at most 253, or an
    address literal ``[127.0.0.1]``, ``[IPv6:::1]``; 254 characters in all. The general address literals of tags yet
    to be registered are left out.
    """
    domain = made(rf"{_LABEL}(?:\.{_LABEL})*", 253) | made(rf"\[(?:{IPV4}|[Ii][Pp][Vv]6:{IPV6})\]")
    return (made(_LOCAL, 64) + "@" + domain).limited_to(254)
