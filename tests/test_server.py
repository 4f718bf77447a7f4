"""The server's interfaces in this process, on a toy model."""

from __future__ import annotations

import json
import math
import re

import numpy as np
import pytest

import guiderail as gr
from guiderail.generation.chat_template import ChatTemplate
from guiderail.server import ServerOptions
from server_support import TEMPLATE, VOCABULARY, Client, ToyModel, client_of

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 5}, "age": {"type": "integer", "maximum": 99, "minimum": 0}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
LARK = 'start: item | start "," item\nitem: "x" | "y"'
NESTED = 'start: item | "(" start ")" | start "," start\nitem: "x" | "y"'


@pytest.fixture(scope="module")
def toy():
    with client_of() as client:
        yield client


# -- chat completions ------------------------------------------------------------------------------------------------
def test_a_chat_completion_has_openais_shape(toy):
    answer = toy.chat(max_tokens=5, temperature=0)
    assert answer["object"] == "chat.completion" and answer["model"] == "toy" and answer["id"].startswith("chatcmpl-")
    (choice,) = answer["choices"]
    assert choice["message"]["role"] == "assistant" and isinstance(choice["message"]["content"], str)
    assert choice["finish_reason"] in ("stop", "length")
    usage = answer["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"] <= usage["prompt_tokens"] + 5


def test_texts_are_repeatable_by_seed_and_differ_among_each_other(toy):
    def texts(**more):
        choices = toy.chat(n=4, max_tokens=12, **more)["choices"]
        assert [choice["index"] for choice in choices] == [0, 1, 2, 3]
        return [choice["message"]["content"] for choice in choices]

    first = texts(seed=7)
    assert first == texts(seed=7) and len(set(first)) > 1
    assert texts(seed=-7) == texts(seed=-7)
    assert len(set(texts(temperature=0))) == 1


def test_length_is_told_apart_from_stop():
    with client_of(ToyModel("hello")) as client:
        (cut,) = client.chat(max_tokens=3, temperature=0)["choices"]
        assert (cut["message"]["content"], cut["finish_reason"]) == ("hel", "length")
        answer = client.chat(max_completion_tokens=50, temperature=0)
        (whole,) = answer["choices"]
        assert (whole["message"]["content"], whole["finish_reason"]) == ("hello", "stop")
        assert answer["usage"]["completion_tokens"] == 6  # including the token that ends the text


@pytest.mark.parametrize("stop", ["END", ["x", "END"], ["ND", "END!"]])
@pytest.mark.parametrize("stream", [False, True])
def test_stop_strings_cut_and_are_not_shown(stop, stream):
    with client_of(ToyModel("one E two EN END! three")) as client:
        if stream:
            chunks = client.chunks(stop=stop, temperature=0)
            text = "".join(c["choices"][0]["delta"].get("content") or "" for c in chunks)
            reason = chunks[-1]["choices"][0]["finish_reason"]
        else:
            (choice,) = client.chat(stop=stop, temperature=0)["choices"]
            text, reason = choice["message"]["content"], choice["finish_reason"]
        assert text == ("one E two EN E" if stop == ["ND", "END!"] else "one E two EN ")
        assert reason == "stop"


def test_a_stream_says_the_same_as_the_whole(toy):
    for seed in range(4):
        whole = toy.chat(n=2, seed=seed, max_tokens=20)
        chunks = toy.chunks(n=2, seed=seed, max_tokens=20, stream_options={"include_usage": True})
        *most, last = chunks
        assert last["choices"] == [] and last["usage"] == whole["usage"]
        assert all(chunk["usage"] is None and chunk["object"] == "chat.completion.chunk" for chunk in most)
        texts, reasons = ["", ""], [None, None]
        for chunk in most:
            (choice,) = chunk["choices"]
            texts[choice["index"]] += choice["delta"].get("content") or ""
            reasons[choice["index"]] = choice["finish_reason"]
        assert texts == [choice["message"]["content"] for choice in whole["choices"]]
        assert reasons == [choice["finish_reason"] for choice in whole["choices"]]


def test_characters_are_never_split_over_events():
    with client_of(ToyModel("€ and 🙂!")) as client:
        chunks = client.chunks(temperature=0)
        pieces = [c["choices"][0]["delta"].get("content") or "" for c in chunks]
        assert "".join(pieces) == "€ and 🙂!" and not any("\ufffd" in piece for piece in pieces)


def test_logprobs_are_those_of_the_model_before_the_constraint(toy):
    answer = toy.chat(temperature=0, logprobs=True, top_logprobs=3, structured_outputs={"regex": "[ab]{3}"})
    (choice,) = answer["choices"]
    told = choice["logprobs"]["content"]
    assert "".join(one["token"] for one in told) == choice["message"]["content"]
    prompt = toy.service.template.encode([{"role": "user", "content": "hello"}], None)
    row = list(prompt)
    for one in told:
        scores = toy.model.score(row).astype(np.float64)[: VOCABULARY.size]
        logprobs = scores - np.log(np.exp(scores).sum())
        token = next(t for t in range(VOCABULARY.size) if VOCABULARY.token_bytes(t) == bytes(one["bytes"]))
        assert math.isclose(one["logprob"], logprobs[token], rel_tol=1e-5)
        best = sorted(logprobs, reverse=True)[:3]
        assert np.allclose([top["logprob"] for top in one["top_logprobs"]], best, rtol=1e-5)
        row.append(token)


