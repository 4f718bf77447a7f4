"""Requested reasoning: before text, before a schema, before calls, and never too long."""

from __future__ import annotations

import json

import pytest

from guiderail.server.reasoning import EFFORT_TOKENS
from server_support import TEMPLATE, ToyModel, client_of

THOUGHT = "<think>hm\n</think>\n\n"
COLOUR = {"type": "object", "properties": {"colour": {"enum": ["red", "blue"]}}, "required": ["colour"],
          "additionalProperties": False}  # fmt: skip
WEATHER = {"type": "function", "function": {"name": "weather", "parameters": {
    "type": "object", "properties": {"city": {"enum": ["Oslo", "Rome"]}}, "required": ["city"],
    "additionalProperties": False}}}  # fmt: skip
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Rome"}}\n</tool_call>'


def streamed(client, **body):
    """Returns the pieces of reasoning and of content, and the finish reason."""
    thought = text = ""
    reason = None
    for chunk in client.chunks(**body):
        (choice,) = chunk["choices"]
        thought += choice["delta"].get("reasoning_content") or ""
        text += choice["delta"].get("content") or ""
        reason = choice["finish_reason"] or reason
    return thought, text, reason


@pytest.mark.parametrize("effort", EFFORT_TOKENS)
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
    """A model that would never stop reasoning still answers."""
    with client_of(ToyModel("<think>" + "x" * 3000)) as client:
        (choice,) = client.chat(temperature=0, guided_json=COLOUR, **asked)["choices"]
        message = choice["message"]
        assert len(message.get("reasoning_content", "")) == most
        assert json.loads(message["content"])["colour"] in ("red", "blue") and choice["finish_reason"] == "stop"


# -- responses -------------------------------------------------------------------------------------------------------
REASONED = [
    ("Hello.", {}, "message", "Hello."),
    ('{"colour": "blue"}', {"text": {"format": {"type": "json_schema", "name": "c", "schema": COLOUR}}}, "message",
     '{"colour": "blue"}'),
    (CALL, {"tools": [{"type": "function", **WEATHER["function"]}]}, "function_call", '{"city": "Rome"}'),
]  # fmt: skip


@pytest.mark.parametrize(("script", "body", "kind", "expected"), REASONED)
def test_reasoning_of_a_response(script, body, kind, expected):
    with client_of(ToyModel(THOUGHT + script)) as client:
        body = {"input": "x", "temperature": 0, "reasoning": {"effort": "low", "summary": "auto"}, **body}
        answer = client.post("/v1/responses", **body).json()
        thought, item = answer["output"]
        assert thought["type"] == "reasoning" and thought["id"].startswith("rs_") and thought["summary"] == []
        assert thought["content"] == [{"type": "reasoning_text", "text": "hm\n"}] and thought["status"] == "completed"
        assert item["type"] == kind
        assert (item["content"][0]["text"] if kind == "message" else item["arguments"]) == expected
        assert answer["reasoning"] == {"effort": "low", "summary": None} and answer["status"] == "completed"
        counts = answer["usage"]
        assert 0 < counts["output_tokens_details"]["reasoning_tokens"] < counts["output_tokens"]

        events = client.chunks("/v1/responses", **body)
        assert [event["sequence_number"] for event in events] == list(range(len(events)))
        kinds = [event["type"].removeprefix("response.") for event in events]
        order = [kind for i, kind in enumerate(kinds) if i == 0 or kind != kinds[i - 1]]
        assert order[2:9] == [
            "output_item.added", "content_part.added", "reasoning_text.delta", "reasoning_text.done",
            "content_part.done", "output_item.done", "output_item.added",
        ]  # fmt: skip
        deltas = [event for event in events if event["type"] == "response.reasoning_text.delta"]
        assert "".join(event["delta"] for event in deltas) == "hm\n"
        assert {(event["output_index"], event["content_index"]) for event in deltas} == {(0, 0)}
        final = events[-1]["response"]
        assert [one["type"] for one in final["output"]] == ["reasoning", kind]
        assert final["usage"] == counts


@pytest.mark.parametrize(
    ("asked", "most"),
    [
        ({"reasoning": {"effort": "minimal"}}, EFFORT_TOKENS["minimal"]),
        ({"guiderail": {"max_reasoning_tokens": 7}}, 7),
        ({"reasoning": {"effort": "max"}, "guiderail": {"max_reasoning_tokens": 0}}, 0),
    ],
)
def test_reasoning_of_a_response_is_no_longer_than_that(asked, most):
    with client_of(ToyModel("<think>" + "x" * 3000)) as client:
        format = {"type": "json_schema", "name": "c", "schema": COLOUR}
        answer = client.post("/v1/responses", input="x", temperature=0, text={"format": format}, **asked).json()
        *thought, item = answer["output"]
        assert sum(len(one["content"][0]["text"]) for one in thought) == most
        assert json.loads(item["content"][0]["text"])["colour"] in ("red", "blue")


