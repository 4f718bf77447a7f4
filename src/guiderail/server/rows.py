"""One text on its way: what it may be, what was written, and what of that may be shown."""

from __future__ import annotations

import codecs
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from guiderail.errors import LimitError, ModelError
from guiderail.generation.overlap import may_be_forced
from guiderail.generation.sampling import Sampler, Sampling
from guiderail.matching.bitmask import allocate_token_bitmask, mask_rows
from guiderail.matching.guide import Guide
from guiderail.matching.matcher import Matcher, fill_next_token_bitmasks
from guiderail.vocabulary import Vocabulary

if TYPE_CHECKING:
    from guiderail.server.crew import Work
    from guiderail.server.inspection import Watch

__all__ = [
    "Delta",
    "Event",
    "Failed",
    "Finished",
    "Job",
    "OnIncomplete",
    "Row",
    "StopText",
    "TokenInfo",
    "fill_mask",
    "least_tokens",
    "prepare",
    "token_text",
    "within_budget",
]

Finish = Literal["stop", "length"]
OnIncomplete = Literal["finish", "return"]

_NO_MASK: NDArray[np.int32] = np.zeros((1, 0), np.int32)  # of a text that waits in the queue


@dataclass(frozen=True, slots=True)
class TokenInfo:
    """What the model thought of a token: natural logarithms of its own distribution, before the constraint.

    Attributes:
        token: its id.
        logprob: of this token; ``-inf`` never.
        top: the likeliest tokens with theirs, best first. The constraint may forbid any of them.
    """

    token: int
    logprob: float
    top: tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class Delta:
    """More of text ``index``; ``text`` may be empty where only tokens are known yet."""

    index: int
    text: str
    tokens: tuple[TokenInfo, ...] = ()


@dataclass(frozen=True, slots=True)
class Finished:
    """Text ``index`` has ended.

    Attributes:
        reason: ``"length"``: it was cut where it might have gone on. ``"stop"``: it ended by itself, or was brought to
            an end because the tokens ran out.
        matched: whether the constraint allows it as it stands.
    """

    index: int
    reason: Finish
    matched: bool
    tokens: int
    forced: int
    stop_text: str | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """Text ``index`` could not be written; ``error`` says why."""

    index: int
    error: Exception


Event = Delta | Finished | Failed


class StopText:
    """Cuts a growing text at the first of some stop texts, and holds back what may become one.

    >>> cut = StopText(["END"])
    >>> cut.feed("one E"), cut.feed("two EN"), cut.feed("D three"), cut.found
    ('one ', 'Etwo ', '', 'END')
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stops)
        self._held = ""
        self.found: str | None = None

    def feed(self, piece: str) -> str:
        """What of the text so far can be shown now."""
        if not self._stops:
            return piece
        if self.found is not None:
            return ""
        text = self._held + piece
        places = [(at, -len(stop), stop) for stop in self._stops if (at := text.find(stop)) >= 0]
        if places:
            at, _, self.found = min(places)
            self._held = ""
            return text[:at]
        keep = max(
            (n for stop in self._stops for n in range(1, min(len(stop), len(text) + 1)) if text.endswith(stop[:n])),
            default=0,
        )
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]

    def flush(self) -> str:
        """What was held back, at the end of the text."""
        held, self._held = self._held, ""
        return held


@dataclass(slots=True)
class Job:
    """What one request asks the engine for: ``count`` texts after one prompt.

    Attributes:
        on_incomplete: None: the texts are complete within ``limit`` tokens where that is possible; ``"finish"``: they
            are, or fail at once; ``"return"``: nothing is done about it.
        deadline: of ``time.monotonic``.
        logprobs: how many of the likeliest tokens to tell with each token; None: nothing is told.
        push: receives the events, from any thread.
        watch: makes somebody who watches the text of this index.
        cancelled: set by the receiver; the texts are given up before their next step.
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
    bias: Mapping[int, float] = field(default_factory=dict)
    presence: float = 0.0
    frequency: float = 0.0
    watch: Callable[[int], Watch] | None = None
    on_incomplete: OnIncomplete | None = None
    deadline: float = float("inf")
    cancelled: bool = False


