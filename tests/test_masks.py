"""Masks on small random vocabularies: a bit is 1 if and only if the token is accepted, which holds if and only if the
constraint has a text with this prefix. Python alone enumerates and judges the texts."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import assume, example, given, settings, strategies as st

import guiderail as gr
from core_support import (
    ALPHABET,
    LONGEST,
    PROPERTY,
    Case,
    Language,
    byte_vocabulary,
    cases,
    expected_mask,
    mask_of,
    plain,
    vocabularies,
    words,
)
from guiderail import CompileError, _core
from guiderail.constraints.program import build_program

try:
    import re._parser as sre_parser
except ImportError:  # Python 3.10
    import sre_parse as sre_parser  # type: ignore[no-redef]


def walk(case: Case, vocabulary: gr.Vocabulary, seed: int, steps: int = 4) -> None:
    """Compares the masks along a random walk with those of the enumerated language."""
    bounded = case.constraint.limited_to(LONGEST)
    language = Language.of(case)
    if not language.texts:
        with pytest.raises(CompileError) as caught:
            gr.compile(bounded, vocabulary, cache=False)
        assert caught.value.code == "unsatisfiable"
        return
    matcher = gr.compile(bounded, vocabulary, cache=False).matcher()
    rng = random.Random(seed)
    read = b""
    for _ in range(steps):
        mask = mask_of(matcher, spare_words=seed % 3)[: words(vocabulary.size) * 32]
        expected, known = expected_mask(language, read, vocabulary)
        wrong = np.flatnonzero((mask != expected) & known)
        assert not len(wrong), [(vocabulary.token_bytes(int(t)), bool(mask[t]), read) for t in wrong[:4]]
        assert matcher.is_accepting() == (read in language.texts)
        state = matcher.state
        for token in range(vocabulary.size):
            twin = matcher.fork()
            assert twin.accept_token(token) == mask[token]
            assert twin.is_terminated() == (bool(mask[token]) and token in vocabulary.stop_token_ids)
        assert matcher.state == state
        allowed = [int(t) for t in np.flatnonzero(expected) if t not in vocabulary.stop_token_ids]
        continues = any(p != read and p.startswith(read) for p in language.prefixes)
        assert matcher.is_complete() == (matcher.is_accepting() and not continues)
        if not allowed:
            return
        token = rng.choice(allowed)
        assert matcher.accept_token(token)
        read += vocabulary.token_bytes(token)


@settings(PROPERTY, max_examples=500)
@given(cases(), vocabularies(), st.integers(0, 1000))
def test_a_bit_is_set_if_and_only_if_a_text_begins_so(case: Case, vocabulary: gr.Vocabulary, seed: int) -> None:
    walk(case, vocabulary, seed)


@settings(PROPERTY, max_examples=300)
@given(cases())
def test_matches_says_what_python_says(case: Case) -> None:
    """Without a bound on the length, and without a vocabulary."""
    rng = random.Random(repr(case))
    for _ in range(60):
        text = "".join(rng.choice(ALPHABET) for _ in range(rng.randrange(7)))
        assert case.constraint.matches(text) == case.meaning(text), text
        assert case.constraint.matches(text.encode()) == case.meaning(text)


# -- unbounded patterns and long tokens -----------------------------------------------------------------------------
def unbounded_patterns() -> st.SearchStrategy[str]:
    atom = st.sampled_from(["a", "b", "ab", "ÿ", "[ab]", "[^a]", ".", "[^bÿ]", "ba", ".b", "€"])
    counts = st.sampled_from(
        ["*", "+", "?", "{5}", "{2,7}", "{0,9}", "{17,30}", "{5,}", "{0,40}", "{3,200}", "{20,}", "{0,3}", "{6}"]
    )

    def grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        return st.one_of(
            st.tuples(inner, inner).map("".join),
            st.tuples(inner, inner).map(lambda p: f"(?:{p[0]}|{p[1]})"),
            st.tuples(inner, counts).map(lambda p: f"(?:{p[0]}){p[1]}"),
        )

    return st.recursive(atom, grow, max_leaves=5)


class Positions:
    """A pattern as a non-deterministic automaton over characters, every repetition unrolled (Thompson 1968).

    It has no dead states, so a text is a prefix of a match if and only if it leads to some state.
    """

    LARGEST = 6000

    def __init__(self, pattern: str) -> None:
        self.silent: list[list[int]] = []
        self.edges: list[list[tuple[object, int]]] = []
        start = self._state()
        self.end = self._build(sre_parser.parse(pattern), start)
        self.after: dict[str, frozenset[int]] = {"": self._close({start})}

    def _state(self) -> int:
        if len(self.silent) > self.LARGEST:
            raise OverflowError
        self.silent.append([])
        self.edges.append([])
        return len(self.silent) - 1

    def _build(self, items: object, at: int) -> int:
        for kind, value in items:  # type: ignore[attr-defined]
            name = str(kind)
            if name in ("LITERAL", "NOT_LITERAL", "IN", "ANY"):
                after = self._state()
                self.edges[at].append(((name, value), after))
                at = after
            elif name == "SUBPATTERN":
                at = self._build(value[3], at)
            elif name == "BRANCH":
                after = self._state()
                for option in value[1]:
                    first = self._state()
                    self.silent[at].append(first)
                    self.silent[self._build(option, first)].append(after)
                at = after
            else:
                assert name == "MAX_REPEAT", name
                low, high, body = value
                for _ in range(low):
                    at = self._build(body, at)
                after = self._state()
                self.silent[at].append(after)
                if high == sre_parser.MAXREPEAT:
                    first = self._state()
                    self.silent[at].append(first)
                    self.silent[self._build(body, first)] += [first, after]
                else:
                    for _ in range(high - low):
                        at = self._build(body, at)
                        self.silent[at].append(after)
                at = after
        return at

    def _close(self, states: set[int]) -> frozenset[int]:
        work = list(states)
        while work:
            for state in self.silent[work.pop()]:
                if state not in states:
                    states.add(state)
                    work.append(state)
        return frozenset(states)

    def read(self, text: str) -> frozenset[int]:
        if text not in self.after:
            before, c = self.read(text[:-1]), text[-1]
            self.after[text] = self._close({to for s in before for test, to in self.edges[s] if _reads(test, c)})
        return self.after[text]

    def matches(self, text: str) -> bool:
        return self.end in self.read(text)

    def can_begin(self, data: bytes) -> bool:
        try:
            text, cut = data.decode(), b""
        except UnicodeDecodeError as error:
            if error.reason != "unexpected end of data":
                return False
            text, cut = data[: error.start].decode(), data[error.start :]
        if not cut:
            return bool(self.read(text))
        # the cut tokens may also become é and ₭
        return any(c.encode().startswith(cut) and bool(self.read(text + c)) for c in ALPHABET + "é₭")


def _reads(test: object, c: str) -> bool:
    name, value = test  # type: ignore[misc]
    if name == "LITERAL":
        return ord(c) == value
    if name == "NOT_LITERAL":
        return ord(c) != value
    if name == "ANY":
        return c != "\n"
    negated = str(value[0][0]) == "NEGATE"
    return any(str(kind) == "LITERAL" and ord(c) == v for kind, v in value) != negated


LONG_TOKENS = [
    *(b"ab" * n for n in (1, 2, 3, 4, 5, 6, 9, 17, 20)),
    *(b"a" * n for n in (1, 2, 3, 4, 5, 7, 8, 16, 31)),
    *("ÿ".encode() * n for n in (1, 2, 5, 8)),
    *(
        t.encode()
        for t in ("b", "ba", "bab", "zz", "z", "€", "a€b", "ÿb", "zab", "zzzzzab", "bbbb", "aÿaÿaÿaÿaÿaÿ", "b" * 18)
    ),
    *(b"\xc3", b"\xbf", b"ab\xc3", b"\xe2\x82", b"\xac", b"\xff"),
]
LONG = plain(LONG_TOKENS, size=100)


@settings(PROPERTY, max_examples=500)
@given(unbounded_patterns(), st.integers(0, 1000))
@example("(?:ab){17,30}b", 1)
@example("(?:(?:ab|a){0,40}[^a]){6}", 2)
@example("(?:.{0,9}b){9,}", 3)
def test_masks_of_counted_and_unbounded_patterns(pattern: str, seed: int) -> None:
    try:
        oracle = Positions(pattern)
    except OverflowError:
        assume(False)
    matcher = gr.compile(gr.regex(pattern), LONG, cache=False).matcher()
    rng = random.Random(seed)
    read = b""
    for _ in range(6):
        mask = mask_of(matcher)
        for token, text in enumerate(LONG_TOKENS):
            assert mask[token] == oracle.can_begin(read + text), (read, text)
            assert matcher.fork().accept_token(token) == mask[token]
        try:
            ends = oracle.matches(read.decode())
        except UnicodeDecodeError:
            ends = False
        assert mask[LONG.stop_token_ids[0]] == ends == matcher.is_accepting()
        allowed = np.flatnonzero(mask[: len(LONG_TOKENS)])
        if not len(allowed) or len(read) > 120:
            return
        token = int(rng.choice(allowed))
        assert matcher.accept_token(token)
        read += LONG_TOKENS[token]


def test_states_that_share_masks_between_counters_stay_apart() -> None:
    """The masks of (ab){n,m} after k iterations differ only near the bounds: all of them, one guide, any order."""
    guide = gr.compile(gr.regex("(?:ab){3,40}"), LONG, cache=False)
    order = list(range(41))
    random.Random(5).shuffle(order)
    for done in order:
        matcher = guide.matcher()
        assert matcher.accept_string("ab" * done)
        mask = mask_of(matcher)
        for token, text in enumerate(LONG_TOKENS):
            turns = done + (len(text) + 1) // 2
            fits = text == (b"ab" * len(text))[: len(text)] and turns <= 40
            assert mask[token] == fits, (done, text)
        assert matcher.is_accepting() == (done >= 3)


# -- the corners of a mask --------------------------------------------------------------------------------------------
@pytest.mark.parametrize("size", [31, 32, 33, 63, 64, 65])
def test_padding_bits_are_zero(size: int) -> None:
    vocabulary = gr.Vocabulary([b"a"] * 30, stop_token_ids=[29], size=size)
    matcher = gr.compile(gr.any_text(), vocabulary).matcher()
    bits = mask_of(matcher, spare_words=2)
    assert bits[:30].all()
    assert not bits[30:].any()


def test_fill_returns_whether_anything_is_forbidden() -> None:
    everything = gr.Vocabulary([b"a", b"b"], stop_token_ids=[])
    row = np.zeros((1, 1), dtype=np.int32)
    assert gr.compile(gr.any_text(), everything).matcher().fill_next_token_bitmask(row) is False
    assert row[0, 0] == 3
    assert gr.compile(gr.regex("[a]*"), everything).matcher().fill_next_token_bitmask(row) is True
    assert row[0, 0] == 1


def test_duplicates_are_allowed_together() -> None:
    vocabulary = gr.Vocabulary([b"ab", b"a", b"ab", b"b", b"ab"], stop_token_ids=[])
    assert list(np.flatnonzero(mask_of(gr.compile(gr.literal("abb"), vocabulary).matcher()))) == [0, 1, 2, 4]


def test_empty_tokens_and_text_of_special_tokens_are_never_allowed() -> None:
    vocabulary = gr.Vocabulary([b"a", b"", None, b"<x>", b"<eos>"], special_tokens={"<x>": 3}, stop_token_ids=[4])
    matcher = gr.compile(gr.any_text(), vocabulary).matcher()
    assert list(np.flatnonzero(mask_of(matcher))) == [0, 4]
    for token in (1, 2, 3):
        assert not matcher.accept_token(token)
    spelled = gr.compile(gr.literal("<x>"), vocabulary).matcher()
    assert not mask_of(spelled).any(), "a special token never spells text"


def test_bytes_that_are_no_text_are_never_allowed() -> None:
    matcher = gr.compile(gr.any_text(), byte_vocabulary()).matcher()
    first = np.flatnonzero(mask_of(matcher)[:256])
    assert set(first) == {b for b in range(256) if b < 0x80 or 0xC2 <= b <= 0xF4}
    for data, following in [
        (b"\xe0", range(0xA0, 0xC0)),  # no overlong forms
        (b"\xed", range(0x80, 0xA0)),  # no surrogates
        (b"\xf0", range(0x90, 0xC0)),
        (b"\xf4", range(0x80, 0x90)),  # none above U+10FFFF
        (b"\xf1\x80", range(0x80, 0xC0)),
    ]:
        matcher.reset()
        for byte in data:
            assert matcher.accept_token(byte)
        assert not matcher.is_accepting(), "the text never ends inside a character"
        assert set(np.flatnonzero(mask_of(matcher)[:256])) == set(following)


def test_masks_of_one_vocabulary_do_not_depend_on_what_came_before() -> None:
    """Constraints share masks through the vocabulary: a fresh vocabulary gives the same masks."""
    patterns = ["[ab]{2,9}z", "[ab]{2,8}z", "(?:ab){3,8}", "(?:ab){3,9}", ".*b", ".*ÿ", "[^a]*b", "(?=.*b).{3,9}"]
    shared = plain(LONG_TOKENS)
    for pattern in patterns * 2:
        fresh = plain(LONG_TOKENS)
        for text in ("", "ab", "abab"):
            masks = []
            for vocabulary in (shared, fresh):
                matcher = gr.compile(gr.regex(pattern), vocabulary, cache=False).matcher()
                if not matcher.accept_string(text):
                    break
                masks.append(mask_of(matcher))
            assert len(masks) in (0, 2)
            assert not masks or (masks[0] == masks[1]).all()


def test_a_program_serves_one_vocabulary() -> None:
    program = build_program(gr.literal("a"))
    one, two = plain([b"a"]), plain([b"b"])
    _core.Guide(program, one.core, {})
    with pytest.raises(CompileError) as caught:
        _core.Guide(program, two.core, {})
    assert caught.value.code == "program-bound"


def test_tokens_that_leave_a_loop_beyond_its_longest_token() -> None:
    """No token consists of the loop's characters alone, but one begins with some of them."""
    constraint = (gr.text_until("a") + gr.literal("a").repeat()).limited_to(4)
    for tokens in ([b"a", b"ba"], [b"a", b"bbba"], [b"a", b"b", b"bba"], [b"a", b"bbbba"]):
        vocabulary = gr.Vocabulary(tokens, stop_token_ids=[])
        matcher = gr.compile(constraint, vocabulary, cache=False).matcher()
        assert list(mask_of(matcher)[: len(tokens)]) == [len(t) <= 4 for t in tokens], tokens