def test_reasoning_that_the_tokens_do_not_suffice_for():
    with client_of(ToyModel("<think>" + "x" * 3000)) as client:
        asked = {"max_output_tokens": 20, "guiderail": {"on_incomplete": "return"}, "reasoning": {"effort": "high"}}
        answer = client.post("/v1/responses", input="x", temperature=0, **asked).json()
        (thought,) = answer["output"]
        assert (thought["type"], thought["status"], answer["status"]) == ("reasoning", "incomplete", "incomplete")
        assert answer["usage"]["output_tokens_details"]["reasoning_tokens"] == 20


def test_reasoning_of_earlier_turns_is_shown_by_the_template():
    """The items of a response can be sent back."""
    source = (
        "{% for m in messages %}[{{ m.role }}|{{ m.reasoning_content or '-' }}|{{ m.content or '-' }}|"
        "{{ (m.tool_calls or [])|length }}]{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
    )
    thought = {"type": "reasoning", "id": "rs_1", "summary": []}
    parts = [{"type": "reasoning_text", "text": "A"}, {"type": "reasoning_text", "text": "B"}]
    call = {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"}
    message = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "T"}]}
    user, output = {"role": "user", "content": "U"}, {"type": "function_call_output", "call_id": "1", "output": "O"}
    cases = {
        "[user|-|U|0][assistant|AB|T|1][tool|-|O|0]": [user, {**thought, "content": parts}, message, call, output],
        "[assistant|S|-|2][tool|-|O|0]": [
            {**thought, "summary": [{"type": "summary_text", "text": "S"}]}, call, call, output,
        ],
        "[assistant|AB|-|0][user|-|U|0]": [{**thought, "content": parts[:1]}, {**thought, "content": parts[1:]}, user],
        "[assistant|-|T|0][assistant|A|-|1][user|-|U|0]": [message, {**thought, "content": parts[:1]}, call, user],
    }  # fmt: skip
    seen = []
    model = ToyModel(lambda prompt: seen.append(prompt) or "ok")
    with client_of(model, chat_template=source + "{% if tools %}{% endif %}") as client:
        for items in cases.values():
            assert client.post("/v1/responses", input=items, temperature=0).status_code == 200
        assert list(dict.fromkeys(seen)) == list(cases)
        sealed = {**thought, "encrypted_content": "xyz"}
        assert client.error("/v1/responses", input=[user, sealed])["code"] == "unsupported-content"


@pytest.mark.parametrize(
    "asked",
    [
        {"reasoning": None},
        {"reasoning": {"effort": "none", "mode": "standard", "context": "auto"}},
        {"include": ["reasoning.encrypted_content"]},
        {"text": {"verbosity": "medium"}},
        {"prompt_cache_options": {"mode": "implicit"}, "service_tier": "auto", "moderation": None},
    ],
)
def test_what_asks_for_nothing(asked):
    with client_of(ToyModel("ok")) as client:
        (item,) = client.post("/v1/responses", input="x", temperature=0, **asked).json()["output"]
        assert item["content"][0]["text"] == "ok"


@pytest.mark.parametrize(
    ("asked", "pointer", "words"),
    [
        ({"reasoning": {"effort": "most"}}, "#/reasoning/effort", '"xhigh" or "max"'),
        ({"reasoning": {"summary": "detailed"}}, "#/reasoning/summary", '"auto"'),
        ({"reasoning": {"efort": "low"}}, "#/reasoning/efort", "not known"),
        ({"include": ["message.output_text.logprobs"]}, "#/include/0", '"reasoning.encrypted_content"'),
        ({"text": {"verbosity": "low"}}, "#/text/verbosity", "medium"),
        (
            {"reasoning": {"effort": "none"}, "guiderail": {"max_reasoning_tokens": 3}},
            "#/guiderail/max_reasoning_tokens",
            "reasoning.effort is none",
        ),
    ],
)
def test_what_a_response_cannot_have(asked, pointer, words):
    with client_of(ToyModel("ok")) as client:
        error = client.error("/v1/responses", input="x", **asked)
        assert words in error["message"] and error.get("pointer") == pointer


# -- more of chats ---------------------------------------------------------------------------------------------------
def test_a_prompt_may_have_begun_the_reasoning():
    source = TEMPLATE + "{% if add_generation_prompt %}<think>\n{% endif %}"
    with client_of(ToyModel("<think>\n" + THOUGHT.removeprefix("<think>") + "ab"), chat_template=source) as client:
        (choice,) = client.chat(temperature=0, reasoning_effort="low", guided_regex="[ab]+")["choices"]
        assert (choice["message"]["reasoning_content"], choice["message"]["content"]) == ("hm\n", "ab")


def test_what_does_not_go_together():
    with client_of(ToyModel("x"), tool_format="llama3") as client:
        error = client.error(reasoning_effort="low")
        assert client.error("/v1/responses", input="x", reasoning={"effort": "low"})["param"] == "reasoning.effort"
        assert error["param"] == "reasoning_effort" and "no markers for reasoning" in error["message"]
        assert client.chat(reasoning_effort="none")["choices"]
    custom = {"type": "custom", "custom": {"name": "sql"}}
    with client_of(ToyModel("x")) as client:
        assert "custom tools" in client.error(reasoning_effort="low", tools=[custom])["message"]
        error = client.error("/v1/completions", prompt="x", guiderail={"max_reasoning_tokens": 5})
        assert error["code"] == "unknown-parameter"
