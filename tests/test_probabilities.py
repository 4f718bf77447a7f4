"""Probabilities of texts, against an oracle that follows every token of a toy model, and on the embedded model."""

from __future__ import annotations

import enum
import math
from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import guiderail as gr
from guiderail.errors import CompileError, LimitError, ModelError, VocabularyError
from guiderail.generation.models.branches import SessionBranches, Tree, chains_of, trees_of
from guiderail.generation.models.transformers_model import TransformersModel
from guiderail.generation.prefixes import log_softmax
from guiderail.generation.probabilities import Counting, probabilities_of
from test_models import Letters, embedded, needs_demo, tiny  # noqa: F401 - a fixture
from toy_models import ToyModel

EURO = "€".encode()
TOKENS = [b"a", b"b", b"ab", b"aba", *(EURO[i : i + 1] for i in range(3)), EURO, b" ", b"a", b"bb", b"ba", b"", b""]
STOPS = (len(TOKENS) - 2, len(TOKENS) - 1)


def greedy(text: str) -> list[int]:
    data, out = text.encode(), []
    while data:
        token = max((t for t in TOKENS if t and data.startswith(t)), key=len)
        out.append(TOKENS.index(token))
        data = data[len(token) :]
    return out


VOCABULARY = gr.Vocabulary(
    TOKENS,
    special_tokens={"<end>": STOPS[0], "<over>": STOPS[1]},
    stop_token_ids=STOPS,
    size=len(TOKENS),
    encode=greedy,
)


class Toy(ToyModel):
    """Scores depend on the whole row."""

    vocabulary, logits_size = VOCABULARY, VOCABULARY.size + 3

    def __init__(self, max_batch=None, salt=0):
        super().__init__()
        self.max_batch, self.salt = max_batch, salt

    def score(self, row):
        scores = 2 * np.random.default_rng([self.salt, *row]).normal(size=self.logits_size).astype(np.float32)
        scores[VOCABULARY.size :] = 50  # padding columns without tokens
        return scores


def chances(model: Toy, row: list[int]) -> np.ndarray:
    scores = model.score(row)[: VOCABULARY.size].astype(np.float64)
    weights = np.exp(scores - scores.max())
    return weights / weights.sum()


def all_spellings(model: Toy, prompt: list[int], texts: list[str], ending: str) -> dict[str | None, float]:
    """Returns the probability of each text, with the rest under None: token by token, until nothing can change it."""
    wanted = {text.encode(): text for text in texts}
    found: dict[str | None, float] = dict.fromkeys([*texts, None], 0.0)

    def longest(read: bytes) -> str | None:
        return max((t for d, t in wanted.items() if read.startswith(d)), key=lambda t: len(t.encode()), default=None)

    def follow(row: list[int], read: bytes, chance: float) -> None:
        for token, share in enumerate(chances(model, row)):
            after, here = read + TOKENS[token], chance * float(share)
            if token in STOPS:
                found[wanted.get(read) if ending == "stop" else longest(read)] += here
            elif any(d.startswith(after) and (d != after or ending == "stop") for d in wanted):
                follow([*row, token], after, here)
            else:
                found[None if ending == "stop" else longest(after)] += here

    if ending == "any" and texts == [""]:
        return {"": 1.0, None: 0.0}
    follow(prompt, b"", 1.0)
    return found


def canonical(model: Toy, prompt: list[int], texts: list[str], ending: str) -> dict[str | None, float]:
    spelled = {tuple(greedy(text)): text for text in texts}

    def begins(tokens: tuple[int, ...]) -> float:
        row, chance = list(prompt), 1.0
        for token in tokens:
            chance *= float(chances(model, row)[token])
            row.append(token)
        return chance

    found: dict[str | None, float] = {}
    for tokens, text in spelled.items():
        longer = [one for one in spelled if one != tokens and one[: len(tokens)] == tokens]
        nearest = [one for one in longer if not any(o != one and one[: len(o)] == o for o in longer)]
        chance = begins(tokens) - sum(map(begins, nearest))
        if ending == "stop":
            chance = begins(tokens) * float(chances(model, [*prompt, *tokens])[list(STOPS)].sum())
        found[text] = chance
    return found | {None: 1 - sum(found.values())}


TEXTS = st.lists(st.text("ab€ ", max_size=5), min_size=1, max_size=5, unique=True)


