"""Canonical spelling: a guide with ``canonical=True`` allows exactly the tokenizer's own spellings."""

from __future__ import annotations

import itertools
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import guiderail as gr
from canonical_support import (
    BYTES,
    GPT2,
    assert_is_tree,
    is_spelled,
    levels,
    mask_of,
    tokenizer,
    vocabulary,
    walk_one_by_one,
)
from guiderail import Vocabulary
from guiderail.errors import CompileError, VocabularyError
from guiderail.vocabulary._table import gpt2_characters
from schema_generator import random_object

pytest.importorskip("tokenizers", reason="tokenizers is the oracle")

CL100K = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
O200K = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
POSSESSIVE = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]"
    r"|\s+(?!\S)|\s"
)
PRE_TOKENIZERS = {
    "none": BYTES,
    "gpt2": GPT2,
    "cl100k": levels(CL100K),
    "o200k": levels(O200K),
    "possessive": levels(POSSESSIVE),
    "digits, then gpt2": {
        "type": "Sequence",
        "pretokenizers": [{"type": "Digits", "individual_digits": True}, GPT2],
    },
    "deepseek": levels(r"\p{N}{1,3}", r"[b']+", r"[!'][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|\s+(?!\S)|\s+"),
    "gaps": levels(r"aa|b b"),
}
ALPHABET = b"ab1' "
ALL_BYTES = bytes(range(256))
IN_GPT2 = dict(zip("ab1' ", "ab1'Ġ", strict=True))


@st.composite
def merges(draw: st.DrawFn, most: int = 10) -> list[tuple[str, str]]:
    """Merges of existing tokens, one for each text, in the order of training or in any order."""
    tokens = list(IN_GPT2.values())
    made: list[tuple[str, str]] = []
    for _ in range(draw(st.integers(0, most))):
        left, right = draw(st.sampled_from(tokens)), draw(st.sampled_from(tokens))
        if left + right not in tokens and len(left + right) <= 5:
            tokens.append(left + right)
            made.append((left, right))
    return draw(st.permutations(made)) if draw(st.booleans()) else made


LENIENT = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


@pytest.mark.parametrize("name", PRE_TOKENIZERS)
@pytest.mark.parametrize("whole", [False, True])
@LENIENT
@given(data=st.data())
def test_sequences_are_canonical_where_the_tokenizer_says_so(name: str, whole: bool, data: st.DataObject) -> None:
    backend = tokenizer(ALPHABET, data.draw(merges()), PRE_TOKENIZERS[name], whole=whole)
    v = vocabulary(backend)
    ids = [t for t in range(v.token_count) if v.is_text(t)]
    rng = random.Random(len(ids))
    for length in range(1, 5):
        every = itertools.product(ids, repeat=length)
        for tokens in every if len(ids) ** length < 600 else (rng.choices(ids, k=length) for _ in range(400)):
            assert v.is_canonical(tokens) == is_spelled(v, list(tokens)), [v.token_bytes(t) for t in tokens]


@pytest.mark.parametrize("name", PRE_TOKENIZERS)
@pytest.mark.parametrize("alphabet", [ALPHABET, ALL_BYTES], ids=["some bytes", "all bytes"])
@LENIENT
@given(data=st.data())
def test_masks_hold_all_spellings_and_nothing_else(name: str, alphabet: bytes, data: st.DataObject) -> None:
    """Without dead ends: if `abc` is the only text, spelled a|bc, no text begins with ab."""
    backend = tokenizer(alphabet, data.draw(merges()), PRE_TOKENIZERS[name])
    v = vocabulary(backend)
    texts = data.draw(st.lists(st.text("ab1' ", min_size=1, max_size=7), min_size=1, max_size=5, unique=True))
    guide = gr.compile(gr.choice(texts), v, canonical=True, cache=False)
    assert_is_tree(guide, [v.encode(text) for text in texts])


UNFINISHED = [("Ã", "©"), ("Ġ", "Ã"), ("a", "Ã"), ("Ãł", "x")][:3]


