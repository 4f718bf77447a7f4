"""Identifiers and references, wherever schemas stand in schemas."""

from __future__ import annotations

from typing import Any

import pytest
import referencing
from referencing.jsonschema import DRAFT7

import guiderail as gr

MIXED = {"a": {"$id": "number", "type": "integer"}, "b": ["c"], "d": {"$id": "text", "type": "string"}}
IN_ANY_ORDER = [dict(items) for items in (MIXED.items(), reversed(MIXED.items()))]
DRAFT_7 = "http://json-schema.org/draft-07/schema#"


def answers(schema: Any, **options: Any) -> list[bool]:
    constraint = gr.json_schema(schema, **options)
    return [constraint.matches(text) for text in ("[1]", '["x"]')]


@pytest.mark.parametrize("dependencies", IN_ANY_ORDER)
def test_schemas_among_dependencies_have_identifiers(dependencies: dict[str, Any]) -> None:
    for name, expected in (("number", [True, False]), ("text", [False, True])):
        library = {"definitions": {"x": {"dependencies": dependencies}}}
        items = {"items": {"$ref": f"http://e/{name}"}}
        assert answers({"$id": "http://e/", **items, **library}, dialect="draft-07") == expected
        within = {"$defs": {"inner": {"$id": "http://e/", "$schema": DRAFT_7, **library}}}  # a bundle of documents
        assert answers({**items, **within}) == expected
        resource = DRAFT7.create_resource({"$id": "http://e/", **library})
        known = referencing.Registry().with_resource("urn:library", resource)
        assert answers(items, dialect="draft-07", registry=known) == expected
        found: Any = referencing.Registry(
            retrieve=lambda uri, library=library: DRAFT7.create_resource({"$id": uri, **library})
        )
        assert answers({"allOf": [{"$ref": "http://e/"}], **items}, registry=found) == expected


ONE = ["additionalItems", "additionalProperties", "contains", "else", "if", "items", "not", "propertyNames", "then"]
ONE += ["unevaluatedItems", "unevaluatedProperties"]
MANY = ["allOf", "anyOf", "oneOf", "prefixItems"]
NAMED = ["$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"]


@pytest.mark.parametrize("dialect", ["2020-12", "2019-09", "draft-07", "draft-06", "draft-04"])
def test_identifiers_are_found_wherever_a_schema_stands(dialect: str) -> None:
    def named(keyword: str) -> dict[str, str]:
        return {"id" if dialect == "draft-04" else "$id": f"http://e/{keyword.strip('$')}", "type": "integer"}

    holders: dict[str, Any] = {keyword: named(keyword) for keyword in ONE}
    holders |= {keyword: [{}, named(keyword)] for keyword in MANY}
    holders |= {keyword: {"a": {}, "b": named(keyword)} for keyword in NAMED}
    library = {"definitions": {keyword: {keyword: held} for keyword, held in holders.items()}}
    items = {"allOf": [{"$ref": f"http://e/{keyword.strip('$')}"} for keyword in holders]}
    assert answers({"items": items, **library}, dialect=dialect) == [True, False]


def test_the_outermost_anchor_decides_whatever_the_way() -> None:
    """Nine resources that lead to each other in any order: only the first one with an anchor tells ways apart."""
    names = "abcdefghi"
    parts: dict[str, dict[str, Any]] = {
        name: {
            "$id": name,
            "$dynamicAnchor": "node",
            "properties": {other: {"$ref": other} for other in names if other != name}
            | {"x": {"$dynamicRef": "#node"}},
        }
        for name in names
    }
    root = {"$id": "https://example.org/", "$dynamicAnchor": "node", "type": "object", "$defs": parts}
    constraint = gr.json_schema({**root, "allOf": [{"$ref": name} for name in names]})
    for text, valid in (('{"a": 1}', True), ('{"a": {"b": {"x": {}}}}', True), ('{"a": {"b": {"x": 1}}}', False)):
        assert constraint.matches(text) == valid
    parts["a"]["type"] = "object"  # without an anchor of the root, that of the first resource decides
    constraint = gr.json_schema({"$id": "https://example.org/", "$defs": parts, "properties": {"a": {"$ref": "a"}}})
    for text, valid in (
        ('{"a": {"c": 1}}', True),
        ('{"a": {"b": {"x": {}}}}', True),
        ('{"a": {"b": {"x": 1}}}', False),
    ):
        assert constraint.matches(text) == valid
