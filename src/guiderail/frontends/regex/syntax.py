"""The syntax tree of a pattern. Nodes never change once it is read; ``start`` and ``end`` are their span in it.

The tree is small: groups are gone (only their contents count), flags are applied (a letter that ignores case is a set),
and each run of characters is one ``Lit``.
"""

from __future__ import annotations

from collections.abc import Callable

from guiderail import _core
from guiderail._core import CharSet

__all__ = [
    "Alt",
    "And",
    "Any",
    "Atomic",
    "Boundary",
    "Capture",
    "Cat",
    "Edge",
    "EndNl",
    "Ext",
    "Lit",
    "Look",
    "Node",
    "Not",
    "Recall",
    "Reference",
    "Rep",
    "Set",
]


class Node:
    """Base of all nodes."""

    __slots__ = ("end", "start")
    start: int
    end: int


class Lit(Node):
    """A run of characters; ``text`` may be empty."""

    __slots__ = ("_pieces",)

    def __init__(self, text: str, start: int, end: int) -> None:
        self._pieces = [text]
        self.start = start
        self.end = end

    @property
    def text(self) -> str:
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return self._pieces[0]

    def append(self, text: str, end: int) -> None:
        """Adds what follows, while the pattern is being read."""
        self._pieces.append(text)
        self.end = end


class Set(Node):
    """One character of a set."""

    __slots__ = ("chars",)

    def __init__(self, chars: CharSet, start: int, end: int) -> None:
        self.chars = chars
        self.start = start
        self.end = end


class Cat(Node):
    """The items in sequence."""

    __slots__ = ("items",)

    def __init__(self, items: list[Node], start: int, end: int) -> None:
        self.items = items
        self.start = start
        self.end = end


class Alt(Node):
    """One of the items, tried in this order. Without items, it matches nothing."""

    __slots__ = ("items",)

    def __init__(self, items: list[Node], start: int, end: int) -> None:
        self.items = items
        self.start = start
        self.end = end


class Rep(Node):
    """``item`` repeated ``min`` to ``max`` times (``max`` < 0: no bound).

    The mode is ``"greedy"``, ``"lazy"`` or ``"possessive"``.
    """

    __slots__ = ("item", "max", "min", "mode")

    def __init__(self, item: Node, min: int, max: int, mode: str, start: int, end: int) -> None:
        self.item = item
        self.min = min
        self.max = max
        self.mode = mode
        self.start = start
        self.end = end


class Look(Node):
    """Look-ahead or look-behind."""

    __slots__ = ("behind", "item", "negative")

    def __init__(self, item: Node, behind: bool, negative: bool, start: int, end: int) -> None:
        self.item = item
        self.behind = behind
        self.negative = negative
        self.start = start
        self.end = end


class Edge(Node):
    """The neighbour (before: ``behind``, otherwise after) is in ``chars``, or is the text's edge if ``edge``.

    All anchors except ``\\b``, ``\\B`` and Python's ``$`` have this form: ``\\A`` is ``Edge(behind, {}, edge)``.
    """

    __slots__ = ("behind", "chars", "edge")

    def __init__(self, behind: bool, chars: CharSet, edge: bool, start: int, end: int) -> None:
        self.behind = behind
        self.chars = chars
        self.edge = edge
        self.start = start
        self.end = end


class Boundary(Node):
    r"""``\b`` (or, negated, ``\B``) with the characters that make words.

    ``nonempty``: does not hold in the empty text, as ``\B`` of Python before 3.14.
    """

    __slots__ = ("chars", "negated", "nonempty")

    def __init__(self, chars: CharSet, negated: bool, start: int, end: int, nonempty: bool = False) -> None:
        self.chars = chars
        self.negated = negated
        self.nonempty = nonempty
        self.start = start
        self.end = end


class EndNl(Node):
    """Python's ``$`` without MULTILINE: at the end, or before a newline at the end."""

    __slots__ = ()

    def __init__(self, start: int, end: int) -> None:
        self.start = start
        self.end = end


class Atomic(Node):
    """``(?>…)``."""

    __slots__ = ("item",)

    def __init__(self, item: Node, start: int, end: int) -> None:
        self.item = item
        self.start = start
        self.end = end


class Ext(Node):
    """An extension: an expression made from those of ``items``. Its matches never depend on their surroundings."""

    __slots__ = ("build", "items")

    def __init__(
        self, build: Callable[[_core.Builder, list[int]], int], items: list[Node], start: int, end: int
    ) -> None:
        self.build = build
        self.items = items
        self.start = start
        self.end = end


class Reference(Node):
    """What a group has matched; ``literal`` makes a node of a text that is read under the flags of this place."""

    __slots__ = ("group", "literal", "unset_matches")

    def __init__(self, group: int, literal: Callable[[str], Node], unset_matches: bool, start: int, end: int) -> None:
        self.group = group
        self.literal = literal
        self.unset_matches = unset_matches  # whether a group without a text stands for the empty text
        self.start = start
        self.end = end


# Made by the rewriting only, never by the parser.
class Capture(Node):
    """A group, and what follows it up to its last recall: its two ``items``. ``label`` tells captures apart."""

    __slots__ = ("items", "label")

    def __init__(self, label: int, group: Node, rest: Node, start: int, end: int) -> None:
        self.label = label
        self.items = [group, rest]
        self.start = start
        self.end = end


class Recall(Node):
    """The text that the ``group`` of a capture has matched."""

    __slots__ = ("group", "label")

    def __init__(self, label: int, group: Node, start: int, end: int) -> None:
        self.label = label
        self.group = group
        self.start = start
        self.end = end


class And(Node):
    """The span matches all items."""

    __slots__ = ("items",)

    def __init__(self, items: list[Node], start: int, end: int) -> None:
        self.items = items
        self.start = start
        self.end = end


class Not(Node):
    """The span is a string that ``item`` does not match."""

    __slots__ = ("item",)

    def __init__(self, item: Node, start: int, end: int) -> None:
        self.item = item
        self.start = start
        self.end = end


class Any(Node):
    """Any text."""

    __slots__ = ()

    def __init__(self, start: int, end: int) -> None:
        self.start = start
        self.end = end
