r"""Terminals whose alternatives begin with one another: ``/(?:int|integer)\b/``.

What undoes ``int`` may be the beginning of ``integer``, or of nothing. So whether a match counts is known only later,
perhaps at the end of the text. Each of the alternatives alone has no such doubt: they become terminals of their own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import pairwise

from guiderail import _core
from guiderail.constraints.constraint import any_text
from guiderail.frontends.grammar.lark.first_match_texts import FirstMatchTexts
from guiderail.frontends.regex import Regex, regex
from guiderail.frontends.regex.syntax import Alt, Cat, Node

__all__ = ["split"]

_OPENING = re.compile(r"\((?:\?(?:P<\w+>|[a-zA-Z-]*:))?")


def split(constraint: Regex, decided: Callable[[Regex], bool]) -> list[str]:
    """Patterns for the parts of a terminal, of which no two ever match at the same place; none if there are no such.

    What undoes a match of one part begins only matches of parts before it.

    Args:
        constraint: the pattern of the terminal.
        decided: whether it is known when a match of a pattern counts.
    """
    branches = list(dict.fromkeys(_branches(constraint.pattern, decided)))
    if len(branches) < 2 or not all(decided(regex(branch)) for branch in branches):
        return []
    b = _core.Builder()
    anything = any_text()._lower(b)
    begun = {branch: FirstMatchTexts(branch, "begun")._lower(b) for branch in branches}
    undone = {branch: b.concat([FirstMatchTexts(branch, "undone")._lower(b), anything]) for branch in branches}
    parts: list[list[str]] = []
    while branches:
        rest = b.union([begun[branch] for branch in branches])
        part = [branch for branch in branches if b.is_empty(b.intersection([undone[branch], rest]))]
        if not part:
            return []
        parts.append(part)
        branches = [branch for branch in branches if branch not in part]
    found = ["|".join(part) for part in parts]
    taken = [b.union([begun[branch] for branch in part]) for part in parts]
    apart = all(b.is_empty(b.intersection([one, b.union(taken[i + 1 :])])) for i, one in enumerate(taken))
    return found if apart and len(found) > 1 and all(decided(regex(part)) for part in found) else []


def _branches(text: str, decided: Callable[[Regex], bool]) -> Iterator[str]:
    """The alternatives of a pattern, each with what all have in common; those that are known are not taken apart."""
    stack = [text]
    while stack:
        text = stack.pop()
        constraint = regex(text)
        alternatives = [] if decided(constraint) else _alternatives(constraint._parsed.tree, text)
        if alternatives:
            stack += reversed(alternatives)
        else:
            yield f"(?:{text})"


def _alternatives(node: Node, text: str) -> list[str]:
    """A pattern for each branch of the first choice among the parts of a sequence; none if there is no choice."""
    items = node.items if isinstance(node, Cat) else [node]
    choice = next((item for item in items if isinstance(item, Alt) and len(item.items) > 1), None)
    if choice is None:
        return []
    begin, end = choice.start, choice.end
    opening = _OPENING.match(text, begin) if end < len(text) else None  # nodes of groups end before the bracket
    begin = begin if opening is None else opening.end()
    if text[begin : begin + 1] == "?":  # another kind of group
        return []
    found = []
    for one, following in pairwise(choice.items):  # between two branches is the bar, with brackets of theirs
        if text.count("|", one.end, following.start) != 1:
            return []
        bar = text.index("|", one.end)
        found.append(text[begin:bar])
        begin = bar + 1
    found.append(text[begin:end])
    head, tail = (text[: choice.start] if opening is None else text[: opening.end()]), text[end:]
    return [head + branch + tail for branch in found]
