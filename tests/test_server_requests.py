"""Hostile requests: values of wrong types, incomplete characters, bodies too large, too slow, or endless."""

from __future__ import annotations

import copy
import json
import socket
import sys
import time
from urllib.parse import urlsplit

import pytest

import guiderail as gr
from server_support import ToyModel, client_of, httpx, listening

CHAT = "/v1/chat/completions"
FUNCTION = {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}}
CUSTOM = {
    "type": "custom",
    "custom": {"name": "c", "format": {"type": "grammar", "grammar": {"syntax": "lark", "definition": 'start: "a"'}}},
}
CALL = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
REQUESTS = {
    "chat": (CHAT, {
        "model": "toy", "messages": [
            {"role": "system", "content": [{"type": "text", "text": "be kind"}]},
            {"role": "user", "content": "hello", "name": "ada"},
            {"role": "assistant", "content": None, "tool_calls": [CALL]},
            {"role": "tool", "content": "1", "tool_call_id": "1"},
        ],
        "tools": [FUNCTION, CUSTOM], "tool_choice": {"type": "function", "function": {"name": "f"}},
        "max_tokens": 4, "temperature": 0.5, "top_p": 0.9, "top_k": 3, "seed": 1, "n": 1, "stop": ["x"],
        "stream": False, "logprobs": True, "top_logprobs": 2, "logit_bias": {"97": 1.0}, "presence_penalty": 0.5,
        "frequency_penalty": 0.5, "parallel_tool_calls": True, "metadata": {"a": "b"}, "user": "u",
        "guiderail": {"on_incomplete": "return"},
    }),
    "schema": (CHAT, {
        "messages": [{"role": "user", "content": "hello"}], "max_tokens": 4,
        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "strict": True, "schema": {
            "type": "object", "properties": {"a": {"type": "string", "pattern": "^x", "maxLength": 3}},
            "required": ["a"], "additionalProperties": False}}},
    }),
    "structured": (CHAT, {
        "messages": [{"role": "user", "content": "hello"}], "max_tokens": 4,
        "structured_outputs": {"choice": ["a", "b"], "disable_any_whitespace": False},
    }),
    "tag": (CHAT, {
        "messages": [{"role": "user", "content": "hello"}], "max_tokens": 4,
        "response_format": {"type": "structural_tag", "format": {
            "type": "tag", "begin": "<a>", "content": {"type": "json_schema", "json_schema": {"type": "null"}},
            "end": "</a>"}},
    }),
    "completions": ("/v1/completions", {
        "prompt": ["a", "b"], "max_tokens": 3, "n": 2, "logprobs": 1, "stop": "x", "guided_regex": "a+", "echo": False,
        "stream_options": {"include_usage": True},
    }),
    "responses": ("/v1/responses", {
        "input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
                  {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"},
                  {"type": "function_call_output", "call_id": "1", "output": "2"}],
        "instructions": "be kind", "max_output_tokens": 4, "text": {"format": {"type": "json_object"}},
        "tools": [{"type": "function", "name": "g", "parameters": {"type": "object"}}], "tool_choice": "auto",
    }),
}  # fmt: skip
ODD = ["null", "true", "0", "-1", "1.5", "1e999", "1e30", "9" * 400, '""', '"x"', '"\\u0000"', "[]", "{}", "[[]]",
       "[null]", '[{"type": 5}]', '{"type": []}', '{"": {"": []}}', '["\\ud800"]']  # fmt: skip


def places(value, path=()):
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        yield from places(one, (*path, key))


def changed(body: dict, path: tuple, odd: str) -> str:
    made = copy.deepcopy(body)
    holder = made
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = "@odd@"
    return json.dumps(made).replace('"@odd@"', odd)


@pytest.mark.parametrize("name", REQUESTS)
def test_a_value_of_a_wrong_type_is_a_400_wherever_it_stands(name):
    path, body = REQUESTS[name]
    with client_of(ToyModel("a")) as client:
        first = client.post(path, **body)
        assert first.status_code == 200, first.text
        for at in places(body):
            for odd in ODD if at else ():
                sent = changed(body, at, odd)
                answer = client.request("POST", path, content=sent)
                if answer.status_code != 200:
                    error = answer.json()["error"]
                    allowed = (400, 404) if at == ("model",) else (400,)
                    assert answer.status_code in allowed and error["code"] and error["message"], (at, odd, answer.text)
                    if "ud800" in odd:
                        assert error["code"] == "lone-surrogate"
                elif "ud800" in odd:
                    raise AssertionError(f"{at}: half of a character is accepted")


