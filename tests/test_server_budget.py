"""Server texts are complete within ``max_tokens``."""

from __future__ import annotations

import json
import re
import threading

import numpy as np
import pytest

import guiderail as gr
from guiderail.generation.sampling import Sampling
from guiderail.server.rows import Delta, Failed, Finished, Job, Row
from server_support import VOCABULARY, ToyModel, client_of

PROMISE = {"guiderail": {"on_incomplete": "finish"}}
WITHOUT = {"guiderail": {"on_incomplete": "return"}}
LIST = {"type": "array", "items": {"type": "string"}, "minItems": 2}
WEATHER = {"type": "function", "function": {"name": "weather", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"],
    "additionalProperties": False}}}  # fmt: skip


@pytest.fixture(scope="module")
def endless():
    """A model that never chooses to end."""
    with client_of(ToyModel('["' + "x" * 3000)) as client:
        yield client


COMPACT = {"json": LIST, "disable_any_whitespace": True}
SHORTEST = '[": ",": "]'  # one token each: [  ": "  ,  ": "  ]
LEAST = 5


@pytest.mark.parametrize("limit", [8, 9, 15, 40, 111])
@pytest.mark.parametrize("temperature", [0, 1])
def test_json_is_complete_within_max_tokens(endless, limit, temperature):
    body = {"temperature": temperature, "seed": limit, "max_tokens": limit, "structured_outputs": {"json": LIST}}
    answer = endless.chat(**body)
    (choice,) = answer["choices"]
    value = json.loads(choice["message"]["content"])  # valid, but not the model's choice: the answer says so
    assert gr.json_schema(LIST).accepts(value) and choice["finish_reason"] == "length"
    assert answer["usage"]["completion_tokens"] <= limit
    if temperature == 0 and limit > 20:
        assert len(value[0]) > limit - 20  # nothing is cut unnecessarily


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/responses"])
@pytest.mark.parametrize("stream", [False, True])
def test_the_other_interfaces(endless, path, stream):
    if path.endswith("completions"):
        body = {"prompt": ["a<|assistant|>", "b"], "max_tokens": 20, "structured_outputs": {"json": LIST}, "n": 2}
    else:
        body = {"input": "a", "max_output_tokens": 20, "structured_outputs": {"json": LIST}}
    if stream:
        events = endless.chunks(path, **body)
        texts = dict.fromkeys(range(4), "") if path.endswith("completions") else {0: ""}
        for event in events:
            if "choices" in event:
                texts[event["choices"][0]["index"]] += event["choices"][0]["text"]
            elif event["type"] == "response.output_text.delta":
                texts[0] += event["delta"]
        found = list(texts.values())
    else:
        answer = endless.post(path, **body).json()
        if path.endswith("completions"):
            found = [choice["text"] for choice in answer["choices"]]
        else:
            assert answer["status"] == "incomplete"
            assert answer["incomplete_details"] == {"reason": "max_output_tokens"}
            found = [answer["output"][0]["content"][0]["text"]]
    assert len(found) == (4 if path.endswith("completions") else 1)
    assert all(gr.json_schema(LIST).accepts(json.loads(text)) for text in found)


@pytest.mark.parametrize("choice", ["required", "auto"])
def test_calls_are_complete(choice):
    call = '<tool_call>\n{"name": "weather", "arguments": {"city": "' + "O" * 500
    with client_of(ToyModel(call)) as client:
        (found,) = client.chat(tools=[WEATHER], tool_choice=choice, temperature=0, max_tokens=90)["choices"]
        (made,) = found["message"]["tool_calls"]
        assert re.fullmatch("O{10,}", json.loads(made["function"]["arguments"])["city"])
        assert found["finish_reason"] == "length"  # the arguments are not the model's choice


