"""The loop that decodes: some prompts in lockstep on one session of a model, each under its guide.

A step of a row is: tokens that are forced (no model needed), one forward pass over what the model has not seen yet,
the mask on its logits, one token drawn. Masks that take long are filled by native threads while the model computes
(Dong et al. 2024, "XGrammar", §3.5). A row ends by itself the moment nothing but a stop token could follow: the model
is not asked to say so.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from guiderail.constraints.reading import TEXT, Reading
from guiderail.errors import ModelError
from guiderail.generation.models import Model
from guiderail.generation.models.base import feed_rows
from guiderail.generation.overlap import Masks
from guiderail.generation.row import Row
from guiderail.generation.sampling import Sampler, Sampling
from guiderail.matching.bitmask import allocate_token_bitmask, mask_rows
from guiderail.matching.guide import Guide
from guiderail.matching.matcher import Matcher

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
    def captures(self) -> dict[str, list[str]]:
        """What of the text the captured rules of a grammar are, by name; see `GrammarConstraint.captures`. Empty for
        other constraints."""
        find = getattr(self._reading, "captures", None)
        return {} if find is None else dict(find(self.text))

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


class _Row(Row):
    """A row of a batch."""

    def __init__(self, observe: Callable[[Row, int], None] | None, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.text: list[str] = []
        self.began = False  # the model has read the prompt
        self._observe = observe

    def on_forced(self, token: int) -> None:
        if self._observe is not None:
            self._observe(self, token)

    def on_text(self, text: str, token: int | None) -> None:
        self.text.append(text)

    @property
    def finish(self) -> FinishReason | None:
        assert self.end != "stop-text"
        return self.end


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
        self.bitmask: NDArray[np.int32] = allocate_token_bitmask(len(prompts), self.vocabulary.size)
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
            row = _Row(
                None if observer is None else partial(self._observe_forced, i),
                guide,
                Sampler(sampling, first_row + i),
                prompt,
                limit,
                spell=self.vocabulary.token_bytes,
                jump_forward=jump_forward,
            )
            row.mask = self.bitmask[i : i + 1]
            row.begin(
                "finish" if finish else "return",
                way_out='pass on_incomplete="error" or "return" to try without a promise',
                which=f" of prompt {first_row + i}" if len(prompts) > 1 or first_row else "",
            )
            self.rows.append(row)
        length = max((row.prompt_tokens + row.limit for row in self.rows), default=1)
        self.session = model.new_session(len(self.rows), length)
        self.masks = Masks(self.bitmask)
        self.pass_tokens: int | None = getattr(model, "pass_tokens", None)
        self.behind: set[int] = set()  # rows of which the model has not read all that was written
        self.seconds = self.constraint_seconds = 0.0

    def steps(self) -> Iterator[tuple[int, str]]:
        """Runs to the end of all rows; yields (row, piece of text) as they come."""
        try:
            while active := [i for i, row in enumerate(self.rows) if not row.done]:
                yield from self._step(active)
        finally:
            self.session.close()

    def _step(self, active: list[int]) -> Iterator[tuple[int, str]]:
        started = time.perf_counter()
        pieces = []
        for i in active:
            if i not in self.behind:
                said = len(self.rows[i].text)
                self.rows[i].write_forced(fill=False)
                pieces += [(i, piece) for piece in self.rows[i].text[said:]]
        spent = time.perf_counter() - started
        self.seconds += spent
        self.constraint_seconds += spent
        yield from pieces
        rows = self.rows
        portions = self._portions([i for i in active if not rows[i].done])
        if not portions:
            return
        started = time.perf_counter()
        self.behind = {i for i, portion in portions.items() if len(portion) < len(rows[i].pending)}
        asked = [i for i in portions if i not in self.behind]
        unfilled = [i for i in asked if not rows[i].filled]
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
            said = len(rows[i].text)
            rows[i].take(token)
            pieces += [(i, piece) for piece in rows[i].text[said:]]
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

    def _observe_forced(self, i: int, row: Row, token: int) -> None:
        assert self.observer is not None
        self.observer.on_step(i, row.matcher, token, None)

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