def test_tokens_that_end_within_characters() -> None:
    """é is C3 A9, and some tokens contain only C3: what they may follow depends on an unfinished character."""
    backend = tokenizer(b"a \xc3\xa9\xa0", [("Ġ", "Ã"), ("a", "Ã"), ("©", "a"), ("Ġ", "Ġ")], levels(CL100K))
    v = vocabulary(backend)
    ids = [t for t in range(v.token_count) if v.is_text(t)]
    for length in range(1, 5):
        for tokens in itertools.product(ids, repeat=length):
            assert v.is_canonical(tokens) == is_spelled(v, list(tokens)), [v.token_bytes(t) for t in tokens]
    texts = ["aé", "a é", "é\u00e0a", " à", "aéa"]
    guide = gr.compile(gr.choice(texts), v, canonical=True, cache=False)
    assert_is_tree(guide, [v.encode(text) for text in texts])


def test_texts_that_are_tokens_of_their_own() -> None:
    backend = tokenizer(b"<>ab", [("a", "b"), ("<", "a")], GPT2, added=["<ab>"])
    v = vocabulary(backend)
    ids = [t for t in range(v.token_count) if v.is_text(t)]
    assert b"<ab>" in map(v.token_bytes, ids)
    for length in range(1, 5):
        for tokens in itertools.product(ids, repeat=length):
            assert v.is_canonical(tokens) == is_spelled(v, list(tokens)), [v.token_bytes(t) for t in tokens]
    guide = gr.compile(gr.choice(["a<ab>b", "<ab", "<aba"]), v, canonical=True, cache=False)
    assert_is_tree(guide, [v.encode(text) for text in ("a<ab>b", "<ab", "<aba")])


# The text of a special token cannot be written, so only texts without it count.
FORCED = {
    "nothing but it": ("</s>", []),
    "one character may differ": ("x[<J]/s>y", ["xJ/s>y"]),
    "the last may differ": ("x</s[>?]y", ["x</s?y"]),
    "it must not differ": ("(?!xJ)x[<J]/s>", []),
    "it must not have differed": ("x[<J](?<!J)/s>", []),
    "one or the other": ("[a<]/s>|[<J]/s=|J</s>", ["a/s>", "</s=", "J/s="]),
    "it or many": ("</s>|[<-?]{2}s>", [f"{a}{b}s>" for a in "<=>?" for b in "<=>?"]),
    "beside names of its neighbours": ("(=|;)[;<=>?]/s>", [f"{a}{b}/s>" for a in "=;" for b in ";=>?"]),
}


@pytest.mark.parametrize("kind", FORCED)
def test_texts_that_a_constraint_may_force(kind: str) -> None:
    v = vocabulary(tokenizer(bytes(range(32, 127)), [("/", "s"), ("<", "/")], GPT2))
    pattern, texts = FORCED[kind]
    if texts:
        guide = gr.compile(gr.regex(pattern), v, canonical=True, cache=False)
        assert_is_tree(guide, [v.encode(text) for text in texts])
        return
    with pytest.raises(CompileError) as refused:
        gr.compile(gr.regex(pattern), v, canonical=True, cache=False)
    assert refused.value.code == "unsatisfiable"


LETTERS = ["é", "à", "ß", "İ", "€", "…", "中", "文", "🙂", "🙃", "𝒜", "\u0301"]


@pytest.mark.parametrize("pattern", [CL100K, O200K], ids=["cl100k", "o200k"])
@pytest.mark.parametrize("seed", range(6))
def test_characters_of_several_tokens(pattern: str, seed: int) -> None:
    """Some have their own token, some have one for their first bytes, with which others then never begin."""
    rng = random.Random(seed)
    characters = {byte: character for character, byte in gpt2_characters().items()}
    made: list[tuple[str, str]] = []
    for letter in rng.sample(LETTERS, 8):
        parts = [characters[byte] for byte in (rng.choice(["", "a", " "]) + letter).encode()]
        while len(parts) > rng.choice([1, 1, 2, 3]):
            at = rng.randrange(len(parts) - 1)
            made.append((parts[at], parts[at + 1]))
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
    v = vocabulary(tokenizer(ALL_BYTES, made, levels(pattern), whole=seed % 2 == 0, extra=["".join(made[-1]) + "a"]))
    texts = [a + b for a in ["", "a", " ", '"'] for b in LETTERS] + [a + b for a in LETTERS[:4] for b in LETTERS]
    assert_is_tree(gr.compile(gr.choice(texts), v, canonical=True, cache=False), [v.encode(text) for text in texts])
    guide = gr.compile(gr.regex('"[^"]{0,3}"'), v, canonical=True, cache=False)
    for text in rng.sample(texts, 12):
        matcher = guide.matcher()
        for token in v.encode(f'"{text[:3].replace(chr(34), "")}"'):
            mask = mask_of(matcher)
            single = {t for t in range(v.token_count) if v.is_text(t) and matcher.validate([t])}
            assert single == {t for t in mask if v.is_text(t)}, [v.token_bytes(t) for t in single ^ mask]
            assert matcher.accept_token(token)


