"""The constraint that an XML Schema stands for."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from guiderail import _core
from guiderail.constraints.constraint import Constraint
from guiderail.constraints.places import placing
from guiderail.constraints.reading import Partial, Reading, Unfinished
from guiderail.errors import CompileError, LimitError
from guiderail.frontends.xml_schema.components import check_names, read_schema
from guiderail.frontends.xml_schema.errors import XmlReadError, at_path
from guiderail.frontends.xml_schema.lower import Lowering
from guiderail.frontends.xml_schema.options import XmlSchemaOptions
from guiderail.frontends.xml_schema.source import Source, library
from guiderail.support.arguments import checked
from guiderail.support.locks import free_after_fork
from guiderail.support.nesting import nested
from guiderail.support.texts import clipped
from guiderail.support.work import reading

if TYPE_CHECKING:
    from guiderail.frontends.xml_schema.model import Model
    from guiderail.frontends.xml_schema.report import XmlReport

__all__ = ["XmlSchema", "xml_schema"]


class XmlSchema(Constraint):
    """Matches the documents that an XML Schema allows. Made by :func:`xml_schema`; immutable and hashable.

    Attributes:
        source: the documents of the schema.
        root: names of the elements that may be the root; empty: every global element.
        options: how the schema is read and how its documents are written.
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
        self._lock = free_after_fork(threading.RLock())
        self._schema: Any = None
        self._model: Model | None = None

    @property
    def schema(self) -> Any:
        """The ``xmlschema`` schema object, for validation and more."""
        with self._lock:
            if self._schema is None:
                self._schema = self.source.load()
            return self._schema

    def model(self) -> Model:
        """Returns what a document may hold, in a normal form."""
        with self._lock:
            if self._model is None:
                self._model = read_schema(self.schema, self.options, self.root)
            return self._model

    @checked
    def read(self, text: str) -> Any:
        """Decodes a document with ``xmlschema``, into dicts, lists and Python values.

        An attribute becomes a member whose name begins with ``@``. The text of an element that has attributes or
        children is the member ``$``.

        Raises:
            XmlReadError: ``xml-read-syntax``: the text is not XML; ``xml-read``: it is not valid against the schema.
        """
        xmlschema = library()
        try:
            return self.schema.to_dict(text.removeprefix("\ufeff"))
        except xmlschema.XMLSchemaValidationError as error:
            raise XmlReadError(f"not valid for the schema: {error.reason}", path=error.path) from None
        except (xmlschema.XMLSchemaException, SyntaxError, ValueError) as error:
            raise XmlReadError(f"not an XML document: {error}", code="xml-read-syntax") from None

    def reading(self) -> Reading:
        """Returns the reader that decodes a document as :meth:`read` does."""
        return _XmlReading(self)

    def report(self) -> XmlReport:
        """Lists which parts of the schema are enforced, which are narrowed, and which are ignored."""
        from guiderail.frontends.xml_schema.report import report

        return report(self)

    def _placed(self, error: LimitError) -> LimitError:
        return at_path(error, "/" + "|".join(self.root))

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
        shown = clipped(self.source.text, 60)
        root = f", root={self.root[0] if len(self.root) == 1 else list(self.root)!r}" if self.root else ""
        return f"xml_schema({shown!r}{root})"


@dataclass(frozen=True, slots=True)
class _XmlReading:
    """Reads a document into dicts, lists and Python values."""

    schema: XmlSchema
    is_text = False
    bounds = "maxLength, maxOccurs"

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
    """Matches the XML documents that an XML Schema allows.

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

    Every match is valid against the schema. Each document has one spelling: attributes in double quotes and in the
    order of the schema (unless ``attribute_order`` says otherwise), ``<a/>`` for an empty element, characters escaped
    as in Canonical XML, and all namespaces declared at the root.

    Args:
        xsd: the schema: a string, a ``pathlib.Path``, or a schema object of the ``xmlschema`` package.
        root: the name of the root element (``"order"``, ``"{urn:x}order"``), or several names; None: any global element
            of the schema.
        documents: other schema documents that the schema imports, includes or redefines, as strings or paths. If
            ``xsd`` is a path, files beside it are found by themselves. Nothing is fetched from a network.
        version: the version of XML Schema, ``"1.0"`` or ``"1.1"``; None: that of a schema object, otherwise ``"1.0"``.
        **options: see :class:`XmlSchemaOptions`: ``layout``, ``indent``, ``max_indented_depth``, ``declaration``,
            ``attribute_order``, ``all_order``, ``max_orders``, ``xsi_types``, ``wildcard_names``, ``max_text_length``,
            ``max_occurs``, ``on_unsupported``.

    Raises:
        XmlSchemaError: the schema is malformed, has no such root, or needs what cannot be enforced; ``path`` says
            where, and ``source`` and ``span`` show the location in the text.
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
    with placing(made), nested("the schema"), reading():
        made.model()
    return made