class Row:
    """One text of a job, in a row of a session."""

    def __init__(self, job: Job, number: int) -> None:
        self.job, self.index = job, job.first_index + number
        self.matcher: Matcher  # from begin on: making it may take long
        self.vocabulary: Vocabulary = job.guide.vocabulary
        self.sampler = Sampler(job.sampling, number)
        self.pending = list(job.prompt)  # tokens that the model has not seen
        self.tokens: list[int] = []
        self.forced = 0
        self.done = False
        self.matched = False
        self.finishing = False  # only what leaves enough tokens to finish may be written
        self.steered = False  # a token was refused in the middle of something, so that it is finished in time
        self.has_symbols = False  # the constraint names tokens
        self.ready = False  # what must come next is written
        self.filled = False  # its mask is that of its state
        self.mask: NDArray[np.int32] = _NO_MASK  # shape (1, words)
        self.mask_seconds = 0.0
        self.mask_since: float | None = None  # of time.perf_counter, while masks are being made
        self.work: Work | None = None  # that is being done about it
        self.slow = False  # the last work took long
        self.held: NDArray[np.float32] | None = None  # logits that wait for the mask
        self._counts: dict[int, int] = {}
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._cut = StopText(job.stops)
        self._watch = None if job.watch is None else job.watch(self.index)

    @property
    def need(self) -> int:
        """Tokens of cache that it may need."""
        return len(self.job.prompt) + self.job.limit

    @property
    def remaining(self) -> int:
        """Tokens that it may still write."""
        return self.job.limit - len(self.tokens)

    def begin(self) -> None:
        """Ends at once where the constraint allows nothing but the empty text; sees whether it can be finished."""
        job = self.job
        self.mask_since = started = time.perf_counter()
        self.matcher = job.guide.matcher()
        self.has_symbols = bool(self.matcher.program.symbols())
        if self.matcher.is_complete():
            self.finish("stop", matched=True)
        elif job.on_incomplete != "return":
            needed = least_tokens(self.matcher, job.limit)
            self.finishing = needed is not None and needed <= job.limit
            if job.on_incomplete == "finish":
                try:
                    within_budget(needed, job.limit)
                except LimitError as error:
                    self.fail(error)
        self.mask_since = None
        self.mask_seconds += time.perf_counter() - started

    def fits(self, token: int) -> bool:
        """Whether the text can be finished in time after a token that the mask allows."""
        if not self.finishing:
            return True
        try:
            if not self.matcher.accept_within(token, self.remaining):
                return False
        except LimitError as error:
            self._give_up(error)
        self.matcher.rollback(self.matcher.step_count - len(self.tokens))
        return True

    def _give_up(self, error: LimitError) -> None:
        """The search for a way to finish met a limit of the core: the text goes on without, unless that was promised.

        Raises:
            LimitError: it was promised.
        """
        if self.job.on_incomplete == "finish":
            raise error
        self.finishing = False

    def _draw(self, logits: NDArray[np.float32], width: int) -> int:
        """Draws from what leaves enough tokens to finish; see ``_Row.draw`` in :mod:`guiderail.generation.decoding`."""
        first = self.sampler(logits)
        self.mask_since = started = time.perf_counter()
        try:
            fits = self.fits(first)
            if fits and not (self.finishing and self.job.sampling.cuts):
                return first
            narrow = allocate_token_bitmask(1, self.vocabulary.size)
            self.matcher.fill_next_token_bitmask(narrow, 0, self.remaining)
        except LimitError as error:
            self._give_up(error)
            return first
        finally:
            self.mask_since = None
            self.mask_seconds += time.perf_counter() - started
        if fits and np.array_equal(narrow, self.mask):
            return first
        self.steered |= not (fits or self.matcher.is_accepting())
        self.mask[:] = narrow
        mask_rows(logits[None], self.mask, [0], width)
        return self.sampler(logits)

    def take(self, token: int, info: TokenInfo | None = None, *, forced: bool = False) -> None:
        """Appends a token that the mask allows, and tells what text it completes."""
        if not self.matcher.accept_token(token):
            raise ModelError(f"the token {token} was drawn although its mask forbids it", code="bad-logits")
        if self.done:  # it was given up while the token was read
            return
        self.ready = self.filled = False
        self.tokens.append(token)
        self.forced += forced
        if forced and self._watch is not None:
            self._watch.forced(token)
        if self.matcher.is_terminated():
            self.finish("stop", matched=True)
            return
        self.pending.append(token)
        if self.job.presence or self.job.frequency:
            self._counts[token] = self._counts.get(token, 0) + 1
        text = self._cut.feed(self._decoder.decode(token_bytes(self.vocabulary, token)))
        if text or info is not None:
            self.job.push(Delta(self.index, text, () if info is None else (info,)))
        if self._cut.found is not None:
            self.finish("stop", matched=self.matcher.is_accepting())
        elif self.matcher.is_complete():
            self.finish("stop", matched=True)
        elif self.remaining <= 0:
            matched = self.matcher.is_accepting()
            self.finish("stop" if self.steered and matched else "length", matched=matched)

    def finish(self, reason: Finish, *, matched: bool) -> None:
        if self.done:  # it was given up meanwhile
            return
        rest = self._cut.flush()
        if rest:
            self.job.push(Delta(self.index, rest))
        self.done, self.matched = True, matched
        if self._watch is not None:  # before the end is told: who asks then finds it
            ended = "stop" if self.matcher.is_terminated() else "stop-text" if self._cut.found else "complete"
            self._watch.end(self.job.guide, self.job.prompt, "length" if reason == "length" else ended, matched)
        self.job.push(Finished(self.index, reason, matched, len(self.tokens), self.forced, self._cut.found))

    def fail(self, error: Exception) -> None:
        if not self.done:
            self.done = True
            self.job.push(Failed(self.index, error))

    def sample(self, logits: NDArray[np.float32]) -> tuple[int, TokenInfo | None]:
        """Draws the next token.

        Where it would leave too few tokens to finish, it is drawn again from what leaves enough.

        Args:
            logits: shape ``(logits_size,)``; changed.
        """
        job = self.job
        width = min(self.vocabulary.size, len(logits))  # beyond are columns of no token
        thought = _Thought(logits[:width], job.logprobs) if job.logprobs is not None else None
        seen = None if self._watch is None else logits[:width].copy()
        if job.bias:
            logits[list(job.bias)] += np.fromiter(job.bias.values(), np.float32)
        if self._counts:
            ids = np.fromiter(self._counts, np.int64)
            counts = np.fromiter(self._counts.values(), np.float32)
            logits[ids] -= job.presence + job.frequency * counts
        started = time.perf_counter()
        mask_rows(logits[None], self.mask, [0], width)
        self.mask_seconds += time.perf_counter() - started
        token = self._draw(logits, width)
        if self._watch is not None and seen is not None:
            self._watch.chosen(token, self.mask, seen, self.vocabulary.size)
        return token, None if thought is None else thought.of(token)


