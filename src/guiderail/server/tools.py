"""The tools of a request, and how the model must or may call them."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from guiderail.constraints.constraint import Constraint
from guiderail.frontends.tools.errors import ToolTextError
from guiderail.frontends.tools.recognized import recognized_format
from guiderail.generation.rendering import Renderer, Shown
from guiderail.server.custom_tools import TaggedReader, custom_inputs, tagged_constraint
from guiderail.server.errors import ApiError
from guiderail.server.parts import CallEnd, CallInput, CallStart, Content, Part, Reader, Reasoning, call_id
from guiderail.server.validation import unknown_member
from guiderail.support.suggestions import suggestion
from guiderail.support.texts import clipped, shown

if TYPE_CHECKING:
    from guiderail.frontends.tools.reader import ToolCallReader, ToolDelta
    from guiderail.frontends.tools.tool_calls import ToolCalls
    from guiderail.server.reasoning import Thinking
    from guiderail.vocabulary import Vocabulary

__all__ = [
    "ToolPlan",
    "ToolSet",
    "chat_tools",
    "response_tools",
    "tool_format_of",
]

_log = logging.getLogger("guiderail.server")
_NAME = re.compile(r"[A-Za-z0-9_.\-]{1,128}")
_MODES = ("auto", "required", "none")
_DESCRIBED = "hermes"  # the format in which ToolSet.description asks for calls
# The meaning of missing parameters.
_NO_PARAMETERS = {"type": "object", "properties": {}, "additionalProperties": False}


@dataclass(frozen=True, slots=True)
class ToolSet:
    """The tools of a request; plain data, so that equal requests share a compiled constraint.

    Attributes:
        text: JSON of the tools, in the form of chat completions.
        choice: ``auto`` or ``required``.
        only: the one tool that must be called, or None.
        parallel: whether several calls are allowed.
        format: the format of calls, as for :func:`guiderail.tool_calls`. If there are custom tools, calls are written
            as in :mod:`guiderail.server.custom_tools` instead.
    """

    text: str
    choice: str
    only: str | None
    parallel: bool
    format: str

    @property
    def all(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.text)
        return found

    @property
    def functions(self) -> list[dict[str, Any]]:
        return [tool for tool in self.all if tool["type"] == "function"]

    @property
    def customs(self) -> list[dict[str, Any]]:
        return [tool for tool in self.all if tool["type"] == "custom"]

    def description(self, *, with_functions: bool) -> str:
        """A description of the tools for models whose template does not show them."""
        lines = []
        functions = [tool["function"] for tool in self.functions]
        if functions and with_functions:
            lines.append("You can call these functions:")
            lines += [json.dumps(function, ensure_ascii=False) for function in functions]
            lines.append('To call one, write:\n<tool_call>\n{"name": "…", "arguments": {…}}\n</tool_call>')
        for tool in self.customs:
            custom = tool["custom"]
            lines.append(f"You can use the tool {custom['name']}: {custom.get('description', '')}".rstrip(": "))
            format = custom.get("format") or {}
            if format.get("type") == "grammar":
                grammar = format["grammar"]
                lines.append(f"Its input follows this {grammar['syntax']} grammar:\n{grammar['definition']}")
            lines.append(f'To use it, write:\n<custom_tool_call name="{custom["name"]}">\n…\n</custom_tool_call>')
        return "\n".join(lines)


class ToolPlan:
    """The constraint of tools and reasoning, and how texts under it are read.

    Args:
        tools: the tools of a request, or None.
        text: the constraint on text without tool calls; None: any text.
        vocabulary: the model's vocabulary.
        thinking: the reasoning before the text, or None.

    Raises:
        GuiderailError: a tool cannot be used; the message names it.
        ApiError: 400: there are both reasoning and custom tools, for which models have no format.
    """

    def __init__(
        self, tools: ToolSet | None, text: Constraint | None, vocabulary: Vocabulary, thinking: Thinking | None
    ) -> None:
        from guiderail.frontends.tools import tool_calls

        functions = [] if tools is None else tools.functions
        customs = [] if tools is None else [tool["custom"] for tool in tools.customs]
        self._calls: ToolCalls | None = None
        self.constraint: Constraint
        if not customs:
            self.constraint = self._calls = tool_calls(
                functions,
                format=tools.format if tools is not None else thinking.format if thinking is not None else "hermes",
                choice="none" if tools is None else tools.only or tools.choice,
                parallel=tools is None or tools.parallel,
                reasoning="none" if thinking is None else thinking.mode,
                max_reasoning_tokens=None if thinking is None else thinking.tokens,
                content=text,
                vocabulary=vocabulary,
                on_bad_tool="error",
                extra_arguments=True,  # the schema means exactly what it says
            )
            return
        assert tools is not None
        if thinking is not None:
            raise ApiError(
                400, "reasoning and custom tools cannot be combined here; leave one of them out",
                code="invalid-request", param="tools",
            )  # fmt: skip
        must = tools.choice == "required"
        named = [tool["function"] for tool in functions]
        if tools.only is not None:
            named = [one for one in named if one["name"] == tools.only]
            customs = [one for one in customs if one["name"] == tools.only]
        self._functions = [one["name"] for one in named]
        self._customs = custom_inputs(customs)
        calls = tagged_constraint(
            named,
            self._customs,
            required=must or text is not None,
            parallel=tools.parallel and tools.only is None,
        )
        self.constraint = calls if text is None or must else calls | text

    def reader(self) -> Reader:
        """Returns a reader of one text."""
        if self._calls is not None:
            return _FormatReader(self._calls.reader())
        return TaggedReader(self._functions, self._customs)


class _FormatReader:
    """Turns the results of a format's reader into parts of an answer."""

    def __init__(self, reader: ToolCallReader) -> None:
        self._reader = reader

    def feed(self, text: str) -> list[Part]:
        return self._parts(self._reader.feed(text))

    def close(self) -> list[Part]:
        try:
            return self._parts(self._reader.close())
        except ToolTextError:  # the tokens ran out inside a call, whose beginning has been sent
            return []

    def _parts(self, deltas: Sequence[ToolDelta]) -> list[Part]:
        parts: list[Part] = []
        for delta in deltas:
            if delta.kind == "call":
                # Ids that models make up are unique in a text at best; clients want them unique in a conversation.
                parts.append(CallStart(delta.index, call_id(), delta.name, False))
            elif delta.kind == "arguments":
                parts.append(CallInput(delta.index, delta.text, False))
            elif delta.kind == "end":
                parts.append(CallEnd(delta.index))
            elif delta.text:
                parts.append(Reasoning(delta.text) if delta.kind == "reasoning" else Content(delta.text))
        return parts


