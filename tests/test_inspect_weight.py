"""Weights in a record, and tokens that only a look ahead could weigh correctly."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import guiderail as gr
from guiderail.inspect.exact import add_exact
from test_probabilities import STOPS, TOKENS, VOCABULARY, Toy, chances

ONE_STOP = gr.Vocabulary(TOKENS[:-1], special_tokens={"<end>": STOPS[0]}, stop_token_ids=STOPS[:1], size=len(TOKENS))


class OneStop(Toy):
    vocabulary = ONE_STOP


def sequences(model, prompt, texts, stops):
    """Yields every sequence of tokens that spells one of the texts, with its probability including the end."""
    found = {}

    def follow(row, read, chance):
        shares = chances(model, [*prompt, *row])
        if read in texts:
            found[tuple(row)] = chance * sum(float(shares[stop]) for stop in stops)
        for token, share in enumerate(shares):
            after = read + TOKENS[token]
            if TOKENS[token] and any(text.startswith(after) for text in texts):
                follow([*row, token], after, chance * float(share))

    follow([], b"", 1.0)
    return found


@pytest.mark.parametrize("kind", [Toy, OneStop])
@pytest.mark.parametrize("texts", [["ab", "abab", "ba"], ["a", "b"], ["aba€", "abb", "€"]], ids=str)
def test_exact_is_the_share_of_what_may_follow(kind, texts):
    model = kind()
    stops = model.vocabulary.stop_token_ids
    every = sequences(model, model.encode("1", chat=True), [text.encode() for text in texts], stops)
    record = gr.inspect.record(model, "1", gr.choice(texts), jump_forward=False, temperature=1.0, seed=3)
    tokens = [step.token for step in record.steps]
    assert len(tokens) >= 1
    for i, (token, step) in enumerate(zip(tokens, record.steps, strict=True)):
        before = sum(chance for row, chance in every.items() if list(row[:i]) == tokens[:i])
        if token in stops:
            assert step.exact == (
                None if len(stops) > 1 else pytest.approx(every[tuple(tokens[:i])] / before, rel=1e-3)
            )
        else:
            after = sum(chance for row, chance in every.items() if list(row[: i + 1]) == tokens[: i + 1])
            assert step.exact == pytest.approx(after / before, rel=1e-3)
            differs = step.after is not None and abs(step.exact - step.after) >= 0.005
            assert ("would continue so" in step.why) == differs


def test_the_weight_so_far_is_what_the_masks_left():
    model = Toy()
    record = gr.inspect.record(model, "1", gr.regex("(ab|b){2,4}"), jump_forward=False, temperature=1.0, seed=1)
    so_far = 0.0
    for step in record.steps:
        so_far += math.log1p(-step.removed)
        assert step.log_weight == pytest.approx(so_far, abs=1e-5)
    result = gr.generations(
        model, ["1"], gr.regex("(ab|b){2,4}"), jump_forward=False, temperature=1.0, seed=1, log_weight=True
    )[0]
    assert result.text == record.text
    if result.finish_reason == "stop":
        assert result.log_weight == pytest.approx(so_far, abs=1e-4)
    data = json.loads(record.to_json())
    assert data["steps"][0]["log_weight"] == pytest.approx(record.steps[0].log_weight, rel=1e-5)
    assert "Weight so far" in record.to_html()


def test_it_is_unknown_where_no_model_was_asked():
    forced = gr.inspect.record(Toy(), "1", gr.literal("ababab") + gr.regex("a|b"))
    assert forced.steps[0].how == "forced" and {step.log_weight for step in forced.steps} == {None}
    asked = gr.inspect.replay(gr.literal("ab") + gr.regex("a|b"), "aba", model=Toy(), prompt="1")
    assert all(step.log_weight is not None and step.exact is not None for step in asked.steps)
    alone = gr.inspect.replay(gr.literal("ab"), "ab", vocabulary=VOCABULARY)
    assert all(step.log_weight is None and step.exact is None for step in alone.steps)
    refused = gr.inspect.replay(gr.choice(["ab", "bb"]), "aa", model=Toy(), prompt="1")
    assert refused.steps[-1].how == "refused" and refused.steps[-1].log_weight is refused.steps[-1].exact is None


def test_many_texts_are_not_looked_through():
    model = Toy()
    record = gr.inspect.record(model, "1", gr.regex("[ab]{9}"), jump_forward=False)
    assert {step.exact for step in record.steps} == {None}
    feeds = len(model.feeds)
    add_exact(record.steps, model, [1], gr.compile(gr.regex("[ab]*"), VOCABULARY))
    assert len(model.feeds) == feeds


def test_what_is_impossible_has_no_weight():
    class Never(Toy):
        def score(self, row):
            scores = np.full(self.logits_size, -np.inf, np.float32)
            scores[1] = 0
            return scores

    record = gr.inspect.replay(gr.choice(["a", "b"]), "a", model=Never(), prompt="1")
    assert record.steps[0].log_weight == pytest.approx(0) and record.steps[0].exact is None
    json.loads(record.to_json(), parse_constant=lambda name: pytest.fail(name))
