"""Backreferences: to groups with few texts, written out; to others, as captures of the core.

A backreference needs a memory. If its group has few texts, the memory has few states: a pattern is the union, over the
texts of the group, of the same pattern with this text in both places.

    (['"])[a-z]*\\1   →   '[a-z]*' | "[a-z]*"

If it has many, the core remembers the text while it is read (`core/captures/captures.cpp`). Then the group and all that
refers to it stand in one sequence, without assertions in between: a capture.

    <(\\w+)>.*</\\1>   →   "<" capture(\\w+, ">" .* "</" recall) ">"

``(?=(X))\\1`` is an atomic group, which has no other notation in JavaScript.

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
    Capture,
    Cat,
    Edge,
    EndNl,
    Ext,
    Lit,
    Look,
    Node,
    Recall,
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
    """A pattern whose backreferences are written out or captured.

    Attributes:
        tree: the pattern.
        assertions: how many it has.
        in_order: whether a search tries its alternatives in the order of the pattern that was given.
        recalled: the span of the first recall of a capture, if there is one.
    """

    tree: Node
    assertions: int
    in_order: bool
    recalled: tuple[int, int] | None


def written_out(tree: Node, parser: Parser) -> Written:
    """The tree without backreferences, except for recalls in captures.

    Args:
        tree: the pattern.
        parser: knows the backreferences and the contents of the groups, and reports those that cannot be followed.

    Raises:
        PatternError: ``regex-backreference``: what a group matches is not known where the pattern refers to it.
    """
    writer = _Writer(tree, parser)
    made = writer.write()
    return Written(made, _assertions(made), writer.in_order, writer.recalled)


class _TooManyStates(Exception):
    """Groups of few texts have many together."""


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
        self.recalled: tuple[int, int] | None = None
        self.looping: list[int] = []  # groups whose text may be one of an earlier iteration
        self.captures: dict[int, list[int]] = {}  # numbers of groups, by contents
        self.texts: dict[int, list[str] | None] = {}  # None: many
        self.open: set[int] = set()  # groups that are being captured
        self.last: dict[int, int] = {}  # where the last reference to each group begins
        for group, uses in self.references.items():
            contents = parser.contents[group]
            self.captures.setdefault(id(contents), []).append(group)
            self.last[group] = max(use.start for use in uses)
            self.texts[group] = _texts(contents)

    def refuse(self, at: Node, why: str) -> NoReturn:
        self.parser.refuse_backreference(at.start, at.end, why)

    def write(self) -> Node:
        self._survey(self.tree)
        ways: Ways
        try:
            ways = run(self.ways(self.tree, frozenset()))
        except _TooManyStates:
            self.texts = dict.fromkeys(self.texts)
            self.looping = []
            ways = run(self.ways(self.tree, frozenset()))
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
        if isinstance(node, Capture):
            ways: Ways = yield self._capture(node, memory)
            return ways
        if isinstance(node, Reference):
            if node.group in self.open:
                return {memory: self._recall(node)}
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
        texts = self.texts[numbers[0]]
        if texts is None:
            later = [use for use in self._uses(numbers) if use.start >= node.end]
            if later:
                self.refuse(later[0], "its group has many texts, and ends within a part that ends before this place")
            return {memory: node}
        kept = [(group, text) for group, text in memory if group not in numbers]
        return {
            frozenset([*kept, *((group, text) for group in numbers)]): Lit(text, node.start, node.end) for text in texts
        }

    def _capture(self, node: Capture, memory: Memory) -> Generator[Anything, Anything, Ways]:
        group, rest = node.items
        numbers = self.captures[id(group)]
        if self.within[id(group)] != (frozenset(numbers), frozenset()):
            self.refuse(self._a_use(numbers), "its group contains another group that is referred to")
        if any(_is_special(one) for one in (group, rest)):
            what = "an assertion, an atomic group or an extension"
            self.refuse(self._a_use(numbers), f"its group has many texts, and {what} stands in it or before this place")
        self.in_order = False
        self.open.update(numbers)
        ways: Ways = yield self.ways(rest, memory)
        self.open.difference_update(numbers)
        return {after: Capture(node.label, group, made, node.start, node.end) for after, made in ways.items()}

    def _is_atomic(self, look: Node, then: Node) -> bool:
        """Whether two items are ``(?=(X))\\1``, which is how JavaScript writes ``(?>X)``."""
        if not isinstance(look, Look) or look.behind or look.negative or not isinstance(then, Reference):
            return False
        numbers = self.captures.get(id(look.item), [])
        return then.group in numbers and self._uses(numbers) == [then] and not self.within[id(look.item)][1]

    def _recall(self, node: Reference) -> Node:
        if type(node.literal("k")) is not Lit:
            self.refuse(node, "its group has many texts, and the case of their letters does not count here")
        self.recalled = self.recalled or (node.start, node.end)
        contents = self.parser.contents[node.group]
        return Recall(self.captures[id(contents)][0], contents, node.start, node.end)

    def _with_captures(self, items: list[Node]) -> list[Node]:
        """The items of a sequence, with each group of many texts and what follows up to its last use as one capture."""
        out: list[Node] = []
        i = 0
        while i < len(items):
            item, i = items[i], i + 1
            if i < len(items) and self._is_atomic(item, items[i]):
                assert isinstance(item, Look)
                item = Atomic(item.item, item.start, items[i].end)
                self.within[id(item)] = frozenset(), frozenset()  # nothing else refers to its group
                self.parser.atomics += 1
                i += 1
            numbers = self.captures.get(id(item), [])
            after = items[i:]
            uses = [k for k, one in enumerate(after) if self.within[id(one)][1].intersection(numbers)]
            if uses and self.texts[numbers[0]] is None:
                end = after[uses[-1]].end
                if any(use.start >= end for use in self._uses(numbers)):
                    self.refuse(self._uses(numbers)[-1], "its group has many texts, and ends before this place")
                rest = Cat(after[: uses[-1] + 1], item.end, end)
                item = Capture(numbers[0], item, rest, item.start, end)
                self._survey(item)
                i += uses[-1] + 1
            out.append(item)
        return out

    def _sequence(self, node: Cat, memory: Memory) -> Generator[Anything, Anything, Ways]:
        found: dict[Memory, _Chain | None] = {memory: None}
        for item in self._with_captures(node.items):
            spend(_NODE * len(found))
            if self.within[id(item)][0] and self.in_order:
                self.in_order = all(self.facts(one).unique for some in found.values() for one in _listed(some))
            after: dict[Memory, list[_Chain]] = {}
            for before, items in found.items():
                for end, made in (yield self.ways(item, before)).items():
                    self._add(after, self._needed(end, item.end), (items, made))
            if len(after) > _MOST_STATES:
                raise _TooManyStates
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


def _is_special(tree: Node) -> bool:
    """Whether a tree has anything that a capture cannot hold."""
    stack = [tree]
    while stack:
        node = stack.pop()
        spend(_COUNTED)
        if isinstance(node, Look | Edge | EndNl | Boundary | Atomic | Ext):
            return True
        if isinstance(node, Rep) and node.mode == "possessive":
            return True
        stack += children(node)
    return False


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
