"""What all logits processors share: the text of a row, the masks of a step, and reading the constraint argument.

Some engines say which request a row belongs to (continuous batching of transformers, onnxruntime-genai). There, a
:class:`RowState` follows each text. Others show only token histories (``generate`` of transformers, llama-cpp-python,
MLX). There, :mod:`guiderail.integrations._tracker` keeps a table of histories. Both use :func:`fill_rows`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from guiderail.errors import CompileError, MatcherError, VocabularyError
from guiderail.frontends.given import are_texts, written_by_model
from guiderail.matching.guide import Guide, compile
from guiderail.matching.matcher import Matcher, fill_next_token_bitmasks
from guiderail.vocabulary import Vocabulary
from guiderail.vocabulary.adapted import vocabulary_of

__all__ = ["RowState", "as_guides", "check_width", "fill_rows", "rows_of_each", "set_bits"]


class RowState:
    """Follows one text whose row the engine identifies, forwards and backwards.

    Args:
        guide: the guide that the text must match.
        stop_token_ids: the tokens that end the text; by default the vocabulary's.
    """

    __slots__ = ("_tokens", "matcher")

    def __init__(self, guide: Guide, stop_token_ids: int | Sequence[int] | None = None) -> None:
        self.matcher: Matcher = guide.matcher(stop_token_ids)
        self._tokens: list[int] = []

    def follow(self, tokens: list[int]) -> None:
        """Moves to the state after ``tokens``, from any state.

        Args:
            tokens: everything generated, without the prompt; what follows a stop token is padding.

        Raises:
            MatcherError: ``token-outside-mask``: the constraint does not allow a token there. The state is then the one
                before that token.
        """
        known = self._tokens
        if tokens[: len(known)] != known:
            keep = next((i for i, (a, b) in enumerate(zip(known, tokens, strict=False)) if a != b), len(tokens))
            self.matcher.rollback(len(known) - keep)
            del known[keep:]
        size = self.matcher.guide.vocabulary.size
        for token in tokens[len(known) :]:
            if self.matcher.is_terminated():
                break
            if not 0 <= token < size or not self.matcher.accept_token(token):
                raise MatcherError(
                    f"the engine wrote token {token} at position {len(known)} of the text, which the mask of that "
                    "step forbade; turn off whatever adds tokens without a mask (speculation, tokens appended by "
                    "hand), or begin a new text",
                    code="token-outside-mask",
                )
            known.append(token)

    def fork(self) -> RowState:
        """Returns an independent copy in the same state."""
        twin = RowState.__new__(RowState)
        twin.matcher = self.matcher.fork()
        twin._tokens = list(self._tokens)
        return twin


def fill_rows(
    states: Sequence[Matcher | None], bitmask: NDArray[np.int32], after_end: Sequence[Iterable[int]] | None = None
) -> None:
    """Writes the masks of the next token, one row each, in one native call.

    Args:
        states: one for each row; None for a row that has left its constraint (as beams of probability 0 do). Such rows,
            and those that have ended, may only stop.
        bitmask: int32, shape ``(>= rows, >= ceil(vocabulary.size / 32))``.
        after_end: for each row, the tokens that are allowed after its end, if not the stop tokens of its matcher.
    """
    open_rows = [row for row, m in enumerate(states) if m is not None and not m.is_terminated()]
    if open_rows:
        running: list[Any] = [states[row] for row in open_rows]
        fill_next_token_bitmasks(running, bitmask, open_rows)
    for row in set(range(len(states))).difference(open_rows):
        state = states[row]
        bitmask[row] = 0
        ends = after_end[row] if after_end is not None else state.stop_token_ids() if state is not None else ()
        set_bits(bitmask[row], ends, allowed=True)


def set_bits(row: NDArray[np.int32], tokens: Iterable[int], *, allowed: bool) -> None:
    """Allows or forbids some tokens in a mask, and leaves the others.

    Args:
        row: int32, shape ``(words,)``.
    """
    bits = row.view(np.uint32)
    for token in tokens:
        bit = np.uint32(1 << (token & 31))
        if allowed:
            bits[token >> 5] |= bit
        else:
            bits[token >> 5] &= ~bit


def rows_of_each(guides: int, rows: int) -> int:
    """How many consecutive rows of a batch belong to each of some guides.

    Raises:
        MatcherError: ``bad-batch``: the rows cannot be divided among them.
    """
    if rows == 0 or rows % guides:
        raise MatcherError(
            f"{rows} rows cannot be divided among {guides} constraints; give one constraint, or one for each prompt of "
            "the batch",
            code="bad-batch",
        )
    return rows // guides


def as_guides(constraint: Any, vocabulary: Any) -> list[Guide]:
    """Makes guides from what a user passes: guides or constraints, one or several, and a tokenizer.

    Args:
        constraint: a guide, or what :func:`generate` takes (a constraint, a JSON Schema, a type, a list of strings), or
            a list of those.
        vocabulary: a Vocabulary or a transformers tokenizer; needed unless only guides are given.

    Raises:
        CompileError: an item is neither guide nor constraint, the vocabulary is missing, or guides have different ones.
    """
    one_choice = not isinstance(constraint, list | tuple) or are_texts(constraint)
    several = [constraint] if one_choice else list(constraint)
    if not several:
        raise CompileError("at least one guide or constraint is needed", code="not-a-constraint")
    if vocabulary is not None:
        vocabulary = vocabulary_of(vocabulary)
    guides = []
    for one in several:
        if isinstance(one, Guide):
            guides.append(one)
            continue
        made = written_by_model(one)
        if vocabulary is None:
            raise CompileError(
                "a constraint needs a vocabulary or tokenizer; pass vocabulary=...",
                code="no-vocabulary",
            )
        guides.append(compile(made, vocabulary))
    first = guides[0].vocabulary if vocabulary is None else vocabulary
    if any(guide.vocabulary is not first and guide.vocabulary != first for guide in guides):
        raise CompileError("the guides were compiled for different vocabularies", code="other-vocabulary")
    return guides


def check_width(vocabulary: Vocabulary, width: int) -> None:
    """Raises an error if the logits lack a place for a token that the vocabulary may allow.

    Wider logits are fine: models pad them, and padding is never allowed.

    Args:
        vocabulary: the constraint's vocabulary.
        width: the number of logits in a row of the model.

    Raises:
        VocabularyError: ``vocabulary-mismatch``.
    """
    if width >= vocabulary.token_count:
        return
    stops = max(vocabulary.stop_token_ids, default=-1)
    last = next((t for t in range(vocabulary.token_count - 1, width - 1, -1) if vocabulary.is_text(t)), -1)
    if max(last, stops) >= width:
        raise VocabularyError(
            f"the model gives {width} logits, but the vocabulary of the constraint has text or stop tokens up to id "
            f"{max(last, stops)}; it is the vocabulary of another model",
            code="vocabulary-mismatch",
        )
