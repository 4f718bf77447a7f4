"""From prepared rules to an expression of the core.

A rule of the core is a point where derivatives stop and continue when they are read. It is needed to break each cycle
of rules, and to keep shared parts from being copied; every other rule becomes the expression that it stands for. So a
grammar without recursion is an ordinary regular expression, and the union of two alternatives sees what they have in
common.
"""

from __future__ import annotations

from collections.abc import Iterable

from guiderail import _core
from guiderail.errors import CompileError, LimitError
from guiderail.frontends.grammar.analysis import (
    ConstraintFacts,
    barren,
    components,
    left_names,
    nullable_by,
    nullable_rules,
)
from guiderail.frontends.grammar.build import TRAP, Fold, names
from guiderail.frontends.grammar.prepare import Prepared
from guiderail.frontends.grammar.syntax import (
    Characters,
    Choice,
    Expression,
    Lexer,
    Name,
    Repetition,
    Sequence,
    Text,
)

__all__ = ["lower"]

_WIDEST = 256
"""Parts of a rule that may be copied to each place of its use."""

_DEEPEST = 200
"""Nesting up to which rules are put into each other; the core allows 1,500."""

_LEFT = 500
"""Rules within rules at the left end that a derivative goes through: bounded by the stack of the machine."""


def lower(prepared: Prepared, b: _core.Builder) -> int:
    """Builds the expression of a grammar; the handle is valid with ``b`` only.

    Raises:
        LimitError: ``grammar-depth``: rules begin with rules that begin with rules …, too many.
    """
    if prepared.lexer is not None:
        return _lower_lexed(prepared, prepared.lexer, b)
    return _Lowering(prepared.rules, b).run(prepared.start)


def _lower_lexed(prepared: Prepared, lexer: Lexer, b: _core.Builder) -> int:
    """Rules over terminals, and the lexer that cuts texts into them."""
    place = {terminal.name: at for at, terminal in enumerate(lexer.terminals)}
    terminals = [
        (
            b.EMPTY if terminal.constraint is None else terminal.constraint._lower(b),
            terminal.shortest,
            [place[name] for name in terminal.keyword_of],
            None if terminal.guard_of is None else place[terminal.guard_of],
        )
        for terminal in lexer.terminals
    ]
    rule = lexer.indentation
    indentation = None
    if rule is not None:
        opening, closing = [place[name] for name in rule.opening], [place[name] for name in rule.closing]
        marks = place[rule.newline], place[rule.indent], place[rule.dedent]
        indentation = (*marks, opening, closing, rule.tab, rule.strict_tabs, rule.final_newline)
    before = b"\n" if rule is not None and rule.initial_newline else b""
    ignored = sorted(place[name] for name in lexer.ignore)
    traps = sorted(place[name] for name in _before_traps(prepared.rules) if name in place)
    number = b.lexer(terminals, ignored, indentation, before, traps)
    symbols = {name: b.terminal(number, at) for name, at in place.items()}
    symbols[TRAP.name] = b.never(number)
    return b.lexed(number, _Lowering(prepared.rules, b, symbols).run(prepared.start))


def _before_traps(rules: dict[str, Expression]) -> set[str]:
    """The terminals that may stand right in front of a trap."""
    facts = ConstraintFacts()
    nullable = Fold(nullable_by(nullable_rules(rules, facts), facts))
    found: set[str] = set()
    seen: set[int] = set()
    ends: list[Expression] = []  # what stands there

    def add_ends(parts: Iterable[Expression]) -> None:
        for part in parts:
            ends.append(part)
            if not nullable(part):
                return

    work: list[Expression] = list(rules.values())
    while work:
        e = work.pop()
        if isinstance(e, Sequence):
            for at, part in enumerate(e.parts):
                if barren(part):
                    add_ends(reversed(e.parts[:at]))
        if isinstance(e, Sequence | Choice):
            work.extend(e.parts)
        elif isinstance(e, Repetition):
            work.append(e.item)
    while ends:
        e = ends.pop()
        if id(e) in seen:
            continue
        seen.add(id(e))
        if isinstance(e, Name):
            found.add(e.name)
            if e.name in rules:
                ends.append(rules[e.name])
        elif isinstance(e, Sequence):
            add_ends(reversed(e.parts))
        elif isinstance(e, Choice):
            ends.extend(e.parts)
        elif isinstance(e, Repetition):
            ends.append(e.item)
    return found


class _Measure:
    """How much of an expression is copied where it is put into a sequence or a choice, and how deep it nests."""

    __slots__ = ("deep", "wide")

    def __init__(self, wide: int, deep: int) -> None:
        self.wide, self.deep = wide, deep


