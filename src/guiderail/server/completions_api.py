"""``POST /v1/completions``: the older interface, which continues a prompt without a chat template."""

from __future__ import annotations

import codecs
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
from guiderail.server.recipes import Recipe
from guiderail.server.rows import Delta, finite, token_bytes
from guiderail.server.schemas import CompletionRequest
from guiderail.server.service import Run, Service, Watches

__all__ = ["CompletionAnswer", "start_completion"]


class CompletionAnswer:
    """A running completion, returned whole or as events."""

    def __init__(
        self, service: Service, request: CompletionRequest, run: Run, count: int, chances: list[ChoiceLogprobs] | None
    ) -> None:
        self._service, self._request, self.run, self._count = service, request, run, count
        self._chances = chances
        self._id = f"cmpl-{uuid.uuid4().hex}"
        self._created = int(time.time())

    def _body(self, choices: list[dict[str, Any]]) -> dict[str, Any]:
        head = {"id": self._id, "object": "text_completion", "created": self._created, "model": self._service.name}
        return {**head, "choices": choices}

    async def whole(self) -> dict[str, Any]:
        """The complete answer, after all of it is written."""
        choices = []
        for i, text in enumerate(await self.run.texts(self._count)):
            assert text.end is not None
            logprobs = None if self._request.logprobs is None else self._logprobs(text.tokens, _Places())
            logprobs = self._with_chances(logprobs, i)
            choices.append(_choice(i, text.text, logprobs, text.end.reason, text.end.more))
        return {**self._body(choices), "usage": self.run.usage()}

    async def events(self) -> AsyncIterator[bytes]:
        """The answer as server-sent events."""
        options = self._request.stream_options
        with_usage = bool(options and options.include_usage)
        places = [_Places() for _ in range(self._count)]
        began = [False] * self._count

        def chunk(
            index: int, text: str, reason: str | None = None, logprobs: Any = None, more: dict[str, Any] | None = None
        ) -> bytes:
            body = self._body([_choice(index, text, logprobs, reason, more)])
            return sse({**body, "usage": None} if with_usage else body)

        try:
            async for event in self.run.events():
                if isinstance(event, Delta):
                    content = self._logprobs(list(event.tokens), places[event.index]) if event.tokens else None
                    if not began[event.index]:
                        began[event.index] = True
                        content = self._with_chances(content, event.index)
                    yield chunk(event.index, event.text, None, content)
                else:
                    yield chunk(event.index, "", event.reason, None, event.more)
            if with_usage:
                yield sse({**self._body([]), "usage": self.run.usage()})
            yield sse("[DONE]")
        except ApiError as error:
            self._service.metrics.errors.labels(error.code).inc()
            yield sse(error.body())
        finally:
            self.run.cancel()

    def _with_chances(self, logprobs: dict[str, Any] | None, index: int) -> dict[str, Any] | None:
        """The answer with the log-probabilities of whole choices, if requested."""
        if self._chances is None:
            return logprobs
        return {**(logprobs or {}), "choices": self._chances[index // (self._request.n or 1)]}

    def _logprobs(self, tokens: list[TokenLogprob], places: _Places) -> dict[str, Any]:
        """Log-probabilities in the older form: parallel lists. ``text_offset`` counts characters of the text."""
        vocabulary = self._service.vocabulary
        logprobs: dict[str, list[Any]] = {"tokens": [], "token_logprobs": [], "top_logprobs": [], "text_offset": []}
        for info in tokens:
            top: dict[str, float | None] = {}
            for token, value in info.top:  # of tokens with the same text, the more likely one
                top.setdefault(_name(token_bytes(vocabulary, token)), finite(value))
            logprobs["tokens"].append(_name(token_bytes(vocabulary, info.token)))
            logprobs["token_logprobs"].append(finite(info.logprob))
            logprobs["top_logprobs"].append(top)
            logprobs["text_offset"].append(places.next(token_bytes(vocabulary, info.token)))
        return logprobs


class _Places:
    """The positions of tokens in a text, in characters; a token inside a character is at that character."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._at = 0

    def next(self, token: bytes) -> int:
        at = self._at
        self._at += len(self._decoder.decode(token))
        return at


def _name(token: bytes) -> str:
    """A token in this form, which has no bytes: its text, or ``bytes:\\xf0\\x9f`` if that is not UTF-8."""
    try:
        return token.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in token)


def _choice(index: int, text: str, logprobs: Any, reason: str | None, more: dict[str, Any] | None) -> dict[str, Any]:
    choice = {"index": index, "text": text, "logprobs": logprobs, "finish_reason": reason}
    return choice if more is None else {**choice, "guiderail": more}


async def start_completion(service: Service, contents: Contents, watch: Watches) -> CompletionAnswer:
    """Compiles the constraint of a request and submits its texts to the engine.

    Args:
        watch: makes an observer of each text.

    Raises:
        ApiError: the request is wrong, or does not fit.
    """
    request: CompletionRequest = contents.request
    service.check_model(request.model)
    given = request.prompt
    single = isinstance(given, str) or (len(given) > 0 and isinstance(given[0], int))
    prompts: list[Any] = [given] if single else list(given)
    count = len(prompts) * (request.n or 1)
    if not 1 <= count <= service.options.max_n:
        most = service.options.max_n
        raise ApiError(
            400, f"prompts times n must be from 1 to {most} on this server", code="invalid-request", param="prompt"
        )
    bias = service.bias(request.logit_bias)
    sampling = service.sampling(request)
    drawing = drawing_of(request, service.options, watched=watch is not None)
    _, guide = await service.guide(Recipe(contents.ask), contents.constraint_param("prompt"))

    def encode() -> list[list[int]]:
        rows = [p if isinstance(p, list) else service.model.encode(p, chat=False) for p in prompts]
        if any(not 0 <= token < service.model.logits_size for row in rows for token in row):
            raise ApiError(
                400, "prompt: there are token ids that the model does not have", code="bad-token", param="prompt"
            )
        return rows

    ids = await service.threaded(encode, "prompt")
    chances = await choice_logprobs(service, request.guiderail.choice_logprobs, contents.ask, ids)
    run = await service.start(
        ids,
        guide,
        limit=request.max_tokens,
        limit_param="max_tokens",
        on_incomplete=request.guiderail.on_incomplete,
        count=request.n or 1,
        sampling=sampling,
        param="prompt",
        stops=request.stops,
        logprobs=request.logprobs,
        log_weight=request.guiderail.log_weight,
        drawing=drawing,
        bias=bias,
        penalties=service.penalties(request),
        watch=watch,
    )
    return CompletionAnswer(service, request, run, count, chances)
