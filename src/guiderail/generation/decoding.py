"""The loop that decodes: some prompts in lockstep on one session of a model, each under its guide.

A step of a row is: tokens that are forced (no model needed), one forward pass over what the model has not seen yet,
the mask on its logits, one token drawn. Masks that take long are filled by native threads while the model computes
(Dong et al. 2024, "XGrammar", §3.5). A row ends by itself the moment nothing but a stop token could follow: the model
is not asked to say so.
"""

from __future__ import annotations

import codecs
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from guiderail.errors import LimitError, ModelError
from guiderail.generation.models import Model
from guiderail.generation.models.base import feed_rows
from guiderail.generation.overlap import Masks, may_be_forced
from guiderail.generation.sampling import Sampler, Sampling
from guiderail.generation.targets import TEXT, Reading
from guiderail.matching.bitmask import allocate_token_bitmask, mask_rows
from guiderail.matching.guide import Guide
from guiderail.matching.matcher import Matcher, fill_next_token_bitmasks
from guiderail.vocabulary import Vocabulary

__all__ = ["Batch", "FinishReason", "Generation", "IncompleteError", "Observer"]

FinishReason = Literal["complete", "stop", "length"]


class _Readable:
    """Room beside the fields of a generation, so that ``dataclasses.asdict`` of one is plain data."""

    __slots__ = ("_reading", "_value")
    _reading: Reading
    _value: Any


@dataclass(frozen=True, slots=True)
class Generation(_Readable):
    """What came of one prompt.

    Attributes:
        text: the text, without the stop token.
        tokens: its token ids; the stop token, if the model chose one, is the last.
        finish_reason: ``"complete"``, nothing could follow; ``"stop"``, the model chose a stop token where the text
            may end; ``"length"``, ``max_tokens`` or the context ran out.
        matched: whether the text is allowed by the constraint as it stands. Only ``"length"`` can leave it False.
        prompt_tokens: tokens of the prompt.
        forced_tokens: how many tokens were written without asking the model.
        seconds: wall time, from the first forced token or forward pass; of all rows of the batch.
        constraint_seconds: the part of it spent on forced tokens and on masks, sampling excluded, of all rows of the
            batch. A mask that is filled while the model computes counts only for as long as it is waited for.
    """

    text: str
    tokens: tuple[int, ...]
    finish_reason: FinishReason
    matched: bool
    prompt_tokens: int
    forced_tokens: int
    seconds: float
    constraint_seconds: float

    @property
    def value(self) -> Any:
        """What the text says: parsed JSON for a JSON Schema, a value of the type for a Python type, the calls for tools
        (a ``ToolText``), the values of a document for an XML Schema, else the text.

        If the text is not complete (``matched`` is False), as much of the value as it holds, like the last snapshot
        of a stream. The text is read when this is first asked for.

        Raises:
            ReadError: code of the user's own (a validator, ``__post_init__``) refuses the value.
        """
        if not hasattr(self, "_value"):
            reading = getattr(self, "_reading", TEXT)
            if self.matched:
                value = reading.read(self.text)
            else:
                partial = reading.partial(growing_strings=True)
                partial.feed(self.text)
                value = partial.snapshot()
            object.__setattr__(self, "_value", value)
        return self._value

    def __reduce__(self) -> tuple[Any, ...]:
        # without the value, which may be of any kind: a copy reads the text again
        return read_by, (getattr(self, "_reading", TEXT), *(getattr(self, f.name) for f in fields(self)))


def read_by(reading: Reading, *values: Any) -> Generation:
    """A generation of these fields that is read so."""
    made = Generation(*values)
    object.__setattr__(made, "_reading", reading)
    return made


class Observer(Protocol):
    """Somebody who watches a generation; see :mod:`guiderail.inspect`."""

    def on_step(self, row: int, matcher: Matcher, token: int, logits: NDArray[np.float32] | None) -> None:
        """A token is about to be taken.

        Args:
            row: of the batch.
            matcher: before it reads the token; to be looked at only.
            token: that will be read next.
            logits: of the model, before the mask, shape ``(logits_size,)``; None where the model was not asked
                because the token was forced.
        """


class IncompleteError(ModelError):
    """``max_tokens`` (or the context) ran out before a text was complete.

    Attributes:
        generations: all rows, finished or not; empty after unpickling.
    """

    code = "incomplete"
    generations: tuple[Generation, ...] = ()


