"""Draws within a budget have exactly the distribution of the mask with the budget, whatever else filters tokens."""

from __future__ import annotations

import numpy as np
import pytest

import guiderail as gr
from guiderail.generation.sampling import Sampler, Sampling
from guiderail.server.rows import Job, Row
from toy_models import ToyModel

TOKENS = [b"a", b"b", b"c", b"d", b"e", b"</s>"]
VOCABULARY = gr.Vocabulary(TOKENS, stop_token_ids=[5])
CHANCES = np.array([0.3, 0.15, 0.25, 0.2, 0.1, 1e-9])
LOGITS = np.log(CHANCES / CHANCES.sum()).astype(np.float32)
DRAWS = 1200
P_VALUE = {1: 15.1, 2: 18.4, 3: 21.1, 4: 23.5, 5: 25.7}  # of chi-square at 1 in 10,000, by degrees of freedom

CONSTRAINTS = [  # pattern, maximum tokens
    ("a|b|c(d{5})", 2),
    ("a|b|cdd|dcc|e", 2),
    ("(a|b)|c(a|b)|d(a|b){2}|e", 2),
    ("c{9}|a|bd|d|e", 1),
    ("[a-e]{1,3}", 3),
    ("(a|bb|ccc|dddd|eeeee){2}", 4),
]
SAMPLINGS = [
    Sampling(1.0),
    Sampling(1.0, top_k=2),
    Sampling(0.7, top_k=3),
    Sampling(1.0, top_p=0.6),
    Sampling(1.5, top_p=0.45),
    Sampling(1.0, top_k=3, top_p=0.8),
    Sampling(0.0),
    Sampling(2.0, top_k=1),
]


def expected(pattern: str, budget: int, sampling: Sampling) -> np.ndarray:
    """The mask with the budget first, then top-k by logit, then temperature, then top-p."""
    bitmask = gr.allocate_token_bitmask(1, VOCABULARY.size)
    gr.compile(gr.regex(pattern), VOCABULARY).matcher().fill_next_token_bitmask(bitmask, 0, budget)
    kept = sorted((t for t in range(6) if bitmask[0, 0] >> t & 1), key=lambda t: -LOGITS[t])
    if sampling.temperature == 0:
        kept = kept[:1]
    kept = kept[: sampling.top_k]
    weights = np.exp(LOGITS[kept].astype(float) / (sampling.temperature or 1.0))
    weights /= weights.sum()
    enough = 1 + int(np.searchsorted(np.cumsum(weights), sampling.top_p)) if sampling.top_p < 1 else len(kept)
    found = np.zeros(6)
    found[kept[:enough]] = weights[:enough] / weights[:enough].sum()
    return found


def agrees(counts: np.ndarray, chances: np.ndarray) -> None:
    assert not counts[chances == 0].any(), (counts, chances)
    some = chances > 0
    if some.sum() > 1:
        wanted = chances[some] * counts.sum()
        assert ((counts[some] - wanted) ** 2 / wanted).sum() < P_VALUE[int(some.sum()) - 1], (counts, chances)


class Fixed(ToyModel):
    """A model with the same logits everywhere."""

    vocabulary, logits_size, context_length = VOCABULARY, 6, 100

    def encode(self, prompt, *, chat, system=None):
        return [0]

    def score(self, row):
        return LOGITS


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=lambda s: f"t{s.temperature}-k{s.top_k}-p{s.top_p}")
@pytest.mark.parametrize(("pattern", "budget"), CONSTRAINTS)
def test_first_tokens(pattern, budget, sampling):
    chances = expected(pattern, budget, sampling)
    counts = np.zeros((2, 6), int)
    guide = gr.compile(gr.regex(pattern), VOCABULARY)
    row = Row(Job([0], guide, lambda _: None, budget, Sampling(0.0)), 0)
    row.start()
    row.job.sampling = sampling
    row.sampler = Sampler(Sampling(sampling.temperature, sampling.top_p, sampling.top_k, 7))
    for _ in range(DRAWS):
        row.ready = row.filled = False
        row.write_forced()
        counts[0, row.sample(LOGITS.copy())[0]] += 1
    agrees(counts[0], chances)
    written = gr.generations(
        Fixed(), ["x"] * DRAWS, gr.regex(pattern), max_tokens=budget, temperature=sampling.temperature,
        top_p=sampling.top_p, top_k=sampling.top_k, seed=3, on_incomplete="finish",
    )  # fmt: skip
    assert all(one.matched for one in written)
    for one in written:
        counts[1, one.tokens[0]] += 1
    agrees(counts[1], chances)


