"""Compiled constraints in files, independent of any vocabulary (``docs/program_format.md``).

A file lists the operations with which the core builds the expression. Loading runs them again, under the checks and
limits that apply to every constraint.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from hashlib import sha256

from guiderail import _core
from guiderail.constraints.constraint import Constraint
from guiderail.errors import CompileError
from guiderail.support.arguments import checked
from guiderail.support.files import file_errors
from guiderail.support.nesting import nested
from guiderail.support.work import reading
from guiderail.vocabulary import Vocabulary
from guiderail.vocabulary._storage import KIND, MAGIC

__all__ = ["SavedConstraint", "load"]

_VOCABULARY = KIND.to_bytes(4, "little")


@dataclass(frozen=True, slots=True)
class SavedConstraint(Constraint):
    """The constraint in a file. Its strings are read as plain text: a file does not hold how to parse values."""

    file: bytes

    def _lower(self, b: _core.Builder) -> int:
        return b.replay(self.file)

    def __repr__(self) -> str:
        return f"<saved constraint {sha256(self.file).hexdigest()[:12]}, {len(self.file):,} bytes>"


@checked
def load(path: str | os.PathLike[str]) -> Constraint | Vocabulary:
    """Reads what :meth:`Constraint.save`, :meth:`Guide.save` or :meth:`Vocabulary.save` wrote.

    The file says which of these it holds. It is checked, and its operations run under the usual compilation limits;
    ``docs/program_format.md`` says what is trusted. A loaded constraint matches the same strings as the one that was
    saved. It does not parse them: methods of a front end, such as ``read`` and ``parse``, are not available.

    Raises:
        CompileError: ``saved-file``: the file is missing, damaged, or not one that guiderail wrote.
        VocabularyError: ``vocabulary-file``: the same, for a vocabulary.
    """
    target = os.fspath(path)
    with file_errors(f"{target} cannot be read", CompileError, "saved-file"), open(target, "rb") as file:
        start = file.read(len(MAGIC) + 4)
        known = start.startswith(MAGIC)
        vocabulary = known and start.endswith(_VOCABULARY)
        rest = file.read() if known and not vocabulary else b""
    if not known:
        raise CompileError(f"{target} is not a file saved by guiderail: it does not begin like one", code="saved-file")
    if vocabulary:
        return Vocabulary.load(target)
    constraint = SavedConstraint(start + rest)
    with nested("the constraint"), reading():
        constraint._lower(_core.Builder())  # reject a damaged file now, not at its first use
    return constraint
