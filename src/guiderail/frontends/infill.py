"""Strings that fit between two given ones: fill in the middle.

``t`` fits if ``before + t + after`` matches the constraint. The set of such strings is the quotient of a language by
two strings. The left quotient is a derivative. For the right quotient, a string may end in every state whose derivative
by ``after`` is nullable. So the module enumerates the states of the constraint, drops those that cannot reach such an
end, and turns each of the others into a rule of a right-linear grammar.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from guiderail import _core
from guiderail.constraints.constraint import Constraint, _Composed
from guiderail.constraints.program import FUEL, MAX_NODES
from guiderail.constraints.special_tokens import SpecialTokens, special_tokens_of
from guiderail.errors import CompileError, LimitError
from guiderail.frontends.given import constraint_of
from guiderail.support.arguments import checked
from guiderail.support.texts import utf8
from guiderail.support.work import MAX_STEP_WORK, spend

__all__ = ["infill"]

_MOST_STATES = 4096
_STATE_WORK = 2500  # steps that writing out a state counts for


@dataclass(frozen=True, slots=True)
class Infill(_Composed):
    constraint: Constraint
    before: str
    after: str

    def _lower(self, b: _core.Builder) -> int:
        program = _program(self.constraint)
        start = program.derivative(program.root, self.before.encode())
        after = self.after.encode()
        steps = _states(program, start, after)
        ends = {state for state in steps if program.is_nullable(program.derivative(state, after))}
        alive = _leading_to(steps, ends)
        if start not in alive:
            return b.EMPTY
        rules = {state: b.rule(f"infill {number}") for number, state in enumerate(alive)}
        for state, rule in rules.items():
            ways = [
                b.concat([b.byte_class(bytes(values)), rules[target]])
                for target, values in steps[state].items()
                if target in alive
            ]
            b.define(rule, b.union([*ways, *([b.EPSILON] if state in ends else [])]))
        return rules[start]

    def as_written(self) -> Infill:
        """Itself: the surrounding text has its own order and layout, which the whole must match."""
        return self

    def __repr__(self) -> str:
        return f"infill({self.constraint!r}, {self.before!r}, {self.after!r})"


class _TextBuilder(_core.Builder):
    """A builder for constraints on bytes only: tokens are rejected."""

    def token(self, symbols: Sequence[str | int], /) -> int:
        raise _tokens("names special tokens")

    def token_set(self, tokens: Sequence[str | int], /, but: bool = False) -> int:
        raise _tokens("names tokens")

    def counted(self, e: int, most: int, /) -> int:
        raise _tokens("counts tokens")


def _tokens(what: str) -> CompileError:
    return CompileError(f"infill takes a constraint on text, but this one {what}; leave them out", code="infill-tokens")


def _program(constraint: Constraint) -> _core.Program:
    builder = _TextBuilder(MAX_NODES, FUEL, MAX_STEP_WORK)
    with special_tokens_of(SpecialTokens()):
        return builder.finish(constraint._lower(builder))


def _states(program: _core.Program, start: int, after: bytes) -> dict[int, dict[int, list[int]]]:
    """The states reachable from a state, with the bytes that lead from each to the next."""
    found: dict[int, dict[int, list[int]]] = {}
    waiting = [start] if program.is_live(start) else []
    while waiting:
        state = waiting.pop()
        if state in found:
            continue
        spend(_STATE_WORK)
        if len(found) == _MOST_STATES:
            raise LimitError(
                f"infill lists the states of its constraint, but this one has more than {_MOST_STATES:,} (a recursive "
                "grammar or schema has infinitely many); bound it (maxLength, repeat) or, if the text itself must "
                f"match and {after[:20].decode(errors='replace')!r} only follows, write constraint + text",
                code="infill-states",
            )
        found[state] = {}
        for byte in program.first_bytes(state):
            target = program.derivative(state, bytes([byte]))
            found[state].setdefault(target, []).append(byte)
        waiting += found[state]
    return found


def _leading_to(steps: dict[int, dict[int, list[int]]], ends: set[int]) -> dict[int, None]:
    """The states from which one of ``ends`` can be reached."""
    sources: dict[int, list[int]] = {}
    for state, targets in steps.items():
        for target in targets:
            sources.setdefault(target, []).append(state)
    alive = dict.fromkeys(state for state in steps if state in ends)
    waiting = list(alive)
    while waiting:
        for source in sources.get(waiting.pop(), []):
            if source not in alive:
                alive[source] = None
                waiting.append(source)
    return alive


@checked
def infill(constraint: Any, *, before: str = "", after: str = "") -> Constraint:
    r"""Matches every string ``t`` for which ``before + t + after`` matches ``constraint``: fill in the middle.

        >>> import guiderail as gr
        >>> date = gr.regex(r"\d{4}-\d{2}-\d{2}")
        >>> middle = gr.infill(date, before="2024-", after="9")
        >>> middle.matches("02-2"), middle.matches("02-29")
        (True, False)

    If the text itself must match the constraint and another string follows, write ``constraint + text`` instead. Put
    ``&`` and ``~`` inside: ``infill(a & b)``.

    Args:
        constraint: whatever :func:`compile` takes, with at most 4,096 states: regular expressions, choices, and schemas
            and grammars without recursion.
        before, after: the strings around the gap. The gap may begin and end anywhere, even inside a word or a number.

    Raises:
        CompileError: on compilation: no text fits; ``infill-tokens``: the constraint names or counts tokens.
        LimitError: on compilation: ``infill-states``: there are too many states.
    """
    utf8(before), utf8(after)
    return Infill(constraint_of(constraint), before, after)
