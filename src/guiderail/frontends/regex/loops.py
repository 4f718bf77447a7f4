"""Loops around assertions whose body may match nothing, such as ``(?:a|$)*``.

An iteration that reads nothing changes nothing. It can only add conditions, and can be left out if another number of
iterations will do. So ``X*`` matches what ``N*`` does, where ``N`` is ``X`` without its empty matches, and ``X{m,n}``
matches what ``X … X N{0,n-m}`` does. ``N`` is derived from the structure of ``X``: in a sequence, one part is the first
that reads something, and those before it keep only their conditions.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any as Anything

from guiderail.frontends.regex.charsets import ANY
from guiderail.frontends.regex.facts import Facts, children
from guiderail.frontends.regex.syntax import Alt, Any, Boundary, Cat, Edge, EndNl, Lit, Look, Node, Rep, Set
from guiderail.frontends.regex.trampoline import run

__all__ = ["without_empty_iterations"]

_COPIES = 4  # of a body that must be iterated
_BUDGET = 2000  # nodes that may be made

Steps = Generator[Anything, Anything, Anything]


class _GiveUp(Exception):
    pass


def without_empty_iterations(tree: Node, facts: Facts) -> Node:
    """``tree`` with loops that read something in each iteration; unchanged if that would grow too large."""
    if not _some_loop(tree, facts):
        return tree
    try:
        result = run(_Rewriter(facts).visit(tree))
    except _GiveUp:
        return tree
    assert isinstance(result, Node)
    return result


def _some_loop(tree: Node, facts: Facts) -> bool:
    stack, seen = [tree], {id(tree)}
    while stack:
        node = stack.pop()
        if isinstance(node, Rep) and facts(node.item).special and not facts(node.item).least:
            return True
        for child in children(node):
            if id(child) not in seen and facts(child).special:  # written-out repetitions share their nodes
                seen.add(id(child))
                stack.append(child)
    return False


class _Rewriter:
    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.budget = _BUDGET
        self.visited: dict[int, Node] = {}

    def visit(self, node: Node) -> Steps:
        """The node with all its loops rewritten; shared nodes are rewritten once."""
        if not self.facts(node).special or not children(node):
            return node
        found = self.visited.get(id(node))
        if found is None:
            self.spend()
            found = yield self.rewritten(node)
            assert isinstance(found, Node)
            self.visited[id(node)] = found
        return found

    def rewritten(self, node: Node) -> Steps:
        span = (node.start, node.end)
        if isinstance(node, Cat | Alt):
            items = []
            for item in node.items:
                done = yield self.visit(item)
                items.append(done)
            return type(node)(items, *span)
        if isinstance(node, Look):
            done = yield self.visit(node.item)
            return Look(done, node.behind, node.negative, *span)
        if not isinstance(node, Rep):
            return node
        body = yield self.visit(node.item)
        if self.facts(body).least or not self.facts(body).special:
            return Rep(body, node.min, node.max, node.mode, *span)
        if node.min > _COPIES:
            raise _GiveUp
        some = yield self.some(body)
        most = node.max if node.max < 0 else node.max - node.min
        rest = Lit("", *span) if some is None or most == 0 else Rep(some, 0, most, node.mode, *span)
        return Cat([body] * node.min + [rest], *span) if node.min else rest

    def spend(self) -> None:
        self.budget -= 1
        if self.budget < 0:
            raise _GiveUp

    def none(self, node: Node) -> Steps:
        """The empty matches of a node, with their conditions; None: there are none."""
        self.spend()
        span = (node.start, node.end)
        if isinstance(node, Look | Edge | Boundary | EndNl):
            return node
        if self.facts(node).least:
            return None
        if not self.facts(node).special or (isinstance(node, Rep) and node.min == 0):
            return Lit("", *span)
        if isinstance(node, Rep):
            done = yield self.none(node.item)
            return done
        if isinstance(node, Cat):
            parts = []
            for item in node.items:
                done = yield self.none(item)
                if done is None:
                    return None
                parts.append(done)
            return Cat(parts, *span)
        if isinstance(node, Alt):
            cases = []
            for item in node.items:
                done = yield self.none(item)
                if done is not None:
                    cases.append(done)
            return Alt(cases, *span) if cases else None
        raise _GiveUp

    def some(self, node: Node) -> Steps:
        """The non-empty matches of a node; None: there are none."""
        self.spend()
        span = (node.start, node.end)
        if isinstance(node, Look | Edge | Boundary | EndNl):
            return None
        if self.facts(node).least:
            return node
        if isinstance(node, Lit):
            return None
        if isinstance(node, Any):
            return Cat([Set(ANY, *span), node], *span)
        if isinstance(node, Alt):
            cases = []
            for item in node.items:
                done = yield self.some(item)
                if done is not None:
                    cases.append(done)
            return Alt(cases, *span) if cases else None
        if isinstance(node, Cat):
            cases = []
            before: list[Node] = []
            for k, item in enumerate(node.items):
                done = yield self.some(item)
                if done is not None:
                    cases.append(Cat([*before, done, *node.items[k + 1 :]], *span))
                done = yield self.none(item)
                if done is None:
                    break
                before.append(done)
            return Alt(cases, *span) if cases else None
        if isinstance(node, Rep):
            empty = yield self.none(node.item)
            done = yield self.some(node.item)
            if done is None or node.max == 0:
                return None
            free = node.min == 0 or not self.facts(node.item).special or isinstance(empty, Lit)
            if not free:
                raise _GiveUp
            return Rep(done, 1, node.max, node.mode, *span)
        raise _GiveUp
