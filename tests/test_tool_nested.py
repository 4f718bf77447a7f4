"""Arguments whose arrays and objects are not JSON: texts written by hand are accepted and read back."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

import guiderail as gr

QUOTE = '<|"|>'
TEXTS = st.text(st.characters(min_codepoint=32, max_codepoint=300, exclude_characters="\x7f"), max_size=8)
SCALARS = (
    st.none() | st.booleans() | st.integers(-99, 999) | TEXTS | st.sampled_from(["{", "a,b", "]", "3", "true", "}<"])
)
NAMES = st.sampled_from(["a", "B", "c_1", "d-e", "f.g"])
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=8
)


def gemma(value: Any) -> str:
    """Writes a value like Gemma's template."""
    if isinstance(value, str):
        return QUOTE + value + QUOTE
    if isinstance(value, dict):
        return "{" + ",".join(f"{k}:{gemma(value[k])}" for k in sorted(value, key=str.lower)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(gemma, value)) + "]"
    return json.dumps(value)


def cofl(value: Any, name: str | None = None) -> str:
    """Writes a value like Cohere's template."""
    attribute = "" if name is None else f' name="{name}"'
    kind, inside = "json", json.dumps(value)
    if isinstance(value, str):
        kind, inside = "raw", value
    elif isinstance(value, dict):
        kind, inside = "dict", "".join(cofl(v, k) for k, v in value.items())
    elif isinstance(value, list):
        kind, inside = "list", "".join(map(cofl, value))
    return f'<cofl:value{attribute} type="{kind}">{inside}</cofl:value>'


def written(form: str, value: dict[str, Any]) -> str:
    if form == "gemma-4":
        return f"<|tool_call>call:f{gemma(value)}<tool_call|>"
    inside = "".join(cofl(v, k) for k, v in value.items())
    return f'<cofl:tool_calls><cofl:tool_call id="0" name="f">{inside}</cofl:tool_call></cofl:tool_calls>'


def schema_of(value: Any) -> Any:
    """Returns a schema that allows this value and little more."""
    if isinstance(value, dict):
        return {
            "type": "object",
            "properties": {k: schema_of(v) for k, v in value.items()},
            "required": list(value),
            "additionalProperties": False,
        }
    if isinstance(value, list):
        return {"type": "array", "prefixItems": [schema_of(v) for v in value], "minItems": len(value), "items": False}
    return {"type": {str: "string", bool: "boolean", int: "integer", type(None): "null"}[type(value)]}


def holds(value: Any, what: str) -> bool:
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return (isinstance(value, str) and what in value) or any(holds(v, what) for v in inside)


@pytest.mark.parametrize("form", ["gemma-4", "command-xml"])
@settings(max_examples=120, deadline=None)
@given(value=st.dictionaries(NAMES, VALUES, max_size=3), cut=st.integers(0, 400))
def test_what_is_written_is_read(form: str, value: dict[str, Any], cut: int) -> None:
    tool = {"name": "f", "parameters": schema_of(value)}
    calls = gr.tool_calls([tool], format=form)
    text = written(form, value)
    assert calls.matches(text), calls.explain(text)
    assert [call.arguments for call in calls.parse(text).calls] == [value]
    reader = calls.reader()
    deltas = [*reader.feed(text[:cut]), *reader.feed(text[cut:]), *reader.close()]
    arguments = "".join(delta.text for delta in deltas if delta.kind == "arguments")
    assert json.loads(arguments) == value


OPEN = {"type": "object", "properties": {"a": {"type": "object"}, "l": {"type": "array"}}, "additionalProperties": True}


@pytest.mark.parametrize("form", ["gemma-4", "command-xml"])
@pytest.mark.parametrize(
    "schema",
    [
        OPEN,
        {"type": "object"},
        {"type": "object", "properties": {"n": {"type": "integer", "minimum": 3}}, "required": ["n"]},
        {"type": "object", "properties": {"l": {"type": "array", "items": {"enum": [1, "x"]}, "maxItems": 2}}},
        {"type": "object", "additionalProperties": {"type": "array", "minItems": 2, "items": {"type": "boolean"}}},
    ],
)
def test_random_texts_are_read_and_valid(form: str, schema: Any) -> None:
    calls = gr.tool_calls([{"name": "f", "parameters": schema}], format=form, choice="required")
    program = calls.program().core
    rng = random.Random(form + str(schema))
    for _ in range(40):
        state, text = program.root, b""
        for _ in range(rng.randrange(5, 160)):
            allowed = program.first_bytes(state)
            if not allowed:
                break
            byte = rng.choice([b for b in allowed if 0x20 <= b < 0x7F] or list(allowed))
            state, text = program.derivative(state, bytes([byte])), text + bytes([byte])
        rest = program.shortest(state, 4000)
        assert rest is not None
        whole = (text + rest).decode()
        for call in calls.parse(whole).calls:
            if "Infinity" not in json.dumps(call.arguments):  # 1e999 is a JSON number, but not a float
                assert gr.json_schema(schema).accepts(call.arguments), whole


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"open": "${key}:", "close": "x", "quote": "'"}, "close"),
        ({"open": "${key}:"}, "close"),
        ({"open": "${key}:", "quote": "'", "item": "<i>"}, "close"),
        ({"open": "<${key}>", "close": "</a>", "item": "<i>"}, "item"),
        ({"open": "<${key}>", "close": "</a>", "item": 3}, "string"),
        ("x", "object"),
    ],
)
def test_errors_of_styles(parameters: Any, message: str) -> None:
    form = {"name": "mine", "call": "CALL ${name} ${arguments} END", "parameters": parameters}
    with pytest.raises(gr.ToolError, match=message) as caught:
        gr.tool_calls([], format=form)
    assert caught.value.code == "tool-format"


def test_a_name_that_cannot_stand_bare_is_refused() -> None:
    tool = {"name": "f", "parameters": {"type": "object", "properties": {"a:b": {"type": "string"}}}}
    with pytest.raises(gr.ToolError) as caught:
        gr.tool_calls([tool], format="gemma-4")
    assert caught.value.code == "tool-parameters"


@pytest.mark.parametrize(
    ("end", "refused"), [({"content": ["x"], "after": ["y"]}, True), ({"content": ["<e>"]}, False)]
)
def test_ends_after_content_and_after_calls(end: Any, refused: bool) -> None:
    form = {"name": "mine", "call": "CALL ${name} ${arguments} END", "end": end}
    tool = {"name": "f", "parameters": {"type": "object", "properties": {}}}
    if refused:
        with pytest.raises(gr.ToolError, match="content"):
            gr.tool_calls([tool], format=form)
        return
    calls = gr.tool_calls([tool], format=form)
    assert [calls.matches(text) for text in ("Hm.<e>", "CALL f {} END", "CALL f {} END<e>")] == [True, True, False]
    with pytest.raises(gr.ToolTextError):
        calls.parse("CALL f {} END<e>")
