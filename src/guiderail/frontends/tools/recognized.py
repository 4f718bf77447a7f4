"""Which format of tool calls a chat template writes: the template renders calls, and each format tries to read them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from guiderail.errors import GuiderailError
from guiderail.frontends.tools.format import Format, read_format, tool_formats
from guiderail.frontends.tools.tool_calls import ToolCalls, tool_calls

__all__ = ["recognized_format"]

Show = Callable[[Sequence[Mapping[str, Any]], Sequence[Mapping[str, Any]]], str]

_ASKED, _THOUGHT, _ANSWERED = "Zq8 asked", "Zq8 thought", "Zq8 answered"
_CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("probe_first", {"city": "Oslo", "days": 3}),
    ("probe_second", {"zone": "UTC"}),
)
_TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": "What it does.",
            "parameters": {
                "type": "object",
                "properties": {
                    key: {"type": "integer" if value == 3 else "string", "description": "What it is."}
                    for key, value in given.items()
                },
                "required": list(given),
            },
        },
    }
    for name, given in _CALLS
]


def recognized_format(source: str, show: Show) -> str | None:
    """The name of the format in which a model writes calls, found with its chat template.

    Args:
        source: the template.
        show: renders a conversation, given messages and tools as in OpenAI's API; may raise anything.

    Returns:
        None if no known format reads what the template writes.
    """
    best: tuple[tuple[int, ...], str] | None = None
    names = list(tool_formats())
    for text in _shown(show):
        for name in names:
            form = read_format(name)
            read = _calls_read(form, text)
            if read:
                worth = (read, _framed(form, text, source), max(len(start) for start, _ in form.starts()))
                if best is None or worth > best[0]:
                    best = worth, name
        if best is not None:
            return best[1]
    return None


def _shown(show: Show) -> Iterator[str]:
    """What the template writes for an assistant's turn: several calls, then one; arguments as objects and as
    strings.
    """
    for calls, as_text, answered, content in product((_CALLS, _CALLS[:1]), (False, True), (True, False), ("", None)):
        made = [
            {"id": f"call{i:05}", "type": "function",
             "function": {"name": name, "arguments": json.dumps(given) if as_text else given}}
            for i, (name, given) in enumerate(calls)
        ]  # fmt: skip
        messages: list[dict[str, Any]] = [
            {"role": "user", "content": _ASKED},
            {"role": "assistant", "content": content, "reasoning_content": _THOUGHT, "tool_calls": made},
        ]
        if answered:
            messages += [
                {"role": "tool", "tool_call_id": f"call{i:05}", "name": name, "content": _ANSWERED}
                for i, (name, _) in enumerate(calls)
            ]
        try:
            text = show(messages, _TOOLS)
        except Exception:  # a template may raise anything for any input
            continue
        yield text.rpartition(_ASKED)[2].partition(_ANSWERED)[0]


def _calls_read(form: Format, text: str) -> int:
    """A score: how many of the rendered calls can be read, doubled if the whole string may end after them; 0: none."""
    calls = tool_calls(_TOOLS, format=form.name)
    best = 0
    for start, _ in form.starts():
        at = text.find(start)
        while at >= 0 and best < 2 * len(_CALLS):
            best = max(best, _read_from(calls, text[at:]))
            at = text.find(start, at + 1)
    return best


def _read_from(calls: ToolCalls, text: str) -> int:
    reader = calls.reader()
    ended, complete = 0, False
    try:
        for c in text:
            ended += sum(delta.kind == "end" for delta in reader.feed(c))
            complete = complete or (ended > 0 and reader.snapshot().complete)
    except GuiderailError:
        pass  # the text after the turn
    found = [(call.name, call.arguments) for call in reader.snapshot().calls if call.complete]
    if not found or found != list(_CALLS[: len(found)]):
        return 0
    return len(found) * (1 + complete)


def _framed(form: Format, text: str, source: str) -> int:
    """How many markers around reasoning and content the template contains, minus those that it does not."""
    frames = [marker for frame in (form.reasoning, form.content) if frame for marker in (frame.begin, frame.end)]
    markers = [marker.strip() for marker in (*frames, *form.turn_end, *form.calls_end)]
    return sum(1 if marker in text or marker in source else -1 for marker in markers if marker)
