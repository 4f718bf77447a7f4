"""Grammars that took long to read, kept on disk between runs as program files (``docs/program_format.md``).

Off by default: a library does not write to the home directory without being asked. :func:`set_cache_dir` or the
environment variable ``GUIDERAIL_CACHE_DIR`` turns it on. A reader rejects a damaged entry, which is then written
again. A key covers the whole source, its options, and the code that reads it, so nothing stale is ever found.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import threading
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from guiderail import _core
from guiderail.errors import CompileError
from guiderail.support.arguments import checked
from guiderail.support.files import TEMPORARY, reason, replace_file
from guiderail.support.locks import free_after_fork

__all__ = ["DiskCache", "cache_dir", "open_cache", "set_cache_dir"]

VARIABLE = "GUIDERAIL_CACHE_DIR"
MAX_ENTRIES = 256  # the longest unused are removed first
MAX_BYTES = 64 << 20
_SUFFIX = ".rail"
_lock = free_after_fork(threading.Lock())
_chosen: Path | None = None
_set = False  # whether set_cache_dir was called, which overrides the environment


@checked
def set_cache_dir(directory: str | os.PathLike[str] | bool | None) -> None:
    """Turns the disk cache of grammars on or off.

    A grammar in Lark, GBNF or EBNF that took more than 20 ms to read is stored when it is first compiled. Later runs
    build it from there without reading it. Grammars that import your own files or contain constraints are not stored.
    The directory holds at most 256 entries and 64 MiB; the least recently used are removed. Processes may share it, and
    you may delete it at any time.

    Args:
        directory: the directory, created with access for its owner only. True: ``guiderail`` in ``$XDG_CACHE_HOME``, by
            default ``~/.cache/guiderail``. False: off, the default. None: the value of the environment variable
            ``GUIDERAIL_CACHE_DIR`` (a directory; ``1`` for the default one; empty or ``0`` for none).

    Raises:
        CompileError: ``cache-dir``: the directory cannot be made, belongs to another user, or others may write to it.
    """
    global _chosen, _set
    chosen = None
    if isinstance(directory, bool):
        chosen = usual_dir() if directory else None
    elif directory is not None:
        chosen = Path(directory)
    if chosen is not None:
        DiskCache(chosen)
    with _lock:
        _chosen, _set = chosen, directory is not None


def cache_dir() -> Path | None:
    """The directory of the disk cache; None if it is off. See :func:`set_cache_dir`."""
    if _set:
        return _chosen
    value = os.environ.get(VARIABLE, "")
    if value in ("", "0"):
        return None
    return usual_dir() if value == "1" else Path(value)


def usual_dir() -> Path:
    """The user's cache directory (XDG Base Directory Specification)."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    root = Path(base) if os.path.isabs(base) else Path.home() / ".cache"
    return root / "guiderail"


def open_cache() -> DiskCache | None:
    """The cache in use, or None.

    Raises:
        CompileError: ``cache-dir``, as :func:`set_cache_dir` does.
    """
    directory = cache_dir()
    return None if directory is None else DiskCache(directory)


class DiskCache:
    """Bytes by keys, in files of one directory.

    Attributes:
        directory: it belongs to the user alone.
    """

    __slots__ = ("directory",)

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            found = os.lstat(directory)
        except OSError as error:
            raise CompileError(
                f"the cache directory {str(directory)!r} cannot be used: {reason(error)}; name another one, or turn "
                "the cache off",
                code="cache-dir",
            ) from error
        owner = getattr(os, "geteuid", lambda: found.st_uid)()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != owner or (os.name == "posix" and found.st_mode & 0o022):
            raise CompileError(
                f"the cache directory {str(directory)!r} must be a directory of your own that nobody else may write "
                "to (chmod 700); choose another one, or turn the cache off",
                code="cache-dir",
            )

    def load(self, key: Any) -> bytes | None:
        """What is stored under a key (JSON); None: nothing, or it cannot be read."""
        path = self._path(key)
        try:
            contents = path.read_bytes()
        except OSError:
            return None
        self._touch(path)
        return contents

    def store(self, key: Any, contents: bytes) -> bool:
        """Stores bytes. False if the directory does not permit it: a cache never makes work fail."""
        try:
            replace_file(str(self._path(key)), [contents], private=True)
            self._make_room()
        except OSError:
            return False
        return True

    def clear(self) -> None:
        """Removes all entries."""
        for path in self.directory.glob("*" + _SUFFIX):
            path.unlink(missing_ok=True)

    def _path(self, key: Any) -> Path:
        told = json.dumps([_fingerprint(), key], sort_keys=True).encode()
        return self.directory / (hashlib.sha256(told).hexdigest()[:40] + _SUFFIX)

    def _touch(self, path: Path) -> None:
        try:
            os.utime(path)
        except OSError:  # a read-only directory: nothing can be removed from it either
            return

    def _make_room(self) -> None:
        files = []
        for entry in os.scandir(self.directory):
            if entry.name.endswith(_SUFFIX) or entry.name.startswith(TEMPORARY):
                found = entry.stat(follow_symlinks=False)
                files.append((found.st_mtime, found.st_size, entry.path))
        files.sort(reverse=True)
        total = 0
        for i, (_, size, path) in enumerate(files):
            total += size
            if i >= MAX_ENTRIES or total > MAX_BYTES:
                Path(path).unlink(missing_ok=True)


def _readers() -> list[Path]:
    """The files of the package and of Lark that do the reading."""
    package = Path(_core.__file__).parent
    files = [*package.glob("_core*"), *Path(__file__).parents[1].rglob("*.py")]
    lark = find_spec("lark")  # importing it, or what knows its version, takes longer than reading from disk
    if lark is not None and lark.origin is not None:
        files += Path(lark.origin).parent.glob("*.py")
    return files


@lru_cache(maxsize=1)
def _fingerprint() -> str:
    """What entries depend on besides their keys."""
    stats = [(str(path), path.stat()) for path in sorted(_readers())]
    told = json.dumps([(name, found.st_size, found.st_mtime_ns) for name, found in stats])
    return hashlib.sha256(told.encode()).hexdigest()