def test_bias_and_penalties_change_what_is_drawn(toy):
    (choice,) = toy.chat(temperature=0, max_tokens=6, logit_bias={"65": 100})["choices"]
    assert choice["message"]["content"] == "AAAAAA"
    with client_of(ToyModel("aaaaaaaaaa")) as client:
        plain = client.chat(temperature=0, max_tokens=4, structured_outputs={"regex": "[ab]{4}"})
        assert plain["choices"][0]["message"]["content"] == "aaaa"

    class Even(ToyModel):
        def score(self, row):
            scores = np.zeros(self.logits_size, np.float32)
            scores[[97, 98]] = [1.0, 0.5]
            return scores

    with client_of(Even()) as client:
        for kind in ("presence_penalty", "frequency_penalty"):
            (choice,) = client.chat(temperature=0, structured_outputs={"regex": "[ab]{4}"}, **{kind: 1})["choices"]
            assert choice["message"]["content"] in ("abab", "abaa")
        (choice,) = client.chat("b", temperature=0, structured_outputs={"regex": "[ab]{4}"}, repetition_penalty=4)[
            "choices"
        ]  # "b" is in the prompt
        assert choice["message"]["content"] == "aaaa"
        (choice,) = client.chat("x", temperature=0, structured_outputs={"regex": "[ab]{4}"}, repetition_penalty=4)[
            "choices"
        ]
        assert choice["message"]["content"] == "abaa"


# -- constraints ---------------------------------------------------------------------------------------------------
SCHEMA_ASKS = [
    {"response_format": {"type": "json_schema", "json_schema": {"name": "p", "schema": PERSON, "strict": True}}},
    {"response_format": {"type": "json_schema", "json_schema": {"name": "p", "schema": PERSON}}},
    {"response_format": {"type": "json_object", "schema": PERSON}},
    {"structured_outputs": {"json": PERSON}},
    {"structured_outputs": {"json": json.dumps(PERSON)}},
    {"guided_json": PERSON},
]


@pytest.mark.parametrize("ask", SCHEMA_ASKS, ids=lambda ask: json.dumps(ask)[:50])
def test_schemas_are_kept_to(toy, ask):
    schema = gr.json_schema(PERSON)
    for choice in toy.chat(n=3, max_tokens=200, **ask)["choices"]:
        assert choice["finish_reason"] == "stop"
        assert schema.accepts(json.loads(choice["message"]["content"]))


@pytest.mark.parametrize(
    ("ask", "pattern"),
    [
        ({"structured_outputs": {"regex": "[a-c]{5}"}}, "[a-c]{5}"),
        ({"guided_regex": "[a-c]{5}"}, "[a-c]{5}"),
        ({"regex": "[a-c]{5}"}, "[a-c]{5}"),
        ({"structured_outputs": {"choice": ["yes", "no"]}}, "yes|no"),
        ({"guided_choice": ["yes", "no"]}, "yes|no"),
        ({"structured_outputs": {"grammar": LARK}}, "[xy](,[xy])*"),
        ({"guided_grammar": 'root ::= "a" | "b" root'}, "b*a"),
        ({"ebnf": 'root ::= "a" | "b" root'}, "b*a"),
        ({"structured_outputs": {"json": {"const": [1, 2]}, "disable_any_whitespace": True}}, r"\[1,2\]"),
        ({"structured_outputs": {"json": {"const": [1, 2]}, "whitespace_pattern": r"\n"}}, r"\[\n1\n,\n2\n\]"),
        ({"structured_outputs": {"structural_tag": {"type": "const_string", "value": "tag"}}}, "tag"),
        ({"response_format": {"type": "structural_tag", "format": {"type": "const_string", "value": "t"}}}, "t"),
    ],
    ids=str,
)
def test_texts_are_what_was_asked_for(toy, ask, pattern):
    (choice,) = toy.chat(temperature=0, max_tokens=400, **ask)["choices"]
    assert re.fullmatch(pattern, choice["message"]["content"]), choice
    assert choice["finish_reason"] == "stop"


@pytest.mark.parametrize(
    "ask", [{"response_format": {"type": "json_object"}}, {"structured_outputs": {"json_object": True}}]
)
def test_any_json_object(toy, ask):
    with client_of(ToyModel('{"a": [1, {"b": null}]}')) as client:
        (choice,) = client.chat(temperature=0, **ask)["choices"]
        assert json.loads(choice["message"]["content"]) == {"a": [1, {"b": None}]}


def test_a_recursive_grammar():
    for script in ("((x,y),(x))", "(((((((y)))))))"):
        with client_of(ToyModel(script)) as client:
            (choice,) = client.chat(temperature=0, structured_outputs={"grammar": NESTED})["choices"]
            assert choice["message"]["content"] == script
    with client_of(ToyModel("(x,y))")) as client:
        (choice,) = client.chat(temperature=0, max_tokens=60, structured_outputs={"grammar": NESTED})["choices"]
        text = choice["message"]["content"]
        assert text.startswith("(x,y)") and not text.startswith("(x,y))")


def test_text_is_no_constraint():
    with client_of(ToyModel("free")) as client:
        (choice,) = client.chat(temperature=0, response_format={"type": "text"})["choices"]
        assert choice["message"]["content"] == "free"