@dataclass(slots=True)
class _Row:
    matcher: Matcher
    sampler: Sampler
    pending: list[int]  # tokens the model has not seen: at first the prompt
    limit: int  # tokens it may write
    prompt_tokens: int
    tokens: list[int] = field(default_factory=list)
    forced: int = 0
    text: list[str] = field(default_factory=list)
    decoder: Any = field(default_factory=lambda: codecs.getincrementaldecoder("utf-8")("replace"))
    finish: FinishReason | None = None
    matched: bool = False
    began: bool = False  # the model has read the prompt
    finishing: bool = False  # only what leaves enough tokens to finish may be written
    has_symbols: bool = field(init=False)  # the constraint names special tokens

    def __post_init__(self) -> None:
        self.has_symbols = bool(self.matcher.program.symbols())

    @property
    def left(self) -> int:
        """Tokens that it may still write."""
        return self.limit - len(self.tokens)

    def check_budget(self, which: str) -> None:
        """Raises a LimitError if the text cannot be finished within the limit."""
        needed = self.matcher.least_tokens(thorough=False)
        if needed is None or needed > self.limit:
            needed = self.matcher.least_tokens()
        way = 'bound the constraint, or pass on_incomplete="error" or "return" to try without a promise'
        if needed is None:
            raise LimitError(
                f"no way to complete the text{which} was found, so guiderail cannot promise that it will be complete "
                f"within {self.limit} tokens; {way}",
                code="budget-unknown",
            )
        if needed > self.limit:
            raise LimitError(
                f"the text{which} needs {needed} tokens, but it may have no more than {self.limit}; raise max_tokens "
                f"(and shorten the prompt, if the model's context is full), {way}",
                code="budget-too-small",
            )

    def fits(self, token: int) -> bool:
        """Whether the text can be finished in time after a token that the mask allows."""
        if not self.finishing:
            return True
        if not self.matcher.accept_within(token, self.left):
            return False
        self.matcher.rollback(1)
        return True

    def draw(self, logits: NDArray[np.float32], vocab_size: int) -> int:
        """The next token, drawn from what leaves enough tokens to finish.

        To draw from what the mask allows and, where that leaves too little, again from what leaves enough, is to draw
        from what leaves enough: the mask of that is needed only where it bites. Where tokens are cut off by top-k or
        top-p this does not hold, and that mask is made first.

        Args:
            logits: masked, shape ``(logits_size,)``; changed.
        """
        if not (self.finishing and self.sampler.sampling.cuts):
            token = self.sampler(logits)
            if self.fits(token):
                return token
        bitmask = allocate_token_bitmask(1, self.matcher.guide.vocabulary.size)
        self.matcher.fill_next_token_bitmask(bitmask, 0, self.left)
        mask_rows(logits[None], bitmask, [0], vocab_size)
        return self.sampler(logits)

    def take(self, token: int, vocabulary: Vocabulary) -> str:
        """Appends a token that the mask allows; returns the text that it completes."""
        if not self.matcher.accept_token(token):
            raise ModelError(f"the token {token} was drawn although its mask forbids it", code="bad-logits")
        self.tokens.append(token)
        if self.matcher.is_terminated():
            self.finish, self.matched = "stop", True
            return ""
        self.pending.append(token)
        piece = str(self.decoder.decode(vocabulary.token_bytes(token)))
        self.text.append(piece)
        self.check_end()
        return piece

    def check_end(self) -> None:
        if self.matcher.is_complete():
            self.finish, self.matched = "complete", True
        elif len(self.tokens) >= self.limit:
            self.finish, self.matched = "length", self.matcher.is_accepting()