class _Thought:
    """The model's distribution, kept from before the mask is applied."""

    def __init__(self, logits: NDArray[np.float32], count: int) -> None:
        wide = logits.astype(np.float64)
        top = wide.max()
        self._logprobs: NDArray[np.float64] = wide - (top + np.log(np.exp(wide - top).sum()))
        count = min(count, len(wide))
        best = np.argpartition(-wide, count - 1)[:count] if count else np.zeros(0, np.int64)
        self._best = best[np.argsort(-wide[best], kind="stable")]

    def of(self, token: int) -> TokenInfo:
        top = tuple((int(i), float(self._logprobs[i])) for i in self._best)
        return TokenInfo(token, float(self._logprobs[token]), top)


def prepare(row: Row, *, fill: bool = True) -> None:
    """Writes what must come next, and leaves in ``row.mask`` what may where there is a choice.

    The number of tokens that are left does not narrow that mask yet: :meth:`Row.sample` sees to it where it matters,
    which is seldom.

    Args:
        fill: otherwise the mask is left to :func:`fill_mask` or to who fills several, where no token must come next.
    """
    if row.mask is _NO_MASK:
        row.mask = allocate_token_bitmask(1, row.vocabulary.size)
    row.mask_since = started = time.perf_counter()
    asked = row.job.logprobs is not None  # each token's probability is wanted, so each is asked for
    if not asked:
        for token in row.matcher.forced_tokens():
            if not row.fits(token):
                break  # there are shorter spellings
            row.take(token, forced=True)
            if row.done:
                break
    while not row.done:
        if not fill and (asked or not may_be_forced(row.matcher, row.has_symbols)):
            row.ready = True
            break
        fill_next_token_bitmasks([row.matcher], row.mask, [0], threads=1)
        token = -1 if asked else _only(row.mask[0])
        if token < 0:
            row.ready = row.filled = True
            break
        row.take(token, forced=True)
    row.mask_since = None
    row.mask_seconds += time.perf_counter() - started