def tool_format_of(renderer: Renderer, written: Callable[[Shown], str]) -> str:
    """Returns the format of a model's calls: the one that can read the calls that its chat template renders.

    If the template does not show tools, the server describes them itself and asks for calls in the format ``hermes``.

    Args:
        written: what the renderer has made → its text.
    """
    if not renderer.knows_tools:
        return _DESCRIBED

    def show(messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> str:
        return written(renderer.show(messages, tools))

    found = recognized_format(renderer.source or "", show)
    if found is None:
        _log.warning(
            "no known tool-call format reads what the chat template makes of calls, so the model must write the "
            "format %s, which it may not have learned; name its own with --tool-format (guiderail.tool_formats() "
            "lists them), or none if no tools are used",
            _DESCRIBED,
        )
    return found or _DESCRIBED


def _wrong(message: str, param: str) -> ApiError:
    return ApiError(400, f"{param}: {message}", code="invalid-tool", param=param)


def chat_tools(
    tools: Sequence[Mapping[str, Any]] | None,
    choice: str | Mapping[str, Any] | None,
    parallel: bool | None,
    format: str,
) -> ToolSet | None:
    """Returns the tools of a chat request; None if there are none or none may be called.

    Raises:
        ApiError: 400: a tool or the choice is malformed; ``param`` says which.
    """
    if not tools:
        if choice not in (None, "none", "auto"):
            raise ApiError(400, "tool_choice requires a call, but there are no tools", code="invalid-tool",
                           param="tool_choice")  # fmt: skip
        return None
    made = [_tool(tool, f"tools.{i}") for i, tool in enumerate(tools)]
    names = [tool[tool["type"]]["name"] for tool in made]
    for i, name in enumerate(names):
        if name in names[:i]:
            raise _wrong(f"another tool has the name {name!r}", f"tools.{i}")
    mode, only = "auto", None
    if isinstance(choice, str):
        if choice not in _MODES:
            raise _wrong(f"it must be auto, required, none or the name of a tool, not {choice!r}", "tool_choice")
        mode = choice
    elif choice is not None:
        kind = choice.get("type")
        if kind == "allowed_tools":
            mode, allowed = _allowed(choice, names)
            made = [tool for tool in made if tool[tool["type"]]["name"] in allowed]
        else:
            inner = choice.get(kind) if isinstance(kind, str) else None
            name = inner.get("name") if isinstance(inner, Mapping) else None
            if kind not in ("function", "custom") or not any(
                tool["type"] == kind and tool[kind]["name"] == name for tool in made
            ):
                raise _wrong(_no_tool(choice, name, names), "tool_choice")
            mode, only = "required", str(name)
    if mode == "none":
        return None
    text = json.dumps(made, ensure_ascii=False, separators=(",", ":"))
    return ToolSet(text, mode, only, parallel is not False, format)


def _no_tool(choice: Mapping[str, Any], name: Any, names: Sequence[str]) -> str:
    if not isinstance(name, str):
        return f"there is no such tool: {clipped(json.dumps(choice), 200)}; name one of {', '.join(names)}"
    if name in names:
        return f"the tool {name!r} is not of the type {choice['type']}; pass the type that it has"
    return f"there is no tool {shown(name)}; {suggestion(name, names)}"


def _allowed(choice: Mapping[str, Any], names: Sequence[str]) -> tuple[str, set[str]]:
    inner = choice.get("allowed_tools", choice)
    mode = inner.get("mode", "auto") if isinstance(inner, Mapping) else None
    listed = inner.get("tools") if isinstance(inner, Mapping) else None
    if mode not in ("auto", "required") or not isinstance(listed, list) or not listed:
        raise _wrong("allowed_tools must have a mode, auto or required, and a list of tools", "tool_choice")
    allowed = set()
    for tool in listed:
        kind = tool.get("type") if isinstance(tool, Mapping) else None
        named = tool.get(kind, tool) if kind in ("function", "custom") else {}
        name = named.get("name") if isinstance(named, Mapping) else None
        if name not in names:
            raise _wrong(f"there is no tool {shown(name)}; {suggestion(name, names)}", "tool_choice")
        allowed.add(str(name))
    return mode, allowed


def _tool(tool: Mapping[str, Any], param: str) -> dict[str, Any]:
    """Returns a tool after checking it."""
    kind = tool.get("type")
    inner = tool.get(kind) if kind in ("function", "custom") else None
    if not isinstance(inner, Mapping):
        raise _wrong("a tool must be of the type function or custom, with a member of that name", param)
    extra = sorted(set(tool) - {"type", str(kind)})
    if extra:
        raise _wrong(unknown_member(extra[0], {"type", str(kind)}), param)
    name = inner.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise _wrong("a name must have 1 to 128 letters, digits, underscores, dots and dashes", f"{param}.{kind}.name")
    description = inner.get("description")
    if description is not None and not isinstance(description, str):
        raise _wrong("a description must be a string", f"{param}.{kind}.description")
    known = {"name", "description", "parameters", "strict"} if kind == "function" else {"name", "description", "format"}
    extra = sorted(set(inner) - known)
    if extra:
        raise _wrong(unknown_member(extra[0], known), f"{param}.{kind}")
    if kind == "function":
        parameters = inner.get("parameters")
        if parameters is not None and not isinstance(parameters, Mapping):
            raise _wrong("the parameters must be a JSON Schema", f"{param}.function.parameters")
    else:
        _check_format(inner.get("format"), f"{param}.custom.format")
    made = {key: value for key, value in inner.items() if value is not None}
    if kind == "function":
        made.setdefault("parameters", _NO_PARAMETERS)
    return {"type": kind, str(kind): made}


def _check_format(format: Any, param: str) -> None:
    if format is None:
        return
    kind = format.get("type") if isinstance(format, Mapping) else None
    if kind == "text":
        return
    grammar = format.get("grammar") if kind == "grammar" else None
    if (
        not isinstance(grammar, Mapping)
        or grammar.get("syntax") not in ("lark", "regex")
        or not isinstance(grammar.get("definition"), str)
    ):
        raise _wrong("a format must be text, or a grammar with a syntax (lark or regex) and a definition", param)


def response_tools(
    tools: Sequence[Mapping[str, Any]] | None,
    choice: str | Mapping[str, Any] | None,
    parallel: bool | None,
    format: str,
) -> ToolSet | None:
    """Returns the tools of a request to the Responses interface, which has a flat form."""
    nested = []
    for i, tool in enumerate(tools or []):
        kind = tool.get("type")
        if kind not in ("function", "custom"):
            raise _wrong(f"a tool must be of the type function or custom here, not {kind!r}", f"tools.{i}")
        inner = {key: value for key, value in tool.items() if key != "type"}
        given = inner.get("format")
        if kind == "custom" and isinstance(given, Mapping) and given.get("type") == "grammar":
            inner["format"] = {
                "type": "grammar",
                "grammar": {key: value for key, value in given.items() if key != "type"},
            }
        nested.append({"type": kind, kind: inner})
    if isinstance(choice, Mapping) and choice.get("type") in ("function", "custom"):
        kind = str(choice["type"])
        choice = {"type": kind, kind: {"name": choice.get("name")}}
    return chat_tools(nested, choice, parallel, format)
