"""The keywords of each dialect: which group evaluates them, and which are annotations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Final

from guiderail.frontends.json_schema.options import DIALECTS

__all__ = [
    "ANNOTATIONS",
    "ARRAY",
    "BRANCH",
    "DYNAMIC",
    "HOLDERS",
    "NUMBER",
    "OBJECT",
    "REFERENCE",
    "STRING",
    "TYPE",
    "UNEVALUATED",
    "VALUE",
    "WRAPPED",
    "companions_of",
    "groups_of",
    "held_schema",
    "inner_schemas",
    "keywords_of",
    "nearest_type",
    "other_dialect",
]

TYPE: Final = 1 << 0
VALUE: Final = 1 << 1
NUMBER: Final = 1 << 2
STRING: Final = 1 << 3
ARRAY: Final = 1 << 4
OBJECT: Final = 1 << 5
REFERENCE: Final = 1 << 6
DYNAMIC: Final = 1 << 7
BRANCH: Final = 1 << 8
UNEVALUATED: Final = 1 << 9

_DRAFT4: Final = {
    "type": TYPE,
    "enum": VALUE,
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"), NUMBER),
    # of Outlines, see digit_counts
    **dict.fromkeys(("minDigits", "maxDigits", "minDigitsInteger", "maxDigitsInteger", "maxDigitsFraction"), NUMBER),
    **dict.fromkeys(("minLength", "maxLength", "pattern", "format"), STRING),
    **dict.fromkeys(("items", "additionalItems", "minItems", "maxItems", "uniqueItems"), ARRAY),
    **dict.fromkeys(
        (
            "properties",
            "patternProperties",
            "additionalProperties",
            "required",
            "minProperties",
            "maxProperties",
        ),
        OBJECT,
    ),
    **dict.fromkeys(("allOf", "anyOf", "oneOf", "not", "dependencies"), BRANCH),
    "$ref": REFERENCE,
}
_DRAFT6: Final = {**_DRAFT4, "const": VALUE, "contains": ARRAY, "propertyNames": OBJECT}
_DRAFT7: Final = {**_DRAFT6, "if": BRANCH}
_2019: Final = {
    **_DRAFT7,
    **dict.fromkeys(("dependentRequired", "dependentSchemas"), BRANCH),
    **dict.fromkeys(("unevaluatedProperties", "unevaluatedItems"), UNEVALUATED),
    "$recursiveRef": DYNAMIC,
}
_2020: Final = {**_2019, "prefixItems": ARRAY, "$dynamicRef": DYNAMIC}
del _2020["$recursiveRef"]

_TABLES: Final[dict[str, dict[str, int]]] = {
    "2020-12": _2020,
    "2019-09": _2019,
    "draft-07": _DRAFT7,
    "draft-06": _DRAFT6,
    "draft-04": _DRAFT4,
    "openapi-3.0": {**_DRAFT4, "nullable": TYPE},
}

COMPANIONS: Final = {
    "then": "if",
    "else": "if",
    "minContains": "contains",
    "maxContains": "contains",
}
"""Keywords that mean something only beside another."""
_COUNTED: Final = ("minContains", "maxContains")  # since 2019-09, where contains is older

ANNOTATIONS: Final = frozenset(
    (
        "$anchor",
        "$comment",
        "$defs",
        "$dynamicAnchor",
        "$id",
        "$recursiveAnchor",
        "$schema",
        "$vocabulary",
        "contentEncoding",
        "contentMediaType",
        "contentSchema",
        "default",
        "definitions",
        "deprecated",
        "description",
        "discriminator",
        "example",
        "examples",
        "externalDocs",
        "id",
        "readOnly",
        "title",
        "writeOnly",
        "xml",
    )
)
"""Keywords that constrain nothing by design; all unknown ones are annotations as well."""

# Objects of OpenAI's API that look like a schema, because they have a type, and what to pass instead.
WRAPPED: Final = {
    "json_schema": "a response_format of OpenAI's API; pass the schema inside it, ['json_schema']['schema']",
    "json_object": 'a response_format of OpenAI\'s API; pass {"type": "object"}',
    "function": "a tool in OpenAI's form; pass gr.tool_calls([tool], format=…)",
    "structural_tag": "a structural tag; pass gr.structural_tag(tag)",
}


def groups_of(dialect: str, schema: dict[str, Any]) -> int:
    """The groups, as bits, of the keywords that a schema object has."""
    group_of = _TABLES[dialect].get
    groups = 0
    for keyword in schema:
        groups |= group_of(keyword, 0)
    return groups


def keywords_of(dialect: str) -> dict[str, int]:
    """The asserting keywords of a dialect."""
    return _TABLES[dialect]


def companions_of(dialect: str) -> dict[str, str]:
    """The keywords of a dialect that mean something only beside another."""
    counted = "unevaluatedItems" in _TABLES[dialect]
    return {
        keyword: beside
        for keyword, beside in COMPANIONS.items()
        if beside in _TABLES[dialect] and (counted or keyword not in _COUNTED)
    }


def other_dialect(keyword: str, dialect: str) -> str:
    """The newest dialect with this keyword, which the given dialect does not have; empty if there is none."""
    if keyword in _TABLES[dialect] or keyword in ANNOTATIONS or keyword in companions_of(dialect):
        return ""
    return next((name for name in _TABLES if keyword in _TABLES[name] or keyword in companions_of(name)), "")


HOLDERS: Final[dict[str, type | tuple[type, ...]]] = {
    **dict.fromkeys(("$defs", "definitions", "properties", "patternProperties", "dependentSchemas"), dict),
    **dict.fromkeys(("allOf", "anyOf", "oneOf", "prefixItems"), list),
    **dict.fromkeys(("not", "if", "then", "else", "contains", "propertyNames"), (dict, bool)),
}
"""Keywords that hold schemas, and the types of their values."""
_ONE: Final = frozenset(("additionalItems", "additionalProperties", "contains", "else", "if", "items", "not",
                         "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties"))  # fmt: skip
_MANY: Final = frozenset(("allOf", "anyOf", "oneOf", "prefixItems", "items"))
_NAMED: Final = frozenset(
    ("$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties")
)


def inner_schemas(schema: dict[str, Any]) -> Iterator[tuple[Any, tuple[str, ...]]]:
    """What stands in a schema object where a schema belongs, and the steps that lead there."""
    for keyword, value in schema.items():
        if keyword in _NAMED and isinstance(value, dict):
            yield from [(one, (keyword, str(key))) for key, one in value.items()]
        elif keyword in _MANY and isinstance(value, list):
            yield from [(one, (keyword, str(i))) for i, one in enumerate(value)]
        elif keyword in _ONE:
            yield value, (str(keyword),)


_TYPES: Final = ("null", "boolean", "integer", "number", "string", "array", "object")
_MEANT: Final = {
    **{name: name for name in _TYPES},
    **dict.fromkeys(("bool",), "boolean"),
    **dict.fromkeys(("int", "int32", "int64", "long"), "integer"),
    **dict.fromkeys(("float", "double", "decimal"), "number"),
    **dict.fromkeys(("str", "text", "char", "varchar", "date", "datetime"), "string"),
    **dict.fromkeys(("list", "tuple", "set"), "array"),
    **dict.fromkeys(("dict", "map", "hashmap", "struct"), "object"),
    **dict.fromkeys(("none", "nil"), "null"),
}


def nearest_type(name: object) -> str:
    """The type that a word is probably meant to be, such as the name of a type of Python; may be empty."""
    if not isinstance(name, str) or len(name) > 40:
        return ""
    close = get_close_matches(name.lower(), _MEANT, 1, 0.8)
    return _MEANT[close[0]] if close else ""


_WRAPPERS: Final = ("schema", "json_schema", "input_schema", "inputSchema", "parameters")
"""Keys under which others keep a schema."""


def held_schema(contents: Mapping[str, Any]) -> str | None:
    """The key under which a dict holds a schema, if it has no keyword of JSON Schema itself and so allows anything."""
    held = next((key for key in _WRAPPERS if isinstance(contents.get(key), Mapping)), None)
    if held is None or "$schema" in contents:
        return None
    known = any(key in keywords_of(dialect) for dialect in DIALECTS for key in contents)
    return None if known else held