def test_whole_texts():
    """Each step is drawn from its own mask: the probability of a text is the product of its tokens'."""
    pattern, budget = "(a|bb|ccc|dddd|eeeee){2}", 5
    sampling = Sampling(1.0, top_k=2)
    guide = gr.compile(gr.regex(pattern), VOCABULARY)
    chances: dict[tuple[int, ...], float] = {}
    open_ = [((), 1.0, guide.matcher())]
    bitmask = gr.allocate_token_bitmask(1, VOCABULARY.size)
    while open_:
        tokens, chance, matcher = open_.pop()
        if matcher.is_complete():
            chances[tokens] = chance
            continue
        matcher.fill_next_token_bitmask(bitmask, 0, budget - len(tokens))
        kept = sorted((t for t in range(6) if bitmask[0, 0] >> t & 1), key=lambda t: -LOGITS[t])[: sampling.top_k]
        total = sum(CHANCES[t] for t in kept)
        for token in kept:
            twin = matcher.fork()
            assert twin.accept_token(token)
            open_.append(((*tokens, token), chance * CHANCES[token] / total, twin))
    assert sum(chances.values()) == pytest.approx(1) and len(chances) > 3
    written = gr.generations(
        Fixed(), ["x"] * DRAWS, gr.regex(pattern), max_tokens=budget, temperature=1.0, top_k=2, seed=11,
        jump_forward=False, on_incomplete="finish",
    )  # fmt: skip
    wanted = {tokens: chance * DRAWS for tokens, chance in chances.items()}
    counts = dict.fromkeys(wanted, 0)
    for one in written:
        counts[one.tokens] += 1
    assert sum((counts[t] - n) ** 2 / n for t, n in wanted.items()) < 3 * len(wanted) + 20


@pytest.mark.parametrize(
    "options", [{"top_k": 3}, {"top_k": 700}, {"top_p": 0.2}, {"top_p": 0.97}, {"top_k": 2000, "top_p": 0.5}]
)
@pytest.mark.parametrize("spread", [0.0, 0.01, 1.0, 8.0])
def test_tokens_kept_of_many(options, spread):
    """The same tokens are kept as by sorting the whole vocabulary; of equal ones, those with lower ids."""
    rng = np.random.default_rng(4)
    logits = np.round(rng.normal(0, spread, 6000), 1).astype(np.float32)
    logits[rng.random(6000) < 0.1] = -np.inf
    kept, chances = Sampler(Sampling(1.0, seed=1, **options))._chances(logits)
    order = sorted(np.flatnonzero(logits != -np.inf).tolist(), key=lambda t: (-logits[t], t))[: options.get("top_k")]
    weights = np.exp(logits[order].astype(float) - float(logits[order[0]]))
    weights /= weights.sum()
    enough = 1 + int(np.searchsorted(np.cumsum(weights), options["top_p"])) if "top_p" in options else len(order)
    wanted = dict(zip(order[:enough], weights[:enough] / weights[:enough].sum(), strict=True))
    assert set(kept.tolist()) == set(wanted)
    np.testing.assert_allclose(chances, [wanted[t] for t in kept.tolist()])


def test_a_budget_seldom_needs_a_mask(monkeypatch):
    """With top-k, only a token that does not fit does; with top-p, also tokens that others may push out."""
    guide = gr.compile(gr.regex("(a|b|c|d|e){1,40}"), VOCABULARY)
    made = []
    fill = gr.Matcher.fill_next_token_bitmask

    def counted(self, bitmask, row=0, budget=None):
        made.append(budget)
        return fill(self, bitmask, row, budget)

    monkeypatch.setattr(gr.Matcher, "fill_next_token_bitmask", counted)
    for sampling in (Sampling(1.0, seed=3), Sampling(1.0, top_k=2, seed=3), Sampling(1.0, top_p=0.74, seed=3)):
        row = Row(Job([0], guide, lambda _: None, 30, sampling), 0)
        row.start()
        while not row.done:
            row.write_forced()
            if not row.done:
                row.take(row.sample(LOGITS.copy())[0])
        assert len(row.tokens) > 5 and not [budget for budget in made if budget is not None]
