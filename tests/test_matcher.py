"""Matchers: rollback equals replay, forks are independent, failed calls change nothing, bad input is an error."""

from __future__ import annotations

import copy
import gc
import random
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import guiderail as gr
from core_support import PROPERTY, mask_of, plain, words
from guiderail import BitmaskError, CompileError, MatcherError

TEXTS = ["a", "b", "ab", "ba", "aba", "z", "ÿ", "aÿ", "€", "bb", "1", "22", ", ", "b, a"]
TOKENS = [t.encode() for t in TEXTS] + [b"\xc3", b"\xbf", b"", b"\xff", b"a"]
VOCABULARY = gr.Vocabulary(
    [*TOKENS, b"<eos>", b"<eot>", b"<call>", b"<think>"],
    special_tokens={"<eos>": 19, "<eot>": 20, "<call>": 21, "<think>": 22},
    stop_token_ids=[19, 20],
    size=70,
)
WORDS = words(VOCABULARY.size)
CONSTRAINTS = [
    gr.regex(r"(?:[ab]{1,3}z?){2,9}ÿ?"),
    gr.separated_by(gr.regex("[ab]+"), ", ", 1, 4),
    gr.text_until("ab") + gr.special_token("<call>").optional() + gr.regex(".{0,5}"),
    gr.repeat(gr.regex("a|ÿ|b*€") + gr.special_token("<call>", 22), 0, 6),
    gr.regex("(?=.*b)(?!.*zz).*").limited_to(9),
    ~gr.regex(".*bb.*"),
]
GUIDES = [gr.compile(c, VOCABULARY, cache=False) for c in CONSTRAINTS]


# -- histories --------------------------------------------------------------------------------------
@settings(PROPERTY, max_examples=150)
@given(st.integers(0, len(GUIDES) - 1), st.randoms(use_true_random=False))
def test_any_history_equals_its_replay(which: int, rng: random.Random) -> None:
    """Accepts, strings, rejections, rollbacks, resets and forks, against a list of what must have been read."""
    guide = GUIDES[which]
    matcher = guide.matcher()
    steps: list[int | str] = []
    for _ in range(25):
        action = rng.random()
        before = (matcher.state, matcher.history(), matcher.is_terminated())
        if matcher.is_terminated() and action < 0.7:
            action = 0.75
        if action < 0.55:
            mask = mask_of(matcher)
            token = rng.randrange(VOCABULARY.size)
            if rng.random() < 0.8 and mask.any():
                token = int(rng.choice(np.flatnonzero(mask)))
            if matcher.accept_token(token):
                steps.append(token)
            else:
                assert not mask[token]
                assert before == (matcher.state, matcher.history(), matcher.is_terminated())
        elif action < 0.7:
            text = rng.choice(TEXTS)
            if matcher.accept_string(text):
                steps.append(text)
            else:
                assert before == (matcher.state, matcher.history(), matcher.is_terminated())
        elif action < 0.9:
            count = rng.randint(0, len(steps))
            matcher.rollback(count)
            steps = steps[: len(steps) - count]
        elif action < 0.93:
            matcher.reset()
            steps = []
        else:  # the fork continues; the other stays
            twin = matcher.fork()
            matcher.reset()
            matcher = twin
        replay = guide.matcher()
        for step in steps:
            assert replay.accept_token(step) if isinstance(step, int) else replay.accept_string(step)
        assert (matcher.state, matcher.is_terminated()) == (replay.state, replay.is_terminated())
        assert matcher.history() == replay.history() == [s if isinstance(s, int) else -1 for s in steps]
        assert matcher.is_accepting() == replay.is_accepting()
        assert matcher.is_complete() == replay.is_complete()


