"""Converts messages as clients send them into what a chat template reads."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from guiderail.server.bodies import refuse_surrogates
from guiderail.server.errors import ApiError
from guiderail.server.schemas import Message
from guiderail.support.json_objects import loads, unique_names
from guiderail.support.numerals import refuse_constant

if TYPE_CHECKING:
    from guiderail.generation.rendering import Renderer
    from guiderail.server.schemas import ResponsesRequest
    from guiderail.server.tools import ToolSet

__all__ = ["conversation", "messages_of", "text_of"]

_TEXT_PARTS = ("text", "input_text", "output_text")
_WITH_CONTENT = ("system", "developer", "user", "tool")  # others may be calls alone


def text_of(content: Any, param: str) -> str:
    """Returns the text of a message's content, whose parts must all be text.

    Raises:
        ApiError: 400 ``unsupported-content`` for images, sounds, files.
    """
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise ApiError(
            400, f"{param} must be a string or a list of parts, not {type(content).__name__}", code="invalid-request",
            param=param,
        )  # fmt: skip
    texts = []
    for i, part in enumerate(content):
        kind = part.get("type") if isinstance(part, dict) else None
        text = part.get("refusal" if kind == "refusal" else "text") if isinstance(part, dict) else None
        if kind not in (*_TEXT_PARTS, "refusal") or not isinstance(text, str):
            raise ApiError(
                400,
                f"{param}[{i}]: a part of type {kind!r} cannot be shown to this model; only text can",
                code="unsupported-content",
                param=param,
            )
        texts.append(text)
    return "".join(texts)


def messages_of(request: ResponsesRequest) -> list[Message]:
    """Returns the items of the input as messages."""
    messages = [] if request.instructions is None else [Message(role="system", content=request.instructions)]
    if isinstance(request.input, str):
        return [*messages, Message(role="user", content=request.input)]
    for i, item in enumerate(request.input):
        _add(messages, item, f"input.{i}")
    if not messages:
        raise ApiError(400, "input: there is nothing to answer", code="invalid-request", param="input")
    return messages


def _add(messages: list[Message], item: dict[str, Any], param: str) -> None:
    """Adds an item of the input: a message, or a part of the model's turn that is the last message."""
    kind = item.get("type", "message")
    last = messages[-1] if messages and messages[-1].role == "assistant" else None
    begun = last is not None and not last.content and not last.tool_calls  # it has reasoning only
    if kind == "reasoning":
        thought = _thought(item, param)
        if last is not None and begun:
            thought = (last.model_extra or {}).get("reasoning_content", "") + thought
            messages.pop()
        turn = {"role": "assistant", "content": "", "reasoning_content": thought}
        messages.append(Message.model_validate(turn))
    elif kind == "message":
        role = item.get("role")
        if role not in ("system", "developer", "user", "assistant"):
            raise ApiError(
                400,
                f"{param}: the role must be system, developer, user or assistant, not {role!r}",
                code="invalid-request",
                param=param,
            )
        text = text_of(item.get("content"), f"{param}.content")
        if role == "assistant" and last is not None and begun:
            last.content = text
        else:
            messages.append(Message(role=role, content=text))
    elif kind in ("function_call", "custom_tool_call"):
        inner, value = ("function", "arguments") if kind == "function_call" else ("custom", "input")
        call = {
            "id": str(item.get("call_id", "")),
            "type": inner,
            inner: {"name": item.get("name"), value: item.get(value, "")},
        }
        _call(call, param)  # an error names the item, and not the message that it becomes
        if last is not None:
            last.tool_calls = [*(last.tool_calls or []), call]
        else:
            messages.append(Message(role="assistant", tool_calls=[call]))
    elif kind in ("function_call_output", "custom_tool_call_output"):
        output = text_of(item.get("output"), f"{param}.output")
        messages.append(Message(role="tool", tool_call_id=str(item.get("call_id", "")), content=output))
    else:
        raise ApiError(
            400, f"{param}: items of type {kind!r} cannot be shown to this model", code="unsupported-content",
            param=param,
        )  # fmt: skip


