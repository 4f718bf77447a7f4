"""The constraint that an XML Schema stands for."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from guiderail import _core
from guiderail.constraints.constraint import Constraint
from guiderail.constraints.reading import Partial, Reading, Unfinished
from guiderail.errors import CompileError
from guiderail.frontends.xml_schema.errors import XmlReadError
from guiderail.frontends.xml_schema.lower import Lowering
from guiderail.frontends.xml_schema.options import XmlSchemaOptions
from guiderail.frontends.xml_schema.reading import check_names, read_schema
from guiderail.frontends.xml_schema.source import Source, library
from guiderail.support.arguments import checked
from guiderail.support.nesting import nested
from guiderail.support.work import MAX_WORK, limited

if TYPE_CHECKING:
    from guiderail.frontends.xml_schema.model import Model
    from guiderail.frontends.xml_schema.report import XmlReport

__all__ = ["XmlSchema", "xml_schema"]


class XmlSchema(Constraint):
    """The documents that an XML Schema allows; made by :func:`xml_schema`. Immutable and hashable.

    Attributes:
        source: the texts of the schema.
        root: names of the elements that may be the root; empty: every global element.
        options: how the schema is read and its documents are written.
    """

    __slots__ = ("_lock", "_model", "_schema", "options", "root", "source")

    source: Source
    root: tuple[str, ...]
    options: XmlSchemaOptions

    def __init__(self, source: Source, root: tuple[str, ...], options: XmlSchemaOptions) -> None:
        """For :func:`xml_schema` only."""
        self.source = source
        self.root = root
        self.options = options
        self._lock = threading.RLock()
        self._schema: Any = None
        self._model: Model | None = None

    @property
    def schema(self) -> Any:
        """The schema object of ``xmlschema``, for validation and more."""
        with self._lock:
            if self._schema is None:
                self._schema = self.source.load()
            return self._schema

    def model(self) -> Model:
        """What a document may hold, freed of the ways in which schemas say it."""
        with self._lock:
            if self._model is None:
                self._model = read_schema(self.schema, self.options, self.root)
            return self._model

    def read(self, text: str) -> Any:
        """The content of a document as ``xmlschema`` decodes it: dicts, lists and values of Python.

        Attributes are members whose names begin with ``@``, the text beside them is ``$``.

        Raises:
            XmlReadError: ``xml-read-syntax``: the text is no XML; ``xml-read``: it is not valid by the schema.
        """
        xmlschema = library()
        try:
            return self.schema.to_dict(text.removeprefix("\ufeff"))
        except xmlschema.XMLSchemaValidationError as error:
            raise XmlReadError(f"not valid for the schema: {error.reason}", path=error.path) from None
        except (xmlschema.XMLSchemaException, SyntaxError, ValueError) as error:
            raise XmlReadError(f"not an XML document: {error}", code="xml-read-syntax") from None

    def reading(self) -> Reading:
        """Reads a document as dicts, lists and values of Python, as :meth:`read` does."""
        return _XmlReading(self)

    def report(self) -> XmlReport:
        """What of the schema is enforced, what is written in fewer ways than it means, and what is ignored."""
        from guiderail.frontends.xml_schema.report import report

        return report(self)

    def _lower(self, b: _core.Builder) -> int:
        with self._lock:
            return Lowering(b, self.model(), self.options).document()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, XmlSchema):
            return NotImplemented
        return (self.source, self.root, self.options) == (other.source, other.root, other.options)

    def __hash__(self) -> int:
        return hash((self.source, self.root, self.options))

    def __reduce__(self) -> tuple[object, ...]:
        return XmlSchema, (self.source, self.root, self.options)

    def __repr__(self) -> str:
        shown = self.source.text if len(self.source.text) <= 60 else self.source.text[:57] + "…"
        root = f", root={self.root[0] if len(self.root) == 1 else list(self.root)!r}" if self.root else ""
        return f"xml_schema({shown!r}{root})"


@dataclass(frozen=True, slots=True)
class _XmlReading:
    """What a document holds, as dicts, lists and values of Python."""

    schema: XmlSchema
    is_text = False

    def read(self, text: str) -> Any:
        return self.schema.read(text)

    def partial(self, *, growing_strings: bool) -> Partial:
        return Unfinished()


@checked
def xml_schema(
    xsd: Any,
    *,
    root: str | Iterable[str] | None = None,
    documents: Iterable[Any] = (),
    version: str | None = None,
    **options: Any,
) -> XmlSchema:
    """The XML documents that an XML Schema allows.

        >>> import guiderail as gr
        >>> note = gr.xml_schema('''
        ...     <xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema">
        ...       <xs:element name="note">
        ...         <xs:complexType>
        ...           <xs:sequence><xs:element name="to" type="xs:string" maxOccurs="3"/></xs:sequence>
        ...           <xs:attribute name="on" type="xs:date" use="required"/>
        ...         </xs:complexType>
        ...       </xs:element>
        ...     </xs:schema>''')
        >>> note.matches('<note on="2024-02-29"><to>Ada &amp; Mary</to></note>')
        True
        >>> note.matches('<note on="2023-02-29"><to>Ada</to></note>')
        False

    Everything that matches is valid by the schema. A document has one spelling: attributes in the order of the schema
    (an option) and in double quotes, ``<a/>`` for an empty element, characters escaped as in Canonical XML, all
    namespaces declared at the root.

    Args:
        xsd: the schema: a text, a ``pathlib.Path``, or a schema object of the ``xmlschema`` package.
        root: name of the element that a document begins with (``"order"``, ``"{urn:x}order"``), or several; None: any
            global element of the schema.
        documents: texts or paths of other schema documents that the schema imports. Files beside the schema are found
            where ``xsd`` is a path; nothing is ever fetched from a network.
        version: of XML Schema: ``"1.0"`` or ``"1.1"``; None: that of a schema object, else ``"1.0"``.
        **options: see :class:`XmlSchemaOptions`: ``layout``, ``indent``, ``max_indented_depth``, ``declaration``,
            ``attribute_order``, ``all_order``, ``max_orders``, ``xsi_types``, ``wildcard_names``, ``max_text_length``,
            ``max_occurs``, ``on_unsupported``.

    Raises:
        XmlSchemaError: the schema is malformed, has no such root, or asks for what cannot be enforced; ``path`` says
            where, and ``source`` and ``span`` show the place in the text.
        CompileError: an argument is wrong, or ``xmlschema`` is not installed.
    """
    if version is not None:
        options["version"] = version
    checked = XmlSchemaOptions.of(options)
    check_names(checked.wildcard_names)
    library()
    source = Source.of(xsd, documents, version)
    if source.version != checked.version:
        checked = XmlSchemaOptions.of({**options, "version": source.version})
    names = () if root is None else (root,) if isinstance(root, str) or not isinstance(root, Iterable) else tuple(root)
    if not all(isinstance(name, str) and name for name in names) or (root is not None and not names):
        raise CompileError("root must be the name of an element, or several names", code="bad-xml-option")
    made = XmlSchema(source, names, checked)
    with nested("the schema"), limited(MAX_WORK):
        made.model()
    return made