@settings(PROPERTY, max_examples=100)
@given(st.integers(0, len(GUIDES) - 1), st.randoms(use_true_random=False))
def test_text_is_the_same_however_it_is_cut(which: int, rng: random.Random) -> None:
    guide = GUIDES[which]
    matcher, text = guide.matcher(), b""
    for _ in range(6):
        allowed = [int(t) for t in np.flatnonzero(mask_of(matcher)) if t < len(TOKENS)]
        if not allowed:
            break
        token = rng.choice(allowed)
        assert matcher.accept_token(token)
        text += TOKENS[token]
    whole, bytewise = guide.matcher(), guide.matcher()
    assert whole.accept_string(text)
    for byte in text:
        assert bytewise.accept_string(bytes([byte]))
    assert whole.state == bytewise.state == matcher.state
    assert len(whole.history()) == 1 and len(bytewise.history()) == len(text)
    assert (mask_of(whole) == mask_of(matcher)).all()


def test_forks_are_independent() -> None:
    matcher = GUIDES[0].matcher()
    assert matcher.accept_token(0)
    twin, third = matcher.fork(), copy.copy(matcher)
    assert type(twin) is gr.Matcher and twin.guide is matcher.guide
    assert twin.accept_token(2)
    twin.rollback(2)
    assert matcher.history() == third.history() == [0]
    assert twin.history() == []
    matcher.reset()
    assert third.history() == [0]
    assert third.stop_token_ids() == [19, 20]


# -- the end ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("stop", [19, 20])
def test_every_stop_token_ends_the_text(stop: int) -> None:
    matcher = gr.compile(gr.literal("ab"), VOCABULARY).matcher()
    assert not matcher.accept_token(stop), "not yet"
    assert not mask_of(matcher)[[19, 20]].any()
    assert matcher.accept_token(2)
    assert mask_of(matcher)[[19, 20]].all()
    assert matcher.is_accepting() and matcher.is_complete() and not matcher.is_terminated()
    assert matcher.accept_token(stop)
    assert matcher.is_terminated() and not matcher.is_accepting() and matcher.is_complete()
    assert matcher.find_jump_forward_string() == ""
    assert matcher.forced_tokens() == []
    assert matcher.history() == [2, stop]
    matcher.rollback(1)
    assert not matcher.is_terminated() and matcher.is_accepting()
    assert matcher.accept_token(stop)
    matcher.reset()
    assert not matcher.is_terminated() and matcher.history() == []


def test_stop_tokens_of_ones_own() -> None:
    guide = gr.compile(gr.regex("a*"), VOCABULARY)
    matcher = guide.matcher(stop_token_ids=[5, 21, 5])
    assert matcher.stop_token_ids() == [5, 21]
    mask = mask_of(matcher)
    assert mask[[5, 21]].all() and not mask[[19, 20]].any()
    assert not matcher.accept_token(19)
    assert matcher.fork().accept_token(21)
    assert matcher.accept_token(5) and matcher.is_terminated()
    endless = guide.matcher(stop_token_ids=[])
    assert not mask_of(endless)[[19, 20]].any()
    also_text = guide.matcher(stop_token_ids=[0])
    assert also_text.accept_token(0) and not also_text.is_terminated(), "text comes first"
    for bad in (-1, 70, 10**9):
        with pytest.raises(MatcherError) as caught:
            guide.matcher(stop_token_ids=[bad])
        assert caught.value.code == "matcher-token"


def test_is_complete_means_that_nothing_can_follow() -> None:
    matcher = gr.compile(gr.regex("ab?"), VOCABULARY).matcher()
    assert matcher.accept_token(0)
    assert matcher.is_accepting() and not matcher.is_complete()
    assert matcher.accept_token(1)
    assert matcher.is_complete()
    waits = gr.compile(gr.literal("a") + gr.special_token("<call>").optional(), VOCABULARY).matcher()
    assert waits.accept_token(0)
    assert waits.is_accepting() and not waits.is_complete(), "a special token may follow"


# -- errors -----------------------------------------------------------------------------------------
def _snapshot(matcher: gr.Matcher) -> tuple[Any, ...]:
    return matcher.state, matcher.history(), matcher.is_terminated(), matcher.is_accepting()


