"""Canonical spelling of byte-pair encodings over characters (Llama 2, Mistral, Gemma): the tokenizer is the oracle."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import guiderail as gr
from canonical_support import (
    STYLES,
    assert_is_tree,
    character_tokenizer,
    is_spelled,
    mask_of,
    spelled,
    vocabulary,
    walk_one_by_one,
)
from core_support import EVERY_BYTE
from guiderail import Vocabulary
from guiderail.errors import VocabularyError
from guiderail.generation.healing import take_back

pytest.importorskip("tokenizers", reason="tokenizers is the oracle")

ALPHABET = "ab1▁é."  # 日 and U+0001 are not tokens
LENIENT = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


@st.composite
def merges(draw: st.DrawFn, most: int = 12, *, ways: bool = False) -> list[tuple[str, str]]:
    """Merges of existing tokens.

    Args:
        ways: several may make one token, in any order, as in converted models.
    """
    tokens = list(ALPHABET)
    made: list[tuple[str, str]] = []
    for _ in range(draw(st.integers(0, most))):
        left, right = draw(st.sampled_from(tokens)), draw(st.sampled_from(tokens))
        if (left, right) in made or len(left + right) > 5 or (left + right in tokens and not ways):
            continue
        if left + right not in tokens:
            tokens.append(left + right)
        made.append((left, right))
    return draw(st.permutations(made)) if ways else made


def assert_agrees(v: Vocabulary, ids: Iterable[int], most: int = 4, samples: int = 400) -> None:
    """Checks all sequences of these tokens, or a sample of many, against the tokenizer."""
    some = sorted(ids)
    rng = random.Random(len(some))
    for length in range(1, most + 1):
        every: Any = itertools.product(some, repeat=length)
        if len(some) ** length > samples:
            every = (rng.choices(some, k=length) for _ in range(samples))
        for tokens in every:
            assert v.is_canonical(tokens) == is_spelled(v, list(tokens)), [v.token_bytes(t) for t in tokens]


def own(v: Vocabulary, text: str) -> set[int]:
    """Returns the tokens of these bytes."""
    found = {
        t for t in range(v.token_count) if v.is_text(t) and v.token_bytes(t) in [bytes([b]) for b in text.encode()]
    }
    assert found
    return found


def usual(v: Vocabulary) -> set[int]:
    """Returns all tokens that are not bytes, and some byte tokens: of characters with a token, and of others."""
    several = {t for t in range(v.token_count) if v.is_text(t)} - set(range(2, 258))
    return several | own(v, "aé日\x01 ")


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("ways", [False, True], ids=["one way", "several ways"])
@LENIENT
@given(data=st.data())
def test_sequences_are_canonical_where_the_tokenizer_says_so(style: str, ways: bool, data: st.DataObject) -> None:
    v = vocabulary(character_tokenizer(style, ALPHABET, data.draw(merges(ways=ways))))
    assert_agrees(v, usual(v))
    texts = data.draw(st.lists(st.text("ab1 é.日\x01", min_size=1, max_size=9), max_size=20))
    for text in texts:
        assert v.is_canonical(v.encode(text)), text


@pytest.mark.parametrize("style", STYLES)
@LENIENT
@given(data=st.data())
def test_masks_hold_all_spellings_and_nothing_else(style: str, data: st.DataObject) -> None:
    v = vocabulary(character_tokenizer(style, ALPHABET, data.draw(merges(ways=True))))
    texts = data.draw(st.lists(st.text("ab1 é.日", min_size=1, max_size=7), min_size=1, max_size=5, unique=True))
    guide = gr.compile(gr.choice(texts), v, canonical=True, cache=False)
    assert_is_tree(guide, [v.encode(text) for text in texts])


def test_bytes_spell_only_what_is_no_token() -> None:
    """<0x61> never spells a; three byte tokens spell 日; é is one token, not two."""
    v = vocabulary(character_tokenizer("llama 2", "aé", [("a", "a")]))
    bytes_of = {text: [v.core.find(bytes([b])) for b in text.encode()] for text in "é日"}
    a, twin = v.encode("a")[0], v.core.find(b"a")
    assert a != twin and v.token_bytes(twin) == b"a"
    assert v.is_canonical([a]) and not v.is_canonical([twin])
    assert v.is_canonical(bytes_of["日"]) and not v.is_canonical(bytes_of["é"])
    guide = gr.compile(gr.regex("[a-zé日]+"), v, canonical=True)
    mask = mask_of(guide.matcher())
    assert a in mask and twin not in mask
    assert guide.matcher().accept_token(a) and not guide.matcher().accept_token(twin)
    matcher = guide.matcher()
    for token in v.encode("a日a"):
        assert token in mask_of(matcher) and matcher.accept_token(token)
    matcher.rollback(2)
    assert matcher.accept_token(bytes_of["日"][-1]) and matcher.accept_token(a)


def test_without_bytes_other_characters_have_no_spelling() -> None:
    v = vocabulary(character_tokenizer("gemma", "ab▁", [("a", "b"), ("▁", "ab")], fallback=False))
    ids = [t for t in range(v.token_count) if v.is_text(t)]
    assert_agrees(v, ids)
    guide = gr.compile(gr.choice(["ab ab", "ab c", "é"]), v, canonical=True)
    assert_is_tree(guide, [v.encode("ab ab")])


LINES = ["\n", "\n\n", "\n\n\n\n", "<td>", "<t", "d>b"]


@pytest.mark.parametrize("style", ["gemma", "never", "first", "llama 2"])
def test_texts_that_are_tokens_of_their_own(style: str) -> None:
    """Gemma's line breaks: the text that begins first counts, and of several the longest."""
    merges = [("a", "b"), ("\n", "\n"), ("\n\n", "\n"), ("<", "t"), ("d", ">"), ("▁", "a")]
    v = vocabulary(character_tokenizer(style, "ab<td>▁\n", merges, added=LINES))
    ids = {t for t in range(v.token_count) if v.is_text(t) and t >= 258} | own(v, "\na")
    rng = random.Random(5)
    some = sorted(ids)
    for length in range(1, 6):
        every = (
            itertools.product(some, repeat=length) if length < 3 else (rng.choices(some, k=length) for _ in range(900))
        )
        for tokens in every:
            # the tokenizer would join it to a preceding line break
            if style in ("first", "llama 2") and v.token_bytes(tokens[0])[:1] == b"\n":
                continue
            assert v.is_canonical(tokens) == is_spelled(v, list(tokens)), [v.token_bytes(t) for t in tokens]
    texts = ["a\nb", "a\n\n\nb", "a<tda", "a<td>b", "ad>b", "b\n\n\n\n\n"]
    guide = gr.compile(gr.choice(texts), v, canonical=True, cache=False)
    spellings = [one for text in texts if (one := spelled(v, text)) is not None]
    assert len(spellings) == (2 if style == "llama 2" else 6)
    assert_is_tree(guide, spellings)


