"""Reports for each part of an XML Schema whether it is enforced, approximated, ignored, or matched by no document."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from guiderail.support.reports import StatusReport

if TYPE_CHECKING:
    from guiderail.frontends.xml_schema.constraint import XmlSchema

__all__ = ["XmlReport", "XmlReportEntry", "report"]


@dataclass(frozen=True, slots=True)
class XmlReportEntry:
    """The status of one component.

    Attributes:
        path: where in a document it was first found, as a path of names.
        component: the component (``"xs:any"``, ``"the type date"``), or ``""`` for the element as a whole.
        status: ``"enforced"``; ``"approximated"``: fewer documents are written than the schema means; ``"ignored"``:
            not enforced, as the option ``on_unsupported`` says; ``"unsatisfiable"``: no document can contain this
            element.
        detail: the reason, in words; may be empty.
    """

    path: str
    component: str
    status: str
    detail: str = ""

    @property
    def place(self) -> str:
        """The path, with the component."""
        return f"{self.path}, {self.component}" if self.component else self.path


class XmlReport(StatusReport[XmlReportEntry]):
    """All entries, in the order of their paths."""

    __slots__ = ()


def report(constraint: XmlSchema) -> XmlReport:
    """Returns the status of every element that a document may contain.

    Raises:
        XmlSchemaError: the schema is rejected.
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
