"""The option ``closed``: objects have only the members that a schema names, unless it says otherwise.

The schema is rewritten once, before it is evaluated. Every schema of a *value* (the root, a property, an item …) that
describes objects gets ``additionalProperties: false``. Schemas that apply to the same value (``allOf``, ``anyOf``,
``$ref`` …) stay open, and the names that they declare count next to it: together they describe one object. If any
of them has ``additionalProperties`` or ``unevaluatedProperties``, that decides.

The rewritten schema accepts no value that the original rejects. So schemas that only test a value (``not``, ``if``,
``contains``, and which one of ``oneOf`` holds) stay as written, with everything that they refer to.
"""

from __future__ import annotations

from typing import Any

from guiderail.frontends.json_schema.documents.references import OLD
from guiderail.frontends.json_schema.errors import SchemaError
from guiderail.support.pointers import extended, followed
from guiderail.support.work import spend

__all__ = ["closed"]

_LISTS = ("allOf", "anyOf", "oneOf")
_SINGLE = ("then", "else")
_VALUES = ("items", "additionalItems", "additionalProperties", "unevaluatedItems", "unevaluatedProperties")
_NAMED_VALUES = ("properties", "patternProperties")
_APART = ("$defs", "definitions", "dependentSchemas", "dependencies")
_CLOSING = ("additionalProperties", "unevaluatedProperties")
_IN_PLACE = frozenset((*_LISTS, *_SINGLE, "if", "not", "$ref", "$dynamicRef", "$recursiveRef", "dependentSchemas",
                       "dependencies"))  # fmt: skip
_TESTS = ("not", "if", "contains")
_MOST_ALTERNATIVES = 64
_OPEN = "as written"  # the definition that is the root schema
_OBJECT_KEYWORDS = ("properties", "patternProperties", "required", "minProperties", "maxProperties", "propertyNames",
                    "dependentRequired", "dependentSchemas", "dependencies")  # fmt: skip


def closed(contents: Any, dialect: str) -> Any:
    """A schema with its objects closed; ``contents`` is not changed."""
    closing = _Closing(contents, dialect in OLD)
    made = closing.value(contents, "#")
    if closing.uses_open:
        held = made.get("$defs")
        made = {**made, "$defs": {**(held if isinstance(held, dict) else {}), _OPEN: closing.opened(contents)}}
    return made


class _Names:
    """What all schemas that are applied to one value say of its members."""

    def __init__(self) -> None:
        self.open = False  # some schema describes the other members
        self.objects = False  # some schema describes objects
        self.named: dict[str, Any] = {}
        self.patterns: dict[str, Any] = {}


