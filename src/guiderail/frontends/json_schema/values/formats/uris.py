"""URIs (RFC 3986), IRIs (RFC 3987) and URI templates (RFC 6570), rule by rule as their ABNF has them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from guiderail import _core
from guiderail._core import CharSet
from guiderail.constraints.constraint import Constraint
from guiderail.frontends.json_schema.values.formats._cached_regex import cached_regex
from guiderail.frontends.json_schema.values.formats.addresses import Ipv6

__all__ = ["iri", "iri_reference", "uri", "uri_reference", "uri_template", "uri_template_reserved"]

# RFC 3987, section 2.2
_UCS = [(0xA0, 0xD7FF), (0xF900, 0xFDCF), (0xFDF0, 0xFFEF)] + [
    ((plane << 16) + (0x1000 if plane == 14 else 0), (plane << 16) + 0xFFFD) for plane in range(1, 15)
]
_PRIVATE = [(0xE000, 0xF8FF), (0xF0000, 0xFFFFD), (0x100000, 0x10FFFD)]
_ALNUM = [(0x30, 0x39), (0x41, 0x5A), (0x61, 0x7A)]
_SUBS = "!$&'()*+,;="
_HEX = b"0123456789ABCDEFabcdef"


@lru_cache(maxsize=16)
def _set(extra: str, *, international: bool = False, private: bool = False) -> CharSet:
    """``unreserved`` with the characters of ``extra``."""
    ranges = _ALNUM + [(ord(c), ord(c)) for c in "-._~" + extra]
    return CharSet(ranges + (_UCS if international else []) + (_PRIVATE if private else []))


@dataclass(frozen=True, slots=True)
class _Uri(Constraint):
    """``URI`` or, with ``reference``, ``URI-reference``; ``international``: the rules of IRIs.

    The ABNF tries alternatives side by side (user information or a host before ``@``, a scheme or a first segment).
    Here they are one until the character that tells them apart, which keeps the masks cheap. ``host`` needs no case for
    IPv4 addresses: each is a ``reg-name`` too.
    """

    international: bool
    reference: bool

    def _lower(self, b: _core.Builder) -> int:
        hexadecimal, digit = b.byte_class(_HEX), b.byte_class(b"0123456789")
        slash, colon, at = b.literal(b"/"), b.literal(b":"), b.literal(b"@")
        encoded = b.concat([b.literal(b"%"), hexadecimal, hexadecimal])

        def chars(extra: str, private: bool = False) -> CharSet:
            return _set(extra, international=self.international, private=private and self.international)

        def run(extra: str, private: bool = False) -> int:
            """Any number of characters, including encoded ones."""
            plain = b.repeat(b.char_class(chars(extra, private)), 0)
            return b.concat([plain, b.repeat(b.concat([encoded, plain]), 0)])

        def begun(first: CharSet, rest: int) -> int:
            """A character of ``first`` or an encoded one, then ``rest``."""
            return b.concat([b.union([b.char_class(first), encoded]), rest])

        def optional(e: int) -> int:
            return b.repeat(e, 0, 1)

        query = b.concat([b.literal(b"?"), run(_SUBS + ":@/?", private=True)])
        fragment = b.concat([b.literal(b"#"), run(_SUBS + ":@/?")])
        end = b.concat([optional(query), optional(fragment)])

        path = run(_SUBS + ":@/")  # any segments
        rootless = begun(chars(_SUBS + ":@"), path)
        after_authority = optional(b.concat([slash, path]))
        future = b.concat([
            b.byte_class(b"Vv"), b.repeat(hexadecimal, 1), b.literal(b"."), b.repeat(b.char_class(_set(_SUBS + ":")), 1)
        ])  # fmt: skip
        literal = b.concat([b.literal(b"["), b.union([Ipv6()._lower(b), future]), b.literal(b"]")])
        port = optional(b.concat([colon, b.repeat(digit, 0)]))
        name = run(_SUBS)
        literal_host = b.concat([literal, port])
        with_user = b.concat([at, b.union([literal_host, b.concat([name, port])])])
        # name, name:port, name@host, name:password@host, where a password may begin like a port
        password = begun(chars(_SUBS + ":") - CharSet(_ALNUM[:1]), run(_SUBS + ":"))
        after_colon = b.concat([b.repeat(digit, 0), optional(b.concat([optional(password), with_user]))])
        after_name = optional(b.union([with_user, b.concat([colon, after_colon])]))
        authority = b.union([literal_host, b.concat([name, after_name])])
        network = b.concat([slash, authority, after_authority])
        rooted = b.concat([slash, optional(b.union([network, rootless]))])

        hierarchy = b.concat([colon, optional(b.union([rooted, rootless])), end])
        letters, scheme_chars = CharSet(_ALNUM[1:]), CharSet([*_ALNUM, (43, 43), (45, 46)])
        letter, scheme = b.char_class(letters), b.repeat(b.char_class(scheme_chars), 0)
        if not self.reference:
            return b.concat([letter, scheme, hierarchy])
        # a first segment without a colon may begin like a scheme
        segment = b.concat([run(_SUBS + "@"), after_authority])
        other = begun(chars(_SUBS + "@") - scheme_chars, segment)
        after_scheme = b.union([hierarchy, b.concat([b.union([other, after_authority]), end])])
        no_letter = begun(chars(_SUBS + "@") - letters, segment)
        return b.union([
            b.concat([letter, scheme, after_scheme]), b.concat([optional(b.union([rooted, no_letter])), end])
        ])  # fmt: skip


def uri() -> Constraint:
    """``URI``: with a scheme, a fragment allowed."""
    return _Uri(False, False)


def uri_reference() -> Constraint:
    """``URI-reference``: a URI or a relative reference, the empty one too."""
    return _Uri(False, True)


def iri() -> Constraint:
    """An ``IRI``."""
    return _Uri(True, False)


def iri_reference() -> Constraint:
    """An ``IRI-reference``."""
    return _Uri(True, True)


def _template(operators: str) -> Constraint:
    # section 2.1, with the apostrophe that erratum 6937 adds
    beyond = "".join(f"{chr(low)}-{chr(high)}" for low, high in _UCS + _PRIVATE)
    encoded = "%[0-9A-Fa-f]{2}"
    literal = rf"(?:[!#$&-;=?-\[\]_a-z~{beyond}]|{encoded})"
    char = f"(?:[A-Za-z0-9_]|{encoded})"
    spec = rf"{char}(?:\.?{char})*(?::[1-9][0-9]{{0,3}}|\*)?"
    return cached_regex(rf"(?:{literal}|\{{[{operators}]?{spec}(?:,{spec})*\}})*")


def uri_template() -> Constraint:
    """A template of level 1 to 4; the operators ``= , ! @ |``, reserved for later levels, are left out."""
    return _template("+#./;?&")


def uri_template_reserved() -> Constraint:
    """All that the grammar allows: with the reserved operators."""
    return _template("+#./;?&=,!@|")