MADE = [("▁", "a"), ("a", "b"), ("b", "b"), ("ab", "1"), ('"', ","), ("▁", '"'), ('"', ":"), ("▁", "▁"), ("{", '"')]
MADE += [("[", '"'), ('"', "]"), ('"', "}"), ("▁a", "b"), ("é", "a"), ('":', "▁"), ("1", "1")]
CONSTRAINTS: dict[str, gr.Constraint] = {
    "any text": gr.regex('"[^"▁]*"'),
    "bounded": gr.regex('"[^"]{3,9}"'),
    "of letters": gr.regex("[a-z]{2,6}(-[a-z]{2,6})?"),
    "letters alone": gr.regex("[ab]{20,30}"),
    "digits": gr.regex("[0-9]{5}(,[0-9]+)*"),
    "line": gr.regex("[ab ]*\\n[ab ]+"),
    "object": gr.json_schema({"properties": {"ab": {"type": "string"}, "ab1": {"enum": ["a", "ab", "é", "日"]}}}),
    "open object": gr.json_schema({"type": "object", "required": ["ab"]}),
    "list": gr.json_schema({"type": "array", "items": {"type": ["integer", "null"]}, "uniqueItems": True}),
    "strings": gr.json_schema({"type": "array", "items": {"type": "string"}, "minItems": 2}),
    "counted": gr.json_schema({"type": "string", "minLength": 2, "maxLength": 40}),
}
JSON = 'ab1▁é".,:{}[]-\\ntrueflsc'


def small(style: str) -> Vocabulary:
    added = ["\n", "\n\n", "[a]"] if style == "gemma" else []
    return vocabulary(character_tokenizer(style, JSON, MADE, added=added))


@pytest.mark.parametrize("style", ["llama 2", "gemma", "words"])
@pytest.mark.parametrize("kind", CONSTRAINTS)
def test_masks_agree_with_tokens_one_by_one(kind: str, style: str) -> None:
    v = small(style)
    guide = gr.compile(CONSTRAINTS[kind], v, canonical=True, cache=False)
    rng = random.Random(kind + style)
    for _ in range(10):
        tokens = walk_one_by_one(guide, rng, every=4, likely=0.7, is_long=lambda t: t > 257)
        assert is_spelled(v, tokens), [v.token_bytes(t) for t in tokens]


