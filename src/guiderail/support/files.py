"""Replaces files atomically, so that a reader never sees half of one; says why a file cannot be read or written."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from guiderail.errors import GuiderailError

__all__ = ["TEMPORARY", "file_errors", "reason", "replace_file", "text_of"]

TEMPORARY = ".guiderail-"
"""Prefix of the names of files that are being written, or that a process left behind when it ended."""


def replace_file(target: str, parts: Iterable[bytes], *, private: bool = False) -> None:
    """Writes a file atomically, with the permissions that any new file of the user gets, or those that it had.

    Args:
        target: the file.
        parts: what it holds.
        private: only its owner may read it.

    Raises:
        OSError: it cannot be written. The previous contents stay.
    """
    if "\0" in target:
        raise OSError(errno.EINVAL, "a path cannot contain a zero character")
    temporary = os.path.join(os.path.dirname(os.path.abspath(target)), TEMPORARY + secrets.token_hex(8))
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    handle = os.open(temporary, flags, 0o600 if private else _permissions(target))
    try:
        with os.fdopen(handle, "wb") as file:
            file.writelines(parts)
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise


def _permissions(target: str) -> int:
    """Those of the file, or of a new one; the system takes away what the user's mask does not allow."""
    try:
        return stat.S_IMODE(os.stat(target).st_mode)
    except OSError:
        return 0o666


@contextmanager
def file_errors(what: str, error: type[GuiderailError], code: str) -> Iterator[None]:
    """Inside, a file that cannot be read, decoded or written is an error of guiderail.

    Args:
        what: what failed: ``"the grammar sums.lark cannot be read"``.
        error: the class of the error.
        code: its code.
    """
    try:
        yield
    except (OSError, ValueError) as why:  # ValueError: not UTF-8, or a path with a zero character
        raise error(f"{what}: {reason(why)}", code=code) from why


def text_of(path: Path, what: str, error: type[GuiderailError], code: str) -> str:
    """The text of a file that somebody wrote: UTF-8, after a byte order mark if there is one.

    Args:
        path: the file.
        what, error, code: as for :func:`file_errors`.

    Raises:
        GuiderailError: of the class ``error``: the file cannot be read or decoded.
    """
    with file_errors(what, error, code):
        return path.read_text(encoding="utf-8-sig")


def reason(error: Exception) -> str:
    """Why a file cannot be read or written, for a message that names the file: no number of the system, no path."""
    return getattr(error, "strerror", None) or str(error)
