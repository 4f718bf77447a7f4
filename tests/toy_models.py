"""Toy models, whose logits after a text are a function of its tokens.

:class:`ToyModel` is the base of all; :class:`Toy` scores every row differently, over a small vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import guiderail as gr

EURO = "€".encode()
TOKENS = [b"a", b"b", b"ab", b"aba", *(EURO[i : i + 1] for i in range(3)), b" ", b"hello", b"hel", b"lo", b""]
STOP = len(TOKENS) - 1
VOCABULARY = gr.Vocabulary(TOKENS, special_tokens={"<end>": STOP}, stop_token_ids=[STOP], size=len(TOKENS))


class ToySession:
    """Rows of tokens. ``model.score`` gives the logits after each."""

    def __init__(self, model: Any, batch: int, length: int) -> None:
        self.model, self.batch, self.length, self.closed = model, batch, length, False
        self.rows: list[list[int]] = [[] for _ in range(batch)]
        self.logits = np.zeros((batch, model.logits_size), np.float32)

    def feed(self, rows: Sequence[Sequence[int]]) -> Any:
        assert not self.closed and len(rows) == self.batch and any(rows)
        self.model.feeds.append([list(row) for row in rows])
        for i, row in enumerate(rows):
            self.rows[i] += row
            assert len(self.rows[i]) <= self.length
            if row:
                self.logits[i] = self.model.score(self.rows[i])
        return self.logits

    def close(self) -> None:
        self.model.open -= not self.closed
        self.closed = True


class ToyModel:
    """A model that a test owns.

    Attributes:
        feeds: what its sessions have read: for each call, the tokens of each row.
        open: how many of its sessions are open.
    """

    name, context_length, max_batch = "toy", 64, None
    vocabulary: gr.Vocabulary
    logits_size: int
    session: type[Any] = ToySession

    def __init__(self) -> None:
        self.feeds: list[list[list[int]]] = []
        self.open = 0

    def score(self, row: list[int]) -> Any:
        """The logits after a row of tokens, shape ``(logits_size,)``."""
        raise NotImplementedError

    def encode(self, prompt: str, *, chat: bool, system: str | None = None) -> list[int]:
        return [ord(c) % 8 for c in (system or "") + prompt] + ([1] if chat else [])

    def new_session(self, batch: int, length: int) -> Any:
        self.open += 1
        return self.session(self, batch, length)

    def close(self) -> None:
        raise AssertionError("a model that the caller owns is not closed")


class Toy(ToyModel):
    """Scores depend on the whole row only: reproducible, and different after every token."""

    vocabulary = VOCABULARY

    def __init__(self, favourite: int | None = None, max_batch: int | None = None, padding: int = 5) -> None:
        super().__init__()
        self.favourite, self.max_batch = favourite, max_batch
        self.logits_size = VOCABULARY.size + padding

    def score(self, row: list[int]) -> Any:
        scores = np.random.default_rng(row).normal(size=self.logits_size).astype(np.float32)
        scores[VOCABULARY.size :] = 50  # padding columns: must never be drawn
        if self.favourite is not None:
            scores[self.favourite] = 20
        return scores
