"""Automata over the bytes of numbers, made once and replayed into any builder.

States are interned bottom-up, which makes an automaton minimal (Daciuk et al. 2000; loops of one state are recognised
too); only states that lead to one another come as a group, which its maker has minimised.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias

from guiderail._core import Builder, CharSet
from guiderail.errors import LimitError
from guiderail.support.work import spend

if TYPE_CHECKING:
    from guiderail.frontends.json_schema.lowering.number_lazy import Table

Edges: TypeAlias = tuple[tuple[bytes, int], ...]  # disjoint sets of bytes -> node, sorted
Loop: TypeAlias = tuple[bool, Edges, bytes]
Group: TypeAlias = list[tuple[bool, Edges]]
ReadyState: TypeAlias = tuple[bool, tuple[tuple[int, int], ...], int, bool]  # sets of bytes by number; deep
ReadyGroup: TypeAlias = list[tuple[bool, tuple[tuple[int, int], ...]]]
DEAD: Final = -1
MAX_NESTING: Final = 400
"""Digits after which an expression is hidden in a rule: the core bounds how deep expressions nest."""
_STATE: Final = 600  # approximate bytes of a state and its edges
DIGITS: Final = b"0123456789"
DIGIT: Final = tuple(bytes([b]) for b in DIGITS)


@lru_cache(maxsize=4096)
def charset(values: bytes) -> CharSet:
    return CharSet([(b, b) for b in values])


class Plan:
    """A deterministic automaton whose nodes come after their targets, except for loops and groups.

    ``steps`` contains, in order: ``(accepts, edges, loop)``, a state with an edge to itself by the bytes ``loop``; or a
    list of states ``(accepts, edges)`` that may lead to one another, one node each.
    """

    def __init__(self, limit: int) -> None:
        self.steps: list[Loop | Group] = []
        self.count = 0
        self.limit = limit
        self.known: dict[tuple[bool, Edges], int] = {}
        self.groups: dict[Hashable, list[int]] = {}
        self.roots: list[int] = []
        self.lazy: list[tuple[bool, Table]] = []  # negative; what the core reads as it comes
        self.choice: list[bytes] = []
        self.ready: tuple[list[ReadyState | ReadyGroup], list[CharSet]] | None = None

    def _grow(self, nodes: int) -> int:
        first = self.count
        self.count += nodes
        if self.count > self.limit:
            self.refuse()
        return first

    def refuse(self) -> NoReturn:
        raise LimitError(
            f"the numbers of this schema need an automaton of more than {self.limit:,} states; use a simpler "
            "multipleOf, or bounds with fewer digits",
            code="number-states",
        )

    def state(self, accepts: bool, targets: dict[int, bytes], itself: bytes = b"") -> int:
        """A state with these edges (target -> bytes) and a loop; `DEAD` if nothing is accepted from it."""
        targets.pop(DEAD, None)
        if not targets and not accepts:
            return DEAD
        edges = tuple([(b, t) for t, b in targets.items()])
        if len(edges) > 1:
            edges = tuple(sorted(edges))
        key = (accepts, (*edges, (itself, DEAD)) if itself else edges)
        found = self.known.get(key)
        if found is not None:
            return found
        made = self.known[key] = self._grow(1)
        self.steps.append((accepts, edges, itself))
        if itself:  # a state with the same edges, and one into this state, is this state
            self.known[accepts, tuple(sorted((*edges, (itself, made))))] = made
        return made

    def group(self, states: list[tuple[bool, dict[int, bytes]]], inside: list[list[int]]) -> list[int]:
        """States that lead to one another: ``inside[i][d]`` is the position after digit d; all can finish."""
        if len(states) == 1:
            accepts, targets = states[0]
            return [self.state(accepts, targets, DIGITS)]
        key = (tuple((a, tuple(t.items())) for a, t in states), tuple(map(tuple, inside)))
        if key in self.groups:
            return self.groups[key]
        spend(60 * len(states))
        first = self._grow(len(states))
        members: list[tuple[bool, Edges]] = []
        for (accepts, targets), after in zip(states, inside, strict=True):
            targets.pop(DEAD, None)
            found = {t: b for t, b in targets.items()}
            for d, to in enumerate(after):
                found[first + to] = found.get(first + to, b"") + DIGIT[d]
            members.append((accepts, tuple(sorted((b, t) for t, b in found.items()))))
        self.steps.append(members)
        found_at = self.groups[key] = list(range(first, first + len(states)))
        return found_at

    def graft(self, other: Plan) -> int:
        """Takes over a plan of one root without groups; the node of its root."""
        spend(20 * len(other.steps))
        nodes: list[int] = []
        for step in other.steps:
            assert not isinstance(step, list)
            accepts, edges, itself = step
            nodes.append(self.state(accepts, {nodes[t]: b for b, t in edges}, itself))
        return nodes[other.roots[0]]

    def close(self) -> None:
        """Discards what only the building phase needs."""
        self.known.clear()
        self.groups.clear()

    @property
    def weight(self) -> int:
        """The approximate size in bytes."""
        lazy = sum(len(table.cuts) + 10 for _, table in self.lazy)
        return _STATE * (10 + self.count + lazy) + 60 * len(self.choice) + sum(map(len, self.choice))

    def _prepare(self) -> None:
        """Numbers the byte sets, so that a replay requests each of them only once."""
        before = self.steps
        if self.ready is not None:  # by another thread
            return
        numbers: dict[bytes, int] = {}

        def numbered(edges: Edges) -> tuple[tuple[int, int], ...]:
            return tuple((numbers.setdefault(b, len(numbers)), t) for b, t in edges)

        steps: list[ReadyState | ReadyGroup] = []
        depths: list[int] = []
        for step in before:
            if isinstance(step, list):
                steps.append([(accepts, numbered(edges)) for accepts, edges in step])
                depths.extend([0] * len(step))
            else:
                accepts, edges, itself = step
                loop = numbers.setdefault(itself, len(numbers)) if itself else DEAD
                depth = max((depths[t] for _, t in edges), default=0) + 1
                steps.append((accepts, numbered(edges), loop, depth == MAX_NESTING))
                depths.append(depth % MAX_NESTING)
        self.ready = steps, [charset(values) for values in numbers]
        self.steps = []  # now represented in the other form

    def replay(self, builder: Builder) -> int:
        """The expression of all roots and the choice; ``builder.EMPTY`` if there is nothing."""
        lazy = [self._read_lazily(builder, *side) for side in self.lazy]
        if self.choice:
            lazy.append(builder.choice(self.choice))
        if not self.roots:
            return lazy[0] if len(lazy) == 1 else builder.union(lazy) if lazy else builder.EMPTY
        if self.ready is None:
            self._prepare()
        assert self.ready is not None
        concat, union, epsilon = builder.concat, builder.union, builder.EPSILON
        sets = [builder.char_class(chars) for chars in self.ready[1]]
        made: list[int] = []
        for step in self.ready[0]:
            if isinstance(step, list):
                _replay_group(builder, step, made, sets)
                continue
            accepts, edges, loop, deep = step
            parts = [concat((sets[values], made[target])) for values, target in edges]
            if accepts:
                parts.append(epsilon)
            e = parts[0] if len(parts) == 1 else union(parts)
            made.append(e if loop < 0 else concat((builder.repeat(sets[loop], 0), e)))
            if deep:
                rule = builder.rule(f"digits {len(made)}")
                builder.define(rule, made[-1])
                made[-1] = rule
        if len(self.roots) == 1 and not lazy:
            return made[self.roots[0]]
        return union([*[made[root] for root in self.roots], *lazy])

    @staticmethod
    def _read_lazily(builder: Builder, negative: bool, table: Table) -> int:
        e = table.replay(builder)
        return builder.concat((builder.char_class(charset(b"-")), e)) if negative else e


def _replay_group(builder: Builder, members: ReadyGroup, made: list[int], sets: list[int]) -> None:
    first = len(made)

    def leaving(accepts: bool, edges: tuple[tuple[int, int], ...]) -> list[int]:
        out = [builder.concat([sets[b], made[t]]) for b, t in edges if t < first]
        return [*out, builder.EPSILON] if accepts else out

    def between(i: int, j: int) -> int:
        return builder.union([sets[b] for b, t in members[i][1] if t == first + j])

    if len(members) == 2:  # by elimination: two states need no rules
        for i, j in ((0, 1), (1, 0)):
            away = builder.concat([between(i, j), builder.repeat(between(j, j), 0)])
            around = builder.repeat(builder.union([between(i, i), builder.concat([away, between(j, i)])]), 0)
            out = builder.union(leaving(*members[i]))
            other = builder.concat([away, builder.union(leaving(*members[j]))])
            made.append(builder.concat([around, builder.union([out, other])]))
        return
    rules = [builder.rule(f"residue {i}") for i in range(len(members))]
    for rule, (accepts, edges) in zip(rules, members, strict=True):
        spend(5 * len(edges))
        parts = leaving(accepts, edges)
        parts.extend(builder.concat([sets[b], rules[t - first]]) for b, t in edges if t >= first)
        builder.define(rule, builder.union(parts))
    made.extend(rules)


State: TypeAlias = tuple[Any, ...]
Expansion: TypeAlias = "tuple[bool, list[tuple[bytes, State | None]], dict[int, bytes]]"
"""Accepts, edges to states (None: dead) in rising order of bytes, edges to nodes made before."""


class Explorer:
    """Makes nodes of states depth first, without recursion. A state may lead to itself, but to no other cycle."""

    def __init__(self, plan: Plan, expand: Callable[[State], Expansion | int]) -> None:
        self.plan = plan
        self.expand = expand
        self.done: dict[State | None, int] = {None: DEAD}

    def node(self, root: State) -> int:
        done, expand = self.done, self.expand
        waiting: dict[State, Expansion] = {}
        stack = [root]
        while stack:
            state = stack[-1]
            if state in done:
                stack.pop()
                continue
            expansion = waiting.pop(state, None)
            if expansion is None:
                fresh = expand(state)
                if isinstance(fresh, int):  # made already
                    done[state] = fresh
                    continue
                expansion = fresh
                spend(50 + 10 * len(expansion[1]))
                missing = [t for _, t in expansion[1] if t not in done and t != state]
                if missing:
                    waiting[state] = expansion
                    stack.extend(missing)  # type: ignore[arg-type]  # None is done
                    continue
            accepts, edges, targets = expansion
            itself = b""
            for values, to in edges:
                if to == state:
                    itself += values
                else:
                    node = done[to]
                    targets[node] = targets[node] + values if node in targets else values
            done[state] = self.plan.state(accepts, targets, itself)
            if len(done) > 20 * self.plan.limit:
                self.plan.refuse()
            stack.pop()
        return done[root]
