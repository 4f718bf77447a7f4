"""What references lead to: resources, which are documents and schemas in them with an identifier of their own.

The ``referencing`` library reads the identifiers and anchors of one schema, and its registry holds other documents.
Schemas within schemas are found here, and references are followed here. The library's resolver follows a ``$ref`` to a
``$dynamicAnchor`` as if it were a ``$dynamicRef``, resolves references in the target of a ``$dynamicRef`` from where
that stands, and knows only a part of the dynamic scope.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urldefrag, urljoin, urlsplit

from guiderail.frontends.json_schema.documents.dialects import HOLDERS, inner_schemas
from guiderail.support.pointers import inside, steps
from guiderail.support.texts import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from referencing import Registry, Resource

__all__ = ["Found", "Resources", "is_uri"]


class Found(NamedTuple):
    """A schema that a reference names."""

    contents: Any
    uri: str  # of its resource: what the references in it are relative to
    dynamic: str | None = None  # the $dynamicAnchor that it was found by


class Resources:
    """The resources of a document and of a registry. A resource has one URI here, even if the registry has several.

    Args:
        registry: other documents.
        uri: where the document comes from; empty if unknown.
        document: the document.
    """

    def __init__(self, registry: Registry[Any] | None, uri: str, document: Resource[Any]) -> None:
        from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]

        uri = uri.rstrip("#")
        self._schemas: dict[str, Any] = {}  # by URI
        self._anchors: dict[tuple[str, str], Found] = {}
        self._dynamic: dict[str, set[str]] = {}  # names of dynamic anchors, by resource
        self._registry = REGISTRY
        if registry is not None:
            for other in list(registry):
                self._read(other, registry[other])
                registry = registry.remove(other)
            self._registry = REGISTRY.combine(registry)  # the metaschemas, and what is retrieved on demand
        self._ambiguous = self._read(uri, document)
        self.root = self.base_of(uri, document.contents)

    def _read(self, uri: str, document: Resource[Any]) -> set[str]:
        """Finds what has an identifier in a document. Returns those that different schemas in it have."""
        named: dict[str, Any] = {}
        ambiguous: set[str] = set()

        def note(name: str, contents: Any) -> None:
            if named.setdefault(name, contents) != contents:
                ambiguous.add(name)

        self._schemas[uri] = document.contents
        waiting = [(uri, document)]
        while waiting:
            base, resource = waiting.pop()
            own = resource.id()
            if own is not None:
                base = urljoin(base, own)
                note(base, resource.contents)
                self._schemas[base] = resource.contents
            for anchor in resource.anchors():
                note(f"{base}#{anchor.name}", resource.contents)
                dynamic = anchor.name if type(anchor).__name__ == "DynamicAnchor" else None
                self._anchors[base, anchor.name] = Found(resource.contents, base, dynamic)
                if dynamic is not None:
                    self._dynamic.setdefault(base, set()).add(dynamic)
            waiting += [(base, inner) for inner in _inner(resource)]
        return ambiguous

    def contents(self, uri: str) -> Any:
        """The root schema of the resource with a URI, or None if there is none."""
        from referencing.exceptions import CannotDetermineSpecification, NoSuchResource, Unretrievable

        if uri not in self._schemas:
            try:
                self._read(uri, self._registry.get_or_retrieve(uri).value)
            except (CannotDetermineSpecification, NoSuchResource, Unretrievable):
                return None
        return self._schemas[uri]

    def base_of(self, uri: str, schema: Any) -> str:
        """The URI of the resource that begins with a schema, or the given one, of the resource around it."""
        if isinstance(schema, dict):
            for keyword in ("$id", "id"):
                own = schema.get(keyword)
                if isinstance(own, str):
                    inner = urljoin(uri, own.rstrip("#"))
                    if self._schemas.get(inner) is schema:  # a schema, not a part of an enum, for example
                        return inner
        return uri

    def extended(self, way: tuple[str, ...], uri: str) -> tuple[str, ...]:
        """The way to a resource, with the resource itself if some dynamic reference after it may lead there.

        The outermost resource with an anchor decides. So one whose anchors all belong to others on the way, too, never
        does, and ways that differ only in such resources are equal.
        """
        others = self._dynamic_anchors(uri)
        for one in way:
            others = others - self._dynamic_anchors(one)
        return (*way, uri) if others else way

    def _dynamic_anchors(self, uri: str) -> set[str]:
        """The dynamic anchors of a resource; "" is ``$recursiveAnchor``."""
        recursive = _is_recursive(self.contents(uri))
        return {*self._dynamic.get(uri, ()), *([""] if recursive else [])}

    def find(self, base: str, ref: str) -> Found | None:
        """What ``$ref`` names in a resource."""
        if not is_uri(ref):
            return None
        uri, fragment = (base, ref[1:]) if ref.startswith("#") else urldefrag(urljoin(base, ref))
        contents = self.contents(uri)
        if contents is None:
            return None
        uri = self.base_of(uri, contents)
        if fragment and not fragment.startswith("/"):
            return self._anchor(uri, fragment)
        for step in steps(fragment):
            try:
                contents = inside(contents, step)
            except LookupError:
                return None
            uri = self.base_of(uri, contents)
        return Found(contents, uri)

    def is_ambiguous(self, base: str, ref: str) -> bool:
        """Whether the document has different schemas with the identifier that a reference names."""
        if not self._ambiguous or not is_uri(ref):
            return False
        uri, fragment = urldefrag(urljoin(base, ref))
        return uri in self._ambiguous or f"{uri}#{fragment}" in self._ambiguous

    def find_dynamic(self, base: str, ref: str, way: tuple[str, ...]) -> Found | None:
        """What ``$dynamicRef`` names: if that is a ``$dynamicAnchor``, the outermost of this name.

        Args:
            base: the resource that has the reference.
            ref: the reference.
            way: the resources with dynamic anchors through which evaluation has come, the outermost first.
        """
        found = self.find(base, ref)
        if found is None or found.dynamic is None:
            return found
        outer = (self._anchor(uri, found.dynamic) for uri in way)
        return next((one for one in outer if one is not None and one.dynamic is not None), found)

    def find_recursive(self, base: str, way: tuple[str, ...]) -> Found | None:
        """What ``$recursiveRef`` names: its resource or, if that has a ``$recursiveAnchor``, the outermost with one."""
        found = self.find(base, "#")
        if found is None or not _is_recursive(found.contents):
            return found
        return next((Found(root, uri) for uri in way if _is_recursive(root := self.contents(uri))), found)

    def _anchor(self, uri: str, name: str) -> Found | None:
        return self._anchors.get((uri, name))


def _inner(resource: Resource[Any]) -> Iterator[Resource[Any]]:
    """The schemas in a schema. The library takes the values of ``dependencies`` to be all schemas, or all lists."""
    from attrs import evolve
    from referencing.jsonschema import UnknownDialect, specification_with

    if not isinstance(resource.contents, dict):
        return
    for keyword, value in resource.contents.items():
        if keyword in HOLDERS and not isinstance(value, HOLDERS[keyword]):
            raise TypeError(f"{keyword} holds {shown(value)}")
    for inner, _ in inner_schemas(resource.contents):
        if isinstance(inner, dict):
            same: Resource[Any] = evolve(resource, contents=inner)  # type: ignore[misc]  # of the same dialect
            if "$schema" in inner:
                with suppress(UnknownDialect):
                    same = specification_with(inner["$schema"]).create_resource(inner)
            yield same


def is_uri(text: str) -> bool:
    """Whether a string is a URI or a relative reference, as far as Python can tell."""
    try:
        urlsplit(text)
    except ValueError:
        return False
    return True


def _is_recursive(contents: Any) -> bool:
    return isinstance(contents, dict) and contents.get("$recursiveAnchor") is True
