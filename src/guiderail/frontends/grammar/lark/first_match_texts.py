"""The texts that ``re.match`` takes, as an expression: the automaton of the first match, its states eliminated."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import chain

from guiderail import _core
from guiderail.constraints.constraint import Constraint
from guiderail.errors import LimitError
from guiderail.frontends.grammar.lark.first_match import Machine
from guiderail.frontends.regex import regex
from guiderail.support.caches import cached

__all__ = ["FirstMatchTexts"]

_MOST_STATES = 60


@dataclass(frozen=True, slots=True)
class FirstMatchTexts(Constraint):
    """The texts that ``re.match`` with ``pattern`` takes as a whole.

    Attributes:
        pattern: of Python's dialect.
        kind: ``"whole"``: those; ``"begun"``: the texts that it takes a beginning of; ``"undone"``: a match, and the
            character after it that undoes it.
    """

    pattern: str
    kind: str = "whole"

    def _lower(self, b: _core.Builder) -> int:
        """The automaton's states eliminated one by one (Brzozowski and McCluskey 1963)."""
        machine, block = _automaton(self.pattern)
        everything = b.repeat(b.char_class(machine.chars(machine.all)), 0, -1)
        start, end = -1, -2
        ways: dict[int, dict[int, int]] = {start: {block[0]: b.EPSILON}, end: {}}

        def add(source: int, target: int, e: int) -> None:
            known = ways.setdefault(source, {})
            known[target] = b.union([known[target], e]) if target in known else e

        for state, row in enumerate(machine.table):
            source = block[state]
            valid, match = machine.valid_before[state], machine.matches[state]
            masks: dict[int, int] = {}
            for k, target in enumerate(row):
                if target >= 0 and block[target] >= 0:
                    masks[block[target]] = masks.get(block[target], 0) | 1 << k
            for target, mask in masks.items():
                add(source, target, b.char_class(machine.chars(mask)))
            if not match:
                continue
            if self.kind != "undone":
                add(source, end, b.EPSILON)
                if self.kind == "begun":
                    add(source, end, b.concat([b.char_class(machine.chars(valid)), everything]))
            elif machine.all & ~valid:
                add(source, end, b.char_class(machine.chars(machine.all & ~valid)))
        left = set(ways) - {start, end}
        if len(left) > _MOST_STATES:
            raise LimitError(f"its automaton has more than {_MOST_STATES} states", code="lark-first-match")
        while left:
            into = Counter(chain.from_iterable(ways.values()))
            chosen = min(left, key=lambda s: (into[s] * len(ways[s]), s))
            left.discard(chosen)
            out = ways.pop(chosen)
            loop = out.pop(chosen, None)
            for targets in list(ways.values()):
                way = targets.pop(chosen, None)
                if way is None:
                    continue
                head = [way] if loop is None else [way, b.repeat(loop, 0, -1)]
                for target, e in out.items():
                    e = b.concat([*head, e])
                    targets[target] = b.union([targets[target], e]) if target in targets else e
        return ways[start].get(end, b.EMPTY)

    def __repr__(self) -> str:
        return f"first_match_texts({self.pattern!r}{'' if self.kind == 'whole' else f', {self.kind!r}'})"


@cached(8 << 20, lambda _, pattern: 4000 * len(pattern))
def _automaton(pattern: str) -> tuple[Machine, list[int]]:
    machine = Machine(regex(pattern)._parsed.tree)
    machine.decide()
    return machine, _blocks(machine)


def _blocks(machine: Machine) -> list[int]:
    """States that behave alike, by one number (Moore 1956); -1 for those from which no match is found."""
    table = machine.table
    into: list[list[int]] = [[] for _ in table]
    for state, row in enumerate(table):
        for target in row:
            if target >= 0:
                into[target].append(state)
    alive = {state for state, match in enumerate(machine.matches) if match}
    stack = list(alive)
    while stack:
        fresh = [s for s in into[stack.pop()] if s not in alive]
        alive.update(fresh)
        stack += fresh
    block = [
        int(m) + 2 * v if s in alive else -1
        for s, (m, v) in enumerate(zip(machine.matches, machine.valid_before, strict=True))
    ]
    count = len(set(block))
    while True:
        keys = [(b, *(block[t] if t >= 0 else -1 for t in table[s])) if b >= 0 else () for s, b in enumerate(block)]
        numbers: dict[tuple[int, ...], int] = {}
        block = [numbers.setdefault(key, len(numbers)) if key else -1 for key in keys]
        if len(set(block)) == count:
            return block
        count = len(set(block))
