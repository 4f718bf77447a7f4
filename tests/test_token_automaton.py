"""The token automaton equals the matcher in every state, with NumPy and with torch, saved and loaded."""

from __future__ import annotations

import math
import zipfile
from pathlib import Path

import numpy as np
import pytest

import guiderail as gr
from core_support import PIECES, mask_of, words
from guiderail import BitmaskError, LimitError, MatcherError, TokenAutomaton, VocabularyError

TOKENS = [*PIECES, b"a", b"", b"ab"]
VOCABULARY = gr.Vocabulary(
    [*TOKENS, b"<eos>", b"<eot>", b"<call>"],
    special_tokens={"<eos>": len(TOKENS), "<eot>": len(TOKENS) + 1, "<call>": len(TOKENS) + 2},
    stop_token_ids=[len(TOKENS), len(TOKENS) + 1],
    size=len(TOKENS) + 30,
)
CONSTRAINTS = [
    gr.regex("(?:ab|[^a]){2,4}€?"),
    gr.regex("a*"),
    gr.regex("(?=.*b).*").limited_to(4),
    gr.text_until("ab"),
    ~gr.regex(".*ÿ.*") & gr.regex("[abÿ]*"),
    gr.choice(["a", "ab", "abz", "ÿÿ€"]),
    gr.substring_of("abzÿ€aab"),
    gr.literal("a").repeat() + gr.special_token("<call>") + gr.regex("[ab]{0,3}"),
    gr.empty(),
]
each = pytest.mark.parametrize("constraint", CONSTRAINTS, ids=repr)


def automaton_of(constraint: gr.Constraint) -> tuple[gr.Guide, TokenAutomaton]:
    guide = gr.compile(constraint, VOCABULARY, cache=False)
    return guide, guide.to_token_automaton()


def reachable(guide: gr.Guide, automaton: TokenAutomaton) -> dict[int, gr.Matcher]:
    """Returns a matcher for each state of the automaton, after a shortest text that leads there."""
    found = {0: guide.matcher()}
    work = [0]
    while work:
        state = work.pop(0)
        for token in automaton.allowed(state):
            after = automaton.step(state, int(token))
            if after not in found:
                found[after] = found[state].fork()
                assert found[after].accept_token(int(token))
                work.append(after)
    return found


@each
def test_it_equals_the_matcher_on_every_state(constraint: gr.Constraint) -> None:
    guide, automaton = automaton_of(constraint)
    matchers = reachable(guide, automaton)
    assert set(matchers) == set(range(automaton.states)), "no state is out of reach"
    number = {m.state: s for s, m in matchers.items()}
    assert len(number) == automaton.states, "no state is there twice"
    stops = set(automaton.stop_token_ids)
    row = np.full((2, words(VOCABULARY.size) + 1), -1, dtype=np.int32)
    for state, matcher in matchers.items():
        mask = mask_of(matcher)
        automaton.fill(state, row, 1)
        assert (np.unpackbits(row[1].view(np.uint8), bitorder="little")[: len(mask)].astype(bool) == mask).all()
        assert row[1, -1] == 0 and (row[0] == -1).all()
        assert bool(automaton.accepting[state]) == matcher.is_accepting()
        allowed = automaton.allowed(state)
        assert list(allowed) == sorted(set(np.flatnonzero(mask)) - stops)
        for token in range(VOCABULARY.size):
            after = matcher.fork()
            expected = number[after.state] if token not in stops and after.accept_token(token) else -1
            if expected >= 0:
                expected = number[after.state]
            assert automaton.step(state, token) == expected
    table, index = automaton.mask_table
    assert table.shape == (len(set(index)), words(VOCABULARY.size)) and len(index) == automaton.states


