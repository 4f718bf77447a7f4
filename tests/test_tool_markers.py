"""Markers of a format inside arguments, reasoning and content: what may be written is read back."""

from __future__ import annotations

import json
from typing import Annotated, Any

import pytest

import guiderail as gr

FORMATS = sorted(gr.tool_formats())
WRITE = {
    "name": "write",
    "parameters": {
        "type": "object",
        "properties": {
            "text": {"type": "string"},
            "texts": {"type": "array", "items": {"type": "string"}},
            "names": {"type": "object", "additionalProperties": {"type": "string", "pattern": "a"}},
        },
    },
}


def markers(calls: gr.ToolCalls) -> list[str]:
    form = calls.format
    frames = [text for frame in (form.reasoning, form.content) if frame for text in (frame.begin, frame.end)]
    found = [*form.triggers, *form.begin, form.end, form.separator, *form.turn_end, *form.calls_end, *frames]
    if form.parameters is not None:
        found += [form.parameters.close, form.parameters.head, form.parameters.quote]
    found += [text for template in form.calls for text, _ in template.parts]
    whole = [text for text in dict.fromkeys(found) if text]
    return whole + [text.strip() for text in whole if text.strip() not in ("", text)]


def arguments(form: str, name: str, value: Any) -> str:
    """A call with one argument, made of an example of the format; "" if this format writes it in another way."""
    calls = gr.tool_calls([WRITE], format=form, choice="required")
    style = calls.format.parameters
    template = calls.format.calls[0]
    begin = calls.format.begin[0]
    written = json.dumps({name: value}, ensure_ascii=False)
    if style is not None:
        if style.nested:
            return ""
        kind = style.kind("string" if isinstance(value, str) else "array" if isinstance(value, list) else "object")
        opening = style.open.replace("${key}", name).replace("${kind}", kind or "").replace("${space}", "")
        written = opening + (value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)) + style.close
    slots = {"name": "write", "arguments": written, "": "", "id": "1"}
    return begin + "".join(text + slots[slot] for text, slot in template.parts) + calls.format.end


@pytest.mark.parametrize("name", FORMATS)
def test_markers_in_arguments_are_forbidden_or_read(name: str) -> None:
    calls = gr.tool_calls([WRITE], format=name, choice="required")
    tried = 0
    for marker in markers(calls):
        for text in (marker, f"a{marker}", f"{marker}a", f"a{marker}{marker}a"):
            values = {"text": text, "texts": [text], "names": {"a": text + "a"}}
            for key, value in values.items():
                made = arguments(name, key, value)
                if made and calls.matches(made):
                    tried += 1
                    assert calls.parse(made).calls[0].arguments == {key: value}, made
    assert tried or calls.format.parameters is not None or calls.format.identifier


@pytest.mark.parametrize("form", ["qwen3-coder", "step-3.5"])
def test_a_closing_tag_that_overlaps_itself_ends_a_string_where_it_begins_first(form: str) -> None:
    calls = gr.tool_calls([WRITE], format=form, choice="required")
    assert calls.parse(arguments(form, "text", "x</parameter>")).calls[0].arguments == {"text": "x</parameter>"}
    assert not calls.matches(arguments(form, "text", "x\n</parameter>"))


@pytest.mark.parametrize("form", ["exaone-4", "minimax-m1", "step-3.5"])
def test_an_end_of_reasoning_that_overlaps_itself(form: str) -> None:
    calls = gr.tool_calls([WRITE], format=form, reasoning="required")
    frame = calls.format.reasoning
    assert frame is not None
    thought = frame.begin + "so" + frame.end
    assert calls.parse(thought + "yes").reasoning == "so"
    for early in (frame.end[:-1] + frame.end, frame.end[:-2] + frame.end):
        text = frame.begin + "so" + early + "yes"
        if calls.matches(text):
            assert calls.parse(text).reasoning in ("so", "so" + early[: -len(frame.end)])
            assert calls.parse(text).complete


@pytest.mark.parametrize("form", ["glm-4.7", "ling-3", "kimi-k3"])
def test_no_string_of_an_array_or_object_contains_the_closing_tag(form: str) -> None:
    def write(names: dict[str, Annotated[str, gr.regex("[^#]*")]]) -> None:
        pass

    calls = gr.tool_calls([WRITE], format=form, choice="required")
    style = calls.format.parameters
    assert style is not None
    for text, allowed in (("a", True), (style.close[:-1], True), (style.close, False), (f"a{style.close}a", False)):
        for value in ([text], {"a": text + "a"}, {text: "a"}):
            key = "texts" if isinstance(value, list) else "names"
            made = arguments(form, key, value)
            assert calls.matches(made) is allowed, made
            if allowed:
                assert calls.parse(made).calls[0].arguments == {key: value}
    typed = gr.tool_calls([write], format=form, choice="required")
    for text, allowed in (("a", True), ("#", False), (style.close, False)):
        assert typed.matches(arguments(form, "names", {"a": text})) is allowed


