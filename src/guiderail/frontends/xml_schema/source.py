"""Schemas as the ``xmlschema`` package reads them, and locations in their texts."""

from __future__ import annotations

import re
import warnings
import xml.parsers.expat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from guiderail.errors import CompileError
from guiderail.frontends.xml_schema.documents import Documents, without_encoding
from guiderail.frontends.xml_schema.errors import XmlSchemaError, XmlSchemaLimitError
from guiderail.frontends.xml_schema.namespaces import XSD, split_name
from guiderail.frontends.xml_schema.price import parser, spend_on
from guiderail.support.callers import outside
from guiderail.support.files import file_errors, reason
from guiderail.support.packages import package
from guiderail.support.texts import shown, utf8

__all__ = ["Source", "library", "place_of"]

_LACKING = re.compile("unknown|missing|not found|not an xs:import")
_DIGITS = re.compile("[0-9]{60,}")
_LIMIT = re.compile(r"Exceeds the limit \([0-9]+ digits\) for integer string conversion: value has ([0-9]+) digits.*")


def library() -> Any:
    """Returns the ``xmlschema`` package.

    Raises:
        CompileError: ``missing-package``: it is not installed.
    """
    return package("xmlschema", "XML Schemas need the package xmlschema", extra="xml")


@dataclass(frozen=True, slots=True)
class Source:
    """The texts of a schema.

    Attributes:
        text: the schema document.
        base_url: where relative locations in it start from (a directory), or None: it may refer to no other file.
        documents: texts of other schema documents that it imports or includes.
        version: ``"1.0"`` or ``"1.1"``.
        location: the URL of the schema document, or None.
        locations: the URL of each of the other documents, or None.
    """

    text: str
    base_url: str | None
    documents: tuple[str, ...]
    version: str
    location: str | None
    locations: tuple[str | None, ...]

    @staticmethod
    def of(xsd: Any, documents: Any, version: str | None) -> Source:
        """Makes a source from what a user passes: a text, a path or a schema object of ``xmlschema``.

        Raises:
            XmlSchemaError: ``xml-file``: a file cannot be read.
            CompileError: ``xml-source``: it is none of these.
        """
        documents = tuple(documents)
        others = tuple(_text(one) for one in documents)
        locations = tuple(_location(one) for one in documents)
        if isinstance(xsd, str):
            return Source(xsd, None, others, version or "1.0", None, locations)
        if isinstance(xsd, Path):
            text, base_url = _text(xsd), str(xsd.resolve().parent)
            return Source(text, base_url, others, version or "1.0", _location(xsd), locations)
        if isinstance(xsd, library().XMLSchemaBase):
            text = xsd.source.get_text()
            return Source(text, xsd.base_url, others, version or str(xsd.xsd_version), xsd.source.url, locations)
        raise CompileError(
            f"an XML Schema must be a string, a pathlib.Path or an object of xmlschema, not {type(xsd).__name__}",
            code="xml-source",
        )

    def load(self) -> Any:
        """A new schema object of ``xmlschema``. Nothing is fetched from a network.

        Raises:
            XmlSchemaError: ``xml-syntax``: a document is no XML; ``xml-schema``: it is no XML Schema.
        """
        xmlschema = library()
        kind = xmlschema.XMLSchema11 if self.version == "1.1" else xmlschema.XMLSchema10
        allow = "none" if self.base_url is None else "local"
        for text in (self.text, *self.documents):
            _well_formed(text)
        spend_on([self.text, *self.documents])
        documents = Documents(self.location, self.documents, self.locations)
        try:
            sources = [self.text, *self.documents]
            source = sources if len(sources) > 1 else self.text
            schema = kind(source, base_url=self.base_url, allow=allow, loader_class=documents.loader())
            _unwrap(schema)
        except xmlschema.XMLSchemaValidatorError as error:
            place = _place_in(self.text, error.source.root if error.source is not None else None, error.elem)
            raise _invalid(error.message + _hint(documents.lacking(), error.message), error.path, *place) from None
        except RecursionError:
            raise XmlSchemaError("the schema is nested too deeply; flatten it", code="depth") from None
        except Exception as error:  # errors of the library, and of functions that it passes malformed values to
            raise self._fault(error) from None
        lacking = documents.lacking(schema)
        if lacking:
            warnings.warn(f"the schema is read without {_not_found(lacking)}", UserWarning, stacklevel=outside())
        return schema

    def _fault(self, error: Exception) -> XmlSchemaError | XmlSchemaLimitError:
        """The error for one of Python's: the library does not say what is wrong where it expects nothing wrong."""
        try:
            root = library().XMLResource(self.text).root
        except Exception:  # it is nested too deeply for the library
            return _invalid(str(error), None, None, None)
        for elem in root.iter(f"{{{XSD}}}pattern"):
            if not _is_pattern(elem.get("value", "")):
                return _invalid(str(error), None, *_place_in(self.text, root, elem))
        for elem in root.iter(f"{{{XSD}}}restriction"):
            if "base" not in elem.attrib and elem.find(f"{{{XSD}}}simpleType") is None:
                return _invalid(
                    "a restriction has no base; name the type in 'base'", None, *_place_in(self.text, root, elem)
                )
        return _invalid(str(error), None, None, None)


