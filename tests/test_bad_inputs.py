"""For any input, a reader works or raises one of our errors, with a code and a message."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import guiderail as gr
from bad_inputs import READERS, check

SAMPLE = 60


@pytest.mark.parametrize("name", READERS)
def test_mutated_inputs(name: str) -> None:
    found = [report for number in range(SAMPLE) if (report := check(name, number)) is not None]
    assert not found, "\n".join(found)


def chain(length: int, **more: Any) -> dict[str, Any]:
    links = {f"a{i}": {"$ref": f"#/$defs/a{i + 1}", **more} for i in range(length)}
    return {"$ref": "#/$defs/a0", "$defs": {**links, f"a{length}": {"type": "integer"}}}


def alternatives(length: int) -> dict[str, Any]:
    links = {f"a{i}": {"anyOf": [{"$ref": f"#/$defs/a{i + 1}"}, {"const": str(i)}]} for i in range(length)}
    return {"$ref": "#/$defs/a0", "$defs": {**links, f"a{length}": {"type": "integer"}}}


def test_long_chains_of_references_are_followed() -> None:
    for more in ({}, {"minimum": 1}):  # with keywords beside the reference, each link states something itself
        schema = gr.json_schema(chain(20_000, **more))
        assert schema.matches("7") and not schema.matches('"7"')
    ring = chain(3_000)
    ring["$defs"]["a3000"] = {"$ref": "#/$defs/a7"}
    with pytest.raises(gr.SchemaError) as caught:
        gr.json_schema(ring).program()
    assert caught.value.code == "infinite-reference"


def cycle() -> Any:
    value: dict[str, Any] = {"type": "array"}
    value["items"] = value
    return value


def shared(levels: int) -> Any:
    value: Any = {"type": "null"}
    for _ in range(levels):
        value = {"type": "array", "prefixItems": [value, value]}
    return value


def deep(levels: int, key: str = "items") -> Any:
    value: Any = {"type": "null"}
    for _ in range(levels):
        value = {key: [value] if key == "allOf" else value}
    return value


def lark_regex(key: str, value: Any) -> Callable[[], object]:
    return lambda: gr.grammar(f"start: %regex {json.dumps({key: value})}", "lark")


def tag(begin: Any, end: Any = "x", **content: Any) -> Any:
    return {"type": "tag", "begin": begin, "content": content or {"type": "any_text"}, "end": end}


def nested_tag(levels: int) -> Any:
    value: Any = {"type": "any_text"}
    for _ in range(levels):
        value = {"type": "optional", "content": value}
    return value


def read(schema: Any, **options: Any) -> Callable[[], object]:
    return lambda: gr.json_schema(schema, **options).program()


REFUSED: dict[str, tuple[Callable[[], object], str, str | None]] = {
    "an identifier that is no text": (read({"$id": 5, "$ref": "#x", "$anchor": []}), "invalid-schema", "#/$id"),
    "$defs that is no object": (
        read({"$id": "http://x", "$ref": "#a", "properties": {"q": {"$id": "http://y"}}, "$defs": 3}),
        "invalid-schema",
        "#/$defs",
    ),
    "a reference that is no text": (read({"$ref": 7}), "invalid-schema", "#/$ref"),
    "a reference to one of two anchors": (
        read({"$ref": "#x", "$defs": {"a": {"$anchor": "x", "type": "null"}, "b": {"$anchor": "x", "type": "string"}}}),
        "unresolvable-reference",
        "#",
    ),
    "a reference to one of two identifiers": (
        read({"$ref": "b", "$id": "http://h/a", "$defs": {"x": {"$id": "b"}, "y": {"$id": "b", "type": "null"}}}),
        "unresolvable-reference",
        "#",
    ),
    "a reference that is no URI": (read({"$ref": "http://["}), "unresolvable-reference", "#"),
    "nullable that is no boolean": (read({"nullable": 1}, dialect="openapi-3.0"), "invalid-schema", "#/nullable"),
    "a schema that holds itself": (read(cycle()), "schema-size", None),
    "a schema of 2^60 parts": (read(shared(60)), "schema-size", None),
    "a deep schema": (read(deep(10_000)), "depth", None),
    "a deep schema of allOf": (read(deep(1_900, "allOf")), "depth", None),
    "an option for deep values": (read({}, max_depth=1_000), "depth", None),
    "a deep text of a schema": (read('{"items":' * 10_000 + "1" + "}" * 10_000), "depth", None),
    "alternatives in a chain": (read(alternatives(30_000)), "depth", None),
    "more items than can be counted": (read({"type": "array", "minItems": 10**30}), "unsatisfiable-schema", "#"),
    "more members than can be counted": (
        read({"type": "object", "minProperties": 10**5000}),
        "unsatisfiable-schema",
        "#",
    ),
    "more characters than can be counted": (read({"type": "string", "minLength": 2**40}), "bad-bound", "#/minLength"),
    "a number that is none": (read({"minimum": float("nan")}), "invalid-schema", "#/minimum"),
    "a number of 5,001 digits": (read({"minLength": -(10**5000)}), "invalid-schema", "#/minLength"),
    "names that are no texts": (read({"properties": {1: {}}, "enum": (1, {2})}), "invalid-schema", None),
    "a dialect that is no text": (read({}, dialect={}), "bad-schema-option", None),
    "half a character in a tag": (lambda: gr.structural_tag(tag("\ud800")), "lone-surrogate", "#/begin"),
    "half a character in an end": (lambda: gr.structural_tag(tag("a", ["b", "\udfff"])), "lone-surrogate", "#/end"),
    "half a character in what is excluded": (
        lambda: gr.structural_tag({"type": "any_text", "excludes": ["\ud800"]}),
        "lone-surrogate",
        "#/excludes",
    ),
    "half a character as a token": (
        lambda: gr.structural_tag({"type": "token", "token": "\ud800"}),
        "lone-surrogate",
        "#/token",
    ),
    "a deep tag": (lambda: gr.structural_tag(nested_tag(5_000)), "depth", None),
    "half a character in GBNF": (lambda: gr.grammar('root ::= "\ud800"', "gbnf"), "lone-surrogate", None),
    "half a character in EBNF": (lambda: gr.grammar("root ::= '\ud800'", "ebnf-w3c"), "lone-surrogate", None),
    "half a character in Lark": (lambda: gr.grammar('start: "\ud800"', "lark").program(), "lone-surrogate", None),
    "half a character in characters for Lark": (lark_regex("substring_chars", "a\ud800"), "lone-surrogate", None),
    "half a character in words for Lark": (lark_regex("substring_words", "a \udfff b"), "lone-surrogate", None),
    "half a character in chunks for Lark": (lark_regex("substring_chunks", ["a", "\ud800"]), "lone-surrogate", None),
    "half a character in XML": (lambda: gr.xml_schema("<a>\ud800</a>"), "lone-surrogate", None),
    "half a character as a special token": (lambda: gr.special_token("\ud800"), "lone-surrogate", None),
    "half a character in a character's name": (
        lambda: gr.regex("\\N{A\udfff}").program(),
        "regex-bad-character-name",
        None,
    ),
    "a tool's name of 5,001 digits": (
        lambda: gr.tool_calls([{"name": 10**5000}], format="hermes", on_bad_tool="error"),
        "tool-name",
        None,
    ),
    "a tool's type that is deep": (
        lambda: gr.tool_calls(
            [{"name": "f", "parameters": {"type": deep(3_000)}}], format="hermes", on_bad_tool="error"
        ),
        "tool",
        None,
    ),
    "flags that are none": (lambda: gr.regex("a", flags=[1]), "regex-flags", None),  # type: ignore[arg-type]
    "a length that cannot be counted": (lambda: gr.regex("a", max_length=2**40), "bad-bound", None),
    "a token number of 400 digits": (
        lambda: gr.grammar("root ::= <[" + "9" * 400 + "]>", "gbnf"),
        "grammar-syntax",
        None,
    ),
    "names of required arguments that are none": (
        lambda: gr.tool_calls(
            [{"name": "f", "parameters": {"properties": {"a": {}}, "required": [["a"]]}}],
            format="hermes",
            on_bad_tool="error",
        ),
        "invalid-schema",
        None,
    ),
    "a grammar at no path": (lambda: gr.grammar(Path("a\0b.lark")), "grammar-file", None),
    "a schema at no path": (lambda: gr.json_schema(Path("a\0b")), "schema-file", None),
    "an XML Schema at no path": (lambda: gr.xml_schema(Path("a\0b")), "xml-file", None),
    "a format at no path": (lambda: gr.tool_calls([], format=Path("a\0b")), "tool-format", None),
    "a file at no path": (lambda: gr.load("a\0b"), "saved-file", None),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refused(what: str) -> None:
    use, code, pointer = REFUSED[what]
    with pytest.raises(gr.GuiderailError) as caught:
        use()
    assert caught.value.code == code, caught.value
    if pointer is not None:
        assert getattr(caught.value, "pointer", None) == pointer
    assert len(str(caught.value)) < 2_000


def test_nullable_without_a_type_allows_anything() -> None:
    schema = gr.json_schema({"properties": {"p": {"nullable": True}}, "type": "object"}, dialect="openapi-3.0")
    assert schema.matches('{"p": null}') and schema.matches('{"p": [1]}')
