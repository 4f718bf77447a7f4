"""URIs (RFC 3986), IRIs (RFC 3987) and URI templates (RFC 6570), rule by rule as their ABNF has them."""

from __future__ import annotations

from guiderail.constraint import Constraint
from guiderail.frontends.json_schema.formats._made import made
from guiderail.frontends.json_schema.formats.internet import IPV6

__all__ = ["iri", "iri_reference", "uri", "uri_reference", "uri_template", "uri_template_reserved"]

_PCT = "%[0-9A-Fa-f]{2}"
# RFC 3987, section 2.2
_UCS = "\xa0-\ud7ff\uf900-\ufdcf\ufdf0-\uffef" + "".join(
    f"{chr((plane << 16) + (0x1000 if plane == 14 else 0))}-{chr((plane << 16) + 0xFFFD)}" for plane in range(1, 15)
)
_PRIVATE = "\ue000-\uf8ff\U000f0000-\U000ffffd\U00100000-\U0010fffd"


def _grammar(ucs: str, private: str) -> tuple[str, str]:
    """The patterns of an absolute form and of a relative reference."""
    unreserved = f"A-Za-z0-9._~{ucs}-"
    subs = "!$&'()*+,;="
    pchar = f"(?:[{subs}:@{unreserved}]|{_PCT})"
    userinfo = f"(?:[{subs}:{unreserved}]|{_PCT})*"
    name = f"(?:[{subs}{unreserved}]|{_PCT})*"
    future = rf"[Vv][0-9A-Fa-f]+\.[A-Za-z0-9._~{subs}:-]+"
    host = rf"(?:\[(?:{IPV6}|{future})\]|{name})"  # an IPv4 address is a reg-name too
    authority = f"(?:{userinfo}@)?{host}(?::[0-9]*)?"
    tail = f"(?:/{pchar}*)*"
    absolute = f"/(?:{pchar}+{tail})?"
    no_colon = f"(?:[{subs}@{unreserved}]|{_PCT})+"
    query = rf"(?:\?(?:[{subs}:@/?{private}{unreserved}]|{_PCT})*)?"
    fragment = f"(?:#(?:[{subs}:@/?{unreserved}]|{_PCT})*)?"
    whole = f"[A-Za-z][A-Za-z0-9+.-]*:(?://{authority}{tail}|{absolute}|{pchar}+{tail}|){query}{fragment}"
    relative = f"(?://{authority}{tail}|{absolute}|{no_colon}{tail}|){query}{fragment}"
    return whole, relative


_URI, _RELATIVE = _grammar("", "")
_IRI, _IRI_RELATIVE = _grammar(_UCS, _PRIVATE)


def uri() -> Constraint:
    """``URI``: with a scheme, a fragment allowed."""
    return made(_URI)


def uri_reference() -> Constraint:
    """``URI-reference``: a URI or a relative reference, the empty one too."""
    return made(f"{_URI}|{_RELATIVE}")


def iri() -> Constraint:
    """``IRI``."""
    return made(_IRI)


def iri_reference() -> Constraint:
    """``IRI-reference``."""
    return made(f"{_IRI}|{_IRI_RELATIVE}")


def _template(operators: str) -> str:
    # section 2.1, with the apostrophe that erratum 6937 adds
    literal = rf"(?:[!#$&-;=?-\[\]_a-z~{_UCS}{_PRIVATE}]|{_PCT})"
    char = f"(?:[A-Za-z0-9_]|{_PCT})"
    spec = rf"{char}(?:\.?{char})*(?::[1-9][0-9]{{0,3}}|\*)?"
    return rf"(?:{literal}|\{{[{operators}]?{spec}(?:,{spec})*\}})*"


def uri_template() -> Constraint:
    """A template of level 1 to 4; the operators ``= , ! @ |``, reserved for later levels, are left out."""
    return made(_template("+#./;?&"))


def uri_template_reserved() -> Constraint:
    """All that the grammar allows: with the reserved operators."""
    return made(_template("+#./;?&=,!@|"))