class _Lowering:
    def __init__(self, rules: dict[str, Expression], b: _core.Builder, symbols: dict[str, int] | None = None) -> None:
        self.rules, self.b = rules, b
        self.handles = dict(symbols or {})  # by name: terminals, and the rules so far
        self.measures: dict[str, _Measure] = {}
        self.uses: dict[str, int] = {}
        for body in rules.values():
            for name in names(body):
                self.uses[name.name] = self.uses.get(name.name, 0) + 1
        self.build: Fold[int] = Fold(self._build)
        self.measure: Fold[_Measure] = Fold(self._measure)

    def run(self, start: str) -> int:
        graph = {name: {n.name for n in names(body)} & self.rules.keys() for name, body in self.rules.items()}
        if len(self.rules) > _LEFT:
            self._check_left_depth()
        for group in components(graph):
            cyclic = len(group) > 1 or group[0] in graph[group[0]]
            order, breaks = _order(group, graph) if cyclic else (group, set())
            for name in sorted(breaks):
                self._refer(name)
            for name in order:
                self._rule(name, name in breaks)
        return self.handles[start]

    def _refer(self, name: str) -> None:
        self.handles[name] = self.b.rule(name)
        self.measures[name] = _Measure(1, 0)

    def _rule(self, name: str, broken: bool) -> None:
        body = self.rules[name]
        handle = self.build(body)
        if not broken:
            size = self.measure(body)
            if size.deep <= _DEEPEST and (size.wide <= _WIDEST or self.uses.get(name, 0) <= 1):
                self.handles[name], self.measures[name] = handle, size
                return
            self._refer(name)
        self.b.define(self.handles[name], handle)

    def _build(self, e: Expression, kids: list[int]) -> int:
        b = self.b
        if isinstance(e, Text):
            return b.literal(e.text.encode())
        if isinstance(e, Characters):
            return b.char_class(e.characters)
        if isinstance(e, Name):
            return self.handles[e.name]
        if isinstance(e, Sequence):
            return b.concat(kids)
        if isinstance(e, Choice):
            texts = [part.text.encode() for part in e.parts if isinstance(part, Text)]
            if len(texts) < 2:
                return b.union(kids)
            others = [kid for kid, part in zip(kids, e.parts, strict=True) if not isinstance(part, Text)]
            words = b.choice(texts)
            return b.union([words, *others]) if others else words
        if isinstance(e, Repetition):
            return b.repeat(kids[0], e.min, -1 if e.max is None else e.max)
        try:
            return e.constraint._lower(b)
        except RecursionError:
            raise CompileError(
                "a constraint inside the grammar is nested too deep to compile; flatten it", code="depth"
            ) from None

    def _measure(self, e: Expression, kids: list[_Measure]) -> _Measure:
        if isinstance(e, Name):
            return self.measures.get(e.name) or _Measure(1, 0)
        if isinstance(e, Sequence):
            return _Measure(sum(kid.wide for kid in kids), 1 + max((kid.deep for kid in kids), default=0))
        if isinstance(e, Choice | Repetition):
            return _Measure(1, 1 + max((kid.deep for kid in kids), default=0))
        return _Measure(1, 1)

    def _check_left_depth(self) -> None:
        """How far a derivative descends before it reads a byte; the left ends of rules form no cycle any more."""
        facts = ConstraintFacts()
        nullable = Fold(nullable_by(nullable_rules(self.rules, facts), facts))
        left = {name: left_names(body, nullable) & self.rules.keys() for name, body in self.rules.items()}
        depth: dict[str, int] = {}
        for group in components(left):
            name = group[0]
            depth[name] = 1 + max((depth[other] for other in left[name]), default=0)
            if depth[name] > _LEFT:
                raise LimitError(
                    f"rule {name!r} begins with a rule that begins with a rule …, more than {_LEFT:,} of them; "
                    "put some of these rules into each other",
                    code="grammar-depth",
                )


def _order(group: Iterable[str], graph: dict[str, set[str]]) -> tuple[list[str], set[str]]:
    """The rules of a cycle so that each stands behind those that it needs, and those where the cycles are broken."""
    inside = set(group)
    order: list[str] = []
    breaks: set[str] = set()
    colour: dict[str, int] = {}  # 1: on the path, 2: done
    for root in group:
        if root in colour:
            continue
        colour[root] = 1
        work = [(root, iter(sorted(graph[root] & inside)))]
        while work:
            name, rest = work[-1]
            for other in rest:
                if other not in colour:
                    colour[other] = 1
                    work.append((other, iter(sorted(graph[other] & inside))))
                    break
                if colour[other] == 1:
                    breaks.add(other)
            else:
                colour[name] = 2
                order.append(name)
                work.pop()
    return order, breaks
