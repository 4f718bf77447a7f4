"""Which tools a model may or must call, as the interfaces of model makers say it.

=========  =============================================================================================
OpenAI     ``"auto"``, ``"required"``, ``"none"``; ``{"type": "function", "function": {"name": …}}`` (in the
           Responses interface without the inner object), the same with ``custom``;
           ``{"type": "allowed_tools", "allowed_tools": {"mode": …, "tools": […]}}`` (or flat)
Anthropic  ``{"type": "auto"}``, ``any``, ``none``, ``tool`` with a ``name``; ``disable_parallel_tool_use``
Gemini     ``{"function_calling_config": {"mode": …, "allowed_function_names": […]}}``
Bedrock    ``{"auto": {}}``, ``{"any": {}}``, ``{"tool": {"name": …}}``
=========  =============================================================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from guiderail.frontends.tools.errors import ToolError
from guiderail.support.texts import shown

__all__ = ["Choice", "read_choice"]

_WAYS = (
    "choice must be 'auto', 'required', 'none', the name of a tool, or an object as OpenAI, Anthropic, Gemini or "
    "Bedrock have it"
)
_MODES = {"auto": "auto", "any": "required", "required": "required", "none": "none", "validated": "auto"}


@dataclass(frozen=True, slots=True)
class Choice:
    """What a model may call.

    Attributes:
        mode: ``"auto"``, ``"required"``, ``"none"``, or the name of the tool that it must call.
        allowed: the names of the tools that it may call; None: all.
        parallel: False: at most one call; True: as the other options say.
    """

    mode: str
    allowed: tuple[str, ...] | None = None
    parallel: bool = True


def read_choice(given: Any) -> Choice:
    """What a user means by a choice.

    Raises:
        ToolError: ``tool-choice``.
    """
    if isinstance(given, str) and given:
        return Choice(given)
    if not isinstance(given, Mapping):
        raise _wrong(_WAYS)
    for config in ("function_calling_config", "functionCallingConfig"):
        if config in given:
            _only(given, config)
            return _gemini(given[config])
    kind = given.get("type")
    if kind == "allowed_tools":
        inner = given.get("allowed_tools", {key: value for key, value in given.items() if key != "type"})
        return _allowed_tools(inner)
    if kind in ("auto", "any", "none", "tool"):
        return _anthropic(given, kind)
    if kind is None and len(given) == 1 and next(iter(given)) in ("auto", "any", "tool"):  # Bedrock
        ((kind, inner),) = given.items()
        if not isinstance(inner, Mapping):
            raise _wrong(f"{kind!r} of a choice must be an object, not {shown(inner)}")
        return _anthropic({"type": kind, **inner}, kind)
    inner = given.get("function", given.get("custom", given))
    return _one(inner.get("name") if isinstance(inner, Mapping) else None)


def _anthropic(given: Mapping[str, Any], kind: str) -> Choice:
    _only(given, "type", "disable_parallel_tool_use", *(["name"] if kind == "tool" else []))
    one = given.get("disable_parallel_tool_use", False)
    if not isinstance(one, bool):
        raise _wrong(f"disable_parallel_tool_use must be True or False, not {shown(one)}")
    return _one(given.get("name")) if kind == "tool" else Choice(_MODES[kind], parallel=not one)


def _one(name: Any) -> Choice:
    """One call of one tool, which may have the name of a mode."""
    name = _name(name)
    return Choice("required", (name,), parallel=False) if name in _MODES.values() else Choice(name)


def _allowed_tools(inner: Any) -> Choice:
    if isinstance(inner, Mapping):
        _only(inner, "mode", "tools")
    mode = inner.get("mode") if isinstance(inner, Mapping) else None
    listed = inner.get("tools") if isinstance(inner, Mapping) else None
    if mode not in ("auto", "required") or not isinstance(listed, list | tuple) or not listed:
        raise _wrong("allowed_tools must have a mode, 'auto' or 'required', and a list of tools")
    named = [tool.get("function", tool.get("custom", tool)) if isinstance(tool, Mapping) else None for tool in listed]
    return Choice(mode, tuple(_name(tool.get("name") if isinstance(tool, Mapping) else None) for tool in named))


def _gemini(config: Any) -> Choice:
    if not isinstance(config, Mapping):
        raise _wrong(f"function_calling_config must be an object, not {shown(config)}")
    names = [key for key in ("allowed_function_names", "allowedFunctionNames") if key in config]
    _only(config, "mode", *names)
    mode = config.get("mode", "AUTO")
    if not isinstance(mode, str) or mode.lower() not in ("auto", "any", "none", "validated"):
        raise _wrong(f"the mode of function_calling_config must be AUTO, ANY, NONE or VALIDATED, not {shown(mode)}")
    listed = config[names[0]] if names else None
    if listed is not None and not isinstance(listed, list | tuple):
        raise _wrong(f"{names[0]} must be a list of names, not {shown(listed)}")
    if listed and mode.lower() not in ("any", "validated"):
        raise _wrong(f"{names[0]} goes with the mode ANY or VALIDATED, not {mode}; leave it out, or change the mode")
    return Choice(_MODES[mode.lower()], tuple(map(_name, listed)) if listed else None)


def _only(given: Mapping[str, Any], *known: str) -> None:
    for key in given:
        if key not in known:
            raise _wrong(f"there is no key {shown(key)} in this choice; it has {', '.join(known)}")


def _name(given: Any) -> str:
    if not isinstance(given, str) or not given:
        raise _wrong(f"the choice needs the name of a tool, not {shown(given)}. Otherwise, {_WAYS}")
    return given


def _wrong(message: str) -> ToolError:
    return ToolError(message, code="tool-choice")
