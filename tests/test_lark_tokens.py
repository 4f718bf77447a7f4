"""Tokens in llguidance's Lark: bounds on their number, and tokens as units, in masks."""

from __future__ import annotations

import functools

import pytest

import guiderail as gr

WORDS = ["ab", "abc", "one", " two", "two,", '"', '"x"', ", "]
SPECIAL = {"<think>": 264, "</think>": 265, "<eos>": 266}
STOP = 266


@functools.cache
def vocabulary() -> gr.Vocabulary:
    tokens = [*(bytes([b]) for b in range(256)), *(word.encode() for word in WORDS)]
    tokens += [b""] * len(SPECIAL)
    return gr.Vocabulary(tokens, special_tokens=SPECIAL, stop_token_ids=[STOP])


def ids(*tokens: str | int) -> list[int]:
    """Returns token ids: words and special tokens by their texts, other texts by their bytes."""
    found: list[int] = []
    for token in tokens:
        if isinstance(token, int):
            found.append(token)
        elif token in WORDS:
            found.append(256 + WORDS.index(token))
        elif token in SPECIAL:
            found.append(SPECIAL[token])
        else:
            found.extend(token.encode())
    return found


def after(text: str, *tokens: str | int) -> set[int]:
    """Returns the mask after these tokens; checks that each is allowed."""
    matcher = gr.compile(gr.grammar(text, syntax="lark"), vocabulary()).matcher()
    bitmask = gr.allocate_token_bitmask(1, vocabulary().size)
    for token in ids(*tokens):
        assert matcher.accept_token(token), token
    matcher.fill_next_token_bitmask(bitmask, 0)
    return {t for t in range(vocabulary().size) if int(bitmask[0, t // 32]) >> (t % 32) & 1}


COUNTED = 'start: "N:" name "H:" rest\nname[max_tokens=3]: /.*/\nrest[max_tokens=2]: "\\"" /[a-z]*/ "\\""'


def test_a_count_of_tokens_ends_a_text() -> None:
    assert len(after(COUNTED, "N:", "ab", "ab")) > 100
    assert after(COUNTED, "N:", "ab", "ab", "abc") == set(ids("H"))
    assert set(ids("ab", "H")) <= after(COUNTED, "N:", "ab")  # a text may end earlier


def test_when_the_count_is_spent_a_text_goes_on_to_its_next_end() -> None:
    """It is not cut off, as in llguidance."""
    spent = after(COUNTED, "N:", "ab", "H:", '"', "abc")
    assert set(ids('"')) <= spent
    assert STOP not in spent
    assert STOP in after(COUNTED, "N:", "ab", "H:", '"', "abc", '"')


def test_no_token_at_all() -> None:
    text = 'start: "a" b "c"\nb[max_tokens=0]: /.*/'
    assert after(text, "a") == set(ids("c"))


def test_counted_texts_hold_rules_and_schemas() -> None:
    text = 'start: a "!"\na[max_tokens=2]: b | %json {"const": true}\nb: /[a-c]+/ ("," b2)*\nb2: /x/'
    assert after(text, "ab", "a") == set(ids("!", "a", "b", "c", ",", "ab", "abc")) - set(
        ids("a", "b", "c", ",", "ab", "abc")
    )
    assert after(text, "tr") == set(ids("u"))


@pytest.mark.parametrize(
    ("text", "tokens", "expected"),
    [
        ("start: <[256]> <[264-265]>", (), {256}),
        ("start: <[256]> <[264-265]>", (256,), {264, 265}),
        ("start: <[257]>* <[256]>", (257, 257), {256, 257}),
        ('start: <[97]> "b"', (97,), {98}),
    ],
)
def test_tokens_by_number_are_units(text: str, tokens: tuple[int, ...], expected: set[int]) -> None:
    assert after(text, *tokens) == expected


def test_any_token_and_any_but() -> None:
    every = set(range(STOP))
    assert after('start: <[*]> "x"') == every
    assert after('start: <[^256-264]> "x"') == every - set(range(256, 265))


def test_a_token_that_is_not_there() -> None:
    with pytest.raises(gr.CompileError, match="no token 5000"):
        gr.compile(gr.grammar("start: <[5000]>", syntax="lark"), vocabulary())
