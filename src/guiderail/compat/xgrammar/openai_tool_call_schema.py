"""Tools and the choice among them, as requests of OpenAI's chat interface write them. Needs pydantic."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from pydantic import BaseModel

__all__ = [
    "AllowedToolChoiceParam",
    "AllowedToolRef",
    "AllowedToolsParam",
    "BuiltinToolChoiceParam",
    "BuiltinToolParam",
    "FunctionDefinition",
    "FunctionToolParam",
    "NamedToolChoiceFunction",
    "NamedToolChoiceParam",
    "ToolChoiceOptionParam",
    "ToolParam",
]


class FunctionDefinition(BaseModel):
    """A function: its name, what it does, and the schema of its arguments."""

    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class FunctionToolParam(BaseModel):
    """A function as a tool."""

    type: Literal["function"] = "function"
    function: FunctionDefinition


class BuiltinToolParam(BaseModel):
    """A tool of the server: its type, its name if a model calls it by another, and the schema of its arguments."""

    type: str
    name: str | None = None
    parameters: dict[str, Any] | None = None


ToolParam: TypeAlias = FunctionToolParam | BuiltinToolParam


class NamedToolChoiceFunction(BaseModel):
    """The name of a function."""

    name: str


class NamedToolChoiceParam(BaseModel):
    """The choice of one function."""

    type: Literal["function"] = "function"
    function: NamedToolChoiceFunction


class BuiltinToolChoiceParam(BaseModel):
    """The choice of one tool of the server, by its type."""

    type: str
    name: str | None = None


class AllowedToolRef(BaseModel):
    """One of the tools that are allowed."""

    type: str
    function: NamedToolChoiceFunction | None = None
    name: str | None = None


class AllowedToolsParam(BaseModel):
    """The tools that are allowed, and whether one of them must be called."""

    mode: Literal["auto", "required"]
    tools: list[AllowedToolRef]


class AllowedToolChoiceParam(BaseModel):
    """The choice among some of the tools."""

    type: Literal["allowed_tools"] = "allowed_tools"
    allowed_tools: AllowedToolsParam


ToolChoiceOptionParam: TypeAlias = (
    Literal["none", "auto", "required"] | NamedToolChoiceParam | AllowedToolChoiceParam | BuiltinToolChoiceParam
)