@pytest.mark.parametrize(
    ("body", "code", "param"),
    [
        ({"structured_outputs": {"regex": "(a"}}, "regex-unterminated-group", "structured_outputs.regex"),
        ({"structured_outputs": {"regex": r"(a+)+\1"}}, None, "structured_outputs.regex"),
        ({"structured_outputs": {"regex": "a", "choice": ["b"]}}, "several-constraints", "structured_outputs"),
        ({"structured_outputs": {}}, "invalid-request", "structured_outputs"),
        ({"structured_outputs": {"choice": []}}, "bad-choice", "structured_outputs.choice"),
        ({"structured_outputs": {"regex": "a"}, "guided_regex": "b"}, "several-constraints", "guided_regex"),
        ({"structured_outputs": {"grammar": 'start: "a" nope'}}, None, "structured_outputs.grammar"),
        ({"structured_outputs": {"structural_tag": {"type": "nope"}}}, None, "structured_outputs.structural_tag"),
        ({"structured_outputs": {"regex": "a", "disable_any_whitespace": True}}, "invalid-request",
         "structured_outputs.regex"),
        ({"structured_outputs": {"regex": "a", "whitespace_pattern": " "}}, "invalid-request",
         "structured_outputs.regex"),
        ({"structured_outputs": {"json": {"type": "array"}, "whitespace_pattern": "x"}}, "bad-schema-option",
         "structured_outputs.json"),
        ({"response_format": {"type": "yaml"}}, "invalid-request", "response_format.type"),
        ({"response_format": {"type": "json_schema"}}, "invalid-request", "response_format.schema"),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "x"}}}, "invalid-request",
         "response_format.json_schema.schema"),
        ({"response_format": {"type": "json_object", "nope": 1}}, "unknown-parameter", "response_format"),
        ({"response_format": {"type": "json_object", "schema": {"type": "strin"}}}, "invalid-schema",
         "response_format.schema"),
        ({"response_format": {"type": "json_object", "schema": {"allOf": [{"type": "string"}, {"type": "null"}]}}},
         "unsatisfiable-schema", "response_format.schema"),
        ({"nope": 1}, "unknown-parameter", "nope"),
        ({"reasoning_effort": "huge"}, "invalid-request", "reasoning_effort"),
        ({"reasoning_effort": "none", "guiderail": {"max_reasoning_tokens": 5}}, "invalid-request",
         "guiderail.max_reasoning_tokens"),
        ({"guiderail": {"max_reasoning_tokens": -1}}, "invalid-request", "guiderail.max_reasoning_tokens"),
        ({"store": True}, "invalid-request", "store"),
        ({"temperature": -1}, "invalid-request", None),
        ({"top_p": 0}, "invalid-request", None),
        ({"n": 17}, "invalid-request", "n"),
        ({"n": 0}, "invalid-request", "n"),
        ({"max_tokens": 5, "max_completion_tokens": 6}, "invalid-request", None),
        ({"max_tokens": 100_000}, "context-full", "messages"),
        ({"top_logprobs": 2}, "invalid-request", None),
        ({"logit_bias": {"99999": 1}}, "bad-token", "logit_bias"),
        ({"messages": []}, "invalid-request", "messages"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]},
         "unsupported-content", "messages.0.content"),
        ({"messages": [{"role": "user"}]}, "invalid-request", "messages.0.content"),
        ({"messages": [{"role": "user", "content": "a"}, {"role": "tool", "tool_call_id": "1"}]}, "invalid-request",
         "messages.1.content"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "invalid-request", "messages.0.role"),
        ({"tool_choice": "required"}, "invalid-tool", "tool_choice"),
    ],
    ids=lambda value: json.dumps(value)[:60],
)  # fmt: skip
def test_what_is_wrong_is_a_400_with_its_reason(toy, body, code, param):
    error = toy.error(**body)
    assert error["type"] == "invalid_request_error" and error["message"]
    assert code is None or error["code"] == code
    assert param is None or error["param"] == param
    streamed = toy.post(
        "/v1/chat/completions", **{"messages": [{"role": "user", "content": "x"}], **body, "stream": True}
    )
    assert streamed.status_code == 400 and streamed.json()["error"]["code"] == error["code"]


