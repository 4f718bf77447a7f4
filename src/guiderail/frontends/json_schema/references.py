"""Dialects, documents and references.

A `Scope` is what is needed to understand a schema object: its dialect and where its references lead. Most schemas are
one document without inner identifiers, and their references are JSON pointers into it, which are followed directly.
Everything else (``$id``, anchors, other documents, dynamic references) goes through the ``referencing`` library, with a
registry of the metaschemas and of the user's documents. Nothing is fetched.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from guiderail import _core
from guiderail.errors import GuiderailError, LimitError
from guiderail.frontends.json_schema.algebra import Algebra
from guiderail.frontends.json_schema.errors import SchemaError, SchemaLimitError, SelfReference, at_pointer
from guiderail.frontends.json_schema.options import DIALECTS, SchemaOptions
from guiderail.frontends.json_schema.shape import FALSE, TRUE, TYPE_TERMS, Shape, Term
from guiderail.frontends.json_schema.vocabulary import REFERENCE, TYPE, groups_of

if TYPE_CHECKING:
    from referencing import Resource
    from referencing._core import Resolver

__all__ = ["Document", "Node", "Scope", "dialect_of"]

_URIS = {
    "json-schema.org/draft/2020-12/schema": "2020-12",
    "json-schema.org/draft/2019-09/schema": "2019-09",
    "json-schema.org/draft-07/schema": "draft-07",
    "json-schema.org/draft-06/schema": "draft-06",
    "json-schema.org/draft-04/schema": "draft-04",
    "spec.openapis.org/oas/3.0/dialect/base": "openapi-3.0",
    "spec.openapis.org/oas/3.1/dialect/base": "2020-12",
}
_METASCHEMAS = {
    "2020-12": "https://json-schema.org/draft/2020-12/schema",
    "2019-09": "https://json-schema.org/draft/2019-09/schema",
    "draft-07": "http://json-schema.org/draft-07/schema#",
    "draft-06": "http://json-schema.org/draft-06/schema#",
    "draft-04": "http://json-schema.org/draft-04/schema#",
    "openapi-3.0": "http://json-schema.org/draft-04/schema#",
}
OLD = frozenset(("draft-07", "draft-06", "draft-04", "openapi-3.0"))
"""Dialects in which all keywords next to ``$ref`` are ignored."""

_KINDS: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("$id", "id", "$anchor", "$dynamicAnchor", "$schema", "$ref"), str),
    **dict.fromkeys(("$defs", "definitions", "properties", "patternProperties", "dependentSchemas"), dict),
    **dict.fromkeys(("allOf", "anyOf", "oneOf", "prefixItems"), list),
    **dict.fromkeys(("not", "if", "then", "else", "contains", "propertyNames"), (dict, bool)),
}
"""The keywords that are searched for identifiers, and the types of their values."""


def dialect_of(uri: object) -> str | None:
    """The dialect that a ``$schema`` or an option names, or None."""
    if not isinstance(uri, str):
        return None
    if uri in DIALECTS:
        return uri
    return _URIS.get(uri.removeprefix("https://").removeprefix("http://").rstrip("#").rstrip("/"))


class Node(Term):
    """A schema object in its scope."""

    __slots__ = ("busy", "groups", "narrowing", "plain", "schema", "scope")

    def __init__(self, schema: dict[str, Any], scope: Scope, groups: int) -> None:
        self.known = None
        self.schema = schema
        self.scope = scope
        self.groups = groups
        self.busy = False  # its shape is being made
        self.narrowing = False  # so is that of something within it
        self.plain: Shape | None = None  # of the keywords that apply no other schema in place

    def shape(self) -> Shape:
        known = self.known
        if known is not None:
            return known
        document = self.scope.document
        before = document.current
        document.enter(self)
        try:
            known = self.known = document.evaluate(self)
        except LimitError as error:
            raise at_pointer(error, document.where) from None
        finally:
            self.busy = False
            document.current = before
        return known


class Document:
    """A schema document while it is compiled: its options, its algebra, and all its scopes.

    Args:
        contents: the schema; it must not change from now on.
        options: how to read it.
        evaluate: makes the shape of a node.
    """

    def __init__(self, contents: Any, options: SchemaOptions, evaluate: Callable[[Node], Shape]) -> None:
        self.contents = contents
        self.options = options
        self.evaluate = evaluate
        self.algebra = Algebra(options.max_branches, self.where, self.same)
        self.current: Node | None = None
        self.unsupported: list[tuple[str, str, str]] = []  # pointer, keyword, reason
        self.chain: set[int] = set()  # references being followed
        self._same: dict[tuple[Scope, bytes], Term] = {}
        self._scopes: dict[tuple[object, ...], Scope] = {}
        self._kept: list[Any] = []  # contents of other documents, so that their ids stay theirs
        self._root_resolver: Resolver[Any] | None = None
        self._dynamic = False
        dialect = dialect_of(options.dialect)
        if options.dialect is not None and dialect is None:
            raise SchemaError(
                f"unknown dialect {options.dialect!r}; there are {', '.join(DIALECTS)}", code="bad-schema-option"
            )
        declared = contents.get("$schema") if isinstance(contents, dict) else None
        if declared is not None and not isinstance(declared, str):
            raise SchemaError(f"$schema must be a string with a URI, not {_kind(declared)}", pointer="#/$schema")
        self.declared = dialect is not None or dialect_of(declared) is not None
        self.dialect = dialect or dialect_of(declared) or "2020-12"
        self.root = Scope(self, self.dialect, None)
        if self._refers_by_identifier():
            self.root = self.scope_of(self.root_resolver(), self.dialect)

    def term(self) -> Term:
        """The whole schema."""
        return self.root.child(self.contents, plain=True)

    def enter(self, node: Node) -> None:
        """Records that a node is being evaluated."""
        if node.busy:
            raise SelfReference(node.schema)
        node.busy = True
        self.current = node

    def infinite_reference(self, schema: object) -> SchemaError:
        """The error for a schema that refers to itself in place."""
        return SchemaError(
            "its references lead back to the same schema without saying anything about a value; put the reference "
            "below a keyword that applies to a part of the value, such as properties or items",
            code="infinite-reference",
            pointer=self.pointer(schema),
        )

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Wraps all use of the document from outside: turns failures into errors that users understand."""
        try:
            yield
        except SelfReference as error:
            raise self.infinite_reference(error.schema) from None
        except RecursionError:
            raise SchemaLimitError(
                "its schemas nest in or refer to each other more deeply than guiderail can follow; flatten "
                "the schema, or shorten chains of references",
                code="depth",
                pointer=self.where(),
            ) from None

    def at(self, node: Node) -> _At:
        """Evaluates a part of a node: error messages name it."""
        return _At(self, node)

    def same(self, term: Term) -> Term:
        """One term for all schema objects of a scope with equal contents."""
        if not isinstance(term, Node):
            return term
        return self._same.setdefault((term.scope, marshal.dumps(term.schema, 2)), term)

    def where(self) -> str | None:
        return self.pointer(self.current.schema) if self.current is not None else None

    # -- places
    def pointer(self, target: object) -> str:
        """The location of an object in the document, as a URI fragment, for messages and names.

        If no reference led there, it is found by a search.
        """
        if self.root.resolver is None:
            for ref, term in self.root.refs.items():
                if isinstance(term, Node) and term.schema is target and self.root.leads_to(ref, target):
                    return ref
        for document in (self.contents, *self._kept):
            stack: list[tuple[Any, str]] = [(document, "#")]
            while stack:
                value, path = stack.pop()
                if value is target:
                    return path if document is self.contents else f"{_name_of(document)}{path}"
                if isinstance(value, dict):
                    stack += [(v, f"{path}/{escape(k)}") for k, v in reversed(value.items())]
                elif isinstance(value, list):
                    stack += [(v, f"{path}/{i}") for i, v in reversed(list(enumerate(value)))]
        return "#"

    def _refers_by_identifier(self) -> bool:
        """Whether references may lead to identifiers within the document, or depend on the way to them."""
        name = "id" if self.dialect in ("draft-04", "openapi-3.0") else "$id"
        keywords = _core.keys_within(self.contents, ("$dynamicRef", "$recursiveRef", "$ref", name))
        self._dynamic = "$dynamicRef" in keywords or "$recursiveRef" in keywords
        if self._dynamic or "$ref" not in keywords or name not in keywords:
            return self._dynamic
        parts = list(self.contents.values()) if isinstance(self.contents, dict) else self.contents
        if name not in _core.keys_within(parts, (name,)):  # only the document itself has one
            return False
        return any(isinstance(schema.get(name), str) for schema in self._dicts() if schema is not self.contents)

    def _dicts(self) -> Iterator[dict[str, Any]]:
        stack = [self.contents]
        while stack:
            value = stack.pop()
            if isinstance(value, dict):
                yield value
                stack += value.values()
            elif isinstance(value, list):
                stack += value

    # -- the referencing library
    def root_resolver(self) -> Resolver[Any]:
        """A resolver at the root of the document."""
        if self._root_resolver is None:
            from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]
            from referencing import Registry

            registry = self.options.registry
            if registry is None:
                registry = REGISTRY
            elif isinstance(registry, Registry):
                registry = REGISTRY.combine(registry)
                self._dynamic = True
            else:
                raise SchemaError(
                    f"registry must be a referencing.Registry, not {type(registry).__name__}", code="bad-schema-option"
                )
            with self._identified():
                resource = self._resource(self.contents, self.dialect)
                uri = self.options.base_uri or resource.id() or ""
                registry = registry.with_resource(uri, resource).crawl()
                self._root_resolver = registry.resolver(uri)
        return self._root_resolver

    @contextmanager
    def _identified(self) -> Iterator[None]:
        """Wraps calls of the ``referencing`` library, which assumes that a schema is well-formed."""
        try:
            yield
        except GuiderailError:
            raise
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise SchemaError(
                "its identifiers and references cannot be read: $id, $anchor and $schema must be URIs, and keywords "
                f"that hold schemas must hold objects or lists of them ({error})",
                pointer=self._misplaced() or self.where(),
            ) from None

    def _misplaced(self) -> str | None:
        """The first keyword with a value of the wrong type, in which no identifiers are found."""
        for schema in self._dicts():
            for keyword, value in schema.items():
                kind = _KINDS.get(keyword)
                if kind is not None and not isinstance(value, kind):
                    return f"{self.pointer(schema)}/{escape(keyword)}"
        return None

    def _resource(self, contents: Any, dialect: str) -> Resource[Any]:
        from referencing import Resource
        from referencing.jsonschema import specification_with

        default = specification_with(_METASCHEMAS[dialect])
        if self.options.dialect is not None and contents is self.contents:
            return default.create_resource(contents)
        if isinstance(contents, dict) and dialect_of(contents.get("$schema")) is None and "$schema" in contents:
            return default.create_resource(contents)  # a custom metaschema
        return Resource.from_contents(contents, default_specification=default)

    def scope_of(self, resolver: Resolver[Any], dialect: str) -> Scope:
        """The scope of a resolver: one for each resource and, if it matters, for each way to it."""
        from referencing.exceptions import Unresolvable

        try:
            with self._identified():
                root: Any = resolver.lookup("#").contents
        except Unresolvable:
            root = self.contents
        if isinstance(root, dict):
            dialect = dialect_of(root.get("$schema")) or dialect
            if root is self.contents and self.options.dialect is not None:
                dialect = self.dialect
        way = tuple(dict.fromkeys(uri for uri, _ in reversed(list(resolver.dynamic_scope())))) if self._dynamic else ()
        key = id(root), dialect, way
        scope = self._scopes.get(key)
        if scope is None:
            if root is not self.contents:
                self._kept.append(root)
            scope = self._scopes[key] = Scope(self, dialect, resolver)
        return scope

    def keep(self, contents: Any) -> None:
        """Keeps a document that is not the root's, and expects dynamic references in it."""
        self._dynamic = True
        self._kept.append(contents)


