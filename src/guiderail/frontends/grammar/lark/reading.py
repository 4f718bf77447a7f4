"""A Lark grammar, read by whichever reader it needs."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from guiderail.constraints.constraint import Constraint
from guiderail.errors import CompileError, GuiderailError
from guiderail.frontends.grammar.lark import by_lark
from guiderail.frontends.grammar.lark.dialect import Rewritten
from guiderail.frontends.grammar.lark.parametric import write_out
from guiderail.frontends.grammar.lark.quick import quick
from guiderail.frontends.grammar.lark.reader import Reader, Reading
from guiderail.frontends.grammar.nesting import Nesting
from guiderail.support.places import relocated

__all__ = ["read"]


def read(
    text: str,
    *,
    start: str = "start",
    import_paths: Sequence[str | os.PathLike[str] | Callable[..., Any]] = (),
    indenter: Any = None,
    constraints: Mapping[str, Constraint] | None = None,
    path: str | os.PathLike[str] | None = None,
    nested: Nesting | None = None,
) -> Reading:
    """Reads a grammar in Lark's notation, with what llguidance adds to it.

    Args:
        text: the grammar.
        start: its start rule.
        import_paths: directories (or Lark's loaders) in which ``%import`` looks for grammars.
        indenter: an ``Indenter`` of Lark or an ``Indentation``, which turns line breaks into INDENT and DEDENT.
        constraints: what ``@name`` and declared terminals (``%declare NAME``) stand for.
        path: the file of the grammar; relative imports start there.
        nested: makes nested grammars and schemas.

    Raises:
        PatternError: the notation is malformed; ``span`` says where.
        CompileError: the grammar is not sound, or cannot be enforced exactly.
    """
    if not isinstance(text, str):
        raise CompileError(f"a grammar must be a string, not {type(text).__name__}", code="not-a-constraint")
    written = write_out(text)
    if written is None:
        return _read(text, start, import_paths, indenter, dict(constraints or {}), path, nested)
    try:
        return _read(written.text, start, import_paths, indenter, dict(constraints or {}), path, nested)
    except GuiderailError as error:
        if error.source != written.text or error.span is None:
            raise
        span = written.place(error.span[0]), written.place(error.span[1] - 1) + 1
        raise relocated(error, "", source=text, span=span) from error


def _read(
    text: str,
    start: str,
    import_paths: Sequence[str | os.PathLike[str] | Callable[..., Any]],
    indenter: Any,
    constraints: dict[str, Constraint],
    path: str | os.PathLike[str] | None,
    nested: Nesting | None,
) -> Reading:
    """A grammar without parametric rules."""
    found = None if constraints else quick(text)
    if found is None:
        return by_lark.read(text, start, import_paths, indenter, constraints, path, nested)
    reader = Reader(Rewritten(text, text), start, {}, indenter)

    def compiled() -> Any:
        return by_lark.compiled(text, start, reader.kept())

    return reader.run(found._replace(compiled=compiled))
