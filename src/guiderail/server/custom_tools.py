"""Tool calls between tags, for what the formats of models cannot express: custom tools, whose input is not JSON.

    <tool_call>
    {"name": "weather", "arguments": {"city": "Paris"}}
    </tool_call>
    <custom_tool_call name="sql">
    SELECT 1
    </custom_tool_call>

The automaton itself distinguishes tags from text; :class:`TaggedReader` reads the calls while they are written.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from guiderail.constraints.constraint import AnyOf, Constraint, separated_by, sequence, text_until
from guiderail.constraints.program import build_program
from guiderail.errors import CompileError, GuiderailError
from guiderail.frontends.regex import regex
from guiderail.frontends.tools.errors import named
from guiderail.frontends.tools.markers import Dispatch, Marker
from guiderail.frontends.tools.tool import read_tool
from guiderail.server.constraints import grammar_of
from guiderail.server.parts import CallEnd, CallInput, CallStart, Content, Part, call_id

__all__ = ["TaggedReader", "custom_inputs", "tagged_constraint"]

_ANY = {"type": "object", "properties": {}}
_CALL, _CUSTOM = "<tool_call>", "<custom_tool_call"
_CALL_END, _CUSTOM_END = "}\n</tool_call>", "\n</custom_tool_call>"
_WITHOUT_END = text_until(_CUSTOM_END, include_stop=False)


def _function_head(name: str) -> str:
    return f'{_CALL}\n{{"name": {json.dumps(name, ensure_ascii=False)}, "arguments": '


def _custom_head(name: str) -> str:
    return f'{_CUSTOM} name="{name}">\n'


def tagged_constraint(
    functions: Sequence[Mapping[str, Any]],
    customs: Mapping[str, Constraint],
    *,
    required: bool,
    parallel: bool,
) -> Constraint:
    """Returns the constraint of texts with calls of these tools. Tags that are special tokens may be written as such.

    Args:
        functions: tools with ``name`` and ``parameters``.
        customs: the inputs of tools by name; see :func:`custom_inputs`.
        required: calls only; otherwise text, and calls if the model wants.
        parallel: allow more than one call.

    Raises:
        ToolError: a schema cannot be used; the message names the tool.
    """
    rules: list[tuple[str, Constraint]] = []
    for function in functions:
        with _named(function["name"]):
            tool = {key: value for key, value in function.items() if key in ("name", "parameters")}
            arguments = read_tool({"parameters": _ANY, **tool}, None, {}, extra=True).arguments.as_written()
            build_program(arguments)  # so that its errors name the tool
        rules.append((_function_head(function["name"]), sequence(arguments, Marker(_CALL_END))))
    for name, text in customs.items():
        rules.append((_custom_head(name), sequence(text, Marker(_CUSTOM_END))))
    if required:
        calls = AnyOf(tuple(sequence(Marker(head), rest) for head, rest in rules))
        made = separated_by(calls, "\n", 1, None if parallel else 1)
    else:
        triggers = tuple(t for t, some in ((_CALL, functions), (_CUSTOM, customs)) if some)
        made = Dispatch(tuple(rules), triggers, loop=parallel)
    return made


def custom_inputs(customs: Sequence[Mapping[str, Any]]) -> dict[str, Constraint]:
    """The inputs of custom tools by name, without the end of the tag in them.

    Only a text of a grammar may contain it: a grammar cannot be intersected. :class:`TaggedReader` then takes the first
    end at which the grammar is satisfied.

    Args:
        customs: tools with ``name`` and optionally ``format``, as in OpenAI's API.

    Raises:
        ToolError: a pattern or grammar cannot be used; the message names the tool.
    """
    found = {}
    for custom in customs:
        with _named(custom["name"]):
            text = _input(custom)
            build_program(text)
            try:
                without = text & _WITHOUT_END
                build_program(without)
                text = without
            except CompileError as error:
                if error.code != "not-regular":
                    raise
        found[custom["name"]] = text
    return found


@contextmanager
def _named(name: str) -> Iterator[None]:
    """Adds the name of the tool to an error."""
    try:
        yield
    except GuiderailError as error:
        raise named(error, name) from error


def _input(custom: Mapping[str, Any]) -> Constraint:
    format = custom.get("format") or {"type": "text"}
    if format["type"] == "text":
        return _WITHOUT_END
    given = format["grammar"]
    if given["syntax"] == "regex":
        return regex(given["definition"])
    return grammar_of(given["definition"], "lark").as_written()


class TaggedReader:
    """Reads text with calls in it, in pieces.

    Args:
        functions: the names of the functions.
        customs: the inputs of custom tools by name; see :func:`custom_inputs`.
    """

    def __init__(self, functions: Sequence[str], customs: Mapping[str, Constraint]) -> None:
        self._inputs = customs
        self._input: list[str] = []  # of the custom tool that is open
        self._name = ""
        self._heads = [(_function_head(name), name, False) for name in functions]
        self._heads += [(_custom_head(name), name, True) for name in customs]
        self._text = ""
        self._number = -1
        self._custom: bool | None = None  # None: outside of calls
        self._depth, self._quoted, self._escaped = 0, False, False
        self._valued = False  # the arguments are complete, the end of the tag is not

    def feed(self, text: str) -> list[Part]:
        """Returns the parts of more text."""
        self._text += text
        parts: list[Part] = []
        while self._step(parts):
            pass
        return parts

    def close(self) -> list[Part]:
        """Returns what is left at the end of the text."""
        parts: list[Part] = []
        rest, self._text = self._text, ""
        if self._custom is None:
            if rest.strip() or (rest and self._number < 0):
                parts.append(Content(rest))
        else:
            if self._custom and rest:
                parts.append(CallInput(self._number, rest, True))
            parts.append(CallEnd(self._number, complete=False))
        return parts

    def _step(self, parts: list[Part]) -> bool:
        if self._custom is None:
            return self._outside(parts)
        return self._in_custom(parts) if self._custom else self._in_function(parts)

    def _outside(self, parts: list[Part]) -> bool:
        found = [(at, head, name, custom) for head, name, custom in self._heads if (at := self._text.find(head)) >= 0]
        if not found:
            keep = max((_overlap(self._text, head) for head, _, _ in self._heads), default=0)
            if self._number >= 0 and not self._text[: len(self._text) - keep].strip():
                return False  # whitespace between calls is not content
            self._content(parts, len(self._text) - keep)
            return False
        at, head, name, custom = min(found)
        if self._text[:at].strip() or (at and self._number < 0):
            self._content(parts, at)
        else:
            self._text = self._text[at:]
        self._text = self._text[len(head) :]
        self._number += 1
        self._custom, self._depth, self._quoted, self._escaped, self._valued = custom, 0, False, False, False
        self._input, self._name = [], name
        parts.append(CallStart(self._number, call_id(), name, custom))
        return True

    def _content(self, parts: list[Part], end: int) -> None:
        if end:
            parts.append(Content(self._text[:end]))
            self._text = self._text[end:]

    def _in_custom(self, parts: list[Part]) -> bool:
        at = self._text.find(_CUSTOM_END)
        while at >= 0 and not self._inputs[self._name].matches("".join(self._input) + self._text[:at]):
            at = self._text.find(_CUSTOM_END, at + 1)  # inside a string of the input
        end = at if at >= 0 else len(self._text) - _overlap(self._text, _CUSTOM_END)
        if end:
            parts.append(CallInput(self._number, self._text[:end], True))
            self._input.append(self._text[:end])
        self._text = self._text[end:]
        return self._ended(parts, _CUSTOM_END) if at >= 0 else False

    def _in_function(self, parts: list[Part]) -> bool:
        if not self._valued:
            end = self._value_end()
            if end:
                parts.append(CallInput(self._number, self._text[:end], False))
            self._text = self._text[end:]
        if self._valued and len(self._text) >= len(_CALL_END):
            return self._ended(parts, _CALL_END)
        return False

    def _ended(self, parts: list[Part], tag: str) -> bool:
        self._text = self._text[len(tag) :]
        self._custom = None
        parts.append(CallEnd(self._number))
        return True

    def _value_end(self) -> int:
        """How much of the text belongs to the JSON object of the arguments."""
        for i, c in enumerate(self._text):
            if self._quoted:
                if self._escaped:
                    self._escaped = False
                elif c == "\\":
                    self._escaped = True
                elif c == '"':
                    self._quoted = False
            elif c == '"':
                self._quoted = True
            elif c in "{[":
                self._depth += 1
            elif c in "}]":
                self._depth -= 1
                if self._depth == 0:
                    self._valued = True
                    return i + 1
        return len(self._text)


def _overlap(text: str, tag: str) -> int:
    """The number of characters at the end of a text that may begin the tag."""
    return next((n for n in range(min(len(text), len(tag) - 1), 0, -1) if text.endswith(tag[:n])), 0)
