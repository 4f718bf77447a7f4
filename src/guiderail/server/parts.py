"""The parts of an answer: text and tool calls."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Protocol

__all__ = ["CallEnd", "CallInput", "CallStart", "Content", "Part", "Reader", "Reasoning", "call_id"]


@dataclass(frozen=True, slots=True)
class Content:
    """Text outside calls."""

    text: str


@dataclass(frozen=True, slots=True)
class Reasoning:
    """Text of the model's reasoning."""

    text: str


@dataclass(frozen=True, slots=True)
class CallStart:
    """Call ``number`` (from 0) of tool ``name`` begins."""

    number: int
    id: str
    name: str
    custom: bool


@dataclass(frozen=True, slots=True)
class CallInput:
    """More of the arguments (JSON) of call ``number``, or of the input of a custom tool."""

    number: int
    text: str
    custom: bool


@dataclass(frozen=True, slots=True)
class CallEnd:
    """Call ``number`` has ended. ``complete``: False if the text ended inside it."""

    number: int
    complete: bool = True


Part = Content | Reasoning | CallStart | CallInput | CallEnd


class Reader(Protocol):
    """Reads a text in pieces of any size."""

    def feed(self, text: str) -> list[Part]: ...
    def close(self) -> list[Part]: ...


def call_id() -> str:
    """Returns a new identifier of a call."""
    return f"call_{secrets.token_hex(12)}"
