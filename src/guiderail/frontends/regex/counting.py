"""How many strings a pattern has at least, and what one of them may be, read off its tree."""

from __future__ import annotations

from typing import Final

from guiderail.frontends.regex.constraint import Regex
from guiderail.frontends.regex.syntax import Alt, Atomic, Cat, Edge, EndNl, Lit, Node, Rep, Set

__all__ = ["HUGE", "INFINITE", "count_strings", "count_texts", "likely_text", "unanchored"]

INFINITE: Final = 1 << 200
HUGE: Final = INFINITE - 1
"""Finitely many, but at least as many as this."""
_MOST_PIECES: Final = 200  # of a likely text


def count_texts(regex: Regex) -> int:
    """A lower bound on the number of texts that a pattern matches; 0 if unknown."""
    if regex.max_length is not None or regex.compiled:
        return 0
    tree = regex._parsed.tree
    branches = tree.items if isinstance(tree, Alt) else [tree]
    return max((_count_branch(branch, regex.mode == "search") for branch in branches), default=0)


def _count_branch(tree: Node, search: bool) -> int:
    items, start, end = unanchored(tree)
    count, _ = count_strings(Cat(items, 0, 0))
    return INFINITE if count and search and not (start and end) else count


def unanchored(tree: Node) -> tuple[list[Node], bool, bool]:
    """The parts of a pattern, and whether it is anchored at the start and at the end of the text."""
    items = list(tree.items) if isinstance(tree, Cat) else [tree]
    start = end = False
    while items and _is_edge(items[0], behind=True):
        start = True
        items.pop(0)
    while items and (isinstance(items[-1], EndNl) or _is_edge(items[-1], behind=False)):
        end = True
        items.pop()
    return items, start, end


def _is_edge(node: Node, *, behind: bool) -> bool:
    """Whether a node matches only at the start of the text (``behind``), or only at its end."""
    return isinstance(node, Edge) and node.behind == behind and node.edge and not len(node.chars)


def count_strings(node: Node) -> tuple[int, int | None]:
    """A lower bound on the number of strings, 0 if unknown, and their length if all have the same."""
    if isinstance(node, Lit):
        return 1, len(node.text)
    if isinstance(node, Set):
        return len(node.chars), 1
    if isinstance(node, Cat):
        product, length, most = 1, 0, 1
        fixed = True
        for item in node.items:
            count, size = count_strings(item)
            if not count:
                return 0, None
            most = max(most, count)
            if fixed and size is not None:  # up to here each text is split into its parts in only one way
                product, length = _times(product, count), length + size
            else:
                fixed = False
        return max(product, most), length if fixed else None
    if isinstance(node, Alt):
        counts = [count_strings(item) for item in node.items]
        sizes = {size for _, size in counts}
        return max((count for count, _ in counts), default=0), sizes.pop() if len(sizes) == 1 else None
    if isinstance(node, Rep):
        count, size = count_strings(node.item)
        if node.max == 0:
            return 1, 0
        if node.min == 0 and not count:
            return 0, None
        if node.max < 0:
            return (INFINITE if count and size != 0 else 0), None
        many = count if size is None else INFINITE if count == INFINITE else min(count ** min(node.max, 64), HUGE)
        return many, size * node.max if size is not None and node.min == node.max else None
    return 0, None


def _times(one: int, other: int) -> int:
    return INFINITE if INFINITE in (one, other) else min(one * other, HUGE)


def likely_text(regex: Regex) -> str:
    """A text that the pattern matches, unless assertions or empty classes forbid it, or repetitions make it long."""
    pieces: list[str] = []
    stack: list[Node] = [regex._parsed.tree]
    while stack and len(pieces) < _MOST_PIECES:
        node = stack.pop()
        if isinstance(node, Lit):
            pieces.append(node.text)
        elif isinstance(node, Set):
            pieces += [chr(low) for low, _ in node.chars.ranges()[:1]]
        elif isinstance(node, Cat):
            stack += reversed(node.items)
        elif isinstance(node, Alt):
            stack += node.items[:1]
        elif isinstance(node, Rep):
            stack += [node.item] * min(node.min, _MOST_PIECES)
        elif isinstance(node, Atomic):
            stack.append(node.item)
    return "".join(pieces)
