"""The texts that ``re.match`` takes, as an expression: the automaton of the first match, its states eliminated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from guiderail import _core
from guiderail.constraints.constraint import Constraint
from guiderail.errors import LimitError
from guiderail.frontends.grammar.lark.first_match import Machine
from guiderail.frontends.grammar.lark.first_match_undone import pending_steps
from guiderail.frontends.regex import regex
from guiderail.support.caches import cached
from guiderail.support.texts import clipped

__all__ = ["FirstMatchTexts"]

_MOST_STATES = 60  # that repeat
_SHOWN = 60  # characters of a pattern
_START, _END = -1, -2  # of texts; states have other numbers


@dataclass(frozen=True, slots=True)
class FirstMatchTexts(Constraint):
    """The texts that ``re.match`` with ``pattern`` takes as a whole.

    Attributes:
        pattern: of Python's dialect.
        kind: ``"whole"``: those; ``"begun"``: the texts that it takes a beginning of; ``"next"``: a match, and a
            character before which it counts; ``"undone"``: a match, and what follows it up to the character that
            undoes it for good. (A longer match may replace it until then, if the
            longest one is taken.)
    """

    pattern: str
    kind: str = "whole"

    def _lower(self, b: _core.Builder) -> int:
        """The automaton's states eliminated one by one (Brzozowski and McCluskey 1963)."""
        machine, block = _automaton(self.pattern)
        start, end = _START, _END
        ways: dict[int, dict[int, int]] = {start: {}, end: {}}
        found = _pending_ways if self.kind == "undone" and machine.longest else self._ways
        for source, target, e in found(machine, block, b):
            known = ways.setdefault(source, {})
            known[target] = b.union([known[target], e]) if target in known else e
        _write_ends(ways, b)
        left = set(ways) - {start, end}
        if len(left) > _MOST_STATES:
            raise LimitError(
                f"the texts of /{clipped(self.pattern, _SHOWN)}/ cannot be written out: more than {_MOST_STATES} of "
                "its states repeat; write a simpler pattern, or drop its look-around",
                code="lark-first-match",
            )
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

    def _ways(self, machine: Machine, block: list[int], b: _core.Builder) -> Iterator[tuple[int, int, int]]:
        """From which state to which one each text leads."""
        everything = b.repeat(b.char_class(machine.chars(machine.all)), 0, -1)
        yield _START, block[0], b.EPSILON
        for state, row in enumerate(machine.table):
            source = block[state]
            valid, match = machine.valid_before[state], machine.matches[state]
            masks: dict[int, int] = {}
            for k, target in enumerate(row):
                if target >= 0 and block[target] >= 0:
                    masks[block[target]] = masks.get(block[target], 0) | 1 << k
            for target, mask in masks.items():
                yield source, target, b.char_class(machine.chars(mask))
            if not match:
                continue
            if self.kind == "next":
                yield source, _END, b.char_class(machine.chars(valid))
            elif self.kind != "undone":
                yield source, _END, b.EPSILON
                if self.kind == "begun":
                    yield source, _END, b.concat([b.char_class(machine.chars(valid)), everything])
            elif machine.all & ~valid:
                yield source, _END, b.char_class(machine.chars(machine.all & ~valid))

    def __repr__(self) -> str:
        return f"first_match_texts({self.pattern!r}{'' if self.kind == 'whole' else f', {self.kind!r}'})"


def _write_ends(ways: dict[int, dict[int, int]], b: _core.Builder) -> None:
    """Eliminates the states that lead only to the end, again and again: all those of an automaton without repetitions.

    Nothing is written twice for that.
    """
    sources: dict[int, list[int]] = {}
    for source, targets in ways.items():
        for target in targets:
            sources.setdefault(target, []).append(source)
    ready = [state for state in ways if _leads_to_the_end(state, ways)]
    while ready:
        state = ready.pop()
        out = ways.pop(state)
        loop = out.pop(state, None)
        rest = out.get(_END, b.EMPTY)
        rest = rest if loop is None else b.concat([b.repeat(loop, 0, -1), rest])
        for source in sources.get(state, ()):
            if source == state:
                continue
            targets = ways[source]
            e = b.concat([targets.pop(state), rest])
            targets[_END] = b.union([targets[_END], e]) if _END in targets else e
            if _leads_to_the_end(source, ways):
                ready.append(source)


def _leads_to_the_end(state: int, ways: dict[int, dict[int, int]]) -> bool:
    return state not in (_START, _END) and all(target in (_END, state) for target in ways[state])


def _pending_ways(machine: Machine, block: list[int], b: _core.Builder) -> Iterator[tuple[int, int, int]]:
    """The ways to where a match is undone for good, in the automaton beside whether one is pending."""
    masks: dict[tuple[int, int], int] = {}
    for state, pending, k, target, then in pending_steps(machine):
        to = 2 * block[target] + then if target >= 0 else _END
        if target >= 0 or then:
            way = 2 * block[state] + pending, to
            masks[way] = masks.get(way, 0) | 1 << k
    yield _START, 2 * block[0], b.EPSILON
    for (source, to), mask in masks.items():
        yield source, to, b.char_class(machine.chars(mask))


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
