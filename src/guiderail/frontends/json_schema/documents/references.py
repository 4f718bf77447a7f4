"""Dialects, documents and references.

A `Scope` is what is needed to understand a schema object: its dialect and where its references lead. Most schemas are
one document without inner identifiers, and their references are JSON pointers into it, which are followed directly.
Everything else (``$id``, anchors, other documents, dynamic references) goes through `Resources`, with a registry of the
metaschemas and of the user's documents. Nothing is fetched.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Final

from guiderail import _core
from guiderail.errors import GuiderailError, LimitError, PatternError
from guiderail.frontends.json_schema.documents.dialects import HOLDERS, REFERENCE, TYPE, groups_of, inner_schemas
from guiderail.frontends.json_schema.documents.resources import Resources, is_uri
from guiderail.frontends.json_schema.errors import SchemaError, SchemaLimitError, SelfReference, at_pointer
from guiderail.frontends.json_schema.normal_form.algebra import Algebra
from guiderail.frontends.json_schema.normal_form.shape import FALSE, TRUE, TYPE_TERMS, Shape, Term
from guiderail.frontends.json_schema.options import DIALECTS, SchemaOptions
from guiderail.support.pointers import Places, extended, followed, unescaped
from guiderail.support.suggestions import resembling
from guiderail.support.texts import shown
from guiderail.support.work import spend

__all__ = ["METASCHEMAS", "Document", "Node", "Scope", "dialect_of"]

_URIS: Final = {
    "json-schema.org/draft/2020-12/schema": "2020-12",
    "json-schema.org/draft/2019-09/schema": "2019-09",
    "json-schema.org/draft-07/schema": "draft-07",
    "json-schema.org/draft-06/schema": "draft-06",
    "json-schema.org/draft-04/schema": "draft-04",
    "spec.openapis.org/oas/3.0/dialect/base": "openapi-3.0",
    "spec.openapis.org/oas/3.1/dialect/base": "2020-12",
}
METASCHEMAS: Final = {
    "2020-12": "https://json-schema.org/draft/2020-12/schema",
    "2019-09": "https://json-schema.org/draft/2019-09/schema",
    "draft-07": "http://json-schema.org/draft-07/schema#",
    "draft-06": "http://json-schema.org/draft-06/schema#",
    "draft-04": "http://json-schema.org/draft-04/schema#",
    "openapi-3.0": "http://json-schema.org/draft-04/schema#",
}
_BEFORE_DRAFT_4: Final = frozenset(f"json-schema.org/draft-0{number}/schema" for number in range(4))
OLD: Final = frozenset(("draft-07", "draft-06", "draft-04", "openapi-3.0"))
"""Dialects in which all keywords next to ``$ref`` are ignored."""

_KINDS: Final[dict[str, type | tuple[type, ...]]] = {
    **dict.fromkeys(("$id", "id", "$anchor", "$dynamicAnchor", "$schema", "$ref"), str),
    **HOLDERS,
}
"""The keywords that are searched for identifiers, and the types of their values."""


def dialect_of(uri: object) -> str | None:
    """The dialect that a ``$schema`` or an option names, or None.

    Raises:
        SchemaError: it names a draft whose keywords would be ignored.
    """
    if not isinstance(uri, str):
        return None
    if uri in DIALECTS:
        return uri
    name = uri.removeprefix("https://").removeprefix("http://").rstrip("#").rstrip("/")
    if name in _BEFORE_DRAFT_4:
        raise SchemaError(
            "the drafts before draft 4 are not read, and their keywords would be ignored; write multipleOf for "
            'divisibleBy, allOf for extends and not for disallow and declare a newer draft, or pass dialect="draft-04" '
            "if the schema has none of them",
            pointer="#/$schema",
        )
    return _URIS.get(name)


class Node(Term):
    """A schema object in its scope."""

    __slots__ = ("busy", "groups", "narrowing", "plain", "same", "schema", "scope")

    def __init__(self, schema: dict[str, Any], scope: Scope, groups: int) -> None:
        self.known = None
        self.schema = schema
        self.scope = scope
        self.groups = groups
        self.busy = False  # its shape is being made
        self.narrowing = False  # so is that of something within it
        self.same: Term | None = None  # see `Document.same`
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
        except RecursionError:
            document.note_depth()
            raise
        finally:
            self.busy = False
            document.current = before
        return known


class _Evaluating:
    """See :meth:`Document.evaluating`."""

    __slots__ = ("_document",)

    def __init__(self, document: Document) -> None:
        self._document = document

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, PatternError) and error.source in self._document.recalled:
            pointer, keyword = self._document.recalled[error.source]
            raise SchemaError(
                f"{keyword}: {error.message}", code=error.code, pointer=pointer, source=error.source, span=error.span
            ) from None
        if isinstance(error, SelfReference):
            raise self._document.infinite_reference(error.schema) from None
        if isinstance(error, RecursionError):
            raise SchemaLimitError(
                "its schemas nest in or refer to each other more deeply than guiderail can follow; flatten "
                f"the schema, or shorten chains of references{self._document.options.lower_levels()}",
                code="depth",
                pointer=self._document.too_deep or self._document.where(),
            ) from None


class Document:
    """A schema document while it is compiled: its options, its algebra, and all its scopes.

    Args:
        contents: the schema; it must not change from now on.
        options: how to read it.
        evaluate: makes the shape of a node.
    """

    __deletable__: ClassVar[list[str]] = ["root", "current"]  # for mypyc

    def __init__(self, contents: Any, options: SchemaOptions, evaluate: Callable[[Node], Shape]) -> None:
        self.contents = contents
        self.options = options
        self.evaluate = evaluate
        self.algebra = Algebra(options.max_branches, self.where, self.same)
        self.current: Node | None = None
        self.too_deep: str | None = None  # where the interpreter's stack ended
        self.unsupported: list[tuple[str, str, str]] = []  # pointer, keyword, reason
        self.recalled: dict[str, tuple[str, str]] = {}  # pointer, keyword, by pattern: see check_memory()
        self.chain: set[int] = set()  # references being followed
        self._same: dict[tuple[Scope, bytes], Term] = {}
        self._scopes: dict[tuple[object, ...], Scope] = {}
        self._places = Places(contents)
        self._kept: list[tuple[Any, Places]] = []  # contents of other documents, so that their ids stay theirs
        self._resources: Resources | None = None
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
        self.root = Scope(self, self.dialect, None, ())
        if self._refers_by_identifier():
            self.root = self.root_scope()

    def term(self) -> Term:
        """The whole schema."""
        return self.root.child(self.contents)

    def close(self) -> None:
        """Lets go of everything, so that hardly a circle is left; nobody may use the document or its terms any more."""
        for scope in (self.root, *self._scopes.values()):
            for term in scope.memo.values():
                if isinstance(term, Node):
                    term.known = term.plain = term.same = None
            scope.memo.clear()
            scope.refs.clear()
        self.algebra.close()
        self._scopes.clear()
        self._same.clear()
        del self.root, self.current

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

    def evaluating(self) -> _Evaluating:
        """Wraps all use of the document from outside: turns failures into errors that users understand."""
        return _Evaluating(self)

    def at(self, node: Node) -> _At:
        """Evaluates a part of a node: error messages name it."""
        return _At(self, node)

    def same(self, term: Term) -> Term:
        """One term for all schema objects of a scope with equal contents."""
        if not isinstance(term, Node):
            return term
        same = term.same
        if same is None:
            written = marshal.dumps(term.schema, 2)
            spend(20 + len(written) // 20)
            same = term.same = self._same.setdefault((term.scope, written), term)
        return same

    def where(self) -> str | None:
        return self.pointer(self.current.schema) if self.current is not None else None

    def note_depth(self) -> None:
        """Keeps the place where the interpreter's stack ended: the innermost from which there is room to find it."""
        if self.too_deep is None:
            self.too_deep = self.where()

    # -- places
    def pointer(self, target: object) -> str:
        """The location of an object in the document, as a URI fragment, for messages and names.

        If no reference led there, it is found by a search.
        """
        if self.root.uri is None:
            for ref, term in self.root.refs.items():
                if isinstance(term, Node) and term.schema is target and self.root.leads_to(ref, target):
                    return ref
        if (path := self._places.of(target)) is not None:
            return path
        for document, places in self._kept:
            if (path := places.of(target)) is not None:
                return f"{_name_of(document)}{path}"
        return "#"

    def _refers_by_identifier(self) -> bool:
        """Whether references may lead to identifiers within the document, or depend on the way to them."""
        name = "id" if self.dialect in ("draft-04", "openapi-3.0") else "$id"
        keywords = _core.keys_within(self.contents, ("$dynamicRef", "$recursiveRef", "$ref", name))
        if "$dynamicRef" in keywords or "$recursiveRef" in keywords:
            return True
        if "$ref" not in keywords or name not in keywords:
            return False
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

    # -- resources
    def resources(self) -> Resources:
        """The resources that references may lead to."""
        if self._resources is None:
            from referencing import Registry
            from referencing.jsonschema import specification_with

            registry = self.options.registry
            if registry is not None and not isinstance(registry, Registry):
                raise SchemaError(
                    f"registry must be a referencing.Registry, not {type(registry).__name__}", code="bad-schema-option"
                )
            document = specification_with(METASCHEMAS[self.dialect]).create_resource(self.contents)
            if not is_uri(self.options.base_uri):
                raise SchemaError(f"base_uri must be a URI, not {self.options.base_uri!r}", code="bad-schema-option")
            with self.identified():
                self._resources = Resources(registry, self.options.base_uri, document)
        return self._resources

    @contextmanager
    def identified(self) -> Iterator[None]:
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
        """The first keyword with a value of the wrong type, in which no identifiers are found, or with no URI."""
        for schema in self._dicts():
            for keyword, value in schema.items():
                kind = _KINDS.get(keyword)
                if kind is None:
                    continue
                if not isinstance(value, kind) or (keyword in ("$id", "id") and not is_uri(str(value))):
                    return extended(self.pointer(schema), keyword)
        return None

    def root_scope(self) -> Scope:
        """The scope of the document as a resource."""
        return self.scope_of(self.resources().root, (), self.dialect)

    def scope_of(self, uri: str, way: tuple[str, ...], dialect: str) -> Scope:
        """The scope of a resource: one for each way to it that dynamic references tell apart.

        Args:
            uri: of the resource.
            way: the way to what leads there, see `Scope`.
            dialect: of what leads there.
        """
        spend(20 + len(way))
        resources = self.resources()
        root = resources.contents(uri)
        if isinstance(root, dict):
            given = root is self.contents and self.options.dialect is not None
            dialect = self.dialect if given else dialect_of(root.get("$schema")) or dialect
        way = resources.extended(way, uri)
        key = uri, dialect, way
        scope = self._scopes.get(key)
        if scope is None:
            if root is not self.contents:
                self._kept.append((root, Places(root)))
            scope = self._scopes[key] = Scope(self, dialect, uri, way)
        return scope


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
    """The context of a schema object: its dialect, and what its references are relative to.

    Args:
        document: what it is part of.
        dialect: how it is read.
        uri: the resource that it is in; None: all references are JSON pointers into the document.
        way: the resources through which evaluation has come, the outermost first (the *dynamic scope*), without those
            that decide no dynamic reference.
    """

    __slots__ = ("dialect", "document", "memo", "old", "refs", "uri", "way")

    def __init__(self, document: Document, dialect: str, uri: str | None, way: tuple[str, ...]) -> None:
        self.document = document
        self.dialect = dialect
        self.old = dialect in OLD
        self.uri = uri
        self.way = way
        self.memo: dict[int, Term] = {}
        self.refs: dict[str, Term] = {}

    def child(self, schema: Any, where: str | None = None) -> Term:
        """The term of a schema (an object or a boolean) in this scope; ``where`` it is, if a reference led to it."""
        if schema is True:
            return TRUE
        if schema is False:
            return FALSE
        known = self.memo.get(id(schema))
        if known is None:
            if type(schema) is not dict:
                raise SchemaError(
                    f"a schema must be an object or a boolean, not {_kind(schema)}",
                    pointer=where or self._place(schema),
                )
            known = self.memo[id(schema)] = self._make(schema)
        return known

    def _place(self, given: Any) -> str | None:
        """Where something that is no schema stands in the current schema."""
        where, current = self.document.where(), self.document.current
        if current is None or where is None:
            return None
        for one, steps in inner_schemas(current.schema):
            if one is given:
                return extended(where, *steps)
        return where

    def _make(self, schema: dict[str, Any]) -> Term:
        scope = self._inner(schema)
        if scope is not self:
            return scope.child(schema)
        groups = groups_of(self.dialect, schema)
        if groups & REFERENCE and (self.old or groups == REFERENCE):
            return self._alias(schema)
        if groups == 0:
            return TRUE
        if groups == TYPE:
            name = schema.get("type")
            if type(name) is str and name in TYPE_TERMS and "nullable" not in schema:
                return TYPE_TERMS[name]
        return Node(schema, self, groups)

    def _inner(self, schema: dict[str, Any]) -> Scope:
        """The scope inside a schema, which may have an identifier of its own."""
        if self.uri is None or not ("$id" in schema or "id" in schema):
            return self
        with self.document.identified():
            uri = self.document.resources().base_of(self.uri, schema)
        return self if uri == self.uri else self.document.scope_of(uri, self.way, self.dialect)

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
            if self.uri is not None or not (ref == "#" or ref.startswith("#/")):
                contents, scope = self.find(ref, schema)
                known = self.refs[ref] = scope.child(contents, ref)
                break
            target = self._local(ref, schema)
            if not self._is_alias(target):
                known = self.refs[ref] = self.child(target, ref)
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
        try:
            return followed(self.document.contents, ref[1:])
        except LookupError:
            raise self._unresolvable(ref, schema) from None

    def leads_to(self, ref: str, target: object) -> bool:
        """Whether a reference followed before leads directly to an object of this document, not to an alias."""
        return ref.startswith("#/") and "%" not in ref and self._local(ref, {}) is target

    def _unresolvable(self, ref: str, schema: dict[str, Any]) -> SchemaError:
        if ref.startswith("#"):
            meant = _meant(ref, self.document.contents)
            way = "there is nothing at that location" + ("" if meant is None else f"; did you mean {meant!r}?")
        else:
            way = (
                "no known document has this URI; pass it as registry=referencing.Registry().with_resource(uri, "
                "resource), since nothing is fetched"
            )
        return SchemaError(
            f"the reference {shown(ref, 200)} cannot be resolved: {way}",
            code="unresolvable-reference",
            pointer=self.document.pointer(schema),
        )

    def find(self, ref: str, schema: dict[str, Any], *, dynamic: bool = False) -> tuple[Any, Scope]:
        """The schema that a reference names, among the resources of the document, and its scope there."""
        document = self.document
        with document.identified():
            resources = document.resources()
            here = self if self.uri is not None else document.root_scope()
            assert here.uri is not None
            if resources.is_ambiguous(here.uri, ref):
                raise SchemaError(
                    f"the reference {shown(ref, 200)} is ambiguous: different schemas have this identifier; rename "
                    "all but one of them",
                    code="unresolvable-reference",
                    pointer=document.pointer(schema),
                )
            if not dynamic:
                found = resources.find(here.uri, ref)
            elif here.dialect == "2019-09":
                found = resources.find_recursive(here.uri, here.way)
            else:
                found = resources.find_dynamic(here.uri, ref, here.way)
        if found is None:
            raise self._unresolvable(ref, schema)
        return found.contents, document.scope_of(found.uri, here.way, self.dialect)

    def dynamic(self, ref: Any, schema: dict[str, Any]) -> Term:
        """What ``$dynamicRef`` or ``$recursiveRef`` names here."""
        if not isinstance(ref, str):
            raise SchemaError(f"a reference must be a string, not {_kind(ref)}", pointer=self.document.pointer(schema))
        contents, scope = self.find(ref, schema, dynamic=True)
        return scope.child(contents)


def _name_of(document: Any) -> str:
    name = document.get("$id", document.get("id", "")) if isinstance(document, dict) else ""
    return name.rstrip("#") if isinstance(name, str) else ""


def _kind(value: object) -> str:
    names = {str: "a string", list: "an array", dict: "an object", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")


def _meant(ref: str, contents: Any) -> str | None:
    """The reference to a definition of the document whose name resembles the one that is not there."""
    places: dict[str, str] = {}
    for steps in (("components", "schemas"), ("definitions",), ("$defs",)):
        found = contents
        for step in steps:
            found = found.get(step) if isinstance(found, dict) else None
        if isinstance(found, dict):
            places |= {name: extended("#", *steps, name) for name in found if isinstance(name, str)}
    near = resembling(unescaped(ref[1:].rpartition("/")[2]), places)
    return None if near is None else places[near]