def _refuses(matcher: gr.Matcher, call: Callable[[], object], kind: type[Exception], code: str) -> None:
    before = _snapshot(matcher)
    with pytest.raises(kind) as caught:
        call()
    assert getattr(caught.value, "code", "") == code
    assert _snapshot(matcher) == before


def test_use_after_the_end_is_an_error() -> None:
    matcher = gr.compile(gr.regex("a*"), VOCABULARY).matcher()
    assert matcher.accept_token(0) and matcher.accept_token(19)
    row = np.full((1, WORDS), 5, dtype=np.int32)
    for call in (
        lambda: matcher.accept_token(0),
        lambda: matcher.accept_token(19),
        lambda: matcher.accept_string("a"),
        lambda: matcher.fill_next_token_bitmask(row),
        lambda: gr.fill_next_token_bitmasks([matcher], row),
    ):
        _refuses(matcher, call, MatcherError, "matcher-terminated")
    assert (row == 5).all(), "nothing was written"


@pytest.mark.parametrize("token", [-1, 70, 71, 2**31, 2**40, -(2**40)])
def test_token_ids_out_of_range(token: int) -> None:
    matcher = GUIDES[0].matcher()
    assert matcher.accept_token(0)
    _refuses(matcher, lambda: matcher.accept_token(token), MatcherError, "matcher-token")


def test_padding_ids_are_refused_but_no_error() -> None:
    matcher = gr.compile(gr.any_text(), VOCABULARY).matcher()
    for token in (23, 69):
        assert not matcher.accept_token(token)


@pytest.mark.parametrize("token", ["a", None, 1.5, [1]])
def test_token_ids_are_integers(token: Any) -> None:
    with pytest.raises(TypeError):
        GUIDES[0].matcher().accept_token(token)


@pytest.mark.parametrize("count", [-1, 2, 10**9, -(2**40)])
def test_rollback_too_far(count: int) -> None:
    matcher = GUIDES[0].matcher()
    assert matcher.accept_token(0)
    _refuses(matcher, lambda: matcher.rollback(count), MatcherError, "matcher-rollback")
    matcher.rollback(0)
    assert matcher.history() == [0]


def test_strings_that_are_no_text_are_refused() -> None:
    matcher = gr.compile(gr.any_text(), VOCABULARY).matcher()
    assert not matcher.accept_string("\ud800")
    assert not matcher.accept_string(b"\xff")
    assert not matcher.accept_string(b"\xed\xa0\x80")
    assert matcher.history() == []
    assert matcher.accept_string(b"\xc3") and not matcher.is_accepting()
    assert matcher.accept_string("") and matcher.accept_string(b"\xbf")
    assert matcher.is_accepting()


def _read_only() -> np.ndarray:
    array = np.zeros((1, WORDS), dtype=np.int32)
    array.setflags(write=False)
    return array


BAD_BITMASKS: list[tuple[str, Callable[[], Any], str]] = [
    ("int64", lambda: np.zeros((1, WORDS), dtype=np.int64), "bitmask-dtype"),
    ("uint32", lambda: np.zeros((1, WORDS), dtype=np.uint32), "bitmask-dtype"),
    ("float32", lambda: np.zeros((1, WORDS), dtype=np.float32), "bitmask-dtype"),
    ("bool", lambda: np.zeros((1, 70), dtype=bool), "bitmask-dtype"),
    ("big-endian", lambda: np.zeros((1, WORDS), dtype=">i4"), "bitmask-dtype"),
    ("too narrow", lambda: np.zeros((1, WORDS - 1), dtype=np.int32), "bitmask-shape"),
    ("no words", lambda: np.zeros((1, 0), dtype=np.int32), "bitmask-shape"),
    ("three axes", lambda: np.zeros((1, 1, WORDS), dtype=np.int32), "bitmask-shape"),
    ("no axis", lambda: np.zeros((), dtype=np.int32), "bitmask-shape"),
    ("columns apart", lambda: np.zeros((1, WORDS * 2), dtype=np.int32)[:, ::2], "bitmask-shape"),
    ("columns reversed", lambda: np.zeros((1, WORDS), dtype=np.int32)[:, ::-1], "bitmask-shape"),
    ("transposed", lambda: np.zeros((WORDS, 4), dtype=np.int32).T, "bitmask-shape"),
    ("read-only", _read_only, "bitmask-array"),
    ("bytes", lambda: b"\0" * 4 * WORDS, "bitmask-array"),
    ("a list", lambda: [[0] * WORDS], "bitmask-array"),
    ("no rows", lambda: np.zeros((0, WORDS), dtype=np.int32), "bitmask-row"),
]