class Batch:
    """Some prompts on one session of the model."""

    def __init__(
        self,
        model: Model,
        prompts: Sequence[Sequence[int]],
        guides: Sequence[Guide],
        readings: Sequence[Reading],
        *,
        max_tokens: int,
        sampling: Sampling,
        first_row: int,
        jump_forward: bool,
        finish: bool = False,
        observer: Observer | None = None,
    ) -> None:
        """See :func:`guiderail.generate`.

        Args:
            finish: every text is complete within ``max_tokens``; a LimitError is raised here if one cannot be.
        """
        self.model, self.jump_forward, self.observer = model, jump_forward, observer
        self.readings = readings
        self.vocabulary = model.vocabulary
        room = model.context_length
        self.rows: list[_Row] = []
        for i, (prompt, guide) in enumerate(zip(prompts, guides, strict=True)):
            if len(prompt) >= room:
                raise ModelError(
                    f"the prompt has {len(prompt)} tokens and leaves no room in the {room} tokens of "
                    f"context of "
                    f"{model.name}; shorten it",
                    code="context-full",
                )
            limit = min(max_tokens, room - len(prompt))
            if not prompt:
                raise ModelError(
                    "the prompt is empty and the model adds nothing to it; write something", code="bad-prompt"
                )
            row = _Row(guide.matcher(), Sampler(sampling, first_row + i), list(prompt), limit, len(prompt))
            row.check_end()  # a constraint may allow nothing but the empty text
            row.finishing = finish
            if finish:
                row.check_budget(f" of prompt {first_row + i}" if len(prompts) > 1 or first_row else "")
            self.rows.append(row)
        length = max((row.prompt_tokens + row.limit for row in self.rows), default=1)
        self.session = model.new_session(len(self.rows), length)
        self.bitmask: NDArray[np.int32] = allocate_token_bitmask(len(self.rows), self.vocabulary.size)
        self.masks = Masks(self.bitmask)
        self.pass_tokens: int | None = getattr(model, "pass_tokens", None)
        self.behind: set[int] = set()  # rows of which the model has not read all that was written
        self.unfilled: set[int] = set()  # rows that wait for the model and have no mask yet
        self.seconds = self.constraint_seconds = 0.0

    def steps(self) -> Iterator[tuple[int, str]]:
        """Runs to the end of all rows; yields (row, piece of text) as they come."""
        try:
            while active := [i for i, row in enumerate(self.rows) if row.finish is None]:
                yield from self._step(active)
        finally:
            self.session.close()

    def _step(self, active: list[int]) -> Iterator[tuple[int, str]]:
        started = time.perf_counter()
        pieces, unfilled = self._forced([i for i in active if i not in self.behind])
        self.unfilled.update(unfilled)
        spent = time.perf_counter() - started
        self.seconds += spent
        self.constraint_seconds += spent
        yield from pieces
        rows = self.rows
        portions = self._portions([i for i in active if rows[i].finish is None])
        if not portions:
            return
        started = time.perf_counter()
        self.behind = {i for i, portion in portions.items() if len(portion) < len(rows[i].pending)}
        asked = [i for i in portions if i not in self.behind]
        unfilled = [i for i in asked if i in self.unfilled]
        self.unfilled.difference_update(unfilled)
        self.masks.begin([rows[i].matcher for i in unfilled], unfilled)
        try:
            logits = feed_rows(self.session, [portions.get(i, []) for i in range(len(rows))], asked)
            for i, portion in portions.items():
                rows[i].pending = rows[i].pending[len(portion) :]
                rows[i].began = True
        finally:  # an error of a mask comes first, as it would if the mask had been filled before
            self.constraint_seconds += self.masks.finish()
        mark = time.perf_counter()
        width = min(self.vocabulary.size, logits.shape[1])
        seen = None if self.observer is None else logits.copy()  # what the mask leaves says nothing about the model
        mask_rows(logits, self.bitmask, asked, width)
        self.constraint_seconds += time.perf_counter() - mark
        pieces = []
        for i in asked:
            token = rows[i].draw(logits[i], width)
            if self.observer is not None and seen is not None:
                self.observer.on_step(i, rows[i].matcher, token, seen[i])
            pieces.append((i, rows[i].take(token, self.vocabulary)))
        self.seconds += time.perf_counter() - started
        yield from pieces

    def _portions(self, waiting: list[int]) -> dict[int, list[int]]:
        """What the rows are fed: a prompt at once; of what was forced a token, and more where a pass has room for all.

        Where a model computes as long for two tokens as twice for one, forced text gains nothing by being read at once,
        and a pass of a few tokens more may take longer than its share: where rows are padded to the longest, much
        longer. See ``pass_tokens`` of :class:`Model`.
        """
        most = None if self.pass_tokens is None else max(1, self.pass_tokens // max(1, len(waiting)))
        return {i: self.rows[i].pending[: most if self.rows[i].began else None] for i in waiting}

    def _forced(self, active: list[int]) -> tuple[list[tuple[int, str]], list[int]]:
        """Writes what must come next.

        Returns:
            The pieces of text, and the rows that wait for the model and have no mask yet.
        """
        pieces = []
        if self.jump_forward:
            for i in active:
                for token in self.rows[i].matcher.forced_tokens():
                    if not self.rows[i].fits(token):
                        break  # there are shorter spellings
                    pieces.append((i, self._force(i, token)))
                    if self.rows[i].finish is not None:
                        break
        unfilled: list[int] = []
        waiting = [i for i in active if self.rows[i].finish is None]
        while waiting:
            narrow: list[int] = []
            for i in waiting:
                (narrow if may_be_forced(self.rows[i].matcher, self.rows[i].has_symbols) else unfilled).append(i)
            if not narrow:
                break
            fill_next_token_bitmasks([self.rows[i].matcher for i in narrow], self.bitmask, narrow, threads=1)
            single = []
            for i in narrow:
                words = self.bitmask[i]
                (filled,) = np.nonzero(words)
                if len(filled) != 1:
                    continue
                word = int(words[filled[0]]) & 0xFFFFFFFF
                if word & (word - 1) == 0:
                    token = 32 * int(filled[0]) + word.bit_length() - 1
                    pieces.append((i, self._force(i, token)))
                    single.append(i)
            waiting = [i for i in single if self.rows[i].finish is None]
        return pieces, unfilled

    def _force(self, i: int, token: int) -> str:
        self.rows[i].forced += 1
        if self.observer is not None:
            self.observer.on_step(i, self.rows[i].matcher, token, None)
        return self.rows[i].take(token, self.vocabulary)

    def generation(self, i: int) -> Generation:
        row = self.rows[i]
        return read_by(
            self.readings[i],
            "".join(row.text),
            tuple(row.tokens),
            row.finish or "length",
            row.matched,
            row.prompt_tokens,
            row.forced,
            self.seconds,
            self.constraint_seconds,
        )