def test_a_piece_that_is_a_token_is_that_token() -> None:
    """abc is a token, although merges give a|bc: it can be a whole piece, but not part of one."""
    merges = [("b", "c")]
    plain = vocabulary(tokenizer(b"abc ", merges, GPT2, extra=["abc"]))
    whole = vocabulary(tokenizer(b"abc ", merges, GPT2, extra=["abc"], whole=True))
    for v in (plain, whole):
        ids = [t for t in range(v.token_count) if v.is_text(t)]
        for length in range(1, 5):
            for tokens in itertools.product(ids, repeat=length):
                assert v.is_canonical(tokens) == is_spelled(v, list(tokens)), [v.token_bytes(t) for t in tokens]
        texts = ["abc", "abcb", "aabc", "abc abc", " abc"]
        guide = gr.compile(gr.choice(texts), v, canonical=True, cache=False)
        assert_is_tree(guide, [v.encode(text) for text in texts])


def test_tokenizers_that_compose_characters() -> None:
    """Soundness: decoding and encoding restores the allowed tokens."""
    backend = tokenizer("aée\u0301ο ".encode(), [("Ã", "©")], GPT2, normalizer={"type": "NFC"})
    v = vocabulary(backend)
    assert v.is_canonical(v.encode("aé"))
    loose = [v.core.find(byte.to_bytes(1, "big")) for byte in "e\u0301".encode()]
    assert not v.is_canonical(loose)
    assert v.is_canonical(v.encode("ο\u0301".encode()[:2].decode()))


MADE = [("Ġ", "a"), ("a", "b"), ("b", "b"), ("ab", "1"), ("1", "1"), ('"', ","), ("Ġ", '"'), ('"', ":"), ("a", '"')]


@pytest.fixture(scope="module", params=[b'ab1 ",:{}[]\\n-.', ALL_BYTES], ids=["some bytes", "all bytes"])
def small(request: pytest.FixtureRequest) -> Vocabulary:
    return vocabulary(tokenizer(request.param, MADE, levels(CL100K)))


REGEXES = [
    r"abb?1*",
    r"[ab]{2,4}",
    r"(ab|ba)*",
    r'"[ab ]*"(,"[ab]*")?',
    r'"[ab1 ]{0,3}",11',
    r"1{1,7}",
    r" ?a* ",
    r"\[1(,1)*\]",
]


@pytest.mark.parametrize("pattern", REGEXES)
def test_masks_of_endless_texts(pattern: str, small: Vocabulary) -> None:
    """A token is allowed if and only if the tokenizer's spelling of some text begins with it."""
    import re

    matches = re.compile(pattern)
    texts = ["".join(chars) for n in range(8) for chars in itertools.product('ab1 ",:[]'[:9], repeat=n if n < 6 else 0)]
    texts += [t for t in _longer(pattern)]
    wanted = {tuple(small.encode(text)) for text in texts if matches.fullmatch(text)}
    short = {one for one in wanted if len(one) <= 3}
    guide = gr.compile(gr.regex(pattern), small, canonical=True, cache=False)
    for start in sorted({one[:n] for one in short for n in range(len(one))}):
        matcher = guide.matcher()
        assert all(matcher.accept_token(token) for token in start), start
        found = {t for t in mask_of(matcher) if small.is_text(t)}
        expected = {one[len(start)] for one in wanted if one[: len(start)] == start and len(one) > len(start)}
        assert expected <= found, (start, expected - found)
        for token in found - expected:  # a longer text: found by continuing
            assert _completes(guide, [*start, token], small), (start, token)