class _Closing:
    def __init__(self, root: Any, old: bool) -> None:
        self.root = root
        self.old = old
        self.uses_open = False  # another schema refers to this one as written

    def opened(self, schema: Any) -> Any:
        """A schema as written, and everything that it refers to as written."""
        if isinstance(schema, list):
            return [self.opened(one) for one in schema]
        if not isinstance(schema, dict):
            return schema
        made = {
            keyword: held if keyword in ("const", "enum") else self.opened(held) for keyword, held in schema.items()
        }
        reference = schema.get("$ref")
        if isinstance(reference, str) and (reference == "#" or reference.startswith("#/")):
            self.uses_open = True
            made["$ref"] = f"#/$defs/{_OPEN}{reference[1:]}"
        return made

    def value(self, schema: Any, pointer: str) -> Any:
        """The schema of a value, closed."""
        made = self.inside(schema, pointer)
        if not isinstance(schema, dict):
            return made
        apart = self.alternatives(schema, made, pointer)
        if apart is not None:
            return apart
        names = _Names()
        self.gather(schema, pointer, names, set())
        if names.open or not names.objects:
            return made
        if self.old and "$ref" in schema:  # the keywords next to $ref are ignored
            made = {"allOf": [made]}
        more: dict[str, Any] = {"additionalProperties": False}
        for keyword, found in (("properties", names.named), ("patternProperties", names.patterns)):
            own = made.get(keyword)
            if found:
                more[keyword] = {**(own if isinstance(own, dict) else {}), **{
                    name: True if not isinstance(own, dict) or name not in own else own[name] for name in found
                }}  # fmt: skip
        return {**made, **more}

    def alternatives(self, schema: dict[str, Any], made: dict[str, Any], pointer: str) -> dict[str, Any] | None:
        """A schema that consists only of alternatives, with each of them closed; None for any other schema.

        Closed alternatives of ``oneOf`` would exclude each other less. So exactly one holds as written, and one of the
        closed ones.
        """
        held = {keyword for keyword in schema if keyword in _IN_PLACE}
        if held not in ({"anyOf"}, {"oneOf"}) or any(keyword in schema for keyword in (*_OBJECT_KEYWORDS, *_CLOSING)):
            return None
        (keyword,) = held
        some = schema[keyword]
        if not isinstance(some, list) or len(some) > _MOST_ALTERNATIVES:
            return None
        each = [self.value(one, f"{pointer}/{keyword}/{i}") for i, one in enumerate(some)]
        made = {name: held for name, held in made.items() if name != "allOf"}
        return {**made, "anyOf": each}

    def inside(self, schema: Any, pointer: str) -> Any:
        """A schema with the schemas of values in it closed, itself left as it is."""
        if not isinstance(schema, dict):
            return schema
        spend(20 + 5 * len(schema))
        made: dict[str, Any] = {}
        tests: list[Any] = []
        for keyword, held in schema.items():
            at = extended(pointer, keyword)
            if keyword in _NAMED_VALUES and isinstance(held, dict):
                made[keyword] = {name: self.value(one, extended(at, name)) for name, one in held.items()}
            elif keyword in _APART and isinstance(held, dict):
                made[keyword] = {name: self.inside(one, extended(at, name)) for name, one in held.items()}
            elif keyword == "oneOf" and isinstance(held, list):
                one_of = [self.inside(one, f"{at}/{i}") for i, one in enumerate(held)]
                made[keyword] = self.opened(held)
                tests = [{"anyOf": one_of}]
            elif keyword in _LISTS and isinstance(held, list):
                made[keyword] = [self.inside(one, f"{at}/{i}") for i, one in enumerate(held)]
            elif keyword in _SINGLE:
                made[keyword] = self.inside(held, at)
            elif keyword in ("prefixItems", "items") and isinstance(held, list):
                made[keyword] = [self.value(one, f"{at}/{i}") for i, one in enumerate(held)]
            elif keyword in _VALUES:
                made[keyword] = self.value(held, at)
            elif keyword in _TESTS:
                made[keyword] = self.opened(held)
            else:
                made[keyword] = held
        if tests and not (self.old and "$ref" in schema):
            others = made.get("allOf")
            made["allOf"] = [*(others if isinstance(others, list) else []), *tests]
        return made

    def gather(self, schema: Any, pointer: str, names: _Names, seen: set[int]) -> None:
        """What a schema and those applied to the same value say of members."""
        if not isinstance(schema, dict) or id(schema) in seen:
            return
        seen.add(id(schema))
        spend(20 + 5 * len(schema))
        if "$ref" in schema:
            self.gather(self.target(schema["$ref"], pointer), schema["$ref"], names, seen)
            if self.old:
                return
        if "$dynamicRef" in schema or "$recursiveRef" in schema:
            raise _refused("a dynamic reference", pointer)
        names.open |= any(keyword in schema for keyword in _CLOSING)
        values = schema.get("enum")
        for value in (*(values if isinstance(values, list) else ()), schema.get("const")):
            if isinstance(value, dict):
                names.named.update(dict.fromkeys(value))
        kinds = schema.get("type")
        names.objects |= kinds == "object" or (isinstance(kinds, list) and "object" in kinds)
        names.objects |= any(keyword in schema for keyword in _OBJECT_KEYWORDS)
        for keyword, into in (("properties", names.named), ("patternProperties", names.patterns)):
            if isinstance(schema.get(keyword), dict):
                into.update(dict.fromkeys(schema[keyword]))
        for keyword in _LISTS:
            if isinstance(schema.get(keyword), list):
                for i, one in enumerate(schema[keyword]):
                    self.gather(one, f"{pointer}/{keyword}/{i}", names, seen)
        for keyword in ("if", *_SINGLE):
            self.gather(schema.get(keyword), f"{pointer}/{keyword}", names, seen)
        for keyword in ("dependentSchemas", "dependencies"):
            if isinstance(schema.get(keyword), dict):
                for name, one in schema[keyword].items():
                    self.gather(one, extended(pointer, keyword, name), names, seen)

    def target(self, reference: Any, pointer: str) -> Any:
        """What a reference names in this document."""
        if not isinstance(reference, str):
            return None  # defined elsewhere
        if not (reference == "#" or reference.startswith("#/")):
            raise _refused(f"the reference {reference!r}", pointer)
        try:
            return followed(self.root, reference[1:])
        except LookupError:
            raise _refused(f"the reference {reference!r}", pointer) from None


def _refused(what: str, pointer: str) -> SchemaError:
    return SchemaError(
        f"with closed=True, {what} cannot be followed; refer to a part of the document, such as #/$defs/name, or leave "
        'closed out and write "additionalProperties": false where you mean it',
        code="closed-reference",
        pointer=pointer,
    )
