"""The model's own distribution through the server: weights of texts, and draws from it."""

from __future__ import annotations

import math
import threading

import numpy as np
import pytest

import guiderail as gr
from server_support import VOCABULARY, ToyModel, ToySession, client_of, listening, wait_for

httpx = pytest.importorskip("httpx")

PATTERNS = ["(yes|no|not sure)", "a[bc]{0,3}", "name: [a-d]{2}[.!]?", "(the call){1,2}", ""]


class Warm(ToyModel):
    """Similar scores, so masks remove and leave much probability; a stop token is likely."""

    def score(self, row):
        scores = super().score(row)
        scores[VOCABULARY.size :] = -9
        scores[258] += 3
        for text in b"yesnot ab":
            scores[text] += 2
        return scores


@pytest.fixture(scope="module", params=[None, 1])
def client(request):
    with client_of(Warm(max_batch=request.param)) as made:
        yield made


def in_process(prompt, pattern, n=1, **options):
    """Returns the same texts without a server, with a query of the model for each token."""
    return gr.generations(
        Warm(), [prompt], gr.regex(pattern), n=n, chat=False, jump_forward=False, temperature=1.0, **options
    )


@pytest.mark.parametrize("more", [{}, {"presence_penalty": 1.5}, {"stop": "c"}, {"max_tokens": 2}])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_log_weights_are_those_of_generate(client, pattern, more):
    options = {"max_tokens": 30, **more, "seed": 5}
    alone = in_process("hello", pattern, n=3, **options)
    asked = {"prompt": "hello", "guided_regex": pattern, "n": 3, "guiderail": {"log_weight": True}, **options}
    if "max_tokens" in more:
        asked["guiderail"]["on_incomplete"] = "return"
    for one, choice in zip(alone, client.post("/v1/completions", **asked).json()["choices"], strict=True):
        assert choice["text"] == one.text
        assert choice["guiderail"]["log_weight"] == pytest.approx(one.log_weight, abs=1e-5)
    ends = [c["choices"][0] for c in client.chunks("/v1/completions", **asked) if c["choices"][0]["finish_reason"]]
    told = {end["index"]: end["guiderail"]["log_weight"] for end in ends}
    assert [told[i] for i in range(3)] == pytest.approx([one.log_weight for one in alone], abs=1e-5)


def test_log_weights_of_chats(client):
    body = {"guided_choice": ["yes", "no"], "guiderail": {"log_weight": True}}
    (choice,) = client.chat(**body, temperature=0)["choices"]
    assert choice["guiderail"]["log_weight"] < -1
    chunks = client.chunks(**body, temperature=0, stream_options={"include_usage": True})
    assert [c["choices"][0]["guiderail"] for c in chunks if c["choices"] and "guiderail" in c["choices"][0]] == [
        choice["guiderail"]
    ]
    assert "guiderail" not in client.chat(guided_choice=["yes", "no"])["choices"][0]
    assert client.error(guiderail={"log_weight": "yes"})["param"] == "guiderail.log_weight"


def test_a_bias_counts_as_the_models_own(client):
    body = {"prompt": "x", "guided_choice": ["a", "b"], "seed": 1, "guiderail": {"log_weight": True}}
    weights = [
        client.post("/v1/completions", **body, **more).json()["choices"][0]["guiderail"]["log_weight"]
        for more in ({}, {"logit_bias": {"97": 100, "258": 100}})
    ]
    # after "a", the biases of the letter and of the stop token cancel out
    assert weights[0] < -1 and weights[1] > math.log(0.05)


def test_a_text_that_was_kept_from_its_own_way_weighs_nothing(client):
    body = {"guided_regex": "[a-z]{3}( [a-z]{40})?", "max_tokens": 5, "guiderail": {"log_weight": True}}
    found = [
        client.post("/v1/completions", prompt=f"p{i}", seed=i, logit_bias={"32": 100}, **body).json()["choices"][0]
        for i in range(3)
    ]
    assert all(one["finish_reason"] == "length" and one["guiderail"]["log_weight"] == -9999.0 for one in found)


# -- draws -------------------------------------------------------------------------------------------------------------
DRAWN = [
    {"distribution": "exact", "max_passes": 300},
    {"distribution": "weighted", "particles": 8},
]