def _thought(item: dict[str, Any], param: str) -> str:
    """The reasoning of an earlier turn: as this server returned it, or another server's summary of it."""
    content = item.get("content") or item.get("summary") or []
    texts = (
        [part.get("text") if isinstance(part, dict) else None for part in content]
        if isinstance(content, list)
        else [None]
    )
    if not all(isinstance(text, str) for text in texts) or (not texts and item.get("encrypted_content")):
        raise ApiError(
            400, f"{param}: reasoning is shown to this model as the text of its content or summary, and this item has "
            "neither; leave the item out", code="unsupported-content", param=param,
        )  # fmt: skip
    return "".join(text for text in texts if text)


def conversation(messages: Sequence[Message], tools: ToolSet | None, template: Renderer) -> list[dict[str, Any]]:
    """Returns messages for a template: contents are texts, arguments of calls are objects.

    If the template does not support tools, the system message describes them, and calls and their results become text.
    """
    shown: list[dict[str, Any]] = []
    plain = not template.knows_tools
    for i, message in enumerate(messages):
        param = f"messages.{i}"
        if message.content is None and message.role in _WITH_CONTENT:
            raise ApiError(
                400, f"{param}.content: a message of the role {message.role} needs one", code="invalid-request",
                param=f"{param}.content",
            )  # fmt: skip
        turn = {**message.model_dump(exclude_none=True), "content": text_of(message.content, f"{param}.content")}
        if turn["role"] == "developer" and not template.knows_developer:
            turn["role"] = "system"
        if turn["role"] == "function":
            turn["role"] = "tool"
        if turn.get("tool_calls"):
            calls = [_call(call, f"{param}.tool_calls.{k}") for k, call in enumerate(turn["tool_calls"])]
            if plain:
                del turn["tool_calls"]
                written = "\n".join(_written(call) for call in calls)
                turn["content"] = f"{turn['content']}\n{written}".strip()
            else:
                turn["tool_calls"] = calls
        if plain and turn["role"] == "tool":
            turn = {"role": "user", "content": f"<tool_response>\n{turn['content']}\n</tool_response>"}
        shown.append(turn)
    if tools is not None and (plain or tools.customs):
        _describe(shown, tools.description(with_functions=plain))
    return shown


def _describe(shown: list[dict[str, Any]], text: str) -> None:
    """Adds the description of tools to the system message."""
    if shown and shown[0]["role"] == "system":
        shown[0] = {**shown[0], "content": f"{shown[0]['content']}\n\n{text}".strip()}
    else:
        shown.insert(0, {"role": "system", "content": text})


def _call(call: dict[str, Any], param: str) -> dict[str, Any]:
    """A call of an earlier turn, with its arguments parsed."""
    kind = call.get("type", "function")
    inner = call.get(kind) if kind in ("function", "custom") else None
    if not isinstance(inner, dict) or not isinstance(inner.get("name"), str):
        raise ApiError(400, f"{param}: this is not a call of a function or a custom tool", code="invalid-request",
                       param=param)  # fmt: skip
    if kind == "custom":
        arguments: Any = {"input": inner.get("input", "")}
        if not isinstance(arguments["input"], str):
            raise ApiError(400, f"{param}.custom.input: this must be a string", code="invalid-request", param=param)
    else:
        arguments = inner.get("arguments", "")
        if not isinstance(arguments, str | dict):
            raise ApiError(
                400, f"{param}.function.arguments: this must be JSON, in a string", code="invalid-request", param=param
            )
        if isinstance(arguments, str):
            arguments = _parsed(arguments or "{}", f"{param}.function.arguments", param)
    return {"id": call.get("id", ""), "type": "function", "function": {"name": inner["name"], "arguments": arguments}}


def _parsed(text: str, place: str, param: str) -> Any:
    try:
        value = loads(text, parse_constant=refuse_constant, object_pairs_hook=unique_names)
    except ValueError as error:
        raise ApiError(400, f"{place}: this is not JSON: {error}", code="invalid-request", param=param) from None
    refuse_surrogates(value, text, place)
    return value


def _written(call: dict[str, Any]) -> str:
    return f"<tool_call>\n{json.dumps(call['function'], ensure_ascii=False)}\n</tool_call>"
