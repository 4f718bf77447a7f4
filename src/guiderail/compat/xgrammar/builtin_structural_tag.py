"""Structural tags of tools: what a request asks for, and the tags that were registered. Needs pydantic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeVar

from pydantic import TypeAdapter, ValidationError

from guiderail.compat._errors import CompatValueError
from guiderail.compat.xgrammar.openai_tool_call_schema import (
    AllowedToolChoiceParam,
    BuiltinToolChoiceParam,
    BuiltinToolParam,
    FunctionToolParam,
    NamedToolChoiceParam,
    ToolChoiceOptionParam,
    ToolParam,
)
from guiderail.compat.xgrammar.structural_tag import StructuralTag
from guiderail.support.options import check_flag
from guiderail.support.texts import shown

__all__ = [
    "get_builtin_structural_tag",
    "get_model_structural_tag",
    "normalize_tool_choice",
    "register_model_structural_tag",
]

_F = TypeVar("_F", bound=Callable[..., Any])
_Normal = tuple[list[FunctionToolParam], list[BuiltinToolParam], Literal["auto", "required", "forced"]]
_TOOL: TypeAdapter[ToolParam] = TypeAdapter(ToolParam)
_CHOICE: TypeAdapter[ToolChoiceOptionParam] = TypeAdapter(ToolChoiceOptionParam)
_registered: dict[str, Callable[..., Any]] = {}


def register_model_structural_tag(name: str) -> Callable[[_F], _F]:
    """Registers a function that makes the structural tag of a model family."""

    def register(function: _F) -> _F:
        _registered[name] = function
        return function

    return register


def get_model_structural_tag(
    model: str,
    tools: list[ToolParam | dict[str, Any]] | None = None,
    tool_choice: ToolChoiceOptionParam | dict[str, Any] | None = "auto",
    reasoning: bool | Literal["enabled", "disabled", "auto"] = "enabled",
    force_reasoning: bool = False,
    any_order: bool = False,
    exclude_special_tokens: bool = True,
    max_whitespace_cnt: int | None = None,
    parallel_tool_calls: bool = True,
) -> StructuralTag:
    """Returns the structural tag of a model family that was registered.

    Raises:
        ValueError: nothing is registered for the family: guiderail keeps formats as data, for ``guiderail.tool_calls``;
            or the tools, the choice or the reasoning are wrong.
    """
    make = _registered.get(model) if isinstance(model, str) else None
    if make is None:
        raise CompatValueError(
            f"no structural tag is registered for {shown(model)}; guiderail keeps the formats of model families as "
            "data: make a constraint from tools and a format with guiderail.tool_calls(tools, format=…). A structural "
            "tag made by another library is accepted as it is",
            code="compat-unsupported",
        )
    if isinstance(reasoning, bool):
        reasoning = "enabled" if reasoning else "disabled"
    if reasoning not in ("enabled", "disabled", "auto"):
        raise CompatValueError(
            f"reasoning must be True, False, 'enabled', 'disabled' or 'auto', not {shown(reasoning)}"
        )
    check_flag("parallel_tool_calls", parallel_tool_calls, error=CompatValueError, code="compat-option")
    found: StructuralTag = make(
        *normalize_tool_choice(tools, tool_choice),
        reasoning,
        any_order=any_order,
        exclude_special_tokens=exclude_special_tokens,
        max_whitespace_cnt=max_whitespace_cnt,
        parallel_tool_calls=parallel_tool_calls,
    )
    return found


get_builtin_structural_tag = get_model_structural_tag


def normalize_tool_choice(
    tools: list[ToolParam | dict[str, Any]] | None = None,
    tool_choice: ToolChoiceOptionParam | dict[str, Any] | None = "auto",
) -> _Normal:
    """Returns the functions and the tools of the server that may be called, and ``"auto"``, ``"required"`` or
    ``"forced"``: whether one must be.

    Raises:
        ValueError: the tools are no list, or the choice names one that is not there, or leaves none that is needed.
    """
    if not isinstance(tools, list | None):
        raise CompatValueError(f"tools must be a list, not {shown(tools)}")
    read = [one if isinstance(one, FunctionToolParam | BuiltinToolParam) else _valid("a tool", _TOOL, one)
            for one in tools or ()]  # fmt: skip
    functions = [one for one in read if isinstance(one, FunctionToolParam)]
    others = [one for one in read if isinstance(one, BuiltinToolParam)]
    choice = _valid("tool_choice", _CHOICE, "auto" if tool_choice is None else tool_choice)
    if isinstance(choice, AllowedToolChoiceParam):
        functions, others = _allowed(functions, others, choice)
        return _checked(functions, others, choice.allowed_tools.mode)
    if isinstance(choice, NamedToolChoiceParam):
        name = choice.function.name
        functions = [one for one in functions if one.function.name == name]
        if not functions:
            raise CompatValueError(f"tool_choice names {name!r}, and no tool has that name")
        return _checked(functions, [], "forced")
    if isinstance(choice, BuiltinToolChoiceParam):
        return _checked([], [one for one in others if one.type == choice.type], "forced")
    if choice == "none":
        return [], [], "auto"
    return _checked(functions, others, choice)


def _valid(what: str, kind: TypeAdapter[Any], value: Any) -> Any:
    try:
        return kind.validate_python(value)
    except ValidationError as error:
        raise CompatValueError(f"{what} has another form: {error}") from error


def _allowed(
    functions: list[FunctionToolParam], others: list[BuiltinToolParam], choice: AllowedToolChoiceParam
) -> tuple[list[FunctionToolParam], list[BuiltinToolParam]]:
    names, types = set(), set()
    for one in choice.allowed_tools.tools:
        if one.type != "function":
            types.add(one.type)
        elif one.function is None:
            raise CompatValueError("an allowed function needs its name: {'type': 'function', 'function': {'name': …}}")
        else:
            names.add(one.function.name)
    missing = (names - {one.function.name for one in functions}) | (types - {one.type for one in others})
    if missing:
        raise CompatValueError(f"tool_choice allows {', '.join(sorted(missing))}, and there is no such tool")
    return [one for one in functions if one.function.name in names], [one for one in others if one.type in types]


def _checked(
    functions: list[FunctionToolParam],
    others: list[BuiltinToolParam],
    choice: Literal["auto", "required", "forced"],
) -> _Normal:
    count = len(functions) + len(others)
    if choice == "required" and not count:
        raise CompatValueError("tool_choice is 'required', and there are no tools")
    if choice == "forced" and count != 1:
        raise CompatValueError(f"tool_choice must leave exactly one tool, not {count}")
    return functions, others, choice
