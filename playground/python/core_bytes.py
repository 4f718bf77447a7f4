"""Encodes arguments and answers of the core as bytes, for ``core.py``, which replaces the extension.

Numbers are LEB128, signed ones zigzag. Bytes, texts and lists follow their lengths. An optional value follows a 0 or a
1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

__all__ = [
    "Answer",
    "CoreError",
    "TokenSet",
    "binary",
    "listed",
    "maybe",
    "name",
    "signed",
    "text",
    "unsigned",
    "unsigneds",
]


class CoreError(Exception):
    """Raised if no factory is set; ``args == (code, message)``."""


class TokenSet:
    """Tokens of any kind: these, or all except these and stop tokens."""

    def __init__(self, tokens: list[str | int], but: bool) -> None:
        self.tokens = tokens
        self.but = but


def unsigned(value: int) -> bytes:
    if not 0 <= value < 1 << 64:
        raise CoreError("argument", f"a number of the core is not negative and below 2**64, not {value}")
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def signed(value: int) -> bytes:
    return unsigned(value << 1 if value >= 0 else (-value << 1) - 1)


def binary(value: bytes) -> bytes:
    return unsigned(len(value)) + value


def text(value: str) -> bytes:
    return binary(value.encode("utf-8", "surrogatepass"))


def unsigneds(values: Iterable[int]) -> bytes:
    listed = list(values)
    if len(listed) < 0x80 and all(0 <= value < 0x80 for value in listed):
        return bytes([len(listed), *listed])
    return unsigned(len(listed)) + b"".join(map(unsigned, listed))


def listed(values: Iterable[Any], one: Callable[[Any], bytes]) -> bytes:
    parts = [one(value) for value in values]
    return unsigned(len(parts)) + b"".join(parts)


def maybe(value: Any, one: Callable[[Any], bytes]) -> bytes:
    return b"\0" if value is None else b"\1" + one(value)


def name(value: str | int) -> bytes:
    return b"\0" + text(value) if isinstance(value, str) else b"\1" + unsigned(value)


class Answer:
    """Bytes of an answer, read in order."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def u(self) -> int:
        shift = value = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def text(self) -> str:
        size = self.u()
        self.at += size
        return self.data[self.at - size : self.at].decode()

    def symbol(self) -> str | int | TokenSet:
        kind = self.u()
        if kind == 0:
            return self.text()
        if kind == 1:
            return self.u()
        but = bool(self.u())
        names: list[Any] = [self.symbol() for _ in range(self.u())]
        return TokenSet(names, but)

    def symbols(self) -> list[str | int | TokenSet]:
        return [self.symbol() for _ in range(self.u())]
