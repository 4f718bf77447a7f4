r"""Lowers the tree into an expression of the core.

Assertions take most of the work. Most need no look-around at run time. Anchors at the edge of the pattern, or a ``\b``
between a word and a space, are decided (``resolve``). An assertion about one character is merged into the character
beside it. A look-ahead whose sequence runs to the end of the text is an intersection with it, and so is a look-behind
whose sequence begins at the start (``eliminate``). Only the rest becomes ``look_ahead`` and ``look_behind`` of the
core, inside one ``scope``.
"""

from __future__ import annotations

from typing import Final

from guiderail import _core
from guiderail._core import CharSet
from guiderail.errors import CompileError, LimitError, PatternError
from guiderail.frontends.regex import charsets
from guiderail.frontends.regex.atomic import expand
from guiderail.frontends.regex.eliminate import eliminate
from guiderail.frontends.regex.facts import Facts, children
from guiderail.frontends.regex.loops import without_empty_iterations
from guiderail.frontends.regex.parser import Parsed
from guiderail.frontends.regex.resolve import resolve
from guiderail.frontends.regex.syntax import (
    Alt,
    And,
    Any,
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
    Rep,
    Set,
)
from guiderail.support.caches import cached
from guiderail.support.work import out_of_work, spend

__all__ = ["lower"]

_NODE: Final = 10  # steps that a node takes, besides those of the core
_CHARACTER: Final = 2  # and a character of a text
_RANGE: Final = 9  # and a range of a set, with the automaton of its characters
_EDGE: Final = (charsets.NONE, True)  # the neighbour at either end of the text: its edge, no character


def lower(parsed: Parsed, b: _core.Builder, source: str, search: bool) -> int:
    """Builds the expression of a pattern.

    Args:
        parsed: the tree.
        b: the builder that will own the expression.
        source: the pattern, for errors.
        search: whether any text may surround a match.

    Raises:
        PatternError: an atomic group, a repeated assertion, or a backreference beside one cannot be expressed.
    """
    try:
        return _lower(parsed, b, source, search)
    except CompileError as error:
        if parsed.recalled is None or error.code != "not-regular":
            raise
        raise PatternError(error.message, code="regex-backreference", source=source, span=parsed.recalled) from None


def _lower(parsed: Parsed, b: _core.Builder, source: str, search: bool) -> int:
    emitter = _Emitter(b, source)
    if parsed.atomics:
        facts = Facts()
        expanded = expand(parsed.tree, facts, source, emitter.is_prefix_free)
        tree, is_plain = _rewrite(expanded, facts, source, search)
    else:
        quick = _quick(parsed, emitter, search)
        if quick is not None:
            return quick
        tree, is_plain = _rewritten(parsed, source, search)
    return emitter.emit(tree) if is_plain else b.scope(emitter.emit(tree))


@cached(4 << 20)
def _rewritten(parsed: Parsed, source: str, search: bool) -> tuple[Node, bool]:
    """The tree of a pattern without atomic groups, rewritten."""
    return _rewrite(parsed.tree, Facts(), source, search)


def _rewrite(tree: Node, facts: Facts, source: str, search: bool) -> tuple[Node, bool]:
    """The tree of the whole text, with few assertions, and whether it has none."""
    tree = without_empty_iterations(tree, facts)
    if search:
        span = (tree.start, tree.end)
        tree = Cat([Any(*span), tree, Any(*span)], *span)
    tree = resolve(tree, facts, _EDGE, _EDGE)
    if not facts(tree).special:
        return tree, True
    plain = eliminate(tree, facts)
    if plain is not None:
        return plain, True
    _check_loops(tree, facts, source)
    return tree, False


def _quick(parsed: Parsed, emitter: _Emitter, search: bool) -> int | None:
    """The usual case: no assertions, or only anchors at both ends of the pattern or of its alternatives."""
    b, tree = emitter.b, parsed.tree
    if not parsed.assertions:
        whole = emitter.emit(tree)
        return b.concat([emitter.rest("*"), whole, emitter.rest("*")]) if search else whole
    left = parsed.assertions
    alike: dict[tuple[str, str], list[Node]] = {}  # alternatives without their anchors, by what may come around them
    for item in tree.items if isinstance(tree, Alt) else [tree]:
        around, items, anchors = _unanchored(item, search)
        left -= anchors
        alike.setdefault(around, []).append(items[0] if len(items) == 1 else Cat(items, item.start, item.end))
    if left:
        return None
    found: list[int] = []
    for (before, after), bodies in alike.items():
        body = bodies[0] if len(bodies) == 1 else Alt(bodies, tree.start, tree.end)
        found.append(b.concat([emitter.rest(before), emitter.emit(body), emitter.rest(after)]))
    return found[0] if len(found) == 1 else b.union(found)


def _unanchored(node: Node, search: bool) -> tuple[tuple[str, str], list[Node], int]:
    """What may come before and after an alternative, its parts without the anchors at its ends, and how many these are.

    Before and after come any text (``*``), nothing (empty), or at most a newline.
    """
    items = node.items if isinstance(node, Cat) else [node]
    before = after = "*" if search else ""
    low, high = 0, len(items)
    first, last = items[0] if items else node, items[-1] if items else node
    if isinstance(first, Edge) and first.behind and first.edge and not (search and len(first.chars)):
        low, before = 1, ""
    if high > low:
        if isinstance(last, Edge) and not last.behind and last.edge and not (search and len(last.chars)):
            high, after = high - 1, ""
        elif isinstance(last, EndNl):
            high, after = high - 1, "\n" if search else ""
    return (before, after), items[low:high], low + len(items) - high


