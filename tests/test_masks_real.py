"""Masks over real vocabularies, token by token: a byte-level one (Llama 3) and a SentencePiece one (Mistral)."""

from __future__ import annotations

import random

import numpy as np
import pytest

import guiderail as gr
from core_support import mask_of, words

# Patterns that reach every part of the mask builder: classes, counts, self-loops, look-arounds, choices.
PATTERNS = [
    r"\d{4}-\d{2}-\d{2}",
    r".*foo",
    r".{0,4000}",
    r".{3,9}",
    r"[A-Z][a-z]+( [A-Z][a-z]+)*",
    r"(\S+\s+){0,99}\S+",
    r"[a-z0-9._%+-]+@[a-z0-9.-]+\.[a-z]{2,}",
    r"\w+( \w+){3,20}\.",
    r'"([^"\\]|\\["\\/bfnrt])*"',
    r"https?://[a-z0-9.-]+(/[\w./-]*)?(\?[\w=&]*)?",
    r"(?=.*\d)(?=.*[a-z]).{8,64}",
    r".{0,20}foo",
    r"\s*\w+\s*=\s*(\d+|\"[^\"]*\")",
    r"(?i)select\s+\w+\s+from\s+\w+",
    r"(?:.*\bfoo\b.*)",
    r"[\u4e00-\u9fff]{2,10}",
    r"é+.*",
    r"(\w{1,10}, )*\w{1,10}",
    r".*(?<!x)y",
]
CONSTRAINTS = [
    *map(gr.regex, PATTERNS),
    gr.text_until("\n\nEND"),
    gr.text_until("</a>", include_stop=False),
    ~gr.regex(".*foo.*"),
    gr.regex(r".{0,200}").limited_to(100),
    gr.regex(r"\w+ \w+.*").limited_to(30),
    gr.choice([f"option {i}" for i in range(300)]),
    gr.substring_of("The quick brown fox jumps over the lazy dog"),
    gr.regex("[a-z ]+") & ~gr.regex(".*cat.*"),
    gr.separated_by(gr.regex("[a-z]+"), ", ", 2, 5),
    *map(
        gr.json_schema,
        (
            {"type": "string", "pattern": "[A-Za-z]{3}"},
            {"type": "string", "pattern": "^[a-z.-]+$", "maxLength": 9},
            {"type": "string", "maxLength": 7},
            {"type": "string", "not": {"pattern": "^[0-9a-f]{4}$"}},
            {"patternProperties": {"^x_|id$": {"type": "integer"}}, "additionalProperties": {"type": "string"}},
            {"properties": {"name": {}, 'né/"q': {}, "names": {}, "日": {}}, "additionalProperties": False},
            {"anyOf": [{"required": ["type"], "properties": {"type": {"const": n}}} for n in "ab"]},
        ),
    ),
]


@pytest.mark.parametrize("name", ["llama3", "mistral"])
@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=repr)
def test_every_token_by_its_own_derivative(
    constraint: gr.Constraint, name: str, request: pytest.FixtureRequest
) -> None:
    vocabulary: gr.Vocabulary = request.getfixturevalue(name)
    texts = request.getfixturevalue("token_texts")(name)
    guide = gr.compile(constraint, vocabulary, cache=False)
    matcher = guide.matcher()
    # derivatives of a separate program: no cache of the guide can hide a mistake
    program = constraint.program().core
    rng = random.Random(repr(constraint))
    read = b""
    for step in range(3):
        mask = mask_of(matcher)
        state = program.derivative(program.root, read)
        allowed_first = set(program.first_bytes(state))
        expected = np.zeros(words(vocabulary.size) * 32, dtype=bool)
        derivative = program.derivative
        for first, group in texts.items():
            if first in allowed_first:
                for token, text in group:
                    if derivative(state, text):
                        expected[token] = True
        if program.is_nullable(state):
            expected[list(vocabulary.stop_token_ids)] = True
        wrong = np.flatnonzero(mask != expected)
        assert not len(wrong), (read, [(int(t), vocabulary.token_bytes(int(t)), bool(mask[t])) for t in wrong[:5]])
        allowed = [int(t) for t in np.flatnonzero(mask) if vocabulary.is_text(int(t))]
        if not allowed:
            return
        some = rng.sample(allowed, min(5, len(allowed)))
        token = some[0] if step % 2 else max(some, key=lambda t: len(vocabulary.token_bytes(t)))
        assert matcher.accept_token(token)
        read += vocabulary.token_bytes(token)


@pytest.fixture(scope="module")
def token_texts(request: pytest.FixtureRequest):  # type: ignore[no-untyped-def]
    """Returns the text tokens by their first byte."""
    known: dict[str, dict[int, list[tuple[int, bytes]]]] = {}

    def of(name: str) -> dict[int, list[tuple[int, bytes]]]:
        if name not in known:
            vocabulary: gr.Vocabulary = request.getfixturevalue(name)
            groups: dict[int, list[tuple[int, bytes]]] = {}
            for token in range(vocabulary.token_count):
                if vocabulary.is_text(token):
                    text = vocabulary.token_bytes(token)
                    groups.setdefault(text[0], []).append((token, text))
            known[name] = groups
        return known[name]

    return of


@pytest.mark.parametrize("name", ["llama3", "mistral", "deepseek"])
def test_texts_are_accepted_as_the_tokenizer_spells_them(name: str, request: pytest.FixtureRequest) -> None:
    vocabulary: gr.Vocabulary = request.getfixturevalue(name)
    for constraint, text in (
        (gr.regex(r"\d{4}-\d{2}-\d{2}"), "2024-02-29"),
        (gr.text_until("\n\nEND"), "Once upon a time\n there was 🙂 naïve\n\nEND"),
        (gr.regex(r"(?=.*\d)(?=.*[a-z]).{8,64}"), "Passwörd 1234 日本"),
        (gr.any_text(), "def f(x):\n\treturn  x ** 2  # ∀x"),
    ):
        matcher = gr.compile(constraint, vocabulary).matcher()
        for token in vocabulary.encode(text):
            assert mask_of(matcher)[token]
            assert matcher.accept_token(token)
        assert all(mask_of(matcher)[list(vocabulary.stop_token_ids)])
        assert constraint.matches(text)