@pytest.mark.parametrize(("make", "code"), [b[1:] for b in BAD_BITMASKS], ids=[b[0] for b in BAD_BITMASKS])
def test_bad_bitmasks(make: Callable[[], Any], code: str) -> None:
    matcher = GUIDES[0].matcher()
    bitmask = make()
    _refuses(matcher, lambda: matcher.fill_next_token_bitmask(bitmask), BitmaskError, code)
    _refuses(matcher, lambda: gr.fill_next_token_bitmasks([matcher], bitmask), BitmaskError, code)


def test_no_bitmask_at_all() -> None:
    with pytest.raises((TypeError, BitmaskError)):
        GUIDES[0].matcher().fill_next_token_bitmask(None)


@pytest.mark.parametrize("row", [-1, 2, 10**9])
def test_rows_out_of_range(row: int) -> None:
    matcher = GUIDES[0].matcher()
    bitmask = np.full((2, WORDS), 5, dtype=np.int32)
    _refuses(matcher, lambda: matcher.fill_next_token_bitmask(bitmask, row), BitmaskError, "bitmask-row")
    _refuses(matcher, lambda: gr.fill_next_token_bitmasks([matcher], bitmask, [row]), BitmaskError, "bitmask-row")
    assert (bitmask == 5).all()


def test_bitmasks_of_other_layouts() -> None:
    matcher = GUIDES[0].matcher()
    expected = np.zeros((1, WORDS), dtype=np.int32)
    matcher.fill_next_token_bitmask(expected)
    flat = np.full(WORDS, -1, dtype=np.int32)
    matcher.fill_next_token_bitmask(flat)
    assert (flat == expected[0]).all()
    rows_apart = np.full((6, WORDS + 3), -1, dtype=np.int32)
    matcher.fill_next_token_bitmask(rows_apart[::2], 1)
    assert (rows_apart[2, :WORDS] == expected[0]).all() and (rows_apart[2, WORDS:] == 0).all()
    assert (np.delete(rows_apart, 2, axis=0) == -1).all()
    backwards = np.full((3, WORDS), -1, dtype=np.int32)
    matcher.fill_next_token_bitmask(backwards[::-1], 0)
    assert (backwards[2] == expected[0]).all() and (backwards[:2] == -1).all()


def test_torch_bitmasks() -> None:
    torch = pytest.importorskip("torch")
    matcher = GUIDES[0].matcher()
    expected = np.zeros((1, WORDS), dtype=np.int32)
    matcher.fill_next_token_bitmask(expected)
    tensor = torch.full((3, WORDS), -1, dtype=torch.int32)
    matcher.fill_next_token_bitmask(tensor, 1)
    assert (tensor[1].numpy() == expected[0]).all() and (tensor[[0, 2]] == -1).all()
    gr.fill_next_token_bitmasks([matcher, matcher], tensor, rows=[2, 0])
    assert (tensor.numpy() == expected[0]).all()
    for bad, code in (
        (torch.zeros((1, WORDS), dtype=torch.int64), "bitmask-dtype"),
        (torch.zeros((1, WORDS - 1), dtype=torch.int32), "bitmask-shape"),
        (torch.zeros((WORDS, 2), dtype=torch.int32).T, "bitmask-shape"),
        (torch.zeros((1, 1, WORDS), dtype=torch.int32), "bitmask-shape"),
    ):
        _refuses(matcher, lambda bad=bad: matcher.fill_next_token_bitmask(bad), BitmaskError, code)


