"""Stop texts, several texts per prompt, penalties and log-probabilities, on toy models with known logits."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest

import guiderail as gr
from guiderail.generation.penalties import Penalties, Tally
from test_generation_values import ADA, PERSON, Scribe
from toy_models import STOP, TOKENS, VOCABULARY, Toy


# -- stop strings ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("pattern", "script", "stop", "text", "matched", "found"),
    [
        ("[a-z ]+", "one two three", "two", "one ", True, "two"),
        ("[a-z ]+", "one two three", ["three", "tw"], "one ", True, "tw"),
        ("[a-z ]+ three", "one two three", "two", "one ", False, "two"),
        ("[a-z ]+ three", "one two three", "zzz", "one two three", True, None),
        ("one two three", "one two three", "e", "on", False, "e"),  # forced text is cut, too
        ("[a-zé]+", "abédef", "é", "ab", True, "é"),
    ],
)
def test_a_stop_string_ends_a_text(pattern, script, stop, text, matched, found):
    (got,) = gr.generations(Scribe(script), ["0"], gr.regex(pattern), max_tokens=40, stop=stop)
    assert (got.text, got.matched, got.stop_string, got.value) == (text, matched, found, text)
    assert got.finish_reason == "stop"
    assert gr.generate(Scribe(script), "0", gr.regex(pattern), max_tokens=40, stop=stop) == text
    assert pickle.loads(pickle.dumps(got)) == got
    assert "".join(gr.stream(Scribe(script), "0", gr.regex(pattern), max_tokens=40, stop=stop)) == text


def test_a_value_that_a_stop_string_ends_is_an_error():
    with pytest.raises(gr.IncompleteError, match="the stop string 'Love' ended"):
        gr.generate(Scribe(ADA), "0", PERSON, stop="Love")
    assert gr.generate(Scribe(ADA), "0", PERSON, stop="Love", on_incomplete="return") == {"name": "Ada "}
    assert gr.generate(Scribe(ADA), "0", PERSON, stop="Byron") == json.loads(ADA)


# -- several texts -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("max_batch", [None, 2])
def test_several_texts_of_a_prompt(max_batch):
    model, constraint = Toy(max_batch=max_batch), gr.regex("[ab]{6}")
    options = {"temperature": 1.0, "seed": 3}
    texts = gr.generate(model, "x", constraint, n=4, **options)
    assert len(texts) == 4 and len(set(texts)) > 1 and all(constraint.matches(text) for text in texts)
    assert texts == gr.generate(model, "x", constraint, n=4, **options)
    assert [texts[0]] == gr.generate(model, "x", constraint, n=1, **options)
    both = gr.generate(model, ["x", "y"], [constraint, gr.choice(["a", "b"])], n=3, **options)
    assert [len(some) for some in both] == [3, 3] and set(both[1]) <= {"a", "b"} and both[0] == texts[:3]
    flat = gr.generations(model, ["x", "y"], constraint, n=2, **options)
    assert [one.text for one in flat][:2] == texts[:2] and len(flat) == 4


def test_the_texts_of_a_prompt_name_themselves():
    with pytest.raises(gr.LimitError, match="the text 0 of prompt 1 needs"):
        gr.generate(Toy(), ["x", "y"], [gr.regex("a{2}"), gr.regex("a{30}")], max_tokens=9, n=2, temperature=1.0)


# -- penalties -----------------------------------------------------------------------------------------------------
def test_penalties_follow_their_formulas():
    logits = np.array([2.0, -2.0, 1.0, 0.5, 0.0], np.float32)
    tally = Tally(Penalties(0.5, 0.25, 2.0), [3])
    for token in (0, 1, 1):
        tally.note(token)
    tally.apply(logits)
    np.testing.assert_allclose(logits, [2 / 2 - 0.75, -2 * 2 - 1.0, 1.0, 0.25, 0.0])
    plain = np.array([1.0, -1.0], np.float32)
    tally = Tally(Penalties(), [0, 1])
    tally.note(0)
    tally.apply(plain)
    assert plain.tolist() == [1.0, -1.0] and not Penalties()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("factor", [1e-45, 1e-300, 5e-324])
def test_a_tiny_repetition_penalty_leaves_numbers(factor):
    logits = np.array([20.0, -2.0, 0.0, 1.0, -np.inf, np.inf, np.nan], np.float32)
    Tally(Penalties(repetition=factor), [0, 1, 2, 4, 5, 6]).apply(logits)
    most = np.finfo(np.float32).max
    np.testing.assert_array_equal(logits, np.float32([most, -2.0 * factor, 0.0, 1.0, -np.inf, np.inf, np.nan]))
    for temperature in (0.0, 1e-300, 1.0, 100.0):
        options = {"repetition_penalty": factor, "temperature": temperature, "seed": 1}
        assert gr.generate(Toy(), "ab", gr.regex("[ab]{3}"), **options).strip("ab") == ""


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "aaaa"),
        ({"presence_penalty": 2}, "ab a"),
        ({"frequency_penalty": 2}, "ab a"),
        ({"repetition_penalty": 100}, "a aa"),  # "b" is in the prompt
    ],
)
def test_penalties_change_what_is_written(options, expected):
    model = Toy()
    model.score = lambda row: np.array(
        [{b"a": 1.0, b"b": 0.9, b" ": 0.5}.get(data, -5.0) for data in TOKENS] + [0] * 5, np.float32
    )
    assert gr.generate(model, "y", gr.regex("[ab ]{4}"), **options) == expected


# -- log-probabilities ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("temperature", [0.0, 1.3])
@pytest.mark.parametrize("penalty", [0.0, 1.0])
def test_logprobs_are_those_of_the_allowed_tokens(temperature, penalty):
    model, constraint = Toy(), gr.regex("(ab|ba){3}b")
    (got,) = gr.generations(
        model, ["x"], constraint, logprobs=3, temperature=temperature, seed=2, presence_penalty=penalty
    )
    matcher = gr.compile(constraint, VOCABULARY).matcher()
    row, forced = model.encode("x", chat=True), 0
    assert [one.token for one in got.logprobs] == list(got.tokens)
    for i, one in enumerate(got.logprobs):
        allowed = [t for t in range(VOCABULARY.size) if matcher.fork().accept_token(t)]
        scores = model.score(row)[: VOCABULARY.size].astype(float)
        scores[list(set(got.tokens[:i]))] -= penalty
        logs = {t: scores[t] - np.log(np.exp(scores[allowed]).sum()) for t in allowed}
        if len(allowed) == 1:
            assert (one.logprob, one.top) == (0.0, ())
            forced += 1
        elif one.top:
            assert one.logprob == pytest.approx(logs[one.token], abs=1e-5)
            best = sorted(allowed, key=lambda t: -logs[t])[:3]
            assert [t for t, _ in one.top] == best
            assert [value for _, value in one.top] == pytest.approx([logs[t] for t in best], abs=1e-5)
        else:  # the text was forced, but not its spelling
            assert one.logprob == 0
        assert matcher.accept_token(one.token)
        row.append(one.token)
    assert got.logprob == pytest.approx(sum(one.logprob for one in got.logprobs)) and forced
    assert pickle.loads(pickle.dumps(got)) == got


def test_logprobs_of_a_stop_token_and_of_none():
    (got,) = gr.generations(Toy(favourite=STOP), ["x"], gr.regex("[ab]{2,}"), logprobs=0)
    assert got.tokens[-1] == STOP == got.logprobs[-1].token and got.logprobs[-1].top == ()
    (got,) = gr.generations(Toy(), ["x"], gr.regex("[ab]{2}"))
    assert got.logprobs is None and got.logprob is None
    run = gr.stream(Toy(), "x", gr.regex("[ab]{2}"), logprobs=1)
    list(run)
    assert len(run.result.logprobs) == len(run.tokens)


def test_the_budget_does_not_change_logprobs():
    """They are those of the constraint: a token forced by the budget keeps its low probability."""
    (got,) = gr.generations(
        Toy(favourite=0), ["x"], gr.regex("a*hello"), max_tokens=3, on_incomplete="finish", logprobs=1
    )
    assert got.text == "aahello" and got.logprobs[2].logprob < -10 and got.logprobs[2].top[0][0] == 0


# -- refusals ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"stop": ""}, "stop must be a non-empty string or a list"),
        ({"stop": ["a", ""]}, "stop must be a non-empty string or a list"),
        ({"stop": 3}, "stop must be a non-empty string or a list"),
        ({"n": 0}, "n must be an integer from 1 to 65,536"),
        ({"n": 10**400, "temperature": 1.0}, "n must be an integer from 1 to 65,536, or None, not a number of"),
        ({"n": 2}, "all be the same at temperature 0"),
        ({"n": True}, "n must be"),
        ({"logprobs": -1}, "logprobs must be"),
        ({"logprobs": True}, "logprobs must be"),
        ({"top_k": True}, "top_k must be an integer, 1 or more, or None, not True"),
        ({"seed": True}, "seed must be"),
        ({"temperature": True}, "temperature must be"),
        ({"temperature": 10**400}, "temperature must be 0 or more, not a number of"),
        ({"top_p": True}, "top_p must be"),
        ({"presence_penalty": 10**400}, "presence_penalty must be"),
        ({"presence_penalty": 3}, "presence_penalty must be from -2 to 2"),
        ({"frequency_penalty": float("nan")}, "frequency_penalty"),
        ({"repetition_penalty": 0}, "repetition_penalty must be above 0"),
        ({"repetition_penalty": "1"}, "repetition_penalty"),
        ({"chat": "no"}, "chat must be True or False, not 'no'"),
        ({"describe": 1}, "describe must be"),
        ({"jump_forward": None}, "jump_forward must be"),
        ({"canonical": None}, "canonical must be"),
        ({"heal": 0}, "heal must be"),
        ({"on_incomplete": np.array(["finish", "return"])}, "on_incomplete must be 'finish', 'error' or 'return', not"),
        ({"distribution": ["masked"]}, "distribution must be 'masked', 'exact' or 'weighted', not"),
        ({"system": 5}, "system must be a string"),
        ({"system": "\ud800"}, "surrogates"),
    ],
)
def test_refusals(options, says):
    with pytest.raises(gr.ModelError, match=says) as caught:
        gr.generate(Toy(), "x", gr.literal("a"), **options)
    assert caught.value.code == "bad-option"


@pytest.mark.parametrize("prompt", ["a\ud800", ["b", "a\ud800"], [{"role": "user", "content": "a\ud800"}]], ids=ascii)
def test_prompts_that_are_no_text(prompt):
    with pytest.raises(gr.ModelError, match=r"lone surrogate U\+D800") as caught:
        gr.generate(Toy(), prompt, gr.literal("a"))
    assert caught.value.code == "bad-prompt" and caught.value.span == (1, 2)


def test_a_stream_is_one_text():
    with pytest.raises(gr.ArgumentError, match="stream has no option 'n'"):
        gr.stream(Toy(), "x", gr.literal("a"), n=2)
    assert len(TOKENS) == VOCABULARY.size
