"""What becomes of the parts of an XML Schema: enforced, approximated, ignored, or left without a document."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from guiderail.frontends.xml_schema.constraint import XmlSchema

__all__ = ["XmlReport", "XmlReportEntry", "report"]


@dataclass(frozen=True, slots=True)
class XmlReportEntry:
    """What becomes of one component.

    Attributes:
        path: where in a document it was first met, as a path of names.
        component: what it is (``"xs:any"``, ``"the type date"``), or ``""`` for the element as a whole.
        status: ``"enforced"``; ``"approximated"``: fewer documents than the schema means are written;
            ``"ignored"``: not enforced, as the option ``on_unsupported`` asked; ``"unsatisfiable"``: no document can
            hold this element.
        detail: why, in words; may be empty.
    """

    path: str
    component: str
    status: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class XmlReport:
    """All entries, in the order of their paths."""

    entries: tuple[XmlReportEntry, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain data: ``{"entries": [{"path", "component", "status", "detail"}, …], "counts": {status: number}}``."""
        counts: dict[str, int] = {}
        for entry in self.entries:
            counts[entry.status] = counts.get(entry.status, 0) + 1
        return {"entries": [asdict(entry) for entry in self.entries], "counts": counts}

    def with_status(self, *statuses: str) -> tuple[XmlReportEntry, ...]:
        """The entries that have one of these statuses."""
        return tuple(entry for entry in self.entries if entry.status in statuses)

    def __str__(self) -> str:
        lines = [f"{status}: {count}" for status, count in self.to_dict()["counts"].items()]
        for entry in self.entries:
            if entry.status != "enforced":
                what = f", {entry.component}" if entry.component else ""
                lines.append(f"{entry.path}{what}: {entry.status}" + (f" ({entry.detail})" if entry.detail else ""))
        return "\n".join(lines)


def report(constraint: XmlSchema) -> XmlReport:
    """Says of every element that a document may hold what becomes of it.

    Raises:
        XmlSchemaError: the schema is refused.
    """
    from guiderail import _core
    from guiderail.frontends.xml_schema.lower import Lowering

    model = constraint.model()
    lowering = Lowering(_core.Builder(), model, constraint.options)
    noted = {note.path for note in model.notes}
    entries = [XmlReportEntry(note.path, note.component, note.status, note.detail) for note in model.notes]
    for key, forms in model.forms.items():
        for path in dict.fromkeys(form.path for form in forms):
            if key not in lowering.productive:
                entries.append(XmlReportEntry(path, "", "unsatisfiable", "no document can contain this element"))
            elif path not in noted:
                entries.append(XmlReportEntry(path, "", "enforced"))
    return XmlReport(tuple(sorted(entries, key=lambda entry: entry.path)))
