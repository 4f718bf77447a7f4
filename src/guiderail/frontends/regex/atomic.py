"""Atomic groups and possessive quantifiers as plain expressions with look-ahead.

``(?>X)`` keeps only the match of X that a backtracking matcher finds first. If a match of X can end in only one place,
that is X itself. Otherwise this module writes out the order of the search, following X from the left. ``K`` is what is
still to come *inside the group*:

    A|B K           →   first(A K) | (?!A K) first(B K)
    X{m,} K         →   X{m,} (?!X+ K) first(K)            the longest repetition after which K matches
    X{m,n}? K       →   X{m} ((?!K) X){0,n-m} first(K)     the shortest
    X{m,n} at the end  →   X{m,n-1} (?!X) | X{n}

provided that the end of a match of X (one iteration) is unique. Each step is exact. Groups that none of them fits are
rejected.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any as Anything

from guiderail.errors import PatternError
from guiderail.frontends.regex.facts import Facts, children
from guiderail.frontends.regex.syntax import Alt, Atomic, Cat, Ext, Lit, Look, Node, Rep
from guiderail.frontends.regex.trampoline import run

__all__ = ["expand"]

_BUDGET = 1000  # nodes that may be written out for one pattern
_UNROLL = 12  # bounded repetitions inside a group are written out up to this many optional iterations

Steps = Generator[Anything, Anything, Node]


def expand(tree: Node, facts: Facts, source: str, prefix_free: Callable[[Node], bool]) -> Node:
    """``tree`` without atomic groups and possessive quantifiers.

    Args:
        tree: the result of the parser.
        facts: shared with later passes; results with a unique end are recorded in it.
        source: the pattern, for errors.
        prefix_free: decides, at some cost, whether no match of a node (without assertions) is a proper prefix of
            another.

    Raises:
        PatternError: a group cannot be expressed, or would grow too large.
    """
    result = run(_Expander(facts, source, prefix_free).inner(tree))
    assert isinstance(result, Node)
    return result


class _Expander:
    def __init__(self, facts: Facts, source: str, prefix_free: Callable[[Node], bool]) -> None:
        self.facts = facts
        self.source = source
        self.prefix_free = prefix_free
        self.budget = _BUDGET
        self.span = (0, 1)

    def unique(self, node: Node) -> bool:
        fact = self.facts(node)
        if fact.unique:
            return True
        if not fact.special and self.prefix_free(node):
            self.facts.mark_unique(node)
            return True
        return False

    def refuse(self, why: str) -> PatternError:
        return PatternError(
            f"{why}; rewrite the group without (?>…) or a possessive quantifier, with a look-ahead if necessary",
            code="regex-atomic",
            source=self.source,
            span=self.span,
        )

    def inner(self, node: Node) -> Steps:
        """Bottom-up: children first, then the node itself if it is atomic."""
        kids = []
        changed = False
        for child in children(node):
            kid = yield self.inner(child)
            changed |= kid is not child
            kids.append(kid)
        if isinstance(node, Atomic):
            self.span = (node.start, node.end)
            result = yield self.first([kids[0]])
            return self.facts.mark_unique(result)
        if isinstance(node, Rep):
            if node.mode == "possessive":
                self.span = (node.start, node.end)
                greedy = Rep(kids[0], node.min, node.max, "greedy", node.start, node.end)
                result = yield self.first([greedy])
                return self.facts.mark_unique(result)
            return Rep(kids[0], node.min, node.max, node.mode, node.start, node.end) if changed else node
        if not changed:
            return node
        if isinstance(node, Look):
            return Look(kids[0], node.behind, node.negative, node.start, node.end)
        if isinstance(node, Ext):
            return Ext(node.build, kids, node.start, node.end)
        assert isinstance(node, Cat | Alt)
        return type(node)(kids, node.start, node.end)

    def first(self, work: list[Node]) -> Steps:
        """The first match of the nodes of ``work``, one after the other, in the order of a backtracking search."""
        out: list[Node] = []
        work = list(work)
        start, end = self.span
        while work:
            self.budget -= 1
            if self.budget < 0:
                raise self.refuse("the order of the search in this group is too long to write out")
            head, rest = work[0], work[1:]
            if self.unique(head):
                out.append(head)
                work = rest
            elif isinstance(head, Cat):
                work = head.items + rest
            elif isinstance(head, Alt):
                branches: list[Node] = []
                guards: list[Node] = []
                for branch in head.items:
                    tail = yield self.first([branch, *rest])
                    branches.append(Cat([*guards, tail], start, end))
                    guards.append(self.not_ahead([branch, *rest]))
                out.append(Alt(branches, start, end))
                work = []
            elif isinstance(head, Rep):
                tail = yield self.repetition(head, rest)
                out.append(tail)
                work = []
            else:
                raise self.refuse("how an extension matches first is not defined")
        return Cat(out, start, end)

    def not_ahead(self, nodes: list[Node]) -> Node:
        return Look(Cat(nodes, *self.span), False, True, *self.span)

    def repetition(self, node: Rep, rest: list[Node]) -> Steps:
        done: Node
        start, end = self.span
        item, low, high = node.item, node.min, node.max
        if high == 0:
            done = yield self.first(rest)
            return done
        if self.facts(item).least == 0:
            raise self.refuse("the repeated part can be empty")

        def rep(x: Node, a: int, b: int) -> Node:
            return Rep(x, a, b, "greedy", start, end) if (a, b) != (1, 1) else x

        if not self.unique(item):
            # later iterations may make a matcher go back into earlier ones, except where none is required
            if rest or low > 1:
                raise self.refuse("one iteration of the repeated part can end at several positions")
            item = yield self.first([item])
            self.facts.mark_unique(item)
        if node.mode == "lazy":
            tail = yield self.first(rest)
            if not rest:
                return rep(item, low, low) if low else Lit("", start, end)
            more = -1 if high < 0 else high - low
            step = Cat([self.not_ahead(rest), item], start, end)
            return Cat([rep(item, low, low), rep(step, 0, more), tail], start, end)
        if not rest:
            if high < 0:
                return Cat([rep(item, low, -1), self.not_ahead([item])], start, end)
            short = Cat([rep(item, low, high - 1), self.not_ahead([item])], start, end)
            return Alt([rep(item, high, high), short], start, end) if low < high else rep(item, high, high)
        tail = yield self.first(rest)
        if high < 0:
            return Cat([rep(item, low, -1), self.not_ahead([rep(item, 1, -1), *rest]), tail], start, end)
        if high - low > _UNROLL:
            raise self.refuse(
                f"a bounded repetition of more than {_UNROLL} optional iterations stands before other text"
            )
        result = tail
        for more in range(1, high - low + 1):  # X (the result of more-1 further iterations) | (?!X{1,more} K) first(K)
            self.budget -= 10
            result = Alt(
                [
                    Cat([item, result], start, end),
                    Cat([self.not_ahead([rep(item, 1, more), *rest]), tail], start, end),
                ],
                start,
                end,
            )
        return Cat([rep(item, low, low), result], start, end) if low else result
