"""The key-value part of a GGUF file, read without touching the tensors that follow it.

    "GGUF"  uint32 version  uint64 tensors  uint64 pairs
    pair    key: string, uint32 type, value
    string  uint64 length, UTF-8 bytes
    array   uint32 type, uint64 count, values

Little-endian, from version 2 on (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md). The file is
mapped, not read: of a model of many gigabytes only the first few megabytes are ever touched.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from guiderail.errors import VocabularyError

__all__ = ["read_metadata"]

_SCALARS = {
    0: "u1",
    1: "i1",
    2: "<u2",
    3: "<i2",
    4: "<u4",
    5: "<i4",
    6: "<f4",
    7: "?",
    10: "<u8",
    11: "<i8",
    12: "<f8",
}
_STRING, _ARRAY = 8, 9
_LENGTH = struct.Struct("<Q")


def read_metadata(path: str, wanted: Callable[[str], bool]) -> dict[str, Any]:
    """Returns the pairs whose key is ``wanted``.

    Values are scalars and strings, NumPy arrays of numbers, and lists of bytes for arrays of strings.

    Raises:
        VocabularyError: ``bad-tokenizer-file``: it is not a GGUF file, has an unknown version, or is truncated.
    """
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
            return _Reader(view).pairs(wanted)
    except FileNotFoundError as error:
        raise VocabularyError(f"{path} does not exist", code="bad-tokenizer-file") from error
    except (OSError, ValueError, IndexError, struct.error) as error:
        raise VocabularyError(f"{path} cannot be read as a GGUF file: {error}", code="bad-tokenizer-file") from error


class _Reader:
    def __init__(self, view: mmap.mmap) -> None:
        self.view = view
        self.at = 0
        self.end = len(view)

    def pairs(self, wanted: Callable[[str], bool]) -> dict[str, Any]:
        if self.view[:4] != b"GGUF":
            raise ValueError("it does not begin with GGUF")
        self.at = 4
        version = self.number("<u4")
        if version not in (2, 3):
            big = version & 0xFFFF == 0
            raise ValueError("it is big-endian" if big else f"its version {version} is neither 2 nor 3")
        self.number("<u8")  # tensors
        found = {}
        for _ in range(self.number("<u8")):
            key = self.string().decode()
            kind = self.number("<u4")
            if wanted(key):
                found[key] = self.value(kind)
            else:
                self.skip(kind)
        return found

    def take(self, count: int) -> bytes:
        if count > self.end - self.at:
            raise ValueError(f"it is cut off at byte {self.end}")
        self.at += count
        return self.view[self.at - count : self.at]

    def number(self, code: str) -> Any:
        kind = np.dtype(code)
        return np.frombuffer(self.take(kind.itemsize), kind)[0].item()

    def string(self) -> bytes:
        return self.take(self.number("<u8"))

    def value(self, kind: int) -> Any:
        if kind == _STRING:
            return self.string().decode("utf-8", "replace")
        if kind != _ARRAY:
            return self.number(self.scalar(kind))
        inner, count = self.number("<u4"), self.number("<u8")
        if inner == _STRING:
            return self.strings(count)
        if inner == _ARRAY:
            return [self.value(inner) for _ in range(self.possible(count, 12))]
        code = np.dtype(self.scalar(inner))
        return np.frombuffer(self.take(self.possible(count, code.itemsize) * code.itemsize), code)

    def skip(self, kind: int) -> None:
        if kind == _STRING:
            self.take_nothing(self.number("<u8"))
        elif kind != _ARRAY:
            self.take_nothing(np.dtype(self.scalar(kind)).itemsize)
        else:
            inner, count = self.number("<u4"), self.number("<u8")
            if inner == _STRING:
                self.hop(count)
            elif inner == _ARRAY:
                for _ in range(self.possible(count, 12)):
                    self.skip(inner)
            else:
                self.take_nothing(count * np.dtype(self.scalar(inner)).itemsize)

    def take_nothing(self, count: int) -> None:
        if count > self.end - self.at:
            raise ValueError(f"it is cut off at byte {self.end}")
        self.at += count

    def strings(self, count: int) -> list[bytes]:
        found = []
        view, at, unpack = self.view, self.at, _LENGTH.unpack_from
        for _ in range(self.possible(count, 8)):
            start = at + 8
            at = start + unpack(view, at)[0]
            if at > self.end:
                raise ValueError(f"it is cut off at byte {self.end}")
            found.append(view[start:at])
        self.at = at
        return found

    def hop(self, count: int) -> None:
        """Skips an array of strings: a byte-pair encoding has twice as many merges as tokens."""
        view, at, unpack = self.view, self.at, _LENGTH.unpack_from
        for _ in range(self.possible(count, 8)):
            at += 8 + unpack(view, at)[0]
            if at > self.end:  # checked at each step, because an offset must fit into a C integer
                raise ValueError(f"it is cut off at byte {self.end}")
        self.at = at

    def possible(self, count: int, least: int) -> int:
        """``count``, unless the file is too short for that many values of at least ``least`` bytes."""
        if count * least > self.end - self.at:
            raise ValueError(f"it is cut off at byte {self.end}")
        return count

    def scalar(self, kind: int) -> str:
        if kind not in _SCALARS:
            raise ValueError(f"byte {self.at}: there is no value type {kind}")
        return _SCALARS[kind]