def _longer(pattern: str) -> list[str]:
    words = ["ab", "abab", "1111111", "111111", '"ab ab","ab"', '"a1 ",11', "abba", "babababa", "[1,1,1]", "abb1111"]
    return [word for word in words if pattern]


def _completes(guide: gr.Guide, tokens: list[int], v: Vocabulary) -> bool:
    matcher = guide.matcher()
    assert all(matcher.accept_token(token) for token in tokens)
    rng = random.Random(5)
    for _ in range(40):
        needed = matcher.least_tokens()
        assert needed is not None
        if matcher.is_accepting():
            text = b"".join(map(v.token_bytes, matcher.history())).decode()
            return v.encode(text) == matcher.history()
        choices = [t for t in sorted(mask_of(matcher)) if v.is_text(t)]
        near = [t for t in choices if matcher.fork().accept_within(t, needed)]
        assert matcher.accept_token(rng.choice(near))
    return False


UTF8 = [("Ã", "©"), ("a", "Ã"), ("Ġ", "Ã"), ("©", '"'), ("é", "Ŀ"), ("ðŁ", "İ"), ("ð", "Ł")]
CONSTRAINTS: dict[str, gr.Constraint] = {
    "any text": gr.regex('"[^"]*"'),
    "bounded": gr.regex('"[^"]{3,9}"'),
    "of letters": gr.regex("[a-z]{2,6}(-[a-z]{2,6})?"),
    "digits": gr.regex("[0-9]{5}(,[0-9]+)*"),
    "line": gr.regex("[ab ]*\\n[ab ]+"),
    "object": gr.json_schema({"properties": {"ab": {"type": "string"}, "ab1": {"enum": ["a", "ab", "é"]}}}),
    "open object": gr.json_schema({"type": "object", "required": ["ab"]}),
    "list": gr.json_schema({"type": "array", "items": {"type": ["integer", "null"]}, "uniqueItems": True}),
    "counted": gr.json_schema({"type": "string", "minLength": 2, "maxLength": 40}),
    "names beside others": gr.json_schema(
        {
            "type": "object",
            "properties": {"ab": {"type": "string"}, "ab1": {"type": "integer"}, "bb-": True},
            "patternProperties": {"^1": {"type": "null"}},
            "required": ["ab1"],
        }
    ),
    "names beside few others": gr.json_schema(
        {
            "type": "object",
            "properties": {"ab1": {"type": "null"}, "1-1": {"enum": ["ab"]}, "b": False},
            "patternProperties": {"^[ab]+$": {"type": "boolean"}},
            "additionalProperties": False,
        }
    ),
    "arrays by pattern": gr.json_schema(
        {
            "type": "object",
            "properties": {"é": {"type": "null"}},
            "patternProperties": {"b$": {"type": "string"}, "^[ab]+$": {"type": "array", "items": {"type": "null"}}},
            "additionalProperties": False,
        }
    ),
    "arrays by name": gr.json_schema(
        {
            "type": "object",
            "properties": {"ab": {"type": "array", "items": {"type": "null"}}, "-": {"type": "integer"}},
            "additionalProperties": {"type": "array", "items": {"type": "null"}},
            "required": ["b"],
        }
    ),
    "several objects": gr.json_schema(
        {
            "anyOf": [
                {"type": "object", "properties": {"ab": {"type": "null"}}, "required": ["ab"]},
                {"type": "object", "properties": {"ab1": {"const": "b"}, "a": False}, "required": ["ab1"]},
            ]
        }
    ),
}


@pytest.mark.parametrize("name", ["gpt2", "cl100k", "o200k", "deepseek"])
@pytest.mark.parametrize("kind", CONSTRAINTS)
def test_masks_agree_with_tokens_one_by_one(kind: str, name: str) -> None:
    """Masks are proved with sets; accept_token checks one token. A walk ends with the tokenizer's spelling."""
    v = vocabulary(tokenizer(ALL_BYTES, [*MADE, *UTF8[:4]], PRE_TOKENIZERS[name]))
    guide = gr.compile(CONSTRAINTS[kind], v, canonical=True, cache=False)
    rng = random.Random(kind + name)
    ended = 0
    for _ in range(6):
        tokens = walk_one_by_one(guide, rng, every=3, likely=0.6, is_long=lambda t: len(v.token_bytes(t)) > 1)
        ended += is_spelled(v, tokens)
    assert ended == 6


