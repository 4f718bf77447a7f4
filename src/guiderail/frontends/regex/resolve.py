"""Decides assertions by their possible neighbours, and merges assertions about one character into their neighbour."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any as Anything, Final

from guiderail._core import CharSet
from guiderail.frontends.regex.charsets import ANY, NONE, common, either, minus, others
from guiderail.frontends.regex.facts import Fact, Facts, one
from guiderail.frontends.regex.syntax import (
    Alt,
    And,
    Any,
    Boundary,
    Cat,
    Edge,
    EndNl,
    Lit,
    Look,
    Node,
    Not,
    Rep,
    Set,
)
from guiderail.frontends.regex.trampoline import run
from guiderail.support.work import spend

__all__ = ["WORK", "Side", "beside", "fail", "flat", "nothing", "resolve"]

Side = tuple[CharSet, bool]  # characters that may be there, and whether the edge of the text may
Steps = Generator[Anything, Anything, Node]

_UNKNOWN: Side = (ANY, True)
_UNROLL: Final = 4  # counted repetitions of assertions are written out up to this many iterations
_UNROLLED: Final = 64  # maximum in total
WORK: Final = 4000  # steps of rewriting for one pattern; beyond, assertions stay as they are


def nothing(node: Node) -> Lit:
    """The empty text, in place of ``node``."""
    return Lit("", node.start, node.end)


def fail(node: Node) -> Alt:
    """No match, in place of ``node``."""
    return Alt([], node.start, node.end)


def resolve(tree: Node, facts: Facts, before: Side, after: Side) -> Node:
    """A tree equivalent to ``tree`` wherever ``before`` and ``after`` hold for its surroundings."""
    result = run(_Resolver(facts).visit(tree, before, after))
    assert isinstance(result, Node)
    return result


def same(items: list[Node], others: list[Node]) -> bool:
    """Whether nothing has changed. The first pass without changes is the last."""
    return len(items) == len(others) and all(a is b for a, b in zip(items, others, strict=True))


def is_fail(node: Node) -> bool:
    return isinstance(node, Alt) and not node.items


def beside(facts: Iterable[Fact], outer: Side, first: bool) -> Side:
    """What precedes (or follows) a position, given the nodes there, nearest first, and what lies beyond them."""
    chars, edge = NONE, False
    for fact in facts:
        spend(10)
        chars = either(chars, fact.first if first else fact.last)
        if fact.least:
            return chars, edge
    return either(chars, outer[0]), edge | outer[1]


def as_edge(node: Node, behind: bool) -> tuple[CharSet, bool] | None:
    """A look-around that only asks about its neighbour: the characters, and whether the edge will do."""
    if isinstance(node, Set):
        return node.chars, False
    if isinstance(node, Lit) and len(node.text) == 1:
        return one(node.text), False
    if isinstance(node, Edge) and node.behind == behind:
        return node.chars, node.edge
    if not isinstance(node, Alt) or len(node.items) > 64:
        return None
    chars, edge = NONE, False
    for item in node.items:
        found = None if isinstance(item, Alt) else as_edge(item, behind)
        if found is None:
            return None
        chars, edge = either(chars, found[0]), edge or found[1]
    return chars, edge


class _Resolver:
    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.unrolled = 0

    def visit(self, node: Node, before: Side, after: Side) -> Steps:
        done: Node
        if isinstance(node, Edge):
            return self.edge(node, before if node.behind else after)
        if isinstance(node, EndNl):
            return self.end_nl(node, after)
        if isinstance(node, Boundary):
            return self.boundary(node, before, after)
        if not self.facts(node).special and not isinstance(node, Look):
            return node
        self.facts.work += 1
        if self.facts.work > WORK:
            return node
        if isinstance(node, Cat):
            done = yield self.cat(node, before, after)
            return done
        if isinstance(node, Alt):
            items = []
            for item in node.items:
                done = yield self.visit(item, before, after)
                if not is_fail(done):
                    items.append(done)
            if len(items) == 1:
                return items[0]
            return node if same(items, node.items) else Alt(items, node.start, node.end)
        if isinstance(node, Rep):
            done = yield self.rep(node, before, after)
            return done
        if isinstance(node, Look):
            done = yield self.look(node, before, after)
            return done
        if isinstance(node, And):
            items = []
            for item in node.items:
                done = yield self.visit(item, before, after)
                items.append(done)
            return node if same(items, node.items) else And(items, node.start, node.end)
        assert isinstance(node, Not)
        item = yield self.visit(node.item, before, after)
        return node if item is node.item else Not(item, node.start, node.end)

    # -- zero width
    def edge(self, node: Edge, side: Side) -> Node:
        chars, edge = side
        if (node.edge or not edge) and not len(minus(chars, node.chars)):
            return nothing(node)
        if not (node.edge and edge) and not len(common(chars, node.chars)):
            return fail(node)
        return node

    def end_nl(self, node: EndNl, after: Side) -> Node:
        chars, edge = after
        if not len(chars):
            return nothing(node)
        if 10 in chars:
            return node
        return Edge(False, NONE, True, node.start, node.end) if edge else fail(node)

    def boundary(self, node: Boundary, before: Side, after: Side) -> Node:
        def is_word(side: Side) -> bool | None:
            chars, edge = side
            if not len(common(chars, node.chars)):
                return False
            return True if not edge and not len(minus(chars, node.chars)) else None

        left, right = is_word(before), is_word(after)
        if left is None and right is None:
            return node
        known = left if left is not None else right
        if node.nonempty and before[1] and after[1] and not known:  # perhaps in the empty text
            alone = left is False and right is False and not len(before[0]) and not len(after[0])
            return fail(node) if alone else node
        if left is not None and right is not None:
            return nothing(node) if (left != right) != node.negated else fail(node)
        wanted = bool(known) == node.negated  # whether the other neighbour must be a word character
        chars = node.chars if wanted else others(node.chars)
        return self.edge(Edge(left is None, chars, not wanted, node.start, node.end), before if left is None else after)

    def look(self, node: Look, before: Side, after: Side) -> Steps:
        item: Node
        span = (node.start, node.end)
        inner = (_UNKNOWN, after) if node.behind else (before, _UNKNOWN)
        item = yield self.visit(node.item, *inner)
        fact = self.facts(item)
        if is_fail(item):
            return nothing(node) if node.negative else fail(node)
        if not fact.special and not fact.least and fact.most == 0:
            return fail(node) if node.negative else nothing(node)
        if fact.most == 0:  # only assertions inside: the direction does not matter
            return item if not node.negative else self.negated(item, node)
        parts = flat([item])
        neighbour = as_edge(parts[0] if len(parts) == 1 else item, node.behind)
        if neighbour is not None:
            chars, edge = neighbour
            if node.negative:
                chars, edge = others(chars), not edge
            return self.edge(Edge(node.behind, chars, edge, *span), before if node.behind else after)
        rim = parts[-1] if node.behind else parts[0]
        if len(parts) > 1 and isinstance(rim, Edge | EndNl | Boundary) and not self.facts(rim).most:
            # an assertion at the look-around's own position may also be placed next to it
            rest = Look(Cat(parts[:-1] if node.behind else parts[1:], *span), node.behind, node.negative, *span)
            if node.negative:
                return Alt([rest, self.negated(rim, node)], *span)
            return Cat([rest, rim], *span)
        return node if item is node.item else Look(item, node.behind, node.negative, *span)

    def negated(self, item: Node, node: Look) -> Node:
        """The cases in which the assertion ``item`` does not hold."""
        if isinstance(item, Edge):
            return Edge(item.behind, others(item.chars), not item.edge, node.start, node.end)
        if isinstance(item, Boundary) and not item.nonempty:
            return Boundary(item.chars, not item.negated, node.start, node.end)
        return Look(item, False, True, node.start, node.end)

    # -- composite
    def rep(self, node: Rep, before: Side, after: Side) -> Steps:
        done: Node
        item: Node
        fact = self.facts(node.item)
        if node.max == 0:
            return nothing(node)
        if fact.most == 0:  # assertions only: one iteration is as good as many, and zero is better
            if node.min == 0:
                return nothing(node)
            done = yield self.visit(node.item, before, after)
            return done
        if 1 < node.max <= _UNROLL and self.unrolled < _UNROLLED:  # written out, each iteration has its own neighbours
            self.unrolled += node.max
            tail: Node = nothing(node)
            for _ in range(node.max - node.min):
                tail = Alt([Cat([node.item, tail], node.start, node.end), nothing(node)], node.start, node.end)
            done = yield self.visit(Cat([*[node.item] * node.min, tail], node.start, node.end), before, after)
            return done
        if node.max != 1:
            before = (either(before[0], fact.last), before[1])
            after = (either(after[0], fact.first), after[1])
        item = yield self.visit(node.item, before, after)
        if is_fail(item):
            return fail(node) if node.min else nothing(node)
        fact = self.facts(item)
        if fact.most == 0 and node.min == 0:
            return nothing(node)
        if fact.most == 0:
            return item
        return node if item is node.item else Rep(item, node.min, node.max, node.mode, node.start, node.end)

    def cat(self, node: Cat, before: Side, after: Side) -> Steps:
        done: Node
        items = flat(node.items)
        for _ in range(4):  # one pass may enable further decisions; few patterns need a second
            changed = False
            k = 0
            while k < len(items):
                item = items[k]
                if self.facts(item).special:
                    left = beside([self.facts(items[j]) for j in range(k - 1, -1, -1)], before, first=False)
                    right = beside([self.facts(items[j]) for j in range(k + 1, len(items))], after, first=True)
                    done = yield self.visit(item, left, right)
                    if is_fail(done):
                        return fail(node)
                    if done is not item:
                        changed = True
                        items[k : k + 1] = flat([done])
                        continue_at = k + (1 if not isinstance(done, Lit) or done.text else 0)
                        k = continue_at
                        continue
                k += 1
            self.facts.work += len(items)
            melted = self.melt(items, before, after)
            if melted is None:
                return fail(node)
            items, did = melted
            if not (changed or did):
                break
        if len(items) == 1:
            return items[0]
        if same(items, node.items):
            return node
        return Cat(items, node.start, node.end) if items else nothing(node)

    def melt(self, items: list[Node], before: Side, after: Side) -> tuple[list[Node], bool] | None:
        """Merges assertions about one character into the neighbour that supplies it; None: no match is left."""
        out = list(items)
        did = False
        k = 0
        while k < len(out):
            spend(5)
            item = out[k]
            replaced: list[Node] | None = None
            if isinstance(item, Edge):
                j = self.neighbour(out, k, item.behind)
                if 0 <= j < len(out):
                    outer = before if item.behind else after
                    at_rim = j == 0 if item.behind else j == len(out) - 1
                    replaced = self.join(item, out[j], outer if at_rim else None)
                    if replaced is not None:
                        replaced = [*replaced, *out[j + 1 : k]] if item.behind else [*out[k + 1 : j], *replaced]
            elif isinstance(item, EndNl) and k + 2 == len(out) and isinstance(out[-1], Any) and not len(after[0]):
                j = k + 1
                replaced = [Rep(Lit("\n", item.start, item.end), 0, 1, "greedy", item.start, item.end)]
            elif isinstance(item, Any) and not (k == 0 and len(before[0])) and k + 1 < len(out):
                pushed = self.push(out[k + 1], True) if k == 0 else None
                if pushed is not None:
                    j, replaced = k + 1, [pushed]
            if replaced is None and isinstance(item, Any) and k and k + 1 == len(out) and not len(after[0]):
                pushed = self.push(out[k - 1], False)
                if pushed is not None:
                    j, replaced = k - 1, [pushed]
            if replaced is None:
                k += 1
                continue
            did = True
            low, high = min(j, k), max(j, k)
            merged = flat(replaced)
            if any(map(is_fail, merged)):
                return None
            out[low : high + 1] = merged
            k = max(low - 1, 0)
        return out, did

    def neighbour(self, items: list[Node], k: int, behind: bool) -> int:
        """The index of what supplies the character that the assertion ``items[k]`` is about.

        Assertions between them read nothing, so they may come in any order.
        """
        step = -1 if behind else 1
        j = k + step
        while 0 <= j < len(items) and self.facts(items[j]).special and self.facts(items[j]).most == 0:
            j += step
        return j

    def join(self, edge: Edge, other: Node, outer: Side | None) -> list[Node] | None:
        """``edge`` merged into ``other``, its neighbour; ``outer``: what lies beyond ``other``."""
        span = (edge.start, edge.end)
        if isinstance(other, Set):
            return [Set(common(other.chars, edge.chars), other.start, other.end)]
        if isinstance(other, Any) and outer is not None and not len(outer[0]):  # Any reaches the edge of the text
            one = Set(edge.chars, *span)
            some: Node = Cat([other, one] if edge.behind else [one, other], *span)
            if not len(edge.chars):
                return [nothing(edge)] if edge.edge else [fail(edge)]
            return [Alt([nothing(edge), some], *span)] if edge.edge else [some]
        if isinstance(other, Rep) and isinstance(other.item, Set) and other.min > 0:
            one = Set(common(other.item.chars, edge.chars), *span)
            rest = Rep(
                other.item,
                other.min - 1,
                other.max - 1 if other.max > 0 else -1,
                other.mode,
                other.start,
                other.end,
            )
            if other.max == 1:
                return [one]
            return [rest, one] if edge.behind else [one, rest]
        return None

    def push(self, node: Node, before: bool) -> Node | None:
        """Moves any text before (after) ``node`` into its alternatives, if one of them looks at it."""
        if not isinstance(node, Alt) or not any(self.looks(item, before) for item in node.items):
            return None
        span = (node.start, node.end)
        items: list[Node] = []
        for item in node.items:
            parts = flat([Any(*span), item] if before else [item, Any(*span)])
            items.append(Cat(parts, *span))
        return Alt(items, *span)

    def looks(self, node: Node, before: bool) -> bool:
        if isinstance(node, Cat) and node.items:
            return self.looks(node.items[0 if before else -1], before)
        if isinstance(node, Alt):
            return any(self.looks(item, before) for item in node.items)
        if isinstance(node, EndNl):
            return not before
        return isinstance(node, Edge) and node.behind == before


def flat(items: list[Node]) -> list[Node]:
    """Without empty strings and nested sequences (of one level, since sequences are flattened when they are made)."""
    out: list[Node] = []
    for item in items:
        if isinstance(item, Cat):
            out.extend(flat(item.items) if any(isinstance(x, Cat) for x in item.items) else item.items)
        else:
            out.append(item)
    return [item for item in out if not (isinstance(item, Lit) and not item.text)]
