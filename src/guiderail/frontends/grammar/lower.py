"""Lowers prepared rules into an expression of the core.

A rule of the core is a point where derivatives stop, to continue when they are read. It is needed to break each cycle
of rules, and to keep shared parts from being copied. Every other rule becomes the expression that it stands for. So a
grammar without recursion is an ordinary regular expression, and the union of two alternatives sees what they have in
common.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from guiderail import _core
from guiderail.constraints.constraint import Constraint
from guiderail.constraints.sharing import lowered, walk
from guiderail.errors import CompileError, GuiderailError, LimitError
from guiderail.frontends.grammar.analysis import (
    ConstraintFacts,
    Decision,
    barren,
    components,
    left_names,
    nullable_by,
    nullable_leaf,
    nullable_rules,
    reachable_rules,
)
from guiderail.frontends.grammar.build import NESTED, TRAP, Fold, children, leaves, names
from guiderail.frontends.grammar.prepare import Prepared
from guiderail.frontends.grammar.syntax import (
    Characters,
    Choice,
    Embedded,
    Expression,
    Lexer,
    Name,
    Repetition,
    Sequence,
    Terminal,
    Text,
)
from guiderail.support.places import relocated
from guiderail.support.work import spend

__all__ = ["lower"]

_WIDEST = 256
"""Maximum number of parts of a rule that is copied to each place of its use."""

_DEEPEST = 200
"""Maximum nesting of a rule that is inlined; the core allows 1,500."""

_PAIRS = 60
"""Pairs of terminals that the core compares in one step while it makes a lexer."""

_LEFT = 500
"""Maximum length of a chain of rules that each begin with the next; a derivative descends it on the machine's stack."""


def lower(prepared: Prepared, b: _core.Builder) -> int:
    """Builds the expression of a grammar; the handle is valid only with ``b``.

    Raises:
        LimitError: ``grammar-depth``: too many rules each begin with the next.
    """
    with walk(b):
        if prepared.lexer is not None and prepared.lexer.terminals:
            return _lower_lexed(prepared, prepared.lexer, prepared.source, b)
        return _Lowering(prepared, b).run(prepared.start)


