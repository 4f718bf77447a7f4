"""Sampled tokens of real tokenizers: the tokenizer spells each text with the tokens that were drawn.

``make test-canonical`` draws a million tokens for each; here it is a few thousand.
"""

from __future__ import annotations

import base64
import os
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import guiderail as gr
from canonical_support import character_tokenizer
from conftest import _package_file
from guiderail import Vocabulary

_models: list[Any] = []  # a vocabulary does not keep its tokenizer's model alive
TOKENS = int(os.environ.get("GUIDERAIL_CANONICAL_TOKENS", "400"))
O200K = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def _llama4(request: pytest.FixtureRequest) -> Vocabulary:
    tiktoken = pytest.importorskip("tiktoken")
    path: Path = _package_file("llama_models", "llama4/tokenizer.model")
    lines = (line.split() for line in path.read_bytes().splitlines() if line)
    ranks = {base64.b64decode(token): int(rank) for token, rank in lines}
    encoding = tiktoken.Encoding("llama4", pat_str=O200K, mergeable_ranks=ranks, special_tokens={"<|eot|>": len(ranks)})
    return Vocabulary.from_tiktoken(encoding)


def _smollm2(request: pytest.FixtureRequest) -> Vocabulary:
    pytest.importorskip("xllamacpp", reason="llama.cpp is the oracle")
    _models.append(gr.load_model(str(request.getfixturevalue("smollm2_path"))))
    return _models[-1].vocabulary


def _tekken_2407(request: pytest.FixtureRequest) -> Vocabulary:
    pytest.importorskip("tiktoken")
    return Vocabulary.from_tekken(_package_file("mistral_common", "data/tekken_240718.json"))


def _mistral_v1(request: pytest.FixtureRequest) -> Vocabulary:
    pytest.importorskip("sentencepiece")
    return Vocabulary.from_sentencepiece(_package_file("mistral_common", "data/tokenizer.model.v1"))


def _mistral_as_json(request: pytest.FixtureRequest) -> Vocabulary:
    """Writes a tokenizer.json for Mistral like transformers: the score of the joined piece ranks each merge."""
    sentencepiece, _ = pytest.importorskip("sentencepiece"), pytest.importorskip("tokenizers")
    path = _package_file("mistral_common", "data/tokenizer.model.v1")
    model = sentencepiece.SentencePieceProcessor(model_file=str(path))
    ids = list(range(model.get_piece_size()))
    pieces: list[str] = model.id_to_piece(ids)
    score = dict(zip(pieces, model.get_score(ids), strict=True))
    normal = {p for i, p in enumerate(pieces) if not (model.is_control(i) or model.is_unknown(i) or model.is_byte(i))}
    splits = ((p, p[:at], p[at:]) for p in normal for at in range(1, len(p)))
    found = [(-score[p], len(left), left, right) for p, left, right in splits if left in normal and right in normal]
    backend = character_tokenizer("llama 2", pieces=pieces, merges=[(left, right) for *_, left, right in sorted(found)])
    return Vocabulary.from_huggingface(backend)


REAL: dict[str, Callable[[pytest.FixtureRequest], Vocabulary]] = {
    "llama3": lambda request: request.getfixturevalue("llama3"),
    "llama3-tiktoken": lambda request: Vocabulary.from_tiktoken(request.getfixturevalue("llama3_encoding")),
    "llama4": _llama4,
    "tekken": lambda request: request.getfixturevalue("tekken"),
    "tekken-2407": _tekken_2407,
    "deepseek": lambda request: request.getfixturevalue("deepseek"),
    "smollm2": _smollm2,
    "mistral": lambda request: request.getfixturevalue("mistral"),
    "mistral-v1": _mistral_v1,
    "mistral-v1-json": _mistral_as_json,
}


@pytest.fixture(scope="module", params=list(REAL))
def real(request: pytest.FixtureRequest) -> Vocabulary:
    return REAL[request.param](request)