# -- batches ----------------------------------------------------------------------------------------
def test_batches_of_several_guides_into_chosen_rows() -> None:
    matchers = [guide.matcher() for guide in GUIDES]
    for matcher in matchers:
        matcher.accept_string("a")
    bitmask = np.full((9, WORDS + 1), -1, dtype=np.int32)
    rows = [8, 0, 3, 5, 1, 7]
    assert gr.fill_next_token_bitmasks(matchers, bitmask, rows, threads=2) is None
    for matcher, row in zip(matchers, rows, strict=True):
        one = np.zeros((1, WORDS), dtype=np.int32)
        matcher.fill_next_token_bitmask(one)
        assert (bitmask[row, :WORDS] == one[0]).all() and bitmask[row, WORDS] == 0
    assert (bitmask[[2, 4, 6]] == -1).all()
    gr.fill_next_token_bitmasks([], bitmask)


def test_a_bad_batch_breaks_nothing() -> None:
    good = [guide.matcher() for guide in GUIDES[:3]]
    done = gr.compile(gr.literal("a"), VOCABULARY).matcher()
    assert done.accept_token(0) and done.accept_token(19)
    bitmask = np.full((4, WORDS), 5, dtype=np.int32)
    states = [m.state for m in good]
    with pytest.raises(MatcherError, match="matcher 2") as caught:
        gr.fill_next_token_bitmasks([good[0], good[1], done, good[2]], bitmask)
    assert caught.value.code == "matcher-terminated"
    assert (bitmask == 5).all()
    with pytest.raises(BitmaskError) as refused:
        gr.fill_next_token_bitmasks(good, bitmask, rows=[0, 1])
    assert refused.value.code == "bitmask-row"
    with pytest.raises(BitmaskError) as refused:
        gr.fill_next_token_bitmasks(good, bitmask[:2])
    assert refused.value.code == "bitmask-row"
    with pytest.raises((TypeError, MatcherError)):
        gr.fill_next_token_bitmasks([good[0], None], bitmask)  # type: ignore[list-item]
    assert [m.state for m in good] == states
    gr.fill_next_token_bitmasks(good, bitmask)


# -- special tokens ---------------------------------------------------------------------------------
def test_a_special_token_named_twice() -> None:
    """Its text and its id name one token."""
    constraint = gr.special_token("<think>") + "a" + gr.special_token(22, "<call>") + gr.special_token("<think>", 22)
    matcher = gr.compile(constraint, VOCABULARY).matcher()
    for allowed, token in (([22], 22), ([0, 18], 0), ([21, 22], 22), ([22], 22)):
        assert list(np.flatnonzero(mask_of(matcher))) == allowed
        assert matcher.accept_token(token)
    assert matcher.is_complete()
    automaton = matcher.guide.to_token_automaton()
    assert [list(automaton.allowed(s)) for s in range(automaton.states)] == [[22], [0, 18], [21, 22], [22], []]


def test_special_tokens_by_name_and_by_id() -> None:
    constraint = gr.special_token("<call>", 22) + gr.literal("ab") + gr.special_token(22)
    matcher = gr.compile(constraint, VOCABULARY).matcher()
    assert list(np.flatnonzero(mask_of(matcher))) == [21, 22]
    assert not matcher.accept_token(0) and not matcher.accept_string("<call>")
    assert matcher.accept_token(22)
    start = matcher.state
    assert matcher.accept_token(2)
    assert list(np.flatnonzero(mask_of(matcher))) == [22]
    assert matcher.accept_token(22) and matcher.is_complete()
    matcher.rollback(2)
    assert matcher.state == start
    assert list(np.flatnonzero(mask_of(matcher))) == [0, 2, 18]
    matcher.rollback(1)
    assert matcher.accept_token(21)


