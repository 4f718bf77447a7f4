"""Text from a model under a constraint: :func:`generate`, :func:`stream` and :func:`generations`.

Rows of a batch go in lockstep. A step of a row is: tokens that are forced (no model needed), one forward
pass over what the model has not seen yet, the mask on its logits, one token drawn. All masks of a step are
filled in one native call. A row ends by itself the moment nothing but a stop token could follow: the model
is not asked to say so.
"""

from __future__ import annotations

import codecs
import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

from guiderail.bitmask import allocate_token_bitmask, apply_token_bitmask_inplace
from guiderail.constraint import Constraint
from guiderail.errors import CompileError, ModelError
from guiderail.guide import Guide, compile
from guiderail.matcher import Matcher, fill_next_token_bitmasks
from guiderail.models import Model, default_model, load_model
from guiderail.sampling import Sampler, Sampling
from guiderail.vocabulary import Vocabulary

__all__ = ["FinishReason", "Generation", "IncompleteError", "Stream", "generate", "generations", "stream"]

FinishReason = Literal["complete", "stop", "length"]
OnIncomplete = Literal["error", "return"]

DEFAULT_MAX_TOKENS = 256


@dataclass(frozen=True, slots=True)
class Generation:
    """What came of one prompt.

    Attributes:
        text: the text, without the stop token.
        tokens: its token ids; the stop token, if the model chose one, is the last.
        finish_reason: ``"complete"``, nothing could follow; ``"stop"``, the model chose a stop token where
        the text
            may end; ``"length"``, ``max_tokens`` or the context ran out.
        matched: whether the text is allowed by the constraint as it stands. Only ``"length"`` can leave it
        False.
        prompt_tokens: tokens of the prompt.
        forced_tokens: how many tokens were written without asking the model.
        seconds: wall time, from the first forward pass; of all rows of the batch.
        constraint_seconds: the part of it spent on masks, sampling excluded; of all rows of the batch.
    """

    text: str
    tokens: tuple[int, ...]
    finish_reason: FinishReason
    matched: bool
    prompt_tokens: int
    forced_tokens: int
    seconds: float
    constraint_seconds: float


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


class _Batch:
    """Some prompts on one session of the model."""

    def __init__(
        self,
        model: Model,
        prompts: Sequence[Sequence[int]],
        guides: Sequence[Guide],
        *,
        max_tokens: int,
        sampling: Sampling,
        first_row: int,
        jump_forward: bool,
    ) -> None:
        self.model, self.jump_forward = model, jump_forward
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
            self.rows.append(row)
        length = max((row.prompt_tokens + row.limit for row in self.rows), default=1)
        self.session = model.new_session(len(self.rows), length)
        self.bitmask: NDArray[np.int32] = allocate_token_bitmask(len(self.rows), self.vocabulary.size)
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
        pieces = self._forced(active)
        self.constraint_seconds += time.perf_counter() - started
        yield from pieces
        started = time.perf_counter()
        asked = [i for i in active if self.rows[i].finish is None]
        if not asked:
            return
        rows = self.rows
        logits = self.session.feed([row.pending if row.finish is None else [] for row in rows])
        for i in asked:
            rows[i].pending = []
        mark = time.perf_counter()
        width = min(self.vocabulary.size, logits.shape[1])
        apply_token_bitmask_inplace(logits, self.bitmask, indices=asked, vocab_size=width)
        masked = time.perf_counter()
        self.constraint_seconds += masked - mark
        pieces = [(i, rows[i].take(rows[i].sampler(logits[i]), self.vocabulary)) for i in asked]
        self.seconds += time.perf_counter() - started
        yield from pieces

    def _forced(self, active: list[int]) -> list[tuple[int, str]]:
        """Writes what must come next, and leaves the masks of the rows where there is a choice."""
        pieces = []
        if self.jump_forward:
            for i in active:
                for token in self.rows[i].matcher.forced_tokens():
                    pieces.append((i, self._force(i, token)))
                    if self.rows[i].finish is not None:
                        break
        waiting = [i for i in active if self.rows[i].finish is None]
        while waiting:
            fill_next_token_bitmasks([self.rows[i].matcher for i in waiting], self.bitmask, waiting)
            single = []
            for i in waiting:
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
        return pieces

    def _force(self, i: int, token: int) -> str:
        self.rows[i].forced += 1
        return self.rows[i].take(token, self.vocabulary)

    def generation(self, i: int) -> Generation:
        row = self.rows[i]
        return Generation(
            text="".join(row.text),
            tokens=tuple(row.tokens),
            finish_reason=row.finish or "length",
            matched=row.matched,
            prompt_tokens=row.prompt_tokens,
            forced_tokens=row.forced,
            seconds=self.seconds + self.constraint_seconds,
            constraint_seconds=self.constraint_seconds,
        )


