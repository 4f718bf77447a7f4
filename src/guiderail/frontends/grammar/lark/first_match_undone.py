r"""Matches that what follows them undoes, in the automaton of the first match.

In ``\d+\b``, a second digit undoes the first match, but a longer one may follow: the match is *pending*. A letter
undoes it for good.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from guiderail.frontends.grammar.lark.first_match_states import Unknown
from guiderail.support.work import spend

__all__ = ["pending_steps", "undone_for_good"]


class _Automaton(Protocol):
    """See :class:`.first_match.Machine`."""

    table: list[list[int]]
    matches: list[bool]
    valid_before: list[int]
    valid_at_end: list[bool]


def pending_steps(machine: _Automaton) -> Iterator[tuple[int, bool, int, int, bool]]:
    """The steps of the automaton beside whether a match is pending.

    Yields:
        State, whether a match is pending there, class, the next state (-1: no match is found from there), and whether
        one is pending then: found, and undone by that class or an earlier one.
    """
    alive = _alive(machine)
    begin = (0, False)
    seen, stack = {begin}, [begin]
    while stack:
        state, pending = stack.pop()
        match, valid = machine.matches[state], machine.valid_before[state]
        row = machine.table[state]
        spend(len(row))
        for k, target in enumerate(row):
            then = (pending or match) and not (match and bool(valid >> k & 1))
            if target not in alive:
                target = -1
            elif (target, then) not in seen:
                seen.add((target, then))
                stack.append((target, then))
            yield state, pending, k, target, then


def undone_for_good(machine: _Automaton) -> tuple[int, bool]:
    """The classes that undo a match for good, and whether the end of the text may undo one.

    Raises:
        Unknown: the end of the text may undo a match that is a part of the text.
    """
    undone, needs = 0, False
    for state, pending, k, target, then in pending_steps(machine):
        match = machine.matches[state]
        if pending and not match:
            raise Unknown("the end of the text may undo a match")
        needs |= match and not machine.valid_at_end[state]
        if target < 0 and then:
            undone |= 1 << k
    return undone, needs


def _alive(machine: _Automaton) -> set[int]:
    """The states from which a match is found."""
    into: list[list[int]] = [[] for _ in machine.table]
    for state, row in enumerate(machine.table):
        for target in set(row):
            if target >= 0:
                into[target].append(state)
    found = {state for state, match in enumerate(machine.matches) if match}
    stack = list(found)
    while stack:
        fresh = [state for state in into[stack.pop()] if state not in found]
        found.update(fresh)
        stack += fresh
    return found
