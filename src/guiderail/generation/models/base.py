"""What guiderail asks of a model: token ids in, logits out.

A :class:`Model` is shared and immutable to its users; each generation opens a :class:`Session`, which owns
the key-value cache of its rows. Everything else (masks, sampling, stopping) happens outside, so an adapter
is a page.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from guiderail.errors import ModelError

if TYPE_CHECKING:
    from guiderail.vocabulary import Vocabulary

__all__ = ["Logits", "Model", "Session", "context_full", "feed_each", "feed_rows"]

Logits = NDArray[np.float32]


class Session(Protocol):
    """The key-value cache of some rows of text. Not thread-safe; close it when done.

    One with a true ``answers_some`` is told by ``feed(rows, asked)`` of which rows the logits are wanted, and need not
    compute the others. One with a method ``feed_each(rows, counts)`` also tells the logits after earlier tokens of a
    row, which the weight of forced text needs: it returns one array a row, of shape ``(counts[row], logits_size)``,
    with the logits after each of the row's last ``counts[row]`` tokens.

    One with ``cut_row(row, length)`` forgets what a row has read after its first ``length`` tokens, and one with
    ``copy_rows(pairs)`` has rows take over what others have read, ``(from, to)``: texts that branch
    (:mod:`guiderail.generation.distribution`) are then not read again from their start.
    """

    @property
    def batch(self) -> int:
        """The number of rows."""

    def feed(self, rows: Sequence[Sequence[int]]) -> Logits:
        """Appends tokens to each row and returns the logits after the last token of each.

        Args:
            rows: one sequence of token ids a row. An empty one leaves its row as it is (and its logits as
            they
                were at the row's last feed).

        Returns:
            float32, shape ``(batch, logits_size)``. Writable, and valid only until the next call.

        Raises:
            ModelError: ``context-full`` when a row would outgrow its length, ``bad-token`` for ids out of
            range.
        """

    def close(self) -> None:
        """Frees the cache. May be called again."""


class Model(Protocol):
    """A language model behind the smallest useful interface.

    A model may have ``pass_tokens``, an int: up to so many tokens, a forward pass takes less than it would take for
    each by itself. Forced text is then fed in portions that fit; without it, all at once.
    """

    @property
    def name(self) -> str:
        """What to call it in messages."""

    @property
    def vocabulary(self) -> Vocabulary:
        """The tokens, as constraints are compiled against them."""

    @property
    def logits_size(self) -> int:
        """Columns of the logits; may exceed ``vocabulary.size`` (padding of the embedding matrix)."""

    @property
    def context_length(self) -> int:
        """The most tokens (prompt and answer together) that a row may hold."""

    @property
    def max_batch(self) -> int | None:
        """The most rows of a session; None: no limit but memory."""

    def encode(self, prompt: str, *, chat: bool, system: str | None = None) -> list[int]:
        """Token ids of a prompt.

        Args:
            prompt: what the user says, or, with ``chat=False``, the text to continue.
            chat: wrap it in the model's chat template, up to where the assistant's answer begins. Text in the
                prompt that spells a special token stays text.
            system: the system message; only with ``chat=True``.

        Raises:
            ModelError: ``no-chat-template`` when the model has none that can be used.
        """

    def new_session(self, batch: int, length: int) -> Session:
        """Opens a session of ``batch`` rows with room for ``length`` tokens each."""

    def close(self) -> None:
        """Frees the model, and with it its sessions."""


def feed_rows(session: Session, rows: Sequence[Sequence[int]], asked: Collection[int]) -> Logits:
    """``session.feed`` where only the logits of some rows are wanted; those of others may be anything."""
    if getattr(session, "answers_some", False):
        return session.feed(rows, asked)  # type: ignore[call-arg]
    return session.feed(rows)


def feed_each(session: Session, rows: Sequence[Sequence[int]], counts: Sequence[int]) -> list[Logits] | None:
    """The logits after each of the last ``counts[row]`` tokens of each row; None if the session cannot tell them.

    Returns:
        float32, one array a row, each of shape ``(counts[row], logits_size)``.
    """
    known = getattr(session, "feed_each", None)
    if known is not None:
        found: list[Logits] = known(rows, counts)
        return found
    if max(counts, default=0) > 1:
        return None
    logits = feed_rows(session, rows, [row for row, count in enumerate(counts) if count])
    return [logits[row : row + count] for row, count in enumerate(counts)]


def context_full(name: str, wanted: int, room: int) -> ModelError:
    """The error for a row that does not fit."""
    return ModelError(
        f"{wanted} tokens do not fit the {room} tokens of context that {name} has here; "
        "shorten the prompt or lower max_tokens",
        code="context-full",
    )