class Stream:
    """An iterator over pieces of text, each valid UTF-8; together they are the text. Made by :func:`stream`.

    Attributes:
        finish_reason: None while it runs; see :class:`Generation`.
    """

    def __init__(self, batch: _Batch, on_incomplete: OnIncomplete, close: bool) -> None:
        self._batch, self._on_incomplete, self._close = batch, on_incomplete, close
        self._pieces = self._run()

    def _run(self) -> Generator[str, None, None]:
        try:
            for _, piece in self._batch.steps():
                if piece:
                    yield piece
        finally:
            if self._close:
                self._batch.model.close()
        _check_complete([self.result], self._on_incomplete)

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        return next(self._pieces)

    @property
    def tokens(self) -> tuple[int, ...]:
        """Token ids so far."""
        return tuple(self._batch.rows[0].tokens)

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self._batch.rows[0].text)

    @property
    def finish_reason(self) -> FinishReason | None:
        return self._batch.rows[0].finish

    @property
    def result(self) -> Generation:
        """The generation, as far as it has come."""
        return self._batch.generation(0)

    def close(self) -> None:
        """Stops early and frees the session."""
        self._pieces.close()
        self._batch.session.close()
        if self._close:
            self._batch.model.close()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def stream(
    model: Any,
    prompt: str,
    constraint: Constraint | Guide,
    *,
    max_tokens: int = DEFAULT_MAX_TOKENS,
    temperature: float = 0.0,
    top_p: float = 1.0,
    top_k: int | None = None,
    seed: int | None = None,
    system: str | None = None,
    chat: bool = True,
    jump_forward: bool = True,
    on_incomplete: OnIncomplete = "error",
) -> Stream:
    """Like :func:`generate` for one prompt, but the text comes in pieces as it is written.

    Example:
        >>> for piece in gr.stream(None, "When did Apollo 11 land?", gr.patterns.date()):
        ...     print(piece, end="", flush=True)

    Returns:
        An iterator of strings with ``tokens``, ``text``, ``finish_reason`` and ``result``. With
        ``on_incomplete="error"`` it ends by raising IncompleteError if the tokens ran out.
    """
    if not isinstance(prompt, str):
        raise ModelError(f"stream takes one prompt, a string, not {type(prompt).__name__}", code="bad-prompt")
    _check(on_incomplete, max_tokens, chat, system)
    sampling = Sampling(temperature, top_p, top_k, seed)
    runner, owned = _model(model)
    try:
        batch = _Batch(
            runner,
            [runner.encode(prompt, chat=chat, system=system)],
            [_guide(constraint, runner)],
            max_tokens=max_tokens,
            sampling=sampling,
            first_row=0,
            jump_forward=jump_forward,
        )
    except BaseException:
        if owned:
            runner.close()
        raise
    return Stream(batch, on_incomplete, owned)


def generations(
    model: Any,
    prompts: Sequence[str],
    constraint: Constraint | Guide | Sequence[Constraint | Guide],
    *,
    max_tokens: int = DEFAULT_MAX_TOKENS,
    temperature: float = 0.0,
    top_p: float = 1.0,
    top_k: int | None = None,
    seed: int | None = None,
    system: str | None = None,
    chat: bool = True,
    jump_forward: bool = True,
    on_incomplete: OnIncomplete = "return",
) -> list[Generation]:
    """Like :func:`generate` for a list of prompts, but returns tokens, reasons and times with the texts."""
    if not isinstance(prompts, list | tuple) or not all(isinstance(prompt, str) for prompt in prompts):
        raise ModelError("a prompt is a string, or several are a list of strings", code="bad-prompt")
    _check(on_incomplete, max_tokens, chat, system)
    sampling = Sampling(temperature, top_p, top_k, seed)
    several = isinstance(constraint, Sequence) and not isinstance(constraint, str)
    if several and len(constraint) != len(prompts):  # type: ignore[arg-type]
        raise ModelError(
            f"there are {len(prompts)} prompts and {len(constraint)} constraints; "  # type: ignore[arg-type]
            "give one constraint, or one a prompt",
            code="bad-batch",
        )
    runner, owned = _model(model)
    try:
        each: Any = constraint if several else [constraint] * len(prompts)
        guides = [_guide(one, runner) for one in each]
        encoded = [runner.encode(prompt, chat=chat, system=system) for prompt in prompts]
        size = runner.max_batch or max(1, len(prompts))
        results: list[Generation] = []
        for start in range(0, len(prompts), size):
            batch = _Batch(
                runner,
                encoded[start : start + size],
                guides[start : start + size],
                max_tokens=max_tokens,
                sampling=sampling,
                first_row=start,
                jump_forward=jump_forward,
            )
            for _ in batch.steps():
                continue
            results += [batch.generation(i) for i in range(len(batch.rows))]
    finally:
        if owned:
            runner.close()
    _check_complete(results, on_incomplete)
    return results