NESTED = {
    "type": "object",
    "properties": {"ab": {"$ref": "#"}, "b": {"type": "array", "items": {"enum": [1, "ab", {}]}}},
}
ALL_TEXTS: dict[str, gr.Constraint] = {
    **CONSTRAINTS,
    "nested objects": gr.json_schema(NESTED),
    "names and others": gr.json_schema({"properties": {"ab": False, "ab1": {"type": "integer"}, "b": True}}),
    "names by pattern": gr.json_schema(
        {"type": "object", "patternProperties": {"^ab": {"type": "null"}}, "additionalProperties": {"type": "boolean"}}
    ),
    "few properties": gr.json_schema({"type": "object", "minProperties": 2, "maxProperties": 3}),
    "pattern": gr.json_schema({"type": "array", "items": {"type": "string", "pattern": "^(ab|b1)+ ?$"}, "maxItems": 4}),
    "distinct strings": gr.json_schema({"type": "array", "items": {"type": "string"}, "uniqueItems": True}),
    "long strings": gr.json_schema({"type": "string", "minLength": 12, "maxLength": 21}),
}
TYPED = b'ab1 ",:{}[]-.\\n\xc3\xa9'


def texts_of(constraint: gr.Constraint, v: Vocabulary, rng: random.Random, count: int) -> list[bytes]:
    """Returns random texts, byte by byte, of a guide without canonical spelling; then the shortest end."""
    singles = [v.core.find(bytes([b])) for b in TYPED]
    guide = gr.compile(constraint, v, cache=False)
    texts = []
    for _ in range(count):
        matcher = guide.matcher()
        for _ in range(rng.randrange(2, 30)):
            open_ = [t for t in singles if matcher.validate([t])]
            if matcher.is_terminated() or not open_:
                break
            assert matcher.accept_token(rng.choice(open_))
        while not matcher.is_accepting():
            needed = matcher.least_tokens()
            assert needed is not None
            ways = [t for t in sorted(mask_of(matcher)) if v.is_text(t)]
            assert any(matcher.accept_within(t, needed) for t in ways)
        texts.append(b"".join(v.token_bytes(t) for t in matcher.history() if v.is_text(t)))
    return texts


def assert_allowed(guide: gr.Guide, text: str) -> None:
    """The masks contain the tokenizer's own tokens of a text, to its end."""
    v, matcher = guide.vocabulary, guide.matcher()
    for token in v.encode(text):
        assert token in mask_of(matcher), (text, matcher.history(), v.token_bytes(token))
        assert matcher.accept_token(token), (text, matcher.history(), v.token_bytes(token))
    assert matcher.is_accepting(), text


@pytest.mark.parametrize("name", ["gpt2", "cl100k", "o200k", "deepseek"])
@pytest.mark.parametrize("kind", ALL_TEXTS)
def test_nothing_canonical_is_excluded(kind: str, name: str) -> None:
    """For every text of the constraint, the masks contain the tokenizer's own tokens to the end."""
    v = vocabulary(tokenizer(ALL_BYTES, [*MADE, *UTF8[:4]], PRE_TOKENIZERS[name]))
    guide = gr.compile(ALL_TEXTS[kind], v, canonical=True, cache=False)
    for text in texts_of(ALL_TEXTS[kind], v, random.Random(kind + name), 8):
        assert_allowed(guide, text.decode())


@pytest.mark.parametrize("schema", [{}, {"type": "object", "maxProperties": 1}, {"properties": {"ab": {}, "b": False}}])
@pytest.mark.parametrize("name", ["gpt2", "cl100k", "o200k", "deepseek"])
def test_objects_without_members_are_spelled(name: str, schema: dict[str, object]) -> None:
    """Their braces are one piece: the first of them is followed by a brace, not by a key."""
    v = vocabulary(tokenizer(ALL_BYTES, [*MADE, *UTF8[:4]], PRE_TOKENIZERS[name]))
    guide = gr.compile(gr.json_schema(schema, layout="compact"), v, canonical=True, cache=False)
    for text in ["{}", '{"ab":{}}', '{"a":{"ab":{}}}', '{"a.]":{"a":[{},{}]}}']:
        assert_allowed(guide, text)


