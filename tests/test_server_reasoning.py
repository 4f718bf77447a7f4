"""Reasoning that a chat completion asks for: before text, before a schema, before calls, and never too long."""

from __future__ import annotations

import json

import pytest

from guiderail.server.thinking import EFFORT_TOKENS
from server_support import TEMPLATE, ToyModel, client_of

THOUGHT = "<think>hm\n</think>\n\n"
COLOUR = {"type": "object", "properties": {"colour": {"enum": ["red", "blue"]}}, "required": ["colour"],
          "additionalProperties": False}  # fmt: skip
WEATHER = {"type": "function", "function": {"name": "weather", "parameters": {
    "type": "object", "properties": {"city": {"enum": ["Oslo", "Rome"]}}, "required": ["city"],
    "additionalProperties": False}}}  # fmt: skip
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Rome"}}\n</tool_call>'


def streamed(client, **body):
    """The pieces of reasoning and of content, and the finish reason."""
    thought = text = ""
    reason = None
    for chunk in client.chunks(**body):
        (choice,) = chunk["choices"]
        thought += choice["delta"].get("reasoning_content") or ""
        text += choice["delta"].get("content") or ""
        reason = choice["finish_reason"] or reason
    return thought, text, reason


@pytest.mark.parametrize("effort", ["minimal", "low", "medium", "high"])
@pytest.mark.parametrize(
    ("script", "body", "content"),
    [
        ("Hello.", {}, "Hello."),
        ('{"colour": "blue"}', {"guided_json": COLOUR}, '{"colour": "blue"}'),
        ("ab", {"guided_regex": "[ab]+"}, "ab"),
    ],
)
def test_reasoning_comes_before_the_text(script, body, content, effort):
    with client_of(ToyModel(THOUGHT + script)) as client:
        asked = {"temperature": 0, "reasoning_effort": effort, **body}
        (choice,) = client.chat(**asked)["choices"]
        message = choice["message"]
        assert (message["reasoning_content"], message["content"], choice["finish_reason"]) == ("hm\n", content, "stop")
        assert streamed(client, **asked) == ("hm\n", content, "stop")
        (plain,) = client.chat(temperature=0, **(body or {"guided_regex": "[ab]+"}))["choices"]
        assert "reasoning_content" not in plain["message"]


def test_reasoning_before_a_call():
    with client_of(ToyModel(THOUGHT + CALL)) as client:
        for choice in ("auto", "required"):
            (found,) = client.chat(temperature=0, reasoning_effort="low", tools=[WEATHER], tool_choice=choice)[
                "choices"
            ]
            (call,) = found["message"]["tool_calls"]
            assert json.loads(call["function"]["arguments"]) == {"city": "Rome"}
            assert found["message"]["reasoning_content"] == "hm\n" and found["finish_reason"] == "tool_calls"


@pytest.mark.parametrize(
    ("asked", "most"),
    [
        ({"reasoning_effort": "minimal"}, EFFORT_TOKENS["minimal"]),
        ({"reasoning_effort": "low"}, EFFORT_TOKENS["low"]),
        ({"guiderail": {"max_reasoning_tokens": 7}}, 7),
        ({"guiderail": {"max_reasoning_tokens": 0}}, 0),
        ({"reasoning_effort": "high", "guiderail": {"max_reasoning_tokens": 7}}, 7),
    ],
)
def test_reasoning_is_no_longer_than_that(asked, most):
    """A model that would think for ever answers all the same."""
    with client_of(ToyModel("<think>" + "x" * 3000)) as client:
        (choice,) = client.chat(temperature=0, guided_json=COLOUR, **asked)["choices"]
        message = choice["message"]
        assert len(message.get("reasoning_content", "")) == most
        assert json.loads(message["content"])["colour"] in ("red", "blue") and choice["finish_reason"] == "stop"


def test_a_prompt_may_have_begun_the_reasoning():
    source = TEMPLATE + "{% if add_generation_prompt %}<think>\n{% endif %}"
    with client_of(ToyModel("<think>\n" + THOUGHT.removeprefix("<think>") + "ab"), chat_template=source) as client:
        (choice,) = client.chat(temperature=0, reasoning_effort="low", guided_regex="[ab]+")["choices"]
        assert (choice["message"]["reasoning_content"], choice["message"]["content"]) == ("hm\n", "ab")


def test_what_does_not_go_together():
    with client_of(ToyModel("x"), tool_format="llama3") as client:
        error = client.error(reasoning_effort="low")
        assert error["param"] == "reasoning_effort" and "no markers for reasoning" in error["message"]
        assert client.chat(reasoning_effort="none")["choices"]
    custom = {"type": "custom", "custom": {"name": "sql"}}
    with client_of(ToyModel("x")) as client:
        assert "custom tools" in client.error(reasoning_effort="low", tools=[custom])["message"]
        error = client.error("/v1/completions", prompt="x", guiderail={"max_reasoning_tokens": 5})
        assert error["code"] == "unknown-parameter"
