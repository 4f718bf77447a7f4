"""``/inspect``: pages about a server's texts, and access to them."""

from __future__ import annotations

import base64
import json
import time

import pytest

import guiderail as gr
from guiderail.server import ServerOptions
from server_support import ToyModel, client_of

LOCAL = {"Host": "localhost:8000"}
ASK = {"X-Guiderail-Inspect": "1"}
PLACE = "x-guiderail-inspect"
CHAT = "/v1/chat/completions"


def body(text="hello", **more):
    return {"messages": [{"role": "user", "content": text}], "temperature": 0, **more}


def posted(client, headers=None, path=CHAT, **more):
    response = client.request("POST", path, json=more or body(), headers=headers or {})
    assert response.status_code == 200, response.text
    return response


def record_at(client, place, number=0, headers=LOCAL):
    response = client.get(f"{place}/{number}/json", headers=headers)
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "application/json"
    return json.loads(response.text)


# -- storage -------------------------------------------------------------------------------------------------------
def test_nothing_is_kept_unless_the_server_was_told_to():
    with client_of() as client:
        assert PLACE not in posted(client).headers
        assert client.get("/inspect", headers=LOCAL).status_code == 404
        response = client.request("POST", CHAT, json=body(), headers=ASK)
        assert response.status_code == 400 and response.json()["error"]["code"] == "inspect-off"
        assert posted(client, {"X-Guiderail-Inspect": "0"})
        assert client.service.inspections is None


def test_who_asks_gets_a_page_of_what_the_model_wanted():
    with client_of(ToyModel("maybe"), inspect="asked") as client:
        assert PLACE not in posted(client).headers
        answer = posted(client, ASK, **body("yes or no?", guided_choice=["yes indeed", "no"]))
        place = answer.headers[PLACE]
        found = record_at(client, place)
        assert found["text"] == answer.json()["choices"][0]["message"]["content"]
        assert "yes or no?" in found["prompt"] and found["model"] == "toy" and found["matched"]
        assert found["finish"] == "complete"
        first = found["steps"][0]
        assert first["how"] == "chosen" and first["allowed"] == 2 and first["size"] == client.model.vocabulary.size
        assert first["blocked"][0][1] == "m" and first["blocked"][0][2] > 0.99 and first["removed"] > 0.99
        assert {c[1] for c in first["candidates"]} == {"y", "n"}
        assert all(step["how"] == "forced" for step in found["steps"][1:])
        shown = client.get(place, headers=LOCAL)
        assert shown.status_code == 200 and shown.text.startswith("<!doctype html>")
        assert shown.headers["cache-control"] == "no-store" and "default-src 'none'" in shown.headers[
            "content-security-policy"
        ]  # fmt: skip
        listed = client.get("/inspect", headers=LOCAL).text
        assert place not in listed, "only who has the address finds it"


def test_the_record_is_that_of_a_replay():
    schema = {"type": "object", "properties": {"a": {"enum": ["xy", "z"]}}, "required": ["a"],
              "additionalProperties": False}  # fmt: skip
    with client_of(ToyModel('{ "a": "z"}'), inspect="all") as client:
        place = posted(client, **body(guided_json=schema)).headers[PLACE]
        found = record_at(client, place)
        constraint = gr.json_schema(json.dumps(schema), property_order="declared", layout="spaced")
        tokens = [step["token"] for step in found["steps"]]
        replayed = json.loads(gr.inspect.replay(constraint, tokens, vocabulary=client.model.vocabulary).to_json())
        for mine, theirs in zip(found["steps"], replayed["steps"], strict=True):
            for name in ("token", "allowed", "expected", "place", "forced_text", "no_choice"):
                assert mine.get(name) == theirs.get(name), name
        assert found["source"] == replayed["source"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("path", "request_body"),
    [
        (CHAT, body()),
        ("/v1/completions", {"prompt": "hello", "temperature": 0}),
        ("/v1/responses", {"input": "hello", "temperature": 0}),
    ],
)
def test_every_interface_and_streams(path, request_body, stream):
    with client_of(ToyModel("fine"), inspect="asked") as client:
        answer = posted(client, ASK, path, **request_body, stream=stream)
        found = record_at(client, answer.headers[PLACE])
        assert found["steps"] and (path == "/v1/completions" or found["text"] == "fine")
        assert found["finish"] in ("stop", "length")


def test_the_last_ones_are_listed_and_only_so_many_kept():
    with client_of(ToyModel(lambda prompt: "<b>" + prompt[-3:-1]), inspect="all", inspect_texts=3) as client:
        places = [posted(client, **body(f"number {i:02d}")).headers[PLACE] for i in range(5)]
        record_at(client, places[-1])
        listed = client.get("/inspect", headers=LOCAL)
        assert [p in listed.text for p in places] == [False, False, True, True, True]
        assert "<b>" not in listed.text and "&lt;b&gt;04" in listed.text
        assert "default-src 'none'" in listed.headers["content-security-policy"]
        assert listed.text.index(places[4]) < listed.text.index(places[2])
        assert client.get(places[0], headers=LOCAL).status_code == 404
        assert PLACE not in posted(client, {"X-Guiderail-Inspect": "0"}, **body("secret")).headers
        time.sleep(0.1)
        assert "secret" not in "".join(kept.json() for kept in client.service.inspections.recent())
        assert client.metric("requests_total", path="/inspect", status="200") >= 1