@settings(max_examples=60, deadline=None)
@given(TEXTS, st.sampled_from(["canonical", "all"]), st.sampled_from(["any", "stop"]), st.integers(0, 99))
def test_probabilities_are_those_of_brute_force(texts, spellings, ending, salt):
    model = Toy(salt=salt)
    oracle = (all_spellings if spellings == "all" else canonical)(model, [1, 1], texts, ending)
    found = gr.probabilities(model, "1", texts, spellings=spellings, ending=ending, tolerance=0)
    assert list(found) == texts and found.missing == 0 and not found.normalized
    for text in texts:
        assert math.isclose(found[text], oracle[text], rel_tol=1e-6, abs_tol=1e-12), (text, oracle)
    assert abs(found.total + oracle[None] - 1) < 1e-6 and abs(found.other - oracle[None]) < 1e-6
    given_one = gr.probabilities(model, "1", texts, spellings=spellings, ending=ending, normalize=True)
    assert math.isclose(sum(given_one.values()), 1, abs_tol=1e-9) and math.isclose(
        given_one.total, found.total, rel_tol=1e-5
    )
    assert model.open == 0 or all(map(len, model.feeds))


def test_a_tolerance_reads_less_and_says_what_it_left():
    texts = ["abababab", "bababbab"]
    exact = gr.probabilities(Toy(), "1", texts, spellings="all", tolerance=0)
    rough = gr.probabilities(Toy(), "1", texts, spellings="all", tolerance=0.2)
    assert rough.tokens_read < exact.tokens_read
    assert 0 < rough.missing <= 0.2 * rough.total
    assert rough.total <= exact.total <= rough.total + rough.missing


def test_the_longest_text_counts():
    found = gr.probabilities(Toy(), "1", ["a", "ab", "aba"], spellings="all")
    alone = gr.probabilities(Toy(), "1", ["a"], spellings="all")
    assert math.isclose(found.total, alone["a"], rel_tol=1e-6)
    assert gr.probabilities(Toy(), "1", [""])[""] == 1.0


class Mood(enum.Enum):
    GOOD = "a"
    BAD = "b"


@pytest.mark.parametrize(
    ("choices", "keys"),
    [
        (["a", "b"], ["a", "b"]),
        (("b", "a", "b"), ["b", "a"]),
        (Mood, [Mood.GOOD, Mood.BAD]),
        (Literal["a", "b"], ["a", "b"]),
        (Literal[Mood.BAD], [Mood.BAD]),
        (gr.regex("[ab]{1,2}"), ["a", "b", "aa", "ab", "ba", "bb"]),
        (gr.choice(["ab", "a"]), ["ab", "a"]),
        (gr.compile(["a", "b"], VOCABULARY), ["a", "b"]),
    ],
    ids=str,
)  # fmt: skip
def test_choices(choices, keys):
    found = gr.probabilities(Toy(), "1", choices)
    assert list(found) == keys and len(found) == len(keys) and found.best in found
    assert found.ranked()[0] == (found.best, found[found.best])
    assert found[found.best] == max(found.values()) and "total" in repr(found)


def test_prompts():
    talk = [{"role": "user", "content": "1"}]
    one = gr.probabilities(Toy(), "1", ["a", "b"])
    assert dict(gr.probabilities(Toy(), talk, ["a", "b"])) == dict(one)
    several = gr.probabilities(Toy(), ["1", "2"], ["a", "b"])
    assert dict(several[0]) == dict(one) != dict(several[1])
    assert dict(gr.probabilities(Toy(), "1", ["a", "b"], chat=False)) != dict(one)


BAD = [
    (dict(spellings="some"), ModelError, "bad-option"),
    (dict(ending="end"), ModelError, "bad-option"),
    (dict(normalize=1), ModelError, "bad-option"),
    (dict(tolerance=1), ModelError, "bad-option"),
    (dict(tolerance="0"), ModelError, "bad-option"),
    (dict(max_prefixes=0), ModelError, "bad-option"),
    (dict(max_prefixes=2), LimitError, "too-many-prefixes"),
    (dict(max_prefixes=2, spellings="all", tolerance=0), LimitError, "too-many-prefixes"),
    (dict(choices=gr.regex("a*")), LimitError, "too-many-texts"),
    (dict(choices=gr.regex("[ab]{12}") | "a"), LimitError, "too-many-texts"),
    (dict(choices=gr.any_text()), LimitError, "too-many-texts"),
    (dict(choices=gr.regex("a{1000000}")), LimitError, "too-many-texts"),
    (dict(choices=gr.special_token("<end>")), CompileError, "not-enumerable"),
    (dict(choices=gr.nothing()), CompileError, "unsatisfiable"),
    (dict(choices=[]), CompileError, "not-a-constraint"),
    (dict(choices="ab"), CompileError, "not-a-constraint"),
    (dict(choices=Literal["1", 1]), CompileError, "same-text"),
    (dict(choices=enum.Enum("Empty", {})), CompileError, "bad-choice"),
    (dict(choices=enum.Enum("Odd", {"A": (1, 2)})), CompileError, "not-a-constraint"),
    (dict(prompt=7), ModelError, "bad-prompt"),
    (dict(prompt="", chat=False), ModelError, "bad-prompt"),
    (dict(prompt="1" * 63), ModelError, "context-full"),
    (dict(system="s", chat=False), ModelError, "bad-option"),
]  # fmt: skip