def test_errors_say_where(toy):
    schema = {"type": "object", "properties": {"a": {"type": "strin"}}}
    error = toy.error(response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": schema}})
    assert error["pointer"] == "#/properties/a/type"
    assert toy.error(structured_outputs={"regex": "ab(c"})["span"] == [2, 3]


def test_a_model_of_another_name_is_not_found(toy):
    error = toy.error(status=404, model="gpt-4")
    assert error["code"] == "model-not-found" and "toy" in error["message"]
    assert toy.chat(model="toy", max_tokens=1)["model"] == "toy"


# -- tools ---------------------------------------------------------------------------------------------------------
WEATHER = {"type": "function", "function": {"name": "weather", "description": "The weather.", "strict": True,
           "parameters": {"type": "object", "properties": {"city": {"type": "string", "maxLength": 8}},
                          "required": ["city"], "additionalProperties": False}}}  # fmt: skip
CLOCK = {"type": "function", "function": {"name": "clock"}}
SQL = {"type": "custom", "custom": {"name": "sql", "format": {"type": "grammar", "grammar": {"syntax": "lark",
       "definition": LARK}}}}  # fmt: skip
CODE = {"type": "custom", "custom": {"name": "code", "format": {"type": "grammar", "grammar": {"syntax": "regex",
        "definition": "[ab]{4}"}}}}  # fmt: skip
FREE = {"type": "custom", "custom": {"name": "note", "description": "Writes a note."}}
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>'


def streamed_calls(chunks):
    """Returns content, calls and the finish reason, assembled as clients do."""
    content, calls, reason = "", {}, None
    for chunk in chunks:
        (choice,) = chunk["choices"]
        content += choice["delta"].get("content") or ""
        reason = choice["finish_reason"] or reason
        for call in choice["delta"].get("tool_calls", ()):
            known = calls.setdefault(
                call["index"], {"type": call.get("type"), "id": call.get("id"), "name": "", "text": ""}
            )
            inner = call.get("function") or call.get("custom")
            known["name"] += inner.get("name", "")
            known["text"] += inner.get("arguments", inner.get("input", ""))
    return content, [calls[i] for i in sorted(calls)], reason


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "weather"}}])
def test_a_call_that_is_required_is_made_whatever_the_model_prefers(toy, choice):
    answer = toy.chat(tools=[WEATHER, CLOCK], tool_choice=choice, max_tokens=300, parallel_tool_calls=False)
    (choice,) = answer["choices"]
    assert choice["finish_reason"] == "tool_calls" and choice["message"]["content"] is None
    (call,) = choice["message"]["tool_calls"]
    assert call["type"] == "function" and call["id"].startswith("call_")
    schema = WEATHER if call["function"]["name"] == "weather" else CLOCK
    parameters = schema["function"].get("parameters", {"const": {}})
    assert gr.json_schema(parameters).accepts(json.loads(call["function"]["arguments"]))


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("script", "content", "cities"),
    [
        (CALL, None, ["Oslo"]),
        ("Let me see.\n" + CALL, "Let me see.\n", ["Oslo"]),
        (f"{CALL}\n{CALL.replace('Oslo', 'Rome')}", None, ["Oslo", "Rome"]),
        ("No tool < here.", "No tool < here.", []),
    ],
)
def test_calls_are_read_out_of_the_text(script, content, cities, stream):
    with client_of(ToyModel(script)) as client:
        if stream:
            written, calls, reason = streamed_calls(client.chunks(tools=[WEATHER], temperature=0))
            assert written == (content or "")
            arguments = [call["text"] for call in calls]
            assert all(call["name"] == "weather" and call["id"] for call in calls)
        else:
            (choice,) = client.chat(tools=[WEATHER], temperature=0)["choices"]
            message, reason = choice["message"], choice["finish_reason"]
            assert message["content"] == content
            arguments = [call["function"]["arguments"] for call in message.get("tool_calls", [])]
        assert [json.loads(text) for text in arguments] == [{"city": city} for city in cities]
        assert reason == ("tool_calls" if cities else "stop")


def test_one_call_only_if_calls_are_not_parallel():
    with client_of(ToyModel(f"{CALL}\n{CALL}")) as client:
        (choice,) = client.chat(tools=[WEATHER], temperature=0, parallel_tool_calls=False)["choices"]
        assert len(choice["message"]["tool_calls"]) == 1


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("tool", "name", "text", "pattern"),
    [
        (SQL, "sql", "x,y", "[xy](,[xy])*"),
        (CODE, "code", "abba", "[ab]{4}"),
        (FREE, "note", 'say "hi"\nand <go>', None),
    ],
)
def test_custom_tools_take_raw_text_of_their_grammar(tool, name, text, pattern, stream):
    script = f'<custom_tool_call name="{name}">\n{text}\n</custom_tool_call>'
    choice = {"type": "custom", "custom": {"name": name}}
    with client_of(ToyModel(script)) as client:
        if stream:
            _, calls, reason = streamed_calls(client.chunks(tools=[tool, WEATHER], tool_choice=choice, temperature=0))
            (call,) = calls
            assert (call["type"], call["name"], call["text"]) == ("custom", name, text)
        else:
            (answer,) = client.chat(tools=[tool, WEATHER], tool_choice=choice, temperature=0)["choices"]
            (call,) = answer["message"]["tool_calls"]
            assert call["type"] == "custom" and call["custom"] == {"name": name, "input": text}
            reason = answer["finish_reason"]
        assert reason == "tool_calls"
    if pattern is not None:
        with client_of() as client:
            answer = client.chat(tools=[tool], tool_choice="required", parallel_tool_calls=False, max_tokens=400)
            (call,) = answer["choices"][0]["message"]["tool_calls"]
            assert re.fullmatch(pattern, call["custom"]["input"])


def test_functions_and_custom_tools_side_by_side():
    script = f'Well. {CALL}\n<custom_tool_call name="sql">\ny,x\n</custom_tool_call>'
    with client_of(ToyModel(script)) as client:
        (choice,) = client.chat(tools=[SQL, WEATHER], temperature=0)["choices"]
        assert choice["message"]["content"] == "Well. "
        kinds = [(call["type"], call[call["type"]]["name"]) for call in choice["message"]["tool_calls"]]
        assert kinds == [("function", "weather"), ("custom", "sql")]


def test_a_format_holds_where_no_tool_is_called():
    ask = {"response_format": {"type": "json_schema", "json_schema": {"name": "p", "schema": {"const": {"a": 1}}}}}
    for script, calls in (('{"a": 1}', 0), (CALL, 1), ("free text", 0)):
        with client_of(ToyModel(script)) as client:
            (choice,) = client.chat(tools=[WEATHER], temperature=0, **ask)["choices"]
            message = choice["message"]
            if message.get("tool_calls"):
                assert message["tool_calls"][0]["function"]["name"] == "weather"
            else:
                assert json.loads(message["content"]) == {"a": 1}
            assert len(message.get("tool_calls", [])) >= calls


