"""What the server tells of the model's own distribution: weights of texts, and draws from it."""

from __future__ import annotations

import math

import pytest

import guiderail as gr
from server_support import VOCABULARY, ToyModel, client_of

httpx = pytest.importorskip("httpx")

PATTERNS = ["(yes|no|not sure)", "a[bc]{0,3}", "name: [a-d]{2}[.!]?", "(the call){1,2}", ""]


class Warm(ToyModel):
    """Scores that are not far apart, so that masks take much and leave much; a stop token is likely."""

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
    """The same texts without a server, each token asked of the model."""
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
    # after "a" the bias of the letter and that of the stop token weigh alike
    assert weights[0] < -1 and weights[1] > math.log(0.05)


def test_a_text_that_was_kept_from_its_own_way_weighs_nothing(client):
    body = {"guided_regex": "[a-z]{3}( [a-z]{40})?", "max_tokens": 5, "guiderail": {"log_weight": True}}
    found = [
        client.post("/v1/completions", prompt=f"p{i}", seed=i, logit_bias={"32": 100}, **body).json()["choices"][0]
        for i in range(3)
    ]
    assert all(one["finish_reason"] == "length" and one["guiderail"]["log_weight"] == -9999.0 for one in found)