@pytest.mark.parametrize(("case", "kind", "code"), BAD, ids=[f"{i}-{case[2]}" for i, case in enumerate(BAD)])
def test_what_is_refused(case, kind, code):
    model = Toy()
    options = {"prompt": "1", "choices": ["aab", "bbab"], **case}
    with pytest.raises(kind) as caught:
        gr.probabilities(model, **options)
    assert caught.value.code == code


def test_a_vocabulary_without_an_encoder_or_an_end():
    class Mute(Toy):
        vocabulary = gr.Vocabulary(TOKENS[:-2], stop_token_ids=[])

    with pytest.raises(VocabularyError, match='spellings="all" needs none') as caught:
        gr.probabilities(Mute(), "1", ["a"])
    assert caught.value.code == "no-encoder"
    assert gr.probabilities(Mute(), "1", ["a"], spellings="all").total > 0
    with pytest.raises(VocabularyError) as caught:
        gr.probabilities(Mute(), "1", ["a"], spellings="all", ending="stop")
    assert caught.value.code == "no-stop-token"


class Sure(Toy):
    def score(self, row):
        scores = np.full(self.logits_size, -np.inf, np.float32)
        scores[1] = 0
        return scores


def test_what_a_model_never_writes():
    found = gr.probabilities(Sure(), "1", ["a", "b"])
    assert dict(found) == {"a": 0.0, "b": 1.0} and found.logprobs["a"] == -math.inf
    with pytest.raises(ModelError) as caught:
        gr.probabilities(Sure(), "1", ["a", "ab"], normalize=True)
    assert caught.value.code == "nothing-likely"

    class Broken(Toy):
        def score(self, row):
            return np.full(self.logits_size, np.nan, np.float32)

    with pytest.raises(ModelError) as caught:
        gr.probabilities(Broken(), "1", ["a", "ab"])
    assert caught.value.code == "bad-logits"


# -- trees of texts
@given(st.lists(st.lists(st.integers(0, 2), max_size=5).map(tuple), unique=True), st.integers(1, 8), st.integers(1, 4))
def test_trees_hold_every_text_once(texts, nodes, chains):
    seen = []
    for tree in trees_of(texts, nodes=nodes, chains=chains, cells=12):
        assert len(tree.leaves) <= chains and (len(tree.token) <= nodes or sum(i is not None for i in tree.asked) == 1)
        for chain in chains_of(tree):
            assert [tree.depth[node] for node in chain] == list(range(len(chain)))
            for end, node in enumerate(chain):
                if tree.asked[node] is not None:
                    assert texts[tree.asked[node]] == tuple(tree.token[n] for n in chain[: end + 1])
        seen += [index for index in tree.asked if index is not None]
    assert sorted(seen) == [i for i, text in enumerate(texts) if text]


@settings(deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 4), max_size=4).map(tuple), unique=True, min_size=1), st.sampled_from([None, 1, 2])
)
def test_rows_of_sessions_answer_for_each_text(texts, most):
    model = Toy(max_batch=most)
    branches = SessionBranches(model, [1, 2])
    found = {index: logits.copy() for index, logits in branches.read(texts)}
    branches.close()
    assert sorted(found) == list(range(len(texts))) and branches.passes == len(model.feeds)
    for index, text in enumerate(texts):
        np.testing.assert_array_equal(found[index], model.score([1, 2, *text]))
    assert model.open == 0 and not Tree().leaves


BRANCHES = [(), (3,), (3, 1), (3, 1, 2), (3, 4), (4,), (5, 5, 5, 5), (2, 1)]


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
@pytest.mark.parametrize("repeatable", [True, False])
def test_branches_of_transformers(kind, repeatable, monkeypatch):
    torch = pytest.importorskip("torch")
    model = TransformersModel(tiny(kind), Letters())
    branches = model.new_branches([1, 2, 3, 4], 4)
    if not repeatable:
        monkeypatch.setattr(branches, "_repeated", lambda rows: None)
    for texts in (BRANCHES, BRANCHES[3:], [()]):
        for index, logits in branches.read(texts):
            ids = torch.tensor([[1, 2, 3, 4, *texts[index]]])
            with torch.inference_mode():
                alone = model.model(input_ids=ids).logits[0, -1].float().numpy()
            np.testing.assert_allclose(logits, alone, atol=1e-4)
    branches.close()
    with pytest.raises(ModelError):
        list(branches.read([(1,)]))