@pytest.mark.parametrize("more", [{}, {"frequency_penalty": 1.5, "temperature": 0.7}, {"max_tokens": 9}])
@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("how", DRAWN, ids=lambda how: how["distribution"])
def test_draws_are_those_of_generate(client, how, pattern, more):
    options = {"max_tokens": 30, "temperature": 1.0, **more, "seed": 3}
    alone = gr.generations(Warm(), ["hello"], gr.regex(pattern), n=3, chat=False, **how, **options)
    asked = {"prompt": "hello", "guided_regex": pattern, "n": 3, "guiderail": {**how, "log_weight": True}, **options}
    answer = client.post("/v1/completions", **asked).json()
    assert answer["usage"]["completion_tokens"] == sum(len(one.tokens) for one in alone)
    for one, choice in zip(alone, answer["choices"], strict=True):
        told, draw = choice["guiderail"], one.draw
        assert choice["text"] == one.text and choice["finish_reason"] == "stop"
        assert told["distribution"] == how["distribution"] and told["attempts"] == draw.attempts
        assert told["passes"] == draw.passes and told["log_mass"] == pytest.approx(draw.log_mass)
        assert told["mass"]["high"] == pytest.approx(draw.mass.high) and told["mass"]["low"] <= told["mass"]["value"]
        assert told["log_weight"] == pytest.approx(one.log_weight)
        assert told.get("effective_size") == pytest.approx(draw.effective_size)
    chunks = client.chunks("/v1/completions", **asked, stream_options={"include_usage": True})
    texts = {i: [c["choices"][0] for c in chunks if c["choices"] and c["choices"][0]["index"] == i] for i in range(3)}
    for i, choice in enumerate(answer["choices"]):  # a stream sends each text in one piece
        assert [one["text"] for one in texts[i]] == [choice["text"], ""]
        assert texts[i][-1]["guiderail"] == choice["guiderail"]
    assert chunks[-1]["usage"] == answer["usage"]
    assert client.model.open == 0 or not client.service.engine.load[0]


@pytest.mark.parametrize("how", DRAWN, ids=lambda how: how["distribution"])
def test_draws_of_chats(client, how):
    body = {"guided_choice": ["yes", "no", "sent"], "guiderail": how, "seed": 1, "n": 2, "logprobs": False}
    answer = client.chat(**body)
    for choice in answer["choices"]:
        assert choice["message"]["content"] in body["guided_choice"] and choice["guiderail"]["passes"] >= 0
    assert answer == {**client.chat(**body), "id": answer["id"], "created": answer["created"]}
    free = client.chat(guiderail=how, max_tokens=6, seed=2)
    assert free["choices"][0]["guiderail"]["distribution"] == how["distribution"]


class CutSession(ToySession):
    """Rows can be cut and copied; logits are valid only for requested rows, and only until the next pass."""

    answers_some, told = True, np.zeros(0, np.float32)

    def feed(self, rows, asked):
        assert asked <= {i for i, row in enumerate(rows) if row} if isinstance(asked, set) else True
        logits = super().feed(rows)
        self.model.longest = max(self.model.longest, sum(map(len, rows)))
        told = np.full_like(logits, 1e9)
        for row in asked:
            told[row] = logits[row]
        self.told[:] = 1e9
        self.told = told
        return told

    def cut_row(self, row, length):
        assert length <= len(self.rows[row])
        del self.rows[row][length:]

    def copy_rows(self, pairs):
        for source, target in pairs:
            self.rows[target] = list(self.rows[source])


class Cuts(Warm):
    longest, session = 0, CutSession


def test_a_long_prompt_is_read_in_portions():
    prompt, options = "x" * 100, {"max_tokens": 20, "temperature": 1.0, "seed": 4}
    with client_of(Cuts(), prefill_tokens=16) as client:
        for how in DRAWN:
            alone = gr.generations(Cuts(), [prompt], gr.regex("[ab]{1,3}!?"), n=2, chat=False, **how, **options)
            asked = {"prompt": prompt, "guided_regex": "[ab]{1,3}!?", "n": 2, "guiderail": how, **options}
            answer = client.post("/v1/completions", **asked).json()
            assert [one["text"] for one in answer["choices"]] == [one.text for one in alone]
        assert client.model.longest <= 16
        wait_for(lambda: client.model.open == 0)


EXACT = {"distribution": "exact"}
REFUSED = [
    ({"temperature": 0, "guiderail": EXACT}, "temperature"),
    ({"top_p": 0.9, "guiderail": EXACT}, "top_p"),
    ({"top_k": 5, "guiderail": EXACT}, "top_k"),
    ({"stop": "x", "guiderail": EXACT}, "stop"),
    ({"logit_bias": {"5": 1}, "guiderail": EXACT}, "logit_bias"),
    ({"logprobs": True, "guiderail": EXACT}, "logprobs"),
    ({"tools": [{"type": "function", "function": {"name": "f"}}], "guiderail": EXACT}, "tools"),
    ({"guiderail": {**EXACT, "max_reasoning_tokens": 5}}, "reasoning_effort"),
    ({"guiderail": {**EXACT, "on_incomplete": "return"}}, "guiderail.on_incomplete"),
    ({"guiderail": {**EXACT, "max_passes": 501}}, "guiderail.max_passes"),
    ({"guiderail": {**EXACT, "max_passes": 0}}, "guiderail.max_passes"),
    ({"guiderail": {**EXACT, "particles": 4}}, "guiderail.particles"),
    ({"guiderail": {"distribution": "weighted", "particles": 33}}, "guiderail.particles"),
    ({"guiderail": {"distribution": "weighted", "max_passes": 33}}, "guiderail.max_passes"),
    ({"guiderail": {"max_passes": 33}}, "guiderail.max_passes"),
    ({"guiderail": {"particles": 3}}, "guiderail.particles"),
    ({"guiderail": {"distribution": "right"}}, "guiderail.distribution"),
]


