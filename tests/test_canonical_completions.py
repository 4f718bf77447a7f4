"""Canonical spelling with distant ends: a token is allowed if and only if it has a completion."""

from __future__ import annotations

import itertools
import random
import re
import string
from typing import Any

import pytest

import guiderail as gr
from canonical_support import BYTES, assert_is_tree, is_spelled, levels, mask_of, spelled, tokenizer, vocabulary
from guiderail import Vocabulary
from guiderail.constraints.enumeration import texts_of
from guiderail.frontends.json_schema.normal_form import algebra

pytest.importorskip("tokenizers", reason="tokenizers is the oracle")

WORDS = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def random_merges(letters: str, count: int, longest: int, rng: random.Random) -> list[tuple[str, str]]:
    """Merges of existing tokens, one for each text; some precede those of their parts."""
    tokens, made = list(letters), []
    while len(made) < count:
        left, right = rng.choice(tokens), rng.choice(tokens)
        if left + right not in tokens and len(left + right) <= longest:
            tokens.append(left + right)
            made.append((left, right))
    if rng.random() < 0.5:
        rng.shuffle(made)
    return made


BOUNDED = {
    "one class": ("[ab]{7,8}", lambda: _texts(["ab"] * 7, ["ab"] * 8)),
    "quoted": ('"[ab]{5}"(,"b{3}")?', lambda: _texts(['"', *["ab"] * 5, '"'], ['"', *["ab"] * 5, '"', *',"bbb"'])),
    "words": ("([ab]{3}1){2}", lambda: _texts([*["ab"] * 3, "1"] * 2)),
    "one end": ("[ab]{6}(a|b1)", lambda: _texts(["ab"] * 6 + ["a"], ["ab"] * 6 + ["b", "1"])),
}


def _texts(*choices: list[str]) -> list[str]:
    return ["".join(text) for each in choices for text in itertools.product(*each)]


@pytest.mark.parametrize("kind", BOUNDED)
@pytest.mark.parametrize("seed", range(6))
def test_masks_of_bounded_texts_are_those_of_all_spellings(kind: str, seed: int) -> None:
    pattern, texts = BOUNDED[kind]
    rng = random.Random(f"{kind}{seed}")
    merges = random_merges('ab1",', rng.randrange(4, 16), 4, rng)
    v = vocabulary(tokenizer(b'ab1",', merges, levels(WORDS) if seed % 2 else BYTES))
    wanted = [tuple(tokens) for text in texts() if (tokens := spelled(v, text)) is not None]
    following: dict[tuple[int, ...], set[int]] = {}
    for tokens in wanted:
        for n in range(len(tokens)):
            following.setdefault(tokens[:n], set()).add(tokens[n])
    guide = gr.compile(gr.regex(pattern), v, canonical=True, cache=False)
    for start in [(), *rng.sample(sorted(following), min(120, len(following)))]:
        matcher = guide.matcher()
        assert all(matcher.accept_token(token) for token in start), start
        assert {t for t in mask_of(matcher) if v.is_text(t)} == following[start], start


@pytest.fixture(scope="module")
def large() -> Vocabulary:
    """More tokens than a search examines may follow each other: all pairs of letters are tokens, and most triples."""
    rng = random.Random(3)
    letters = string.ascii_lowercase
    pairs = ["".join(pair) for pair in itertools.product(letters, repeat=2)]
    rng.shuffle(pairs)
    triples = [(pair, letter) for pair in pairs for letter in rng.sample(letters, 14)]
    merges = [*((pair[0], pair[1]) for pair in pairs), *triples]
    return vocabulary(tokenizer((letters + '" ,').encode(), merges, levels(WORDS)))


def completes(guide: gr.Guide, token: int) -> bool:
    """Returns whether an end follows this token such that all tokens spell a text."""
    v, matcher = guide.vocabulary, guide.matcher()
    assert matcher.accept_token(token)
    while not matcher.is_accepting():
        needed = matcher.least_tokens()
        assert needed is not None
        mask: Any = gr.allocate_token_bitmask(1, v.size)
        matcher.fill_next_token_bitmask(mask, 0, needed)
        allowed = [t for t in range(v.token_count) if int(mask[0, t >> 5]) >> (t & 31) & 1]
        assert any(matcher.accept_within(t, needed) for t in allowed)
    return is_spelled(v, [t for t in matcher.history() if v.is_text(t)])


LONG = {"letters": ("", "[a-z]{40,60}", ""), "quoted": ('"', "[a-z]{30,60}", '"'), "exactly": ("", "[a-z]{45}", "")}


