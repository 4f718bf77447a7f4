"""What a document may contain, in a normal form.

An element is a list of forms (one for each type that it may have, and one for nil). The content of a form is text, or
particles over elements.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from guiderail.frontends.xml_schema.namespaces import Prefixes

__all__ = [
    "HOLDS_NOTHING",
    "NOTHING",
    "All",
    "Attribute",
    "Children",
    "Choice",
    "Content",
    "Element",
    "Form",
    "Model",
    "Note",
    "Particle",
    "Repeat",
    "Seq",
    "Text",
]

Key: TypeAlias = Hashable


@dataclass(frozen=True, slots=True)
class Element:
    """A child: one of the forms of `Model.forms[key]`."""

    key: Key


@dataclass(frozen=True, slots=True)
class Seq:
    items: tuple[Particle, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    items: tuple[Particle, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """``least`` to ``most`` times (None: no bound). ``some``: once, with an element."""

    item: Particle
    least: int
    most: int | None
    some: bool = False


@dataclass(frozen=True, slots=True)
class All:
    """Members in any order, each ``(particle, least, most)`` times. ``path`` is for errors."""

    items: tuple[tuple[Particle, int, int | None], ...]
    path: str


Particle: TypeAlias = "Element | Seq | Choice | Repeat | All"


@dataclass(frozen=True, slots=True)
class Text:
    """The values of a simple type, or one value: its text and the schema that writes it."""

    type: Any
    fixed: tuple[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Children:
    """Elements, with text between them if ``mixed``."""

    particle: Particle
    mixed: bool


Content: TypeAlias = "Text | Children"
NOTHING = Children(Seq(()), False)
HOLDS_NOTHING = "nothing known fits: it holds nothing"  # the note about a wildcard


@dataclass(frozen=True, slots=True)
class Attribute:
    name: str
    type: Any
    required: bool
    fixed: tuple[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Form:
    """One way to write an element.

    Attributes:
        name: ``{namespace}local``.
        attributes: in the order of the schema.
        content: what is between the tags.
        xsi_type: the type name to write, or None.
        nil: whether to write ``xsi:nil="true"``.
        path: where it was first found.
    """

    name: str
    attributes: tuple[Attribute, ...]
    content: Content
    path: str
    xsi_type: str | None = None
    nil: bool = False


@dataclass(frozen=True, slots=True)
class Note:
    """How a part of the schema is treated that is not simply enforced; see `report.XmlReportEntry`."""

    path: str
    component: str
    status: str
    detail: str


@dataclass(slots=True)
class Model:
    """Everything that the documents of a schema may contain.

    Attributes:
        roots: keys of the possible root elements.
        forms: the forms of each element.
        prefixes: prefixes for all names in the forms.
        notes: what is not enforced exactly.
    """

    roots: list[Key]
    forms: dict[Key, list[Form]]
    prefixes: Prefixes
    notes: list[Note] = field(default_factory=list)
