"""What the interfaces share: from the parts of a request to running generations."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from guiderail.errors import GuiderailError, LimitError, ModelError
from guiderail.generation.budget import check_budget, least_tokens
from guiderail.generation.chat_template import ChatTemplate
from guiderail.generation.logprobs import TokenLogprob
from guiderail.generation.models import Model
from guiderail.generation.models.base import empty_prompt
from guiderail.generation.penalties import Penalties
from guiderail.generation.sampling import Sampling
from guiderail.matching.guide import Guide
from guiderail.server.background import Background
from guiderail.server.bodies import is_at_most
from guiderail.server.compiling import Compiler
from guiderail.server.contents import LARGE, Contents, Manner, read_contents, show
from guiderail.server.draws import Drawing, loan_for
from guiderail.server.engine import Engine, Overloaded, TimedOut
from guiderail.server.errors import ApiError, from_guiderail
from guiderail.server.inspection import Inspections, Watch
from guiderail.server.metrics import Metrics
from guiderail.server.options import ServerOptions
from guiderail.server.reasoning import Thinking, thinking_of, wants_thinking
from guiderail.server.recipes import Recipe
from guiderail.server.rows import (
    WAY_OUT,
    Delta,
    Event,
    Failed,
    Finished,
    Job,
    OnIncomplete,
)
from guiderail.server.tools import tool_format_of
from guiderail.support.texts import shown

__all__ = ["Run", "Service", "Text", "Watches"]

Watches = Callable[[int], Watch] | None

T = TypeVar("T")


@dataclass(slots=True)
class Text:
    """One text of a run, as far as it is written."""

    pieces: list[str] = field(default_factory=list)
    tokens: list[TokenLogprob] = field(default_factory=list)
    end: Finished | None = None

    @property
    def text(self) -> str:
        return "".join(self.pieces)


class Run:
    """The texts of one request. Cancel it when the client has left."""

    def __init__(self, metrics: Metrics, forget: Callable[[Guide], None], ended: Callable[[], None]) -> None:
        self._metrics, self._forget, self._ended = metrics, forget, ended
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[Event] = asyncio.Queue()
        self._jobs: list[Job] = []
        self._open: set[int] = set()
        self._began = time.perf_counter()
        self._first = True
        self.prompt_tokens = 0
        self.completion_tokens = 0

    def add(self, job: Job) -> None:
        self._jobs.append(job)
        self.prompt_tokens += len(job.prompt)
        self._open.update(range(job.first_index, job.first_index + job.count))

    def push(self, event: Event) -> None:
        """Takes an event of the engine, on any thread."""
        try:
            self._loop.call_soon_threadsafe(self._queue.put_nowait, event)
        except RuntimeError:  # the loop has ended: there is no waiter
            self.cancel()

    def cancel(self) -> None:
        """Abandons what is not finished; takes effect before the engine's next step."""
        for job in self._jobs:
            job.cancelled = True

    async def events(self) -> AsyncIterator[Delta | Finished]:
        """Yields events until all texts have ended.

        Raises:
            ApiError: a text could not be written.
        """
        try:
            while self._open:
                event = await self._queue.get()
                if event.index not in self._open:
                    continue
                if self._first:
                    self._first = False
                    self._metrics.first_token_seconds.observe(time.perf_counter() - self._began)
                if isinstance(event, Failed):
                    if isinstance(event.error, LimitError):  # its states cannot be used any more
                        for job in self._jobs:
                            self._forget(job.guide)
                    raise failure(event.error)
                if isinstance(event, Finished):
                    self._open.discard(event.index)
                    self.completion_tokens += event.tokens
                    self._metrics.finished.labels(event.reason).inc()
                yield event
            self._metrics.request_seconds.observe(time.perf_counter() - self._began)
        finally:
            self.cancel()
            self._ended()

    async def texts(self, count: int) -> list[Text]:
        """Returns all texts after they have ended."""
        found = [Text() for _ in range(count)]
        async for event in self.events():
            text = found[event.index]
            if isinstance(event, Delta):
                text.pieces.append(event.text)
                text.tokens.extend(event.tokens)
            else:
                text.end = event
        return found

    def usage(self) -> dict[str, int]:
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
        }


