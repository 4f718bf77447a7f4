r"""Terminals that look at the character before them: ``/\bif\b/``, ``/(?<!\.)[0-9]+/``.

The lexer does not see what precedes a lexeme. So such an assertion is left out of the terminal, which is exact if it
holds wherever the terminal may come (see :mod:`.boundaries`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from guiderail._core import CharSet
from guiderail.frontends.grammar.lark.patterns import RegexPattern
from guiderail.frontends.regex import Regex
from guiderail.frontends.regex.facts import Fact, Facts
from guiderail.frontends.regex.syntax import Alt, Boundary, Cat, Edge, Look, Node

__all__ = ["Preceding", "without_look_behind"]

_FLAG = len("(?i:")


@dataclass(frozen=True, slots=True)
class Preceding:
    """What must not precede a terminal, or those of its matches that begin in some way.

    Attributes:
        chars: characters that must not.
        first: a superset of the characters that these matches begin with.
        whole: whether these are all matches.
    """

    chars: CharSet
    first: CharSet
    whole: bool


def without_look_behind(constraint: Regex, pattern: Any) -> tuple[RegexPattern, list[Preceding]] | None:
    """The pattern without the look-behinds that it begins with, and what they say; None if there are none.

    Others than those of one character, and those that do not hold where a text begins, stay in the pattern.
    """
    nodes: list[Node] = []
    found: list[Preceding] = []
    _collect(constraint._parsed.tree, Facts(), nodes, found, True)
    if not nodes:
        return None
    value = pattern.value
    for node in sorted(nodes, key=lambda node: -node.start):
        begin, end = (at - _FLAG * len(pattern.flags) for at in (node.start, node.end))
        value = value[:begin] + value[end:]
    return RegexPattern(value, pattern.flags, pattern.raw), found


def _collect(node: Node, facts: Facts, nodes: list[Node], found: list[Preceding], whole: bool) -> None:
    """Collects the look-behinds that ``node`` begins with, and what they say."""
    if isinstance(node, Alt):
        for branch in node.items:
            _collect(branch, facts, nodes, found, False)
    if not isinstance(node, Cat):
        return
    for i, item in enumerate(node.items):
        rest = facts.of_cat(node.items[i + 1 :])
        excluded = _excluded(item, rest, facts)
        if excluded is not None:
            nodes.append(item)
            found.append(Preceding(excluded, rest.first, whole))
        elif not isinstance(item, Look) or item.behind:
            return _collect(item, facts, nodes, found, whole)


def _excluded(node: Node, rest: Fact, facts: Facts) -> CharSet | None:
    """The characters that ``node`` excludes before ``rest``, if it is a look-behind that holds where a text begins."""
    if not rest.least:
        return None
    if isinstance(node, Boundary):
        return node.chars if not node.negated and not len(rest.first & ~node.chars) else None
    if isinstance(node, Edge):
        return ~node.chars if node.behind and node.edge else None
    if isinstance(node, Look) and node.behind and node.negative and facts(node.item).least:
        return facts(node.item).last
    return None
