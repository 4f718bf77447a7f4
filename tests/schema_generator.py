"""Random schemas and values for the tests of JSON Schema. Small alphabets make keywords interact."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

NAMES = ["a", "b", "c", "ab", "x-y"]
TEXTS = ["", "a", "b", "ab", "abc", "é", "x-y", '"q"', "line\nbreak"]
NUMBERS = [0, 1, 2, 3, 5, -1, 10, 0.5, 1.5, 2.25, 100]
PATTERNS = ["a", "^a", "b$", "^[a-c]+$", "^x-", "^.$", "^(ab|c)*$"]


def value(rng: random.Random, depth: int = 3) -> Any:
    """A JSON value."""
    kind = rng.randrange(8 if depth else 5)
    if kind == 0:
        return rng.choice([None, True, False])
    if kind in (1, 2):
        return rng.choice(NUMBERS)
    if kind in (3, 4):
        return rng.choice(TEXTS)
    if kind == 5:
        return [value(rng, depth - 1) for _ in range(rng.randrange(4))]
    names = rng.sample(NAMES, rng.randrange(4))
    return {name: value(rng, depth - 1) for name in names}


def schema(rng: random.Random, depth: int = 3) -> Any:
    """A schema object (or boolean) of draft 2020-12."""
    if depth == 0 or rng.random() < 0.08:
        return rng.choice([True, False, {}, {"type": "string"}, {"type": "integer"}, {"type": "object"}, {"const": 1}])
    made: dict[str, Any] = {}
    for _ in range(rng.choice([1, 1, 2, 2, 3, 4])):
        _add_keyword(rng, made, depth - 1)
    return made


def _add_keyword(rng: random.Random, made: dict[str, Any], depth: int) -> None:
    def inner() -> Any:
        return schema(rng, depth)

    def some(low: int, high: int) -> list[Any]:
        return [inner() for _ in range(rng.randint(low, high))]

    kind = rng.randrange(31)
    if kind <= 2:
        types = ["null", "boolean", "integer", "number", "string", "array", "object"]
        made["type"] = rng.choice(types) if rng.random() < 0.6 else rng.sample(types, 2)
    elif kind == 3:
        made["enum"] = [value(rng, 2) for _ in range(rng.randint(1, 4))]
    elif kind == 4:
        made["const"] = value(rng, 2)
    elif kind == 5:
        made[rng.choice(["minimum", "exclusiveMinimum"])] = rng.choice(NUMBERS)
    elif kind == 6:
        made[rng.choice(["maximum", "exclusiveMaximum"])] = rng.choice(NUMBERS)
    elif kind == 7:
        made["multipleOf"] = rng.choice([1, 2, 3, 0.5, 1.5])
    elif kind == 8:
        made[rng.choice(["minLength", "maxLength"])] = rng.randrange(4)
    elif kind == 9:
        made["pattern"] = rng.choice(PATTERNS)
    elif kind <= 12:
        made["properties"] = {name: inner() for name in rng.sample(NAMES, rng.randint(1, 3))}
    elif kind == 13:
        made["required"] = rng.sample(NAMES, rng.randint(1, 2))
    elif kind == 14:
        made["additionalProperties"] = inner()
    elif kind == 15:
        made["patternProperties"] = {p: inner() for p in rng.sample(PATTERNS, rng.randint(1, 2))}
    elif kind == 16:
        made["propertyNames"] = inner()
    elif kind == 17:
        made[rng.choice(["minProperties", "maxProperties"])] = rng.randrange(4)
    elif kind == 18:
        made["items"] = inner()
    elif kind == 19:
        made["prefixItems"] = some(1, 2)
    elif kind == 20:
        made["contains"] = inner()
        if rng.random() < 0.6:
            made[rng.choice(["minContains", "maxContains"])] = rng.randrange(3)
    elif kind == 21:
        made[rng.choice(["minItems", "maxItems"])] = rng.randrange(4)
    elif kind == 22:
        made["uniqueItems"] = True
    elif kind == 23:
        made["allOf"] = some(1, 2)
    elif kind == 24:
        made["anyOf"] = some(1, 3)
    elif kind == 25:
        made["oneOf"] = some(1, 3)
    elif kind == 26:
        made["not"] = inner()
    elif kind == 27:
        made["if"] = inner()
        made[rng.choice(["then", "else"])] = inner()
    elif kind == 28:
        made["dependentRequired"] = {rng.choice(NAMES): rng.sample(NAMES, 1)}
    elif kind == 29:
        made["dependentSchemas"] = {rng.choice(NAMES): inner()}
    else:
        made[rng.choice(["unevaluatedProperties", "unevaluatedItems"])] = inner()


MEMBER_VALUES: list[Any] = [True, False, {"type": "null"}, {"type": "string"}, {"const": "ab"}, {"type": "integer"}]
MEMBER_VALUES += [{"type": "array", "items": {"type": "null"}}, {"type": "string", "maxLength": 3}]


def random_object(rng: random.Random) -> dict[str, Any]:
    """Returns a schema of objects whose keys are named, have patterns and are counted."""
    names = ["ab", "ab1", "a", "b", "bb-", "1", "1-1", "é", "aé", "b é", "-"]
    patterns = ["^1", "^a", "b$", "^[ab]+$", "^[ab1-]{1,3}$", "^[^a]*$", "é", "^(ab|b1)+$"]
    more: dict[str, Callable[[], Any]] = {
        "properties": lambda: {name: rng.choice(MEMBER_VALUES) for name in rng.sample(names, rng.randrange(1, 4))},
        "patternProperties": lambda: {
            name: rng.choice(MEMBER_VALUES) for name in rng.sample(patterns, rng.randrange(1, 3))
        },
        "additionalProperties": lambda: rng.choice(MEMBER_VALUES),
        "required": lambda: rng.sample(names, 1),
        "maxProperties": lambda: rng.randrange(1, 4),
        "minProperties": lambda: rng.randrange(1, 3),
        "propertyNames": lambda: {"maxLength": rng.randrange(2, 9)},
    }
    return {"type": "object", **{key: make() for key, make in more.items() if rng.random() < 0.5}}


DEFINITIONS = ["x", "y"]


def recursive(rng: random.Random) -> dict[str, Any]:
    """Definitions that refer to each other. Each reference applies to a part of a value, so that validation ends."""
    definitions = {name: _definition(rng, rng.randint(1, 2), part=False) for name in DEFINITIONS}
    return {"$ref": "#/$defs/x", "$defs": definitions}


def _definition(rng: random.Random, depth: int, *, part: bool) -> Any:
    if depth == 0 or rng.random() < 0.12:
        if part and rng.random() < 0.5:
            reference = {"$ref": f"#/$defs/{rng.choice(DEFINITIONS)}"}
            return rng.choice([reference, {"allOf": [reference]}])
        bounds = [{"maxItems": 1}, {"minItems": 1}, {"minProperties": 1}, {"required": ["a"]}, {"uniqueItems": True}]
        return rng.choice([{}, False, {"const": 1}, {"type": "array"}, {"type": "object"}, *bounds])
    made: dict[str, Any] = {}
    for _ in range(rng.randint(1, 3)):
        keyword = rng.choice(_RECURSIVE)
        below = part or keyword not in ("not", "if", "oneOf", "anyOf", "dependentSchemas")

        def inner(below: bool = below) -> Any:
            return _definition(rng, depth - 1, part=below)

        if keyword in ("oneOf", "anyOf", "prefixItems"):
            made[keyword] = [inner() for _ in range(rng.randint(1, 2))]
        elif keyword in ("properties", "dependentSchemas"):
            made[keyword] = {name: inner() for name in rng.sample("ab", rng.randint(1, 2))}
        elif keyword == "if":
            made.update({"if": inner(), "then": inner(), "else": inner()})
        elif keyword in ("minItems", "maxItems", "minProperties", "maxProperties", "maxContains"):
            made[keyword] = rng.randint(1, 2)
        elif keyword == "uniqueItems":
            made[keyword] = True
        else:
            made[keyword] = inner()
    return made


_RECURSIVE = ["not", "if", "oneOf", "oneOf", "anyOf", "dependentSchemas", "properties", "additionalProperties",
              "unevaluatedProperties", "prefixItems", "items", "contains", "contains", "unevaluatedItems",
              "maxContains", "minItems", "maxItems", "minProperties", "maxProperties", "uniqueItems"]  # fmt: skip


def nested(rng: random.Random, depth: int = 3) -> Any:
    """A value of few different parts, for `recursive`."""
    if depth == 0 or rng.random() < 0.2:
        return rng.choice([1, 1, 2, "a"])
    if rng.random() < 0.5:
        return [nested(rng, depth - 1) for _ in range(rng.randrange(3))]
    return {name: nested(rng, depth - 1) for name in rng.sample("ab", rng.randrange(3))}