@pytest.mark.parametrize("style", ["llama 2", "gemma", "words"])
@pytest.mark.parametrize("kind", CONSTRAINTS)
def test_nothing_canonical_is_excluded(kind: str, style: str) -> None:
    from test_canonical import texts_of

    v = small(style)
    bytewise = Vocabulary(EVERY_BYTE, stop_token_ids=[256])
    guide = gr.compile(CONSTRAINTS[kind], v, canonical=True, cache=False)
    held = 0
    for text in texts_of(CONSTRAINTS[kind], bytewise, random.Random(kind + style), 12):
        tokens = spelled(v, text.decode())
        if tokens is None:  # for example ▁, which would become a space
            continue
        held += 1
        matcher = guide.matcher()
        for token in tokens:
            assert token in mask_of(matcher), (text, matcher.history(), v.token_bytes(token))
            assert matcher.accept_token(token), (text, matcher.history(), v.token_bytes(token))
        assert matcher.is_accepting(), text
    assert held > 5


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "ignored merges": ({"ignore_merges": True}, "ignore_merges"),
    "suffix": ({"end_of_word_suffix": "</w>"}, "end_of_word_suffix"),
    "normal form": ({"normalizer": {"type": "NFKC"}}, "NFKC"),
    "no spaces": ({"normalizer": None, "pre_tokenizer": None}, "spaces"),
    "words": ({"pre_tokenizer": {"type": "Whitespace"}}, "Whitespace"),
    "stripped": ({"added": ["<x>"], "rstrip": True}, "rstrip"),
    "changed first": ({"added": ["<x▁>"], "normalized": True}, "normalizing"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_tokenizers_that_are_refused(name: str) -> None:
    options, why = REFUSED[name]
    v = vocabulary(character_tokenizer("gemma", "abx<>▁", [("a", "b")], **options))
    with pytest.raises(VocabularyError, match=why) as caught:
        v.is_canonical([])
    assert caught.value.code == "no-spelling"


def test_a_merge_that_makes_the_token_of_a_byte_is_refused() -> None:
    v = vocabulary(
        character_tokenizer("gemma", "ab▁<0xA>", [("<", "0"), ("<0", "x"), ("<0x", "0"), ("A", ">"), ("<0x0", "A>")])
    )
    with pytest.raises(VocabularyError, match="byte") as caught:
        v.is_canonical([])
    assert caught.value.code == "no-spelling"


def test_the_end_of_a_prompt_is_spelled_with_what_follows() -> None:
    """Of tokens with the same bytes, only the one that the tokenizer produces is allowed."""
    v = vocabulary(character_tokenizer("llama 2", "abc▁:/", [("a", "b"), (":", "/"), (":/", "/"), ("▁", "ab")]))
    prompt = v.encode("ab:")
    kept, prefix = take_back([1, *prompt], v)
    assert (kept, prefix) == ([1, v.encode("ab")[0]], b":")
    guide = gr.compile(gr.literal(":") + gr.regex("//[abc]+"), v, canonical=True)
    assert mask_of(guide.matcher()) == {v.encode("://")[0]}
    other = gr.compile(gr.literal(":") + gr.regex("c+"), v, canonical=True)
    assert mask_of(other.matcher()) == set(v.encode(":"))
    matcher = other.matcher()
    assert matcher.forced_tokens() == v.encode(":c")


# -- SentencePiece -----------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Trains a model on the documentation."""
    library = pytest.importorskip("sentencepiece", reason="sentencepiece is the oracle")
    folder: Path = tmp_path_factory.mktemp("sentencepiece")

    def train(**options: Any) -> Vocabulary:
        prefix = folder / str(abs(hash(str(options))))
        library.SentencePieceTrainer.train(
            input=str(Path(__file__).parents[1] / "README.md"),
            model_prefix=str(prefix),
            minloglevel=2,
            **{
                "model_type": "bpe",
                "vocab_size": 600,
                "byte_fallback": True,
                "normalization_rule_name": "identity",
                "remove_extra_whitespaces": False,
                "character_coverage": 0.99,
                "split_digits": True,
                **options,
            },
        )
        return Vocabulary.from_sentencepiece(f"{prefix}.model")

    return train


MODELS: dict[str, dict[str, Any]] = {
    "mistral": {},
    "gemma": {"user_defined_symbols": ["\n", "\n\n", "▁▁", "<td>"], "add_dummy_prefix": False},
    "no bytes": {"byte_fallback": False, "character_coverage": 1.0},
    "across words": {"split_by_whitespace": False, "split_by_unicode_script": False},
}


@pytest.mark.parametrize("name", MODELS)
def test_sentencepiece_models(name: str, trained: Any) -> None:
    v = trained(**MODELS[name])
    rng = random.Random(name)
    text = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    held = 0
    for _ in range(300):
        start = rng.randrange(len(text))
        part = text[start : start + rng.randrange(1, 90)] + rng.choice(["", "", "日é\x00", "\n\n\n  x", "<td> <td"])
        tokens = spelled(v, part)
        held += tokens is not None
        assert tokens is None or v.is_canonical(tokens), part
    assert held > 50
    ids = [t for t in range(v.token_count) if v.is_text(t)]
    for length in (1, 2, 3):
        for tokens in ([one] for one in ids) if length == 1 else (rng.choices(ids, k=length) for _ in range(3000)):
            assert v.is_canonical(tokens) == is_spelled(v, tokens), [v.token_bytes(t) for t in tokens]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"model_type": "unigram"}, "unigram"),
        ({"model_type": "char"}, "characters"),
        ({"normalization_rule_name": "nmt_nfkc"}, "normalization"),
        ({"remove_extra_whitespaces": True}, "remove_extra_whitespaces"),
        ({"treat_whitespace_as_suffix": True}, "treat_whitespace_as_suffix"),
    ],
)
def test_sentencepiece_models_that_are_refused(options: dict[str, Any], why: str, trained: Any) -> None:
    v = trained(**options)
    with pytest.raises(VocabularyError, match=why) as caught:
        v.is_canonical([])
    assert caught.value.code == "no-spelling"
