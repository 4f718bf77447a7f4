"""The decoding loop: several prompts in lockstep on one session of a model, each under its guide.

A step of a row consists of forced tokens (which need no model), one forward pass over what the model has not read yet,
the mask on its logits, and sampling one token. Native threads fill slow masks while the model computes (Dong et al.
2024, "XGrammar", §3.5). A row ends by itself as soon as only a stop token could follow, without asking the model.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from guiderail.constraints.reading import Reading
from guiderail.errors import ModelError
from guiderail.generation.logprobs import Likelihoods, TokenLogprob
from guiderail.generation.models import Logits, Model
from guiderail.generation.models.base import feed_each, feed_rows, room_after
from guiderail.generation.options import Options
from guiderail.generation.overlap import Masks
from guiderail.generation.result import FinishReason, Generation, read_by, which
from guiderail.generation.row import Row
from guiderail.generation.sampling import Sampler
from guiderail.generation.weights import LogWeight
from guiderail.matching.bitmask import allocate_token_bitmask, mask_rows
from guiderail.matching.guide import Guide
from guiderail.matching.matcher import Matcher

__all__ = ["Batch", "Observer"]


class Observer(Protocol):
    """Watches a generation; see :mod:`guiderail.inspect`."""

    def on_step(self, row: int, matcher: Matcher, token: int, logits: NDArray[np.float32] | None) -> None:
        """Called before a token is taken.

        Args:
            row: the row of the batch.
            matcher: the matcher before it reads the token; do not change it.
            token: the token that will be read next.
            logits: the model's logits before the mask, shape ``(logits_size,)``; None if the token was forced, so that
                the model was not asked.
        """


class _Row(Row):
    """A row of a batch."""

    def __init__(
        self, observe: Callable[[Row, int], None] | None, weight: LogWeight | None, *args: Any, **options: Any
    ) -> None:
        super().__init__(*args, **options)
        self.weight = weight
        self.text: list[str] = []
        self.token_logprobs: list[TokenLogprob] = []  # of each token, if requested
        self.began = False  # whether the model has read the prompt
        self._observe = observe

    def on_forced(self, token: int) -> None:
        self.token_logprobs.append(TokenLogprob(token, 0.0))
        if self._observe is not None:
            self._observe(self, token)

    def on_text(self, text: str, token: int | None) -> None:
        self.text.append(text)

    @property
    def over(self) -> bool:
        """Whether the model is no longer needed: the text has ended, and the weight of its end is known."""
        return self.done and (self.weight is None or not self.owes)

    @property
    def owes(self) -> int:
        """Positions whose logits the weight still needs: before each forced token, and after the last."""
        weight = self.weight
        if weight is None or weight.value is None or weight.closed:
            return 0
        return len(self.tokens) - weight.counted + (self.end == "complete" or not self.done)

    @property
    def unread(self) -> list[int]:
        """What the model must read: pending tokens; after the end of a text, only what its weight needs."""
        return self.pending[:-1] if self.done and self.end != "complete" else self.pending

    def lose_weight(self) -> None:
        """Called if the logits before some tokens are unknown."""
        assert self.weight is not None
        self.weight.value = None

    def weigh_forced(self, logits: Logits) -> None:
        """Counts forced tokens, or the end.

        Args:
            logits: shape ``(positions, logits_size)``, in order; of a text that has not ended, the last is left for
                the token that will be drawn.
        """
        weight = self.weight
        if weight is None or weight.value is None:
            return
        width = self.guide.vocabulary.size
        for one in logits:
            if weight.counted < len(self.tokens):
                weight.forced(self.tokens[weight.counted], one[:width])
            elif self.done:
                weight.ended(one[:width], self.matcher.stop_token_ids())

    @property
    def log_weight(self) -> float | None:
        """The log-weight of what was written so far, or None if unknown."""
        weight = self.weight
        return weight.value if weight is not None and (self.over or weight.counted == len(self.tokens)) else None

    @property
    def finish(self) -> FinishReason | None:
        if self.shortened:
            return "shortened"
        return "stop" if self.end == "stop-string" else self.end


class Batch:
    """Some prompts on one session of the model."""

    def __init__(
        self,
        model: Model,
        prompts: Sequence[Sequence[int]],
        guides: Sequence[Guide],
        readings: Sequence[Reading],
        *,
        options: Options,
        first_row: int = 0,
        observer: Observer | None = None,
        prefixes: Sequence[bytes] = (),
    ) -> None:
        """See :func:`guiderail.generate`.

        Args:
            prefixes: for each guide, the text that it requires first and that is not part of the result: the end of a
                healed prompt.
            first_row: the number of the first prompt, among all that were given.

        Raises:
            LimitError: a complete text was promised, and ``max_tokens`` is too low for any.
        """
        if options.distribution != "masked":
            raise ModelError(
                f'distribution="{options.distribution}" is an option of generate, generations and their asynchronous '
                "forms; this function samples under masks",
                code="bad-option",
            )
        self.model, self.observer, self.logprobs = model, observer, options.logprobs
        self.readings = readings
        self.vocabulary = model.vocabulary
        self.bitmask: NDArray[np.int32] = allocate_token_bitmask(len(prompts), self.vocabulary.size)
        self.rows: list[_Row] = []
        for i, (prompt, guide) in enumerate(zip(prompts, guides, strict=True)):
            limit = min(options.max_tokens, room_after(model, prompt))
            row = _Row(
                None if observer is None else partial(self._observe_forced, i),
                LogWeight(options.sampling, options.penalties, prompt) if options.log_weight else None,
                guide,
                Sampler(options.sampling, first_row + i),
                prompt,
                limit,
                spell=self.vocabulary.token_bytes,
                stops=options.stops,
                penalties=options.penalties,
                jump_forward=options.jump_forward,
                prefix=prefixes[i] if prefixes else b"",
            )
            row.mask = self.bitmask[i : i + 1]
            row.begin(
                "finish" if options.on_incomplete == "finish" else "return",
                way_out='pass on_incomplete="error" or "return" to try without a promise',
                which=which(first_row + i, options.n or 1) if len(prompts) > 1 or first_row else "",
            )
            self.rows.append(row)
        length = max((row.prompt_tokens + row.limit for row in self.rows), default=1)
        self.session = model.new_session(len(self.rows), length)
        self.one_by_one = options.log_weight and not (options.jump_forward or hasattr(self.session, "feed_each"))
        self.masks = Masks(self.bitmask)
        self.pass_tokens: int | None = getattr(model, "pass_tokens", None)
        self.behind: set[int] = set()  # rows whose last tokens the model has not read yet
        self.seconds = self.constraint_seconds = 0.0

    def steps(self) -> Generator[tuple[int, str], None, None]:
        """Runs to the end of all rows; yields (row, piece of text) as they come."""
        try:
            while active := [i for i, row in enumerate(self.rows) if not row.over]:
                yield from self._step(active)
        finally:
            self.session.close()

    def _step(self, active: list[int]) -> Iterator[tuple[int, str]]:
        started = time.perf_counter()
        pieces = []
        for i in active:
            if i not in self.behind and not self.rows[i].done:
                before = len(self.rows[i].text)
                self.rows[i].write_forced(fill=False)
                pieces += [(i, piece) for piece in self.rows[i].text[before:]]
        spent = time.perf_counter() - started
        self.seconds += spent
        self.constraint_seconds += spent
        yield from pieces
        rows = self.rows
        portions = self._portions([i for i in active if not rows[i].over])
        if not portions:
            return
        started = time.perf_counter()
        self.behind = {i for i, portion in portions.items() if len(portion) < len(rows[i].unread)}
        asked = [i for i in portions if i not in self.behind and not rows[i].done]
        unfilled = [i for i in asked if not rows[i].filled]
        if asked:
            self.masks.begin([rows[i].matcher for i in unfilled], unfilled)
        try:
            logits = self._feed(portions, asked)
        finally:  # an error of a mask comes first, as it would if the mask had been filled before
            if asked:
                self.constraint_seconds += self.masks.finish()
        pieces = self._draw(logits, asked) if asked else []
        self.seconds += time.perf_counter() - started
        yield from pieces

    def _feed(self, portions: dict[int, list[int]], asked: list[int]) -> Logits:
        """Has the model read; returns the logits of the rows that need them, and counts those of forced tokens.

        Returns:
            float32, shape ``(batch, logits_size)``; the values of other rows are meaningless.
        """
        rows = self.rows
        counts = [0] * len(rows)
        for i, portion in portions.items():
            row = rows[i]
            owed = row.owes - (len(row.unread) - len(portion))
            counts[i] = max(owed, i in asked)
        fed = [portions.get(i, []) for i in range(len(rows))]
        each = feed_each(self.session, fed, counts) if max(counts) > 1 else None
        if each is None:
            logits = feed_rows(self.session, fed, [i for i, count in enumerate(counts) if count])
        else:
            logits = np.zeros((len(rows), self.model.logits_size), np.float32)
            for i in asked:
                logits[i] = each[i][-1]
        for i, portion in portions.items():
            row = rows[i]
            row.pending, row.began = row.pending[len(portion) :], True
            if each is None and counts[i] > 1:
                row.lose_weight()
            row.weigh_forced(logits[i : i + counts[i]] if each is None else each[i])
        return logits

    def _draw(self, logits: Logits, asked: list[int]) -> list[tuple[int, str]]:
        """Draws a token for each of some rows; returns the pieces of text."""
        mark = time.perf_counter()
        rows = self.rows
        width = min(self.vocabulary.size, logits.shape[1])
        seen = None if self.observer is None else logits.copy()  # before masking: the model's own
        for i in asked:
            rows[i].penalize(logits[i])
        whole = {i: weight.whole(logits[i, :width]) for i in asked if (weight := rows[i].weight) is not None}
        mask_rows(logits, self.bitmask, asked, width)
        self.constraint_seconds += time.perf_counter() - mark
        pieces = []
        for i in asked:
            thought = None if self.logprobs is None else Likelihoods(logits[i, :width], self.logprobs)
            token = rows[i].draw(logits[i], width)
            if (weight := rows[i].weight) is not None:
                weight.drawn(token, whole[i], logits[i, :width], refused=rows[i].refused)
            if thought is not None:
                rows[i].token_logprobs.append(thought.of(token))
            if self.observer is not None and seen is not None:
                self.observer.on_step(i, rows[i].matcher, token, seen[i])
            before = len(rows[i].text)
            rows[i].take(token)
            pieces += [(i, piece) for piece in rows[i].text[before:]]
        return pieces

    def _portions(self, waiting: list[int]) -> dict[int, list[int]]:
        """What to feed each row: a prompt at once; forced tokens one by one, or more if a pass has room for all.

        If a model takes as long for two tokens as for one twice, reading forced text at once gains nothing. A longer
        pass may even take more than its share: much more if rows are padded to the longest. See ``pass_tokens`` of
        :class:`Model`. If each token is to be weighed, and a session reports only the last logits, tokens are fed one
        by one.
        """
        most = None if self.pass_tokens is None else max(1, self.pass_tokens // max(1, len(waiting)))
        found = {i: self.rows[i].unread[: most if self.rows[i].began else None] for i in waiting}
        if self.one_by_one:
            for i, portion in found.items():
                row = self.rows[i]
                found[i] = portion[: len(row.unread) - max(row.owes, 1) + 1]
        return found

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
            row.shortened_at if row.shortened else None,
            row.stop_string,
            None if self.logprobs is None else tuple(row.token_logprobs),
            row.log_weight,
        )
