"""``POST /v1/chat/completions``."""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncIterator
from typing import Any

from guiderail.generation.logprobs import TokenLogprob
from guiderail.server.choices import ChoiceLogprobs, choice_logprobs
from guiderail.server.contents import Contents
from guiderail.server.draws import drawing_of
from guiderail.server.errors import ApiError
from guiderail.server.json_answers import sse
from guiderail.server.parts import CallEnd, CallInput, CallStart, Content, Part, Reader, Reasoning
from guiderail.server.recipes import Recipe
from guiderail.server.rows import Delta, finite, token_text
from guiderail.server.schemas import ChatRequest
from guiderail.server.service import Run, Service, Text, Watches
from guiderail.server.tools import ToolPlan
from guiderail.vocabulary import Vocabulary

__all__ = ["ChatAnswer", "start_chat"]


class ChatAnswer:
    """A running chat completion, returned whole or as events."""

    def __init__(
        self, service: Service, request: ChatRequest, run: Run, plan: ToolPlan | None, chances: ChoiceLogprobs | None
    ) -> None:
        self._service, self._request, self.run, self._plan = service, request, run, plan
        self._chances: dict[str, Any] = {} if chances is None else {"choices": chances}
        self._id = f"chatcmpl-{uuid.uuid4().hex}"
        self._created = int(time.time())
        self._count = request.n or 1

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": self._id, "object": kind, "created": self._created, "model": self._service.name}

    async def whole(self) -> dict[str, Any]:
        """The complete answer, after all of it is written."""
        texts = await self.run.texts(self._count)
        choices = [self._choice(i, text) for i, text in enumerate(texts)]
        return {**self._head("chat.completion"), "choices": choices, "usage": self.run.usage()}

    def _choice(self, index: int, text: Text) -> dict[str, Any]:
        assert text.end is not None
        reason: str = text.end.reason
        message: dict[str, Any] = {"role": "assistant", "content": text.text, "refusal": None}
        if self._plan is not None:
            reader = self._plan.reader()
            parts = [*reader.feed(text.text), *reader.close()]
            content, calls = _gather(parts)
            message["content"] = content if content or not calls else None
            if thought := "".join(part.text for part in parts if isinstance(part, Reasoning)):
                message["reasoning_content"] = thought
            if calls:
                message["tool_calls"] = calls
                reason = _reason(reason, parts)
        logprobs: dict[str, Any] | None = None
        if self._request.logprobs:
            content_logprobs = [_logprob(self._service.vocabulary, info) for info in text.tokens]
            logprobs = {"content": content_logprobs, "refusal": None, **self._chances}
        elif self._chances:
            logprobs = {"content": None, "refusal": None, **self._chances}
        choice = {"index": index, "message": message, "logprobs": logprobs, "finish_reason": reason}
        return choice if text.end.more is None else {**choice, "guiderail": text.end.more}

    async def events(self) -> AsyncIterator[bytes]:
        """The answer as server-sent events."""
        options = self._request.stream_options
        with_usage = bool(options and options.include_usage)
        readers: list[Reader | None] = [None if self._plan is None else self._plan.reader() for _ in range(self._count)]
        told: list[list[Part]] = [[] for _ in range(self._count)]  # where calls begin and end

        def chunk(
            index: int,
            delta: dict[str, Any],
            reason: str | None = None,
            logprobs: Any = None,
            more: dict[str, Any] | None = None,
        ) -> bytes:
            choice = {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": reason}
            choice |= {} if more is None else {"guiderail": more}
            body = {**self._head("chat.completion.chunk"), "choices": [choice]}
            return sse({**body, "usage": None} if with_usage else body)

        try:
            for index in range(self._count):
                first = {"content": None, "refusal": None, **self._chances} if self._chances else None
                yield chunk(index, {"role": "assistant", "content": ""}, None, first)
            async for event in self.run.events():
                index = event.index
                reader = readers[index]
                if isinstance(event, Delta):
                    parts: list[Part] = [Content(event.text)] if reader is None else reader.feed(event.text)
                    logprobs = None
                    if event.tokens and self._request.logprobs:
                        content = [_logprob(self._service.vocabulary, info) for info in event.tokens]
                        logprobs = {"content": content, "refusal": None}
                    told[index] += [part for part in parts if isinstance(part, CallStart | CallEnd)]
                    for part in parts:
                        delta = _delta(part)
                        if delta is not None:
                            yield chunk(index, delta, None, logprobs)
                            logprobs = None
                    if logprobs:  # of a token that changes nothing that is shown
                        yield chunk(index, {"content": ""}, None, logprobs)
                else:
                    for part in [] if reader is None else reader.close():
                        delta = _delta(part)
                        told[index] += [part] if isinstance(part, CallStart | CallEnd) else []
                        if delta is not None:
                            yield chunk(index, delta)
                    yield chunk(index, {}, _reason(event.reason, told[index]), None, event.more)
            if with_usage:
                yield sse({**self._head("chat.completion.chunk"), "choices": [], "usage": self.run.usage()})
            yield sse("[DONE]")
        except ApiError as error:
            self._service.metrics.errors.labels(error.code).inc()
            yield sse(error.body())
        finally:
            self.run.cancel()


def _reason(reason: str, parts: list[Part]) -> str:
    """Why a text ended: ``tool_calls`` if it has calls, and a stop string cut none of them."""
    begun = sum(isinstance(part, CallStart) for part in parts)
    complete = sum(isinstance(part, CallEnd) and part.complete for part in parts)
    return "tool_calls" if reason == "stop" and begun and begun == complete else reason


def _kind(part: CallStart | CallInput) -> tuple[str, str]:
    """The kind of the tool that is called, and the member of a call that holds its input."""
    return ("custom", "input") if part.custom else ("function", "arguments")


def _call(part: CallStart) -> dict[str, Any]:
    """A call without its input."""
    kind, value = _kind(part)
    return {"id": part.id, "type": kind, kind: {"name": part.name, value: ""}}


def _delta(part: Part) -> dict[str, Any] | None:
    """A part of an answer as an event reports it; None if there is nothing to report."""
    if isinstance(part, Content):
        return {"content": part.text}
    if isinstance(part, Reasoning):
        return {"reasoning_content": part.text}
    if isinstance(part, CallStart):
        return {"tool_calls": [{"index": part.number, **_call(part)}]}
    if isinstance(part, CallInput):
        kind, value = _kind(part)
        return {"tool_calls": [{"index": part.number, kind: {value: part.text}}]}
    assert isinstance(part, CallEnd)
    return None


def _gather(parts: list[Part]) -> tuple[str, list[dict[str, Any]]]:
    """The text outside calls, and the calls as a message contains them."""
    content: list[str] = []
    calls: dict[int, dict[str, Any]] = {}
    for part in parts:
        if isinstance(part, Content):
            content.append(part.text)
        elif isinstance(part, CallStart):
            calls[part.number] = _call(part)
        elif isinstance(part, CallInput):
            kind, value = _kind(part)
            calls[part.number][kind][value] += part.text
    return "".join(content), list(calls.values())


def _logprob(vocabulary: Vocabulary, info: TokenLogprob) -> dict[str, Any]:
    top = [{**token_text(vocabulary, token), "logprob": finite(value)} for token, value in info.top]
    return {**token_text(vocabulary, info.token), "logprob": finite(info.logprob), "top_logprobs": top}


async def start_chat(service: Service, contents: Contents, watch: Watches) -> ChatAnswer:
    """Compiles the constraint of a request and submits its texts to the engine.

    Args:
        watch: makes an observer of each text.

    Raises:
        ApiError: the request is wrong, or does not fit.
    """
    request: ChatRequest = contents.request
    service.check_model(request.model)
    count = request.n or 1
    if count > service.options.max_n:
        raise ApiError(
            400, f"n must be at most {service.options.max_n} on this server", code="invalid-request", param="n"
        )
    bias = service.bias(request.logit_bias)
    sampling = service.sampling(request)
    thinking = await service.thinking(contents, "messages")
    drawing = drawing_of(
        request,
        service.options,
        calls=contents.tools is not None,
        reasons=thinking is not None,
        watched=watch is not None,
    )
    recipe = Recipe(contents.ask, contents.tools, thinking)
    plan, guide = await service.guide(recipe, contents.constraint_param("messages"))
    prompt = await service.prompt(contents, "messages")
    spellings = request.guiderail.choice_logprobs
    chances = await choice_logprobs(service, spellings, contents.ask, [prompt], reasons=thinking is not None)
    logprobs = (request.top_logprobs or 0) if request.logprobs else None
    run = await service.start(
        [prompt],
        guide,
        limit=request.limit,
        limit_param="max_completion_tokens" if request.max_tokens is None else "max_tokens",
        on_incomplete=request.guiderail.on_incomplete,
        count=count,
        sampling=sampling,
        param="messages",
        stops=request.stops,
        logprobs=logprobs,
        log_weight=request.guiderail.log_weight,
        drawing=drawing,
        bias=bias,
        penalties=service.penalties(request),
        watch=watch,
    )
    return ChatAnswer(service, request, run, plan, None if chances is None else chances[0])