def test_tools_that_may_not_be_called_are_not():
    with client_of(ToyModel(CALL)) as client:
        (choice,) = client.chat(tools=[WEATHER], tool_choice="none", temperature=0)["choices"]
        assert choice["message"]["content"] == CALL and "tool_calls" not in choice["message"]
        allowed = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [
            {"type": "function", "function": {"name": "clock"}}]}}  # fmt: skip
        (choice,) = client.chat(tools=[WEATHER, CLOCK], tool_choice=allowed, max_tokens=200)["choices"]
        assert {call["function"]["name"] for call in choice["message"]["tool_calls"]} == {"clock"}


def test_a_call_cut_short_by_max_tokens_is_told_as_far_as_it_came():
    with client_of(ToyModel(CALL)) as client:
        for stream in (False, True):
            body = {"tools": [WEATHER], "tool_choice": "required", "temperature": 0, "max_tokens": 30, "logprobs": True}
            if stream:
                _, calls, reason = streamed_calls(client.chunks(**body))
                text = calls[0]["text"] if calls else ""
            else:
                (choice,) = client.chat(**body)["choices"]
                reason = choice["finish_reason"]
                calls = choice["message"].get("tool_calls", [])
                text = calls[0]["function"]["arguments"] if calls else ""
            assert reason == "length" and '{"city": "Oslo"}'.startswith(text)


@pytest.mark.parametrize(
    ("stop", "reason"), [("slo", "stop"), ("}}", "stop"), ("nope", "tool_calls"), (None, "tool_calls")]
)
def test_a_call_cut_by_a_stop_string_is_no_reason(stop, reason):
    with client_of(ToyModel(CALL)) as client:
        body = {"tools": [WEATHER], "temperature": 0, "stop": stop}
        (choice,) = client.chat(**body)["choices"]
        _, calls, told = streamed_calls(client.chunks(**body))
        assert choice["finish_reason"] == told == reason
        assert len(choice["message"]["tool_calls"]) == len(calls) == 1


def told_by_events(events):
    """The items of a response as its events tell them: type, text, status."""
    items = []
    for event in events:
        place = event.get("output_index")
        if event["type"] == "response.output_item.added":
            assert place == len(items)
            items.append([event["item"]["type"], "", None])
        elif event["type"].endswith(".delta"):
            items[place][1] += event["delta"]
        elif event["type"] == "response.output_item.done":
            assert items[place][2] is None, "an item ends once"
            items[place][2] = event["item"]["status"]
    return items


def items_of(response):
    """The items of a response: type, text, status."""
    found = []
    for item in response["output"]:
        text = item["content"][0]["text"] if "content" in item else item.get("arguments", item.get("input"))
        found.append([item["type"], text, item["status"]])
    return found


@pytest.mark.parametrize("tools", [slice(1), slice(2)], ids=["the model's format", "tags"])
@pytest.mark.parametrize("most", [16, 30, 48, 61, 62, 70, 100])
def test_events_of_a_response_say_what_its_items_say(tools, most):
    """Wherever the tokens run out: in a call, between calls, after the last one."""
    with client_of(ToyModel(f"{CALL}\n{CALL}")) as client:
        body = {"input": "x", "temperature": 0, "tools": FLAT[tools], "tool_choice": "required"}
        body |= {"max_output_tokens": most, "guiderail": {"on_incomplete": "return"}}
        events = client.chunks("/v1/responses", **body)
        told = told_by_events(events)
        assert told == items_of(events[-1]["response"])
        assert told == items_of(client.post("/v1/responses", **body).json())
        for kind, text, status in told:
            if kind == "function_call" and status == "completed":
                assert json.loads(text) == {"city": "Oslo"}


def test_no_logprobs_are_lost_in_a_stream_with_calls():
    with client_of(ToyModel(CALL + CALL)) as client:
        body = {"tools": [WEATHER], "temperature": 0, "logprobs": True}
        (choice,) = client.chat(**body)["choices"]
        whole = [one["token"] for one in choice["logprobs"]["content"]]
        told = [
            one["token"]
            for event in client.chunks(**body)
            for one in (event["choices"][0]["logprobs"] or {"content": []})["content"]
        ]
        assert told == whole


@pytest.mark.parametrize(
    ("tools", "param"),
    [
        ([{"type": "function"}], "tools.0"),
        ([{"type": "web_search"}], "tools.0"),
        ([WEATHER, {"type": "function", "function": {"name": "a b"}}], "tools.1.function.name"),
        ([WEATHER, WEATHER], "tools.1"),
        ([{"type": "function", "function": {"name": "a", "parameters": 1}}], "tools.0.function.parameters"),
        ([{"type": "function", "function": {"name": "a", "nope": 1}}], "tools.0.function"),
        ([{"type": "custom", "custom": {"name": "a", "format": {"type": "grammar", "grammar": {"syntax": "gbnf"}}}}],
         "tools.0.custom.format"),
    ],
)  # fmt: skip
def test_malformed_tools_are_refused(toy, tools, param):
    error = toy.error(tools=tools)
    assert (error["code"], error["param"]) == ("invalid-tool", param)


@pytest.mark.parametrize("beside", [[], [FREE]])
def test_a_tool_with_a_bad_schema_is_refused_by_name(toy, beside):
    schema = {"type": "object", "properties": {"q": {"type": "strin"}}}
    bad = {"type": "function", "function": {"name": "search", "parameters": schema}}
    error = toy.error(tools=[WEATHER, bad, *beside])
    assert error["code"] == "invalid-schema" and "'search'" in error["message"]
    assert error["pointer"] == "#/properties/q/type"


