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
