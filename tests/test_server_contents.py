"""Another process reads large requests, with the same result."""

from __future__ import annotations

import json
import pickle
import sys
from dataclasses import fields
from unittest.mock import Mock

import pytest

from guiderail.generation.chat_template import ChatTemplate
from guiderail.server.compile_process import CompileProcess
from guiderail.server.contents import LARGE, Contents, Manner, read_contents, read_light, show
from guiderail.server.errors import ApiError
from guiderail.server.json_answers import Raw, answer_json, sse
from server_support import ToyModel, client_of

ISOLATED = pytest.mark.skipif(not CompileProcess.available, reason="processes cannot be forked safely here")
CHAT, PLAIN, RESPONSES = "/v1/chat/completions", "/v1/completions", "/v1/responses"
SCHEMA = {"type": "object", "properties": {"é": {"type": "integer"}}, "required": ["é"], "additionalProperties": False}
TOOL = {"type": "function", "function": {"name": "f", "description": "does", "parameters": SCHEMA}}
HELLO = [{"role": "user", "content": "hello <|end|> \U0001f600"}]
REQUESTS = {
    "chat": ("chat", {"messages": HELLO, "guided_json": SCHEMA, "max_tokens": 9, "stop": ["x"], "top_k": 3}),
    "format": ("chat", {"messages": HELLO, "response_format": {
        "type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}}),
    "tools": ("chat", {"messages": [*HELLO, {"role": "assistant", "tool_calls": [
        {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"é": 1}'}}]},
        {"role": "tool", "tool_call_id": "1", "content": "2"}], "tools": [TOOL], "tool_choice": "required"}),
    "completions": ("completions", {"prompt": ["a", "b"], "regex": "[ab]+", "logit_bias": {"97": 2}}),
    "ids": ("completions", {"prompt": [1, 2, 3]}),
    "responses": ("responses", {"input": "hi", "instructions": "be kind", "tools": [
        {"type": "function", "name": "f", "parameters": SCHEMA}], "metadata": {"a": 'b"c'},
        "text": {"format": {"type": "json_schema", "name": "n", "schema": SCHEMA}}}),
}  # fmt: skip


def manner(template: bool = True) -> Manner:
    model = ToyModel()
    if not template:
        model.chat_template = None
    return Manner("hermes", ChatTemplate(model).renderer, 1000)


@pytest.mark.parametrize("name", REQUESTS)
def test_what_another_process_reads_is_what_this_one_would(name):
    kind, body = REQUESTS[name]
    here = read_contents(kind, json.dumps(body).encode(), manner())
    there: Contents = pickle.loads(
        pickle.dumps(read_light(kind, json.dumps(body).encode(), pickle.loads(pickle.dumps(manner()))))
    )
    assert (there.ask, there.tools) == (here.ask, here.tools)
    if kind != "completions":
        assert there.shown == show(here, manner().renderer) == show(there, manner().renderer)
    known = {"messages", "input", "tools", "tool_choice", "text", "metadata", "guided_json", "response_format", "regex"}
    for field in set(type(here.request).model_fields) - known:
        assert getattr(there.request, field) == getattr(here.request, field)
    if kind == "responses":
        for field in ("tools", "text", "metadata"):
            assert json.loads(answer_json({"x": getattr(there.request, field)})) == {"x": getattr(here.request, field)}


def test_a_large_request_comes_back_with_few_objects():
    schema = {"type": "object", "properties": {f"p{i}": {"type": "integer", "title": "t" * 50} for i in range(90)}}
    messages = [{"role": "user", "content": "x"}] * 90
    body = {"messages": messages, "guided_json": schema, "tools": [TOOL] * 1, "metadata": {"a": "b"}}
    parsed = read_light("chat", json.dumps(body).encode(), manner())
    seen: list[object] = []

    def count(value: object) -> None:
        seen.append(value)
        if isinstance(value, dict | list | tuple):
            for inner in value.values() if isinstance(value, dict) else value:
                count(inner)

    for field in fields(parsed):
        count(getattr(parsed, field.name))
    count({name: getattr(parsed.request, name) for name in type(parsed.request).model_fields})
    assert len(seen) < 100


def test_the_parts_that_a_response_repeats_are_written_once():
    assert answer_json({"a": Raw('{"b":1}'), "c": [Raw("[]"), "é"]}) == '{"a":{"b":1},"c":[[],"é"]}'
    with pytest.raises(TypeError):
        answer_json({"a": object()})


@ISOLATED
def test_a_server_answers_large_requests_like_small_ones():
    padding = {"$comment": "é" * LARGE}
    with client_of(ToyModel('{"é": 7}'), compile_isolated=True) as client:
        for extra in ({}, padding):
            (choice,) = client.chat(temperature=0, guided_json={**SCHEMA, **extra})["choices"]
            assert choice["message"]["content"] == '{"é": 7}'
            text = {"format": {"type": "json_schema", "name": "n", "schema": {**SCHEMA, **extra}}}
            answer = client.post(RESPONSES, input="Who?", text=text, temperature=0).json()
            assert answer["text"] == text and answer["output"][0]["content"][0]["text"] == '{"é": 7}'
            lines = client.post(RESPONSES, input="Who?", text=text, temperature=0, stream=True).text.split("\n")
            events = [json.loads(line[6:]) for line in lines if line.startswith("data: ")]
            assert events[0]["response"]["text"] == events[-1]["response"]["text"] == text
        (choice,) = client.post(PLAIN, prompt="é" * 2000, regex="[ab]{3}(x{9000})?" + "y{0}" * 9000).json()["choices"]
        assert choice["text"][:3].strip("ab") == ""


LONG = {"role": "user", "content": "x" * LARGE}
WRONG = {
    "form": (CHAT, {"messages": [LONG, {"role": "robot", "content": ""}]}, "invalid-request", "#/messages/1/role"),
    "unknown": (CHAT, {"messages": [LONG], "max_token": 1}, "unknown-parameter", "#/max_token"),
    "schema": (CHAT, {"messages": [LONG], "guided_json": {"type": "int"}}, "invalid-schema", "#/type"),
    "half": (CHAT, {"messages": [LONG, {"role": "user", "content": "\ud800"}]}, "lone-surrogate", None),
    "tool": (CHAT, {"messages": [LONG], "tools": [{"type": "x"}]}, "invalid-tool", None),
    "image": (CHAT, {"messages": [LONG, {"role": "user", "content": [{"type": "image_url"}]}]},
              "unsupported-content", None),
    "two": (CHAT, {"messages": [LONG], "regex": "a", "ebnf": "b"}, "several-constraints", None),
    "call": (CHAT, {"messages": [LONG, {"role": "assistant", "tool_calls": [{"type": "function", "function": {
        "name": "f", "arguments": "{"}}]}]}, "invalid-request", None),
    "prompt": (PLAIN, {"prompt": [[1, "x"]] * LARGE}, "invalid-request", None),
    "item": (RESPONSES, {"input": [{"type": "x", "y": "z" * LARGE}]}, "unsupported-content", None),
    "text": (RESPONSES, {"input": "x" * LARGE, "text": {"nope": 1}}, "unknown-parameter", None),
}  # fmt: skip


@pytest.fixture(scope="module")
def isolated():
    with client_of(ToyModel("a"), compile_isolated=CompileProcess.available) as client:
        yield client


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_with_a_large_request_is_told_like_that_of_a_small_one(isolated, name):
    path, body, code, pointer = WRONG[name]
    response = isolated.request("POST", path, content=json.dumps(body), headers={"Content-Type": "application/json"})
    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (400, code)
    assert pointer is None or error["pointer"] == pointer
    assert len(error["message"]) < 500


NO_JSON = {
    "values": (b"[" * LARGE * 2, 413, "body-too-large"),
    "deep": (b"[" * LARGE, 400, "invalid-json"),
    "bytes": (b"\xff" * LARGE, 400, "invalid-json"),
    "number": (b" " * LARGE + b"7", 400, "invalid-json"),
    "open": (b"{" + b" " * LARGE, 400, "invalid-json"),
}


@pytest.mark.parametrize("name", NO_JSON)
def test_large_bodies_that_are_no_json(name):
    body, status, code = NO_JSON[name]
    with client_of(ToyModel("a"), compile_isolated=CompileProcess.available, max_json_values=40_000) as client:
        response = client.request("POST", CHAT, content=body)
        assert (response.status_code, response.json()["error"]["code"]) == (status, code)


def test_a_conversation_that_no_template_shows_is_refused_by_its_reader():
    body = json.dumps({"messages": [*HELLO, *HELLO]}).encode()
    full = read_contents("chat", body, manner(template=False))
    for read in (lambda: show(full, manner(template=False).renderer), lambda: read_light("chat", body, manner(False))):
        with pytest.raises(Exception) as caught:
            read()
        assert not isinstance(caught.value, ApiError) and caught.value.code == "no-chat-template"


def test_the_interpreter_is_shared_in_small_slices(monkeypatch):
    from guiderail.server import bodies

    monkeypatch.setattr(bodies, "gc", Mock())
    was = sys.getswitchinterval()
    try:
        bodies.calm_collector()
        assert sys.getswitchinterval() == pytest.approx(bodies.SWITCH_SECONDS)
    finally:
        sys.setswitchinterval(was)


def test_an_event_is_one_line_for_clients_that_split_at_any_line_end() -> None:
    data = {"text": "a\x85b\u2028c\u2029d\x0be\x1cf\r\n"}
    lines = sse(data).decode().splitlines()
    assert [line for line in lines if line] == [lines[0]]
    assert json.loads(lines[0].removeprefix("data: ")) == data
