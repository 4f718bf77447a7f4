"""Arguments between tags, against `jsonschema`: a set of arguments can be written, in some order, if and only if it is
valid; or the schema is rejected."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from itertools import combinations, permutations, product
from typing import Any

import pytest
from jsonschema import Draft202012Validator

import guiderail as gr

FORMS = {
    "qwen_xml": "<parameter={key}>{value}</parameter>",
    "minimax_xml": '<parameter name="{key}">{value}</parameter>',
    "glm_xml": "<arg_key>{key}</arg_key><arg_value>{value}</arg_value>",
    "deepseek_xml": '<｜DSML｜parameter name="{key}" string="{text}">{value}</｜DSML｜parameter>',
    "cohere_xml": '<cofl:value name="{key}" type="{raw}">{value}</cofl:value>',
    "kimi_k3_xml": '<|open|>argument key="{key}" type="{type}"<|sep|>{value}<|close|>argument<|sep|>',
    "minimax_m3_xml": "]<]minimax[>[<{key}>{value}]<]minimax[>[</{key}>",
}
KEYS = ("a", "b", "x_1", "x_2", "y")
VALUES: tuple[Any, ...] = (1, "s")


def write(style: str, key: str, value: Any) -> str:
    is_text = isinstance(value, str)
    return FORMS[style].format(
        key=key,
        value=value if is_text else json.dumps(value),
        text="true" if is_text else "false",
        raw="raw" if is_text else "json",
        type="string" if is_text else "number",
    )


def made(schema: Any, style: str, **more: Any) -> gr.Constraint:
    return gr.structural_tag({"type": "json_schema", "json_schema": schema, "style": style, **more})


def arguments(most: int) -> Iterator[dict[str, Any]]:
    for size in range(most + 1):
        for keys in combinations(KEYS, size):
            for values in product(VALUES, repeat=size):
                yield dict(zip(keys, values, strict=True))


def readings(style: str, given: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Returns the possible meanings of these arguments' text: without types in the tags, a number may be a string."""
    if "{text}" in FORMS[style] or "{raw}" in FORMS[style] or "{type}" in FORMS[style]:
        yield given
        return
    for values in product(*({value, json.dumps(value) if value == 1 else value} for value in given.values())):
        yield dict(zip(given, values, strict=True))


def random_schema(rng: random.Random) -> dict[str, Any]:
    value: list[Any] = [{"type": "integer"}, {"type": "string"}, {"const": 1}, True, False]
    one: dict[str, Any] = {"type": "object"}
    for keyword, some in {
        "properties": lambda: {key: rng.choice(value) for key in rng.sample(KEYS, rng.randint(1, 3))},
        "patternProperties": lambda: {
            p: rng.choice(value) for p in rng.sample(["^x_", "_1$", "^(a|y)$", "b", "^[xy]"], rng.randint(1, 2))
        },
        "additionalProperties": lambda: rng.choice(value),
        "propertyNames": lambda: rng.choice(
            [{"pattern": "^x"}, {"enum": ["a", "x_1"]}, {"maxLength": 1}, {"not": {"const": "a"}}]
        ),
        "minProperties": lambda: rng.randint(1, 2),
        "maxProperties": lambda: rng.randint(0, 3),
        "required": lambda: rng.sample(KEYS, rng.randint(1, 2)),
        "dependentRequired": lambda: {rng.choice(KEYS): [rng.choice(KEYS)]},
        "dependentSchemas": lambda: {rng.choice(KEYS): {"required": [rng.choice(KEYS)]}},
        "not": lambda: {"required": [rng.choice(KEYS)]},
        "anyOf": lambda: [{"required": [rng.choice(KEYS)]}, {"properties": {rng.choice(KEYS): rng.choice(value)}}],
    }.items():
        if rng.random() < 0.3:
            one[keyword] = some()
    return one