@pytest.mark.parametrize("kind", LONG)
def test_long_texts_of_one_piece(kind: str, large: Vocabulary) -> None:
    before, middle, after = LONG[kind]
    guide = gr.compile(gr.regex(before + middle + after), large, canonical=True, cache=False)
    matcher = guide.matcher()
    if before:
        assert matcher.accept_token(large.core.find(before.encode()))
    allowed = mask_of(matcher)
    rng = random.Random(kind)
    words = [t for t in range(large.token_count) if large.is_text(t) and large.token_bytes(t).isalpha()]
    assert len(words) > 4096
    begun: set[int] = set()
    for _ in range(1500):
        text = before + "".join(rng.choices(string.ascii_lowercase, k=45)) + after
        begun.add(large.encode(text)[len(before)])
    assert begun <= allowed
    assert not {t for t in allowed if large.is_text(t)} - set(words)
    if not before:
        for token in rng.sample(sorted(allowed), 20):
            assert completes(guide, token), large.token_bytes(token)


@pytest.mark.parametrize("kind", LONG)
def test_long_texts_are_accepted_as_they_are_spelled(kind: str, large: Vocabulary) -> None:
    before, middle, after = LONG[kind]
    guide = gr.compile(gr.regex(before + middle + after), large, canonical=True, cache=False)
    rng = random.Random(kind)
    for _ in range(6):
        tokens = large.encode(before + "".join(rng.choices(string.ascii_lowercase, k=45)) + after)
        matcher = guide.matcher()
        for token in tokens:
            allowed = mask_of(matcher)
            assert token in allowed
            for other in rng.sample(range(large.token_count), 20):
                assert (matcher.validate([other]) == 1) == (other in allowed)
            assert matcher.accept_token(token)
        assert matcher.is_accepting()


def test_masks_that_come_again_are_the_same(large: Vocabulary) -> None:
    """Masks of matchers that take turns, after a rollback and in a second text, equal those of a new guide."""
    pattern = gr.regex('("[a-z]{3,9}", ?){2,}')
    rng = random.Random(11)
    texts = ["".join(f'"{"".join(rng.choices("abcxyz", k=5))}",{" " * (i % 2)}' for i in range(4)) for _ in range(3)]
    guide = gr.compile(pattern, large, canonical=True, cache=False)
    for _ in range(2):
        rows = [(guide.matcher(), large.encode(text)) for text in texts]
        for step in range(max(len(tokens) for _, tokens in rows)):
            for matcher, tokens in rows:
                if step >= len(tokens):
                    continue
                mask = mask_of(matcher)
                fresh = gr.compile(pattern, large, canonical=True, cache=False).matcher()
                assert all(fresh.accept_token(token) for token in tokens[:step])
                assert mask == mask_of(fresh), tokens[:step]
                other = rng.choice(sorted(t for t in mask if large.is_text(t)))
                assert matcher.accept_token(other)
                matcher.rollback(1)
                assert mask == mask_of(matcher)
                assert tokens[step] in mask
                assert matcher.accept_token(tokens[step])


@pytest.mark.parametrize("seed", range(8))
def test_masks_of_few_tokens(seed: int, large: Vocabulary) -> None:
    """In a large vocabulary, these are decided token by token."""
    rng = random.Random(seed)
    words = ["".join(rng.choices("abc", k=rng.randrange(1, 9))) for _ in range(3)]
    texts = {" ".join(rng.choices(words, k=2)) for _ in range(2)} | {f'"{words[0]}","{words[1]}"'}
    guide = gr.compile(gr.choice(sorted(texts)), large, canonical=True, cache=False)
    assert_is_tree(guide, [large.encode(text) for text in texts])


@pytest.fixture(scope="module")
def spaced() -> Vocabulary:
    """Runs of spaces and tabs are tokens; one of them belongs to the word that follows."""
    runs = [
        ("Ġ", "Ġ"),
        ("ĠĠ", "ĠĠ"),
        ("ĠĠ", "Ġ"),
        ("ĠĠĠĠ", "ĠĠĠĠ"),
        ("ĠĠĠĠ", "ĠĠĠ"),
        ("Ġ", "a"),
        ("a", "b"),
        ("b", ","),
    ]
    ends = [('"', ","), (",", '"'), ("Ġ", '"'), ("a", '"'), ("(", '"'), ('"', '"'), (",", "Ġ"), ('"', "Ġ")]
    return vocabulary(tokenizer(bytes(range(0x20, 0x7F)), [*runs, *ends], levels(WORDS)))


