"""URLs and data source names, as pydantic reads them: those that have an authority, in ASCII.

pydantic follows the URL standard of WHATWG, which repairs much and rejects little. Written is what needs no repair:
hosts without Punycode, whose last label begins with a letter, or IP addresses; everything else as in RFC 3986.
"""

from __future__ import annotations

import re
from typing import Any

from guiderail.frontends import patterns
from guiderail.frontends.python_types import nodes
from guiderail.frontends.python_types.bounds import Bounds

__all__ = ["url"]

_COMMON = "[A-Za-z0-9._~!$&'()*+,;=:-]|%[0-9A-Fa-f]{2}"
_LABEL = "(?![Xx][Nn]--)[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_TOP = "(?![Xx][Nn]--)[A-Za-z](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_IPV4, _IPV6 = patterns.ipv4().pattern, patterns.ipv6().pattern  # type: ignore[attr-defined]
_HOST = rf"(?:{_IPV4}|\[{_IPV6}\]|(?:{_LABEL}\.)*{_TOP})"
_PORT = "(?::(?:6553[0-5]|655[0-2][0-9]|65[0-4][0-9]{2}|6[0-4][0-9]{3}|[1-5][0-9]{4}|[1-9][0-9]{0,3}))?"
_USER = rf"(?:(?:{_COMMON})+@)?"
_TAIL = rf"(?:/(?:{_COMMON}|@)*)*(?:\?(?:{_COMMON}|[@/?])*)?(?:#(?:{_COMMON}|[@/?])*)?"
_FILE = rf"file://(?:/(?:{_COMMON}|@)+){{1,30}}"
_LONGEST = 2083  # characters, as of HttpUrl
_ANY_SCHEME = "(?!file:)[a-z][a-z0-9+.-]*"


def url(kind: Any, name: str, constraints: Any = None) -> nodes.Node:
    """The URLs of a class of pydantic's, such as ``HttpUrl`` and ``PostgresDsn``.

    Args:
        kind: the class.
        name: its name, for messages.
        constraints: ``UrlConstraints`` of an annotation, which replace those of the class.
    """
    own = getattr(kind, "_constraints", None)
    schemes = getattr(constraints, "allowed_schemes", None) or getattr(own, "allowed_schemes", None)
    longest = getattr(constraints, "max_length", None) or getattr(own, "max_length", None) or _LONGEST
    if schemes == ["file"]:
        pattern = _FILE
    else:
        scheme = "|".join(map(_escaped, schemes)) if schemes else _ANY_SCHEME
        host = _HOST + _PORT
        many = rf"{_USER.replace(',', '')}{host}(?:,{host})*"  # pydantic cuts at commas first
        authority = many if hasattr(kind, "hosts") else _USER + host
        pattern = rf"(?:{scheme})://{authority}{_TAIL}" + ("" if schemes else f"|{_FILE}")
    return nodes.Text(name, f"^(?:{pattern})$", bounds=Bounds(max_length=longest), sized=True)


def _escaped(scheme: str) -> str:
    return re.sub("([+.])", r"\\\1", scheme)