def fill_mask(row: Row) -> None:
    """Fills the mask of a text that waits for the model."""
    row.mask_since = started = time.perf_counter()
    fill_next_token_bitmasks([row.matcher], row.mask, [0], threads=1)
    row.filled = True
    row.mask_since = None
    row.mask_seconds += time.perf_counter() - started


def least_tokens(matcher: Matcher, limit: int, *, thorough: bool = True) -> int | None:
    """How many tokens complete a text, see :meth:`Matcher.least_tokens`; None also where a search meets a limit.

    Args:
        limit: where fewer would do, there is no need to look for them.
        thorough: otherwise look for them.
    """
    try:
        needed = matcher.least_tokens(thorough=False)
        if thorough and (needed is None or needed > limit):
            needed = matcher.least_tokens()
    except LimitError:
        return None
    return needed


def within_budget(needed: int | None, limit: int) -> None:
    """Refuses a text that cannot be promised to be complete within the limit.

    Args:
        needed: tokens that complete it; None: no way was found.
        limit: tokens that it may have.

    Raises:
        LimitError: ``budget-too-small``, ``budget-unknown``.
    """
    if needed is None:
        raise LimitError(
            f"no way to complete the text was found, so that it will be complete within {limit} tokens cannot be "
            "promised; bound the constraint, or leave guiderail.on_incomplete out",
            code="budget-unknown",
        )
    if needed > limit:
        raise LimitError(
            f"the text needs {needed} tokens, but it may have no more than {limit}; allow at least {needed}, bound the "
            "constraint, or leave guiderail.on_incomplete out",
            code="budget-too-small",
        )


def _only(words: NDArray[np.int32]) -> int:
    """The token of a mask that allows just one, or -1."""
    (filled,) = np.nonzero(words)
    if len(filled) != 1:
        return -1
    word = int(words[filled[0]]) & 0xFFFFFFFF
    return -1 if word & (word - 1) else 32 * int(filled[0]) + word.bit_length() - 1


@lru_cache(maxsize=8)
def _special_names(vocabulary: Vocabulary) -> dict[int, bytes]:
    return {token: text.encode() for text, token in vocabulary.special_tokens.items()}


def token_bytes(vocabulary: Vocabulary, token: int) -> bytes:
    """The bytes of a token; of a special one, which only a constraint that names it allows, its name."""
    name = _special_names(vocabulary).get(token)
    return vocabulary.token_bytes(token) if name is None else name


def token_text(vocabulary: Vocabulary, token: int) -> dict[str, Any]:
    """A token as OpenAI's logprobs tell it: its text, and its bytes for where that is no whole text."""
    data = token_bytes(vocabulary, token)
    return {"token": data.decode("utf-8", "replace"), "bytes": list(data)}