def test_several_texts_of_a_request():
    with client_of(inspect="asked") as client:
        place = posted(client, ASK, **{**body(n=3, max_tokens=6), "temperature": 1.0, "seed": 4}).headers[PLACE]
        records = [record_at(client, place, number) for number in range(3)]
        assert len({r["text"] for r in records}) > 1
        listed = client.get(place, headers=LOCAL).text
        assert all(f"{place}/{number}" in listed for number in range(3))
        assert client.get(f"{place}/3", headers=LOCAL).status_code == 404


def test_long_texts_are_looked_into_at_their_beginning():
    with client_of(ToyModel("x" * 50), inspect="all", inspect_tokens=10) as client:
        found = record_at(client, posted(client).headers[PLACE])
        assert len(found["steps"]) == 10 and found["text"] == "x" * 50 and found["unread"] == "x" * 40


def test_stop_strings_and_cut_texts():
    with client_of(ToyModel("one two three"), inspect="all") as client:
        stopped = record_at(client, posted(client, **body(stop="tw")).headers[PLACE])
        assert stopped["finish"] == "stop-string"
        cut = record_at(client, posted(client, **body(max_tokens=3)).headers[PLACE])
        assert cut["finish"] == "length" and cut["text"] == "one"
        whole = record_at(client, posted(client).headers[PLACE])
        assert whole["finish"] == "stop" and whole["text"] == "one two three" and whole["steps"][-1]["is_stop"]


def test_special_tokens_of_tool_calls_are_in_the_text():
    tool = {"type": "function", "function": {"name": "clock"}}
    with client_of(ToyModel(), inspect="all") as client:
        answer = posted(client, **body(tools=[tool], tool_choice="required", parallel_tool_calls=False))
        found = record_at(client, answer.headers[PLACE])
        assert "<tool_call>" in found["text"] and answer.json()["choices"][0]["message"]["tool_calls"]


# -- access ------------------------------------------------------------------------------------------------------
def test_the_key_is_asked_for():
    with client_of(inspect="all", api_key="secret") as client:
        bearer = {"Authorization": "Bearer secret"}
        place = posted(client, bearer).headers[PLACE]
        basic = {"Authorization": "Basic " + base64.b64encode(b"anyone:secret").decode()}
        for path in ("/inspect", place, f"{place}/0", f"{place}/0/json"):
            refused = client.get(path, headers=LOCAL)
            assert refused.status_code == 401 and refused.headers["www-authenticate"].startswith("Basic")
            for wrong in ("Basic " + base64.b64encode(b"secret:x").decode(), "Basic ***", "Bearer x", "Digest secret"):
                assert client.get(path, headers={"Authorization": wrong}).status_code == 401
            assert client.get(path, headers=bearer).status_code == 200
            assert client.get(path, headers=basic).status_code == 200
        response = client.request("POST", CHAT, json=body(), headers=basic)
        assert response.status_code == 401, "Basic is for pages only"


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200), ("localhost:8000", 200), ("127.0.0.1:8000", 200), ("[::1]:8000", 200), ("127.1.2.3", 200),
        ("evil.example", 403), ("localhost.evil.example", 403), ("192.168.0.7:8000", 403), ("[::1", 403), ("", 403),
        ("evil@localhost.example", 403), ("0.0.0.0", 403),
    ],
)  # fmt: skip
def test_without_a_key_only_this_machine_may_look_by_its_own_name(host, status):
    with client_of(inspect="all") as client:
        assert client.get("/inspect", headers={"Host": host}).status_code == status


def test_without_a_key_other_machines_may_not_look():
    import asyncio

    from guiderail.server.http import Gate

    sent = []

    async def send(message):
        sent.append(message)

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})

    with client_of(inspect="all") as client:
        gate = Gate(app, None, client.service.metrics)
        for peer, status in (("10.0.0.9", 403), ("127.0.0.1", 200), ("::1", 200)):
            scope = {"type": "http", "path": "/inspect", "method": "GET", "headers": [(b"host", b"localhost")],
                     "client": (peer, 1)}  # fmt: skip
            sent.clear()
            asyncio.run(gate(scope, None, send))
            assert sent[0]["status"] == status, peer


@pytest.mark.parametrize("wish", ["yes", "", "2"])
def test_a_header_that_says_neither_is_refused(wish):
    with client_of(inspect="asked") as client:
        response = client.request("POST", CHAT, json=body(), headers={"X-Guiderail-Inspect": wish})
        assert response.status_code == 400 and response.json()["error"]["param"] == "X-Guiderail-Inspect"


@pytest.mark.parametrize("number", ["9", "9" * 5000, "-1", "x", "²"])
def test_a_number_that_no_text_has_is_not_found(number):
    with client_of(ToyModel("fine"), inspect="all") as client:
        place = posted(client).headers[PLACE]
        for path in (f"{place}/{number}", f"{place}/{number}/json"):
            assert client.get(path, headers=LOCAL).status_code == 404


def test_options_are_checked():
    for wrong in ({"inspect": "some"}, {"inspect_texts": 0}, {"inspect_tokens": True}):
        with pytest.raises(gr.ModelError, match="inspect"):
            ServerOptions(**wrong)


def test_a_record_that_cannot_be_made_costs_nobody_an_answer(monkeypatch, caplog):
    from guiderail.server import inspection

    def broken(*_, **__):
        raise RuntimeError("broken")

    with client_of(ToyModel("fine"), inspect="all") as client:
        monkeypatch.setattr(inspection, "Recorder", broken)
        answer = posted(client)
        assert answer.json()["choices"][0]["message"]["content"] == "fine"
        assert client.get(answer.headers[PLACE], headers=LOCAL).status_code == 404
        assert "a record could not be made" in caplog.text
        monkeypatch.undo()
        assert record_at(client, posted(client).headers[PLACE])["text"] == "fine"