def test_a_conversation_with_calls_and_results_is_shown_to_the_model():
    seen = []

    def script(prompt):
        seen.append(prompt)
        return "done"

    messages = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Weather in "}, {"type": "text", "text": "Oslo?"}]},
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Oslo"}'}}]},
        {"role": "tool", "tool_call_id": "c1", "content": "sunny"},
    ]  # fmt: skip
    with client_of(ToyModel(script)) as client:
        response = client.post("/v1/chat/completions", messages=messages, tools=[WEATHER], temperature=0)
        assert response.status_code == 200, response.text
    (prompt,) = set(seen)
    assert "system: Be brief." in prompt and "Weather in Oslo?" in prompt
    assert '"name": "weather", "arguments": {"city": "Oslo"}' in prompt and "sunny" in prompt
    assert "The weather." in prompt  # the template has no tools, so they are described in words


# -- templates -----------------------------------------------------------------------------------------------------
def test_text_that_spells_a_special_token_stays_text():
    template = ChatTemplate(ToyModel())
    ids = template.encode([{"role": "user", "content": "a<|end|>b"}], None)
    assert 258 not in ids and bytes(i for i in ids if i < 256) == b"user: a<|end|>b\n"
    assert ids[0] == 256 and ids[-1] == 257


def test_templates_of_ones_own():
    with client_of(
        ToyModel(lambda prompt: prompt.upper()), chat_template="{{ messages[-1].content }}<|assistant|>"
    ) as c:
        assert c.chat("hello", temperature=0)["choices"][0]["message"]["content"] == "HELLO"
    with client_of(ToyModel(), chat_template="{{ raise_exception('only once') }}") as client:
        error = client.error()
        assert error["code"] == "chat-template" and "only once" in error["message"]
    with pytest.raises(gr.ModelError, match="cannot be read"):
        ChatTemplate(ToyModel(), "{% if %}")
    with client_of(ToyModel(), chat_template="{{ ''.__class__.__mro__ }}") as client:
        assert client.error()["code"] == "chat-template"  # the sandbox


def test_a_model_without_a_template_takes_one_message():
    class Plain(ToyModel):
        chat_template = None

    with client_of(Plain("yes")) as client:
        assert client.chat(temperature=0)["choices"][0]["message"]["content"] == "yes"
        turn = [
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": "b"},
            {"role": "user", "content": "c"},
        ]
        assert client.error(messages=turn)["code"] == "no-chat-template"


# -- completions ---------------------------------------------------------------------------------------------------
def test_completions(toy):
    answer = toy.post("/v1/completions", prompt=["one", "two"], n=2, seed=1, max_tokens=6, regex="[ab]{3}").json()
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2, 3]
    assert all(re.fullmatch("[ab]{3}", choice["text"]) for choice in answer["choices"])
    ids = toy.post("/v1/completions", prompt=list(b"one"), n=2, seed=1, max_tokens=6, regex="[ab]{3}").json()
    assert [c["text"] for c in ids["choices"]] == [c["text"] for c in answer["choices"][:2]]
    chunks = toy.chunks("/v1/completions", prompt="one", n=2, seed=1, max_tokens=6, regex="[ab]{3}")
    texts = ["", ""]
    for chunk in chunks:
        texts[chunk["choices"][0]["index"]] += chunk["choices"][0]["text"]
    assert texts == [c["text"] for c in answer["choices"][:2]]


def test_logprobs_of_completions(toy):
    answer = toy.post("/v1/completions", prompt="one", logprobs=2, regex="[ab]{3}", temperature=0).json()
    (choice,) = answer["choices"]
    told = choice["logprobs"]
    assert "".join(told["tokens"]) == choice["text"] and all(value <= 0 for value in told["token_logprobs"])
    starts = [sum(map(len, told["tokens"][:i])) for i in range(len(told["tokens"]))]
    assert told["text_offset"] == starts and all(len(top) == 2 for top in told["top_logprobs"])


def test_logprobs_of_parts_of_characters():
    """Bytes that are no text have names of their own: all replacement characters would be one entry."""

    class Parts(ToyModel):
        def score(self, row):
            logits = super().score(row)
            logits[[0xE2, 0xF0, 0x9F, ord("a")]] = 1e3, 999, 998, 997
            return logits

    with client_of(Parts("a")) as client:
        body = {"temperature": 0, "max_tokens": 1, "logprobs": True, "top_logprobs": 4}
        (chat,) = client.chat(**body)["choices"][0]["logprobs"]["content"]
        names = ["\\xe2", "\\xf0", "\\x9f", "a"]
        assert [one["token"] for one in chat["top_logprobs"]] == names
        assert [one["bytes"] for one in chat["top_logprobs"]] == [[0xE2], [0xF0], [0x9F], [97]]
        plain = client.post("/v1/completions", prompt="x", temperature=0, max_tokens=1, logprobs=4).json()
        told = plain["choices"][0]["logprobs"]
        assert list(told["top_logprobs"][0]) == [*(f"bytes:{name}" for name in names[:3]), "a"]
        assert told["tokens"] == [chat["token"]] == ["a"]  # the only one with which the text could end in time


