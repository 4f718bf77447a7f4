"""Random JSON Schemas, well-formed or not, and what becomes of them: for comparing two forms of the front end.

python random_schemas.py SEED COUNT [interpreted]      a line for each: its fate, and the work that was counted
"""

from __future__ import annotations

import hashlib
import json
import random
import sys
from collections.abc import Iterator
from typing import Any

NAMES = ["a", "b", "c", "", "x", "é", "aa", "€", "a~b", "a/b"]
PATTERNS = ["^a", "b$", "a|b", "^[a-c]+$", r"\d+", "^.$", ".*", "^(a|b)$", "[", "(?=a)b", "^x{2,3}", "^(?!a)", ""]
FORMATS = ["date", "uuid", "email", "ipv4", "date-time", "uri", "hostname", "regex", "nope", "json-pointer", "duration"]
TYPES = ["object", "array", "string", "number", "integer", "boolean", "null"]
NUMBERS = [0, 1, -1, 2, 3, 5, 10, 1.0, 0.5, -2.5, 1e3, 0.1, 100, 2**70, -7, 1e-7, 1e300, True]
COUNTS = [0, 0, 1, 1, 2, 3, 5, 1.0, 2.0, 40]
REFERENCES = ["#", "#/$defs/x", "#/$defs/y", "#/$defs/missing", "#/properties/a", "#/definitions/x", "#anchor"]
DRAFTS = ["http://json-schema.org/draft-04/schema#", "http://json-schema.org/draft-07/schema#",
          "https://json-schema.org/draft/2019-09/schema", "https://json-schema.org/draft/2020-12/schema"]  # fmt: skip
JUNK = [None, True, False, 0, 1, -1, 1.5, "", "a", [], {}, [1], {"a": 1}, ["a"], [{}], [True], {"a": {}}, "string", 7,
        ["a", "a"], [[]]]  # fmt: skip
SPOILED = ["type", "enum", "required", "properties", "items", "minimum", "pattern", "format", "allOf", "if", "not",
           "$ref", "minItems", "multipleOf", "unevaluatedProperties", "dependencies", "patternProperties",
           "uniqueItems", "const", "prefixItems", "contains", "minContains", "nullable", "$id", "$anchor",
           "$defs"]  # fmt: skip
OPTIONS: list[dict[str, Any]] = [{}, {}, {}, {"max_items": 3}, {"max_depth": 3}, {"property_order": "declared"},
           {"notation": "yaml"}, {"notation": "python"}, {"escapes": "all"}, {"max_string_length": 4},
           {"max_integer_digits": 3}, {"escapes": "canonical"}, {"dialect": "openapi-3.0"},
           {"additional_properties": False}, {"max_whitespace": 3}]  # fmt: skip