@pytest.mark.parametrize("seed", range(6))
def test_random_objects(seed: int) -> None:
    """Masks agree with tokens one by one, walks end as the tokenizer spells them, and all texts are spelled."""
    rng = random.Random(seed)
    v = vocabulary(tokenizer(ALL_BYTES, [*MADE, *UTF8[:4]], rng.choice(list(PRE_TOKENIZERS.values()))))
    constraint = gr.json_schema(random_object(rng))
    try:
        guide = gr.compile(constraint, v, canonical=True, cache=False)
    except gr.GuiderailError:
        return  # nothing satisfies it
    for _ in range(3):
        tokens = walk_one_by_one(guide, rng, every=3, likely=0.6, is_long=lambda t: len(v.token_bytes(t)) > 1)
        assert is_spelled(v, tokens)
    for text in texts_of(constraint, v, rng, 3):
        assert_allowed(guide, text.decode())


@pytest.mark.parametrize("pattern", REGEXES)
def test_walks_stay_canonical(pattern: str, small: Vocabulary) -> None:
    guide = gr.compile(gr.regex(pattern), small, canonical=True, cache=False)
    rng = random.Random(7)
    for _ in range(30):
        matcher = guide.matcher()
        for left in range(20, 0, -1):
            needed = matcher.least_tokens()
            assert needed is not None and needed <= left
            mask: Any = gr.allocate_token_bitmask(1, small.size)
            matcher.fill_next_token_bitmask(mask, 0, left)
            import numpy as np

            allowed = np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little")).tolist()
            assert allowed
            token = rng.choice(allowed)
            twin = matcher.fork()
            assert matcher.accept_within(token, left)
            if rng.random() < 0.3 and not matcher.is_terminated():
                matcher.rollback(1)
                assert mask_of(matcher) == mask_of(twin)
                assert matcher.accept_token(token)
            if matcher.is_terminated() or matcher.is_complete():
                break
        tokens = [t for t in matcher.history() if small.is_text(t)]
        assert matcher.is_terminated() or matcher.is_complete()
        assert is_spelled(small, tokens)


def test_forced_tokens_are_canonical(small: Vocabulary) -> None:
    guide = gr.compile(gr.literal('{"ab":"') + gr.regex("[ab]+") + '"}', small, canonical=True)
    matcher = guide.matcher()
    forced = matcher.forced_tokens()
    assert all(matcher.accept_token(token) for token in forced)
    assert len(mask_of(guide.matcher())) == 1


def test_a_constraint_without_a_spelling_is_refused(small: Vocabulary) -> None:
    """A tokenizer without a token for a byte spells no text with it, and no incomplete character."""
    v = vocabulary(tokenizer(b"ab<>", [], BYTES, added=["<a>"]))
    assert gr.compile(gr.choice(["<a>", "<b>"]), v, canonical=True).is_canonical
    whole = gr.compile(gr.choice(["b", "ab"]), v, canonical=True)
    assert mask_of(whole.matcher()) == {v.core.find(b"a"), v.core.find(b"b")}
    with pytest.raises(VocabularyError, match="merges") as caught:
        gr.compile(gr.literal("a"), Vocabulary([b"a"], stop_token_ids=[]), canonical=True)
    assert caught.value.code == "no-spelling"
    with pytest.raises(CompileError) as refused:
        whole.to_token_automaton()
    assert refused.value.code == "canonical-automaton"


def test_a_process_ends_after_it_dropped_many_guides() -> None:
    """No thread may free what belongs to Python while Python ends."""
    code = """
import guiderail as gr, test_canonical as here
v = here.vocabulary(here.tokenizer(here.ALL_BYTES, [*here.MADE, *here.UTF8[:4]], here.PRE_TOKENIZERS["gpt2"]))
schemas = [{"$comment": str(i), "properties": {"ab": {"type": "string"}}} for i in range(16)]
guides = [gr.compile(gr.json_schema(schema), v, canonical=True, cache=False) for schema in schemas]
for guide in guides:
    here.mask_of(guide.matcher())
del guide, guides
"""
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    made = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert made.returncode == 0 and "terminate" not in made.stderr, made.stderr