@each
def test_torch_equals_numpy(constraint: gr.Constraint) -> None:
    torch = pytest.importorskip("torch")
    _, automaton = automaton_of(constraint)
    tensors = automaton.to_torch()
    states = torch.arange(automaton.states)
    row = np.zeros((automaton.states, words(VOCABULARY.size)), dtype=np.int32)
    for state in range(automaton.states):
        automaton.fill(state, row, state)
    assert (tensors.bitmask(states).numpy() == row).all()
    bits = np.unpackbits(row.view(np.uint8), axis=1, bitorder="little").astype(bool)[:, : VOCABULARY.size]
    allowed = tensors.allowed(states)
    assert allowed.dtype == torch.bool and (allowed.numpy() == bits).all()
    all_states = states.repeat_interleave(VOCABULARY.size)
    all_tokens = torch.arange(VOCABULARY.size).repeat(automaton.states)
    after = tensors.step(all_states, all_tokens)
    expected = [automaton.step(int(s), int(t)) for s, t in zip(all_states, all_tokens, strict=True)]
    assert after.tolist() == expected
    logits = torch.randn(automaton.states, VOCABULARY.size + 5)
    held = logits.clone()
    masked = tensors.apply(logits, states)
    assert (logits == held).all()
    assert (masked[:, : VOCABULARY.size].isneginf().numpy() == ~bits).all()
    assert masked[:, VOCABULARY.size :].isneginf().all()
    assert (masked[:, : VOCABULARY.size][allowed] == logits[:, : VOCABULARY.size][allowed]).all()


def test_torch_refuses_with_minus_one_and_stays_there() -> None:
    torch = pytest.importorskip("torch")
    _, automaton = automaton_of(CONSTRAINTS[1])
    tensors = automaton.to_torch()
    tokens = torch.tensor([-1, VOCABULARY.size, VOCABULARY.size + 7, 2**40, VOCABULARY.stop_token_ids[0]])
    assert tensors.step(torch.zeros(5, dtype=torch.int64), tokens).tolist() == [-1] * 5
    assert tensors.step(torch.full((5,), -1), tokens).tolist() == [-1] * 5
    good = int(automaton.allowed(0)[0])
    assert tensors.step(torch.tensor([-1, 0]), torch.tensor([good, good])).tolist() == [-1, 0]


def test_token_ids_next_to_those_of_another_state() -> None:
    """Keys are state * size + token: an id out of range must not hit the next state's row."""
    torch = pytest.importorskip("torch")
    _, automaton = automaton_of(CONSTRAINTS[0])
    tensors = automaton.to_torch()
    for state in range(automaton.states - 1):
        for token in automaton.allowed(state + 1)[:5]:
            beyond = VOCABULARY.size + int(token)
            assert tensors.step(torch.tensor([state]), torch.tensor([beyond])).item() == -1
            assert automaton.step(state, beyond) == -1
            assert automaton.step(state, -1) == -1


@each
def test_saved_and_loaded_it_is_the_same(constraint: gr.Constraint, tmp_path: Path) -> None:
    _, automaton = automaton_of(constraint)
    path = tmp_path / "automaton.bin"
    automaton.save(path)
    again = TokenAutomaton.load(path)
    for name in ("indptr", "token", "next_state", "accepting"):
        one, two = getattr(automaton, name), getattr(again, name)
        assert one.dtype == two.dtype and (one == two).all()
    assert again.vocabulary_size == VOCABULARY.size
    assert again.stop_token_ids == automaton.stop_token_ids


