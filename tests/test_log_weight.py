"""``Generation.log_weight``: the importance weight of a text, against sums over all tokens and over all texts."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import guiderail as gr
from guiderail.errors import ModelError
from guiderail.frontends.regex import regex
from guiderail.generation.generate import generate, generations, stream
from toy_models import ToyModel, ToySession

TOKENS = [b"a", b"b", b"c", b"ab", b"bc", b"abc", b"hello", b"hel", b"lo", b"", b""]
STOPS = [9, 10]
PADDING = 3


def encode(text):
    """Encodes greedily with the longest token."""
    found = []
    while text:
        token = max(
            (t for t, data in enumerate(TOKENS) if data and text.encode().startswith(data)),
            key=lambda t: len(TOKENS[t]),
        )
        found.append(token)
        text = text[len(TOKENS[token]) :]
    return found


VOCABULARY = gr.Vocabulary(
    TOKENS, special_tokens={"<end>": 9, "<eot>": 10}, stop_token_ids=STOPS, size=len(TOKENS), encode=encode
)


class TellingSession(ToySession):
    def feed_each(self, rows, counts):
        self.model.feeds.append([list(row) for row in rows])
        told = []
        for row, more, count in zip(self.rows, rows, counts, strict=True):
            row += more
            each = [self.model.score(row[: len(row) - back]) for back in range(count - 1, -1, -1)]
            told.append(np.array(each, np.float32).reshape(count, self.model.logits_size))
        return told


class Toy(ToyModel):
    vocabulary, logits_size = VOCABULARY, VOCABULARY.size + PADDING

    def __init__(self, session=TellingSession, pass_tokens=None):
        super().__init__()
        self.session = session
        if pass_tokens is not None:
            self.pass_tokens = pass_tokens

    def score(self, row):
        scores = np.random.default_rng([len(row), *row]).normal(size=self.logits_size).astype(np.float32)
        scores[VOCABULARY.size :] = 50  # columns without a token
        return scores

    def encode(self, prompt, *, chat, system=None):
        return [ord(c) % 8 for c in prompt]


def softmax(logits, temperature=1.0):
    weights = np.exp((logits[: VOCABULARY.size].astype(float) - 5) / temperature)
    return weights / weights.sum()


def penalized(logits, tokens, prompt, presence, frequency, repetition):
    logits = logits.astype(float).copy()
    for token in set(prompt) | set(tokens):
        logits[token] = logits[token] / repetition if logits[token] > 0 else logits[token] * repetition
    for token in set(tokens):
        logits[token] -= presence + frequency * tokens.count(token)
    return logits


def allowed(matcher):
    return [t for t in range(VOCABULARY.size) if matcher.fork().accept_token(t)]


def expected(model, prompt, constraint, result, temperature=1.0, penalties=(0.0, 0.0, 1.0), jump=False):
    """The definition, step by step; a forced token weighs its own probability."""
    matcher = gr.compile(constraint, VOCABULARY).matcher()
    tokens, total = [], 0.0
    ahead = []
    for token in result.tokens:
        if jump and not ahead:
            ahead = list(matcher.forced_tokens())
        chances = softmax(penalized(model.score(prompt + tokens), tokens, prompt, *penalties), temperature)
        total += math.log(chances[token] if ahead else sum(chances[allowed(matcher)]))
        ahead = ahead[1:]
        assert matcher.accept_token(token)
        tokens.append(token)
    if result.finish_reason == "complete":
        chances = softmax(penalized(model.score(prompt + tokens), tokens, prompt, *penalties), temperature)
        total += math.log(sum(chances[STOPS]))
    return total


PATTERNS = ["(a|b){2,6}", "a*b", "abc(hello)?c{2}", "(abc|hello)", "hello", "", "[abc]{0,3}", "(hello|hel)ab+"]
OPTIONS = [
    {},
    {"temperature": 1.0, "seed": 3},
    {"temperature": 0.6, "seed": 4},
    {"temperature": 1.3, "seed": 5, "presence_penalty": 0.7, "frequency_penalty": -0.4, "repetition_penalty": 1.7},
    {"temperature": 1.0, "seed": 6, "top_k": 3, "top_p": 0.8},
]


@pytest.mark.parametrize("kind", [ToySession, TellingSession])
@pytest.mark.parametrize("options", OPTIONS, ids=repr)
@pytest.mark.parametrize("pass_tokens", [None, 1, 3])
def test_the_weight_is_what_the_masks_left(kind, options, pass_tokens):
    prompts = ["x", "yes", "zebra"]
    for pattern, jump in itertools.product(PATTERNS, [False, True]):
        model = Toy(kind, pass_tokens)
        constraint = regex(pattern)
        for prompt, got in zip(
            prompts, generations(model, prompts, constraint, max_tokens=12, jump_forward=jump, **options), strict=True
        ):
            if got.log_weight is None:  # several forced tokens at once, in a session that does not report them
                assert jump and kind is ToySession and got.forced_tokens
                continue
            penalties = tuple(
                options.get(f"{name}_penalty", 1.0 if name == "repetition" else 0.0)
                for name in ("presence", "frequency", "repetition")
            )
            want = expected(
                model,
                model.encode(prompt, chat=False),
                constraint,
                got,
                options.get("temperature") or 1.0,
                penalties,
                jump,
            )
            assert got.log_weight == pytest.approx(want, abs=1e-5), (pattern, got)


def of_texts(model, prompt, constraint, most):
    """Returns the token sequences of a constraint within ``most`` tokens, with the model's own probabilities."""
    found = {}

    def walk(matcher, tokens, chance):
        chances = softmax(model.score(prompt + tokens))
        if matcher.is_accepting():
            found[tuple(tokens)] = chance * sum(chances[STOPS])
        if len(tokens) < most:
            for token in allowed(matcher):
                if token not in STOPS:
                    after = matcher.fork()
                    after.accept_token(token)
                    walk(after, [*tokens, token], chance * chances[token])

    walk(gr.compile(constraint, VOCABULARY).matcher(), [], 1.0)
    return found