STRINGS = {
    "endless": r'"[^"\\\n\r]*"',
    "bounded": r'"[^"\\\n\r]{0,40}"',
    "bounded, but long": r'"[^"\\\n\r]{0,300}"',
    "something follows": r'"[^"\\\n\r]*"(,"a{1,9}")?',
    "no letters": r'"[^"\\\n\ra-zA-Z]*"',
    "few characters": r'"[ ab,!#$%&()*+;=?~-]*"',
}


@pytest.mark.parametrize("kind", STRINGS)
def test_masks_within_strings_are_those_of_all_spellings(kind: str, spaced: Vocabulary) -> None:
    """Each mask is made several times: masks that come again are decided in another way."""
    v = spaced
    texts = ['"ab', '"   ', '"ab, (', '" a  b', '"1    ab"', '"(("', '"~ ,', '"        ']
    texts = [text for text in texts if kind != "no letters" or not any(map(str.isalpha, text))]
    pattern = re.compile(STRINGS[kind])
    rests = [
        "",
        '"',
        "  ",
        ' "',
        '  "',
        'a"',
        ' a"',
        '  a"',
        '!"',
        ' !"',
        '!a"',
        ',"',
        '  ,"',
        '",',
        '","a"',
        '"a"',
        'a","a"',
    ]
    rests += [one + two + '"' for one, two in itertools.product(" ab,(1", repeat=2)]
    guide = gr.compile(gr.regex(STRINGS[kind]), v, canonical=True, cache=False)
    for text in [*texts, *texts]:
        tokens = v.encode(text)
        matcher = guide.matcher()
        for n in range(len(tokens) + 1):
            before = b"".join(map(v.token_bytes, tokens[:n])).decode()
            wanted = set()
            for token in filter(v.is_text, range(v.token_count)):
                begun = before + v.token_bytes(token).decode()
                if any(
                    pattern.fullmatch(begun + rest) and v.encode(begun + rest)[: n + 1] == [*tokens[:n], token]
                    for rest in rests
                ):
                    wanted.add(token)
            for _ in range(5):
                found = {t for t in mask_of(matcher) if v.is_text(t)}
                assert sorted(map(v.token_bytes, found)) == sorted(map(v.token_bytes, wanted)), before
            if n == len(tokens) or not matcher.accept_token(tokens[n]):
                break


def _escaping() -> Vocabulary:
    """Escapes, ends of strings, and what may follow them share tokens."""
    merges = [
        ("\\", "n"),
        ("\\", '"'),
        ("\\", "\\"),
        ("\\n", "a"),
        ('"', ","),
        ('"', "}"),
        (",", '"'),
        ("a", '"'),
        ("(", '"'),
    ]
    merges += [("Ġ", "Ġ"), ("Ġ", "a"), ('",', '"'), ("}", ","), ('"', "]")]
    return vocabulary(tokenizer(bytes(range(0x20, 0x7F)), merges, levels(WORDS)))


