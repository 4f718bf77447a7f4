"""Random walks that depend only on their seed: they are the same alone and in parallel."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator

import numpy as np

import guiderail as gr
from core_support import bits_of, mask_of, words


def walk(guide: gr.Guide, seed: int, steps: int = 24, back: float = 0.2) -> list[tuple[bytes, bool, int]]:
    """Returns the observations of one text: masks, whether the text is complete, tokens."""
    rng = random.Random(seed)
    matcher = guide.matcher()
    size = guide.vocabulary.size - 1  # without the stop token
    seen: list[tuple[bytes, bool, int]] = []
    for _ in range(steps):
        mask = mask_of(matcher)
        allowed = np.flatnonzero(mask[:size])
        if not len(allowed):
            break
        token = int(rng.choice(allowed))
        seen.append((mask.tobytes(), matcher.is_complete(), token))
        assert matcher.validate([token, token]) >= 1
        matcher.forced_bytes(8)
        assert matcher.accept_token(token)
        if rng.random() < back:
            matcher.rollback(1)
    return seen


def game(guide: gr.Guide, seed: int, steps: int) -> Iterator[bytes]:
    """A text and its forks, with all operations in any order; yields the observations so far after each step. The steps
    may run on one thread, or on many in sequence.
    """
    rng = random.Random(seed)
    texts = [guide.matcher()]
    size = guide.vocabulary.size
    seen = hashlib.blake2b(digest_size=16)
    for _ in range(steps):
        at = rng.randrange(len(texts))
        matcher = texts[at]
        kind = rng.choices(
            ["token", "token", "fork", "back", "string", "draft", "budget", "any", "ask", "reset"],
            [30, 30, 8, 12, 4, 6, 4, 8, 8, 2],
        )[0]
        answer: object = None
        row = np.zeros((1, words(size)), dtype=np.int32)
        if matcher.is_terminated():
            kind = "back" if rng.random() < 0.7 else "reset"
        else:
            matcher.fill_next_token_bitmask(row)
        allowed = np.flatnonzero(bits_of(row)[:size])
        if kind == "token" and len(allowed):
            token = int(rng.choice(allowed))
            answer = matcher.accept_token(token)
            assert answer, "a mask allowed a token that was refused"
        elif kind == "any":
            token = rng.randrange(size)
            answer = matcher.accept_token(token)
            assert answer == (token in allowed)
        elif kind == "fork" and len(texts) < 4:
            texts.append(matcher.fork())
        elif kind == "back":
            count = rng.randrange(min(6, len(matcher.history())) + 1)
            matcher.rollback(count)
            answer = count, matcher.history()
        elif kind == "string":
            answer = matcher.accept_string(rng.choice(["a", '"', "1", "ab", "{", ' "']))
        elif kind == "draft":
            draft = [int(rng.choice(allowed)) if len(allowed) else 0, *(rng.randrange(size) for _ in range(2))]
            rows = np.zeros((4, words(size)), dtype=np.int32)
            answer = matcher.validate(draft), matcher.fill_draft(draft, rows), rows.tobytes()
        elif kind == "budget":  # earlier searches influence which tokens a budget leaves, but not that it suffices
            least = matcher.least_tokens(thorough=False)
            if least is not None:
                within = np.zeros_like(row)
                matcher.fill_next_token_bitmask(within, 0, least + 2)
                assert not (within & ~row).any() and within.any()
        elif kind == "ask":
            answer = matcher.is_complete(), matcher.is_accepting(), matcher.forced_bytes(6)
        elif kind == "reset":
            matcher.reset()
        seen.update(row.tobytes())
        seen.update(repr((kind, at, answer)).encode())
        yield seen.digest()
