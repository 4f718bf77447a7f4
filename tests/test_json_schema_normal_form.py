"""The normal form against the package ``jsonschema``, on random schemas and values; and the laws of its algebra."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

pytest.importorskip("jsonschema")
from jsonschema import Draft202012Validator

import guiderail as gr
import schema_generator

# Permitted reasons for an error: the schema has no value, or it exceeds a limit.
REFUSALS = {"unsatisfiable-schema", "schema-branches", "number-states", "fuel"}


@pytest.mark.parametrize("seed", range(6))
def test_normal_form_and_texts_agree_with_jsonschema(seed: int) -> None:
    rng = random.Random(seed)
    compared = refused = 0
    for _ in range(120):
        schema = schema_generator.schema(rng)
        judge = Draft202012Validator(schema)
        constraint = gr.json_schema(schema)
        try:
            program = constraint.program()
        except gr.GuiderailError as error:
            assert error.code in REFUSALS, (schema, error)
            program = None
            refused += error.code != "unsatisfiable-schema"
            if error.code != "unsatisfiable-schema":
                continue
        for _ in range(25):
            value: Any = schema_generator.value(rng)
            wanted = judge.is_valid(value)
            assert constraint.accepts(value) == wanted, (schema, value)
            text = json.dumps(value, ensure_ascii=False)
            try:
                written = program is not None and program.matches(text)
            except gr.LimitError:
                refused += 1
                break
            assert written == wanted, (schema, text)
            compared += 1
    assert compared > 2000 and refused < 12


@pytest.mark.parametrize("seed", range(3))
def test_complements_and_combinations(seed: int) -> None:
    rng = random.Random(100 + seed)
    for _ in range(80):
        a, b = schema_generator.schema(rng, 2), schema_generator.schema(rng, 2)
        document = gr.json_schema({"$defs": {"a": a, "b": b}}).document()
        x, y = (document.root.child(document.contents["$defs"][name]) for name in "ab")
        algebra = document.algebra
        neither = algebra.and_terms((algebra.not_term(x), algebra.not_term(y)))
        either = algebra.or_terms((x, y))
        both = algebra.and_terms((x, y))
        for _ in range(20):
            value = schema_generator.value(rng)
            in_x, in_y = x.shape().accepts(value), y.shape().accepts(value)
            assert algebra.not_shape(x.shape()).accepts(value) == (not in_x), (a, value)
            assert either.shape().accepts(value) == (in_x or in_y), (a, b, value)
            assert both.shape().accepts(value) == (in_x and in_y), (a, b, value)
            assert neither.shape().accepts(value) == (not in_x and not in_y), (a, b, value)


def test_emptiness_is_exact_on_random_schemas() -> None:
    """If a schema is reported as empty, none of many tried values is valid."""
    rng = random.Random(7)
    empty = 0
    for _ in range(600):
        schema = schema_generator.schema(rng)
        document = gr.json_schema(schema).document()
        if document.algebra.emptiness.term(document.term()):
            empty += 1
            judge = Draft202012Validator(schema)
            assert not any(judge.is_valid(schema_generator.value(rng)) for _ in range(200)), schema
    assert empty > 20
