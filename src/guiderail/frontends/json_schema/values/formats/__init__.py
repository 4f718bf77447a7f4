"""The formats that JSON Schema asserts, by name, as constraints on the decoded text.

A format that is a regular language of manageable size has one constraint. The others have two: all texts of ``narrow``
are in the format, and all texts in the format are in ``wide``. If a text must be in the format, the narrow one is used;
if it must *not* be, the complement of the wide one. So an approximation never accepts a wrong text.

Each is lowered once per process and recorded for all programs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from guiderail import _core
from guiderail.constraints.constraint import Constraint
from guiderail.frontends.json_schema.values.formats import dates, identifiers, international, internet, regexes, uris
from guiderail.support.caches import cached

__all__ = ["FORMATS", "Format", "FormatTexts"]


@dataclass(frozen=True, slots=True)
class Format:
    """One format.

    Attributes:
        name: its name in a schema.
        narrow: makes a constraint whose texts are all in the format.
        wide: makes a constraint that contains all texts of the format; None: the narrow one is exact.
        missing: what the narrow one leaves out, in words; empty if it is exact.
    """

    name: str
    narrow: Callable[[], Constraint]
    wide: Callable[[], Constraint] | None = None
    missing: str = ""

    @property
    def is_exact(self) -> bool:
        return self.wide is None


FORMATS: dict[str, Format] = {
    f.name: f
    for f in (
        Format("date", dates.date),
        Format("time", dates.time),
        Format("date-time", dates.date_time),
        Format("duration", dates.duration),
        Format("email", internet.email),
        Format("hostname", internet.hostname, internet.hostname_wide, "labels in Punycode (xn--…)"),
        Format(
            "idn-email",
            international.idn_email,
            international.idn_email_wide,
            "local parts, labels and names of other characters than ASCII that come near their limits in octets",
        ),
        Format(
            "idn-hostname",
            international.idn_hostname,
            international.idn_hostname_wide,
            "labels in Punycode (xn--…), most combining marks, labels near 63 octets, names near 253",
        ),
        Format("ipv4", internet.ipv4),
        Format("ipv6", internet.ipv6),
        Format("uri", uris.uri),
        Format("uri-reference", uris.uri_reference),
        Format("iri", uris.iri),
        Format("iri-reference", uris.iri_reference),
        Format("uri-template", uris.uri_template, uris.uri_template_reserved, "the reserved operators = , ! @ |"),
        Format(
            "regex",
            regexes.ecma_pattern,
            regexes.ecma_pattern_wide,
            "groups nested deeper than 8, references beyond 4 or to groups in groups, names in odd order, rare ranges",
        ),
        Format("uuid", identifiers.uuid),
        Format("json-pointer", identifiers.json_pointer),
        Format(
            "relative-json-pointer",
            identifiers.relative_json_pointer,
            identifiers.relative_json_pointer_shifted,
            "shifts of an array index (0-1/name)",
        ),
    )
}
"""Format name -> :class:`Format`."""


@dataclass(frozen=True, slots=True)
class FormatTexts(Constraint):
    """The texts of a format, by name: short to print, to compare and to pickle.

    Attributes:
        name: a key of :data:`FORMATS`.
        wide: whether the constraint above the format is meant, not the one below.
    """

    name: str
    wide: bool = False

    def _lower(self, b: _core.Builder) -> int:
        return b.replay(_written(self))

    def __repr__(self) -> str:
        return f"format({self.name!r}{', wide=True' if self.wide else ''})"


@cached(8 << 20, lambda written, _: len(written))
def _written(format: FormatTexts) -> bytes:
    """The expression as a program file, which is faster to read than to build."""
    found = FORMATS[format.name]
    made = (found.wide if format.wide and found.wide is not None else found.narrow)()
    builder = _core.Builder(records=True)
    return builder.recorded(made._lower(builder))