class Schemas:
    """Random schemas; ``spoil`` is how often a keyword gets a value that is not meant for it."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.spoil = 0.0

    def likely(self, chance: float) -> bool:
        return self.rng.random() < chance

    def value(self, depth: int = 2) -> Any:
        kind = self.rng.randrange(9 if depth else 6)
        if kind < 2:
            return self.rng.choice([None, True, False])
        if kind < 6:
            return self.rng.choice(NUMBERS if kind < 4 else [*NAMES, "abc", "2020-01-01"])
        if kind == 6:
            return [self.value(depth - 1) for _ in range(self.rng.randrange(3))]
        return {self.rng.choice(NAMES): self.value(depth - 1) for _ in range(self.rng.randrange(3))}

    def schema(self, depth: int) -> Any:
        if self.likely(0.06):
            return self.likely(0.7)
        made: dict[str, Any] = {}
        if self.likely(0.6):
            made["type"] = (
                self.rng.choice(TYPES) if self.likely(0.75) else self.rng.sample(TYPES, self.rng.randint(1, 4))
            )
        for keyword, chance, value in self.keywords(depth):
            kinds = KINDS.get(keyword)
            if kinds and "type" in made and made["type"] not in kinds:
                chance /= 7
            if self.likely(chance):
                made[keyword] = value()
        if made and self.likely(self.spoil):
            made[self.rng.choice(list(made))] = self.rng.choice(JUNK)
        if self.likely(self.spoil / 3):
            made[self.rng.choice(SPOILED)] = self.rng.choice(JUNK)
        return made

    def keywords(self, depth: int) -> Iterator[tuple[str, float, Any]]:
        rng = self.rng

        def part() -> Any:
            return self.schema(depth - 1) if depth > 0 else self.likely(0.7)

        def parts() -> list[Any]:
            return [part() for _ in range(rng.randint(1, 3))]

        def members(names: list[str]) -> Any:
            return lambda: {rng.choice(names): part() for _ in range(rng.randint(0, 3))}

        def one_of(values: list[Any]) -> Any:
            return lambda: rng.choice(values)

        def some(names: list[str]) -> Any:
            return lambda: rng.sample(names, rng.randint(0, 3))

        nested = 1.0 if depth > 0 else 0.0
        yield "properties", 0.25, members(NAMES)
        yield "required", 0.15, some(NAMES)
        yield "additionalProperties", 0.15, part
        yield "patternProperties", 0.12, members(PATTERNS)
        yield "propertyNames", 0.06, part
        yield "dependentRequired", 0.05, lambda: {rng.choice(NAMES): rng.sample(NAMES, 2)}
        yield "dependentSchemas", 0.05 * nested, members(NAMES)
        yield "dependencies", 0.05 * nested, members(NAMES)
        yield "unevaluatedProperties", 0.05, part
        yield "items", 0.2, part
        yield "prefixItems", 0.08, parts
        yield "contains", 0.08 * nested, part
        yield "uniqueItems", 0.06, one_of([True, True, True, False])
        yield "unevaluatedItems", 0.04, part
        yield "additionalItems", 0.02, part
        for keyword in ("minProperties", "maxProperties", "minItems", "maxItems", "minLength", "maxLength"):
            yield keyword, 0.1, one_of(COUNTS)
        for keyword in ("minContains", "maxContains"):
            yield keyword, 0.04, one_of(COUNTS)
        yield "pattern", 0.15, one_of(PATTERNS)
        yield "format", 0.08, one_of(FORMATS)
        for keyword in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"):
            yield keyword, 0.1, one_of(NUMBERS)
        yield "enum", 0.12, lambda: [self.value() for _ in range(rng.randint(1, 5))]
        yield "const", 0.07, self.value
        for keyword in ("allOf", "anyOf", "oneOf"):
            yield keyword, 0.16 * nested, parts
        yield "not", 0.1 * nested, part
        yield "if", 0.08 * nested, part
        yield "then", 0.07 * nested, part
        yield "else", 0.05 * nested, part
        yield "$ref", 0.06, one_of(REFERENCES)
        yield "$anchor", 0.03, lambda: "anchor"
        yield "nullable", 0.02, one_of([True, False, 1])
        yield "$dynamicRef", 0.02, lambda: "#anchor"
        yield "$dynamicAnchor", 0.02, lambda: "anchor"
        yield "$id", 0.01, one_of(["http://x/y", "sub", "#z"])

    def document(self) -> tuple[Any, dict[str, Any]]:
        """A schema, and options to read it with."""
        self.spoil = self.rng.choice([0.0, 0.0, 0.03, 0.1])
        made = self.schema(self.rng.choice([1, 2, 3]))
        if isinstance(made, dict):
            if self.likely(0.6):
                made["$defs"] = {"x": self.schema(1), "y": self.schema(1)}
            if self.likely(0.3):
                made["$schema"] = self.rng.choice(DRAFTS)
        return made, self.rng.choice(OPTIONS)


_OF_TYPES = {
    ("object",): ["properties", "required", "additionalProperties", "patternProperties", "propertyNames",
                  "minProperties", "maxProperties", "dependentRequired", "unevaluatedProperties"],
    ("array",): ["items", "prefixItems", "contains", "uniqueItems", "minItems", "maxItems", "unevaluatedItems"],
    ("string",): ["pattern", "format", "minLength", "maxLength"],
    ("number", "integer"): ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"],
}  # fmt: skip
KINDS = {keyword: types for types, keywords in _OF_TYPES.items() for keyword in keywords}


def fate(schema: Any, options: dict[str, Any]) -> list[Any]:
    """A digest of the expression that a schema becomes, or the error."""
    import guiderail as gr
    from guiderail.constraints.program import build_program

    try:
        program = build_program(gr.json_schema(schema, **options))
    except gr.GuiderailError as error:
        return [type(error).__name__, error.code, getattr(error, "pointer", None), str(error)]
    return ["compiled", hashlib.sha256(program.dump(program.root).encode()).hexdigest(), program.node_count()]


def main(seed: int, count: int, form: str = "") -> None:
    if form == "interpreted":
        import compiled

        compiled.use_sources()
    from guiderail import _core

    schemas = Schemas(seed)
    for _ in range(count):
        schema, options = schemas.document()
        before = _core.spent_work()
        result = fate(schema, options)
        print(json.dumps([result, _core.spent_work() - before, schema, options]))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
