"""The types of a GraphQL service, from an introspection, from SDL, or from graphql-core's schema."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from guiderail.errors import CompileError, LimitError
from guiderail.frontends.queries.database import LONGEST_NAME
from guiderail.support.packages import package
from guiderail.support.places import in_text
from guiderail.support.texts import clipped, shown
from guiderail.support.work import reading, spend

__all__ = ["COMPOSITE", "Field", "Service", "Type", "TypeRef", "introspected"]

COMPOSITE = ("OBJECT", "INTERFACE", "UNION")
_MOST_FIELDS = 20_000
_STEPS = 200  # steps that graphql-core takes for a name
_FAULT = 100  # steps that it takes to report a fault
_FEW = 40  # places of all faults that are found: each is looked up in the text, from its beginning
_MOST_ERRORS = 3  # faults that are told
_LONGEST = 1_000  # characters of a fault that is told
_COMPARED = 4  # characters that a name counts in addition
_PAIR = 3  # steps for each pair of characters of two names that are compared
_USES = frozenset(("named_type", "argument", "object_field"))  # of names that may not be defined
_NAME = re.compile(r"[_A-Za-z][_0-9A-Za-z]*")
_SKIPPED = re.compile(r'"""(?:[^"\\]|\\.|"(?!""))*"""|"(?:[^"\\\n]|\\.)*"|#[^\n]*', re.DOTALL)  # texts and comments


@dataclass(frozen=True, slots=True)
class TypeRef:
    """The type of a field or an argument.

    Attributes:
        name: the name of the type; empty for a list.
        required: whether it is non-null.
        item: the type of a list's items.
        written: the type in GraphQL's notation.
    """

    name: str
    required: bool
    item: TypeRef | None
    written: str

    @classmethod
    def of(cls, description: Mapping[str, Any]) -> TypeRef:
        kind = description["kind"]
        if kind == "NON_NULL":
            inner = cls.of(description["ofType"])
            return cls(inner.name, True, inner.item, inner.written + "!")
        if kind == "LIST":
            item = cls.of(description["ofType"])
            return cls("", False, item, f"[{item.written}]")
        return cls(description["name"], False, None, description["name"])

    @property
    def named(self) -> str:
        """The innermost type of nested lists."""
        return self.name if self.item is None else self.item.named


def _name(description: Mapping[str, Any]) -> str:
    name = description["name"]
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(f"{shown(name)} is not a name in GraphQL")
    return name


@dataclass(frozen=True, slots=True)
class Field:
    """A field, an argument or a member of an input object; `needed`: it is required."""

    name: str
    type: TypeRef
    arguments: tuple[Field, ...]
    needed: bool

    @classmethod
    def of(cls, description: Mapping[str, Any]) -> Field:
        kind = TypeRef.of(description["type"])
        arguments = tuple(cls.of(one) for one in description.get("args") or ())
        return cls(_name(description), kind, arguments, kind.required and description.get("defaultValue") is None)


@dataclass(frozen=True, slots=True)
class Type:
    """A type; `one_of`: an input object that takes exactly one of its members."""

    name: str
    kind: str
    fields: tuple[Field, ...]
    values: tuple[str, ...]
    possible: tuple[str, ...]
    one_of: bool


class Service:
    """The types of a service by name, and its roots: ``query``, ``mutation``, ``subscription`` → type."""

    def __init__(self, introspection: str) -> None:
        schema = json.loads(introspection)
        self.types: dict[str, Type] = {}
        for one in schema["types"]:
            listed = one.get("fields") or one.get("inputFields") or ()
            self.types[one["name"]] = Type(
                _name(one),
                one["kind"],
                tuple(Field.of(field) for field in listed),
                tuple(_name(value) for value in one.get("enumValues") or ()),
                tuple(_name(possible) for possible in one.get("possibleTypes") or ()),
                bool(one.get("isOneOf")),
            )
        roots = {kind: schema.get(f"{kind}Type") for kind in ("query", "mutation", "subscription")}
        self.roots = {kind: root["name"] for kind, root in roots.items() if root}


def introspected(schema: Any) -> str:
    """Returns the introspection result of a service as JSON text, from any supported description.

    Raises:
        CompileError: ``query-schema``: it cannot be read; ``missing-package``: graphql-core is needed for it.
        LimitError: ``query-schema-size``: it has too many fields.
    """
    if not isinstance(schema, Mapping):
        schema = _by_graphql_core(schema)
    for key in ("data", "__schema"):
        if isinstance(schema.get(key), Mapping):
            schema = schema[key]
    try:
        text = json.dumps({key: schema.get(key) for key in ("queryType", "mutationType", "subscriptionType", "types")})
        service = Service(text)
        for one in service.types.values():
            for field in one.fields:
                for part in (field, *field.arguments):
                    if part.type.named not in service.types:
                        raise KeyError(part.type.named)
        if not service.roots or not {*service.roots.values()} <= {*service.types}:
            raise KeyError("queryType")
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise CompileError(
            f"the introspection of the GraphQL schema cannot be read ({error}); pass the result of the introspection "
            "query, SDL, or a GraphQLSchema",
            code="query-schema",
        ) from None
    for one in service.types.values():
        for name in (one.name, *(part.name for field in one.fields for part in (field, *field.arguments)), *one.values):
            if len(name) > LONGEST_NAME:
                raise LimitError(
                    f"the name {shown(name)} has {len(name):,} characters; names of a GraphQL schema may have at most "
                    f"{LONGEST_NAME:,}",
                    code="query-schema-size",
                )
    if sum(len(one.fields) for one in service.types.values()) > _MOST_FIELDS:
        raise LimitError(
            f"the GraphQL schema has more than {_MOST_FIELDS:,} fields; pass a part of it", code="query-schema-size"
        )
    return text


def _by_graphql_core(schema: Any) -> Mapping[str, Any]:
    if not isinstance(schema, str) and type(schema).__name__ != "GraphQLSchema":
        raise CompileError(
            "a service schema must be SDL, a GraphQLSchema of graphql-core, or the dict of an introspection, not "
            f"{type(schema).__name__}",
            code="query-schema",
        )
    get = "pip install graphql-core, or pass an introspection"
    graphql = package("graphql", "reading SDL needs graphql-core", get=get)
    if isinstance(schema, str):
        names = len(_NAME.findall(_SKIPPED.sub(" ", schema)))
        try:
            with reading():
                spend(len(schema) + _STEPS * names)
        except LimitError as error:
            raise in_text(error, schema) from None
    try:
        if isinstance(schema, str):
            document = graphql.parse(schema, no_location=True)
            _spend_on(graphql, document, schema)
            made, errors = _built(graphql, document)
            if errors and sum(len(error.nodes or ()) for error in errors) <= _FEW:
                errors = _built(graphql, graphql.parse(schema))[1]
        else:
            made, errors = schema, graphql.validate_schema(schema)
        if errors:  # graphql-core would write out all of them
            raise TypeError("\n\n".join(clipped(str(error), _LONGEST) for error in errors[:_MOST_ERRORS]))
        found: Mapping[str, Any] = graphql.introspection_from_schema(made, input_value_deprecation=True)
    except (graphql.GraphQLError, TypeError, RecursionError) as error:
        why = clipped(str(error), _MOST_ERRORS * (_LONGEST + 2))
        raise CompileError(f"the GraphQL schema {shown(schema)} is invalid: {why}", code="query-schema") from None
    one_of = {name for name, kind in made.type_map.items() if getattr(kind, "is_one_of", False)}
    for kind in found["__schema"]["types"]:
        kind["isOneOf"] = kind["name"] in one_of
    return found


def _built(graphql: Any, document: Any) -> tuple[Any, list[Any]]:
    """The schema of a document, and its faults. If the document has places, each fault looks its own up in the text."""
    errors = import_module("graphql.validation.validate").validate_sdl(document)
    if errors:
        return None, errors
    made = graphql.build_ast_schema(document, assume_valid_sdl=True)
    return made, graphql.validate_schema(made)


def _spend_on(graphql: Any, document: Any, text: str) -> None:
    """Counts what graphql-core does for pairs of names.

    It compares each name that is not defined with those that are, reports a member that a union names again together
    with all its places, and compares types with their interfaces.

    Raises:
        LimitError: ``work``: it is more than allowed.
    """
    defined = {kind.name for kind in graphql.specified_scalar_types.values()}
    defined |= {name for directive in graphql.specified_directives for name in (directive.name, *directive.args)}
    used: list[str] = []
    members: Counter[str] = Counter()  # of interfaces
    pairs: Counter[tuple[str, str]] = Counter()  # of a type and an interface of it, or of a union and a member
    nodes = [(document, "")]
    while nodes:
        node, role = nodes.pop()
        kind = node.kind
        if kind == "name":
            if role.endswith("_definition"):
                defined.add(node.value)
            elif role in _USES or role.endswith("_extension"):
                used.append(node.value)
        elif kind == "enum_value":
            used.append(node.value)
        elif kind.startswith("interface_type"):
            members[node.name.value] += sum(1 + len(field.arguments or ()) for field in node.fields or ())
        for inner in (getattr(node, "interfaces", None), getattr(node, "types", None)):
            pairs.update((node.name.value, one.name.value) for one in inner or ())
        for key in node.keys:
            inner = getattr(node, key)
            if isinstance(inner, list | tuple):
                nodes += [(one, kind) for one in inner]
            elif hasattr(inner, "kind"):
                nodes.append((inner, kind))
    known = sum(_COMPARED + len(name) for name in defined)
    steps = _PAIR * known * sum(_COMPARED + len(name) for name in used if name not in defined)
    steps += _FAULT * sum(count * (count + members[name]) for (_, name), count in pairs.items())
    try:
        with reading():
            spend(steps)
    except LimitError as error:
        raise in_text(error, text) from None
