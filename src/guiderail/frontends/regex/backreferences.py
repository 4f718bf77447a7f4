"""Backreferences to groups with few texts, written out.

A backreference needs a memory. If its group has few texts, the memory has few states: a pattern is the union, over the
texts of the group, of the same pattern with this text in both places.

    (['"])[a-z]*\\1   →   '[a-z]*' | "[a-z]*"

A node is rewritten for each state of the memory that it may begin in, and its results are kept by the state that they
end in. A repetition starts each iteration without the texts of its own groups. That is what ECMAScript does; Python
keeps them, and patterns for which this makes a difference are refused.

The alternatives come in the order in which a backtracking search tries them if nothing before a group, and no other
alternative, leaves a choice; `written_out` says whether that is so.
"""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterable
from typing import TYPE_CHECKING, Any as Anything, NamedTuple, NoReturn, TypeVar

from guiderail.frontends.regex.facts import Facts, children
from guiderail.frontends.regex.syntax import (
    Alt,
    Atomic,
    Boundary,
    Cat,
    Edge,
    EndNl,
    Ext,
    Lit,
    Look,
    Node,
    Reference,
    Rep,
    Set,
)
from guiderail.frontends.regex.trampoline import run
from guiderail.support.work import spend

if TYPE_CHECKING:
    from guiderail.frontends.regex.parser import Parser

__all__ = ["written_out"]

_MOST_TEXTS = 64  # as many as \w has in ASCII, and one more
_MOST_STATES = 128
_COUNTED = 5  # steps for a node, and for each of its parts, whose assertions are counted
_ITEM = 1  # steps for an item of a sequence that is listed
_NODE = 60  # steps for a node that is rewritten for one state of the memory, and for an item of a sequence

Memory = frozenset[tuple[int, str]]  # the groups that have a text, with it
Ways = dict[Memory, Node]  # what may be matched, by the memory at its end
_Chain = tuple["_Chain | None", Node]  # the items of a sequence, from the last; beginnings are shared
_T = TypeVar("_T")


class Written(NamedTuple):
    """A pattern without backreferences.

    Attributes:
        tree: the pattern.
        assertions: how many it has.
        in_order: whether a search tries its alternatives in the order of the pattern that was given.
    """

    tree: Node
    assertions: int
    in_order: bool


def written_out(tree: Node, parser: Parser) -> Written:
    """The tree without backreferences.

    Args:
        tree: the pattern.
        parser: knows the backreferences and the contents of the groups, and reports what cannot be written out.

    Raises:
        PatternError: ``regex-backreference``: a group has too many texts, or is repeated in a way that is not followed.
    """
    writer = _Writer(tree, parser)
    made = writer.write()
    return Written(made, _assertions(made), writer.in_order)