@needs_demo
def test_branches_of_the_embedded_model(embedded):  # noqa: F811
    prompt = embedded.encode("Is the sky blue? Answer in a word. " * 4, chat=True)
    texts = [tuple(token + 100 for token in text) for text in BRANCHES]
    branches = embedded.new_branches(prompt, 4)
    for some in (texts, texts[:5]):
        found = {index: logits.copy() for index, logits in branches.read(some)}
        assert sorted(found) == list(range(len(some)))
        if some is texts:  # passes of 64 tokens or more are computed in the same way
            for index, text in enumerate(some):
                with embedded.new_session(1, 128) as session:
                    np.testing.assert_allclose(found[index], session.feed([[*prompt, *text]])[0], atol=1e-3)
    with pytest.raises(ModelError):
        list(branches.read([(embedded.logits_size,)]))
    branches.close()
    with pytest.raises(ModelError):
        list(branches.read([(1,)]))
    assert branches.passes == 2


@needs_demo
def test_a_prompt_of_many_passes(embedded):  # noqa: F811
    prompt = embedded.encode("word " * 700, chat=False)
    found = gr.probabilities(embedded, "word " * 700, ["word", "other"], chat=False)
    assert found.tokens_read == len(prompt) and found.passes == 2 and found.total <= 1


class Steady:
    """A model that computes each prefix separately: llama.cpp's passes of different sizes differ by some percent."""

    def __init__(self, model):
        self.model, self.known = model, {}
        self.name, self.vocabulary, self.context_length = model.name, model.vocabulary, model.context_length

    def new_branches(self, prompt, longest, chains=32):
        self.prompt, self.passes, self.tokens = prompt, 0, 0
        return self

    def read(self, texts):
        for index, text in enumerate(texts):
            if text not in self.known:
                with self.model.new_session(1, 128) as session:
                    self.known[text] = session.feed([[*self.prompt, *text]])[0].copy()
            yield index, self.known[text]

    def close(self):
        pass


@pytest.fixture(scope="module")
def steady(embedded):  # noqa: F811
    return Steady(embedded)


@needs_demo
@pytest.mark.parametrize("ending", ["any", "stop"])
def test_texts_and_everything_else_sum_to_one(embedded, steady, ending):  # noqa: F811
    """Every token of the vocabulary after every prefix of a text, judged by its bytes alone."""
    prompt = embedded.encode("Is the sky blue at night? Answer yes or no, or with a sentence. " * 2, chat=True)
    texts = ["Yes", "No"]
    wanted = {text.encode(): text for text in texts}
    vocabulary = embedded.vocabulary
    spelled = [vocabulary.token_bytes(i) if vocabulary.is_text(i) else None for i in range(vocabulary.size)]
    parts: dict[str | None, list[float]] = {text: [] for text in [*texts, None]}
    branches = steady.new_branches(prompt, 4)
    pending = [((), b"", 0.0)]
    while pending:
        beginnings = {prefix: (read, chance) for prefix, read, chance in pending}
        pending = []
        order = list(beginnings)
        for index, logits in branches.read(order):
            read, chance = beginnings[order[index]]
            shares = np.exp(chance + log_softmax(logits, vocabulary.size))
            longest = max((d for d in wanted if read.startswith(d)), key=len, default=None)
            for token, data in enumerate(spelled):
                after = read if data is None else read + data
                if data is not None and any(d.startswith(after) and (d != after or ending == "stop") for d in wanted):
                    pending.append(((*order[index], token), after, float(np.log(shares[token]))))
                elif ending == "stop":
                    ended = token in vocabulary.stop_token_ids
                    parts[wanted.get(read) if ended else None].append(float(shares[token]))
                else:
                    here = max((d for d in wanted if after.startswith(d)), key=len, default=longest)
                    parts[None if here is None else wanted[here]].append(float(shares[token]))
        pending = [one for one in pending if one[2] > math.log(1e-8)]
    found = probabilities_of(steady, prompt, texts, texts, Counting("all", ending, tolerance=1e-7))
    other = math.fsum(parts[None])
    assert abs(found.total + other - 1) < 1e-6
    assert abs(found.other - other) < 1e-6
    for text in texts:
        assert abs(found[text] - math.fsum(parts[text])) < 1e-6
