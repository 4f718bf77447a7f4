"""Properties of a node that need no matching: lengths, first and last characters, whether a match's end is unique."""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

from guiderail._core import CharSet
from guiderail.frontends.regex.charsets import ANY, NONE, common, either
from guiderail.frontends.regex.syntax import (
    Alt,
    And,
    Any,
    Atomic,
    Boundary,
    Capture,
    Cat,
    Edge,
    EndNl,
    Ext,
    Lit,
    Look,
    Node,
    Not,
    Recall,
    Reference,
    Rep,
    Set,
)
from guiderail.support.work import spend

__all__ = ["Fact", "Facts", "children", "one"]

_NODE: Final = 30  # steps that the facts of a node take, besides those of its parts


@lru_cache(maxsize=512)
def one(char: str) -> CharSet:
    """The set of one character."""
    return CharSet([(ord(char), ord(char))])


class Fact(NamedTuple):
    """Facts about a node that hold in every context.

    Attributes:
        least, most: bounds of the match's length in characters (``most`` < 0: none).
        first, last: supersets of the characters that a match can begin and end with.
        special: whether it contains assertions, so that a match depends on its surroundings.
        unique: whether, from a given position, a match can end in only one place (no match is a prefix of another).
    """

    least: int
    most: int
    first: CharSet
    last: CharSet
    special: bool
    unique: bool


_ZERO: Final = Fact(0, 0, NONE, NONE, True, True)


_MANY: Final = (Cat, Alt, And, Ext, Capture)
_ONE: Final = (Rep, Look, Atomic, Not)


def children(node: Node) -> list[Node]:
    if isinstance(node, _MANY):
        return node.items
    if isinstance(node, _ONE):
        return [node.item]
    return []


class Facts:
    """Facts of nodes, computed once for each, bottom-up and without recursion."""

    def __init__(self) -> None:
        self.known: dict[int, tuple[Node, Fact]] = {}  # the node is kept so that its id stays its own
        self.work = 0  # steps that the rewriting of this pattern has taken

    def __call__(self, node: Node) -> Fact:
        found = self.known.get(id(node))
        if found is not None:
            return found[1]
        stack = [node]
        while stack:
            top = stack[-1]
            parts = children(top)
            missing = [child for child in parts if id(child) not in self.known]
            if missing:
                stack.extend(missing)
            else:
                spend(_NODE + len(parts))
                self.known[id(top)] = (top, self.compute(top))
                stack.pop()
        return self.known[id(node)][1]

    def mark_unique(self, node: Node) -> Node:
        """Records what only the code that makes ``node`` can know."""
        self.known[id(node)] = (node, self(node)._replace(unique=True))
        return node

    def compute(self, node: Node) -> Fact:
        if isinstance(node, Lit):
            text = node.text
            if not text:
                return Fact(0, 0, NONE, NONE, False, True)
            return Fact(len(text), len(text), one(text[0]), one(text[-1]), False, True)
        if isinstance(node, Set):
            return Fact(1, 1, node.chars, node.chars, False, True)
        if isinstance(node, Cat | Capture):
            return self.of_cat(node.items)
        if isinstance(node, Recall):
            return self(node.group)._replace(unique=True)  # within its capture, it is one text
        if isinstance(node, Alt):
            return self.of_alt(node.items)
        if isinstance(node, Rep):
            item = self(node.item)
            most = (
                0 if node.max == 0 or item.most == 0 else -1 if node.max < 0 or item.most < 0 else node.max * item.most
            )
            unique = node.mode == "possessive" or (item.unique and node.min == node.max)
            unique = unique or most == 0 or item.least * node.min == most
            return Fact(item.least * node.min, most, item.first, item.last, item.special, unique)
        if isinstance(node, Atomic):
            return self(node.item)._replace(unique=True)
        if isinstance(node, Look | Edge | Boundary | EndNl):
            return _ZERO
        if isinstance(node, And):
            facts = [self(item) for item in node.items]
            bounds = [f.most for f in facts if f.most >= 0]
            least, most = max(f.least for f in facts), min(bounds, default=-1)
            return Fact(least, most, ANY, ANY, any(f.special for f in facts), any(f.unique for f in facts))
        if isinstance(node, Not):
            return Fact(0, -1, ANY, ANY, self(node.item).special, False)
        assert isinstance(node, Any | Ext | Reference)
        return Fact(0, -1, ANY, ANY, False, False)

    def of_cat(self, items: list[Node]) -> Fact:
        facts = [self(item) for item in items]
        first, last = NONE, NONE
        for fact in facts:
            first = either(first, fact.first)
            if fact.least:
                break
        for fact in reversed(facts):
            last = either(last, fact.last)
            if fact.least:
                break
        most = -1 if any(f.most < 0 for f in facts) else sum(f.most for f in facts)
        least = sum(f.least for f in facts)
        unique = least == most or self.unique_parts(items, facts)
        return Fact(least, most, first, last, any(f.special for f in facts), unique)

    def unique_parts(self, items: list[Node], facts: list[Fact]) -> bool:
        """Whether each item can end in only one place, perhaps because of what follows it."""
        following: CharSet | None = None  # what the items after this one begin with; None: they may be empty
        first = NONE
        for item, fact in zip(reversed(items), reversed(facts), strict=True):
            if not fact.unique and not self.stops(item, following):
                return False
            first = fact.first if fact.least else either(first, fact.first)
            if fact.least or following is not None:
                following = first
        return True

    def stops(self, item: Node, following: CharSet | None) -> bool:
        """Whether a repetition can end in only one place, because what follows begins with another character."""
        if following is None or not isinstance(item, Rep):
            return False
        inner = self(item.item)
        return inner.unique and inner.least > 0 and not len(common(following, inner.first))

    def of_alt(self, items: list[Node]) -> Fact:
        if not items:
            return Fact(1, 1, NONE, NONE, False, True)  # no match at all: every statement holds
        facts = [self(item) for item in items]
        first, last = NONE, NONE
        apart = True
        for fact in facts:
            apart = apart and fact.least > 0 and fact.unique and not len(common(first, fact.first))
            first, last = either(first, fact.first), either(last, fact.last)
        most = -1 if any(f.most < 0 for f in facts) else max(f.most for f in facts)
        least = min(f.least for f in facts)
        return Fact(least, most, first, last, any(f.special for f in facts), apart or least == most)
