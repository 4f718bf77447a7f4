"""Turns right-linear systems of rules, automata whose arrows are labelled with expressions, into repetitions.

``X -> a X | b Y | c`` and ``Y -> d X`` are two states. States that behave alike are merged. A state that is cheap to
remove is removed (Brzozowski & McCluskey 1963: every path through it becomes an arrow, its loop a repetition). The rest
stays as rules. Removing all of them can square the size with every state, hence the bound.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

from guiderail.frontends.grammar.build import Fold, choice, repetition, sequence
from guiderail.frontends.grammar.syntax import Expression, Name, Repetition, Sequence
from guiderail.support.work import spend

__all__ = ["Sizes", "System", "right_linear"]

_GROWTH = 4
"""Removing states may make a system about this many times as large as it was at first."""

_MERGED = 100
"""Maximum number of states to merge equal ones among, which can take as many rounds as there are states."""


class System:
    """States with labelled arrows between them and out of them.

    Attributes:
        arrows: state -> (next state -> labels).
        exits: state -> expressions that end there.
    """

    def __init__(self, sizes: Sizes | None = None) -> None:
        self.sizes = sizes or Sizes()
        self.arrows: dict[str, dict[str, list[Expression]]] = {}
        self.exits: dict[str, list[Expression]] = {}

    def add_state(self, state: str) -> None:
        self.arrows.setdefault(state, {})
        self.exits.setdefault(state, [])

    def solve(self, wanted: list[str], name_of: Callable[[str], str]) -> dict[str, Expression]:
        """Bodies, under the names that ``name_of`` gives, of ``wanted`` and of the states that could not be removed."""
        self._trim(wanted)
        if len(self.arrows) <= _MERGED:
            self._merge(wanted)
        sizes = self.sizes
        into: dict[str, set[str]] = {state: set() for state in self.arrows}
        for state, arrows in self.arrows.items():
            for to in arrows:
                if to != state:
                    into[to].add(state)
        out = {state: self._out(state, sizes) for state in self.arrows}
        total = sum(out.values())
        budget = _GROWTH * total + 64
        queue = [(len(into[state]) * out[state], state) for state in self.arrows if state not in wanted]
        heapq.heapify(queue)
        while queue:
            cost, state = heapq.heappop(queue)
            if state not in self.arrows or cost != len(into[state]) * out[state]:
                continue  # not any more
            if total + cost > budget:
                break
            sources, targets = into.pop(state), [to for to in self.arrows[state] if to != state]
            grown = self._remove(state, sources, sizes)
            total += sum(grown.values()) - out.pop(state)
            for to in targets:
                into[to].discard(state)
                into[to] |= sources - {to}
            for source, growth in grown.items():
                out[source] += growth
            for changed in sources.union(targets) - set(wanted):
                heapq.heappush(queue, (len(into[changed]) * out[changed], changed))
        return {name_of(state): self._body(state, name_of) for state in self.arrows}

    def _out(self, state: str, sizes: Sizes) -> int:
        """The number of leaves of everything that begins at a state."""
        labels = sum(sizes(label) for row in self.arrows[state].values() for label in row)
        return labels + sum(map(sizes, self.exits[state]))

    def _trim(self, wanted: list[str]) -> None:
        """Discards states that lead to no exit, and states that nothing leads to."""
        back: dict[str, list[str]] = {state: [] for state in self.arrows}
        for state, arrows in self.arrows.items():
            for to in arrows:
                back[to].append(state)
        alive = {state for state in self.arrows if self.exits[state]}
        work = list(alive)
        while work:
            for state in back[work.pop()]:
                if state not in alive:
                    alive.add(state)
                    work.append(state)
        seen = set(wanted)
        work = list(seen)
        while work:
            for to in self.arrows[work.pop()]:
                if to in alive and to not in seen:
                    seen.add(to)
                    work.append(to)
        keep = (alive & seen) | set(wanted)
        self.exits = {state: self.exits[state] for state in keep}
        self.arrows = {s: {t: row for t, row in self.arrows[s].items() if t in keep} for s in keep}

    def _merge(self, wanted: list[str]) -> None:
        """Merges states with the same arrows and exits (labels are compared by identity)."""
        block = dict.fromkeys(self.arrows, 0)
        for state in wanted:
            block[state] = 1 + wanted.index(state)  # not merged: each has its own name
        count = len(set(block.values()))
        while True:
            keys: dict[object, int] = {}
            refined = {}
            for state in sorted(self.arrows):
                arrows = frozenset((block[to], frozenset(map(id, row))) for to, row in self.arrows[state].items())
                key = (block[state], frozenset(map(id, self.exits[state])), arrows)
                refined[state] = keys.setdefault(key, len(keys))
            block = refined
            if len(keys) == count:
                break
            count = len(keys)
        first: dict[int, str] = {}
        for state in [*wanted, *sorted(self.arrows)]:
            first.setdefault(block[state], state)
        if len(first) == len(self.arrows):
            return
        arrows_of: dict[str, dict[str, list[Expression]]] = {}
        for state in first.values():
            rows: dict[str, dict[int, Expression]] = {}
            for to, row in self.arrows[state].items():
                rows.setdefault(first[block[to]], {}).update((id(label), label) for label in row)
            arrows_of[state] = {to: list(row.values()) for to, row in rows.items()}
        self.exits = {state: self.exits[state] for state in arrows_of}
        self.arrows = arrows_of

    def _remove(self, state: str, into: set[str], sizes: Sizes) -> dict[str, int]:
        """Replaces the paths through a state by arrows. Returns by how many leaves its predecessors grow."""
        arrows, exits = self.arrows.pop(state), self.exits.pop(state)
        spend(100 * (1 + len(into)) * (1 + sum(map(len, arrows.values()))))
        loop = arrows.pop(state, [])
        turns = [repetition(choice(loop), 0, None)] if loop else []
        grown: dict[str, int] = {}
        for source in sorted(into):
            first = self.arrows[source].pop(state)
            way = sequence([choice(first), *turns])
            growth, length = -sum(map(sizes, first)), sizes(way)
            for to, row in arrows.items():
                self.arrows[source].setdefault(to, []).extend(sequence([way, label]) for label in row)
                growth += sum(length + sizes(label) for label in row)
            if exits:
                ends = choice(exits)
                self.exits[source].append(sequence([way, ends]))
                growth += length + sizes(ends)
            grown[source] = growth
        return grown

    def _body(self, state: str, name_of: Callable[[str], str]) -> Expression:
        arrows = dict(self.arrows[state])
        loop = arrows.pop(state, [])
        ways = [sequence([choice(row), Name(name_of(to))]) for to, row in arrows.items()]
        ends = choice([*ways, *self.exits[state]])
        return sequence([repetition(choice(loop), 0, None), ends]) if loop else ends


class Sizes:
    """Counts the leaves of an expression after expansion; remembers what was counted."""

    def __init__(self) -> None:
        self.fold: Fold[int] = Fold(lambda e, kids: min(sum(kids) or 1, 1 << 40))

    def __call__(self, e: Expression) -> int:
        return self.fold(e)


def right_linear(rules: dict[str, Expression], group: list[str], entries: list[str]) -> dict[str, Expression] | None:
    """The bodies of a component of rules that use each other only at the very right; None if they do otherwise.

    Args:
        rules: all bodies.
        group: the names of the component.
        entries: those of them that rules outside use (or the start).
    """
    inside = set(group)
    holds: Fold[bool] = Fold(lambda e, kids: e.name in inside if isinstance(e, Name) else any(kids))
    system = System()
    for state in group:
        system.add_state(state)
    for state in group:
        # (the parts before, innermost last; the part that follows)
        work: list[tuple[tuple[Expression, ...], Expression]] = [((), rules[state])]
        while work:
            before, e = work.pop()
            if not holds(e):
                system.exits[state].append(sequence([*before, e]))
            elif isinstance(e, Name):
                system.arrows[state].setdefault(e.name, []).append(sequence(before))
            elif isinstance(e, Sequence):
                if any(holds(part) for part in e.parts[:-1]):
                    return None
                work.append(((*before, *e.parts[:-1]), e.parts[-1]))
            elif isinstance(e, Repetition):
                if e.max != 1:
                    return None
                work.append((before, e.item))
                if not e.min:
                    system.exits[state].append(sequence(before))
            else:
                work.extend((before, part) for part in e.parts)  # type: ignore[union-attr]
        if len(system.exits[state]) + sum(map(len, system.arrows[state].values())) > 2_000:
            return None
    return system.solve(entries, lambda state: state)