def failure(error: Exception) -> ApiError:
    """The answer to a text that could not be written."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, TimedOut):
        return ApiError(504, error.message, code=error.code)
    if isinstance(error, Overloaded):
        return ApiError(503, error.message, code=error.code)
    if isinstance(error, ModelError | LimitError):
        return from_guiderail(error)
    if isinstance(error, GuiderailError):
        return ApiError(500, error.message, code=error.code)
    return ApiError(500, f"the server failed: {type(error).__name__}", code="internal-error")


class Service:
    """A model, its engine and its compiled constraints."""

    def __init__(self, model: Model, options: ServerOptions) -> None:
        self.model, self.options = model, options
        self.vocabulary = model.vocabulary
        self.metrics = Metrics()
        self.template = ChatTemplate(model, options.chat_template)
        self.engine = Engine(model, options, self.metrics)
        self.engine.on_hard = self._forget
        self.background = Background()
        renderer = self.template.renderer
        tool_format = options.tool_format or tool_format_of(renderer, self.template.written)
        self.manner = Manner(tool_format, renderer, options.max_json_values)
        self.name = options.served_name or model.name
        self.created = int(time.time())
        self.inspections = None if options.inspect == "off" else Inspections(self.name, options)
        self._compiler: Compiler | None = None

    @property
    def compiler(self) -> Compiler:
        """The compiler; it belongs to the event loop in which it is first used."""
        if self._compiler is None:
            self._compiler = Compiler(self.vocabulary, self.options, self.metrics, self.manner)
        return self._compiler

    def _forget(self, guide: Guide) -> None:
        """Drops a guide that is too hard; callable from any thread."""
        compiler = self._compiler
        if compiler is not None:
            compiler.forget_soon(guide)

    def check_model(self, name: str | None) -> None:
        """Raises an error if a request names another model."""
        if name is not None and name != self.name:
            raise ApiError(
                404, f"there is no model {name!r} here; this server has {self.name!r}; name that, or none",
                code="model-not-found", param="model",
            )  # fmt: skip

    async def guide(self, recipe: Recipe, param: str) -> tuple[Any, Guide]:
        """Returns a plan and the guide of its constraint; see :meth:`Compiler.guide`.

        Raises:
            ApiError: 400 with the code and the location of the fault.
        """
        try:
            return await self.compiler.guide(recipe, recipe, param)
        except Overloaded as error:
            raise failure(error) from error
        except GuiderailError as error:
            raise from_guiderail(error, param) from error

    async def threaded(self, function: Callable[[], T], param: str) -> T:
        """Returns the result of a function that may take a while, such as tokenizing a long prompt.

        Raises:
            ApiError: what the function raises, or 400 ``preparation-timeout``: it took longer than ``compile_seconds``.
        """
        try:
            return await self.background.run(function, self.options.compile_seconds)
        except (TimeoutError, asyncio.TimeoutError):
            raise self._too_slow(f"{param}: this", param) from None
        except Overloaded as error:
            raise failure(error) from error
        except GuiderailError as error:
            raise from_guiderail(error, param) from error

    async def contents(self, kind: str, body: bytes) -> Contents:
        """Reads a request; another process reads large ones, see :mod:`guiderail.server.contents`.

        Raises:
            ApiError: 400, 413: what is wrong with it; 503: too many are being read.
        """
        if len(body) < LARGE:
            return read_contents(kind, body, self.manner)
        try:
            return await self.compiler.read(kind, body, self.manner)
        except (TimeoutError, asyncio.TimeoutError):
            raise self._too_slow("the request", None) from None
        except Overloaded as error:
            raise failure(error) from error
        except GuiderailError as error:
            raise from_guiderail(error) from error

    async def thinking(self, contents: Contents, param: str) -> Thinking | None:
        """Returns the reasoning that a request asks for, whose markers depend on the rendered conversation.

        Raises:
            ApiError: as :meth:`threaded`, and 400 if the model has no markers for reasoning.
        """
        if not wants_thinking(contents.request):
            return None
        contents.shown = await self.threaded(lambda: show(contents, self.manner.renderer), param)
        return thinking_of(contents.request, contents.shown, self.manner.tool_format)

    async def prompt(self, contents: Contents, param: str) -> list[int]:
        """Returns the token ids of a conversation.

        Raises:
            ApiError: as :meth:`threaded`, and 400 if it cannot be shown to the model.
        """
        return await self.threaded(lambda: self.template.tokens(show(contents, self.manner.renderer)), param)

    def _too_slow(self, what: str, param: str | None) -> ApiError:
        return ApiError(
            400,
            f"{what} was not made ready within {self.options.compile_seconds:g} seconds (a limit of this server)",
            code="preparation-timeout",
            param=param,
        )

    def bias(self, given: Mapping[str, float] | None) -> dict[int, float]:
        """Returns ``logit_bias`` by token id."""
        found = {}
        for name, value in (given or {}).items():
            token = int(name) if is_at_most(name, self.vocabulary.size - 1) else -1
            if name != str(token):  # also an id in other digits, or with zeros in front: another may be the same token
                raise ApiError(
                    400, f"logit_bias: {shown(name)} is not the id of a token", code="bad-token", param="logit_bias"
                )
            found[token] = float(value)
        return found

    def sampling(self, request: Any) -> Sampling:
        """Returns how to sample tokens; temperature 1 if the request does not say."""
        top_k = getattr(request, "top_k", None)
        seed = getattr(request, "seed", None)
        try:
            return Sampling(
                1.0 if request.temperature is None else float(request.temperature),
                1.0 if request.top_p is None else float(request.top_p),
                top_k if top_k is not None and top_k > 0 else None,  # vLLM's clients say 0 or -1 for all
                None if seed is None else seed % 2**64,
            )
        except ModelError as error:
            raise from_guiderail(error) from error

    @staticmethod
    def penalties(request: Any) -> Penalties:
        """Returns the penalties for tokens that the text already contains."""
        presence, frequency = (float(value or 0) for value in (request.presence_penalty, request.frequency_penalty))
        return Penalties(presence, frequency, float(request.repetition_penalty or 1))

    async def _check_promise(self, guide: Guide, limit: int, param: str) -> None:
        """Checks that the text can be completed within the limit, if that was promised.

        Raises:
            ApiError: 400: it cannot, or the search takes too long.
        """
        needed = await self.threaded(lambda: least_tokens(guide.matcher(), limit), param)
        try:
            check_budget(needed, limit, way_out=WAY_OUT)
        except LimitError as error:
            refusal = from_guiderail(error, param)
            if needed is not None:
                refusal.place["least_tokens"] = needed
            raise refusal from error

    async def start(
        self,
        prompts: Sequence[list[int]],
        guide: Guide,
        *,
        limit: int | None,
        limit_param: str,
        count: int = 1,
        sampling: Sampling,
        param: str,
        on_incomplete: OnIncomplete | None = None,
        drawing: Drawing | None = None,
        **more: Any,
    ) -> Run:
        """Submits texts to the engine.

        Args:
            limit: maximum number of tokens to write; None: the default, as far as there is room.
            limit_param: the parameter of the request with the limit.
            count: the number of texts for each prompt.
            param: the parameter of the request with the prompts.
            on_incomplete: see :class:`Job`.
            drawing: how to draw from the model's own distribution; None: under masks.
            **more: options of a :class:`Job`: ``stops``, ``logprobs``, ``log_weight``, ``bias``, ``penalties``,
                ``watch``.

        Raises:
            ApiError: the prompt does not fit, too many texts wait, or a text that must be complete cannot be completed
                within the limit.
        """
        run = Run(self.metrics, self._forget, self.compiler.tend)
        deadline = time.monotonic() + self.options.request_seconds
        room = min(self.model.context_length, self.options.max_cached_tokens)
        limits = [limit or max(1, min(self.options.default_max_tokens, room - len(prompt))) for prompt in prompts]
        if on_incomplete == "finish":
            await self._check_promise(guide, min(limits), limit_param)
        try:
            for prompt, most in zip(prompts, limits, strict=True):
                if not prompt:
                    raise empty_prompt()
                first = len(run._open)
                job = Job(
                    prompt, guide, run.push, most, sampling, count, first_index=first, deadline=deadline,
                    on_incomplete=on_incomplete, **more,
                )  # fmt: skip
                if drawing is None:
                    self.engine.submit(job)
                else:
                    self.engine.lend(loan_for(job, drawing, self.model, self.options, self.metrics))
                run.add(job)
        except Overloaded as error:
            run.cancel()
            raise failure(error) from error
        except GuiderailError as error:
            run.cancel()
            raise from_guiderail(error, param) from error
        return run

    def close(self) -> None:
        self.engine.stop()
        if self._compiler is not None:
            self._compiler.close()
        if self.inspections is not None:
            self.inspections.close()