def _check_loops(tree: Node, facts: Facts, source: str) -> None:
    stack, seen = [tree], {id(tree)}
    while stack:
        node = stack.pop()
        if isinstance(node, Rep) and facts(node.item).special and not facts(node.item).least:
            raise PatternError(
                "a look-around or an anchor is repeated inside a group that may match nothing; "
                "make the group match at least one character, or take the assertion out of it",
                code="regex-empty-lookaround-loop",
                source=source,
                span=(node.start, node.end),
            )
        for child in children(node):
            if id(child) not in seen:  # written-out repetitions share their nodes
                seen.add(id(child))
                stack.append(child)


class _Emitter:
    """Turns nodes into handles, bottom-up and without recursion; a shared node is built once."""

    def __init__(self, b: _core.Builder, source: str) -> None:
        self.b = b
        self.source = source
        self.any: int | None = None
        self.sets: dict[CharSet, int] = {}

    def any_char(self) -> int:
        if self.any is None:
            self.any = self.b.char_class(charsets.ANY)
        return self.any

    def rest(self, texts: str) -> int:
        """Any text (``*``), nothing (empty), or at most a newline."""
        if texts == "*":
            return self.b.repeat(self.any_char(), 0, -1)
        return self.b.repeat(self.b.literal(b"\n"), 0, 1) if texts else self.b.EPSILON

    def is_prefix_free(self, node: Node) -> bool:
        """Whether no match of a node certainly begins another."""
        b, e = self.b, self.emit(node)
        longer = b.concat([e, b.repeat(self.any_char(), 1, -1)])
        try:
            return b.is_empty(b.intersection([e, longer]))
        except (LimitError, _core.CoreError) as error:
            if isinstance(error, LimitError) and out_of_work(error):
                raise
            return False  # too hard to decide: treated as "no", which can only refuse more

    def emit(self, root: Node) -> int:
        b = self.b
        done: dict[int, int] = {}
        stack: list[tuple[Node, list[Node]]] = [(root, [root])]
        while stack:
            node, kids = stack[-1]
            waiting = len(stack)
            for kid in kids:
                if id(kid) in done:
                    continue
                kind = type(kid)
                spend(_NODE)
                if kind is Lit:
                    spend(_CHARACTER * len(kid.text))  # type: ignore[attr-defined]
                    done[id(kid)] = b.literal(kid.text.encode())  # type: ignore[attr-defined]
                elif kind is Set:
                    done[id(kid)] = self.set(kid.chars)  # type: ignore[attr-defined]
                else:
                    of = children(kid)
                    if kind is Alt and len(of) > 1 and all(type(one) is Lit for one in of):
                        texts = [one.text.encode() for one in of]  # type: ignore[attr-defined]
                        spend(_NODE * len(texts) + _CHARACTER * sum(map(len, texts)))
                        done[id(kid)] = b.choice(texts)
                    else:
                        stack.append((kid, of))
            if len(stack) > waiting:
                continue
            stack.pop()
            if stack and id(node) not in done:
                done[id(node)] = self.build(node, [done[id(kid)] for kid in kids])
        return done[id(root)]

    def set(self, chars: CharSet) -> int:
        known = self.sets.get(chars)
        if known is None:
            spend(_RANGE * len(chars.ranges()))
            known = self.sets[chars] = self.b.char_class(chars)
        return known

    def build(self, node: Node, handles: list[int]) -> int:
        b = self.b
        if isinstance(node, Cat):
            return b.concat(handles)
        if isinstance(node, Rep):
            return b.repeat(handles[0], node.min, node.max)
        if isinstance(node, Alt):
            return b.union(handles) if handles else b.EMPTY
        if isinstance(node, Any):
            return b.repeat(self.any_char(), 0, -1)
        if isinstance(node, And):
            return b.intersection(handles)
        if isinstance(node, Not):
            return b.complement(handles[0])
        if isinstance(node, Ext):
            return node.build(b, handles)
        if isinstance(node, Capture):
            return b.capture(node.label, *handles)
        if isinstance(node, Recall):
            return b.recall(node.label)
        if isinstance(node, Look):
            try:
                return (b.look_behind if node.behind else b.look_ahead)(handles[0], node.negative)
            except CompileError as error:
                raise PatternError(
                    error.message,
                    code="regex-" + error.code,
                    source=self.source,
                    span=(node.start, node.end),
                ) from None
        if isinstance(node, Edge):
            return self.edge(node.behind, node.chars, node.edge)
        if isinstance(node, EndNl):
            end = self.edge(False, charsets.NONE, True)
            return b.union([end, b.look_ahead(b.concat([b.literal(b"\n"), end]), False)])
        assert isinstance(node, Boundary)
        words, others = node.chars, charsets.others(node.chars)
        cases = [(words, False, words, False), (others, True, others, True)]
        if not node.negated:
            cases = [(words, False, others, True), (others, True, words, False)]
        elif node.nonempty:
            cases[1:] = [(others, False, others, True), (charsets.NONE, True, others, False)]
        return b.union([b.concat([self.edge(True, c, e), self.edge(False, d, f)]) for c, e, d, f in cases])

    def edge(self, behind: bool, chars: CharSet, edge: bool) -> int:
        """The neighbour is one of ``chars``, or the edge; expressed negatively, it is none of the others."""
        look = self.b.look_behind if behind else self.b.look_ahead
        return look(self.set(charsets.others(chars) if edge else chars), edge)