@pytest.mark.parametrize("stop", [None, "z"])
def test_offsets_count_characters_of_the_text_however_it_is_told(stop):
    with client_of(ToyModel("aé漢b😀cz")) as client:
        body = {"prompt": "x", "logprobs": 1, "temperature": 0, "max_tokens": 40, "stop": stop}
        (choice,) = client.post("/v1/completions", **body).json()["choices"]
        told = [
            place
            for event in client.chunks("/v1/completions", **body)
            for place in (event["choices"][0]["logprobs"] or {"text_offset": []})["text_offset"]
        ]
        assert told == choice["logprobs"]["text_offset"]
        tokens = "aé漢b😀cz".encode()
        starts = [len(tokens[:i].decode(errors="ignore")) for i in range(len(told))]
        assert told == starts


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"prompt": ""}, "bad-prompt"),
        ({"prompt": []}, "invalid-request"),
        ({"prompt": [70_000]}, "bad-token"),
        ({"prompt": "a", "echo": True}, "invalid-request"),
        ({"prompt": "a", "best_of": 3}, "invalid-request"),
        ({"prompt": ["a"] * 9, "n": 2}, "invalid-request"),
        ({}, "invalid-request"),
    ],
)
def test_completions_refused(toy, body, code):
    assert toy.error("/v1/completions", **body)["code"] == code


# -- responses -----------------------------------------------------------------------------------------------------
def test_responses_with_a_format(toy):
    text = {"format": {"type": "json_schema", "name": "p", "schema": PERSON, "strict": True}}
    answer = toy.post("/v1/responses", input="Who?", text=text, max_output_tokens=300).json()
    assert answer["object"] == "response" and answer["status"] == "completed" and answer["text"] == text
    (item,) = answer["output"]
    assert item["type"] == "message" and item["status"] == "completed"
    assert gr.json_schema(PERSON).accepts(json.loads(item["content"][0]["text"]))
    assert answer["usage"]["total_tokens"] == answer["usage"]["input_tokens"] + answer["usage"]["output_tokens"]


def test_a_response_cut_short_is_incomplete():
    with client_of(ToyModel("a long text")) as client:
        answer = client.post("/v1/responses", input="x", temperature=0, max_output_tokens=4).json()
        assert answer["status"] == "incomplete" and answer["incomplete_details"] == {"reason": "max_output_tokens"}
        assert answer["output"][0]["content"][0]["text"] == "a lo"


FLAT = [
    {"type": "function", **WEATHER["function"]},
    {"type": "custom", "name": "code", "format": {"type": "grammar", "syntax": "regex", "definition": "[ab]{4}"}},
]


def test_events_of_a_response_with_a_call():
    with client_of(ToyModel("So: " + CALL)) as client:
        body = {"input": "x", "temperature": 0, "tools": FLAT[:1]}
        events = client.chunks("/v1/responses", **body)
        assert [event["sequence_number"] for event in events] == list(range(len(events)))
        kinds = [event["type"] for event in events]
        order = [
            "response.created",
            "response.in_progress",
            "response.output_item.added",
            "response.content_part.added",
            "response.output_text.delta",
            "response.output_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.output_item.added",
            "response.function_call_arguments.delta",
            "response.function_call_arguments.done",
            "response.output_item.done",
            "response.completed",
        ]
        assert [kind for i, kind in enumerate(kinds) if i == 0 or kind != kinds[i - 1]] == order
        final = events[-1]["response"]
        message, call = final["output"]
        assert message["content"][0]["text"] == "So: "
        assert call["type"] == "function_call" and json.loads(call["arguments"]) == {"city": "Oslo"}
        deltas = [event["delta"] for event in events if event["type"] == "response.function_call_arguments.delta"]
        assert "".join(deltas) == call["arguments"]
        whole = client.post("/v1/responses", **body).json()
        assert [item["type"] for item in whole["output"]] == ["message", "function_call"]


def test_custom_tools_of_responses(toy):
    choice = {"type": "custom", "name": "code"}
    answer = toy.post("/v1/responses", input="x", tools=FLAT, tool_choice=choice, max_output_tokens=300).json()
    (item,) = answer["output"]
    assert item["type"] == "custom_tool_call" and re.fullmatch("[ab]{4}", item["input"])


def test_the_items_of_a_conversation():
    items = [
        {"role": "user", "content": [{"type": "input_text", "text": "Weather?"}]},
        {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": '{"city": "Oslo"}'},
        {"type": "function_call_output", "call_id": "c1", "output": "sunny"},
    ]
    seen = []
    with client_of(ToyModel(lambda prompt: seen.append(prompt) or "ok")) as client:
        answer = client.post("/v1/responses", input=items, instructions="Be brief.", temperature=0)
        assert answer.json()["output"][0]["content"][0]["text"] == "ok"
    assert all(part in seen[0] for part in ("Be brief.", "Weather?", '"city": "Oslo"', "sunny"))


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"input": "x", "previous_response_id": "resp_1"}, "invalid-request"),
        ({"input": "x", "store": True}, "invalid-request"),
        ({"input": []}, "invalid-request"),
        ({"input": [{"type": "reasoning", "encrypted_content": "x"}]}, "unsupported-content"),
        ({"input": "x", "text": {"format": {"type": "json_schema", "name": "x"}}}, "invalid-request"),
        ({"input": "x", "text": {"nope": 1}}, "unknown-parameter"),
        ({"input": "x", "tools": [{"type": "web_search"}]}, "invalid-tool"),
    ],
)
def test_responses_refused(toy, body, code):
    assert toy.error("/v1/responses", **body)["code"] == code


