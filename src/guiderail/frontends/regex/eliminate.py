"""Turns look-arounds into intersections, if their sequence reaches the edge of the text.

With ``T`` for any text, in a sequence that runs to the end of the text ``P (?=A) R`` is ``P ((A T) & R)`` and
``P (?!A) R`` is ``P (~(A T) & R)``; in one that begins at its start ``L (?<=A) Q`` is ``((T A) & L) Q``, and so on.
Groups in the way are multiplied out, within a budget. If that is not enough, the core's own look-arounds are used.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any as Anything

from guiderail.frontends.regex.charsets import NONE, others
from guiderail.frontends.regex.facts import Facts
from guiderail.frontends.regex.resolve import WORK, Side, beside, flat, nothing, resolve
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

__all__ = ["eliminate"]

_BUDGET = 400  # nodes that may be visited or copied
_EDGE: Side = (NONE, True)

Steps = Generator[Anything, Anything, Node]


class _OverBudget(Exception):
    pass


def eliminate(tree: Node, facts: Facts) -> Node | None:
    """``tree``, matched against a whole string, without any assertions; None if one would remain."""
    worker = _Eliminator(facts)
    try:
        result = run(worker.visit(tree, True, _EDGE))
        if facts(result).special:
            result = run(worker.visit(result, False, _EDGE))
    except _OverBudget:
        return None
    assert isinstance(result, Node)
    return None if facts(result).special else result


class _Eliminator:
    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.budget = _BUDGET

    def visit(self, node: Node, ahead: bool, outer: Side) -> Steps:
        """Removes look-aheads (``ahead``) from a node that runs to the end of the text, or look-behinds from one that
        begins at its start; ``outer`` is what is on the node's other side.
        """
        done: Node
        self.budget -= 1
        if self.budget < 0 or self.facts.work > WORK:
            raise _OverBudget
        if not self.facts(node).special:
            return node
        span = (node.start, node.end)
        if isinstance(node, Alt | And):
            items = []
            for item in node.items:
                done = yield self.visit(item, ahead, outer)
                items.append(done)
            return type(node)(items, *span)
        if isinstance(node, Not):
            done = yield self.visit(node.item, ahead, outer)
            return Not(done, *span)
        if isinstance(node, Rep):
            if node.max == 1 and node.min == 0:
                done = yield self.visit(node.item, ahead, outer)
                return Alt([done, nothing(node)], *span)
            if node.max == 1:
                done = yield self.visit(node.item, ahead, outer)
                return done
            return node
        items = flat(node.items) if isinstance(node, Cat) else [node]
        done = yield self.sequence(items, ahead, outer, span)
        return done

    def sequence(self, items: list[Node], ahead: bool, outer: Side, span: tuple[int, int]) -> Steps:
        """The items, up to the first (seen from the ``outer`` side) that can be handled."""
        done: Node
        order = range(len(items)) if ahead else range(len(items) - 1, -1, -1)
        last = order[-1] if items else -1
        for k in order:
            item = items[k]
            if not self.facts(item).special:
                continue
            left, right = items[:k], items[k + 1 :]
            rest = right if ahead else left
            near = [self.facts(x) for x in (reversed(left) if ahead else right)]
            side = beside(near, outer, first=not ahead)
            if isinstance(item, Boundary):
                done = yield self.split(item, left, right, ahead, outer, span)
                return done
            if self.points(item, ahead):
                condition = yield self.condition(item, ahead, side)
                tail = yield self.sequence(rest, ahead, side, span)
                both = And([condition, *(tail.items if isinstance(tail, And) else [tail])], *span)
                return Cat([*left, both] if ahead else [both, *right], *span)
            if k == last and isinstance(item, Alt | Rep | And | Not | Cat):
                done = yield self.visit(item, ahead, side)
                return Cat([*left, done] if ahead else [done, *right], *span)
            if isinstance(item, Rep) and item.max == 1:
                item = Alt([item.item, nothing(item)] if item.min == 0 else [item.item], item.start, item.end)
            if isinstance(item, Alt):
                branches: list[Node] = [Cat(flat([x, *rest] if ahead else [*rest, x]), *span) for x in item.items]
                done = yield self.visit(Alt(branches, *span), ahead, side)
                return Cat([*left, done] if ahead else [done, *right], *span)
        return Cat(items, *span) if len(items) != 1 else items[0]

    def points(self, item: Node, ahead: bool) -> bool:
        if isinstance(item, Look | Edge):
            return item.behind != ahead
        return isinstance(item, EndNl) and ahead

    def condition(self, item: Node, ahead: bool, side: Side) -> Steps:
        """What a look-around requires of all the text on its side."""
        span = (item.start, item.end)
        if isinstance(item, EndNl):
            return Rep(Lit("\n", *span), 0, 1, "greedy", *span)
        negative = False
        if isinstance(item, Edge):
            one = Set(item.chars, *span)
            some: Node = Cat([one, Any(*span)] if ahead else [Any(*span), one], *span)
            return Alt([nothing(item), some], *span) if item.edge else some
        assert isinstance(item, Look)
        negative = item.negative
        whole: Node = Cat(flat([item.item, Any(*span)] if ahead else [Any(*span), item.item]), *span)
        if self.facts(whole).special:
            whole = resolve(whole, self.facts, *((side, _EDGE) if ahead else (_EDGE, side)))
            whole = yield self.visit(whole, ahead, side)
        return Not(whole, *span) if negative else whole

    def split(
        self,
        item: Boundary,
        left: list[Node],
        right: list[Node],
        ahead: bool,
        outer: Side,
        span: tuple[int, int],
    ) -> Steps:
        r"""The cases of ``\b``, each decided if possible."""
        done: Node
        self.budget -= 20
        place = (item.start, item.end)
        words, not_words = item.chars, others(item.chars)
        word, other = (words, False), (not_words, True)
        if not item.negated:
            cases = [(word, other), (other, word)]
        elif not item.nonempty:
            cases = [(word, word), (other, other)]
        else:
            cases = [(word, word), ((not_words, False), other), ((NONE, True), (not_words, False))]
        branches = []
        for one, two in cases:
            before, after = Edge(True, *one, *place), Edge(False, *two, *place)
            case = Cat([*left, before, after, *right], *span)
            done = resolve(case, self.facts, *((outer, _EDGE) if ahead else (_EDGE, outer)))
            done = yield self.visit(done, ahead, outer)
            branches.append(done)
        return Alt(branches, *span)
