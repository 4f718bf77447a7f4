"""The probabilities of whole choices, requested from the server."""

from __future__ import annotations

import asyncio
import math

import pytest

import guiderail as gr
from server_support import VOCABULARY, ToyModel, client_of

CHOICES = ["yes", "no", "not sure"]


def spelled(text: str) -> list[int]:
    return list(text.encode())


class Speller(ToyModel):
    vocabulary = gr.Vocabulary(
        [VOCABULARY.token_bytes(i) for i in range(VOCABULARY.size)],
        special_tokens=dict(VOCABULARY.special_tokens),
        stop_token_ids=[258],
        encode=spelled,
    )


def told(logprobs):
    return {one["text"]: one["logprob"] for one in logprobs["choices"]}


@pytest.fixture(scope="module", params=[None, 1])
def client(request):
    with client_of(Speller(max_batch=request.param)) as made:
        yield made


@pytest.mark.parametrize("spellings", ["canonical", "all"])
def test_chat(client, spellings):
    body = {"structured_outputs": {"choice": [*CHOICES, "yes"]}, "guiderail": {"choice_logprobs": spellings}}
    found = told(client.chat(**body)["choices"][0]["logprobs"])
    service = client.service
    prompt = service.template.tokens([("<|user|>user: hello\n<|assistant|>", True)])
    from guiderail.generation.probabilities import Counting, probabilities_of

    alone = probabilities_of(service.model, prompt, CHOICES, CHOICES, Counting(spellings))
    assert list(found) == CHOICES
    for text in CHOICES:
        assert found[text] == pytest.approx(alone.logprobs[text], rel=1e-3)
    both = client.chat(**body, logprobs=True, n=2)
    for choice in both["choices"]:
        assert told(choice["logprobs"]) == pytest.approx(found) and choice["logprobs"]["content"]
        assert choice["message"]["content"] in CHOICES
    plain = client.chat(structured_outputs=body["structured_outputs"])
    assert plain["choices"][0]["logprobs"] is None


def test_streams(client):
    body = {"guided_choice": CHOICES, "guiderail": {"choice_logprobs": "canonical"}}
    whole = told(client.chat(**body)["choices"][0]["logprobs"])
    chunks = client.chunks(**body)
    first, *rest = [chunk["choices"][0]["logprobs"] for chunk in chunks if chunk["choices"]]
    assert told(first) == pytest.approx(whole) and not any(rest)
    chunks = client.chunks("/v1/completions", prompt="hello", n=2, **body)
    for index in (0, 1):
        first, *rest = [c["choices"][0]["logprobs"] for c in chunks if c["choices"][0]["index"] == index]
        assert list(told(first)) == CHOICES and not any(rest)


def test_completions_of_several_prompts(client):
    body = {"guided_choice": CHOICES, "guiderail": {"choice_logprobs": "canonical"}, "n": 2}
    answer = client.post("/v1/completions", prompt=["one", "two"], **body).json()
    found = [told(choice["logprobs"]) for choice in answer["choices"]]
    assert found[0] == found[1] != found[2] == found[3] and all(sum(map(math.exp, one.values())) <= 1 for one in found)
    answer = client.post("/v1/completions", prompt="one", logprobs=1, **body).json()
    assert {"tokens", "choices"} <= set(answer["choices"][0]["logprobs"])


BAD = [
    (dict(), "invalid-request"),
    (dict(structured_outputs={"regex": "yes|no"}), "invalid-request"),
    (dict(response_format={"type": "json_object"}), "invalid-request"),
    (dict(guided_choice=["yes"], reasoning_effort="low"), "invalid-request"),
    (dict(guided_choice=[f"{i:09}"[::-1] for i in range(600)]), "too-many-prefixes"),
    (dict(guided_choice=["yes"], guiderail={"choice_logprobs": "some"}), "invalid-request"),
    (dict(guided_choice=["y" * 5000]), "context-full"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "code"), BAD, ids=[f"{i}-{code}" for i, (_, code) in enumerate(BAD)])