@pytest.fixture(scope="module")
def bounded():
    with client_of(Warm(), max_passes=500, max_particles=32, inspect="asked") as client:
        yield client


@pytest.mark.parametrize("body, param", REFUSED)
def test_what_has_no_meaning_for_draws_is_refused(bounded, body, param):
    for stream in (False, True):
        error = bounded.error(**body, stream=stream)
        assert (error["code"], error["param"]) == ("invalid-request", param), error
    assert not bounded.model.open


def test_what_asks_for_nothing_is_not_refused(bounded):
    body = {"top_p": 1, "top_k": -1, "stop": [], "logit_bias": {}, "tools": [], "guided_choice": ["a", "b"]}
    assert bounded.chat(**body, guiderail={**EXACT, "on_incomplete": "finish", "max_passes": 500})
    body = {"messages": [{"role": "user", "content": "x"}], "guiderail": EXACT, "guided_choice": ["a"]}
    watched = bounded.request("POST", "/v1/chat/completions", json=body, headers={"X-Guiderail-Inspect": "1"})
    assert watched.status_code == 400 and watched.json()["error"]["param"] == "X-Guiderail-Inspect"


def test_a_server_may_refuse_draws():
    with client_of(Warm(), max_draws=0) as client:
        assert "--max-draws" in client.error(guiderail=EXACT)["message"]
        assert client.chat(guiderail={"distribution": "masked"})


RARE = {"guided_regex": "[^a-z]{6}0{8}", "guiderail": {**EXACT, "max_passes": 7}, "seed": 1}


def test_passes_that_do_not_suffice_are_an_error_with_a_bound(client):
    for one in (client.error(**RARE), next(c["error"] for c in client.chunks(**RARE) if "error" in c)):
        assert one["code"] == "max-passes" and one["passes"] == 7 and 0 < one["mass"] <= 1
        assert "max_passes" in one["message"]
    assert client.error(guided_regex="[a-z]{50}", max_tokens=1, guiderail=EXACT)["code"] == "budget-too-small"
    assert client.error(messages=[{"role": "user", "content": "x" * 5000}], guiderail=EXACT)["code"] == "context-full"
    assert client.chat(guided_choice=["yes"], guiderail=EXACT)["choices"][0]["message"]["content"] == "yes"


# -- effects on others -------------------------------------------------------------------------------------------------
LONG = {"guided_regex": "([^a-z]{3}0){30}", "guiderail": {**EXACT, "max_passes": 100_000}, "max_tokens": 2000}


def asked(base, **body):
    return httpx.post(f"{base}/v1/chat/completions", json=body, timeout=60)


def in_thread(function):
    found = []
    thread = threading.Thread(target=lambda: found.append(function()), daemon=True)
    thread.start()
    return thread, found


def message(text):
    return [{"role": "user", "content": text}]


@pytest.mark.parametrize("can_clear", [False, True])
def test_others_are_served_while_a_draw_takes_long(can_clear):
    model = Warm(can_clear=can_clear)
    with listening(model, max_passes=1 << 20, compile_isolated=False, request_seconds=30) as (base, service):
        client = httpx.Client(timeout=60)
        with client.stream(
            "POST", f"{base}/v1/chat/completions", json={"messages": message("x"), "stream": True, **LONG}
        ) as stream:
            wait_for(lambda: len(model.feeds) > 50)
            for i in range(5):
                answer = asked(base, messages=message(f"y{i}"), guided_regex="[a-z]{20}")
                assert answer.status_code == 200 and len(answer.json()["choices"][0]["message"]["content"]) == 20
            answer = asked(base, messages=message("y"), guided_choice=["a", "b"], guiderail=EXACT)  # a second draw
            assert answer.status_code == 200
            assert service.engine._lent and not service.engine._loans
            stream.close()  # the client disconnects: the draw ends
        client.close()
        wait_for(lambda: not service.engine._lent)
        wait_for(lambda: model.open == 0)