def test_what_cannot_be_complete_is_cut(endless):
    """As OpenAI's clients expect; ``return`` always requests just that."""
    body = {"temperature": 0, "structured_outputs": COMPACT}
    (choice,) = endless.chat(max_tokens=LEAST - 1, **body)["choices"]
    assert (choice["finish_reason"], choice["message"]["content"]) == ("length", '["xx')
    (choice,) = endless.chat(max_tokens=LEAST, **body)["choices"]
    assert (choice["finish_reason"], choice["message"]["content"]) == ("length", SHORTEST)
    (choice,) = endless.chat(max_tokens=50, **body, **WITHOUT)["choices"]
    assert (choice["finish_reason"], choice["message"]["content"]) == ("length", '["' + "x" * 48)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/v1/chat/completions", "max_tokens"),
        ("/v1/chat/completions", "max_completion_tokens"),
        ("/v1/completions", "max_tokens"),
        ("/v1/responses", "max_output_tokens"),
    ],
)
def test_a_promise_that_cannot_be_kept_is_a_400(endless, path, name, stream):
    body = {"structured_outputs": COMPACT, "stream": stream, **PROMISE}
    if path.endswith("chat/completions"):
        body["messages"] = [{"role": "user", "content": "x"}]
    else:
        body["prompt" if path.endswith("completions") else "input"] = "x"
    refused = endless.post(path, **body, **{name: LEAST - 1})
    error = refused.json()["error"]
    assert refused.status_code == 400 and error["code"] == "budget-too-small" and error["param"] == name
    assert error["least_tokens"] == LEAST and f"at least {LEAST}" in error["message"]
    assert "of this server" not in error["message"]
    assert endless.post(path, **body, **{name: LEAST}).status_code == 200


def test_promises_that_nobody_can_make(toy_without_x):
    body = {"structured_outputs": {"regex": "a*x"}, "max_tokens": 9}
    error = toy_without_x.error(**body, **PROMISE)
    assert error["code"] == "budget-unknown" and "least_tokens" not in error
    error = toy_without_x.error(guiderail={"on_incomplete": "error"})
    assert error["code"] == "invalid-request" and error["param"] == "guiderail.on_incomplete"
    assert toy_without_x.error(guiderail={"nope": 1})["code"] == "unknown-parameter"


@pytest.fixture
def toy_without_x():
    model = ToyModel("aaaa")
    tokens = [VOCABULARY.token_bytes(i) for i in range(VOCABULARY.size)]
    tokens[ord("x")] = b"aa"
    model.vocabulary = gr.Vocabulary(
        tokens, special_tokens=dict(VOCABULARY.special_tokens), stop_token_ids=VOCABULARY.stop_token_ids
    )
    with client_of(model) as client:
        yield client


def test_a_text_that_may_end_anywhere_is_cut():
    """The answer says that tokens ran out; characters are whole, in free text, too."""
    with client_of(ToyModel("€€€€")) as client:
        for more in ({}, {"tools": [WEATHER]}):
            (choice,) = client.chat(max_tokens=4, temperature=0, **more)["choices"]
            assert choice["finish_reason"] == "length"
            assert re.fullmatch("€[^\ufffd]", choice["message"]["content"])
    with client_of(ToyModel("xx;" * 9)) as client:
        for pattern, reason, text in (("[x;]+", "length", "xx;xx;xx"), ("([a-z]{2};)+", "length", "xx;xx;")):
            (choice,) = client.chat(max_tokens=8, temperature=0, structured_outputs={"regex": pattern})["choices"]
            assert (choice["finish_reason"], choice["message"]["content"]) == (reason, text)


def test_stop_strings_still_cut(endless):
    body = {"temperature": 0, "max_tokens": 30, "structured_outputs": {"json": LIST}, "stop": "xxx"}
    (choice,) = endless.chat(**body)["choices"]
    assert (choice["message"]["content"], choice["finish_reason"]) == ('["', "stop")


# -- rows by themselves ----------------------------------------------------------------------------------------------
def written(row: Row, likes: np.ndarray) -> Row:
    """Writes a text with a model that has these logits at each step."""
    while not row.done:
        row.write_forced()
        if row.done:
            break
        token, info = row.sample(likes.copy())
        row.write(token, info)
    return row


def test_forced_tokens_are_written_while_they_fit():
    """The tokenizer uses many tokens; if few are left, a shorter spelling is used."""
    tokens = [b"a", b"b", b"aaaa", b"<end>"]
    vocabulary = gr.Vocabulary(
        tokens,
        special_tokens={"<end>": 3},
        stop_token_ids=[3],
        encode=lambda text: [tokens.index(c.encode()) for c in text],
    )
    guide = gr.compile(gr.regex("a{8}b"), vocabulary)
    likes = np.array([3, 2, 1, 0], np.float32)
    for limit, tokens_used in ((9, 9), (20, 9), (8, 6), (6, 6), (5, 3), (3, 3)):
        events: list[object] = []
        row = Row(Job([0], guide, events.append, limit, Sampling(0.0)), 0)
        row.start()
        assert row.finishing
        written(row, likes)
        text = b"".join(vocabulary.token_bytes(token) for token in row.tokens)
        assert row.matched and text == b"aaaaaaaab" and len(row.tokens) == tokens_used, limit
        assert isinstance(events[-1], Finished) and events[-1].reason == "stop"
    row = Row(Job([0], guide, events.append, 2, Sampling(0.0)), 0)
    row.start()
    assert not row.finishing and not row.done
    written(row, likes)
    assert len(row.tokens) == 2 and not row.matched
    row = Row(Job([0], guide, events.append, 2, Sampling(0.0), on_incomplete="finish"), 0)
    row.start()
    assert row.done and isinstance(events[-1], Failed) and events[-1].error.code == "budget-too-small"