def test_unknown_special_tokens_are_errors() -> None:
    for names in (["<nobody>"], ["<call>", "<nobody>"], [70], [10**6], [0]):
        with pytest.raises(CompileError) as caught:
            gr.compile(gr.special_token(*names), VOCABULARY)
        assert caught.value.code == "unknown-token"
        assert str(names[-1]) in str(caught.value)


def test_special_tokens_among_text() -> None:
    matcher = gr.compile(gr.regex("[ab]*") + gr.special_token("<call>") + gr.regex("z"), VOCABULARY).matcher()
    for text in ("", "ab", "bb"):
        matcher.reset()
        assert matcher.accept_string(text)
        mask = mask_of(matcher)
        assert mask[21] and mask[0] and not mask[5] and not mask[19]
        assert matcher.find_jump_forward_string() == ""


# -- forced text ------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("constraint", "read", "forced"),
    [
        (gr.literal("hello ÿ"), "", "hello ÿ"),
        (gr.literal("hello"), "hel", "lo"),
        (gr.literal("hello"), "hello", ""),
        (gr.choice(["abcX", "abdY"]), "", "ab"),
        (gr.choice(["ÿ€x", "ÿ😀y"]), "", "ÿ"),
        (gr.choice(["éa", "êa"]), "", ""),  # one byte is forced, but not a character
        (gr.regex("a?bc"), "", ""),
        (gr.regex("a?bc"), "a", "bc"),
        (gr.literal("ab").optional() + "c", "", ""),
        (gr.literal("ab").optional(), "", ""),  # the text may end here
        (gr.regex("x{3}y*"), "", "xxx"),
        (gr.regex("(?=x)[a-z]{2}"), "", "x"),
        (gr.regex("[xy]z") & ~gr.literal("xz"), "", "yz"),
        (gr.literal("a") + gr.special_token("<call>") + "b", "", "a"),
    ],
)
def test_jump_forward_string(constraint: gr.Constraint, read: str, forced: str) -> None:
    matcher = gr.compile(constraint, VOCABULARY).matcher()
    assert matcher.accept_string(read)
    before = _snapshot(matcher)
    assert matcher.find_jump_forward_string() == forced
    assert _snapshot(matcher) == before
    assert matcher.accept_string(forced)


def test_forced_text_is_bounded() -> None:
    matcher = gr.compile(gr.literal("ab" * 10_000), VOCABULARY).matcher()
    forced = matcher.find_jump_forward_string()
    assert 1000 < len(forced) < 20_000 and ("ab" * 10_000).startswith(forced)


def test_no_forced_tokens_without_an_encoder() -> None:
    assert gr.compile(gr.literal("abab"), VOCABULARY).matcher().forced_tokens() == []


FORCED_PARTS = [
    "hello",
    " world",
    "The answer is ",
    ": ",
    "42",
    "naïve",
    " €",
    "\n\n",
    '{"name": "',
    "  ",
    "123456",
    "ing",
]


@pytest.mark.parametrize("name", ["llama3", "mistral", "deepseek"])
def test_forced_tokens_are_what_the_tokenizer_writes(name: str, request: pytest.FixtureRequest) -> None:
    """They can be accepted, and the encoding of every finished text begins with them."""
    vocabulary = request.getfixturevalue(name)
    assert vocabulary.can_encode
    rng = random.Random(11)
    found = 0
    for _ in range(40):
        parts = [rng.choice(FORCED_PARTS) for _ in range(rng.randint(1, 4))]
        endings = ["x", "hello", " a", "s", "1", ".", "ings", "\n", "  b", "€"]
        options = ["".join(parts) + e for e in rng.sample(endings, rng.randint(1, 4))]
        guide = gr.compile(gr.choice(options), vocabulary, cache=False)
        matcher = guide.matcher()
        forced = matcher.forced_tokens()
        assert matcher.history() == []
        found += len(forced)
        for option in options:
            try:
                whole = vocabulary.encode(option)
            except gr.VocabularyError:
                continue
            assert whole[: len(forced)] == forced, (option, forced)
        for token in forced:
            assert matcher.accept_token(token)
        again = matcher.forced_tokens()  # also in the middle of a text
        for token in again:
            assert matcher.accept_token(token)
        for option in options:
            try:
                whole = vocabulary.encode(option)
            except gr.VocabularyError:
                continue
            assert (
                not again
                or whole[: len(forced) + len(again)] == forced + again
                or not option.startswith(b"".join(vocabulary.token_bytes(t) for t in forced + again).decode())
            )
    assert found > 20, "something is forced now and then"