BAD_BODIES = [
    (b"", "invalid-json"),
    (b"[]", "invalid-json"),
    (b"null", "invalid-json"),
    (b"{", "invalid-json"),
    (b'{"messages": NaN}', "invalid-json"),
    (b'{"messages": -Infinity}', "invalid-json"),
    (b'{"messages": ' + b"[" * 200_000, "invalid-json"),
    (b'{"n": ' + b"1" * 5000 + b"}", "invalid-json"),
    (b'\xff\xfe{"messages": 1}', "invalid-json"),
    ('{"messages": 1}'.encode("utf-16"), "invalid-json"),
    (b'{"messages": "\xed\xa0\x80"}', "invalid-json"),
    (b'{"messages": [{"role": "user", "content": "ab\\ud83dcd"}]}', "lone-surrogate"),
    (b'{"\\udc00": 1}', "lone-surrogate"),
]


@pytest.mark.parametrize(("body", "code"), BAD_BODIES, ids=[str(i) for i in range(len(BAD_BODIES))])
def test_bodies_that_are_no_json_are_told_so(body, code):
    with client_of() as client:
        answer = client.request("POST", CHAT, content=body)
        assert answer.status_code == 400 and answer.json()["error"]["code"] == code


def test_half_of_a_pair_is_refused_with_its_place_and_a_pair_is_not():
    with client_of(ToyModel(lambda prompt: prompt[-3:-1])) as client:
        bad = b'{"messages": [{"role": "user", "content": [{"type": "text", "text": "ab\\ud83d"}]}]}'
        error = client.request("POST", CHAT, content=bad).json()["error"]
        assert (
            error["param"] == "messages.0.content.0.text" and error["span"] == [2, 3] and "U+D83D" in error["message"]
        )
        good = b'{"messages": [{"role": "user", "content": "\\ud83d\\ude00"}], "max_tokens": 9}'
        assert client.request("POST", CHAT, content=b"\xef\xbb\xbf" + good).status_code == 200


# -- on a socket ---------------------------------------------------------------------------------------------------
def received(client: socket.socket) -> bytes:
    client.settimeout(20)
    found = b""
    while piece := client.recv(65536):
        found += piece
    return found


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_that_is_too_large_is_told_so_before_the_connection_ends(chunked):
    with listening(ToyModel(), max_body_bytes=100_000) as (base, _):
        body = b" " * (10 << 20)

        def pieces():
            for i in range(0, len(body), 1 << 16):
                yield body[i : i + (1 << 16)]

        for _ in range(3):
            answer = httpx.post(base + CHAT, content=pieces() if chunked else body, timeout=20)
            assert answer.status_code == 413 and answer.json()["error"]["code"] == "body-too-large"


def test_bodies_and_heads_that_come_by_drops_are_408():
    with listening(ToyModel(), body_seconds=0.4, head_seconds=0.4) as (base, _):
        place = urlsplit(base)
        head = f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n".encode()
        for sent, drop in ((head, b" "), (b"POST ", b"x"), (b"", b"")):
            with socket.create_connection((place.hostname, place.port), timeout=20) as client:
                client.sendall(sent)
                until = time.monotonic() + 0.7
                while drop and time.monotonic() < until:
                    try:
                        client.sendall(drop)
                    except OSError:
                        break
                    time.sleep(0.1)
                answer = received(client)
            assert answer.startswith(b"HTTP/1.1 408"), answer
            if sent == head:
                assert b"body-timeout" in answer
        assert httpx.get(base + "/health", timeout=20).status_code == 200


def test_a_client_that_does_not_read_is_cut_off():
    with listening(ToyModel("x" * 4000), write_seconds=0.4) as (base, service):
        place = urlsplit(base)
        body = {"messages": [{"role": "user", "content": "x"}], "stream": True,
                "max_tokens": 4000, "logprobs": True, "top_logprobs": 20, "temperature": 0}  # fmt: skip
        body = json.dumps(body).encode()
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect((place.hostname, place.port))
            client.sendall(b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (CHAT.encode(), len(body)))
            client.sendall(body)
            gone = False
            until = time.monotonic() + 20
            while not gone and time.monotonic() < until:
                time.sleep(0.2)
                sample = service.metrics.registry.get_sample_value
                gone = sample("guiderail_active_streams") == 0 and service.engine.load == (0, 0)
            assert gone


