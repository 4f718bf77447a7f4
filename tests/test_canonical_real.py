"""Sampled tokens of real tokenizers: each text is spelled by its own tokenizer as the tokens that were drawn.

``make test-canonical`` draws a million of them under each; here they are a few thousand.
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
from conftest import _package_file
from guiderail import Vocabulary

_models: list[Any] = []  # a vocabulary does not keep the model whose tokenizer it asks
TOKENS = int(os.environ.get("GUIDERAIL_CANONICAL_TOKENS", "2000"))
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


REAL: dict[str, Callable[[pytest.FixtureRequest], Vocabulary]] = {
    "llama3": lambda request: request.getfixturevalue("llama3"),
    "llama3-tiktoken": lambda request: Vocabulary.from_tiktoken(request.getfixturevalue("llama3_encoding")),
    "llama4": _llama4,
    "tekken": lambda request: request.getfixturevalue("tekken"),
    "tekken-2407": _tekken_2407,
    "deepseek": lambda request: request.getfixturevalue("deepseek"),
    "smollm2": _smollm2,
}
CONSTRAINTS: dict[str, Callable[[], Any]] = {
    "any text": lambda: gr.regex(r"[\s\S]*"),
    "words": lambda: gr.regex(r"( ?[A-Za-z']{1,12}[,.!]?){0,40}"),
    "white space": lambda: gr.regex(r"([ \n\t\r]|[a-z]|\d)*"),
    "numbers": lambda: gr.regex(r"[0-9]{1,40}( [0-9]+)*"),
    "JSON": lambda: gr.json_schema({"type": "object", "additionalProperties": {"type": ["string", "number", "array"]}}),
    "record": lambda: gr.json_schema(
        {
            "type": "object",
            "properties": {
                "name": {"type": "string", "maxLength": 12},
                "tags": {"type": "array", "items": {"enum": ["red", "reddish", "don't", "  x"]}},
                "when": {"type": "string", "format": "date-time"},
                "price": {"type": "number"},
            },
            "required": ["name", "when"],
        }
    ),
}


@pytest.fixture(scope="module", params=list(REAL))
def real(request: pytest.FixtureRequest) -> Vocabulary:
    return REAL[request.param](request)


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_what_is_drawn_is_spelled_so(name: str, real: Vocabulary) -> None:
    guide = gr.compile(CONSTRAINTS[name](), real, canonical=True)
    rng = random.Random(len(name))
    mask = gr.allocate_token_bitmask(1, real.size)
    drawn = 0
    while drawn < TOKENS / len(CONSTRAINTS):
        matcher = guide.matcher()
        tokens: list[int] = []
        for left in range(48, 0, -1):
            matcher.fill_next_token_bitmask(mask, 0, left if left < 16 else None)
            token = _draw(mask[0], rng)
            assert matcher.accept_token(token), real.token_bytes(token)
            if matcher.is_terminated():
                break
            tokens.append(token)
            if matcher.is_complete():
                break
        else:
            assert matcher.is_accepting()
        drawn += len(tokens)
        text = b"".join(map(real.token_bytes, tokens)).decode()
        assert real.encode(text) == tokens, text


def _draw(words: np.ndarray[Any, Any], rng: random.Random) -> int:
    """An allowed token: of all alike, or among those of some word of the mask, which favours rare kinds."""
    for _ in range(64):
        token = rng.randrange(32 * len(words))
        if int(words[token >> 5]) >> (token & 31) & 1:
            return token
    word = rng.choice(np.flatnonzero(words).tolist())
    bits = int(words[word]) & 0xFFFFFFFF
    return 32 * int(word) + rng.choice([i for i in range(32) if bits >> i & 1])


def test_texts_that_people_wrote_are_canonical(real: Vocabulary) -> None:
    root = Path(__file__).parents[1]
    texts = [
        (root / name).read_text(encoding="utf-8") for name in ("README.md", "docs/regex.md", "tests/test_numbers.py")
    ]
    texts += [
        "naïve café – 日本語のテキスト 한국어 العربية हिन्दी 🎉👩‍💻",
        "don't  WON'T we'll\t\n\n  x=1;  12345678 3.14",
    ]
    guide = gr.compile(gr.regex(r"[\s\S]*"), real, canonical=True)
    for text in texts:
        for part in re.findall(r"[\s\S]{1,600}", text)[: 4 + TOKENS // 1000]:
            tokens = real.encode(part)
            assert real.is_canonical(tokens), part
            assert guide.matcher().validate(tokens) == len(tokens), part
