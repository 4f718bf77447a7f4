"""The interface between guiderail and a model: token ids in, logits out.

A :class:`Model` is shared, and its users do not change it. Each generation opens a :class:`Session`, which owns the
key-value cache of its rows. Masks, sampling and stopping happen outside, so an adapter is short.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from guiderail.errors import ModelError
from guiderail.support.options import check_integer

if TYPE_CHECKING:
    from guiderail.vocabulary import Vocabulary

__all__ = [
    "Logits",
    "Model",
    "Session",
    "check_context_length",
    "context_full",
    "empty_prompt",
    "feed_each",
    "feed_rows",
    "leaders",
    "room_after",
]

Logits = NDArray[np.float32]


class Session(Protocol):
    """The key-value cache of some rows of text. Not thread-safe; close it when done.

    Optional members: if ``answers_some`` is true, ``feed(rows, asked)`` is told which rows' logits are needed, and need
    not compute the others. ``feed_each(rows, counts)`` also returns the logits after earlier tokens of a row, which the
    weight of forced text needs: one array for each row, of shape ``(counts[row], logits_size)``, with the logits after
    each of the row's last ``counts[row]`` tokens.

    ``cut_row(row, length)`` forgets what a row has read after its first ``length`` tokens. ``copy_rows(pairs)`` copies
    between rows what they have read, ``(from, to)``. With both, strings that branch
    (:mod:`guiderail.generation.distribution`) need not be read again from their start.
    """

    @property
    def batch(self) -> int:
        """The number of rows."""

    def feed(self, rows: Sequence[Sequence[int]]) -> Logits:
        """Appends tokens to each row and returns the logits after the last token of each.

        Args:
            rows: one sequence of token ids for each row. An empty one leaves its row as it is, and its logits are those
                of the row's last feed.

        Returns:
            float32, shape ``(batch, logits_size)``. Writable, and valid only until the next call.

        Raises:
            ModelError: ``context-full``: a row would outgrow its length; ``bad-token``: an id is out of range.
        """

    def close(self) -> None:
        """Frees the cache. May be called more than once."""


class Model(Protocol):
    """A language model behind a minimal interface.

    A model may have ``pass_tokens``, an int: a forward pass over up to that many tokens takes less time than one pass
    for each. Forced text is then fed in portions of at most that size; without it, all at once.
    """

    @property
    def name(self) -> str:
        """The name for messages."""

    @property
    def vocabulary(self) -> Vocabulary:
        """The tokens that constraints are compiled for."""

    @property
    def logits_size(self) -> int:
        """The number of columns of the logits; may exceed ``vocabulary.size`` (padding of the embedding matrix)."""

    @property
    def context_length(self) -> int:
        """The maximum number of tokens, prompt and answer together, that a row may hold."""

    @property
    def max_batch(self) -> int | None:
        """The maximum number of rows in a session; None: limited only by memory."""

    def encode(self, prompt: str, *, chat: bool, system: str | None = None) -> list[int]:
        """Returns the token ids of a prompt.

        Args:
            prompt: what the user says, or, with ``chat=False``, the text to continue.
            chat: wrap it in the model's chat template, up to the start of the assistant's answer. Text in the prompt
                that spells a special token stays text.
            system: the system message; only with ``chat=True``.

        Raises:
            ModelError: ``no-chat-template``: the model has no usable template. ``chat-template``: it rejects the texts.
        """

    def new_session(self, batch: int, length: int) -> Session:
        """Opens a session of ``batch`` rows with room for ``length`` tokens each."""

    def close(self) -> None:
        """Frees the model and its sessions."""


def leaders(fresh: Sequence[Sequence[int] | None]) -> list[int]:
    """Which row reads for which: several answers to one prompt begin with the same tokens, so one row can read for all.

    Args:
        fresh: the tokens of each row that has read nothing yet; None for the others.

    Returns:
        for each row, the first with the same tokens: mostly the row itself.
    """
    first: dict[tuple[int, ...], int] = {}
    return [row if not tokens else first.setdefault(tuple(tokens), row) for row, tokens in enumerate(fresh)]


def feed_rows(session: Session, rows: Sequence[Sequence[int]], asked: Collection[int]) -> Logits:
    """Like ``session.feed``, if only the logits of some rows are needed; those of others may be anything."""
    if getattr(session, "answers_some", False):
        return session.feed(rows, asked)  # type: ignore[call-arg]
    return session.feed(rows)


def feed_each(session: Session, rows: Sequence[Sequence[int]], counts: Sequence[int]) -> list[Logits] | None:
    """The logits after each of the last ``counts[row]`` tokens of each row; None if the session cannot report them.

    Returns:
        float32, one array for each row, of shape ``(counts[row], logits_size)``.
    """
    known = getattr(session, "feed_each", None)
    if known is not None:
        found: list[Logits] = known(rows, counts)
        return found
    if max(counts, default=0) > 1:
        return None
    logits = feed_rows(session, rows, [row for row, count in enumerate(counts) if count])
    return [logits[row : row + count] for row, count in enumerate(counts)]


def check_context_length(given: int | None, trained: int) -> None:
    """Checks the option ``context_length`` of a model that was trained with contexts of ``trained`` tokens.

    Raises:
        ModelError: ``bad-option``.
    """
    check_integer(
        "context_length",
        given,
        1,
        trained,
        optional=True,
        meaning="the tokens of a context that the model was trained with",
        error=ModelError,
        code="bad-option",
    )


def context_full(name: str, wanted: int, room: int) -> ModelError:
    """The error for a row that does not fit."""
    return ModelError(
        f"{wanted} tokens do not fit the {room} tokens of context that {name} has here; "
        "shorten the prompt or lower max_tokens",
        code="context-full",
    )


def empty_prompt() -> ModelError:
    """The error for a prompt without tokens, after which a model can say nothing."""
    return ModelError("the prompt is empty, and the model adds no token of its own; write something", code="bad-prompt")


def room_after(model: Model, prompt: Sequence[int]) -> int:
    """How many tokens of the model's context are left after a prompt.

    Raises:
        ModelError: ``bad-prompt``: the prompt has no token. ``context-full``: none is left.
    """
    if not prompt:
        raise empty_prompt()
    if len(prompt) >= model.context_length:
        raise ModelError(
            f"the prompt has {len(prompt)} tokens and leaves no room in the {model.context_length} tokens of context "
            f"that {model.name} has; shorten it",
            code="context-full",
        )
    return model.context_length - len(prompt)
