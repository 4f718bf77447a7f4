"""What an answer consists of: text, and calls of tools."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Protocol

__all__ = ["CallEnd", "CallInput", "CallStart", "Content", "Part", "Reader", "Reasoning", "call_id"]


@dataclass(frozen=True, slots=True)
class Content:
    """Text outside of calls."""

    text: str


@dataclass(frozen=True, slots=True)
class Reasoning:
    """Text that the model wrote for itself."""

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
    """Call ``number`` is complete, or the text ends in it."""

    number: int


Part = Content | Reasoning | CallStart | CallInput | CallEnd


class Reader(Protocol):
    """Reads a text in pieces of any size."""

    def feed(self, text: str) -> list[Part]: ...
    def close(self) -> list[Part]: ...


def call_id() -> str:
    """A fresh identifier of a call."""
    return f"call_{secrets.token_hex(12)}"