@pytest.fixture(scope="module")
def toy():
    with client_of(ToyModel()) as client:
        yield client


TOOL = {"type": "function", "function": {"name": "weather"}}


# -- the form of a request, in plain words --------------------------------------------------------------------------
FORMS = [
    (CHAT, {"messages": [{"role": "robot", "content": "x"}]}, "messages.0.role", "#/messages/0/role",
     ["must be", '"system"', 'not "robot"']),
    (CHAT, {"messages": []}, "messages", "#/messages", ["a list of at least 1, not an empty list"]),
    (CHAT, {"messages": 3}, "messages", "#/messages", ["must be a list, not 3"]),
    (CHAT, {"messages": ["x"]}, "messages.0", "#/messages/0", ["must be an object", 'not "x"']),
    (CHAT, {}, "messages", "#/messages", ["is required, but missing"]),
    (CHAT, {"max_token": 3}, "max_token", "#/max_token", ["is not known", "did you mean max_tokens?"]),
    (CHAT, {"structured_outputs": {"regexp": "a"}}, "structured_outputs.regexp", "#/structured_outputs/regexp",
     ["did you mean regex?"]),
    (CHAT, {"guiderail": {"log_wieght": True}}, "guiderail.log_wieght", "#/guiderail/log_wieght",
     ["did you mean log_weight?"]),
    (CHAT, {"response_format": {"type": "json_schema", "json_schema": {"shema": {}}}}, "response_format.json_schema",
     "#/response_format/json_schema", ["shema is not known", "did you mean schema?"]),
    (CHAT, {"tools": [{"type": "function", "function": {"name": "f", "params": {}}}]}, "tools.0.function",
     "#/tools/0/function", ["params is not known", "did you mean parameters?"]),
    (CHAT, {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "wether"}}}, "tool_choice",
     "#/tool_choice", ["there is no tool 'wether'; did you mean 'weather'?"]),
    (CHAT, {"tools": [TOOL], "tool_choice": {"type": "custom", "custom": {"name": "weather"}}}, "tool_choice",
     "#/tool_choice", ["the tool 'weather' is not of the type custom"]),
    (CHAT, {"tools": [TOOL], "tool_choice": {"type": "tool"}}, "tool_choice", "#/tool_choice",
     ["there is no such tool: {", "name one of weather"]),
    (CHAT, {"a/b~c": 3}, "a/b~c", "#/a~1b~0c", ["is not known"]),
    (CHAT, {"n" * 5000: 1}, None, None, ["is not known"]),
    (CHAT, {"temperature": "hot"}, "temperature", "#/temperature", ["an integer or a number", 'not "hot"']),
    (CHAT, {"temperature": -1}, "temperature", "#/temperature", ["at least 0", "not -1"]),
    (CHAT, {"top_p": 0}, "top_p", "#/top_p", ["more than 0"]),
    (CHAT, {"max_tokens": 0}, "max_tokens", "#/max_tokens", ["at least 1, not 0"]),
    (CHAT, {"stop": [1]}, "stop.0", "#/stop/0", ["must be a string, not 1"]),
    (CHAT, {"stop": 1}, "stop", "#/stop", ["must be a string or a list, not 1"]),
    (CHAT, {"stop": ["x"] * 65}, "stop", "#/stop", ["a list of at most 64", "not a list of 65"]),
    (CHAT, {"store": True}, "store", "#/store", ["must be false, not true"]),
    (CHAT, {"audio": {}}, "audio", "#/audio", ["left out"]),
    (CHAT, {"logit_bias": {"1": "x"}}, "logit_bias.1", "#/logit_bias/1", ["an integer or a number"]),
    (CHAT, {"stream_options": {"x": 1}}, "stream_options.x", "#/stream_options/x", ["not known"]),
    (CHAT, {"n": 10**30}, None, None, []),
    (CHAT, {"guiderail": {"on_incomplete": "x" * 99}}, "guiderail.on_incomplete", "#/guiderail/on_incomplete",
     ["a text of 99 characters"]),
    (CHAT, {"max_tokens": 1, "max_completion_tokens": 2}, None, None, ["give one of them"]),
    (CHAT, {"tool_choice": "required"}, "tool_choice", "#/tool_choice", []),
    ("/v1/completions", {"prompt": [1, "x"]}, None, None, []),
    ("/v1/completions", {"prompt": "a", "echo": True}, "echo", "#/echo", ["must be false, not true"]),
    ("/v1/responses", {"input": "a", "include": [{}]}, "include.0", "#/include/0",
     ['must be "reasoning.encrypted_content", not an empty object']),
    ("/v1/responses", {"input": "a", "store": True}, "store", "#/store", ["must be false"]),
    (CHAT, {"response_format": {"type": "json_schema", "json_schema": {"schema": {}, "name": 5}}},
     "response_format.json_schema.name", "#/response_format/json_schema/name", ["must be a string"]),
    (CHAT, {"response_format": {"type": "json_schema", "schema": {}, "strict": "yes"}}, "response_format.strict",
     "#/response_format/strict", ["must be true or false"]),
    ("/v1/responses", {"input": "a", "text": {"format": {"type": "json_schema", "schema": {}, "description": []}}},
     "text.format.description", "#/text/format/description", ["must be a string"]),
    ("/v1/responses", {"input": [{"type": "custom_tool_call", "name": "f", "input": 5}]}, "input.0", "#/input/0",
     ["input.0.custom.input", "must be a string"]),
    ("/v1/responses", {"input": [{"type": "function_call", "arguments": ""}]}, "input.0", "#/input/0", ["not a call"]),
    ("/v1/responses", {"input": [{"type": "function_call", "name": "f", "arguments": "{"}]}, "input.0", "#/input/0",
     ["not JSON"]),
]  # fmt: skip