ENDS_OF_STRINGS: list[dict[str, Any]] = [
    {"type": "string"},
    {"type": "array", "items": {"type": "string"}},
    {"properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False},
    {"properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": {"type": "string"}},
    {"properties": {"a": {"type": "string", "maxLength": 300}, "b": {"enum": ["a(", "\\a"]}}, "type": "object"},
    {"properties": {"a": {"type": "array", "items": {"type": "string"}}}, "required": ["a"], "type": "object"},
]


@pytest.mark.parametrize("backwards", [False, True])
def test_what_constraints_share_does_not_change_their_masks(backwards: bool) -> None:
    """Strings with the same text and other ends, on one vocabulary, and each on its own."""
    shared = _escaping()
    values = ['"(\\na  "', '["((", "\\\\("]', '{"a": "(\\"  a", "b": "a("}', '{"a": ["~(", "a\\n"]}', '{"a": ""}']
    for schema in ENDS_OF_STRINGS[:: -1 if backwards else 1]:
        alone = _escaping()
        guides = [gr.compile(gr.json_schema(schema), v, canonical=True, cache=False) for v in (alone, shared)]
        for text in values:
            matchers = [guide.matcher() for guide in guides]
            for token in alone.encode(text):
                one, other = (mask_of(matcher) for matcher in matchers)
                assert one == other, text
                if not all(matcher.accept_token(token) for matcher in matchers):
                    break


# -- texts that are always tokens of their own -------------------------------------------------------------------------
OPERATORS = "</s>=a"


def random_pattern(rng: random.Random) -> str:
    """A pattern over `OPERATORS` of which some texts contain ``</s>``, and some states may leave no other."""
    parts = ["<", "<=", "</", "</s>", "aa</s>", "s>", "[</s>]", "[<a]", "[/a]", "a", "(<|=)", "(</s|a)", "(a(a=)?)"]
    return "".join(rng.choice(parts) + rng.choice(["", "", "", "?", "{1,2}"]) for _ in range(rng.randrange(2, 5)))


def assert_is_spelled(constraint: gr.Constraint, v: Vocabulary, texts: list[str]) -> None:
    """Checks that a canonical guide allows the tokenizer's spelling of each of these texts that matches, if decoding
    restores it, and nothing else.

    Args:
        texts: all that may match.
    """
    plain = gr.compile(constraint, v, cache=False)
    matching = []
    for text in texts:
        matcher = plain.matcher()
        if matcher.accept_string(text) and matcher.is_accepting():
            matching.append(text)
    wanted = [tokens for text in matching if (tokens := spelled(v, text)) is not None]
    if wanted:
        return assert_is_tree(gr.compile(constraint, v, canonical=True, cache=False), wanted)
    with pytest.raises(gr.CompileError, match="canonical"):
        gr.compile(constraint, v, canonical=True, cache=False)
    return None


def test_a_budget_where_no_completion_is_found_is_unknown_not_too_small() -> None:
    v = vocabulary(tokenizer(b"ab", [], BYTES))  # no token writes z
    for canonical in (False, True):
        matcher = gr.compile(gr.regex("a+|bz"), v, canonical=canonical).matcher()
        assert matcher.accept_string("b")
        with pytest.raises(gr.LimitError) as caught:
            matcher.fill_next_token_bitmask(gr.allocate_token_bitmask(1, v.size), 0, 5)
        assert caught.value.code == "budget-unknown"


@pytest.mark.parametrize("seed", range(80))
def test_texts_of_special_tokens_are_never_the_only_way_on(seed: int) -> None:
    rng = random.Random(f"special {seed}")
    cuts = rng.choice([BYTES, levels(WORDS), levels("."), levels("a|=|<|[^a=<]+")])
    v = vocabulary(tokenizer(bytes(range(256)), random_merges(OPERATORS, rng.randrange(5), 3, rng), cuts))
    constraint: gr.Constraint = gr.regex(f"{random_pattern(rng)}|{random_pattern(rng)}|a")
    if rng.random() < 0.5:
        constraint |= gr.literal("a") + (constraint & ~gr.regex(random_pattern(rng)))
    assert_is_spelled(constraint, v, texts_of(constraint))


@pytest.mark.parametrize("names", [["<", "s"], ["a", "</"], ["</s", "a"], ["</s>"]])
@pytest.mark.parametrize("others", [None, "^[<a]", "^[</s>]{4}$", "^..s", "^[^a]*$"])
def test_keys_that_are_special_tokens(names: list[str], others: str | None) -> None:
    rng = random.Random(f"{names}{others}")
    v = vocabulary(tokenizer(bytes(range(256)), random_merges(OPERATORS + '{}":1', 6, 3, rng), levels(".")))
    schema: dict[str, Any] = {"properties": {name: {"const": 1} for name in names}, "additionalProperties": False}
    if others is not None:
        schema["patternProperties"] = {others: {"const": 11}}
    constraint = gr.json_schema({**schema, "type": "object", "minProperties": 1, "maxProperties": 1})
    constraint &= gr.regex(f'{{"[{OPERATORS}]{{0,4}}": 1+}}')
    keys = ["".join(key) for n in range(5) for key in itertools.product(OPERATORS, repeat=n)]
    assert_is_spelled(constraint, v, [f'{{"{key}": {value}}}' for key in keys for value in (1, 11)])


@pytest.mark.parametrize("parts", [-1_000, 1_000], ids=["beside patterns", "in regions"])
@pytest.mark.parametrize("other", [False, {"const": True}])
def test_patterns_of_keys_may_exclude_what_would_replace_a_special_token(
    parts: int, other: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(algebra, "_PARTS", parts)
    v = vocabulary(tokenizer(bytes(range(256)), [], BYTES))
    schema = {
        "type": "object",
        "minProperties": 1,
        "maxProperties": 1,
        "propertyNames": {"pattern": "^[<=a]/s>$"},
        "patternProperties": {"^[^<]": other, "^.": {"type": "boolean"}, "s": {"enum": [True, None]}},
    }
    texts = [f'{{"{first}/s>":{value}}}' for first in "<=a" for value in ("true", "false", "null")]
    assert_is_spelled(gr.json_schema(schema, separators=(",", ":")), v, texts)