def test_a_client_that_leaves_ends_its_draw():
    model = Warm()
    with listening(model, max_passes=1 << 20, max_draws=1, compile_isolated=False) as (base, service):

        def leave():
            with pytest.raises(httpx.ReadTimeout):
                httpx.post(f"{base}/v1/chat/completions", json={"messages": message("x"), **LONG}, timeout=1)

        threads = [in_thread(leave)[0] for _ in range(2)]  # one draws, and one waits for it
        wait_for(lambda: service.engine._lent and service.engine._loans)
        for thread in threads:
            thread.join(20)
        wait_for(lambda: not service.engine._lent and not service.engine._loans and model.open == 0)
        assert asked(base, messages=message("y"), guided_choice=["a", "b"], guiderail=EXACT).status_code == 200


def test_a_thread_that_cannot_be_started_fails_the_draw(monkeypatch):
    def refuse(self):
        raise RuntimeError("can't start new thread")

    with client_of(Warm()) as client:
        assert client.chat(guided_choice=["a"])
        start = threading.Thread.start
        monkeypatch.setattr(
            threading.Thread, "start", lambda self: refuse(self) if self.name == "guiderail-draw" else start(self)
        )
        assert client.error(status=500, guided_choice=["a"], guiderail=EXACT)["code"] == "internal-error"
        monkeypatch.undo()
        assert client.chat(guided_choice=["a"], guiderail=EXACT)


def test_a_model_with_one_row_takes_turns():
    model = Warm(max_batch=1)
    with listening(model, max_passes=1 << 20, compile_isolated=False, request_seconds=1.5) as (base, service):
        thread, found = in_thread(lambda: asked(base, messages=message("x"), **LONG))
        wait_for(lambda: len(model.feeds) > 20)
        answer = asked(base, messages=message("y"), guided_regex="[a-z]{20}")
        chances = {"choice_logprobs": "all"}
        thread.join(20)
        assert found[0].status_code == 504 and found[0].json()["error"]["code"] == "timeout"
        assert answer.status_code in (200, 504)
        assert asked(base, messages=message("y"), guided_choice=["a", "b"], guiderail=chances).status_code == 200
        assert model.open <= 1 and not service.engine._lent


def test_draws_wait_in_turn_and_within_bounds():
    model = Warm()
    options = {"max_draws": 1, "max_queue": 1, "max_passes": 1 << 20, "compile_isolated": False, "request_seconds": 2}
    with listening(model, **options) as (base, service):
        first, one = in_thread(lambda: asked(base, messages=message("x"), **LONG))
        wait_for(lambda: len(model.feeds) > 20)
        second, two = in_thread(lambda: asked(base, messages=message("y"), guided_choice=["a"], guiderail=EXACT))
        wait_for(lambda: len(service.engine._loans) == 1)
        assert asked(base, messages=message("z"), guiderail=EXACT).json()["error"]["code"] == "overloaded"
        first.join(20)
        second.join(20)
        assert one[0].status_code == 504 and two[0].status_code in (200, 504)
        wait_for(lambda: not service.engine._lent and not service.engine._loans)


def test_what_a_draw_reserves_counts():
    model = Warm()
    options = {"max_cached_tokens": 2100, "max_passes": 1 << 20, "compile_isolated": False, "request_seconds": 2}
    with listening(model, **options) as (base, service):
        thread, found = in_thread(lambda: asked(base, messages=message("x"), **LONG))
        wait_for(lambda: len(model.feeds) > 20)
        assert asked(base, messages=message("y"), max_tokens=20).status_code == 200  # there is room for it
        waiting, later = in_thread(lambda: asked(base, messages=message("y"), max_tokens=500))
        wait_for(lambda: service.engine.load[1] == 1)
        assert model.most_reserved <= 2100
        thread.join(20)
        waiting.join(20)
        assert found[0].status_code == 504 and later[0].status_code in (200, 504)
        assert model.most_reserved <= 2100


def test_a_server_that_ends_ends_its_draws():
    model = Warm()
    with client_of(model, max_passes=1 << 20) as client:
        thread, found = in_thread(lambda: client.post("/v1/chat/completions", messages=message("x"), **LONG))
        wait_for(lambda: len(model.feeds) > 20)
        client.service.engine.stop()
        thread.join(20)
        assert found[0].json()["error"]["code"] == "closed" and model.open == 0


def test_a_model_that_fails_fails_the_draw_alone():
    model = Warm()
    with client_of(model) as client:
        model.broken = True
        assert client.error(status=500, guided_choice=["a", "b"], guiderail=EXACT)["code"] == "decode"
        model.broken = False
        assert client.chat(guided_choice=["a", "b"], guiderail=EXACT)
