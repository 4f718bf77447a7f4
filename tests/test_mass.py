"""The probability of a constraint: computed, estimated, and the interval of the estimate."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import guiderail as gr
from guiderail.errors import LimitError, ModelError
from guiderail.generation.mass import interval
from test_probabilities import Toy

TEXTS = ["".join(letters) for length in range(7) for letters in itertools.product("ab", repeat=length)]
TEXTS += [text + "€" for text in TEXTS]
CONSTRAINTS = [["a", "ab", "bb"], gr.regex("[ab]{1,3}"), gr.regex("(ab)+€?"), gr.regex("a*b?")]


@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=str)
def test_the_estimate_agrees_with_the_sum_over_all_texts(constraint):
    texts = [text for text in TEXTS if gr.compile(constraint, Toy.vocabulary).constraint.matches(text)]
    truth = gr.probabilities(Toy(), "1", texts, spellings="all", ending="stop").total
    found = gr.mass(Toy(), "1", constraint, samples=400, seed=1, exact=False, max_tokens=24)
    assert not found.exact and found.samples == 400 and found.confidence == 0.95
    assert found.low <= truth <= found.high + 1e-9 and found.low <= found.estimate <= found.high
    assert abs(float(found) - truth) < 0.35 * truth + 1e-3
    assert 0 < found.effective_samples <= 400
    again = gr.mass(Toy(), "1", constraint, samples=400, seed=1, exact=False, max_tokens=24)
    assert again == found


def test_few_texts_are_computed():
    found = gr.mass(Toy(), "1", ["a", "ab"])
    chances = gr.probabilities(Toy(), "1", ["a", "ab"], spellings="all", ending="stop")
    assert found.exact and found.samples == 0 and math.isclose(found.estimate, chances.total)
    assert found.low == found.estimate <= found.high <= found.estimate * (1 + 2e-6)
    assert not gr.mass(Toy(), "1", gr.regex("[ab]*"), samples=2, max_tokens=8).exact


@pytest.mark.parametrize(
    ("options", "kind", "code"),
    [
        (dict(samples=1), ModelError, "bad-option"),
        (dict(samples=2.0), ModelError, "bad-option"),
        (dict(samples=10**12), ModelError, "bad-option"),
        (dict(confidence=True), ModelError, "bad-option"),
        (dict(confidence=1), ModelError, "bad-option"),
        (dict(exact="yes"), ModelError, "bad-option"),
        (dict(exact=1), ModelError, "bad-option"),
        (dict(max_tokens=0), ModelError, "bad-option"),
        (dict(prompt=["1", "2"]), ModelError, "bad-prompt"),
        (dict(prompt=[]), ModelError, "bad-prompt"),
        (dict(exact=True, constraint=gr.regex("a*")), LimitError, "too-many-texts"),
    ],
    ids=str,
)
def test_what_is_refused(options, kind, code):
    with pytest.raises(kind) as caught:
        gr.mass(Toy(), **{"prompt": "1", "constraint": ["a"], **options})
    assert caught.value.code == code


@pytest.mark.parametrize("draw", ["beta", "rare", "two", "zero", "one"])
def test_the_interval_holds_the_mean_as_often_as_it_says(draw):
    random = np.random.default_rng(7)
    draws = {
        "beta": (lambda: random.beta(2, 5, 60), 2 / 7),
        "rare": (lambda: (random.random(60) < 0.03).astype(float), 0.03),
        "two": (lambda: np.where(random.random(60) < 0.5, 0.2, 0.9), 0.55),
        "zero": (lambda: np.zeros(60), 0.0),
        "one": (lambda: np.ones(60), 1.0),
    }
    values, mean = draws[draw]
    found = [interval(values(), 0.1) for _ in range(200)]
    assert sum(low <= mean <= high for low, high in found) >= 0.9 * 200
    assert max(high - low for low, high in found) < 0.5