def test_files_that_hold_no_automaton(tmp_path: Path) -> None:
    _, automaton = automaton_of(CONSTRAINTS[0])
    path = tmp_path / "automaton.npz"

    def refused() -> None:
        with pytest.raises(VocabularyError) as caught:
            TokenAutomaton.load(path)
        assert caught.value.code == "automaton-file"
        assert "automaton.npz" in str(caught.value)

    automaton.save(path)
    whole = path.read_bytes()
    for data in (b"", b"hello", whole[: len(whole) // 2], whole[:-30]):
        path.write_bytes(data)
        refused()
    np.save(open(path, "wb"), np.arange(5))  # noqa: SIM115
    refused()
    np.savez(open(path, "wb"), other=np.arange(5))  # noqa: SIM115
    refused()
    good = {
        "format": np.array([1, automaton.vocabulary_size]),
        "indptr": automaton.indptr,
        "token": automaton.token,
        "next_state": automaton.next_state,
        "accepting": automaton.accepting,
        "stop": np.array(automaton.stop_token_ids),
    }
    short = automaton.indptr.copy()
    short[-1] -= 1
    for name, value in (
        ("format", np.array([2, automaton.vocabulary_size])),
        ("format", np.array([1, 3])),
        ("indptr", short),
        ("indptr", automaton.indptr[:-1]),
        ("indptr", automaton.indptr[::-1]),
        ("token", automaton.token - 5),
        ("next_state", automaton.next_state + automaton.states),
        ("next_state", automaton.next_state[:-1]),
        ("accepting", automaton.accepting[:-1]),
        ("accepting", np.zeros(0, dtype=bool)),
        ("stop", np.array([VOCABULARY.size])),
        ("token", automaton.token[::-1].copy()),
    ):
        with open(path, "wb") as file:
            np.savez(file, **{**good, name: value})
        refused()
    for name, value in (
        ("format", np.array(1)),
        ("format", np.array([1, 2**62])),
        ("format", np.array([1, math.inf])),
        ("indptr", automaton.indptr.reshape(1, -1)),
        ("token", automaton.token.astype(np.int64) + 2**32),
        ("token", automaton.token + 0.5),
        ("token", automaton.token.astype("M8[s]")),
        ("accepting", automaton.accepting.reshape(-1, 1)),
        ("accepting", np.array(True)),
        ("stop", np.array([[1]])),
    ):
        with open(path, "wb") as file:
            np.savez(file, **{**good, name: value})
        refused()
    path.unlink()
    refused()
    with pytest.raises(VocabularyError, match="cannot be written"):
        automaton.save(tmp_path / "no folder" / "automaton.npz")


def test_damaged_files_of_automata(tmp_path: Path) -> None:
    _, automaton = automaton_of(CONSTRAINTS[0])
    path = tmp_path / "automaton.npz"
    automaton.save(path)
    whole = path.read_bytes()
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << at % 8)]) + whole[at + 1 :])
        try:
            again = TokenAutomaton.load(path)
        except VocabularyError as error:
            assert error.code == "automaton-file"
        else:  # a date, or another part of the archive that means nothing here
            assert (again.token == automaton.token).all() and (again.next_state == automaton.next_state).all()


def test_a_small_file_cannot_take_gigabytes(tmp_path: Path) -> None:
    path = tmp_path / "automaton.npz"
    length = 10**9
    header = f"{{'descr': '<i8', 'fortran_order': False, 'shape': ({length},)}}".encode().ljust(117) + b"\n"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("format.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    with pytest.raises(LimitError) as caught:
        TokenAutomaton.load(path)
    assert caught.value.code == "automaton-size"
    with pytest.raises(VocabularyError):
        TokenAutomaton.load(path, max_bytes=1 << 60)


def test_a_limit_on_states() -> None:
    guide = gr.compile(gr.regex("(?:.*a).{3}"), VOCABULARY, cache=False)
    states = guide.to_token_automaton().states
    assert guide.to_token_automaton(states).states == states
    with pytest.raises(LimitError) as caught:
        guide.to_token_automaton(states - 1)
    assert caught.value.code == "states" and "max_states" in str(caught.value)
    assert mask_of(guide.matcher()).any(), "the guide still works"
    endless = gr.compile(gr.regex(".{0,100000}"), VOCABULARY, cache=False)
    with pytest.raises(LimitError):
        endless.to_token_automaton(500)


def test_states_and_bitmasks_out_of_range() -> None:
    _, automaton = automaton_of(CONSTRAINTS[0])
    row = np.zeros((1, words(VOCABULARY.size)), dtype=np.int32)
    for state in (-1, automaton.states, 10**9):
        for call in (automaton.allowed, lambda s: automaton.step(s, 0), lambda s: automaton.fill(s, row)):
            with pytest.raises(MatcherError) as caught:
                call(state)
            assert caught.value.code == "matcher-state"
    for bad in (row[:, :-1], row.astype(np.int64), row[0]):
        with pytest.raises(BitmaskError) as refused:
            automaton.fill(0, bad)
        assert refused.value.code == "bitmask-shape"
