"""Constraints as files: compiled, without a vocabulary, for any program that reads them (``docs/program_format.md``).

A file lists the operations by which the core makes an expression. Reading it runs them again, through the checks and
limits that any constraint goes through.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from hashlib import sha256

from guiderail import _core
from guiderail.constraints.constraint import Constraint
from guiderail.constraints.special_tokens import SpecialTokens, special_tokens_of
from guiderail.errors import CompileError
from guiderail.support.arguments import checked
from guiderail.support.nesting import nested
from guiderail.support.work import MAX_WORK, limited
from guiderail.vocabulary import Vocabulary

__all__ = ["SavedConstraint", "load", "program_file", "save"]

MAGIC = b"\x89RAIL\r\n\x1a"
_KIND = slice(8, 12)
_PROGRAM, _VOCABULARY = b"\x01\0\0\0", b"\x02\0\0\0"


@dataclass(frozen=True, slots=True)
class SavedConstraint(Constraint):
    """What a file holds. Texts are read as they stand: what front ends know of values is not in the file."""

    file: bytes

    def _lower(self, b: _core.Builder) -> int:
        return b.replay(self.file)

    def __repr__(self) -> str:
        return f"<saved constraint {sha256(self.file).hexdigest()[:12]}, {len(self.file):,} bytes>"


def program_file(constraint: Constraint, special: Vocabulary | SpecialTokens | None = None) -> bytes:
    """The constraint, compiled, as the bytes of a file.

    Args:
        special: a vocabulary with whose special tokens it may be written, see :func:`special_tokens_of`.
    """
    with nested("the constraint"), limited(MAX_WORK), special_tokens_of(special or SpecialTokens()):
        builder = _core.Builder(records=True)
        root = constraint._lower(builder)
        file = builder.recorded(root)
        builder.finish(root)  # with the checks of the whole
    return file


def save(
    constraint: Constraint, path: str | os.PathLike[str], special: Vocabulary | SpecialTokens | None = None
) -> None:
    """Writes :func:`program_file` to a file, atomically.

    Raises:
        CompileError: ``saved-file``: the file cannot be written; and as for :meth:`Constraint.program`.
        LimitError: as for :meth:`Constraint.program`.
    """
    contents = program_file(constraint, special)
    target = os.fspath(path)
    try:
        handle, temporary = tempfile.mkstemp(prefix=".guiderail-", dir=os.path.dirname(os.path.abspath(target)))
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(contents)
            os.replace(temporary, target)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        raise CompileError(
            f"the constraint cannot be written to {target}: {error.strerror or error}", code="saved-file"
        ) from error


@checked
def load(path: str | os.PathLike[str]) -> Constraint | Vocabulary:
    """Reads what :meth:`Constraint.save`, :meth:`Guide.save` or :meth:`Vocabulary.save` wrote.

    The file itself says what it holds. It is checked, and its operations run under the limits of every compilation;
    ``docs/program_format.md`` says what is believed. A saved constraint behaves as the one that was saved, with one
    exception: texts are read as they stand, so ``parse`` and its kin of front ends are not available.

    Raises:
        CompileError: ``saved-file``: there is no such file, or it is damaged, or no file of guiderail's.
        VocabularyError: ``vocabulary-file``: the same of a vocabulary.
    """
    target = os.fspath(path)
    try:
        with open(target, "rb") as file:
            start = file.read(len(MAGIC) + 4)
            if start[: len(MAGIC)] != MAGIC or start[_KIND] == _VOCABULARY:
                vocabulary = start[_KIND] == _VOCABULARY or start[:2] == b"PK"  # once they were zip archives
                contents = None
            else:
                vocabulary, contents = False, start + file.read()
    except OSError as error:
        raise CompileError(f"{target} cannot be read: {error.strerror or error}", code="saved-file") from error
    if vocabulary:
        return Vocabulary.load(target)
    if contents is None:
        raise CompileError(
            f"{target} is not a file that guiderail has saved: it does not begin like one", code="saved-file"
        )
    constraint = SavedConstraint(contents)
    with nested("the constraint"), limited(MAX_WORK):
        constraint._lower(_core.Builder())  # a damaged file is refused now, not where it is used
    return constraint