@pytest.mark.parametrize(("path", "body", "param", "pointer", "words"), FORMS, ids=lambda value: str(value)[:50])
def test_what_is_wrong_with_a_form_is_said_plainly(toy, path, body, param, pointer, words):
    if path == CHAT and body and "messages" not in body:
        body = {"messages": [{"role": "user", "content": "x"}], **body}
    response = toy.post(path, **body)
    assert response.status_code == 400, response.text
    error = response.json()["error"]
    assert len(error["message"]) < 400 and "Input should" not in error["message"]
    assert all(word in error["message"] for word in words), error["message"]
    assert pointer is None or (error["pointer"], error["param"]) == (pointer, param)
    assert pointer is None or error["message"].startswith((pointer, param))


def tag_text(text):
    return {"structured_outputs": {"structural_tag": text}}


def turns(arguments):
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": arguments}}
    return {"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "tool_calls": [call]}]}


HALF = "\\ud800"  # as JSON escapes it, inside a text of the request
TEXTS_INSIDE = {
    "a tag that is no JSON": (tag_text("{"), "structural-tag", "structured_outputs.structural_tag"),
    "no tag": (tag_text(""), "structural-tag", "structured_outputs.structural_tag"),
    "a word as a tag": (tag_text("a"), "structural-tag", "structured_outputs.structural_tag"),
    "a number as a tag": (tag_text("9" * 5000), "structural-tag", "structured_outputs.structural_tag"),
    "a deep tag": (tag_text("[" * 100_000), "depth", "structured_outputs.structural_tag"),
    "an endless token id": ({"logit_bias": {"9" * 5000: 1}}, "bad-token", "logit_bias"),
    "a token id of other digits": ({"logit_bias": {"²": 1}}, "bad-token", "logit_bias"),
    "a token id of Arabic digits": ({"logit_bias": {"٣": 1}}, "bad-token", "logit_bias"),
    "a token id after zeros": ({"logit_bias": {"007": 1, "7": 2}}, "bad-token", "logit_bias"),
    "half a character in Lark": (
        {"structured_outputs": {"grammar": f'start: %regex {{"substring_chars": "{HALF}"}}'}},
        "lone-surrogate",
        "structured_outputs.grammar",
    ),
    "half a character in arguments": (turns(f'{{"a": ["{HALF}"]}}'), "lone-surrogate",
                                      "messages.1.tool_calls.0.function.arguments.a.0"),
    "half a character as arguments": (turns(f'"{HALF}"'), "lone-surrogate",
                                      "messages.1.tool_calls.0.function.arguments"),
    "arguments of too many digits": (turns("9" * 5000), "invalid-request", "messages.1.tool_calls.0"),
    "arguments that are no number": (turns('{"a": NaN}'), "invalid-request", "messages.1.tool_calls.0"),
    "an argument given twice": (turns('{"a": 1, "a": 2}'), "invalid-request", "messages.1.tool_calls.0"),
    "arguments that are no text": (turns(5), "invalid-request", "messages.1.tool_calls.0"),
    "arguments in a list": (turns([{}]), "invalid-request", "messages.1.tool_calls.0"),
}  # fmt: skip


@pytest.mark.parametrize("name", TEXTS_INSIDE)
def test_a_text_inside_a_request_that_cannot_be_read_is_a_400(toy, name):
    body, code, param = TEXTS_INSIDE[name]
    error = toy.error(**body)
    assert (error["code"], error["param"]) == (code, param)
    assert len(error["message"]) < 400


def test_a_length_of_five_thousand_digits_is_too_large(toy):
    answer = toy.request("POST", CHAT, content=b"{}", headers={"Content-Length": "9" * 5000})
    assert answer.status_code == 413 and answer.json()["error"]["code"] == "body-too-large"


# -- the command -----------------------------------------------------------------------------------------------------
def serve(*arguments):
    from typer.testing import CliRunner

    from guiderail.cli import app

    return CliRunner().invoke(app, ["serve", *arguments])


def test_an_address_in_use_is_said_before_anything_is_loaded(monkeypatch):
    monkeypatch.setattr("guiderail.generation.models.load_model", lambda *_, **__: pytest.fail("the model was loaded"))
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        result = serve("--port", str(other.getsockname()[1]))
    assert isinstance(result.exception, gr.ModelError) and result.exception.code == "bad-address"
    assert "in use" in result.exception.message and "--port" in result.exception.message
    result = serve("--host", "no.such.host.invalid", "--port", "0")
    assert isinstance(result.exception, gr.ModelError) and result.exception.code == "bad-address"


def test_a_tool_format_that_is_none_is_refused_at_the_start(monkeypatch):
    monkeypatch.setattr("guiderail.generation.models.load_model", lambda *_, **__: pytest.fail("the model was loaded"))
    result = serve("--tool-format", "nope", "--port", "0")
    assert isinstance(result.exception, gr.ModelError) and result.exception.code == "bad-option"
    assert "nope" in result.exception.message and "hermes" in result.exception.message


def test_no_tokens_are_not_the_default_number_of_tokens():
    from typer.testing import CliRunner

    from guiderail.cli import app

    result = CliRunner().invoke(app, ["generate", "--prompt", "hello", "--regex", "a+", "--max-tokens", "0"])
    assert isinstance(result.exception, gr.ModelError), result.output
    assert result.exception.code == "bad-option"


@pytest.mark.parametrize(("method", "path", "status"), [("POST", "/v1/completion", 404), ("GET", CHAT, 405)])
def test_other_endpoints_are_answered_with_those_there_are(method: str, path: str, status: int) -> None:
    with client_of(ToyModel("a")) as client:
        answer = client.request(method, path)
    assert answer.status_code == status
    message = answer.json()["error"]["message"]
    assert f"there is no {method} {path!r} here" in message and "POST /v1/chat/completions" in message


@pytest.mark.parametrize("stream", [False, True])
def test_arguments_may_have_numbers_of_any_size(stream):
    """The limit that Python sets for the digits of an integer is lowered, because toys write one digit at a time."""
    arguments = f'{{"n": {"7" * 700}}}'
    tool = {"type": "function", "function": {"name": "f", "parameters": {"properties": {"n": {"type": "integer"}}}}}
    script = f'<tool_call>\n{{"name": "f", "arguments": {arguments}}}\n</tool_call>'
    ask = {"tools": [tool], "temperature": 0, "max_tokens": 1000}
    most = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(640)
    try:
        with client_of(ToyModel(script)) as client:
            if stream:
                calls = [c for e in client.chunks(**ask) for c in e["choices"][0]["delta"].get("tool_calls", [])]
                assert "".join(call["function"]["arguments"] for call in calls) == arguments
            else:
                (call,) = client.chat(**ask)["choices"][0]["message"]["tool_calls"]
                assert call["function"]["arguments"] == arguments
    finally:
        sys.set_int_max_str_digits(most)