def _lower_lexed(prepared: Prepared, lexer: Lexer, source: str | None, b: _core.Builder) -> int:
    """Rules over terminals, and the lexer that cuts strings into them."""
    spend(len(lexer.terminals) ** 2 // _PAIRS)
    place = {terminal.name: at for at, terminal in enumerate(lexer.terminals)}
    terminals = [
        (
            b.EMPTY if terminal.constraint is None else _texts(terminal, terminal.constraint, source, b),
            3 if terminal.nested else 2 if terminal.lazy else int(terminal.shortest),
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
    return b.lexed(number, _Lowering(prepared, b, symbols).run(prepared.start))


def _texts(terminal: Terminal, constraint: Constraint, source: str | None, b: _core.Builder) -> int:
    """The expression of a terminal's texts."""
    try:
        return lowered((constraint,), b)[0]
    except GuiderailError as error:
        if terminal.span is None or error.source is not None:
            raise
        raise relocated(error, "", source=source, span=terminal.span) from error


def _before_traps(rules: dict[str, Expression]) -> set[str]:
    """The terminals that may directly precede a trap."""
    found: set[str] = set()
    seen: set[int] = set()
    ends: list[Expression] = []  # the last parts

    def add_ends(parts: Iterable[Expression]) -> None:
        for part in parts:
            ends.append(part)
            if not nullable(part):
                return

    work: list[Expression] = [body for body in rules.values() if TRAP.name in leaves(body)[0]]
    if not work:
        return found
    facts = ConstraintFacts()
    known: dict[str, bool] = {}

    def nullable_rule(name: str) -> bool:
        if name not in rules:
            return False
        if name not in known:  # the rules that it uses, usually few
            needed = reachable_rules(rules, name)
            found = nullable_rules({one: rules[one] for one in needed}, facts)
            known.update((one, one in found) for one in needed)
        return known[name]

    nullable = Decision(nullable_rule, lambda e: nullable_leaf(e, facts))
    searched: set[int] = set()
    while work:
        e = work.pop()
        if id(e) in searched:
            continue
        searched.add(id(e))
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


class _Built(NamedTuple):
    """The result of lowering an expression.

    Attributes:
        handle: the handle of the core.
        wide: how much of it is copied when it is put into a sequence or a choice.
        deep: its nesting depth.
    """

    handle: int
    wide: int
    deep: int


_new = tuple.__new__  # twice as fast as calling the class


class _Lowering:
    def __init__(self, prepared: Prepared, b: _core.Builder, symbols: dict[str, int] | None = None) -> None:
        self.rules, self.groups, self.b = prepared.rules, prepared.groups, b
        # by name: terminals, and the rules so far
        self.known = {name: _Built(handle, 1, 0) for name, handle in (symbols or {}).items()}
        self.uses: dict[str, int] = {}  # name → uses in the rules, counted when first needed
        self.built: dict[int, _Built] = {}  # by expressions, which the rules hold on to
        self.deep: Fold[_Built] = Fold(self._build)

    def run(self, start: str) -> int:
        if len(self.rules) > _LEFT:
            self._check_left_depth()
        for group in self.groups:
            cyclic = len(group) > 1 or group[0] in leaves(self.rules[group[0]])[0]
            order, breaks = (group, set[str]()) if not cyclic else _order(group, self.rules)
            for name in sorted(breaks):
                self._refer(name)
            for name in order:
                self._rule(name, name in breaks)
        return self.known[start].handle

    def _refer(self, name: str) -> None:
        self.known[name] = _Built(self.b.rule(name), 1, 0)

    def _rule(self, name: str, broken: bool) -> None:
        built = self.build(self.rules[name])
        if not broken:
            if built.deep <= _DEEPEST and (built.wide <= _WIDEST or self._uses(name) <= 1):
                self.known[name] = built
                return
            self._refer(name)
        self.b.define(self.known[name].handle, built.handle)

    def _uses(self, name: str) -> int:
        if not self.uses:
            for body in self.rules.values():
                for one in names(body):
                    self.uses[one.name] = self.uses.get(one.name, 0) + 1
        return self.uses.get(name, 0)

    def build(self, e: Expression, depth: int = 0) -> _Built:
        """What an expression of the rules becomes."""
        if type(e) is Name:
            return self.known[e.name]
        found = self.built.get(id(e))
        if found is None:
            if depth > NESTED:
                return self.deep(e)
            spend(30)
            found = self._build(e, [self.build(kid, depth + 1) for kid in children(e)])
            self.built[id(e)] = found
        return found

    def _build(self, e: Expression, kids: list[_Built]) -> _Built:
        if isinstance(e, Name):
            return self.known[e.name]
        deep, wide, handles = 0, 0, []
        for handle, width, depth in kids:
            handles.append(handle)
            wide += width
            if depth > deep:
                deep = depth
        return _new(_Built, (self._handle(e, handles), wide if type(e) is Sequence else 1, deep + 1))

    def _handle(self, e: Expression, kids: list[int]) -> int:
        b = self.b
        if isinstance(e, Sequence):
            return b.concat(kids)
        if isinstance(e, Text):
            return b.literal(e.text.encode())
        if isinstance(e, Characters):
            return b.char_class(e.characters)
        if isinstance(e, Choice):
            texts = [part.text.encode() for part in e.parts if type(part) is Text]
            if len(texts) < 2:
                return b.union(kids)
            others = [kid for kid, part in zip(kids, e.parts, strict=True) if not isinstance(part, Text)]
            words = b.choice(texts)
            return b.union([words, *others]) if others else words
        if isinstance(e, Repetition):
            return b.repeat(kids[0], e.min, -1 if e.max is None else e.max)
        assert isinstance(e, Embedded)
        try:
            return lowered((e.constraint,), b)[0]
        except RecursionError:
            raise CompileError(
                "a constraint inside the grammar is nested too deeply to compile; flatten it", code="depth"
            ) from None

    def _check_left_depth(self) -> None:
        """Checks how far a derivative descends before it reads a byte.

        At this point, the left ends of rules form no cycle.
        """
        facts = ConstraintFacts()
        nullable = nullable_by(nullable_rules(self.rules, facts), facts)
        left = {name: left_names(body, nullable) & self.rules.keys() for name, body in self.rules.items()}
        depth: dict[str, int] = {}
        for group in components(left):
            name = group[0]
            depth[name] = 1 + max((depth[other] for other in left[name]), default=0)
            if depth[name] > _LEFT:
                raise LimitError(
                    f"rule {name!r} starts a chain of more than {_LEFT:,} rules that each begin with the next; "
                    "inline some of these rules",
                    code="grammar-depth",
                )


def _order(group: Iterable[str], rules: Mapping[str, Expression]) -> tuple[list[str], set[str]]:
    """The rules of a cycle, each after those that it needs, and the rules at which cycles are broken."""
    inside = set(group)
    order: list[str] = []
    breaks: set[str] = set()
    colour: dict[str, int] = {}  # 1: on the path, 2: done
    for root in group:
        if root in colour:
            continue
        colour[root] = 1
        work = [(root, iter(sorted(leaves(rules[root])[0] & inside)))]
        while work:
            name, rest = work[-1]
            for other in rest:
                if other not in colour:
                    colour[other] = 1
                    work.append((other, iter(sorted(leaves(rules[other])[0] & inside))))
                    break
                if colour[other] == 1:
                    breaks.add(other)
            else:
                colour[name] = 2
                order.append(name)
                work.pop()
    return order, breaks
