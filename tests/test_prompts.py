"""Schemas and types in words for a model."""

from __future__ import annotations

import datetime
import enum
import random
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import pytest

import guiderail as gr
from schema_generator import schema as random_schema


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Address:
    """Where to send it."""

    street: str
    zip: Annotated[str, gr.regex("[0-9]{5}")]


@dataclass
class Person:
    name: Annotated[str, "first and last name"]
    home: Address
    born: datetime.date
    seen: datetime.datetime
    colors: list[Color]
    mood: Literal["good", "bad"] = "good"
    ratio: float = 0.5
    friends: list[Person] = field(default_factory=list)


def body(target: Any) -> str:
    return gr.prompt_of(target).partition("\n\n")[2]


def test_a_type() -> None:
    text = gr.prompt_of(Person)
    assert text.startswith("Write JSON of this form, and nothing else (members marked ? may be left out):\n\nPerson\n")
    for line in (
        '  "name": string,  // first and last name',
        '  "home": Address,',
        '  "born": string,  // a date, YYYY-MM-DD',
        '  "seen": string,  // a date and time, as 2024-05-17T08:30:00',
        '  "colors": ["red" | "blue", …],',
        '  "mood"?: "good" | "bad",',
        '  "ratio"?: number,',
        '  "friends"?: [Person, …]',
        "// Where to send it.",
        "Address = {",
    ):
        assert line in text.split("\n"), (line, text)


@pytest.mark.parametrize(
    ("schema", "prefix"),
    [
        ({"type": "integer"}, "integer"),
        ({"const": {"a": 1}}, '{"a": 1}'),
        ({"enum": ["é", None, 3]}, '"é" | null | 3'),
        ({"type": ["string", "null"]}, "string | null"),
        ({"type": "array"}, "[any value, …]"),
        ({"type": "array", "items": {"type": "string", "minLength": 1}}, "[string (at least 1 character), …]"),
        ({"type": "array", "prefixItems": [{"type": "string"}, {"const": 3}], "items": False}, "[string, 3]"),
        ({"type": "object"}, "{ … }"),
        ({"type": "object", "additionalProperties": False}, "{}"),
        ({"type": "object", "additionalProperties": {"type": "number"}}, "{\n  …: number\n}"),
        ({"anyOf": [{"type": "string"}, {"type": "number"}]}, "string | number"),
        ({"type": "string", "pattern": "^a+$", "description": "some\n a"}, "// some a; matches /^a+$/\nstring"),
        ({"type": "array", "minItems": 2, "maxItems": 2, "uniqueItems": True}, "// exactly 2 items; no two alike\n"),
        ({"allOf": [{"type": "object"}, {"properties": {"a": {"type": "null"}}}]}, '{\n  "a"?: null\n}'),
        ({"properties": {"a": True, "b": False}, "required": ["a"]}, '{\n  "a": any value\n}'),
        ({"$ref": "#/$defs/x", "$defs": {"x": {"type": "boolean", "title": "ok?"}}}, "// ok?\ntrue | false"),
    ],
)
def test_forms(schema: dict[str, Any], prefix: str) -> None:
    assert body(schema).startswith(prefix)
    assert gr.prompt_of(gr.json_schema(schema)) == gr.prompt_of(schema)


def test_notations_headings_and_choices() -> None:
    assert gr.prompt_of(gr.json_schema({"type": "null"}, notation="yaml")).startswith("Write YAML of this form")
    assert gr.prompt_of(gr.python_type(int, notation="python")).startswith("Write a Python literal of this form")
    assert gr.prompt_of(int, heading="Answer:") == "Answer:\n\ninteger"
    assert body(["yes", "no"]) == body(gr.choice(["yes", "no"])) == "yes\nno"


@pytest.mark.parametrize("target", ["a", None, gr.regex("a"), 3])
def test_what_has_no_form(target: Any) -> None:
    with pytest.raises(gr.CompileError) as caught:
        gr.prompt_of(target)
    assert caught.value.code in ("not-a-schema", "not-a-constraint", "type-unsupported")


def test_any_schema_has_a_text_of_bounded_size() -> None:
    rng = random.Random(1)
    for _ in range(300):
        schema = random_schema(rng, 3)
        try:
            made = gr.json_schema(schema)
        except gr.GuiderailError:
            continue
        assert gr.prompt_of(made)
    wide = {"type": "object", "properties": {f"p{i}": {"enum": list(range(100))} for i in range(3000)}}
    assert len(gr.prompt_of(wide)) < 300_000
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(90):
        deep = {"type": "object", "properties": {"a": deep, "b": deep}} if _ < 8 else {"type": "array", "items": deep}
    assert len(gr.prompt_of(deep)) < 100_000


def test_schemas_in_all_of_are_read_once() -> None:
    twice: dict[str, Any] = {
        f"d{i}": {"allOf": [{"$ref": f"#/$defs/d{i + 1}"}, {"$ref": f"#/$defs/d{i + 1}"}]} for i in range(40)
    }
    schema = {"$ref": "#/$defs/d0", "$defs": {**twice, "d40": {"type": "integer", "minimum": 3}}}
    assert gr.prompt_of(schema, heading="").endswith("d0 = integer")
    assert gr.prompt_of({"allOf": [{"$ref": "#"}], "type": "string"}, heading="").endswith("string")
    inner = {"allOf": [{"enum": ["a"]}], "enum": ["b"], "title": "both"}
    assert '"a" | "b"' in gr.prompt_of({"allOf": [inner]}, heading="")
