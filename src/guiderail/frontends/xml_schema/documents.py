"""The documents that a schema imports and includes: files beside it, those that the user gave, and those that come with
``xmlschema``. Nothing is fetched from a network."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import unquote, urlsplit

__all__ = ["Documents", "without_encoding"]


def without_encoding(text: str) -> str:
    """A document without the encoding that it declares, which is no longer that of the text."""
    return re.sub(r"""(<\?xml[^>]*?)\s+encoding=["'][^"']*["']""", r"\1", text, count=1)


def _name(url: str) -> str:
    return unquote(urlsplit(url).path).rpartition("/")[2]


@dataclass(slots=True)
class Documents:
    """What the references of a schema lead to.

    Attributes:
        location: the URL of the schema itself, or None.
        texts: the documents that the user gave.
        locations: the URL of each of them, or None.
        read: the schemas made of these documents, by their positions and namespaces.
        missed: the references that lead to nothing: element, location, namespace.
    """

    location: str | None
    texts: tuple[str, ...]
    locations: tuple[str | None, ...]
    read: dict[tuple[int, str], Any] = field(default_factory=dict)
    missed: list[tuple[str, str, str]] = field(default_factory=list)

    def loader(self) -> Any:
        """The class that ``xmlschema`` loads documents with."""
        from xmlschema.loaders import SchemaLoader

        methods: dict[str, Any] = {"import_schema": _import, "include_schema": _include, "load_schema": _load}
        made: Any = type("Loader", (SchemaLoader,), {"documents": self, **methods})
        return made

    def lacking(self, schema: Any = None) -> list[str]:
        """The locations of documents that were not found, and that no other document stands for."""
        namespaces = {namespace for _, namespace in self.read}
        known = namespaces if schema is None else {*namespaces, *schema.maps.namespaces}
        found = (at for what, at, ns in self.missed if ns not in (known if what == "import" else namespaces))
        return list(dict.fromkeys(_name(at) if at.startswith("file:") else at for at in found))

    def given(self, location: str, *, name_only: bool) -> int | None:
        """The position of the document at a location, or of the only one with its name."""
        if not name_only:
            return self.locations.index(location) if location in self.locations else None
        same = [at for at, one in enumerate(self.locations) if one is not None and _name(one) == _name(location)]
        return same[0] if len(same) == 1 else None


def _import(loader: Any, schema: Any, namespace: str, location: str, *args: Any, **options: Any) -> Any:
    """Imports a document, or notes that none of its locations leads anywhere. It may not be needed."""
    try:
        return _base(loader).import_schema(loader, schema, namespace, location, *args, **options)
    except _failures():
        more = loader.get_locations(namespace)
        if more and more[-1] != location:
            raise
        loader.documents.missed.append(("import", location, namespace))
        return None


def _include(loader: Any, schema: Any, location: str, *args: Any, **options: Any) -> Any:
    """Includes a document, or notes that it was not found."""
    try:
        return _base(loader).include_schema(loader, schema, location, *args, **options)
    except _failures():
        documents: Documents = loader.documents
        for elem in schema.source.root:
            if str(elem.tag).endswith(("}redefine", "}override")) and elem.get("schemaLocation") == location:
                if documents.locations == (None,):
                    found = schema.includes[location] = _given(loader, 0, schema.target_namespace, None)
                    return found
                schema.parse_error(f"{location!r} is not found; pass its path in documents", elem)
        documents.missed.append(("include", location, schema.target_namespace))
        return schema


def _load(loader: Any, source: Any, namespace: str | None = None, base_url: Any = None, *args: Any, **kw: Any) -> Any:
    """The schema of a document that the user gave, or of one at a location."""
    documents: Documents = loader.documents
    load = partial(_base(loader).load_schema, loader)
    for at, text in enumerate(documents.texts):
        if source is text:
            return _given(loader, at, namespace, base_url)
    from xmlschema.utils.urls import normalize_url

    url = normalize_url(source, base_url)
    if url == documents.location and loader.maps.validator.target_namespace == namespace:
        return loader.maps.validator
    position = documents.given(url, name_only=False)
    if position is not None:
        return _given(loader, position, namespace, base_url)
    try:
        found = load(_bundled(loader, url, namespace, base_url) or source, namespace, base_url, *args, **kw)
    except _failures():
        position = documents.given(url, name_only=True)
        if position is None:
            raise
        return _given(loader, position, namespace, base_url)
    same = without_encoding(found.source.get_text())
    if same in documents.texts:
        documents.read[documents.texts.index(same), found.target_namespace] = found
    return found


def _given(loader: Any, at: int, namespace: str | None, base_url: Any) -> Any:
    """The schema of a document that the user gave. One without a namespace belongs to the schemas that include it."""
    documents: Documents = loader.documents
    text = documents.texts[at]
    if namespace is None:
        own = _resource()(text).root.get("targetNamespace", "").strip()
        lacking = [ns for what, _, ns in documents.missed if what == "include"]
        known = [ns for position, ns in documents.read if position == at]
        namespace = own or next(iter([*known, *lacking]), "")
    found = documents.read.get((at, namespace))
    if found is None:
        found = _base(loader).load_schema(loader, text, namespace or None, base_url)
        documents.read[at, found.target_namespace] = found
    return found


def _bundled(loader: Any, url: str, namespace: str | None, base_url: Any) -> Any:
    """A document that comes with ``xmlschema``: it may be read wherever the schema came from."""
    if namespace is None or loader.maps.get_schema(namespace, url, base_url) is not None:
        return None
    known = loader.fallback_locations.get(namespace, ())
    return (
        _resource()(url) if url.startswith("file:") and url in ([known] if isinstance(known, str) else known) else None
    )


def _base(loader: Any) -> Any:
    return type(loader).__base__


def _resource() -> Any:
    from xmlschema import XMLResource

    return XMLResource


def _failures() -> tuple[type[Exception], ...]:
    """What the library raises if a document cannot be read."""
    from xmlschema.exceptions import XMLResourceBlocked, XMLResourceForbidden

    return OSError, XMLResourceBlocked, XMLResourceForbidden