def test_what_is_drawn_is_spelled_so(real: Vocabulary) -> None:
    """Draws allowed tokens of any text, one by one. The spelling alone allows them, too, compared from time to time."""
    guide = gr.compile(gr.regex(r"[\s\S]*"), real, canonical=True)
    rng = random.Random(7)
    mask = gr.allocate_token_bitmask(1, real.size)
    words = mask[0].view(np.uint32)
    drawn = 0
    while drawn < TOKENS:
        matcher = guide.matcher([])
        for _ in range(40):
            matcher.fill_next_token_bitmask(mask, 0)
            if drawn % 64 == 0:
                alone = np.array(real.spelling.restrict(matcher.history()), np.uint32)
                assert not (words & ~alone[: len(words)]).any(), matcher.history()
            assert words.any(), matcher.history()
            assert matcher.accept_token(_draw(words, rng))
            drawn += 1
        tokens = list(matcher.history())
        while not real.is_canonical(tokens):  # for example inside a character
            tokens.pop()
        text = b"".join(map(real.token_bytes, tokens)).decode()
        assert real.encode(text) == tokens, text


CONSTRAINTS: dict[str, gr.Constraint] = {
    "text": gr.regex(r'"[^"\x00-\x1f]*"'),
    "words": gr.regex(r"([A-Z][a-z]+ )+[a-z]+\."),
    "code": gr.regex(r"(def [a-z_]{1,9}\(\):\n( {4}return [0-9]{1,5}\n)+)+"),
    "object": gr.json_schema(
        {
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "age": {"type": "integer"},
                "tags": {"type": "array", "items": {"enum": ["red", "green", "blue"]}},
            },
            "required": ["name"],
            "additionalProperties": False,
        }
    ),
    "list": gr.json_schema({"type": "array", "items": {"type": ["number", "null", "string"]}, "maxItems": 9}),
    "names beside others": gr.json_schema(
        {
            "type": "object",
            "properties": {"name": {"type": "string"}, "description": {"type": "string"}, "size": {"type": "integer"}},
            "patternProperties": {"^(description_[a-z]{2}|_)": {"type": "null"}},
            "maxProperties": 6,
        }
    ),
}


@pytest.mark.parametrize("kind", CONSTRAINTS)
def test_what_masks_allow_is_spelled_so(kind: str, real: Vocabulary) -> None:
    """Tokens drawn under masks; some texts are then completed, with as few tokens as possible."""
    guide = gr.compile(CONSTRAINTS[kind], real, canonical=True)
    rng = random.Random(kind)
    mask = gr.allocate_token_bitmask(1, real.size)
    words = mask[0].view(np.uint32)
    drawn = texts = 0
    while drawn < TOKENS // 8:
        matcher = guide.matcher()
        texts += 1
        for _ in range(rng.randrange(5, 40)):
            if matcher.is_complete() or matcher.is_terminated():
                break
            matcher.fill_next_token_bitmask(mask, 0)
            assert words.any(), matcher.history()
            assert matcher.accept_token(_draw(words, rng))
        while texts % 40 == 1 and not matcher.is_terminated() and not matcher.is_accepting():
            needed = matcher.least_tokens()
            assert needed is not None
            matcher.fill_next_token_bitmask(mask, 0, needed)
            assert words.any(), matcher.history()
            assert matcher.accept_within(_draw(words, rng), needed)
        tokens = [t for t in matcher.history() if real.is_text(t)]
        while not real.is_canonical(tokens):  # for example inside a character
            tokens.pop()
        text = b"".join(map(real.token_bytes, tokens)).decode()
        assert real.encode(text) == tokens, text
        drawn += len(tokens) + 1


def _draw(words: np.ndarray[Any, Any], rng: random.Random) -> int:
    """Draws an allowed token: uniformly, or from a random word of the mask, which favours rare kinds."""
    for _ in range(2):
        token = rng.randrange(32 * len(words))
        if int(words[token >> 5]) >> (token & 31) & 1:
            return token
    filled = np.flatnonzero(words)
    word = int(filled[rng.randrange(len(filled))])
    bits = int(words[word])
    for _ in range(rng.randrange(bits.bit_count())):
        bits &= bits - 1
    return 32 * word + (bits & -bits).bit_length() - 1


def test_texts_that_people_wrote_are_canonical(real: Vocabulary) -> None:
    root = Path(__file__).parents[1]
    texts = [
        (root / name).read_text(encoding="utf-8") for name in ("README.md", "docs/regex.md", "tests/test_numbers.py")
    ]
    texts += [
        "naïve café – 日本語のテキスト 한국어 العربية हिन्दी 🎉👩‍💻",
        "don't  WON'T we'll\t\n\n  x=1;  12345678 3.14",
    ]
    for text in texts:
        for part in re.findall(r"[\s\S]{1,600}", text)[: 3 + TOKENS // 1000]:
            tokens = real.encode(part)
            assert real.is_canonical(tokens), part