class _Writer:
    def __init__(self, tree: Node, parser: Parser) -> None:
        self.tree = tree
        self.parser = parser
        self.references: dict[int, list[Reference]] = {}
        self.within: dict[int, tuple[frozenset[int], frozenset[int]]] = {}  # groups captured and used, by node
        for reference in parser.references:
            self.references.setdefault(reference.group, []).append(reference)
        self.facts = Facts()
        self.in_order = True
        self.looping: list[int] = []  # groups whose text may be one of an earlier iteration
        self.captures: dict[int, list[int]] = {}  # numbers of groups, by contents
        self.texts: dict[int, list[str]] = {}
        self.last: dict[int, int] = {}  # where the last reference to each group begins
        for group, uses in self.references.items():
            contents = parser.contents[group]
            texts = _texts(contents)
            if texts is None:
                why = f"the group has more than {_MOST_TEXTS} texts, or contains an assertion or an atomic group"
                self.refuse(uses[0], why)
            self.captures.setdefault(id(contents), []).append(group)
            self.last[group] = max(use.start for use in uses)
            self.texts[group] = texts

    def refuse(self, at: Node, why: str) -> NoReturn:
        self.parser.refuse_backreference(at.start, at.end, why)

    def write(self) -> Node:
        self._survey(self.tree)
        ways: Ways = run(self.ways(self.tree, frozenset()))
        return _any(ways.values(), self.tree)

    def _survey(self, tree: Node) -> None:
        """Finds which groups each node captures, and which it uses."""
        stack = [(tree, False)]
        while stack:
            node, done = stack.pop()
            if not done:
                stack.append((node, True))
                stack += [(child, False) for child in children(node)]
                continue
            captured, used = set(self.captures.get(id(node), ())), set[int]()
            if isinstance(node, Reference):
                used.add(node.group)
            for child in children(node):
                inner = self.within[id(child)]
                captured |= inner[0]
                used |= inner[1]
            self.within[id(node)] = frozenset(captured), frozenset(used)

    def ways(self, node: Node, memory: Memory) -> Generator[Anything, Anything, Ways]:
        captured, used = self.within[id(node)]
        if not captured and not used:
            return {memory: node}
        spend(_NODE)
        if id(node) in self.captures:
            return self._group(node, memory)
        if isinstance(node, Reference):
            text = dict(memory).get(node.group)
            if text is None and node.group in self.looping:
                self.refuse(node, "it may stand for what its group matched in an earlier iteration")
            if text is None:
                return {memory: Lit("", node.start, node.end)} if node.unset_matches else {}
            return {memory: node.literal(text)}
        if isinstance(node, Cat):
            sequence: Ways = yield self._sequence(node, memory)
            return sequence
        if isinstance(node, Alt):
            found: dict[Memory, list[Node]] = {}
            for item in node.items:
                for after, made in (yield self.ways(item, memory)).items():
                    self._add(found, after, made)
            return {after: _any(some, node) for after, some in found.items()}
        if isinstance(node, Rep):
            repetition: Ways = yield self._repetition(node, memory)
            return repetition
        if isinstance(node, Ext) or (isinstance(node, Atomic) and captured):
            self.refuse(self._a_use(captured | used), "its group is inside an atomic group or an extension")
        assert isinstance(node, Look | Atomic)
        if captured:
            for use in self._uses(captured):
                backwards = isinstance(node, Look) and node.behind and use.unset_matches  # as ECMAScript reads it
                if backwards or not node.start <= use.start < node.end:
                    self.refuse(use, "its group is inside a look-around")
        inner = _any((yield self.ways(node.item, memory)).values(), node.item)
        if isinstance(node, Atomic):
            return {memory: Atomic(inner, node.start, node.end)}
        return {memory: Look(inner, node.behind, node.negative, node.start, node.end)}

    def _group(self, node: Node, memory: Memory) -> Ways:
        numbers = self.captures[id(node)]
        if self.within[id(node)] != (frozenset(numbers), frozenset()):
            self.refuse(self._a_use(numbers), "its group contains another group that is referred to")
        kept = [(group, text) for group, text in memory if group not in numbers]
        return {
            frozenset([*kept, *((group, text) for group in numbers)]): Lit(text, node.start, node.end)
            for text in self.texts[numbers[0]]
        }

    def _sequence(self, node: Cat, memory: Memory) -> Generator[Anything, Anything, Ways]:
        found: dict[Memory, _Chain | None] = {memory: None}
        for item in node.items:
            spend(_NODE * len(found))
            if self.within[id(item)][0] and self.in_order:
                self.in_order = all(self.facts(one).unique for some in found.values() for one in _listed(some))
            after: dict[Memory, list[_Chain]] = {}
            for before, items in found.items():
                for end, made in (yield self.ways(item, before)).items():
                    self._add(after, self._needed(end, item.end), (items, made))
            if len(after) > _MOST_STATES:
                self.refuse(self._a_use(self.texts), "its groups have too many texts together")
            found = {
                end: some[0] if len(some) == 1 else (None, _any([_cat(_listed(one)) for one in some], node))
                for end, some in after.items()
            }
        return {end: _cat(_listed(items)) if items else Lit("", node.start, node.end) for end, items in found.items()}

    def _add(self, found: dict[Memory, list[_T]], after: Memory, made: _T) -> None:
        if after in found and after != next(reversed(found)):
            self.in_order = False
        found.setdefault(after, []).append(made)

    def _needed(self, memory: Memory, position: int) -> Memory:
        """Without the texts of groups that nothing refers to from here on."""
        return frozenset((group, text) for group, text in memory if self.last[group] >= position)

    def _repetition(self, node: Rep, memory: Memory) -> Generator[Anything, Anything, Ways]:
        captured, _ = self.within[id(node)]
        span = node.start, node.end
        if not captured:
            inner = _any((yield self.ways(node.item, memory)).values(), node.item)
            return {memory: Rep(inner, node.min, node.max, node.mode, *span)}
        if node.mode == "possessive":
            self.refuse(self._a_use(captured), "its group is repeated possessively")
        own = frozenset((group, text) for group, text in memory if group not in captured)
        looped = node.max != 1
        keeps = looped and not self._a_use(captured).unset_matches  # Python does not forget what a group matched
        if keeps:
            self.looping += captured
        once: Ways = yield self.ways(node.item, own)
        if keeps:
            del self.looping[-len(captured) :]
        if all(node.start <= use.start < node.end for use in self._uses(captured)):
            inner = _any(once.values(), node.item)
            return {own: Rep(inner, node.min, node.max, node.mode, *span)}
        found: dict[Memory, list[Node]] = {}
        none = Lit("", *span)
        if node.max == 0 or (node.min == 0 and node.mode == "lazy"):
            self._add(found, own, none)
        if looped and self.facts(node.item).least == 0:
            self.refuse(self._a_use(captured), "its group is repeated, and an iteration may match nothing")
        for after, made in once.items() if node.max != 0 else ():
            if keeps and not captured <= {group for group, _ in after}:
                self.refuse(self._a_use(captured), "its group may match in one iteration and not in the next")
            before = Rep(_any(once.values(), node.item), max(node.min - 1, 0), max(node.max - 1, -1), "greedy", *span)
            self.in_order = self.in_order and not looped
            self._add(found, after, _cat([before, made]) if looped else made)
        if node.min == 0 < abs(node.max) and node.mode != "lazy":
            self._add(found, own, none)
        return {after: _any(some, node) for after, some in found.items()}

    def _uses(self, groups: Iterable[int]) -> list[Reference]:
        return [use for group in sorted(groups) for use in self.references[group]]

    def _a_use(self, groups: Iterable[int]) -> Reference:
        return self._uses(groups)[0]


