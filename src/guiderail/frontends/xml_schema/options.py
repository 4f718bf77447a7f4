"""The options of :func:`guiderail.xml_schema`: what each means, its unit and its default."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from guiderail.errors import CompileError
from guiderail.support.options import check_choice, check_flag, check_integer, check_names

__all__ = ["XmlSchemaOptions"]

_CHOICES: dict[str, tuple[str, ...]] = {
    "version": ("1.0", "1.1"),
    "layout": ("compact", "indented"),
    "attribute_order": ("declared", "any"),
    "all_order": ("any", "declared"),
    "on_unsupported": ("error", "omit", "warn", "ignore"),
}
_INDENT = 2
_MANY = 2**31 - 1
_COUNTS = {  # least, most
    "indent": (0, 100),
    "max_text_length": (1, _MANY),
    "max_occurs": (1, _MANY),
    "max_orders": (1, _MANY),
    "max_indented_depth": (1, 100),
}
_NULLABLE = ("max_text_length", "max_occurs")


@dataclass(frozen=True, slots=True)
class XmlSchemaOptions:
    """How an XML Schema is read and how its documents are written.

    Attributes:
        version: the version of XML Schema, ``"1.0"`` or ``"1.1"``.
        layout: ``"compact"``: no whitespace between elements; ``"indented"``: each child of an element that holds only
            elements is on its own line.
        indent: spaces per level in the layout ``"indented"``, at most 100.
        max_indented_depth: levels that the layout ``"indented"`` breaks into lines, at most 100; deeper
            ones stay on one line.
        declaration: whether the text begins with ``<?xml version="1.0" encoding="UTF-8"?>``.
        attribute_order: ``"declared"``: attributes in the order of the schema; ``"any"``: in any order.
        all_order: order of the members of ``xs:all``, ``"any"`` or ``"declared"``.
        max_orders: maximum number of subsets of attributes (with ``"any"``) or of members of one ``xs:all`` to tell
            apart; more raise an XmlSchemaLimitError. Ten members need 1,024.
        xsi_types: whether ``xsi:type`` may choose a derived type anywhere, not only where the declared type is
            abstract.
        wildcard_names: names (``"{namespace}local"``, or ``"local"`` without a namespace) of undeclared elements that
            ``xs:any`` (lax or skip) may hold besides the declared ones.
        max_text_length: maximum length, in characters, of text that no facet bounds (strings, mixed text), or None.
        max_occurs: the maximum that stands in for ``maxOccurs="unbounded"`` (never less than ``minOccurs``), or None.
        on_unsupported: what happens to parts that no automaton can enforce (keys, references, assertions, unique
            identifiers). ``"error"`` raises. ``"omit"`` leaves out optional attributes that need them and raises for
            the rest. ``"warn"`` writes them unchecked with a warning, ``"ignore"`` silently. ``report()`` always lists
            them.
    """

    version: str = "1.0"
    layout: str = "compact"
    indent: int = _INDENT
    max_indented_depth: int = 8
    declaration: bool = False
    attribute_order: str = "declared"
    all_order: str = "any"
    max_orders: int = 1024
    xsi_types: bool = False
    wildcard_names: tuple[str, ...] = ()
    max_text_length: int | None = None
    max_occurs: int | None = None
    on_unsupported: str = "error"

    def __post_init__(self) -> None:
        for name, allowed in _CHOICES.items():
            check_choice(name, getattr(self, name), allowed, code="bad-xml-option")
        for name, (least, most) in _COUNTS.items():
            optional = name in _NULLABLE
            check_integer(name, getattr(self, name), least, most, optional=optional, code="bad-xml-option")
        for name in ("declaration", "xsi_types"):
            check_flag(name, getattr(self, name), code="bad-xml-option")
        for name, usual in (("indent", _INDENT), ("max_indented_depth", 8)):
            if getattr(self, name) != usual and self.layout != "indented":
                raise CompileError(
                    f"{name} applies to layout='indented' only; pass that, or leave {name} out", code="bad-xml-option"
                )
        names = self.wildcard_names
        if isinstance(names, str) or not all(isinstance(name, str) for name in names):
            raise CompileError("wildcard_names takes a collection of names", code="bad-xml-option")
        object.__setattr__(self, "wildcard_names", tuple(dict.fromkeys(names)))

    @classmethod
    def of(cls, options: dict[str, Any]) -> XmlSchemaOptions:
        """Makes options from keyword arguments.

        Raises:
            CompileError: ``bad-xml-option``: a name is unknown, or a value is wrong.
        """
        check_names("xml_schema", options, (one.name for one in fields(cls)), code="bad-xml-option")
        return cls(**options)