@pytest.mark.parametrize("name", ["llama3", "mistral", "deepseek"])
def test_forced_tokens_after_a_long_text(name: str, request: pytest.FixtureRequest) -> None:
    """Spelled as in the whole text, even if its beginning was spelled differently."""
    vocabulary = request.getfixturevalue(name)
    text, rest = (
        "The report says, in many words, that rain is to be expected. Größe 5! " * 8 + "So",
        "; ENDS HERE: YES.",
    )
    guide = gr.compile(gr.regex(r"(?u)[\w ,.!]{300,}; ENDS HERE: YES\."), vocabulary, cache=False)
    whole = vocabulary.encode(text + rest)
    usual = vocabulary.encode(text)
    assert whole[: len(usual)] == usual and len(usual) > 100
    odd = [token for letter in text[:100] for token in vocabulary.encode(letter)] + vocabulary.encode(text[100:])
    assert odd != usual
    for spelled in (usual, odd):
        matcher = guide.matcher()
        assert all(map(matcher.accept_token, spelled))
        assert matcher.forced_tokens() == []  # the text may continue
        ending = whole[len(usual) :]
        assert matcher.accept_token(ending[0])
        assert matcher.forced_tokens() == ending[1:]


def test_nothing_is_forced_where_the_tokenizer_would_read_a_special_token() -> None:
    """If it does not spell a continuation as text, the spelling of the forced text before it is undecided."""
    tokens = [b"\n", *(bytes([code]) for code in range(32, 127)), b"</s>", b"<|end|>"]
    ids = {token: i for i, token in enumerate(tokens)}
    calls: list[str] = []

    def encode(text: str) -> list[int]:
        calls.append(text)
        parts = re.split(r"(<\|end\|>)", text)
        return [ids[unit.encode()] for part in parts for unit in ([part] if part == "<|end|>" else part)]

    special = {"<|end|>": ids[b"<|end|>"]}
    vocabulary = gr.Vocabulary(tokens, special_tokens=special, stop_token_ids=ids[b"</s>"], encode=encode)
    guide = gr.compile(gr.regex(r"ab<\|(end\|>|x)"), vocabulary, cache=False)
    assert guide.matcher().forced_tokens() == [] and "ab<|end|>" in calls
    guide = gr.compile(gr.regex(r"ab<\|(enD\|>|x)"), vocabulary, cache=False)
    assert guide.matcher().forced_tokens() == [ids[b"a"], ids[b"b"], ids[b"<"], ids[b"|"]]


def test_repr_says_where_it_stands() -> None:
    matcher = gr.compile(gr.literal("ab"), VOCABULARY).matcher()
    assert repr(matcher) == "<Matcher after 0 tokens, open>"
    matcher.accept_token(2)
    assert repr(matcher) == "<Matcher after 1 tokens, accepting>"
    matcher.accept_token(19)
    assert repr(matcher) == "<Matcher after 2 tokens, terminated>"


def test_a_matcher_keeps_its_guide_alive() -> None:
    matcher = gr.compile(gr.regex("[ab]+"), plain([b"a", b"b"]), cache=False).matcher()
    gc.collect()
    assert mask_of(matcher)[:2].all() and matcher.accept_token(1)
