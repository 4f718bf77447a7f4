"""Replaces files atomically, so that a reader never sees half of one; says why a file cannot be read or written."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from guiderail.errors import GuiderailError

__all__ = ["TEMPORARY", "file_errors", "reason", "replace_file", "text_of"]

TEMPORARY = ".guiderail-"
"""Prefix of the names of files that are being written, or that a process left behind when it ended."""


def replace_file(target: str, parts: Iterable[bytes]) -> None:
    """Writes a file atomically, for its owner alone.

    Raises:
        OSError: it cannot be written. The previous contents stay.
    """
    if "\0" in target:
        raise OSError(errno.EINVAL, "a path cannot contain a zero character")
    handle, temporary = tempfile.mkstemp(prefix=TEMPORARY, dir=os.path.dirname(os.path.abspath(target)))
    try:
        with os.fdopen(handle, "wb") as file:
            file.writelines(parts)
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise


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