# -- around them ---------------------------------------------------------------------------------------------------
def test_models_health_and_metrics(toy):
    assert [card["id"] for card in toy.get("/v1/models").json()["data"]] == ["toy"]
    assert toy.get("/v1/models/toy").json()["id"] == "toy"
    assert toy.get("/v1/models/other").status_code == 404
    assert toy.get("/health").json()["status"] == "ok" and toy.get("/ready").status_code == 200
    before = toy.metric("generated_tokens_total"), toy.metric("compile_cache_hits_total")
    for _ in range(2):
        toy.chat(structured_outputs={"regex": "[xyz]{7}"})
    assert toy.metric("generated_tokens_total") >= before[0] + 2
    assert toy.metric("compile_cache_hits_total") == before[1] + 1
    assert toy.metric("mask_seconds_total") > 0 and toy.metric("model_seconds_total") > 0
    text = toy.get("/metrics").text
    for name in ("requests_total", "compile_seconds_bucket", "mask_seconds_total", "active_streams", "texts_total"):
        assert f"guiderail_{name}" in text
    assert 'guiderail_requests_total{path="/v1/chat/completions",status="200"}' in text


def test_unknown_paths_and_methods_have_the_shape_of_errors(toy):
    assert toy.get("/nope").json()["error"]["code"] == "not-found"
    assert toy.get("/v1/chat/completions").json()["error"]["code"] == "method-not-allowed"


def test_bodies_that_are_no_requests(toy):
    for body, code in (
        (b"{", "invalid-json"),
        (b'{"n":1,"n":2}', "invalid-json"),
        (b"[]", "invalid-json"),
        (b"[" * 100_000, "invalid-json"),
    ):
        response = toy.request("POST", "/v1/chat/completions", content=body)
        assert response.status_code == 400 and response.json()["error"]["code"] == code


def test_the_key_is_asked_for():
    with client_of(api_key="secret") as client:
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic secret"}):
            response = client.get("/v1/models", headers=headers)
            assert response.status_code == 401 and response.json()["error"]["type"] == "authentication_error"
        assert client.get("/v1/models", headers={"Authorization": "Bearer secret"}).status_code == 200
        assert client.get("/health").status_code == 200


def test_cors_is_off_unless_asked_for(toy):
    origin = {"Origin": "https://example.org"}
    assert "access-control-allow-origin" not in toy.get("/health", headers=origin).headers
    with client_of(cors_origins=("https://example.org",), api_key="secret") as client:
        allowed = client.get("/health", headers=origin).headers
        assert allowed["access-control-allow-origin"] == "https://example.org"
        asked = client.request(
            "OPTIONS", "/v1/models", headers={**origin, "Access-Control-Request-Method": "GET",
                                              "Access-Control-Request-Headers": "authorization"},
        )  # fmt: skip
        assert asked.status_code == 200
        other = client.get("/health", headers={"Origin": "https://evil.example"}).headers
        assert "access-control-allow-origin" not in other


def test_bodies_beyond_the_limit_are_refused():
    with client_of(max_body_bytes=2000) as client:
        assert client.error(status=413, guided_regex="a" * 3000)["code"] == "body-too-large"
        assert client.chat(max_tokens=1)


@pytest.mark.parametrize(
    "options",
    [{"max_rows": 0}, {"compile_seconds": -1}, {"request_seconds": float("nan")}, {"api_key": ""}, {"fuel": True},
     {"cors_origins": "*"}],
)  # fmt: skip
def test_options_are_checked(options):
    with pytest.raises(gr.ModelError) as caught:
        ServerOptions(**options)
    assert caught.value.code == "bad-option"


def test_the_command(capsys, monkeypatch):
    import uvicorn
    from typer.testing import CliRunner

    from guiderail.cli import app

    ran = {}

    def run(server, sockets):
        ran.update(app=server.config.app, host=server.config.host, port=sockets[0].getsockname()[1])

    monkeypatch.setattr(uvicorn.Server, "run", run)
    monkeypatch.setattr("guiderail.generation.models.load_model", lambda *_, **__: Closable())

    class Closable(ToyModel):
        closed = False

        def close(self):
            self.closed = True

    result = CliRunner().invoke(app, ["serve", "--port", "1234", "--api-key", "k", "--max-rows", "3", "--name", "me"])
    assert result.exit_code == 0, result.output
    assert ran["port"] == 1234 and ran["host"] == "127.0.0.1"
    service = ran["app"].state.service
    assert service.options.api_key == "k" and service.options.max_rows == 3 and service.name == "me"
    assert service.model.closed


def test_a_template_that_knows_tools_is_given_them():
    source = TEMPLATE.replace(
        "{% for m in messages %}", "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}", 1
    )
    seen = []
    with client_of(ToyModel(lambda prompt: seen.append(prompt) or "ok"), chat_template=source) as client:
        client.chat(tools=[WEATHER], temperature=0)
    assert '"name": "weather"' in seen[0] and seen[0].count("The weather.") == 1


def test_two_servers_do_not_mix():
    with client_of(ToyModel("one")) as first, client_of(ToyModel("two")) as second:
        assert isinstance(first, Client)
        assert first.chat(temperature=0)["choices"][0]["message"]["content"] == "one"
        assert second.chat(temperature=0)["choices"][0]["message"]["content"] == "two"
        assert first.metric("prompt_tokens_total") == second.metric("prompt_tokens_total") > 0
