"""Answers as JSON, which may contain parts that are already serialized."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from typing import Any

__all__ = ["Raw", "answer_json", "sse"]


@dataclass(frozen=True, slots=True)
class Raw:
    """JSON that is already serialized."""

    text: str


def answer_json(data: Any) -> str:
    """Returns JSON without whitespace."""
    mark = ""
    raws: list[str] = []

    def late(value: Any) -> str:
        nonlocal mark
        if not isinstance(value, Raw):
            raise TypeError(f"{type(value).__name__} is not JSON")
        mark = mark or secrets.token_hex(16)
        raws.append(value.text)
        return f"{mark}{len(raws) - 1}:"

    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=late)
    for i, raw in enumerate(raws):
        text = text.replace(f'"{mark}{i}:"', raw)
    return text


# Characters at which Python's ``str.splitlines`` ends a line, though an event does not. Clients that read events by it
# would cut the JSON in two; inside its strings they may be escaped.
_LINE_ENDS = {ord(c): f"\\u{ord(c):04x}" for c in "\x85\u2028\u2029"}


def sse(data: dict[str, Any] | str, event: str | None = None) -> bytes:
    """Returns one server-sent event, on one line for every client."""
    text = data if isinstance(data, str) else answer_json(data).translate(_LINE_ENDS)
    return (f"event: {event}\n" if event else "").encode() + f"data: {text}\n\n".encode()