def test_draws_follow_the_mask_with_the_budget():
    """Drawing again after a rejection has the distribution of the tokens that leave enough, exactly."""
    vocabulary = gr.Vocabulary([b"a", b"b", b"c", b"d", b"<end>"], special_tokens={"<end>": 4}, stop_token_ids=[4])
    guide = gr.compile(gr.regex("a|b|cdd|dcc"), vocabulary)
    likes = np.log(np.array([1, 3, 8, 8, 1], np.float32))
    counts = np.zeros(5, int)
    for seed in range(2000):
        row = Row(Job([0], guide, lambda _: None, 2, Sampling(1.0, seed=seed)), 0)
        row.start()
        row.write_forced()
        counts[row.sample(likes.copy())[0]] += 1
    assert counts[2:].sum() == 0 and abs(counts[1] / 2000 - 0.75) < 0.05


class Limited:
    """A matcher whose search for an end reaches a limit, as the core may in a large constraint."""

    def __init__(self, matcher: gr.Matcher, fails_at: str, leaves_token: bool) -> None:
        self._matcher, self._fails_at, self._leaves_token = matcher, fails_at, leaves_token

    def __getattr__(self, name: str) -> object:
        return getattr(self._matcher, name)

    def accept_within(self, token: int, budget: int) -> bool:
        if self._fails_at == "accept_within":
            if self._leaves_token:
                self._matcher.accept_token(token)
            raise gr.LimitError("too much", code="nodes")
        return self._matcher.accept_within(token, budget)

    def fill_next_token_bitmask(self, *_: object) -> bool:
        raise gr.LimitError("too much", code="nodes")


@pytest.mark.parametrize("leaves_token", [False, True])
@pytest.mark.parametrize("fails_at", ["accept_within", "fill"])
def test_a_search_that_meets_a_limit_costs_the_promise_only(fails_at, leaves_token):
    vocabulary = gr.Vocabulary([b"a", b"b", b"c", b"<end>"], special_tokens={"<end>": 3}, stop_token_ids=[3])
    guide = gr.compile(gr.regex("(a|bc|ccc)b"), vocabulary)
    likes = np.array([1, 2, 3, 0], np.float32)
    for on_incomplete in (None, "finish"):
        row = Row(Job([0], guide, lambda _: None, 3, Sampling(0.0), on_incomplete=on_incomplete), 0)
        row.start()
        assert row.finishing
        row.write_forced()
        row.matcher = Limited(row.matcher, fails_at, leaves_token)
        if on_incomplete == "finish":
            with pytest.raises(gr.LimitError):
                row.sample(likes.copy())
            continue
        token, _ = row.sample(likes.copy())
        assert token == 2 and not row.finishing and row.matcher.history() == []
        row.take(token)
        assert row.matcher.history() == [2]


def test_many_at_once_are_all_complete():
    nested = {"anyOf": [{"type": "null"}, {"type": "array", "items": {"$ref": "#"}, "minItems": 1}]}
    with client_of(ToyModel()) as client:
        texts: dict[int, str] = {}

        def ask(seed: int) -> None:
            (choice,) = client.chat(seed=seed, max_tokens=12 + seed, structured_outputs={"json": nested})["choices"]
            texts[seed] = choice["message"]["content"]

        threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert len(texts) == 16
        assert all(gr.json_schema(nested).accepts(json.loads(text)) for text in texts.values())


def test_what_is_told_of_a_text_is_all_of_it(endless):
    told: list[object] = []
    guide = gr.compile(gr.json_schema(LIST), VOCABULARY)
    row = Row(Job([257], guide, told.append, 30, Sampling(1.0, seed=1)), 0)
    row.start()
    written(row, np.zeros(VOCABULARY.size, np.float32))
    text = "".join(event.text for event in told if isinstance(event, Delta))
    assert gr.json_schema(LIST).accepts(json.loads(text))
