"""Structural tags with tokens, against a naive reader of token sequences and against XGrammar."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import guiderail as gr
from core_support import mask_of
from structural_tag_cases import ANY, tag, text

# -- a naive reader -------------------------------------------------------------------------------------------------
TOKENS = [b"a", b"b", b"ab", b"ba", b"a", "é".encode()[:1], "é".encode()[1:], "é".encode()[1:] + b"b", b"", b""]
SPECIAL, STOP = 8, 9
NAMES: dict[int, int | str] = {SPECIAL: "<x>", 1: "b", 2: "ab"}  # the others by id: 0 and 4 have the same text

Position = tuple[int, int]  # a token, and a byte within it


def ends(form: dict[str, Any], start: Position, tokens: list[int]) -> set[Position]:
    """Returns where a text of the form that begins here may end."""
    kind = form["type"]
    if kind == "const_string":
        return spelled(form["value"].encode(), start, tokens)
    if kind == "any_text":
        return free(form, start, tokens)
    if kind in ("token", "exclude_token"):
        at, offset = start
        if offset or at == len(tokens):
            return set()
        return {(at + 1, 0)} if tokens[at] in chosen(form) else set()
    if kind == "any_tokens":
        most = form.get("max_tokens")
        one = {"type": "exclude_token", "exclude_tokens": form["exclude_tokens"]}
        return repeated(one, start, tokens, 0, len(tokens) if most is None else most)
    if kind == "sequence":
        reached = {start}
        for element in form["elements"]:
            reached = {end for at in reached for end in ends(element, at, tokens)}
        return reached
    if kind == "or":
        return {end for element in form["elements"] for end in ends(element, start, tokens)}
    assert kind == "repeat"
    most = form["max"] if form["max"] >= 0 else 4 * len(tokens) + form["min"]
    return repeated(form["content"], start, tokens, form["min"], most)


def repeated(form: dict[str, Any], start: Position, tokens: list[int], low: int, high: int) -> set[Position]:
    found: set[Position] = set()
    reached = {start}
    for count in range(high + 1):
        if count >= low:
            found |= reached
        reached = {end for at in reached for end in ends(form, at, tokens)}
    return found


def chosen(form: dict[str, Any]) -> set[int]:
    ids = {name: token for token, name in NAMES.items()}
    if form["type"] == "token":
        return {ids.get(form["token"], form["token"])}
    return set(range(STOP)) - {ids.get(name, name) for name in form["exclude_tokens"]}


def read(start: Position, tokens: list[int]) -> Iterator[tuple[int, Position]]:
    """Returns the bytes from here to the next special token, each with the position after it."""
    at, offset = start
    while at < len(tokens) and tokens[at] < SPECIAL:
        data = TOKENS[tokens[at]]
        yield data[offset], (at + 1, 0) if offset + 1 == len(data) else (at, offset + 1)
        at, offset = (at + 1, 0) if offset + 1 == len(data) else (at, offset + 1)


def spelled(data: bytes, start: Position, tokens: list[int]) -> set[Position]:
    if not data:
        return {start}
    bytes_read = list(itertools.islice(read(start, tokens), len(data)))
    return {bytes_read[-1][1]} if bytes(byte for byte, _ in bytes_read) == data else set()


def free(form: dict[str, Any], start: Position, tokens: list[int]) -> set[Position]:
    most = form.get("max_tokens")
    found = {start}
    data, used, counted = b"", set[int](), b""
    position = start
    for byte, after in read(start, tokens):
        used.add(position[0])
        data += bytes([byte])
        if most is None or len(used) <= most:
            counted = data
        position = after
        try:
            shown = data.decode()
        except UnicodeDecodeError:
            continue
        if any(word in shown for word in form.get("excludes", [])):
            break
        characters = len(counted.decode(errors="ignore"))  # whole ones
        begun = len(counted) > len(counted.decode(errors="ignore").encode())
        if len(shown) > characters + begun:
            break
        found.add(after)
    return found


VOCABULARY = gr.Vocabulary(TOKENS, special_tokens={"<x>": SPECIAL}, stop_token_ids=[STOP], size=40)


def random_form(rng: random.Random, depth: int = 0) -> dict[str, Any]:
    def name() -> int | str:
        token = rng.randrange(STOP)
        return NAMES.get(token, token)

    leaves = ["any_text", "any_text", "any_tokens", "token", "exclude_token", "const_string"]
    kind = rng.choice(leaves if depth == 2 else [*leaves, "sequence", "sequence", "or", "repeat"])
    if kind == "any_text":
        made = {"type": kind, "max_tokens": rng.choice([0, 1, 2, None])}
        return {**made, "excludes": [rng.choice(["ab", "b", "ba"])]} if rng.random() < 0.5 else made
    if kind == "any_tokens":
        names = [name() for _ in range(rng.randrange(3))]
        return {"type": kind, "max_tokens": rng.choice([0, 1, 2, None]), "exclude_tokens": names}
    if kind == "token":
        return {"type": kind, "token": name()}
    if kind == "exclude_token":
        return {"type": kind, "exclude_tokens": [name() for _ in range(rng.randrange(4))]}
    if kind == "const_string":
        return text(rng.choice(["a", "ab", "ba", "é", "bé"]))
    if kind == "repeat":
        low = rng.randrange(3)
        high = rng.choice([-1, low, low + 1])
        return {"type": kind, "min": low, "max": high, "content": random_form(rng, depth + 1)}
    return {"type": kind, "elements": [random_form(rng, depth + 1) for _ in range(rng.randrange(1, 4))]}


@pytest.mark.parametrize("seed", range(60))
def test_token_sequences_are_read_as_a_naive_reader_does(seed: int) -> None:
    form = random_form(random.Random(seed))
    guide = gr.compile(gr.structural_tag(form), VOCABULARY, cache=False)
    full = set()
    for length in range(4):
        for sequence in itertools.product(range(STOP), repeat=length):
            if (length, 0) in ends(form, (0, 0), list(sequence)):
                full.add(sequence)
    found = set()
    todo: list[tuple[int, ...]] = [()]
    for sequence in todo:
        matcher = guide.matcher()
        assert all(matcher.accept_token(token) for token in sequence)
        assert guide.matcher().validate(list(sequence)) == len(sequence)
        if matcher.is_accepting():
            found.add(sequence)
        mask = mask_of(matcher)
        allowed = [token for token in range(VOCABULARY.size) if matcher.fork().accept_token(token)]
        assert np.flatnonzero(mask).tolist() == allowed, sequence
        if len(sequence) < 3:
            todo += [(*sequence, token) for token in allowed if token != STOP]
        if len(sequence) < 2:  # every promised budget suffices, all the way
            least = matcher.least_tokens()
            assert least is not None
            known = [len(s) for s in full if s[: len(sequence)] == sequence]
            assert not known or least <= min(known) - len(sequence)
            for left in range(least, 0, -1):
                if not matcher.is_accepting():
                    assert matcher.accept_token(allowed_within(matcher, left)[-1])
            assert matcher.is_accepting()
    assert found == full


def allowed_within(matcher: Any, budget: int) -> list[int]:
    bitmask = gr.allocate_token_bitmask(1, VOCABULARY.size)
    matcher.fill_next_token_bitmask(bitmask, 0, budget)
    tokens = np.flatnonzero(gr.bitmask_to_bool(bitmask, VOCABULARY.size)[0]).tolist()
    assert all(matcher.fork().accept_within(token, budget) for token in tokens if token != STOP)
    return tokens


@pytest.mark.parametrize("seed", range(90, 150))
def test_walks_within_a_budget_reach_an_end_whatever_is_chosen(seed: int) -> None:
    """``accept_within`` accepts what the mask of a budget allows, even if a token is both text and a unit."""
    rng = random.Random(seed)
    guide = gr.compile(gr.structural_tag(random_form(rng)), VOCABULARY, cache=False)
    for _ in range(4):
        matcher = guide.matcher()
        least = matcher.least_tokens()
        assert least is not None
        for left in range(least + rng.randrange(3), 0, -1):
            tokens = allowed_within(matcher, left)
            assert tokens
            token = rng.choice(tokens)
            if token == STOP:
                break
            assert matcher.accept_within(token, left)
        assert matcher.is_accepting()


@pytest.mark.parametrize("seed", range(60, 90))
def test_the_token_automaton_counts_tokens_too(seed: int) -> None:
    form = random_form(random.Random(seed))
    guide = gr.compile(gr.structural_tag(form), VOCABULARY, cache=False)
    automaton = guide.to_token_automaton()
    rng = random.Random(seed)
    for _ in range(30):
        matcher, state = guide.matcher(), 0
        for _ in range(6):
            row = slice(automaton.indptr[state], automaton.indptr[state + 1])
            moves = dict(zip(automaton.token[row].tolist(), automaton.next_state[row].tolist(), strict=True))
            mask = set(np.flatnonzero(mask_of(matcher)).tolist()) - {STOP}
            assert set(moves) == mask
            assert bool(automaton.accepting[state]) == matcher.is_accepting()
            if not mask:
                break
            token = rng.choice(sorted(mask))
            state = moves[token]
            assert matcher.accept_token(token)


# -- XGrammar ---------------------------------------------------------------------------------------------------------
WORDS = ["<s>", "</s>", "<call>", "</call>", "a", "b", "E", "N", "D", "aE", "ND", "END", "aEND", "ENDa", "bE"]
END = text("END")
COUNTED: dict[str, dict[str, Any]] = {
    f"{kind} {most} {name}": form
    for kind in ("any_text", "any_tokens")
    for most in (0, 1, 2, 3)
    for name, form in {
        "alone": {"type": kind, "max_tokens": most},
        "and more": {"type": "sequence", "elements": [{"type": kind, "max_tokens": most}, END]},
        "in a tag": tag({"type": "token", "token": "a"}, {"type": kind, "max_tokens": most}, "END"),
        "to a token": tag("<call>", {"type": kind, "max_tokens": most}, {"type": "token", "token": "END"}),
    }.items()
    if not (kind == "any_tokens" and most > 1 and name in ("and more", "in a tag"))  # see below
}
COUNTED["any_text excludes"] = {"type": "any_text", "max_tokens": 2, "excludes": ["bE", "EE"]}
COUNTED["any_tokens excludes"] = {
    "type": "sequence",
    "elements": [{"type": "any_tokens", "max_tokens": 2, "exclude_tokens": ["a", 6, "END"]}, END],
}
COUNTED["exclude_token"] = {
    "type": "sequence",
    "elements": [{"type": "exclude_token", "exclude_tokens": ["END", "aEND", 7]}, END],
}


@pytest.mark.parametrize("name", COUNTED)
def test_counts_are_those_of_xgrammar(name: str) -> None:
    xgrammar = pytest.importorskip("xgrammar")
    form = COUNTED[name]
    info = xgrammar.TokenizerInfo(WORDS, stop_token_ids=[1])
    compiled = xgrammar.GrammarCompiler(info).compile_structural_tag(
        json.dumps({"type": "structural_tag", "format": form})
    )
    words = gr.Vocabulary([w.encode() for w in WORDS], special_tokens={"</s>": 1}, stop_token_ids=[1])
    guide = gr.compile(gr.structural_tag(form), words)
    rng = random.Random(name)
    their_mask = xgrammar.allocate_token_bitmask(1, len(WORDS))
    for _ in range(60):
        ours, theirs = guide.matcher(), xgrammar.GrammarMatcher(compiled)
        read: list[str] = []
        for _ in range(7):
            theirs.fill_next_token_bitmask(their_mask)  # it counts where masks are requested
            allowed = np.flatnonzero(mask_of(ours)).tolist()
            token = rng.choice(allowed) if rng.random() < 0.8 else rng.randrange(len(WORDS))
            read.append(WORDS[token])
            accepted = ours.accept_token(token)
            assert theirs.accept_token(token) == accepted, read
            if not accepted or token == 1:
                break


def test_where_xgrammar_counts_less() -> None:
    """A token that begins before a region and ends in it contains a part of it; XGrammar does not count it."""
    xgrammar = pytest.importorskip("xgrammar")
    form = tag("b", {"type": "any_text", "max_tokens": 1}, "END")
    info = xgrammar.TokenizerInfo(WORDS, stop_token_ids=[1])
    theirs = xgrammar.GrammarMatcher(
        xgrammar.GrammarCompiler(info).compile_structural_tag(json.dumps({"type": "structural_tag", "format": form}))
    )
    words = gr.Vocabulary([w.encode() for w in WORDS], special_tokens={"</s>": 1}, stop_token_ids=[1])
    ours = gr.compile(gr.structural_tag(form), words).matcher()
    bitmask = xgrammar.allocate_token_bitmask(1, len(WORDS))
    verdicts = []
    for word in ("bE", "aE"):
        theirs.fill_next_token_bitmask(bitmask)
        token = WORDS.index(word)
        verdicts.append((ours.accept_token(token), theirs.accept_token(token)))
    assert verdicts == [(True, True), (False, True)]


def test_where_xgrammar_loses_a_reading() -> None:
    xgrammar = pytest.importorskip("xgrammar")
    form = {"type": "sequence", "elements": [{"type": "any_tokens", "max_tokens": 3}, END]}
    info = xgrammar.TokenizerInfo(WORDS, stop_token_ids=[1])
    theirs = xgrammar.GrammarMatcher(
        xgrammar.GrammarCompiler(info).compile_structural_tag(json.dumps({"type": "structural_tag", "format": form}))
    )
    words = gr.Vocabulary([w.encode() for w in WORDS], special_tokens={"</s>": 1}, stop_token_ids=[1])
    ours = gr.compile(gr.structural_tag(form), words).matcher()
    for word in ("END", "<call>", "END"):  # two tokens, and END
        assert ours.accept_token(WORDS.index(word)) and theirs.accept_token(WORDS.index(word))
    assert ours.accept_token(1)
    assert not theirs.accept_token(1), "they have mended it"


# -- other properties -----------------------------------------------------------------------------------------------
def test_a_count_costs_no_masks_of_its_own() -> None:
    """A thousand tokens of free text share the masks of uncounted free text."""
    letters = [chr(c).encode() for c in range(97, 123)]
    vocabulary = gr.Vocabulary([*letters, b"<", b"t>", b"/t>", b"</t>", b""], stop_token_ids=[30])
    form = tag("<t>", {"type": "any_text", "max_tokens": 1000}, "</t>")
    guide = gr.compile(gr.structural_tag(form), vocabulary, cache=False)
    matcher = guide.matcher()
    assert matcher.accept_token(26) and matcher.accept_token(27)
    mask_of(matcher)
    assert matcher.accept_token(3)
    mask_of(matcher)
    before = guide.memory_size_bytes()
    for _ in range(900):
        assert matcher.accept_token(3)
        mask_of(matcher)
    assert guide.memory_size_bytes() - before < 900 * 500
    for _ in range(98):
        assert matcher.accept_token(3)
    assert np.flatnonzero(mask_of(matcher)).size > 5
    assert matcher.accept_token(3)
    assert np.flatnonzero(mask_of(matcher)).tolist() == [26, 29]


def test_copies_and_rollback_keep_the_count() -> None:
    form = {"type": "sequence", "elements": [{"type": "any_text", "max_tokens": 2}, text("b")]}
    matcher = gr.compile(gr.structural_tag(form), VOCABULARY).matcher()
    masks = []
    for token in (0, 3, 1):
        masks.append(mask_of(matcher))
        assert matcher.accept_token(token)
    twin = matcher.fork()
    matcher.rollback(1)
    assert np.flatnonzero(mask_of(matcher)).tolist() == [1]
    matcher.rollback(2)
    np.testing.assert_array_equal(mask_of(matcher), masks[0])
    assert twin.is_accepting() and not twin.accept_token(1)
    assert matcher.accept_string(b"abab") and matcher.accept_token(0)  # a string counts as one token
    assert not matcher.accept_token(0) and matcher.accept_token(1)


def test_tokens_are_found_when_the_tag_is_compiled() -> None:
    free = gr.structural_tag({"type": "any_tokens", "exclude_tokens": ["<x>", "ab"]})
    assert np.flatnonzero(mask_of(gr.compile(free, VOCABULARY).matcher())).tolist() == [0, 1, 3, 4, 5, 6, 7, STOP]
    other = gr.Vocabulary([b"ab", b"c", b"<x>", b""], stop_token_ids=[3])
    assert np.flatnonzero(mask_of(gr.compile(free, other).matcher())).tolist() == [1, 3]
    with pytest.raises(gr.CompileError) as caught:
        gr.compile(gr.structural_tag({"type": "token", "token": "none"}), other)
    assert caught.value.code == "unknown-token"
    with pytest.raises(gr.CompileError) as caught:
        gr.compile(gr.structural_tag({"type": "exclude_token", "exclude_tokens": [0, 1, 2]}), other)
    assert caught.value.code == "no-token"
    assert gr.structural_tag({"type": "exclude_token", "exclude_tokens": ["ab"]}).explain().expected == (
        "any token but ab",
    )


def test_a_count_stays_within_what_can_be_counted() -> None:
    counted = gr.structural_tag({**ANY, "max_tokens": 3})
    for made in (lambda: ~counted, lambda: counted & gr.regex("a*")):
        with pytest.raises(gr.CompileError) as caught:
            made().program()
        assert caught.value.code == "not-regular"
    assert counted.matches("a text is one token, as far as one can tell without any")
