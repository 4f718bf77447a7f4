"""URIs (RFC 3986), IRIs (RFC 3987) and URI templates (RFC 6570), rule by rule as their ABNF has them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from guiderail import _core
from guiderail._core import CharSet
from guiderail.constraint import Constraint
from guiderail.frontends.json_schema.formats._made import made
from guiderail.frontends.json_schema.formats.addresses import Ipv6

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

    ``host`` needs no case for IPv4 addresses: each is a ``reg-name`` too.
    """

    international: bool
    reference: bool

    def _lower(self, b: _core.Builder) -> int:
        hexadecimal = b.byte_class(_HEX)
        encoded = b.concat([b.literal(b"%"), hexadecimal, hexadecimal])

        def char(extra: str, private: bool = False) -> int:
            chars = _set(extra, international=self.international, private=private and self.international)
            return b.union([b.char_class(chars), encoded])

        slash, colon, nothing = b.literal(b"/"), b.literal(b":"), b.EPSILON
        part = char(_SUBS + ":@")
        segment, user = b.repeat(part, 0), b.repeat(char(_SUBS + ":"), 0)
        tail = b.repeat(b.concat([slash, segment]), 0)
        future = b.concat([
            b.byte_class(b"Vv"), b.repeat(hexadecimal, 1), b.literal(b"."), b.repeat(b.char_class(_set(_SUBS + ":")), 1)
        ])  # fmt: skip
        literal = b.concat([b.literal(b"["), b.union([Ipv6()._lower(b), future]), b.literal(b"]")])
        port = b.repeat(b.concat([colon, b.repeat(b.byte_class(b"0123456789"), 0)]), 0, 1)
        host = b.union([literal, b.repeat(char(_SUBS), 0)])
        network = b.concat([b.literal(b"//"), b.union([nothing, b.concat([user, b.literal(b"@")])]), host, port, tail])
        rootless = b.concat([b.repeat(part, 1), tail])
        absolute = b.concat([slash, b.repeat(rootless, 0, 1)])
        query = b.concat([b.literal(b"?"), b.repeat(char(_SUBS + ":@/?", private=True), 0)])
        fragment = b.concat([b.literal(b"#"), b.repeat(char(_SUBS + ":@/?"), 0)])
        end = b.concat([b.repeat(query, 0, 1), b.repeat(fragment, 0, 1)])
        letter = b.char_class(CharSet(_ALNUM[1:]))
        scheme = b.concat([letter, b.repeat(b.char_class(CharSet([*_ALNUM, (43, 43), (45, 46)])), 0), colon])
        whole = b.concat([scheme, b.union([network, absolute, rootless, nothing]), end])
        if not self.reference:
            return whole
        no_scheme = b.concat([b.repeat(char(_SUBS + "@"), 1), tail])
        return b.union([whole, b.concat([b.union([network, absolute, no_scheme, nothing]), end])])


def uri() -> Constraint:
    """``URI``: with a scheme, a fragment allowed."""
    return _Uri(False, False)


def uri_reference() -> Constraint:
    """``URI-reference``: a URI or a relative reference, the empty one too."""
    return _Uri(False, True)


def iri() -> Constraint:
    """``IRI``."""
    return _Uri(True, False)


def iri_reference() -> Constraint:
    """``IRI-reference``."""
    return _Uri(True, True)


def _template(operators: str) -> Constraint:
    # section 2.1, with the apostrophe that erratum 6937 adds
    beyond = "".join(f"{chr(low)}-{chr(high)}" for low, high in _UCS + _PRIVATE)
    encoded = "%[0-9A-Fa-f]{2}"
    literal = rf"(?:[!#$&-;=?-\[\]_a-z~{beyond}]|{encoded})"
    char = f"(?:[A-Za-z0-9_]|{encoded})"
    spec = rf"{char}(?:\.?{char})*(?::[1-9][0-9]{{0,3}}|\*)?"
    return made(rf"(?:{literal}|\{{[{operators}]?{spec}(?:,{spec})*\}})*")


def uri_template() -> Constraint:
    """A template of level 1 to 4; the operators ``= , ! @ |``, reserved for later levels, are left out."""
    return _template("+#./;?&")


def uri_template_reserved() -> Constraint:
    """All that the grammar allows: with the reserved operators."""
    return _template("+#./;?&=,!@|")