@overload
def generate(
    model: Any,
    prompt: str,
    constraint: Constraint | Guide,
    *,
    max_tokens: int = ...,
    temperature: float = ...,
    top_p: float = ...,
    top_k: int | None = ...,
    seed: int | None = ...,
    system: str | None = ...,
    chat: bool = ...,
    jump_forward: bool = ...,
    on_incomplete: OnIncomplete = ...,
) -> str: ...
@overload
def generate(
    model: Any,
    prompt: list[str] | tuple[str, ...],
    constraint: Constraint | Guide | Sequence[Constraint | Guide],
    *,
    max_tokens: int = ...,
    temperature: float = ...,
    top_p: float = ...,
    top_k: int | None = ...,
    seed: int | None = ...,
    system: str | None = ...,
    chat: bool = ...,
    jump_forward: bool = ...,
    on_incomplete: OnIncomplete = ...,
) -> list[str]: ...
def generate(
    model: Any,
    prompt: str | list[str] | tuple[str, ...],
    constraint: Constraint | Guide | Sequence[Constraint | Guide],
    *,
    max_tokens: int = DEFAULT_MAX_TOKENS,
    temperature: float = 0.0,
    top_p: float = 1.0,
    top_k: int | None = None,
    seed: int | None = None,
    system: str | None = None,
    chat: bool = True,
    jump_forward: bool = True,
    on_incomplete: OnIncomplete = "error",
) -> str | list[str]:
    """Text that the model writes under a constraint.

    Example:
        >>> gr.generate(None, "When did Apollo 11 land on the Moon?", gr.patterns.date())

    Args:
        model: a :class:`Model` or whatever :func:`load_model` takes (load it once if you call this often);
        None is
            the embedded model, kept loaded.
        prompt: one prompt, or a list of them, which run together as a batch.
        constraint: what the text must match: a constraint or a compiled guide; or a list with one a prompt.
        max_tokens: the most tokens to write, forced ones included.
        temperature: 0 takes the most likely allowed token, 1 samples as the model says.
        top_p: sample among the most likely tokens that reach this probability together.
        top_k: sample among so many of the most likely tokens.
        seed: makes sampling repeatable; each row has a stream of its own.
        system: the system message, with ``chat=True``.
        chat: wrap the prompt in the model's chat template; False continues the prompt as it stands.
        jump_forward: write text that the constraint forces as the tokenizer spells it, without asking the
        model
            token by token. The text of a forced stretch is the same either way; the model reads its usual
            spelling of it.
        on_incomplete: when tokens run out before the text is one that the constraint allows: raise
            IncompleteError, or return the text so far.

    Returns:
        The text, or a list of texts for a list of prompts.

    Raises:
        IncompleteError: see ``on_incomplete``.
        CompileError: the constraint cannot be compiled for the model's vocabulary.
        ModelError: the model cannot be loaded or run, the prompt does not fit, or an option is out of range.
    """
    single = isinstance(prompt, str)
    results = generations(
        model,
        [prompt] if isinstance(prompt, str) else prompt,
        constraint,
        max_tokens=max_tokens,
        temperature=temperature,
        top_p=top_p,
        top_k=top_k,
        seed=seed,
        system=system,
        chat=chat,
        jump_forward=jump_forward,
        on_incomplete=on_incomplete,
    )
    texts = [result.text for result in results]
    return texts[0] if single else texts


def _check(on_incomplete: str, max_tokens: int, chat: bool, system: str | None) -> None:
    if on_incomplete not in ("error", "return"):
        raise ModelError(f'on_incomplete is "error" or "return", not {on_incomplete!r}', code="bad-option")
    if not isinstance(max_tokens, int) or isinstance(max_tokens, bool) or max_tokens < 1:
        raise ModelError(f"max_tokens must be a whole number from 1, not {max_tokens!r}", code="bad-option")
    if system is not None and not chat:
        raise ModelError("a system message needs the chat template: leave chat=True", code="bad-option")


def _check_complete(results: Sequence[Generation], on_incomplete: OnIncomplete) -> None:
    if on_incomplete == "return":
        return
    for i, result in enumerate(results):
        if not result.matched:
            which = f" of prompt {i}" if len(results) > 1 else ""
            tail = result.text if len(result.text) <= 200 else "…" + result.text[-200:]
            error = IncompleteError(
                f"the text{which} was not complete after {len(result.tokens)} tokens: {tail!r}; raise "
                f"max_tokens, "
                'bound the constraint (max_length), or pass on_incomplete="return"'
            )
            error.generations = tuple(results)
            raise error


def _model(source: Any) -> tuple[Model, bool]:
    """The model, and whether it was loaded for this call only."""
    if source is None:
        return default_model(), False
    model = load_model(source)
    return model, model is not source


def _guide(constraint: Any, model: Model) -> Guide:
    if isinstance(constraint, Guide):
        if constraint.vocabulary is not model.vocabulary and constraint.vocabulary != model.vocabulary:
            raise CompileError(
                f"the guide was compiled for {constraint.vocabulary!r}, not for {model.vocabulary!r} of the model",
                code="other-vocabulary",
            )
        return constraint
    return compile(constraint, model.vocabulary)
