"""``POST /v1/responses``. Nothing is stored, so ``previous_response_id`` is rejected."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncIterator
from typing import Any

from guiderail.server.contents import Contents
from guiderail.server.errors import ApiError
from guiderail.server.json_answers import sse
from guiderail.server.parts import CallEnd, CallStart, Content, Part, Reader, Reasoning
from guiderail.server.recipes import Recipe
from guiderail.server.rows import Delta
from guiderail.server.schemas import ResponsesRequest
from guiderail.server.service import Run, Service, Watches
from guiderail.server.tools import ToolPlan

__all__ = ["ResponseAnswer", "start_response"]


def _id(kind: str) -> str:
    return f"{kind}_{secrets.token_hex(16)}"


def _input_of(item: dict[str, Any]) -> tuple[str, str]:
    """The member of a call that holds its input, and the name of the events about it."""
    return ("input", "custom_tool_call_input") if "input" in item else ("arguments", "function_call_arguments")


class _Output:
    """The items of a response as they grow, and their events."""

    def __init__(self) -> None:
        self.items: list[dict[str, Any]] = []
        self._open: dict[str, Any] | None = None  # the message or the reasoning that is being written
        self._calls: dict[int, dict[str, Any]] = {}

    @property
    def reasons(self) -> bool:
        """Whether there is reasoning."""
        return any(item["type"] == "reasoning" for item in self.items)

    def _place(self, item: dict[str, Any]) -> int:
        return next(i for i, known in enumerate(self.items) if known is item)

    def add(self, part: Part) -> list[dict[str, Any]]:
        """Adds a part; returns its events."""
        if isinstance(part, Content | Reasoning):
            return self._write("message" if isinstance(part, Content) else "reasoning", part.text) if part.text else []
        if isinstance(part, CallStart):
            return self._close_text("completed") + self._start(part)
        item = self._calls[part.number]
        if isinstance(part, CallEnd):
            return self._end(item, "completed" if part.complete else "incomplete")
        name, event = _input_of(item)
        item[name] += part.text
        where = {"item_id": item["id"], "output_index": self._place(item)}
        return [{"type": f"response.{event}.delta", **where, "delta": part.text}]

    def _end(self, item: dict[str, Any], status: str) -> list[dict[str, Any]]:
        """Ends a call."""
        name, event = _input_of(item)
        where = {"item_id": item["id"], "output_index": self._place(item)}
        item["status"] = status
        done = {"type": f"response.{event}.done", **where, name: item[name]}
        if name == "arguments":
            done["name"] = item["name"]
        return [done, {"type": "response.output_item.done", "output_index": self._place(item), "item": dict(item)}]

    def _start(self, part: CallStart) -> list[dict[str, Any]]:
        item: dict[str, Any]
        if part.custom:
            item = {"type": "custom_tool_call", "id": _id("ctc"), "call_id": part.id, "name": part.name, "input": ""}
        else:
            item = {"type": "function_call", "id": _id("fc"), "call_id": part.id, "name": part.name, "arguments": ""}
        item["status"] = "in_progress"
        self.items.append(item)
        self._calls[part.number] = item
        return [{"type": "response.output_item.added", "output_index": len(self.items) - 1, "item": dict(item)}]

    def _write(self, kind: str, text: str) -> list[dict[str, Any]]:
        """Continues a message or reasoning, or begins it if something else was being written."""
        events = []
        if self._open is None or self._open["type"] != kind:
            events = [*self._close_text("completed"), *self._begin(kind)]
        assert self._open is not None
        part = self._open["content"][0]
        part["text"] += text
        delta = {"type": f"response.{part['type']}.delta", **self._where(), "delta": text}
        return [*events, {**delta, "logprobs": []} if kind == "message" else delta]

    def _begin(self, kind: str) -> list[dict[str, Any]]:
        item: dict[str, Any]
        part: dict[str, Any]
        if kind == "message":
            item = {"type": kind, "id": _id("msg"), "status": "in_progress", "role": "assistant", "content": []}
            part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
        else:
            item = {"type": kind, "id": _id("rs"), "status": "in_progress", "summary": [], "content": []}
            part = {"type": "reasoning_text", "text": ""}
        self._open = item
        self.items.append(item)
        added = {"type": "response.output_item.added", "output_index": len(self.items) - 1}
        event = {**added, "item": {**item, "content": []}}
        self._open["content"].append(part)
        return [event, {"type": "response.content_part.added", **self._where(), "part": dict(part)}]

    def _where(self) -> dict[str, Any]:
        assert self._open is not None
        return {"item_id": self._open["id"], "output_index": self._place(self._open), "content_index": 0}

    def _close_text(self, status: str) -> list[dict[str, Any]]:
        if self._open is None:
            return []
        part = self._open["content"][0]
        where = self._where()
        self._open["status"] = status
        item, self._open = self._open, None
        done = {"type": f"response.{part['type']}.done", **where, "text": part["text"]}
        return [
            {**done, "logprobs": []} if item["type"] == "message" else done,
            {"type": "response.content_part.done", **where, "part": dict(part)},
            {"type": "response.output_item.done", "output_index": where["output_index"], "item": dict(item)},
        ]

    def close(self, status: str) -> list[dict[str, Any]]:
        """Ends the open item; a response always has at least one. A call that is open was cut, whatever the status."""
        events = [] if self.items else self._write("message", "")
        events += self._close_text(status)
        for item in self._calls.values():
            if item["status"] == "in_progress":
                events += self._end(item, "incomplete")
        return events


class ResponseAnswer:
    """A running response, returned whole or as events."""

    def __init__(self, service: Service, request: ResponsesRequest, run: Run, plan: ToolPlan | None) -> None:
        self._service, self._request, self.run = service, request, run
        self._reader: Reader | None = None if plan is None else plan.reader()
        self._output = _Output()
        self._id = _id("resp")
        self._created = int(time.time())
        self._thought: int | None = None  # tokens before the answer began; None: it has not begun

    def _body(self, status: str, **more: Any) -> dict[str, Any]:
        request = self._request
        return {
            "id": self._id,
            "object": "response",
            "created_at": self._created,
            "status": status,
            "error": None,
            "incomplete_details": None,
            "instructions": request.instructions,
            "max_output_tokens": request.max_output_tokens,
            "model": self._service.name,
            "output": self._output.items,
            "parallel_tool_calls": request.parallel_tool_calls is not False,
            "previous_response_id": None,
            "reasoning": {"effort": request.effort, "summary": None},
            "store": False,
            "temperature": 1.0 if request.temperature is None else request.temperature,
            "text": request.text or {"format": {"type": "text"}},
            "tool_choice": request.tool_choice or "auto",
            "tools": request.tools or [],
            "top_p": 1.0 if request.top_p is None else request.top_p,
            "truncation": "disabled",
            "usage": None,
            "user": request.user,
            "metadata": request.metadata or {},
            **more,
        }

    def _final(self, reason: str) -> dict[str, Any]:
        thought = self._thought
        if thought is None:  # no answer has begun
            thought = self.run.completion_tokens if self._output.reasons else 0
        usage = {
            "input_tokens": self.run.prompt_tokens,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": self.run.completion_tokens,
            "output_tokens_details": {"reasoning_tokens": thought},
            "total_tokens": self.run.prompt_tokens + self.run.completion_tokens,
        }
        if reason == "length":
            return self._body("incomplete", incomplete_details={"reason": "max_output_tokens"}, usage=usage)
        return self._body("completed", usage=usage, completed_at=int(time.time()))

    async def _parts(self) -> AsyncIterator[tuple[list[Part], str | None]]:
        """Yields parts as they arrive; the last one comes with the reason why the text ended."""
        reader = self._reader
        before = 0  # tokens of the events before
        async for event in self.run.events():
            parts: list[Part]
            if isinstance(event, Delta):
                parts = [Content(event.text)] if reader is None else reader.feed(event.text)
            else:
                parts = [] if reader is None else reader.close()
            if self._thought is None and any(not isinstance(part, Reasoning) for part in parts):
                self._thought = before if self._output.reasons else 0
            if isinstance(event, Delta):
                before = event.count
                yield parts, None
            else:
                yield parts, event.reason

    async def whole(self) -> dict[str, Any]:
        """The complete answer, after all of it is written."""
        reason = "stop"
        async for parts, end in self._parts():
            for part in parts:
                self._output.add(part)
            reason = end or reason
        self._output.close("incomplete" if reason == "length" else "completed")
        return self._final(reason)

    async def events(self) -> AsyncIterator[bytes]:
        """The answer as server-sent events."""
        number = -1

        def tell(event: dict[str, Any]) -> bytes:
            nonlocal number
            number += 1
            return sse({**event, "sequence_number": number}, event["type"])

        reason = "stop"
        try:
            yield tell({"type": "response.created", "response": self._body("in_progress")})
            yield tell({"type": "response.in_progress", "response": self._body("in_progress")})
            async for parts, end in self._parts():
                for part in parts:
                    for event in self._output.add(part):
                        yield tell(event)
                reason = end or reason
            for event in self._output.close("incomplete" if reason == "length" else "completed"):
                yield tell(event)
            final = self._final(reason)
            yield tell({"type": f"response.{final['status']}", "response": final})
        except ApiError as error:
            self._service.metrics.errors.labels(error.code).inc()
            failure = {"code": error.code, "message": error.message}
            yield tell({"type": "response.failed", "response": self._body("failed", error=failure)})
        finally:
            self.run.cancel()


async def start_response(service: Service, contents: Contents, watch: Watches) -> ResponseAnswer:
    """Compiles the constraint of a request and submits its text to the engine.

    Args:
        watch: makes an observer of each text.

    Raises:
        ApiError: the request is wrong, or does not fit.
    """
    request: ResponsesRequest = contents.request
    service.check_model(request.model)
    thinking = await service.thinking(contents, "input")
    recipe = Recipe(contents.ask, contents.tools, thinking)
    plan, guide = await service.guide(recipe, contents.constraint_param("input"))
    prompt = await service.prompt(contents, "input")
    run = await service.start(
        [prompt],
        guide,
        limit=request.max_output_tokens,
        limit_param="max_output_tokens",
        on_incomplete=request.guiderail.on_incomplete,
        sampling=service.sampling(request),
        param="input",
        watch=watch,
    )
    return ResponseAnswer(service, request, run, plan)
