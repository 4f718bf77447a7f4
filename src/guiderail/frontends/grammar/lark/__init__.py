"""Grammars in Lark's notation, with the meaning of its LALR parser with a contextual lexer.

``quick`` reads grammars of the usual form, the ``lark`` package all others (``by_lark``). The results are the same, and
the tests compare them. ``quick`` takes a third of the time (SQL: 15 ms instead of 45), and importing the package takes
another 55 ms. But ``quick`` reads no imports, no overrides, nothing that llguidance adds, and no faulty grammar. Then
``assembly`` makes lexemes from terminals, and a grammar from both.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from guiderail.constraints.constraint import Constraint
from guiderail.errors import CompileError, GuiderailError
from guiderail.frontends.grammar.lark import by_lark
from guiderail.frontends.grammar.lark.assembly import Assembly, LarkGrammar
from guiderail.frontends.grammar.lark.dialect import Rewritten
from guiderail.frontends.grammar.lark.parametric import write_out
from guiderail.frontends.grammar.lark.quick import quick
from guiderail.frontends.grammar.nesting import Nesting
from guiderail.support.places import relocated

__all__ = ["LarkGrammar", "read"]


def read(
    text: str,
    *,
    start: str = "start",
    import_paths: Sequence[str | os.PathLike[str] | Callable[..., Any]] = (),
    indenter: Any = None,
    constraints: Mapping[str, Constraint] | None = None,
    path: str | os.PathLike[str] | None = None,
    nested: Nesting | None = None,
) -> LarkGrammar:
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
) -> LarkGrammar:
    """A grammar without parametric rules."""
    found = None if constraints else quick(text)
    if found is None:
        return by_lark.read(text, start, import_paths, indenter, constraints, path, nested)
    assembly = Assembly(Rewritten(text, text), start, {}, indenter)

    def compiled() -> Any:
        return by_lark.compiled(text, start, assembly.kept())

    return assembly.run(found._replace(compiled=compiled))
