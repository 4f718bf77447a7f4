"""A running generation: its constraint, what was written, and what of that may be shown."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from guiderail.errors import LimitError
from guiderail.generation.logprobs import Likelihoods, TokenLogprob
from guiderail.generation.penalties import Penalties
from guiderail.generation.row import End, Row as TextRow
from guiderail.generation.sampling import Sampler, Sampling
from guiderail.generation.weights import LogWeight
from guiderail.matching.bitmask import mask_rows
from guiderail.matching.guide import Guide
from guiderail.vocabulary import Vocabulary

if TYPE_CHECKING:
    from guiderail.server.inspection import Watch
    from guiderail.server.workers import Work

__all__ = [
    "WAY_OUT",
    "Delta",
    "Event",
    "Failed",
    "Finished",
    "Job",
    "OnIncomplete",
    "Row",
    "finite",
    "token_bytes",
    "token_text",
]

Finish = Literal["stop", "length"]
OnIncomplete = Literal["finish", "return"]

WAY_OUT = "leave guiderail.on_incomplete out"
"""For messages: how a request waives the promise that its texts are complete."""


@dataclass(frozen=True, slots=True)
class Delta:
    """More of text ``index``. ``text`` may be empty while only tokens are known. ``count``: its tokens so far."""

    index: int
    text: str
    tokens: tuple[TokenLogprob, ...] = ()
    count: int = 0


@dataclass(frozen=True, slots=True)
class Finished:
    """Text ``index`` has ended.

    Attributes:
        reason: ``"length"``: the tokens ran out, and it was cut or shortened (``matched``). ``"stop"``: it
            ended by itself, or at a stop string.
        matched: whether the constraint allows the text so far.
        more: further results that the request asked for, as JSON: its ``log_weight``, how it was drawn.
    """

    index: int
    reason: Finish
    matched: bool
    tokens: int
    forced: int
    stop_string: str | None = None
    more: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """Text ``index`` could not be written; ``error`` says why."""

    index: int
    error: Exception


Event = Delta | Finished | Failed


@dataclass(slots=True)
class Job:
    """What one request asks of the engine: ``count`` texts after one prompt.

    Attributes:
        on_incomplete: None: texts are complete within ``limit`` tokens if possible; ``"finish"``: they are complete, or
            fail at once; ``"return"``: they may be incomplete.
        deadline: the latest end, as ``time.monotonic`` gives it.
        logprobs: how many of the most likely tokens to report with each token, from the model's own distribution before
            the constraint; None: no log-probabilities.
        log_weight: report the importance weight, see ``Generation.log_weight``; the model is then asked at each token.
        push: receives the events, from any thread.
        watch: makes an observer of the text with this index.
        cancelled: set by the receiver; the texts are abandoned before their next step.
    """

    prompt: list[int]
    guide: Guide
    push: Callable[[Event], None]
    limit: int
    sampling: Sampling = field(default_factory=Sampling)
    count: int = 1
    first_index: int = 0
    stops: tuple[str, ...] = ()
    logprobs: int | None = None
    log_weight: bool = False
    bias: Mapping[int, float] = field(default_factory=dict)
    penalties: Penalties = field(default_factory=Penalties)
    watch: Callable[[int], Watch] | None = None
    on_incomplete: OnIncomplete | None = None
    deadline: float = float("inf")
    cancelled: bool = False


class Row(TextRow):
    """One text of a job, in a row of a session."""

    def __init__(self, job: Job, number: int) -> None:
        self.job, self.index = job, job.first_index + number
        self.arrived = time.monotonic()
        self.vocabulary: Vocabulary = job.guide.vocabulary
        super().__init__(
            job.guide,
            Sampler(job.sampling, number),
            job.prompt,
            job.limit,
            spell=partial(token_bytes, self.vocabulary),
            stops=job.stops,
            penalties=job.penalties,
            ask_always=job.logprobs is not None or job.log_weight,  # every token's probability is needed
        )
        self.work: Work | None = None  # the work in progress for this row
        self.slow = False  # the last work took long
        self.held: NDArray[np.float32] | None = None  # logits waiting for the mask
        self._info: TokenLogprob | None = None  # of the token being taken
        self._weight = LogWeight(job.sampling, job.penalties, job.prompt) if job.log_weight else None
        self._ending = False  # only a stop token can follow, and its weight must be reported
        self._watch = None if job.watch is None else job.watch(self.index)

    @property
    def need(self) -> int:
        """The number of cache tokens that it may need."""
        return len(self.job.prompt) + self.job.limit

    def start(self) -> None:
        """Begins the text; if the job promises complete texts, one that cannot be completed fails."""
        try:
            self.begin(self.job.on_incomplete or "try", way_out=WAY_OUT)
        except LimitError as error:
            self.fail(error)

    def write_forced(self, *, fill: bool = True) -> None:
        if not self._ending:
            super().write_forced(fill=fill)

    def advance(self, logits: NDArray[np.float32]) -> None:
        """Takes the logits after all that is written: samples the next token, or computes the weight of the end.

        Args:
            logits: shape ``(logits_size,)``; changed.
        """
        if self._ending:
            self._weigh_end(logits)
            return
        token, info = self.sample(logits)
        self.write(token, info)
        if not self.done:
            self.write_forced(fill=False)

    def _finish(self, end: End, *, matched: bool) -> None:
        weight = self._weight
        if self.done or end != "complete" or weight is None or weight.closed:
            super()._finish(end, matched=matched)
            return
        self._ending = self.ready = self.filled = True  # one more query of the model, without a mask

    def _weigh_end(self, logits: NDArray[np.float32]) -> None:
        assert self._weight is not None
        self._add_bias(logits)
        self._weight.ended(logits[: min(self.vocabulary.size, len(logits))], self.matcher.stop_token_ids())
        self._finish("complete", matched=True)

    def _add_bias(self, logits: NDArray[np.float32]) -> None:
        bias = self.job.bias
        if bias:
            logits[list(bias)] += np.fromiter(bias.values(), np.float32)

    def write(self, token: int, info: TokenLogprob | None) -> None:
        """Takes a sampled token; ``info`` is reported with it."""
        self._info = info
        self.take(token)

    def on_forced(self, token: int) -> None:
        self._info = None
        if self._watch is not None:
            self._watch.forced(token)

    def on_text(self, text: str, token: int | None) -> None:
        info = None if token is None else self._info
        if text or info is not None:
            self.job.push(Delta(self.index, text, () if info is None else (info,), len(self.tokens)))

    def on_end(self) -> None:
        if self._watch is not None:  # before the end is reported, so that the record exists by then
            end = "shortened" if self.shortened else self.end or "complete"
            self._watch.end(self.job.guide, self.job.prompt, end, self.matched)
        reason: Finish = "length" if self.shortened or self.end == "length" else "stop"
        more = None if self._weight is None else {"log_weight": finite(self._weight.value)}
        self.job.push(Finished(self.index, reason, self.matched, len(self.tokens), self.forced, self.stop_string, more))

    def fail(self, error: Exception) -> None:
        if not self.done:
            self.done = True
            self.job.push(Failed(self.index, error))

    def sample(self, logits: NDArray[np.float32]) -> tuple[int, TokenLogprob | None]:
        """Samples the next token.

        If the token would leave too few to finish, another one is sampled from those that leave enough.

        Args:
            logits: shape ``(logits_size,)``; changed.
        """
        job = self.job
        width = min(self.vocabulary.size, len(logits))  # beyond are columns of no token
        thought = Likelihoods(logits[:width], job.logprobs) if job.logprobs is not None else None
        seen = None if self._watch is None else logits[:width].copy()
        self._add_bias(logits)
        self.penalize(logits)
        weight = self._weight
        whole = 0.0 if weight is None else weight.whole(logits[:width])
        started = time.perf_counter()
        mask_rows(logits[None], self.mask, [0], width)
        self.mask_seconds += time.perf_counter() - started
        token = self.draw(logits, width)
        if weight is not None:
            weight.drawn(token, whole, logits[:width], refused=self.refused)
        if self._watch is not None and seen is not None:
            self._watch.chosen(token, self.mask, seen, self.vocabulary.size)
        return token, None if thought is None else thought.of(token)


def finite(value: float | None) -> float | None:
    """JSON has no infinity; OpenAI uses -9999 for tokens beyond the reported ones."""
    return value if value is None or math.isfinite(value) else -9999.0


@lru_cache(maxsize=8)
def _special_names(vocabulary: Vocabulary) -> dict[int, bytes]:
    return {token: text.encode() for text, token in vocabulary.special_tokens.items()}


def token_bytes(vocabulary: Vocabulary, token: int) -> bytes:
    """The bytes of a token; for a special token, those of its name."""
    name = _special_names(vocabulary).get(token)
    return vocabulary.token_bytes(token) if name is None else name


def token_text(vocabulary: Vocabulary, token: int) -> dict[str, Any]:
    """A token in OpenAI's logprobs: its text, with ``\\xf0`` for bytes of an incomplete character, and its bytes."""
    data = token_bytes(vocabulary, token)
    return {"token": data.decode("utf-8", "backslashreplace"), "bytes": list(data)}