def test_what_is_refused(client, body, code):
    error = client.error(**{"guiderail": {"choice_logprobs": "canonical"}, **body})
    assert error["code"] == code or (code == "context-full" and error["code"] == "too-many-prefixes")
    assert client.chat(guided_choice=["yes", "no"])["choices"][0]["message"]["content"] in ("yes", "no")


def test_a_vocabulary_without_an_encoder_counts_all_spellings():
    with client_of(ToyModel()) as client:
        body = {"guided_choice": CHOICES}
        assert client.error(**body, guiderail={"choice_logprobs": "canonical"})["code"] == "no-encoder"
        found = client.chat(**body, guiderail={"choice_logprobs": "all"})
        assert set(told(found["choices"][0]["logprobs"])) == set(CHOICES)


@pytest.mark.parametrize("most", [None, 1])
def test_beside_texts(most):
    with client_of(Speller(delay=0.001, max_batch=most)) as client:

        async def ask(i):
            body = {"messages": [{"role": "user", "content": f"hello {i}"}], "guided_choice": CHOICES, "max_tokens": 20}
            if i % 2:
                body["guiderail"] = {"choice_logprobs": "all"}
            return (await client.http.post("/v1/chat/completions", json=body)).json()

        async def every():
            return await asyncio.gather(*map(ask, range(12)))

        answers = client.run(every())
    for i, answer in enumerate(answers):
        (choice,) = answer["choices"]
        assert choice["message"]["content"] in CHOICES and bool(choice["logprobs"]) == bool(i % 2)


def test_a_prompt_that_can_never_fit_is_not_read():
    model = Speller()
    with client_of(model, max_cached_tokens=64) as client:
        body = {"guided_choice": CHOICES, "guiderail": {"choice_logprobs": "canonical"}}
        asked = client.post("/v1/completions", prompt="x" * 200, **body)
        assert asked.status_code == 400 and asked.json()["error"]["code"] == "context-full" and not model.feeds


def test_a_question_fails_alone():
    model = Speller()
    with client_of(model) as client:
        model.broken = True
        response = client.post(
            "/v1/chat/completions",
            messages=[{"role": "user", "content": "hello"}],
            guided_choice=CHOICES,
            guiderail={"choice_logprobs": "all"},
        )
        assert response.json()["error"]["code"] == "decode"
        model.broken = False
        assert client.chat(guided_choice=CHOICES, guiderail={"choice_logprobs": "all"})["choices"]
        client.service.engine.stop()
        with pytest.raises(gr.ModelError):
            client.service.engine.ask(lambda: None)


@pytest.mark.parametrize("most", [200, 1000, 4096])
def test_what_a_question_reads_counts_with_the_cache_of_texts(most):
    """Many long choices at the same time as texts: all sessions together fit the cache, and all get answers."""
    model = Speller(delay=0.001)
    choices = [f"choice number {i}" for i in range(40)]
    with client_of(model, max_cached_tokens=most) as client:

        async def ask(i):
            body = {"messages": [{"role": "user", "content": f"hello {i}"}], "guided_choice": choices, "max_tokens": 20}
            if i % 2:
                body["guiderail"] = {"choice_logprobs": "canonical"}
            return await client.http.post("/v1/chat/completions", json=body)

        async def every():
            return await asyncio.gather(*map(ask, range(12)))

        for answer in client.run(every()):
            assert answer.status_code == 200, answer.text
    assert model.most_reserved <= most


def test_a_question_that_costs_more_than_there_is():
    with client_of(Speller(), max_cached_tokens=64) as client:
        with pytest.raises(gr.ModelError) as caught:
            client.service.engine.ask(lambda: None, 65)
        assert caught.value.code == "context-full"
        assert client.service.engine.ask(lambda: 3, 64).result(10) == 3
