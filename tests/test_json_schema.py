"""gr.json_schema: dialects, options, references, errors, reports. The official suite tests the keywords."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

import guiderail as gr
from guiderail.support.work import spent

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0, "maximum": 150}},
    "required": ["name"],
    "additionalProperties": False,
}
TREE = {
    "$ref": "#/$defs/tree",
    "$defs": {
        "tree": {
            "type": "object",
            "properties": {
                "value": {"type": "integer"},
                "children": {"type": "array", "items": {"$ref": "#/$defs/tree"}},
            },
            "required": ["value"],
            "additionalProperties": False,
        }
    },
}


def texts(schema: Any, *values: str, **options: Any) -> list[bool]:
    constraint = gr.json_schema(schema, **options)
    return [constraint.matches(text) for text in values]


def fault(schema: Any, **options: Any) -> gr.GuiderailError:
    with pytest.raises(gr.GuiderailError) as caught:
        gr.json_schema(schema, **options).program()
    return caught.value


# -- inputs ---------------------------------------------------------------------------------------------------------
def test_a_schema_may_be_given_in_many_ways(tmp_path: Path) -> None:
    path = tmp_path / "person.json"
    path.write_text(json.dumps(PERSON))
    from_dict = gr.json_schema(PERSON)
    assert from_dict == gr.json_schema(json.dumps(PERSON)) == gr.json_schema(path)
    assert hash(from_dict) == hash(gr.json_schema(path))
    assert from_dict.matches('{"name": "Ada", "age": 36}')
    assert from_dict.schema == PERSON


def test_a_pydantic_model_is_its_schema() -> None:
    pydantic = pytest.importorskip("pydantic")
    model = pydantic.create_model("Model", name=(str, ...), tags=(list[str], []))
    constraint = gr.json_schema(model)
    assert constraint.matches('{"name": "x", "tags": ["a"]}')
    assert not constraint.matches('{"tags": ["a"]}')


def test_what_was_given_may_change_afterwards() -> None:
    schema = {"type": "string"}
    constraint = gr.json_schema(schema)
    schema["type"] = "integer"
    assert constraint.matches('"x"') and not constraint.matches("1")
    assert gr.json_schema(schema).matches("1")


def test_equal_by_value_and_picklable() -> None:
    a, b = gr.json_schema(PERSON), gr.json_schema(PERSON, layout="compact")
    assert a != b and len({a, b, gr.json_schema(dict(PERSON))}) == 2
    assert pickle.loads(pickle.dumps(b)) == b
    assert repr(a).startswith("json_schema({")


def test_composes_with_other_constraints() -> None:
    call = "<call>" + gr.json_schema(PERSON) + "</call>"
    assert call.matches('<call>{"name": "x"}</call>')


def test_a_schema_seen_before_costs_only_its_text() -> None:
    schema = {"type": "object", "properties": {f"p{i}": {"type": "string", "maxLength": i} for i in range(20)}}
    first = gr.json_schema(schema)
    before = spent()
    assert gr.json_schema(schema) is first
    assert spent() - before < 2 * len(json.dumps(schema))


def test_many_patterns_of_keys_that_are_disjoint() -> None:
    patterns = {f"^p{i}_[a-z]+$": {"type": "integer", "minimum": i} for i in range(100)}
    schema = gr.json_schema({"type": "object", "patternProperties": patterns, "additionalProperties": False})
    assert schema.matches('{"p99_a": 99, "p0_b": 0}') and not schema.matches('{"p99_a": 98}')


def test_two_members_of_one_name_are_refused() -> None:
    error = fault('{"properties": {"a": {"type": "integer"}, "a": {"type": "string"}}}')
    assert error.code == "invalid-schema" and "the name 'a' occurs twice" in str(error)
    assert gr.json_schema('{"type": "integer", "type": "integer"}').matches("1")  # the same, twice


@pytest.mark.parametrize("schema", [None, 3, ["object"], "not json", object()])
def test_what_is_no_schema_is_refused(schema: Any) -> None:
    assert fault(schema).code == "invalid-schema"


# -- dialects ---------------------------------------------------------------------------------------------------------
def test_schema_decides_the_dialect() -> None:
    schema = {"minimum": 1, "exclusiveMinimum": True, "type": "integer"}
    draft4 = {**schema, "$schema": "http://json-schema.org/draft-04/schema#"}
    assert texts(draft4, "1", "2") == [False, True]
    assert texts(schema, "1", "2") == [False, True]  # unambiguous even without $schema
    assert texts({"const": 1}, "1", "2", dialect="draft-04") == [True, True]  # not yet a keyword
    assert texts({"const": 1}, "1", "2") == [True, False]
    draft3 = {"$schema": "http://json-schema.org/draft-03/schema#", "divisibleBy": 2}
    assert fault(draft3).pointer == "#/$schema"
    assert texts({**draft3, "multipleOf": 3}, "2", "3", dialect="draft-04") == [False, True]  # asked for


def test_siblings_of_ref_count_from_2019_on() -> None:
    schema = {"$ref": "#/definitions/a", "maximum": 5, "definitions": {"a": {"type": "integer"}}}
    assert texts(schema, "7", "3", dialect="2020-12") == [False, True]
    assert texts(schema, "7", "3", dialect="draft-07") == [True, True]
    assert texts({**schema, "$schema": "http://json-schema.org/draft-07/schema#"}, "7") == [True]


def test_items_as_a_list_and_dependencies_keep_their_old_meaning() -> None:
    schema = {"type": "array", "items": [{"type": "integer"}], "additionalItems": {"type": "string"}}
    assert texts(schema, '[1, "a"]', "[1, 2]", '["a"]') == [True, False, False]
    schema = {"type": "object", "dependencies": {"a": ["b"], "c": {"required": ["d"]}}}
    assert texts(schema, '{"a": 1}', '{"a": 1, "b": 2}', '{"c": 1}', "{}") == [False, True, False, True]


def test_openapi_nullable() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "nullable": True}}}
    assert texts(schema, '{"a": null}', dialect="openapi-3.0") == [True]
    assert texts(schema, '{"a": null}') == [False]


def test_recursive_ref_of_2019() -> None:
    schema = {
        "$schema": "https://json-schema.org/draft/2019-09/schema",
        "$recursiveAnchor": True,
        "type": "object",
        "additionalProperties": {"$recursiveRef": "#"},
    }
    assert texts(schema, '{"a": {"b": {}}}', '{"a": {"b": 1}}') == [True, False]


# -- references -------------------------------------------------------------------------------------------------------
def test_recursion() -> None:
    deep = '{"value": 1, "children": [{"value": 2, "children": [{"value": 3}]}, {"value": 4}]}'
    assert texts(TREE, deep, deep.replace("3", '"x"')) == [True, False]


def test_pointers_are_unescaped() -> None:
    schema = {"$defs": {"a/b~c %": {"type": "null"}}, "properties": {"x": {"$ref": "#/$defs/a~1b~0c%20%25"}}}
    assert texts(schema, '{"x": null}', '{"x": 1}') == [True, False]


def test_other_documents_come_from_the_registry() -> None:
    referencing = pytest.importorskip("referencing")
    from referencing.jsonschema import DRAFT202012

    resource = DRAFT202012.create_resource({"$defs": {"n": {"type": "integer"}}})
    registry = referencing.Registry().with_resource("urn:numbers", resource)
    schema = {"items": {"$ref": "urn:numbers#/$defs/n"}, "type": "array"}
    assert texts(schema, "[1]", '["a"]', registry=registry) == [True, False]
    error = fault(schema)
    assert error.code == "unresolvable-reference" and "registry=" in str(error)
    assert error.pointer == "#/items"  # type: ignore[attr-defined]


D2019 = "https://json-schema.org/draft/2019-09/schema"
INTEGER, TEXT = {"type": "integer"}, {"type": "string"}
ROOT, INNER, LIST = "http://e/root", {"$id": "inner"}, {"type": "array"}
RESOURCES: dict[str, tuple[Any, list[str], list[str]]] = {
    "the target of $dynamicRef is read in its own resource": (
        {
            "$id": "http://e/strict",
            "$ref": "tree",
            "$defs": {
                "strict": {"$dynamicAnchor": "node", "$ref": "#/$defs/limit"},
                "limit": {"minimum": 5},
                "tree": {
                    "$id": "tree",
                    "$dynamicAnchor": "node",
                    **LIST,
                    "items": {"$dynamicRef": "#node"},
                    "$defs": {"limit": {"maximum": 3}},
                },
            },
        },
        ["[7]", "[]"],
        ["[1]", "7"],
    ),
    "$ref to a $dynamicAnchor stays in the resource": (
        {
            "$id": ROOT,
            "$ref": "inner",
            "$defs": {
                "D": {"$dynamicAnchor": "D", **INTEGER},
                "i": {**INNER, "$ref": "#D", "$defs": {"q": {"$dynamicAnchor": "D", **TEXT}}},
            },
        },
        ['"a"'],
        ["1"],
    ),
    "$dynamicRef to an $anchor does so, too": (
        {
            "$id": ROOT,
            "$ref": "inner",
            "$defs": {
                "D": {"$dynamicAnchor": "D", **INTEGER},
                "i": {**INNER, "$dynamicRef": "#D", "$defs": {"q": {"$anchor": "D", **TEXT}}},
            },
        },
        ['"a"'],
        ["1"],
    ),
    "and $dynamicRef with a pointer": (
        {
            "$id": ROOT,
            "$ref": "inner",
            "$defs": {
                "D": {"$dynamicAnchor": "D", **INTEGER},
                "i": {**INNER, "$dynamicRef": "#/$defs/q", "$defs": {"q": {"$dynamicAnchor": "D", **TEXT}}},
            },
        },
        ['"a"'],
        ["1"],
    ),
    "$dynamicRef to an anchor of another resource": (
        {
            "$id": ROOT,
            "$dynamicRef": "inner#D",
            "$defs": {
                "D": {"$dynamicAnchor": "D", "$ref": "#/$defs/x"},
                "x": TEXT,
                "i": {**INNER, "$defs": {"x": INTEGER, "q": {"$dynamicAnchor": "D"}}},
            },
        },
        ['"a"'],
        ["1"],
    ),
    "a resource around another one is in the dynamic scope": (
        {
            "$id": ROOT,
            **LIST,
            "items": {**INNER, "$dynamicRef": "#D", "$defs": {"q": {"$dynamicAnchor": "D", **TEXT}}},
            "$defs": {"D": {"$dynamicAnchor": "D", **INTEGER}},
        },
        ["[1]"],
        ['["a"]'],
    ),
    "even without an identifier": (
        {
            "$ref": "http://e/inner",
            "$defs": {
                "D": {"$dynamicAnchor": "D", **INTEGER},
                "i": {"$id": "http://e/inner", "$dynamicRef": "#D", "$defs": {"q": {"$dynamicAnchor": "D", **TEXT}}},
            },
        },
        ["1"],
        ['"a"'],
    ),
    "a resource around the target of a pointer is not": (
        {
            "$id": ROOT,
            "$ref": "outer#/$defs/i",
            "$defs": {
                "o": {
                    "$id": "outer",
                    "$defs": {
                        "D": {"$dynamicAnchor": "D", **INTEGER},
                        "i": {**INNER, "$dynamicRef": "#D", "$defs": {"q": {"$dynamicAnchor": "D", **TEXT}}},
                    },
                }
            },
        },
        ['"a"'],
        ["1"],
    ),
    "one resource on two ways": (
        {
            "$id": ROOT,
            "properties": {"text": {"$ref": "texts"}, "any": {"$ref": "list"}},
            "$defs": {
                "texts": {"$id": "texts", "$ref": "list", "$defs": {"item": {"$dynamicAnchor": "item", **TEXT}}},
                "list": {
                    "$id": "list",
                    **LIST,
                    "items": {"$dynamicRef": "#item"},
                    "$defs": {"item": {"$dynamicAnchor": "item"}},
                },
            },
        },
        ['{"text": ["a"], "any": [1]}'],
        ['{"text": [1]}', '{"any": 1}'],
    ),
    "$recursiveRef passes resources without $recursiveAnchor": (
        {
            "$schema": D2019,
            "$id": ROOT,
            "$recursiveAnchor": True,
            "anyOf": [INTEGER, {"$ref": "mid"}],
            "$defs": {
                "m": {"$id": "mid", "$ref": "inner"},
                "i": {**INNER, "$recursiveAnchor": True, **LIST, "items": {"$recursiveRef": "#"}},
            },
        },
        ["1", "[1]", "[[1], []]"],
        ['["a"]', '"a"'],
    ),
    "$recursiveRef stays in a resource without $recursiveAnchor": (
        {
            "$schema": D2019,
            "$id": ROOT,
            "$recursiveAnchor": True,
            "anyOf": [INTEGER, {"$ref": "inner"}],
            "$defs": {"i": {**INNER, "$recursiveAnchor": False, **LIST, "items": {"$recursiveRef": "#"}}},
        },
        ["1", "[]", "[[]]"],
        ["[1]"],
    ),
    "the target of $recursiveRef is read in its own resource": (
        {
            "$schema": D2019,
            "$id": ROOT,
            "$recursiveAnchor": True,
            "anyOf": [{"$ref": "#/$defs/x"}, {"$ref": "inner"}],
            "$defs": {
                "x": TEXT,
                "i": {
                    **INNER,
                    "$recursiveAnchor": True,
                    **LIST,
                    "items": {"$recursiveRef": "#"},
                    "$defs": {"x": INTEGER},
                },
            },
        },
        ['"a"', '[["a"]]'],
        ["[1]"],
    ),
    "identifiers relative to a relative one": (
        {
            "$id": "a/b",
            **LIST,
            "items": {"$ref": "c#D"},
            "$defs": {"c": {"$id": "c", "$defs": {"d": {"$anchor": "D", **INTEGER}}}, "e": {"$id": "a/c", **TEXT}},
        },
        ["[1]"],
        ['["a"]'],
    ),
    "a pointer into a resource within a resource": (
        {
            "$id": ROOT,
            "$ref": "#/$defs/i/$defs/y",
            "$defs": {"x": INTEGER, "i": {**INNER, "$defs": {"x": TEXT, "y": {"$ref": "#/$defs/x"}}}},
        },
        ['"a"'],
        ["1"],
    ),
    "an identifier in a constant is none": (
        {
            "$id": ROOT,
            **LIST,
            "prefixItems": [{"$ref": "inner"}, {"const": {**INNER, "type": "string"}}],
            "$defs": {"i": {**INNER, **INTEGER}},
        },
        ["[1]", '[1, {"$id": "inner", "type": "string"}]'],
        ['["a"]'],
    ),
}


@pytest.mark.parametrize("case", RESOURCES)
def test_resources_and_dynamic_references(case: str) -> None:
    schema, good, bad = RESOURCES[case]
    assert texts(schema, *good, *bad) == [True] * len(good) + [False] * len(bad)


def test_ways_without_dynamic_anchors_are_not_told_apart() -> None:
    def resource(i: int) -> dict[str, Any]:
        far, near = f"d{(7 * i + 3) % 60}", f"d{(i + 1) % 60}"
        return {"$id": f"d{i}", "properties": {"a": {"$ref": near}, "b": {"$ref": f"{far}#/properties/a"}}}

    schema = {"$id": ROOT, "$dynamicRef": "d0", "$defs": {f"d{i}": resource(i) for i in range(60)}}
    assert texts(schema, '{"a": {"b": {}}}', '{"a": 1, "b": {"a": 2}}') == [True, True]


def test_a_document_of_the_registry_has_the_uri_that_it_says() -> None:
    referencing = pytest.importorskip("referencing")
    from referencing.jsonschema import DRAFT202012

    documents = {
        "urn:list": {"$id": "http://e/list", **LIST, "items": {"$ref": "item"}},
        "http://e/item": INTEGER,
        "http://e/other/item": TEXT,
    }
    registry = referencing.Registry().with_resources(
        (uri, DRAFT202012.create_resource(contents)) for uri, contents in documents.items()
    )
    assert texts({"$ref": "urn:list"}, "[1]", '["a"]', registry=registry) == [True, False]
    both = {**LIST, "items": {"$ref": "item"}}
    assert texts(both, "[1]", '["a"]', registry=registry, base_uri="http://e/other/") == [False, True]
    both["$id"] = "http://e/list2"  # which counts, wherever the document comes from
    assert texts(both, "[1]", '["a"]', registry=registry, base_uri="http://e/other/") == [True, False]


@pytest.mark.parametrize("index", ["00", "01", "٠", "-1", "+0", "0_0", " 0", "1", "9" * 5000])
@pytest.mark.parametrize("within", [{}, {"$id": "http://e/root", "$defs": {"i": {"$id": "inner"}}}])
def test_only_rfc_6901_indexes_lead_to_items(index: str, within: dict[str, Any]) -> None:
    schema = {"items": {"$ref": f"#/allOf/{index}"}, "allOf": [{"type": "array"}], **within}
    error = fault(schema)
    assert error.code == "unresolvable-reference"
    assert error.pointer == "#/items"  # type: ignore[attr-defined]
    assert fault({"$ref": f"#/allOf/{index}", "allOf": [True]}, closed=True).code == "closed-reference"
    schema["items"]["$ref"] = "#/allOf/0"
    assert texts(schema, "[[]]", "[1]") == [True, False]


@pytest.mark.parametrize(
    ("schema", "code", "pointer"),
    [
        ({"$id": "http://\u2100/", "$ref": "a"}, "invalid-schema", "#/$id"),
        ({"$id": ROOT, "$ref": "a", "$defs": {"a": {"$id": "http://["}}}, "invalid-schema", "#/$defs/a/$id"),
        ({"$ref": "a", "$defs": {"a": {"$id": 3}}}, "invalid-schema", "#/$defs/a/$id"),
        ({"items": {"$ref": "http://["}}, "unresolvable-reference", "#/items"),
        ({"$id": ROOT, "items": {"$ref": "http://\u2100/"}}, "unresolvable-reference", "#/items"),
        ({"items": {"$dynamicRef": "#a"}}, "unresolvable-reference", "#/items"),
    ],
)
def test_what_is_no_uri_is_refused_with_its_place(schema: Any, code: str, pointer: str) -> None:
    error = fault(schema)
    assert (error.code, error.pointer) == (code, pointer)  # type: ignore[attr-defined]


def test_metaschemas_are_known() -> None:
    schema = {"$ref": "https://json-schema.org/draft/2020-12/schema"}
    assert texts(schema, '{"type": "object"}', '{"type": 3}', "true") == [True, False, True]


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
        {"anyOf": [{"type": "string"}, {"$ref": "#"}]},
        {"allOf": [{"$ref": "#"}]},
        {"not": {"$ref": "#"}},
    ],
)
def test_references_that_read_nothing_are_refused(schema: Any) -> None:
    assert fault(schema).code == "infinite-reference"


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "allOf": [{"$ref": "#"}, {"minLength": 2}]},
        {"type": "string", "$ref": "#", "minLength": 2},
        {
            "type": "string",
            "allOf": [{"allOf": [{"$ref": "#/$defs/a"}]}],
            "$defs": {"a": {"$ref": "#", "minLength": 2}},
        },
        {"$ref": "#/$defs/a", "$defs": {"a": {"allOf": [{"$ref": "#"}, {"type": "string"}, {"minLength": 2}]}}},
    ],
)
def test_a_schema_that_must_hold_where_it_does_adds_nothing(schema: Any) -> None:
    assert texts(schema, '"ab"', '"a"', "1") == [True, False, False]


@pytest.mark.parametrize(
    ("schema", "written"),
    [
        ({"type": "number", "multipleOf": 2}, ["6", "6.0", "-0.0"]),
        ({"multipleOf": 2}, ["6", "6.0", "-0.0"]),
        ({"type": "number", "multipleOf": 2, "minimum": 0}, ["6", "6.0", "-0.0"]),
        ({"type": "number", "multipleOf": 2, "minimum": 5, "maximum": 7}, ["6", "6.0"]),
        ({"type": "number", "multipleOf": 2_000_003, "maximum": 6}, ["-0.0"]),
        ({"type": "number", "multipleOf": 2, "allOf": [{"minimum": 5.5}]}, ["6", "6.0"]),
        ({"type": "number", "multipleOf": 2, "allOf": [{"type": "integer"}]}, ["6"]),
        ({"type": "integer", "multipleOf": 2}, ["6"]),
        ({"anyOf": [{"type": "number", "multipleOf": 2}, {"type": "integer"}]}, ["6", "7"]),
    ],
)
def test_multiples_are_spelled_as_decimals_where_no_integer_is_asked_for(schema: Any, written: list[str]) -> None:
    candidates = ["6", "6.0", "-0.0", "6.5", "7", "7.0"]
    assert [text for text, found in zip(candidates, texts(schema, *candidates), strict=True) if found] == written


def test_a_schema_that_refers_to_itself_evaluates_what_it_does_anyway() -> None:
    names = {"properties": {"a": True}, "unevaluatedProperties": False}
    assert texts({"allOf": [{"$ref": "#"}], **names}, '{"a": 1}', '{"b": 1}') == [True, False]


# -- errors -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        ({"type": "strng"}, "#/type"),
        ({"type": []}, "#/type"),
        ({"properties": {"a": {"minLength": "5"}}}, "#/properties/a/minLength"),
        ({"properties": {"a": {"minimum": "5"}}}, "#/properties/a/minimum"),
        ({"properties": ["a"]}, "#/properties"),
        ({"required": True}, "#/required"),
        ({"required": [1]}, "#/required"),
        ({"items": {"anyOf": []}}, "#/items/anyOf"),
        ({"items": {"enum": "a"}}, "#/items/enum"),
        ({"multipleOf": 0}, "#/multipleOf"),
        ({"uniqueItems": "yes"}, "#/uniqueItems"),
        ({"pattern": 3}, "#/pattern"),
        ({"additionalProperties": "no"}, "#/additionalProperties"),
        ({"properties": {"a/b": "string"}}, "#/properties/a~1b"),
        ({"items": {"anyOf": [{}, "string"]}}, "#/items/anyOf/1"),
        ({"$ref": "#/$defs/a", "$defs": {"a": 1}}, "#/$defs/a"),
        ({"properties": {"a": {"type": "integer", "required": True}}}, "#/properties/a/required"),
        ({"maxItems": -1}, "#/maxItems"),
        (
            {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b~1c"}, "b/c": {"multipleOf": 0}}},
            "#/$defs/b~1c/multipleOf",
        ),
        (
            {"items": {"$ref": "#/$defs/a"}, "$defs": {"a": {"allOf": [{"multipleOf": 0}]}}},
            "#/$defs/a/allOf/0/multipleOf",
        ),
    ],
)
def test_malformed_keywords_are_refused_with_their_place(schema: Any, pointer: str) -> None:
    error = fault(schema)
    assert isinstance(error, gr.SchemaError)
    assert (error.code, error.pointer) == ("invalid-schema", pointer)
    assert pickle.loads(pickle.dumps(error)).pointer == pointer


@pytest.mark.parametrize("step", ["/items", "/properties/a"])
def test_schemas_that_nest_too_deep_are_refused_with_their_place(step: str) -> None:
    schema: dict[str, Any] = {"type": "integer"}
    for _ in range(2_000):
        schema = {"items": schema} if step == "/items" else {"properties": {"a": schema}, "required": ["a"]}
    error = fault({"properties": {"x": {"type": "array"}, "deep": {"type": ["object", "array"], **schema}}})
    assert isinstance(error, gr.SchemaLimitError) and error.code == "depth"
    assert (error.pointer or "").startswith(f"#/properties/deep{step}{step}")


def test_schemas_that_cannot_be_copied_are_refused_with_their_place() -> None:
    schema: dict[str, Any] = {}
    for _ in range(20_000):
        schema = {"items": schema}
    error = fault({"properties": {"x": {"enum": [[[]]]}, "deep": schema}})
    assert isinstance(error, gr.SchemaLimitError) and error.code == "depth"
    assert (error.pointer or "").startswith("#/properties/deep/items/items")


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("float", "did you mean 'number'?"),
        (["null", "STRING"], "did you mean 'string'?"),
        ("dict", "did you mean 'object'?"),
        ("intger", "did you mean 'integer'?"),
        ("any", "leave type out to allow any value"),
    ],
)
def test_names_of_types_from_elsewhere_are_known(name: Any, advice: str) -> None:
    assert str(fault({"type": name})).endswith(f"; {advice} [invalid-schema]")


@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        (False, "#"),
        ({"allOf": [{"type": "string"}, {"type": "null"}]}, "#"),
        ({"type": "object", "required": ["a"], "properties": {"a": {"enum": []}}}, "#/properties/a"),
        ({"type": "object", "required": ["a"], "properties": {"a": False}}, "#"),
        ({"type": "array", "minItems": 1, "items": {"minimum": 2, "maximum": 1, "type": "number"}}, "#/items"),
        ({"type": "array", "minItems": 3, "uniqueItems": True, "items": {"type": "boolean"}}, "#"),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/a"}}}}, "#"),
        ({"type": "object", "minProperties": 3, "propertyNames": {"enum": ["a", "b"]}}, "#"),
        ({"type": "string", "pattern": "^a$", "minLength": 2}, "#"),
    ],
)
def test_unsatisfiable_schemas_are_found(schema: Any, pointer: str) -> None:
    error = fault(schema)
    assert error.code == "unsatisfiable-schema"
    assert error.pointer.startswith(pointer)  # type: ignore[attr-defined]


def test_a_branch_that_nothing_satisfies_is_left_out() -> None:
    loop = {"type": "object", "properties": {"next": {"$ref": "#/$defs/loop"}}, "required": ["next"]}
    schema = {"anyOf": [{"$ref": "#/$defs/loop"}, {"type": "null"}], "$defs": {"loop": loop}}
    program = gr.json_schema(schema).program()
    assert program.core.first_bytes(program.start) == b"n"


def test_patterns_that_cannot_be_followed() -> None:
    schema = {"properties": {"a": {"type": "string", "pattern": r"^(.+)+\1$"}}}
    error = fault(schema)
    assert error.code == "regex-backreference" and error.pointer == "#/properties/a/pattern"  # type: ignore[attr-defined]
    with pytest.warns(UserWarning, match="#/properties/a/pattern"):
        assert texts(schema, '{"a": "xy"}', on_unsupported="warn") == [True]
    entries = gr.json_schema(schema, on_unsupported="ignore").report().with_status("ignored")
    assert [(e.pointer, e.keyword) for e in entries] == [("#/properties/a", "pattern")]


def test_two_equal_items_can_be_asked_for() -> None:
    assert texts({"not": {"uniqueItems": True}}, "[1, 1]", "[1]", '"x"') == [True, False, False]
    schema = {"oneOf": [{"uniqueItems": True, "type": "array"}, {"type": "string"}]}
    assert texts(schema, "[1, 1]", "[1]", '"x"') == [False, True, True]  # no value is both: nothing to negate


def test_the_limit_names_the_place() -> None:
    lists = [{"prefixItems": [{"type": "integer"}], "items": {"minimum": i}, "uniqueItems": True} for i in range(14)]
    error = fault({"properties": {"a": {"type": "array", "oneOf": lists}}}, max_branches=100)
    assert isinstance(error, gr.SchemaLimitError)
    assert error.code == "schema-branches" and error.pointer == "#/properties/a"


@pytest.mark.parametrize(
    "options",
    [
        {"layout": "wide"},
        {"max_items": -1},
        {"max_items": True},
        {"max_integer_digits": 3_000_000},
        {"max_fraction_digits": 10_001},
        {"indent": 2**31 - 1, "layout": "indented"},
        {"indent": 4},
        {"indent": 0, "layout": "compact"},
        {"indent": 4, "layout": "compact"},
        {"block_depth": 3},
        {"separators": (";", ":")},
        {"separators": ","},
        {"colour": "red"},
        {"dialect": "draft-99"},
        {"notation": "xml"},
        {"registry": {}},
        {"base_uri": 3},
        {"base_uri": "http://["},
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any]) -> None:
    schema = {"$ref": "urn:x"} if {"registry", "base_uri"} & options.keys() else {}
    assert fault(schema, **options).code == "bad-schema-option"


# -- layout and spelling ----------------------------------------------------------------------------------------------
VALUE = {"a": [1, {"b": None}], "c": {}, "d": []}
ANY = {"type": "object"}


@pytest.mark.parametrize("schema", [ANY, {"required": ["a"], "type": "object", "properties": {"a": {"type": "array"}}}])
def test_layouts(schema: Any) -> None:
    compact = json.dumps(VALUE, separators=(",", ":"))
    spaced = json.dumps(VALUE)
    indented, wide = json.dumps(VALUE, indent=2), json.dumps(VALUE, indent=4)
    every = (compact, spaced, indented, wide)
    assert texts(schema, *every) == [True, True, False, False]
    assert texts(schema, *every, layout="compact") == [True, False, False, False]
    assert texts(schema, *every, layout="spaced") == [False, True, False, False]
    assert texts(schema, *every, layout="indented") == [False, False, True, False]
    assert texts(schema, *every, layout="indented", indent=4) == [False, False, False, True]
    assert texts(schema, *every, layout="free") == [True, True, True, True]
    assert texts(schema, *every, separators=(" , ", ": ")) == [False, False, False, False]
    assert texts(schema, json.dumps(VALUE, separators=(" , ", ": ")), separators=[" , ", ": "]) == [True]


def test_free_white_space_is_bounded() -> None:
    schema = {"type": "array", "items": {"type": "integer"}}
    assert texts(schema, "[\n\t1 ,\r\n 2 ]", layout="free") == [True]
    assert texts(schema, "[1," + " " * 9 + "2]", "[1," + " " * 8 + "2]", layout="free", max_whitespace=8) == [
        False,
        True,
    ]


@pytest.mark.parametrize("value", ["[]", "{}"])
@pytest.mark.parametrize("more", [{}, {"maxItems": 0, "maxProperties": 0}, {"maxItems": 3, "maxProperties": 3}])
def test_what_is_empty_is_one_place_for_white_space(value: str, more: dict[str, int]) -> None:
    left, right = value
    sizes = [left + " " * size + right for size in (0, 8, 9)]
    assert texts({"type": ["array", "object"], **more}, *sizes, layout="free", max_whitespace=8) == [True, True, False]


def test_order_of_properties() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["b"]}
    pair, other = '{"a": 1, "b": 2}', '{"b": 2, "a": 1}'
    assert texts(schema, pair, other) == [True, True]
    assert texts(schema, pair, other, property_order="declared") == [True, False]


def test_no_key_comes_twice_however_it_is_spelled() -> None:
    schema = {"type": "object", "properties": {"é": {"type": "integer"}}}
    twice, escaped = '{"é": 1, "é": 2}', r'{"é": 1, "\u00e9": "x"}'
    assert texts(schema, twice, escaped) == [False, False]
    assert texts(schema, twice, escaped, r'{"\u00E9": 1}', r'{"\u00E9": "x"}', escapes="all") == [
        False,
        False,
        True,
        False,
    ]


def test_escapes() -> None:
    schema = {"const": 'a"\n/é😀'}
    canonical = '"a\\"\\n/é😀"'
    others = [r'"a\"\n\/é😀"', r'"a\"\n/\u00e9😀"', r'"a\"\u000A/é\uD83D\uDE00"']
    assert texts(schema, canonical, *others) == [True, False, False, False]
    assert texts(schema, canonical, *others, escapes="all") == [True, True, True, True]


def test_integers_may_be_spelled_otherwise_on_request() -> None:
    schema = {"type": "integer", "maximum": 100}
    spellings = ("100", "1e2", "100.0", "1.5", "1e3")
    assert texts(schema, *spellings) == [True, False, False, False, False]
    assert texts(schema, *spellings, integers="any") == [True, True, True, False, False]


def test_caps_narrow_and_never_drop_a_condition() -> None:
    schema = {"type": "array", "minItems": 1, "items": {"type": "string", "pattern": "^a+$"}}
    assert texts(schema, '["aaa"]', '["a", "a", "a"]', '["b"]', "[]", max_items=2, max_string_length=2) == [False] * 4
    assert texts(schema, '["aa", "a"]', max_items=2, max_string_length=2) == [True]
    assert fault(schema, max_items=0).code == "unsatisfiable-schema"
    assert texts(ANY, '{"a": {"b": {}}}', '{"a": {"b": 1}}', max_depth=2) == [False, True]
    assert texts(TREE, '{"value": 1, "children": []}', '{"value": 1, "children": [{"value": 1}]}', max_depth=2) == [
        True,
        False,
    ]
    assert texts({"type": "number"}, "123", "12.34", "12.3", max_integer_digits=2, max_fraction_digits=1) == [
        False,
        False,
        True,
    ]


def test_formats() -> None:
    schema = {"type": "string", "format": "date"}
    assert texts(schema, '"2023-02-28"', '"2023-02-30"') == [True, False]
    assert texts(schema, '"2023-02-30"', format="annotate") == [True]
    assert texts({"type": "string", "format": "shoe-size"}, '"44"') == [True]


# -- exactness --------------------------------------------------------------------------------------------------------
def test_one_of_is_exactly_one() -> None:
    schema = {
        "oneOf": [
            {"type": "object", "properties": {"a": {"type": "integer"}}},
            {"type": "object", "properties": {"b": {"type": "integer"}}},
        ]
    }
    wanted = {'{"a": 1}': False, '{"a": "x"}': True, '{"b": "x"}': True, '{"a": "x", "b": "x"}': False, "{}": False}
    assert texts(schema, *wanted) == list(wanted.values())


def test_branches_are_told_apart_by_what_stands_around_them() -> None:
    kinds = {
        f"kind{i}": {"properties": {"kind": {"const": f"kind{i}"}, f"x{i}": {"type": "integer"}}} for i in range(40)
    }
    schema = {"type": "object", "required": ["kind"], "oneOf": list(kinds.values())}
    good, bad = '{"kind": "kind7", "x7": 1, "x8": "free"}', '{"kind": "kind7", "x7": "no"}'
    assert texts(schema, good, bad, max_branches=100) == [True, False]


def test_unevaluated_members_see_through_references() -> None:
    schema = {
        "allOf": [{"$ref": "#/$defs/base"}],
        "properties": {"b": {"type": "integer"}},
        "unevaluatedProperties": False,
        "$defs": {"base": {"type": "object", "properties": {"a": {"type": "integer"}}}},
    }
    assert texts(schema, '{"a": 1, "b": 2}', '{"c": 1}') == [True, False]


def test_values_accepted_by_the_normal_form() -> None:
    constraint = gr.json_schema(TREE)
    assert constraint.accepts({"value": 1, "children": [{"value": 2}]})
    assert not constraint.accepts({"value": 1.5})
    assert not constraint.accepts({"value": True})


# -- reports ----------------------------------------------------------------------------------------------------------
def test_report() -> None:
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "T",
        "properties": {
            "a": {"type": "string", "format": "shoe-size", "x-order": 1},
            "b": {"allOf": [{"type": "string"}, {"type": "null"}]},
            "c": {"$ref": "#/definitions/d", "minimum": 3},
            "e": {"then": {"minimum": 1}},
            "f": {"contains": {}, "minContains": 2, "prefixItems": [], "nullable": True},
        },
        "definitions": {"d": {"type": "integer"}},
    }
    report = gr.json_schema(schema).report()
    found = {(e.pointer, e.keyword): (e.status, e.detail) for e in report.entries}
    assert found["#", "title"] == ("annotation", "")
    assert found["#", "properties"] == ("enforced", "")
    assert found["#/properties/a", "format"] == ("annotation", "unknown format 'shoe-size'")
    assert found["#/properties/a", "x-order"] == ("annotation", "not a keyword of draft-07")
    assert found["#/properties/f", "minContains"] == ("annotation", "not a keyword of draft-07, but of 2020-12")
    assert found["#/properties/f", "prefixItems"] == ("annotation", "not a keyword of draft-07, but of 2020-12")
    assert found["#/properties/f", "nullable"] == ("annotation", "not a keyword of draft-07, but of openapi-3.0")
    assert found["#/properties/b", ""][0] == "unsatisfiable"
    assert found["#/properties/c", "minimum"] == ("annotation", "draft-07 ignores keywords beside $ref")
    assert found["#/properties/e", "then"] == ("annotation", "means nothing without if")
    data = json.loads(json.dumps(report.to_dict()))
    assert data["counts"]["unsatisfiable"] == 1 and len(data["entries"]) == len(report.entries)
    assert "#/properties/b: unsatisfiable" in str(report)


# -- complements of wide objects --------------------------------------------------------------------------------------
def test_many_overlapping_branches_stay_few_alternatives() -> None:
    """Seven branches, each with its own required member and five optional ones: De Morgan alone gives 7^6 cells."""
    branches = [
        {
            "type": "object",
            "required": ["name", f"kind{i}"],
            "properties": {
                "name": {"type": "string"},
                f"kind{i}": {"type": "string"},
                **{f"p{i}{j}": {"type": "integer"} for j in range(5)},
            },
        }
        for i in range(7)
    ]
    one, both = '{"name": "x", "kind0": "y", "p10": "free"}', '{"name": "x", "kind0": "y", "kind1": "z"}'
    wrong = '{"name": "x", "kind0": "y", "kind1": "z", "p10": "wrong there"}'
    assert texts({"oneOf": branches}, one, both, wrong, '{"name": "x"}') == [True, False, True, False]


def test_names_that_no_text_can_spell() -> None:
    schema = {"type": "object", "properties": {"\ud800": {"type": "integer"}, "a": {"type": "integer"}}}
    assert texts(schema, '{"a": 1}', '{"a": "x"}') == [True, False]
    assert texts({"not": schema}, '{"a": 1}', '{"a": "x"}') == [False, True]
    assert fault({**schema, "required": ["\ud800"]}).code == "unsatisfiable-schema"
    assert texts({"enum": ["\ud800", "a"]}, '"a"') == [True]


DIGITS = [  # keywords, valid numbers, invalid numbers
    ({"type": "integer", "minDigits": 2}, ["0", "10", "-12", "1000"], ["1", "-9"]),
    ({"type": "integer", "minDigits": 2, "maxDigits": 3}, ["0", "-10", "999"], ["9", "1000", "-1000"]),
    ({"type": "integer", "maxDigits": 1}, ["0", "-9", "9"], ["10"]),
    ({"type": "number", "minDigitsInteger": 2}, ["0.5", "-0", "10.5", "-99"], ["1", "9.9", "-9.5"]),
    ({"type": "number", "maxDigitsInteger": 2, "maxDigitsFraction": 1}, ["99.5", "-0.1"], ["100", "0.25"]),
    ({"maxDigits": 2, "minimum": 50}, ["50", "99", '"text"'], ["49", "100"]),
]


@pytest.mark.parametrize(("schema", "good", "bad"), DIGITS)
def test_counts_of_digits(schema: dict[str, Any], good: list[str], bad: list[str]) -> None:
    constraint = gr.json_schema(schema)
    assert [text for text in [*good, *bad] if constraint.matches(text)] == good
    assert {entry.status for entry in constraint.report().entries} == {"enforced"}


@pytest.mark.parametrize("value", [-1, "2", 1.5, 5000])
def test_counts_of_digits_are_small_whole_numbers(value: Any) -> None:
    with pytest.raises(gr.CompileError, match="#/maxDigits") as caught:
        gr.json_schema({"type": "integer", "maxDigits": value}).program()
    assert caught.value.code == "invalid-schema"


def test_files_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    schema, rules = tmp_path / "schema.json", tmp_path / "rules.gbnf"
    schema.write_bytes(b'\xef\xbb\xbf{"const": "\xc3\xa9"}')
    rules.write_bytes(b'\xef\xbb\xbfroot ::= "a"')
    assert gr.json_schema(schema).matches('"é"') and gr.grammar(rules).matches("a")


def test_many_patterns_that_overlap_and_say_the_same_of_a_value() -> None:
    letters = "abcdefghijklmnopqrstuvwxyz"
    schema = {"patternProperties": {letter: {"type": "string"} for letter in letters}, "additionalProperties": False}
    assert texts(schema, '{"no":"a"}', '{"no":1}', '{"0":"a"}', '{"0":"a","1a":""}') == [True, False, False, False]
    schema["patternProperties"] |= {"q": {"type": "integer"}, "^.$": {"minLength": 1, "minimum": 0}}
    values = ['{"q":1}', '{"q":-1}', '{"q":"q"}', '{"pq":1}', '{"p":""}', '{"p":"p"}', '{"pp":""}', '{"-":2}']
    assert texts(schema, *values) == [True, False, False, False, False, True, True, True]
