"""The C interface through ctypes: every function of ``guiderail.h``, declared from the header itself."""

from __future__ import annotations

import ctypes as c
import os
import re
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
HEADER = ROOT / "include" / "guiderail.h"
BUILT = ROOT / "build" / "lib"  # installed there by `make lib`
_NAMES = ("libguiderail.so", "libguiderail.dylib", "guiderail.dll")
_SCALARS = {
    "bool": c.c_bool, "size_t": c.c_size_t, "uint32_t": c.c_uint32, "uint64_t": c.c_uint64, "unsigned": c.c_uint,
    "gr_dtype": c.c_int, "gr_status": c.c_int, "void": None,
}  # fmt: skip
_DECLARED = re.compile(r"GR_API\s+(?P<result>[\w ]+?\**)\s*(?P<star>\*?)(?P<name>gr_\w+)\((?P<arguments>[^)]*)\);")
MATCHER, BITMASK, FILE, ARGUMENT, COMPILE, LIMIT, VOCABULARY = 4, 5, 7, 1, 2, 3, 6


def folder() -> Path | None:
    """Returns the library's folder: in or under ``GUIDERAIL_LIB``, or built by ``make lib``; None: there is none."""
    where = Path(os.environ.get("GUIDERAIL_LIB") or BUILT)
    return next((path.parent for name in _NAMES for path in where.rglob(name)), None)


def declared() -> dict[str, tuple[str, list[str]]]:
    """Returns the functions of the header: the result, and the arguments as written."""
    text = re.sub(r"/\*.*?\*/", "", HEADER.read_text(encoding="utf-8"), flags=re.DOTALL)
    found = {}
    for one in _DECLARED.finditer(text):
        arguments = [" ".join(part.split()) for part in one["arguments"].split(",")]
        found[one["name"]] = (one["result"] + one["star"], [] if arguments == ["void"] else arguments)
    return found


def _type(written: str) -> Any:
    if "*" in written or "[" in written:
        return c.c_void_p
    return _SCALARS[written.removeprefix("const ").split()[0]]


class Error(Exception):
    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


class Library:
    """Calls functions without ``gr_``; a status that is not 0 becomes an :class:`Error`."""

    def __init__(self, path: Path) -> None:
        self.raw = c.CDLL(str(path))
        for name, (result, arguments) in declared().items():
            function = getattr(self.raw, name)
            function.restype = c.c_char_p if result.replace(" ", "") == "constchar*" else _type(result)
            function.argtypes = [_type(one) for one in arguments]

    def __getattr__(self, name: str) -> Any:
        function = getattr(self.raw, "gr_" + name)
        if declared_result(name) != "gr_status":
            return function

        def call(*arguments: Any) -> None:
            status = function(*arguments)
            if status:
                raise Error(status, self.raw.gr_error_code().decode(), self.raw.gr_error_message().decode())

        return call

    def made(self, name: str, *arguments: Any) -> c.c_void_p:
        """Returns the handle that a function writes to its last argument."""
        out = c.c_void_p()
        getattr(self, name)(*arguments, c.byref(out))
        return out

    def asked(self, kind: Any, name: str, *arguments: Any) -> Any:
        """Returns the value that a function writes to its last argument."""
        out = kind()
        getattr(self, name)(*arguments, c.byref(out))
        return out.value

    def mask(self, matcher: c.c_void_p, words: int) -> np.ndarray:
        mask = np.full(words, 0xFFFFFFFF, np.uint32)
        self.matcher_fill_bitmask(matcher, mask.ctypes.data, words, None)
        return mask

    def accept(self, matcher: c.c_void_p, token: int) -> bool:
        return self.asked(c.c_bool, "matcher_accept_token", matcher, token)

    def text(self, name: str, *arguments: Any, room: int = 4096) -> bytes:
        out, count = c.create_string_buffer(room), c.c_size_t()
        getattr(self, name)(*arguments, out, room, c.byref(count))
        return out.raw[: min(room, count.value)]


@lru_cache(maxsize=1)
def _declared() -> dict[str, tuple[str, list[str]]]:
    return declared()


def declared_result(name: str) -> str:
    return _declared()["gr_" + name][0].strip()


@lru_cache(maxsize=1)
def library() -> Library:
    where = folder()
    if where is None:
        pytest.skip("libguiderail is not built: make test-c")
    return Library(next(where / name for name in _NAMES if (where / name).exists()))
