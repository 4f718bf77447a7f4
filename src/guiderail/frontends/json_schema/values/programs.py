"""The programs of patterns and formats, and what their texts begin with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from guiderail.constraints.constraint import Constraint
from guiderail.constraints.program import Program, build_program
from guiderail.support.caches import cached
from guiderail.support.work import spend

__all__ = ["begin_apart", "beginning", "program_of"]

_LONGEST_BEGINNING: Final = 50  # bytes that all texts have in common
_STEPS: Final = 40  # of work for each of them


@cached(16 << 20, lambda program, _: program.core.memory_size_bytes())
def program_of(constraint: Constraint) -> Program:
    """The program of a constraint; kept."""
    return Program(build_program(constraint), constraint)


def begin_apart(constraints: Sequence[Constraint]) -> bool:
    """Whether no text satisfies all of these, since two differ where their texts begin, as most patterns for names do.

    Each is compared with the one whose beginning is the longest.
    """
    spend(_STEPS * len(constraints))
    beginnings = [_beginning(one) for one in constraints]
    longest = max(beginnings, key=lambda one: len(one[0]))
    return any(_differ(one, longest) for one in beginnings)


def beginning(constraint: Constraint) -> str:
    """Characters with which all texts begin; not always all of them."""
    return _beginning(constraint)[0].decode(errors="ignore")


_Beginning = tuple[bytes, bytes, bool]


def _differ(one: _Beginning, longest: _Beginning) -> bool:
    (text, may_follow, may_end), (long, may_follow_long, may_end_long) = one, longest
    if not long.startswith(text):
        return True
    if len(long) > len(text):
        return long[len(text) : len(text) + 1] not in may_follow
    return not (may_end and may_end_long) and set(may_follow).isdisjoint(may_follow_long)


@cached(1 << 20)
def _beginning(constraint: Constraint) -> _Beginning:
    """The bytes with which all texts begin, up to a bound, those that may follow, and whether a text may end there."""
    program = program_of(constraint).core
    at, found = program.root, b""
    first, may_end = program.first_bytes(at), program.is_nullable(at)
    while len(first) == 1 and not may_end and len(found) < _LONGEST_BEGINNING:
        spend(_STEPS)
        at, found = program.derivative(at, first), found + first
        first, may_end = program.first_bytes(at), program.is_nullable(at)
    return found, first, may_end
