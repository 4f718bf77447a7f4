"""The location of a text in a regular expression: the spans of the pattern that read the next character.

The tree of the pattern is run as a nondeterministic machine (Thompson 1968). A state is a leaf of the tree with what
follows it, a linked list that also counts the iterations of repetitions. Patterns with look-around, word boundaries,
atomic groups or extensions, and patterns that need too many states at once, have no locations here.
"""

from __future__ import annotations

from typing import Any

from guiderail.frontends.regex.constraint import Regex
from guiderail.frontends.regex.syntax import Alt, Cat, Edge, EndNl, Lit, Node, Rep, Set

__all__ = ["RegexWhere"]

_MOST = 400  # maximum simultaneous places

# What is to be read: None at the end of the pattern; (node, how far, what is after it). Of a sequence "how far" is the
# next part, of a repetition the number of iterations so far.
Rest = tuple[Node, int, Any] | None
# A leaf that reads a character: (leaf, character of a run, what is after it).
Leaf = tuple[Node, int, Rest]


class _TooHard(Exception):
    """Nothing can be reported for this pattern."""


class RegexWhere:
    """Follows a text through a pattern."""

    def __init__(self, constraint: Regex) -> None:
        self._search = constraint.mode == "search"
        self._tree = constraint._parsed.tree
        self._read = ""  # the last character
        self._leaves: set[Leaf] | None = None
        if not constraint._parsed.atomics and constraint.max_length is None:
            self._leaves = self._reached([(self._tree, None)], set())

    def feed(self, text: str) -> None:
        for character in text:
            if self._leaves is None:
                return
            self._step(character)

    def spans(self) -> tuple[tuple[int, int], ...] | None:
        """The half-open spans of the pattern that may read the next character; None if unknown."""
        if self._leaves is None:
            return None
        found = set()
        for node, at, _ in self._leaves:
            if isinstance(node, Lit) and node.end - node.start == len(node.text):
                found.add((node.start + at, node.start + at + 1))
            else:
                found.add((node.start, node.end))
        return tuple(sorted(found))

    def _step(self, character: str) -> None:
        assert self._leaves is not None
        work: list[tuple[Node | None, Rest]] = []
        following: set[Leaf] = set()
        for node, at, rest in self._leaves:
            if isinstance(node, Lit):
                if node.text[at] != character:
                    continue
                if at + 1 < len(node.text):
                    following.add((node, at + 1, rest))
                    continue
            elif isinstance(node, Set) and ord(character) not in node.chars:
                continue
            work.append((None, rest))
        self._read = character
        if self._search:
            work.append((self._tree, None))
        self._leaves = self._reached(work, following)

    def _reached(self, work: list[tuple[Node | None, Rest]], leaves: set[Leaf]) -> set[Leaf] | None:
        """These leaves and those that :meth:`_closure` adds; None if nothing can be reported."""
        try:
            self._closure(work, leaves)
        except _TooHard:
            return None
        return leaves

    def _closure(self, work: list[tuple[Node | None, Rest]], leaves: set[Leaf]) -> None:
        """Adds the leaves that can be reached without reading; a node None stands for what follows it."""
        seen: set[tuple[Node | None, Rest]] = set()
        while work:
            item = work.pop()
            if item in seen:
                continue
            seen.add(item)
            if len(seen) > 8 * _MOST or len(leaves) > _MOST:
                raise _TooHard
            node, rest = item
            if node is None:
                if rest is None:  # the end of the pattern reads nothing
                    continue
                holder, count, after = rest
                if isinstance(holder, Rep):
                    self._turn(holder, count, after, work)
                else:
                    self._part(holder, count, after, work)
            elif isinstance(node, Lit):
                if node.text:
                    leaves.add((node, 0, rest))
                else:
                    work.append((None, rest))
            elif isinstance(node, Set):
                leaves.add((node, 0, rest))
            elif isinstance(node, Cat):
                self._part(node, 0, rest, work)
            elif isinstance(node, Alt):
                work += [(part, rest) for part in node.items]
            elif isinstance(node, Rep) and node.mode != "possessive":
                self._turn(node, 0, rest, work)
            elif isinstance(node, Edge) and node.behind:
                if node.edge if not self._read else ord(self._read) in node.chars:
                    work.append((None, rest))
            elif isinstance(node, Edge | EndNl) and rest is None and not self._search:
                continue  # at the end of the pattern, such an anchor holds at the end of the text, which is not read
            else:
                raise _TooHard

    @staticmethod
    def _part(node: Node, at: int, rest: Rest, work: list[tuple[Node | None, Rest]]) -> None:
        assert isinstance(node, Cat)
        if at == len(node.items):
            work.append((None, rest))
        else:
            after = rest if at + 1 == len(node.items) else (node, at + 1, rest)
            work.append((node.items[at], after))

    @staticmethod
    def _turn(node: Rep, count: int, rest: Rest, work: list[tuple[Node | None, Rest]]) -> None:
        if count >= node.min:
            work.append((None, rest))
        if node.max < 0 or count < node.max:
            # beyond the minimum, the iterations of an unbounded repetition are all alike
            made = min(count + 1, node.min) if node.max < 0 else count + 1
            work.append((node.item, (node, made, rest)))
