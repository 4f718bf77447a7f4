"""Reads the bytes of a request: a function of plain data, which another process can call.

Reading a large body holds the interpreter lock from its first byte to its last: JSON is parsed and checked, and its
constraint is serialized again as a cache key. So a child of the process that compiles reads large requests (see
:mod:`guiderail.server.compile_process`). The result has few objects: texts, however long, and numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from guiderail.generation.rendering import Renderer, Shown
from guiderail.server.bodies import parse_json, uncollected
from guiderail.server.constraints import Ask, ask_of, ask_of_response
from guiderail.server.errors import ApiError
from guiderail.server.json_answers import Raw, answer_json
from guiderail.server.messages import conversation, messages_of
from guiderail.server.schemas import ChatRequest, CompletionRequest, ResponsesRequest
from guiderail.server.tools import ToolSet, chat_tools, response_tools
from guiderail.server.validation import from_validation

__all__ = ["LARGE", "Contents", "Manner", "read_contents", "read_light", "show"]

LARGE = 32 << 10
"""Bytes of a body that is read by another process."""

_FORMS: dict[str, type[BaseModel]] = {
    "chat": ChatRequest,
    "completions": CompletionRequest,
    "responses": ResponsesRequest,
}
_ECHOED = ("text", "tools", "tool_choice", "metadata")  # parts of the request that a response repeats
_DONE_WITH = (
    "messages", "input", "tools", "tool_choice", "text", "metadata", "response_format", "structured_outputs",
    "guided_json", "guided_regex", "guided_choice", "guided_grammar", "regex", "ebnf",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Manner:
    """How requests are read.

    Attributes:
        tool_format: the format of the model's tool calls.
        renderer: renders conversations.
        most_values: maximum number of JSON values in a request.
    """

    tool_format: str
    renderer: Renderer
    most_values: int


@dataclass(slots=True)
class Contents:
    """The contents of a request.

    Attributes:
        request: the request; what the other attributes contain may be missing in it.
        ask: the constraint on the text.
        tools: the tools that may be called.
        shown: the rendered conversation; None: it is still in the request, or there is none.
    """

    request: Any
    ask: Ask | None
    tools: ToolSet | None
    shown: Shown | None = None

    def constraint_param(self, otherwise: str) -> str:
        """The parameter of the request that the constraint comes from; ``otherwise`` if there is no constraint."""
        return "tools" if self.tools is not None else self.ask.param if self.ask is not None else otherwise


def read_contents(kind: str, body: bytes, manner: Manner) -> Contents:
    """Reads a request.

    Args:
        kind: the kind of interface: ``chat``, ``completions``, ``responses``.

    Raises:
        ApiError: 400: it is malformed; 413: it has too many values.
    """
    with uncollected():
        request: Any = _parsed(body, _FORMS[kind], manner.most_values)
        if kind == "completions":
            return Contents(request, ask_of(request), None)
        chat = kind == "chat"
        find_tools = chat_tools if chat else response_tools
        ask = ask_of(request) if chat else ask_of_response(request)
        tools = find_tools(request.tools, request.tool_choice, request.parallel_tool_calls, manner.tool_format)
        return Contents(request, ask, tools)


def show(contents: Contents, renderer: Renderer) -> Shown:
    """Renders the conversation of a request.

    Raises:
        ApiError, ModelError: it cannot be shown to the model.
    """
    if contents.shown is not None:
        return contents.shown
    request, tools = contents.request, contents.tools
    messages = request.messages if isinstance(request, ChatRequest) else messages_of(request)
    return renderer.show(conversation(messages, tools, renderer), None if tools is None else tools.functions)


def read_light(kind: str, body: bytes, manner: Manner) -> Contents:
    """Reads and renders a request, and drops from it what is no longer needed."""
    contents = read_contents(kind, body, manner)
    if kind != "completions":
        contents.shown = show(contents, manner.renderer)
    request = contents.request
    rest: dict[str, Any] = {name: None for name in _DONE_WITH if name in type(request).model_fields}
    if kind == "responses":
        rest |= {name: Raw(answer_json(value)) for name in _ECHOED if (value := getattr(request, name)) is not None}
    contents.request = request.model_copy(update=rest)
    return contents


def _parsed(body: bytes, form: type[BaseModel], values: int) -> BaseModel:
    data = parse_json(body, values)
    try:
        return form.model_validate(data)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_input=False)
        raise from_validation(problems, data, form) from None
    except RecursionError:
        raise ApiError(400, "the body is nested too deeply; flatten it", code="invalid-json") from None