@pytest.mark.parametrize("style", FORMS)
def test_keywords_of_objects(style: str) -> None:
    rng = random.Random(style)
    compared = 0
    for _ in range(60):
        schema = random_schema(rng)
        judge = Draft202012Validator(schema)
        try:
            program = made(schema, style).program()
        except gr.GuiderailError as error:
            assert error.code in ("tool-parameters", "unsatisfiable-schema", "unsatisfiable"), (schema, error)
            continue
        if style == "minimax_m3_xml" and schema.get("additionalProperties", True) is True:
            continue  # writes only names of the schema
        compared += 1
        for given in arguments(3):
            texts = ("".join(write(style, *one) for one in some) for some in permutations(given.items()))
            valid = any(map(judge.is_valid, readings(style, given)))
            assert any(map(program.matches, texts)) == valid, (schema, given)
    assert compared > 2


def test_names_that_only_a_pattern_allows() -> None:
    schema = {"type": "object", "patternProperties": {"^x-": {"type": "integer"}}, "additionalProperties": False}
    tag = made(schema, "qwen_xml")
    assert tag.matches("<parameter=x-a b>3</parameter>") and tag.matches("<parameter=x-é>3</parameter>")
    for text in ("x-", "x-a>", "y-a", "x-a ", "x-<"):
        assert tag.matches(f"<parameter={text}>3</parameter>") == (text == "x-")


@pytest.mark.parametrize(
    ("style", "name", "written"),
    [
        ("kimi_k3_xml", 'a"b', "a&quot;b"),
        ("kimi_k3_xml", "a&quot;", "a&amp;quot;"),
        ("kimi_k3_xml", "<a>", "<a>"),
        ("qwen_xml", "a>b", None),
        ("qwen_xml", "", None),
        ("qwen_xml", 'a"b', 'a"b'),
        ("cohere_xml", 'a" type="raw">', None),
        ("glm_xml", "a</arg_key>", None),
        ("minimax_m3_xml", "a>", None),
    ],
)
def test_names_with_marks_of_the_tag(style: str, name: str, written: str | None) -> None:
    tag = made({"type": "object", "properties": {name: {"type": "string"}}, "required": [name]}, style)
    if written is None:
        with pytest.raises(gr.ToolError) as caught:
            tag.program()
        assert caught.value.code == "tool-parameters"
    else:
        assert tag.matches(write(style, written, "v"))
        assert written == name or not tag.matches(write(style, name, "v"))


def test_open_values_nest_in_tags() -> None:
    tag = made({"type": "object", "properties": {"n": {"type": "string"}}}, "cohere_xml")
    inner = '<cofl:value name="k" type="dict"><cofl:value name="l" type="list"><cofl:value type="json">1</cofl:value>'
    assert tag.matches(inner + "</cofl:value></cofl:value>")
    assert not tag.matches(inner + "</cofl:value>")
    tree = {"$ref": "#/$defs/t", "$defs": {"t": {
        "type": "object", "required": ["v"], "additionalProperties": False,
        "properties": {"v": {"type": "integer"}, "kids": {"type": "array", "items": {"$ref": "#/$defs/t"}}},
    }}}  # fmt: skip
    leaf = write("minimax_m3_xml", "v", 1)
    nested = leaf + f"]<]minimax[>[<kids>]<]minimax[>[<item>{leaf}]<]minimax[>[</item>]<]minimax[>[</kids>"
    assert made(tree, "minimax_m3_xml").matches(nested)
    assert not made(tree, "minimax_m3_xml").matches(nested.replace("<v>1", "<v>x", 2))


def test_any_order_with_bounds() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {}, "b": {}, "y": {}},
        "additionalProperties": False,
        "minProperties": 2,
        "maxProperties": 2,
    }
    tag = made(schema, "qwen_xml", any_order=True)
    a, b, y = (write("qwen_xml", key, 1) for key in "aby")
    assert tag.matches(b + a) and tag.matches(y + a) and not tag.matches(a) and not tag.matches(a + b + y)


def test_a_text_that_follows_a_grammar_does_not_fit_between_tags() -> None:
    sums = {"syntax": "lark", "definition": 'start: "1" ("+" "1")*'}
    tool = {"type": "custom", "custom": {"name": "sum", "format": {"type": "grammar", "grammar": sums}}}
    with pytest.raises(gr.ToolError, match=r"'sum'.*or a format that writes arguments as JSON") as caught:
        gr.tool_calls([tool], format="qwen3-coder")
    assert caught.value.code == "tool-parameters"
    assert gr.tool_calls([tool], format="hermes").tools[0].name == "sum"