class _At:
    """See `Document.at`. Not a generator, because it is entered for every part of every node."""

    __slots__ = ("_before", "_document", "_node")

    def __init__(self, document: Document, node: Node) -> None:
        self._document = document
        self._node = node

    def __enter__(self) -> None:
        self._before, self._document.current = self._document.current, self._node

    def __exit__(self, *_: object) -> None:
        self._document.current = self._before


class Scope:
    """The context of a schema object: its dialect, and what its references are relative to."""

    __slots__ = ("dialect", "document", "memo", "old", "refs", "resolver")

    def __init__(self, document: Document, dialect: str, resolver: Resolver[Any] | None) -> None:
        self.document = document
        self.dialect = dialect
        self.old = dialect in OLD
        self.resolver = resolver
        self.memo: dict[int, Term] = {}
        self.refs: dict[str, Term] = {}

    def child(self, schema: Any, *, plain: bool = False) -> Term:
        """The term of a schema in this scope.

        Args:
            schema: an object or a boolean.
            plain: the schema is the root of its resource, so the scope already has its identifier.
        """
        if schema is True:
            return TRUE
        if schema is False:
            return FALSE
        known = self.memo.get(id(schema))
        if known is None:
            if type(schema) is not dict:
                raise SchemaError(
                    f"a schema must be an object or a boolean, not {_kind(schema)}",
                    pointer=self.document.where(),
                )
            known = self.memo[id(schema)] = self._make(schema, plain)
        return known

    def _make(self, schema: dict[str, Any], plain: bool) -> Term:
        groups = groups_of(self.dialect, schema)
        if groups & REFERENCE:
            if self.old or (groups == REFERENCE and (self.resolver is None or plain or "$id" not in schema)):
                return self._alias(schema)
        elif groups == 0:
            return TRUE
        elif groups == TYPE:
            name = schema.get("type")
            if type(name) is str and name in TYPE_TERMS and "nullable" not in schema:
                return TYPE_TERMS[name]
        if self.resolver is not None and not plain:
            scope = self._inner(schema)
            if scope is not self:
                return scope.child(schema, plain=True)
        return Node(schema, self, groups)

    def _inner(self, schema: dict[str, Any]) -> Scope:
        """The scope inside a schema, which may have an identifier of its own."""
        name = "id" if self.dialect in ("draft-04", "openapi-3.0") else "$id"
        if not isinstance(schema.get(name), str):
            return self
        assert self.resolver is not None
        with self.document._identified():
            resource = self.document._resource(schema, self.dialect)
            if resource.id() is None:
                return self
            resolver = self.resolver.in_subresource(resource)
        return self.document.scope_of(resolver, self.dialect)

    def _alias(self, schema: dict[str, Any]) -> Term:
        """The target of a schema that is only a reference."""
        chain = self.document.chain
        if id(schema) in chain:
            raise self.document.infinite_reference(schema)
        chain.add(id(schema))
        try:
            return self.reference(schema["$ref"], schema)
        finally:
            chain.discard(id(schema))

    def _is_alias(self, schema: Any) -> bool:
        """Whether a schema in a document without inner identifiers is only a reference."""
        if type(schema) is not dict or id(schema) in self.memo:
            return False
        groups = groups_of(self.dialect, schema)
        return bool(groups & REFERENCE) and (self.old or groups == REFERENCE)

    def reference(self, ref: Any, schema: dict[str, Any]) -> Term:
        """What ``$ref`` names. A chain of references within the document is followed in a loop, however long."""
        followed: list[tuple[str, dict[str, Any]]] = []
        seen: set[int] = set()
        while True:
            if not isinstance(ref, str):
                raise SchemaError(
                    f"$ref must be a string, not {_kind(ref)}", pointer=self.document.pointer(schema) + "/$ref"
                )
            known = self.refs.get(ref)
            if known is not None:
                break
            if self.resolver is not None or not (ref == "#" or ref.startswith("#/")):
                known = self.refs[ref] = self._remote(ref, schema, dynamic=False)
                break
            target = self._local(ref, schema)
            if not self._is_alias(target):
                known = self.refs[ref] = self.child(target, plain=target is self.document.contents)
                break
            if id(target) in seen or id(target) in self.document.chain:
                raise self.document.infinite_reference(target)
            seen.add(id(target))
            followed.append((ref, target))
            ref, schema = target["$ref"], target
        for name, target in followed:
            self.refs[name] = self.memo[id(target)] = known
        return known

    def _local(self, ref: str, schema: dict[str, Any]) -> Any:
        value: Any = self.document.contents
        if ref != "#":
            path = unquote(ref[2:]) if "%" in ref else ref[2:]
            for step in path.split("/"):
                if "~" in step:
                    step = step.replace("~1", "/").replace("~0", "~")
                if isinstance(value, dict) and step in value:
                    value = value[step]
                elif isinstance(value, list) and step.isdecimal() and int(step) < len(value):
                    value = value[int(step)]
                else:
                    raise self._unresolvable(ref, schema)
        return value

    def leads_to(self, ref: str, target: object) -> bool:
        """Whether a reference followed before leads directly to an object of this document, not to an alias."""
        return ref.startswith("#/") and "%" not in ref and self._local(ref, {}) is target

    def _unresolvable(self, ref: str, schema: dict[str, Any]) -> SchemaError:
        way = (
            "there is nothing at that location"
            if ref.startswith("#")
            else "no known document has this URI; pass it as registry=referencing.Registry().with_resource(uri, "
            "resource), since nothing is fetched"
        )
        return SchemaError(
            f"the reference {ref!r} cannot be resolved: {way}",
            code="unresolvable-reference",
            pointer=self.document.pointer(schema),
        )

    def _remote(self, ref: str, schema: dict[str, Any], *, dynamic: bool) -> Term:
        from referencing.exceptions import NoSuchAnchor, PointerToNowhere, Unresolvable
        from referencing.jsonschema import lookup_recursive_ref

        resolver = self.resolver or self.document.root_resolver()
        try:
            recursive = dynamic and self.dialect == "2019-09"
            with self.document._identified():
                resolved = lookup_recursive_ref(resolver) if recursive else resolver.lookup(ref)
        except (Unresolvable, NoSuchAnchor, PointerToNowhere):
            raise self._unresolvable(ref, schema) from None
        contents = resolved.contents
        document = self.document
        scope = document.scope_of(resolved.resolver, self.dialect)
        return scope.child(contents, plain=_is_identified(contents, scope.dialect))

    def dynamic(self, ref: Any, schema: dict[str, Any]) -> Term:
        """What ``$dynamicRef`` or ``$recursiveRef`` names here."""
        if not isinstance(ref, str):
            raise SchemaError(f"a reference must be a string, not {_kind(ref)}", pointer=self.document.pointer(schema))
        return self._remote(ref, schema, dynamic=True)


def _is_identified(contents: Any, dialect: str) -> bool:
    """Whether a resolved schema is the root of its resolver's resource."""
    name = "id" if dialect in ("draft-04", "openapi-3.0") else "$id"
    return isinstance(contents, dict) and isinstance(contents.get(name), str)


def escape(key: str) -> str:
    """One step of a JSON pointer."""
    return key.replace("~", "~0").replace("/", "~1")


def _name_of(document: Any) -> str:
    name = document.get("$id", document.get("id", "")) if isinstance(document, dict) else ""
    return name.rstrip("#") if isinstance(name, str) else ""


def _kind(value: object) -> str:
    names = {str: "a string", list: "an array", dict: "an object", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")
