"""Which part of a constraint no text matches, for the error that says so."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from itertools import combinations

from guiderail import _core
from guiderail.constraints.constraint import AllOf, AnyOf, Constraint, _Composed
from guiderail.constraints.program import FUEL, MAX_NODES
from guiderail.constraints.sharing import lowered, walk
from guiderail.errors import CompileError, GuiderailError
from guiderail.support.texts import shown
from guiderail.support.work import MAX_STEP_WORK, reading

__all__ = ["explained"]

_MOST_SHOWN = 100  # characters of each part
_MOST_PAIRS = 100


def explained(error: CompileError, constraint: Constraint) -> CompileError:
    """Returns an error about a constraint that no text matches, with the innermost part that none matches."""
    if error.code != "unsatisfiable":
        return error
    try:
        with reading():
            why = _Blame().of(constraint)
    except GuiderailError:  # a limit; the constraint is too large to look into
        return error
    return CompileError(f"{error.message}: {why}", code=error.code)


class _Blame:
    def __init__(self) -> None:
        self.builder = _core.Builder(MAX_NODES, FUEL, MAX_STEP_WORK)
        self.walk = walk(self.builder)  # each part is lowered once

    def handles(self, parts: tuple[Constraint, ...]) -> list[int]:
        with self.walk:
            return lowered(parts, self.builder)

    def is_empty(self, e: int) -> bool:
        try:
            return self.builder.is_empty(e)
        except CompileError:  # recursive rules, which have a text: grammars and schemas without one are refused
            return False

    def of(self, constraint: Constraint) -> str:
        while True:
            parts = tuple(_parts(constraint))
            handles = self.handles(parts)
            inner = next((p for p, e in zip(parts, handles, strict=True) if self.is_empty(e)), None)
            if inner is None:
                break
            constraint = inner
        if isinstance(constraint, AllOf) and len(parts) > 1:
            for i, j in list(combinations(range(len(parts)), 2))[:_MOST_PAIRS]:
                if self.builder.is_empty(self.builder.intersection([handles[i], handles[j]])):
                    return f"no text matches both {_shown(parts[i])} and {_shown(parts[j])}"
            return f"no text matches all of {', '.join(map(_shown, parts))}"
        return f"no text matches {_shown(constraint)}"


def _shown(constraint: Constraint) -> str:
    return shown(constraint, _MOST_SHOWN)


def _parts(constraint: Constraint) -> Iterator[Constraint]:
    """The parts of which one may be to blame: any of these, or all that are alternatives."""
    if isinstance(constraint, AllOf):
        yield from constraint.parts
        return
    if not isinstance(constraint, _Composed):
        return
    for one in fields(constraint):  # type: ignore[arg-type]
        value = getattr(constraint, one.name)
        if isinstance(value, Constraint):
            yield value
        elif isinstance(value, tuple):
            yield from value[:1] if isinstance(constraint, AnyOf) else value