def _assertions(tree: Node) -> int:
    """How many assertions a tree has. Its parts are shared: each is read once, and counts wherever it is used."""
    found: dict[int, int] = {}
    stack = [(tree, False)]
    while stack:
        node, done = stack.pop()
        if id(node) in found:
            continue
        parts = children(node)
        if parts and not done:
            stack.append((node, True))
            stack += [(part, False) for part in parts]
            continue
        spend(_COUNTED * (1 + len(parts)))
        found[id(node)] = isinstance(node, Look | Edge | EndNl | Boundary) + sum(found[id(part)] for part in parts)
    return found[id(tree)]


def _listed(chain: _Chain | None) -> list[Node]:
    """The items of a chain, from the first."""
    found: list[Node] = []
    while chain is not None:
        found.append(chain[1])
        chain = chain[0]
    spend(_ITEM * len(found))
    return found[::-1]


def _cat(items: list[Node]) -> Node:
    return items[0] if len(items) == 1 else Cat(items, items[0].start, items[-1].end)


def _any(nodes: Iterable[Node], place: Node) -> Node:
    found = list(nodes)
    return found[0] if len(found) == 1 else Alt(found, place.start, place.end)


def _texts(node: Node) -> list[str] | None:
    """The texts of a group, in the order in which a search tries them.

    None: there are many, or which of them are taken depends on what is around them.
    """
    found: dict[int, list[str]] = {}
    stack = [(node, False)]
    while stack:
        at, done = stack.pop()
        spend(4)
        if isinstance(at, Lit):
            made = [at.text]
        elif isinstance(at, Set):
            if len(at.chars) > _MOST_TEXTS:
                return None
            made = [chr(c) for low, high in at.chars.ranges() for c in range(low, high + 1)]
        elif not isinstance(at, Cat | Alt | Rep) or (isinstance(at, Rep) and not 0 <= at.max <= _MOST_TEXTS):
            return None
        elif not done:
            stack.append((at, True))
            stack += [(child, False) for child in children(at)]
            continue
        else:
            parts = [found[id(child)] for child in children(at)]
            if isinstance(at, Alt):
                made = [text for part in parts for text in part]
            elif isinstance(at, Cat):
                made = [""]
                for part in reversed(parts):
                    made = _joined(part, made)
            else:
                made = [""] if at.min >= at.max else []
                for count in range(at.max, 0, -1):  # from the last iteration back
                    again = _joined(parts[0], made if count < at.max else [""])
                    stop = [""] if count > at.min else []
                    made = [*stop, *again] if at.mode == "lazy" else [*again, *stop]
                    if len(made) > _MOST_TEXTS * 4:
                        return None
        made = list(dict.fromkeys(made))
        if len(made) > _MOST_TEXTS or (isinstance(at, Rep) and at.mode == "possessive" and _begins_another(made)):
            return None
        found[id(at)] = made
    return found[id(node)]


def _begins_another(texts: list[str]) -> bool:
    """Whether one of the texts begins another, so that which of them a search takes depends on what follows."""
    ordered = sorted(texts)
    return any(then.startswith(one) for one, then in itertools.pairwise(ordered))


def _joined(first: list[str], then: list[str]) -> list[str]:
    spend(len(first) * len(then))
    return list(dict.fromkeys(a + b for a in first for b in then))
