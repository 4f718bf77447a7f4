"""Ready constraints for common strings: ``gr.patterns.email()``, ``gr.patterns.ipv6()`` …

The docstring of each function says exactly what it matches. Digits and letters are always ASCII. Combine the results
like any other constraint.

    >>> import guiderail as gr
    >>> due = "due " + gr.patterns.date()
    >>> due.matches("due 2024-02-29"), due.matches("due 2023-02-29")
    (True, False)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from guiderail.constraints.constraint import Constraint
from guiderail.errors import CompileError
from guiderail.frontends.regex import regex
from guiderail.support.arguments import checked
from guiderail.support.caches import cached
from guiderail.support.options import check_choice, check_flag
from guiderail.support.other_names import names_of_module
from guiderail.support.texts import shown

__all__ = [
    "base64",
    "date",
    "datetime",
    "duration",
    "email",
    "hex_color",
    "hostname",
    "identifier",
    "integer",
    "ipv4",
    "ipv6",
    "jwt",
    "mac_address",
    "number",
    "phone_e164",
    "semver",
    "slug",
    "time",
    "url",
    "uuid",
]

if not TYPE_CHECKING:  # a type checker would take any name for known
    __getattr__, __dir__ = names_of_module("guiderail.patterns", __all__)

_OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_IPV4 = rf"{_OCTET}(?:\.{_OCTET}){{3}}"
_H16 = "[0-9A-Fa-f]{1,4}"
_LS32 = f"(?:{_H16}:{_H16}|{_IPV4})"
_IPV6 = "(?:" + "|".join(
    [f"(?:{_H16}:){{6}}{_LS32}"]
    + [
        f"(?:(?:{_H16}:){{0,{before}}}{_H16})?::{after}" if before >= 0 else f"::{after}"
        for before, after in enumerate(
            [f"(?:{_H16}:){{{n}}}{_LS32}" for n in (5, 4, 3, 2, 1)] + [_LS32, _H16, ""], start=-1
        )
    ]
) + ")"  # fmt: skip
_LABEL = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_TOP = "[A-Za-z](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"

_YEAR = "(?:[1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"
_FOURTH = "(?:0[48]|[2468][048]|[13579][26])"  # 04, 08 … 96
_LEAP_YEAR = f"(?:[0-9]{{2}}{_FOURTH}|{_FOURTH}00)"
_DATE = (
    f"(?:{_YEAR}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    f"|02-(?:0[1-9]|1[0-9]|2[0-8]))|{_LEAP_YEAR}-02-29)"
)
_TIME = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]+)?"
_OFFSET = "(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"

_SUFFIX = {"required": _OFFSET, "optional": _OFFSET + "?", "none": ""}


@cached(4 << 20)
def _made(pattern: str, max_length: int | None = None) -> Constraint:
    return regex(pattern, max_length=max_length)


def _offset(offset: str) -> str:
    check_choice("offset", offset, _SUFFIX, code="bad-pattern-option")
    return _SUFFIX[offset]


# -- networks
@checked
def ipv4() -> Constraint:
    """Matches an IPv4 address: four numbers from 0 to 255 without leading zeros, as ``ipaddress.IPv4Address`` reads
    them.
    """
    return _made(_IPV4)


@checked
def ipv6() -> Constraint:
    """Matches an IPv6 address in any form of RFC 4291, section 2.2: full, with ``::``, or ending in an IPv4 address.

    ``ipaddress.IPv6Address`` reads the same, and zones (``%eth0``) too.
    """
    return _made(_IPV6)


@checked
def hostname() -> Constraint:
    """Matches a host name (RFC 1123): labels of 1 to 63 letters, digits and hyphens, without a hyphen at either end.

    A host name has at most 253 characters and no trailing dot. The last label begins with a letter, like every
    top-level domain, so no IPv4 address matches.
    """
    return _made(rf"(?:{_LABEL}\.)*{_TOP}", 253)


@checked
def email() -> Constraint:
    """Matches an e-mail address in common form: ``Dot-string@Domain`` of RFC 5321.

    The local part has at most 64 characters: atoms of letters, digits and ``!#$%&'*+/=?^_`{|}~-`` joined by single
    dots. The domain is a host name (see :func:`hostname`) with at least two labels. The whole has at most 254
    characters. Quoted local parts, comments, address literals and characters beyond ASCII do not match.
    """
    atom = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
    domain = rf"(?:{_LABEL}\.)+{_TOP}"
    return _email(rf"{atom}(?:\.{atom})*", domain)


@cached(1 << 20)
def _email(local: str, domain: str) -> Constraint:
    return (_made(local, 64) + "@" + _made(domain, 253)).limited_to(254)


@checked
def url(*, schemes: tuple[str, ...] = ("http", "https")) -> Constraint:
    """Matches an absolute URL (RFC 3986) with an authority: ``scheme://[user@]host[:port][/path][?query][#fragment]``.

    The scheme is one of ``schemes``, in the same case. The host is a host name (see :func:`hostname`; a single label
    will do, and the limit of 253 does not apply), an IPv4 address, or an IPv6 address in brackets. The port is empty or
    0 to 65535. All characters are those that RFC 3986 allows; others are percent-encoded.

    Raises:
        CompileError: ``schemes`` is empty, or one is not a scheme (a letter, then letters, digits, ``+``, ``-``,
            ``.``).
    """
    import re

    named = isinstance(schemes, Sequence) and not isinstance(schemes, str) and all(isinstance(s, str) for s in schemes)
    if not named or not schemes or not all(re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*", s) for s in schemes):
        raise CompileError("schemes must be names such as ('http', 'https')", code="bad-pattern-option")
    # sub-delims, unreserved and percent-encoded characters
    common = r"[A-Za-z0-9._~!$&'()*+,;=:-]|%[0-9A-Fa-f]{2}"
    port = "(?:6553[0-5]|655[0-2][0-9]|65[0-4][0-9]{2}|6[0-4][0-9]{3}|[1-5][0-9]{4}|[0-9]{0,4})"
    host = rf"(?:{_IPV4}|\[{_IPV6}\]|(?:{_LABEL}\.)*{_TOP})"
    scheme = "|".join(re.escape(s) for s in dict.fromkeys(schemes))
    return _made(
        rf"(?:{scheme})://(?:(?:{common})*@)?{host}(?::{port})?(?:/(?:{common}|@)*)*"
        rf"(?:\?(?:{common}|[@/?])*)?(?:#(?:{common}|[@/?])*)?"
    )


@checked
def mac_address() -> Constraint:
    """Matches a MAC address (EUI-48): six pairs of hexadecimal digits, joined either by ``:`` or by ``-``."""
    return _made("[0-9A-Fa-f]{2}(?:(?::[0-9A-Fa-f]{2}){5}|(?:-[0-9A-Fa-f]{2}){5})")


@checked
def phone_e164() -> Constraint:
    """Matches a telephone number as in ITU-T E.164: ``+``, then 2 to 15 digits, the first not 0."""
    return _made(r"\+[1-9][0-9]{1,14}")


# -- time
@checked
def date() -> Constraint:
    """Matches a date ``YYYY-MM-DD`` that exists in the Gregorian calendar, from year 0001 to 9999."""
    return _made(_DATE)


@checked
def time(*, offset: str = "optional") -> Constraint:
    """Matches a time ``HH:MM:SS`` from 00:00:00 to 23:59:59, with an optional fraction of a second (RFC 3339).

    There are no leap seconds.

    Args:
        offset: whether ``Z`` or ``±HH:MM`` follows: ``"required"``, ``"optional"`` or ``"none"``.

    Raises:
        CompileError: ``offset`` is something else.
    """
    return _made(_TIME + _offset(offset))


@checked
def datetime(*, offset: str = "required") -> Constraint:
    """Matches a date and a time of RFC 3339 with ``T`` between them; see :func:`date` and :func:`time`.

    Args:
        offset: as for :func:`time`.

    Raises:
        CompileError: ``offset`` is not ``"required"``, ``"optional"`` or ``"none"``.
    """
    return _made(_DATE + "T" + _TIME + _offset(offset))


@checked
def duration() -> Constraint:
    """Matches a duration of RFC 3339, appendix A (ISO 8601): ``P3Y6M4DT12H30M5S``, ``P2W`` …

    It has at least one unit and no fractions, and skips no unit between two others of its date part or of its time
    part.
    """
    time_part = "T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S)"
    date_part = "(?:[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)"
    return _made(f"P(?:{date_part}(?:{time_part})?|{time_part}|[0-9]+W)")


# -- identifiers
@checked
def uuid(version: int | None = None) -> Constraint:
    """Matches a UUID as 8-4-4-4-12 hexadecimal digits of either case (RFC 9562).

    Args:
        version: 1 to 8: only UUIDs of this version and of the RFC's variant; None: any digits.

    Raises:
        CompileError: there is no such version.
    """
    if version is None:
        return _made("[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
    if type(version) is not int or not 1 <= version <= 8:
        raise CompileError(f"UUIDs have versions 1 to 8, not {shown(version)}", code="bad-pattern-option")
    return _made(
        f"[0-9A-Fa-f]{{8}}-[0-9A-Fa-f]{{4}}-{version}[0-9A-Fa-f]{{3}}-[89ABab][0-9A-Fa-f]{{3}}-[0-9A-Fa-f]{{12}}"
    )


@checked
def semver() -> Constraint:
    """Matches a version number of Semantic Versioning 2.0.0: ``major.minor.patch[-prerelease][+build]``."""
    number = "(?:0|[1-9][0-9]*)"
    pre = f"(?:{number}|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
    return _made(rf"{number}\.{number}\.{number}(?:-{pre}(?:\.{pre})*)?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?")


@checked
def slug() -> Constraint:
    """Matches words of lower-case letters and digits, joined by single hyphens: ``a-title-2``."""
    return _made("[a-z0-9]+(?:-[a-z0-9]+)*")


@checked
def identifier() -> Constraint:
    """Matches an identifier of most programming languages: letters, digits and ``_``, not beginning with a digit."""
    return _made("[A-Za-z_][A-Za-z0-9_]*")


# -- values
@checked
def integer() -> Constraint:
    """Matches a decimal integer: an optional ``-``, no leading zeros; ``-0`` matches, as in JSON."""
    return _made("-?(?:0|[1-9][0-9]*)")


@checked
def number() -> Constraint:
    """Matches a JSON number (RFC 8259): an :func:`integer`, an optional fraction, an optional exponent."""
    return _made(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")


@checked
def hex_color() -> Constraint:
    """Matches a CSS color in hexadecimal: ``#`` and 3, 4, 6 or 8 digits of either case."""
    return _made("#(?:[0-9A-Fa-f]{3,4}|[0-9A-Fa-f]{6}|[0-9A-Fa-f]{8})")


@checked
def base64(*, url_safe: bool = False) -> Constraint:
    """Matches one line of base 64 (RFC 4648) with padding; the empty text matches. Unused bits of the last digit are
    0.

    Args:
        url_safe: use the alphabet with ``-`` and ``_`` in place of ``+`` and ``/`` (section 5).
    """
    check_flag("url_safe", url_safe, code="bad-pattern-option")
    digit = "[A-Za-z0-9_-]" if url_safe else "[A-Za-z0-9+/]"
    return _made(f"(?:{digit}{{4}})*(?:{digit}[AQgw]==|{digit}{{2}}[AEIMQUYcgkosw048]=)?")


@checked
def jwt() -> Constraint:
    """Matches text shaped like a signed JSON Web Token (RFC 7519, RFC 7515).

    It has three parts in URL-safe base 64 without padding, joined by dots, none of them empty. Their contents are not
    checked.
    """
    full = "(?:[A-Za-z0-9_-]{4})"
    end = "(?:[A-Za-z0-9_-][AQgw]|[A-Za-z0-9_-]{2}[AEIMQUYcgkosw048])"
    part = f"(?:{full}+{end}?|{end})"
    return _made(rf"{part}\.{part}\.{part}")