@pytest.mark.parametrize("choice", ["auto", "none"])
def test_an_end_of_the_turn_that_overlaps_itself(choice: str) -> None:
    form = {"name": "mine", "call": "CALL ${name} ${arguments}", "end": ["\n\n"]}
    calls = gr.tool_calls([WRITE], format=form, choice=choice)
    assert calls.parse("yes\n\n").content == "yes"
    assert calls.parse("yes\n").content == "yes\n"
    assert not calls.matches("yes\n\n\n")  # the first end counts, and nothing follows it
    if choice == "auto":
        assert calls.parse("CALL write {}\n\n").calls[0].arguments == {}


def test_an_id_at_the_end_of_a_call_is_read_whole() -> None:
    form = {"name": "mine", "call": "CALL ${name} ${arguments} ${id}", "id": "[a-z]+", "separator": "; "}
    calls = gr.tool_calls([WRITE], format=form)
    text = "CALL write {} abc; CALL write {} def"
    reader = calls.reader()
    deltas = [delta for c in text for delta in reader.feed(c)] + reader.close()
    assert [call.id for call in reader.snapshot().calls] == ["abc", "def"]
    assert [delta.id for delta in deltas if delta.kind == "end"] == ["abc", "def"]
    assert reader.snapshot() == calls.parse(text)


def test_text_between_arguments_may_come_in_pieces() -> None:
    style = {"open": "<a>${key}<b>", "close": "</a>", "between": "<i>"}
    form = {"name": "mine", "call": "CALL ${name}:${arguments}", "separator": "", "parameters": style}
    schema = {"type": "object", "properties": {key: {"type": "integer"} for key in "xyz"}}
    calls = gr.tool_calls([{"name": "w", "parameters": schema}], format=form)
    text = "CALL w:<a>x<b>1</a><i><a>y<b>2</a><i><a>z<b>3</a>CALL w:"
    reader = calls.reader()
    for c in text:
        reader.feed(c)
    reader.close()
    assert [call.arguments for call in reader.snapshot().calls] == [{"x": 1, "y": 2, "z": 3}, {}]


def test_a_name_that_is_not_declared_ends_where_it_is_read_to_end() -> None:
    form = {"name": "mine", "call": "CALL ${name}:${arguments}", "parameters": {"open": "<${key}is ", "close": "</a>"}}
    calls = gr.tool_calls([{"name": "w", "parameters": {"additionalProperties": {"type": "integer"}}}], format=form)
    assert calls.parse("CALL w:<areais 3</a>").calls[0].arguments == {"area": 3}
    assert not calls.matches("CALL w:<thisis 3</a>")


# -- content --------------------------------------------------------------------------------------------------------
def framed(calls: gr.ToolCalls, text: str, end: str) -> str:
    frame = calls.format.content
    return (text if frame is None else frame.begin + text + frame.end) + end


@pytest.mark.parametrize("choice", ["auto", "none"])
@pytest.mark.parametrize("name", FORMATS)
def test_a_given_content_may_contain_any_marker(name: str, choice: str) -> None:
    calls = gr.tool_calls([WRITE], format=name, choice=choice, content=gr.json_schema({"type": "string"}))
    for marker in markers(calls):
        content = json.dumps(f"a{marker}b", ensure_ascii=False)
        for end in ("", *calls.format.turn_end):
            text = framed(calls, content, end)
            if not calls.matches(text):
                assert end
                continue
            found = calls.parse(text)
            assert (found.content, found.calls, found.complete) == (content, [], True)
            reader = calls.reader()
            deltas = [delta for c in text for delta in reader.feed(c)] + reader.close()
            assert "".join(delta.text for delta in deltas) == content
            assert {delta.kind for delta in deltas} == {"content"}


@pytest.mark.parametrize("name", FORMATS)
def test_a_given_content_does_not_begin_as_a_call_does(name: str) -> None:
    calls = gr.tool_calls([WRITE], format=name, content=gr.any_text())
    if calls.format.content is not None:
        return
    for trigger in calls.format.triggers:
        text = trigger + "?"
        if calls.matches(text):  # no tool is called like this
            assert calls.parse(text).content == text
    call = arguments(name, "text", "x")
    if call:
        assert not calls.matches(call[:-1]) or calls.parse(call[:-1]).calls


def test_content_that_begins_like_calls_of_llama3() -> None:
    properties = {"name": {"type": "string"}, "parameters": {"type": "integer"}}
    person = {"type": "object", "properties": properties, "required": ["name"], "additionalProperties": False}
    calls = gr.tool_calls([WRITE], format="llama3", content=gr.json_schema(person))
    assert calls.parse('{"name": "Ada"}').content == '{"name": "Ada"}'
    assert calls.parse('{"name": "write"}').content == '{"name": "write"}'
    assert calls.parse('{"name": "write", "parameters": {}}').calls[0].name == "write"
    assert calls.matches('{"name": "Ada", "parameters": 3}')
    assert not calls.matches('{"name": "write", "parameters": 3}')
