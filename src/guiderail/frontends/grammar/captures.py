"""Finds what captured rules matched, in the finished text.

The grammar is built a second time with marks around each captured rule: symbols that no text contains. A path through
its states, which reads the text and marks where allowed, says where each rule begins and ends. A rule begins as early
as possible, and is as long as possible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

from guiderail import _core
from guiderail.constraints.constraint import AnyOf, Constraint, SpecialToken
from guiderail.constraints.program import build_program
from guiderail.errors import LimitError
from guiderail.frontends.grammar.build import replacing
from guiderail.frontends.grammar.syntax import (
    Capture,
    Choice,
    Embedded,
    Expression,
    Grammar,
    Name,
    Repetition,
    Rule,
    Sequence,
    Terminal,
)

__all__ = ["Captures", "has_captures"]

_OPEN, _CLOSE = "\0capture ", "\0captured "
_MOST_STEPS = 2_000_000


def has_captures(tree: Grammar) -> bool:
    """Whether a rule of the grammar, or of one within it, is captured."""
    return bool(tree.captures) or any(has_captures(inner) for inner in _inner(tree))


def _inner(tree: Grammar) -> Iterator[Grammar]:
    for terminal in () if tree.lexer is None else tree.lexer.terminals:
        inner = getattr(terminal.constraint, "tree", None)
        if isinstance(inner, Grammar):
            yield inner


class _Step(NamedTuple):
    """A position on a path: after which mark of which rule, and the previous step."""

    mark: str
    at: int
    before: _Step | None


class Captures:
    """Finds captures in strings of one grammar.

    Args:
        tree: the grammar.
        constraint: makes a constraint of a grammar.
    """

    def __init__(self, tree: Grammar, constraint: Callable[[Grammar], Constraint]) -> None:
        self.constraint = constraint
        self.known: list[Capture] = []
        self.blanks: list[Constraint | None] = []  # ignored text, for the grammar of each
        self.programs: dict[Constraint, _core.Program] = {}
        self.program = build_program(constraint(self.marked(tree)))

    # -- the grammar with marks
    def marked(self, tree: Grammar) -> Grammar:
        """The grammar with marks around captured rules.

        Ignored text is written out before terminals, so that no rule ends with it.
        """
        lexer = tree.lexer
        marks: dict[str, tuple[Expression, Expression]] = {}
        terminals: list[Terminal] = []
        ignored = () if lexer is None else tuple(t for t in lexer.terminals if t.name in lexer.ignore)
        blank = AnyOf(tuple(t.constraint for t in ignored if t.constraint is not None)).repeat(1) if ignored else None
        for symbol, capture in tree.captures:
            opened, closed = (SpecialToken((f"{mark}{len(self.known)}",)) for mark in (_OPEN, _CLOSE))
            self.known.append(capture)
            self.blanks.append(blank)
            if lexer is None:
                marks[symbol] = Embedded(opened), Embedded(closed)
                continue
            for one in (opened, closed):
                terminals.append(Terminal(str(one.names[0]), one, nested=True))
            marks[symbol] = Name(terminals[-2].name), Name(terminals[-1].name)
        skipped = Repetition(Choice(tuple(Name(t.name) for t in ignored)), 0, None)
        before = {t.name for t in lexer.terminals} - lexer.ignore if lexer is not None and ignored else set()

        def mark(e: Expression) -> Expression:
            if not isinstance(e, Name):
                return e
            here: Expression = Sequence((skipped, e)) if e.name in before else e
            found = marks.get(e.name)
            return here if found is None else Sequence((found[0], here, found[1]))

        fold = replacing(mark)
        rules = {name: Rule(name, fold(rule.body), rule.span) for name, rule in tree.rules.items()}
        start = f"{_OPEN}start"
        rules[start] = Rule(start, Sequence((fold(Name(tree.start)), *((skipped,) if ignored else ()))))
        if lexer is not None:
            every = (*map(self.terminal, lexer.terminals), *terminals)
            lexer = replace(lexer, terminals=every, ignore=frozenset())
        return replace(tree, rules=rules, start=start, lexer=lexer, captures=())

    def terminal(self, terminal: Terminal) -> Terminal:
        """A terminal; a grammar within this one gets marks of its own."""
        inner = getattr(terminal.constraint, "tree", None)
        if not isinstance(inner, Grammar) or not has_captures(inner):
            return terminal
        return replace(terminal, constraint=self.constraint(self.marked(inner)))

    # -- a text
    def find(self, text: str) -> dict[str, list[str]]:
        """The strings of each captured rule, in the order of their ends. Of an incomplete text: those that have ended.

        Raises:
            LimitError: the text can be parsed in too many ways.
        """
        data = text.encode(errors="surrogatepass")
        last = self.path(data)
        steps: list[_Step] = []
        while last is not None:
            steps.append(last)
            last = last.before
        found: dict[str, list[str]] = {capture.name: [] for capture in self.known}
        found.update((capture.ending_name, []) for capture in self.known if capture.ending_name)
        opened: list[int] = []
        for step in reversed(steps):
            if step.mark.startswith(_OPEN):
                opened.append(step.at)
                continue
            number = int(step.mark.removeprefix(_CLOSE))
            capture = self.known[number]
            inside = data[opened.pop() : step.at]
            inside = inside[self.longest(self.blanks[number], inside) :]
            cut = self.cut(capture.ending, inside)
            found[capture.name].append(inside[:cut].decode(errors="replace"))
            if capture.ending_name and cut < len(inside):
                found[capture.ending_name].append(inside[cut:].decode(errors="replace"))
        return found

    def of(self, constraint: Constraint) -> _core.Program:
        if constraint not in self.programs:
            self.programs[constraint] = build_program(constraint)
        return self.programs[constraint]

    def longest(self, constraint: Constraint | None, text: bytes) -> int:
        """The greatest number of bytes at the beginning of a string that the constraint matches."""
        if constraint is None:
            return 0
        program = self.of(constraint)
        state, found = program.root, 0
        for at in range(len(text)):
            state = program.derivative(state, text[at : at + 1])
            if not state:
                break
            if program.is_nullable(state):
                found = at + 1
        return found

    def cut(self, ending: Constraint | None, text: bytes) -> int:
        """Where the ending begins within a captured text."""
        if ending is not None:
            program = self.of(ending)
            for at in range(len(text)):
                state = program.derivative(program.root, text[at:])
                if state and program.is_nullable(state):
                    return at
        return len(text)

    def path(self, data: bytes) -> _Step | None:
        """The marks on a path through the whole string, the last one first; if the text is incomplete, on a path to its
        end.
        """
        program = self.program
        seen: set[tuple[int, int]] = set()
        work: list[tuple[int, int, _Step | None]] = [(0, program.root, None)]
        unfinished: _Step | None = None
        reached = -1
        while work:
            at, state, step = work.pop()
            if not state or (at, state) in seen:
                continue
            seen.add((at, state))
            if len(seen) > _MOST_STEPS:
                raise LimitError(
                    "this text can be parsed in too many ways to tell what its rules capture; capture fewer rules, "
                    "and none that begins with itself",
                    code="captures",
                )
            if at > reached:
                reached, unfinished = at, step
            if at == len(data) and program.is_nullable(state):
                return step
            opening: list[tuple[int, int, _Step | None]] = []  # a stack: the first to try is pushed last
            for symbol in program.first_symbols(state):
                after = program.derivative_symbol(state, symbol)
                if isinstance(symbol, str) and symbol.startswith((_OPEN, _CLOSE)):
                    again = _opened(symbol, at, step)
                    if again <= len(data) - at:  # each of them has something to read
                        way = (at, after, _Step(symbol, at, step))
                        (opening if symbol.startswith(_OPEN) and not again else work).append(way)
                    continue
                name = symbol.encode() if isinstance(symbol, str) else b""
                work.append((at + (len(name) if data.startswith(name, at) else 0), after, step))
            if at < len(data):
                work.append((at + 1, program.derivative(state, data[at : at + 1]), step))
            work += opening
        return unfinished


def _opened(mark: str, at: int, step: _Step | None) -> int:
    """How often a rule has already begun at this position."""
    found = 0
    while step is not None and step.at == at and step.mark.startswith(_OPEN):
        found += step.mark == mark
        step = step.before
    return found