def _is_pattern(text: str) -> bool:
    """Whether the library can make a regular expression of a pattern."""
    from elementpath.regex import translate_pattern

    try:
        re.compile(translate_pattern(text))
    except Exception:
        return False
    return True


def _not_found(locations: list[str]) -> str:
    names = ", ".join([shown(one, 100) for one in locations[:3]]) + (" …" if len(locations) > 3 else "")
    return f"a document that is not found: {names}; pass its text in documents"


def _hint(lacking: list[str], message: str) -> str:
    """What to do if a component may be one of a document that was not found."""
    return f"; it refers to {_not_found(lacking)}" if lacking and _LACKING.search(message) else ""


def _unwrap(schema: Any) -> None:
    """Mends what the library makes of a type that adds only attributes to an ``xs:all``: the sequence of that group,
    which no document is valid for."""
    for kind in schema.maps.iter_components(library().validators.XsdComplexType):
        content = kind.content
        while getattr(content, "model", None) == "sequence" and len(content) == 1 and content.occurs == (1, 1):
            content = content[0]
        if getattr(content, "model", None) == "all":
            kind.content = content


def _invalid(
    message: str, path: str | None, source: str | None, span: tuple[int, int] | None
) -> XmlSchemaError | XmlSchemaLimitError:
    """The error for what the library says. It quotes Python where a number has too many digits."""
    short = _DIGITS.sub(lambda found: f"{found[0][:20]}…", message)
    count = _LIMIT.search(short)
    if count is None:
        return XmlSchemaError(f"not a valid XML Schema: {short}", path=path, source=source, span=span)
    said = f"{short[: count.start()]}a number has {count[1]} digits, which is more than can be read; use a smaller one"
    return XmlSchemaLimitError(said, code="number-size", path=path, source=source, span=span)


def _text(source: Any) -> str:
    if isinstance(source, str):
        return source
    if not isinstance(source, Path):
        raise CompileError(
            f"documents must be strings or paths of schema documents, not {type(source).__name__}", code="xml-source"
        )
    with file_errors(f"{source} cannot be read", XmlSchemaError, "xml-file"):
        raw = source.read_bytes()
    return _decoded(raw, source)


def _decoded(raw: bytes, source: Path) -> str:
    """The text of a document in UTF-8 or UTF-16, or in the encoding that it declares."""
    found = re.match(rb"""<\?xml[^>]*encoding=["']([A-Za-z0-9._-]+)["']""", raw)
    encoding = found[1].decode() if found else "utf-16" if raw[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        text = raw.decode("utf-8-sig" if encoding.lower() in ("utf-8", "utf8") else encoding)
    except (ValueError, LookupError) as error:
        raise XmlSchemaError(f"{source} cannot be read: {reason(error)}", code="xml-file") from None
    return without_encoding(text)


def _location(source: Any) -> str | None:
    return source.resolve().as_uri() if isinstance(source, Path) else None


def _well_formed(text: str) -> None:
    try:
        parser(namespace_separator="}").Parse(utf8(text), True)  # prefixes are bound, too
    except xml.parsers.expat.ExpatError as error:
        lines = text.split("\n")
        at = sum(len(line) + 1 for line in lines[: error.lineno - 1])
        line = lines[error.lineno - 1] if error.lineno <= len(lines) else ""
        at += len(line.encode()[: error.offset].decode(errors="ignore"))
        reason = xml.parsers.expat.ErrorString(error.code)
        hint = "" if text.lstrip().startswith("<") else "; pass a file as pathlib.Path(…)"
        raise XmlSchemaError(
            f"the schema is not well-formed XML: {reason}{hint}", code="xml-syntax", source=text, span=(at, at + 1)
        ) from None


def place_of(component: Any) -> tuple[str | None, tuple[int, int] | None]:
    """The document that declares a component, and the span of its start tag in it."""
    source = component.schema.source
    return _place_in(source.get_text(), source.root, component.elem)


def _place_in(text: str, root: Any, elem: Any) -> tuple[str | None, tuple[int, int] | None]:
    if root is None or elem is None:
        return None, None
    index = next((i for i, one in enumerate(root.iter()) if one is elem), None)
    if index is None:
        return None, None
    starts: list[tuple[int, str]] = []
    reader = parser()
    reader.StartElementHandler = lambda name, _: starts.append((reader.CurrentByteIndex, name))
    raw = text.encode()
    try:
        reader.Parse(raw, True)
    except xml.parsers.expat.ExpatError:  # a different document from the one that was read
        return None, None
    if index >= len(starts) or starts[index][1].rpartition(":")[2] != split_name(elem.tag)[1]:
        return None, None
    start = len(raw[: starts[index][0]].decode())
    return text, (start, text.index(">", start) + 1)
