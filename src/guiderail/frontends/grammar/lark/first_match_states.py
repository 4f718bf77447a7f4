"""States of the machine that finds first matches, its threads, and what they are obliged to."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from guiderail._core import CharSet
from guiderail.frontends.regex.syntax import Alt, Boundary, Cat, Edge, EndNl, Lit, Look, Node, Rep, Set

__all__ = [
    "FREE",
    "MATCH",
    "Ahead",
    "Duties",
    "Expanded",
    "LookAhead",
    "State",
    "Thread",
    "Unknown",
    "edge_of",
    "sets_of",
]

_NEWLINE = ord("\n")


class Unknown(Exception):
    """The question cannot be decided; ``str()`` says why.

    Attributes:
        context: whether a match may depend on text outside of it.
    """

    def __init__(self, why: str, context: bool = True) -> None:
        super().__init__(why)
        self.context = context


class Ahead(NamedTuple):
    """The next character is in ``mask``, or (if ``end``) there is none."""

    mask: int
    end: bool


class LookAhead(NamedTuple):
    """A look-ahead in progress: the states of its body."""

    negative: bool
    states: frozenset[int]


class State(NamedTuple):
    """A state of the machine.

    Attributes:
        kind: ``match``; ``char`` (one of ``mask``, then ``first``); ``split`` (``first`` preferred to ``second``);
            ``loop`` (a split whose branch ``inside`` continues; an iteration that reads nothing is the last);
            ``assert`` (``node``, then ``first``).
    """

    kind: str
    first: int = 0
    second: int = 0
    mask: int = 0
    inside: int = 0
    node: Node | None = None


class Expanded(NamedTuple):
    """The states that read a character or match, in order, and all those on the way from which expansions begin."""

    states: tuple[int, ...]
    inside: tuple[int, ...]


Duties: TypeAlias = frozenset[Ahead | LookAhead]
Thread: TypeAlias = tuple[int, Duties]
FREE: Duties = frozenset()
"""No obligations."""
MATCH = 0
"""The state of a thread that has matched."""


def edge_of(look: Look) -> Edge | None:
    r"""The same as a condition on the next character, if an anchor is one of the alternatives: ``(?=\s|$)``.

    ``$`` also holds before a last line break. That makes no difference if every line break is among the alternatives.
    """
    if look.behind or not isinstance(look.item, Alt):
        return None
    chars, edge, last_line = CharSet([]), False, False
    for branch in look.item.items:
        if isinstance(branch, Set):
            chars = chars | branch.chars
        elif isinstance(branch, Lit) and len(branch.text) == 1:
            chars = chars | CharSet([(ord(branch.text), ord(branch.text))])
        elif isinstance(branch, Edge) and not branch.behind:
            chars, edge = chars | branch.chars, edge or branch.edge
        elif isinstance(branch, EndNl):
            edge = last_line = True
        else:
            return None
    if not edge or (last_line and _NEWLINE not in chars):
        return None
    return Edge(False, ~chars if look.negative else chars, edge != look.negative, look.start, look.end)


def sets_of(tree: Node) -> list[CharSet]:
    """All sets of characters in a pattern, each once."""
    found: dict[CharSet, None] = {}
    stack = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, Look):
            node = edge_of(node) or node
        if isinstance(node, Lit):
            found.update((CharSet([(ord(c), ord(c))]), None) for c in node.text)
        elif isinstance(node, Set | Edge | Boundary):
            found[node.chars] = None
        elif isinstance(node, Cat | Alt):
            stack += node.items
        elif isinstance(node, Rep | Look):
            stack.append(node.item)
    return list(found)
