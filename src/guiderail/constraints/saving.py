"""Writes a constraint to a file: compiled, without a vocabulary (``docs/program_format.md``)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from guiderail import _core
from guiderail.constraints.places import placing
from guiderail.constraints.special_tokens import SpecialTokens, special_tokens_of
from guiderail.errors import CompileError
from guiderail.support.files import file_errors, replace_file
from guiderail.support.nesting import nested
from guiderail.support.work import reading

if TYPE_CHECKING:
    from guiderail.constraints.constraint import Constraint
    from guiderail.vocabulary import Vocabulary

__all__ = ["program_file", "save"]


def program_file(constraint: Constraint, special: Vocabulary | SpecialTokens | None = None) -> bytes:
    """The compiled constraint as the bytes of a file.

    Args:
        special: a vocabulary whose special tokens may be used, see :func:`special_tokens_of`.
    """
    with placing(constraint), nested("the constraint"), reading(), special_tokens_of(special or SpecialTokens()):
        builder = _core.Builder(records=True)
        root = constraint._lower(builder)
        file = builder.recorded(root)
        builder.finish(root)  # also checks the whole program
    return file


def save(
    constraint: Constraint, path: str | os.PathLike[str], special: Vocabulary | SpecialTokens | None = None
) -> None:
    """Writes :func:`program_file` to a file, atomically.

    Raises:
        CompileError: ``saved-file``: the file cannot be written; and as for :meth:`Constraint.program`.
        LimitError: as for :meth:`Constraint.program`.
        ArgumentError: ``special`` is not a vocabulary.
    """
    if special is not None and not isinstance(special, SpecialTokens):
        from guiderail.vocabulary.adapted import vocabulary_of

        special = vocabulary_of(special)
    contents = program_file(constraint, special)
    target = os.fspath(path)
    with file_errors(f"the constraint cannot be written to {target}", CompileError, "saved-file"):
        replace_file(target, [contents])