@pytest.mark.parametrize("pattern, most", [("[abc]{1,3}", 8), ("(hello|a+b)", 4), ("a{6}|b", 3)])
@pytest.mark.parametrize("on_incomplete", ["finish", "return"])
def test_the_mean_weight_is_the_mass_of_the_constraint(pattern, most, on_incomplete):
    model, constraint = Toy(), regex(pattern)
    got = generations(
        model,
        ["12"],
        constraint,
        n=1500,
        seed=1,
        temperature=1.0,
        max_tokens=most + 1,
        jump_forward=False,
        on_incomplete=on_incomplete,
        on_shortened="return" if on_incomplete == "finish" else None,
    )
    prompt = model.encode("12", chat=False)
    truth = sum(of_texts(model, prompt, constraint, most).values())
    weights = np.array([math.exp(one.log_weight) if one.finish_reason != "length" else 0.0 for one in got])
    error = weights.std() / math.sqrt(len(weights))
    assert abs(weights.mean() - truth) < 4 * error + 1e-4, (weights.mean(), truth, error)


def test_a_shortened_text_weighs_nothing():
    model = Toy()
    got = generations(
        model, ["x"], regex("a*(hello){3}"), n=30, seed=0, temperature=2.0, max_tokens=5, on_incomplete="finish"
    )
    kinds = {one.finish_reason for one in got}
    assert "shortened" in kinds
    for one in got:
        assert (one.log_weight == -math.inf) == (one.finish_reason == "shortened") or one.finish_reason != "shortened"


def test_who_wants_no_weight_pays_nothing():
    model = Toy()
    (got,) = generations(model, ["x"], regex("abc(hello)?c{2}"), log_weight=False)
    assert got.log_weight is None
    plain, model.feeds = len(model.feeds), []
    generate(model, "x", regex("abc(hello)?c{2}"))
    assert len(model.feeds) == plain
    with pytest.raises(ModelError) as caught:
        generations(model, ["x"], regex("a"), log_weight=1)
    assert caught.value.code == "bad-option"


def test_a_stream_tells_the_weight_and_a_batch_changes_nothing():
    prompts = ["x", "yes", "zebra"]
    together = generations(Toy(), prompts, regex("(a|b){2,6}c"), log_weight=True)
    for prompt, one in zip(prompts, together, strict=True):
        pieces = stream(Toy(), prompt, regex("(a|b){2,6}c"))
        assert "".join(pieces) == one.text
        assert pieces.result.log_weight == pytest.approx(one.log_weight, abs=1e-9)
