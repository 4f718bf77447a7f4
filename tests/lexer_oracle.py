"""A direct, slow implementation of a grammar with a lexer (``guiderail.frontends.grammar.syntax.Lexer``).

Lexemes are cut off one by one. Of the terminals that an Earley recogniser allows next, and the ignored ones, the first
in order that matches a prefix of the rest wins, with its longest (or shortest) text. A lazy one ends the lexeme at its
first match. A guard competes wherever its terminal does; if it wins, the text is rejected. A nested terminal may come
in place of a lexeme: all prefixes of the rest that it matches are tried.
"""

from __future__ import annotations

from collections.abc import Iterator

from guiderail.constraints.constraint import Constraint
from guiderail.frontends.grammar.constraint import GrammarConstraint
from guiderail.frontends.grammar.syntax import (
    Choice,
    Expression,
    Grammar,
    Lexer,
    Name,
    Repetition,
    Sequence,
    Text,
)

Item = tuple[str, tuple[str, ...], int, int]  # rule, alternative, dot, start


class Earley:
    """Sets of items over terminals, one set per terminal read."""

    def __init__(self, grammar: Grammar, known: set[str]) -> None:
        self.rules: dict[str, list[tuple[str, ...]]] = {name: [] for name in grammar.rules}
        self.start = grammar.start
        for name, rule in grammar.rules.items():
            self.rules[name] = [self.symbols(rule.body)]
        productive = set(known)
        while True:
            more = {n for n, alts in self.rules.items() if any(all(s in productive for s in alt) for alt in alts)}
            if more <= productive:
                break
            productive |= more
        for name, alternatives in self.rules.items():
            self.rules[name] = [alt for alt in alternatives if all(s in productive for s in alt)]
        self.nullable: set[str] = set()
        while True:
            more = {n for n, alts in self.rules.items() if any(all(s in self.nullable for s in alt) for alt in alts)}
            if more <= self.nullable:
                break
            self.nullable |= more
        self.sets: list[set[Item]] = []
        self.push({("", (self.start,), 0, 0)})

    def new(self, alternatives: list[tuple[str, ...]]) -> tuple[str, ...]:
        name = f"\0{len(self.rules)}"
        self.rules[name] = alternatives
        return (name,)

    def symbols(self, e: Expression) -> tuple[str, ...]:
        if isinstance(e, Name):
            return (e.name,)
        if isinstance(e, Text) and not e.text:
            return ()
        if isinstance(e, Sequence):
            return tuple(s for part in e.parts for s in self.symbols(part))
        if isinstance(e, Choice):
            return self.new([self.symbols(part) for part in e.parts])
        assert isinstance(e, Repetition), e
        item = self.symbols(e.item)
        if e.max is None:
            tail = self.new([])
            self.rules[tail[0]] = [(), (*tail, *item)]
        else:
            tail = ()
            for _ in range(e.max - e.min):
                tail = self.new([(), (*item, *tail)])
        return item * e.min + tail

    def push(self, items: set[Item]) -> None:
        at = len(self.sets)
        self.sets.append(items)
        todo = list(items)
        while todo:
            rule, body, dot, origin = todo.pop()
            fresh: list[Item] = []
            if dot == len(body):
                fresh = [(r, b, d + 1, o) for r, b, d, o in list(self.sets[origin]) if d < len(b) and b[d] == rule]
            elif body[dot] in self.rules:
                fresh = [(body[dot], alt, 0, at) for alt in self.rules[body[dot]]]
                if body[dot] in self.nullable:
                    fresh.append((rule, body, dot + 1, origin))
            for item in fresh:
                if item not in items:
                    items.add(item)
                    todo.append(item)

    def allowed(self) -> set[str]:
        return {b[d] for _, b, d, _ in self.sets[-1] if d < len(b) and b[d] not in self.rules}

    def read(self, terminal: str) -> bool:
        moved = {(r, b, d + 1, o) for r, b, d, o in self.sets[-1] if d < len(b) and b[d] == terminal}
        if moved:
            self.push(moved)
        return bool(moved)

    def accepts(self) -> bool:
        return ("", (self.start,), 1, 0) in self.sets[-1]


def prefixes(constraint: Constraint, text: str) -> Iterator[int]:
    """Returns the lengths of the prefixes of ``text`` that ``constraint`` matches, in ascending order."""
    program = constraint.program().core
    state = program.root
    for i, char in enumerate(text):
        state = program.derivative(state, char.encode())
        if not state:
            return
        if program.is_nullable(state):
            yield i + 1


def lexeme(lexer: Lexer, candidates: set[str], text: str) -> tuple[str, int] | None:
    """Returns the terminal and length of the next lexeme; tracks the competing terminals byte by byte."""
    competing = [
        t
        for t in lexer.terminals
        if t.name in candidates and t.constraint is not None and not any(owner in candidates for owner in t.keyword_of)
    ]
    lengths = [set(prefixes(t.constraint, text)) for t in competing if t.constraint is not None]
    last, best = len(competing) - 1, None
    for length in range(1, len(text) + 1):
        for rank in range(last + 1):
            if length not in lengths[rank]:
                continue
            best = competing[rank], length
            last = rank - 1 if competing[rank].shortest else rank  # those after it are outranked
            break
        if best is not None and best[1] == length and best[0].lazy:
            break
    if best is None:
        return None
    terminal, length = best
    for other in lexer.terminals:
        named = other.name in candidates and terminal.name in other.keyword_of
        if named and other.constraint is not None and other.constraint.matches(text[:length]):
            return other.name, length
    return terminal.name, length


def holds(constraint: Constraint, text: str) -> bool:
    """Returns whether a nested constraint matches a whole text."""
    if isinstance(constraint, GrammarConstraint) and constraint.tree.lexer is not None:
        return accepts(constraint.tree, text)
    return constraint.matches(text)


def accepts(grammar: Grammar, text: str) -> bool:
    """Returns whether ``grammar`` (with a lexer) accepts ``text``."""
    lexer = grammar.lexer
    assert lexer is not None
    lines = lexer.indentation
    guards = {t.name for t in lexer.terminals if t.guard_of is not None}
    known = {t.name for t in lexer.terminals if t.constraint is not None}
    if lines is not None:
        known |= {lines.indent, lines.dedent}
    parser = Earley(grammar, known)
    nested = {t.name: t.constraint for t in lexer.terminals if t.nested and t.constraint is not None}
    if nested:
        assert lines is None
        return any(at == len(text) and parser.accepts() for at in between(lexer, nested, guards, parser, text, 0))
    levels, brackets, at = [0], 0, 0
    if lines is not None and lines.initial_newline:
        text = "\n" + text
    while at < len(text):
        candidates = parser.allowed() | lexer.ignore
        if lines is not None and brackets:
            candidates.add(lines.newline)
        candidates |= {t.name for t in lexer.terminals if t.guard_of in candidates}
        found = lexeme(lexer, candidates, text[at:])
        if found is None:
            return False
        name, length = found
        word = text[at : at + length]
        at += length
        if name in guards:
            return False
        if name in lexer.ignore:
            continue
        if lines is not None and name == lines.newline:
            if brackets:
                continue
            if not parser.read(name) or "\n" not in word:
                return False
            blanks = word.rsplit("\n", 1)[1]
            column = blanks.count(" ") + blanks.count("\t") * lines.tab
            if column > levels[-1]:
                levels.append(column)
                if not parser.read(lines.indent):
                    return False
            while column < levels[-1]:
                levels.pop()
                if not parser.read(lines.dedent):
                    return False
            if column != levels[-1]:
                return False
            continue
        if not parser.read(name):
            return False
        if lines is not None:
            brackets += (name in lines.opening) - (name in lines.closing)
            if brackets < 0:
                return False

    def closes() -> bool:
        return lines is None or all(parser.read(lines.dedent) for _ in levels[1:])

    before = len(parser.sets)
    if closes() and parser.accepts():
        return True
    del parser.sets[before:]
    if lines is None or not lines.final_newline or brackets or not parser.read(lines.newline):
        return False
    return closes() and parser.accepts()


def between(
    lexer: Lexer, nested: dict[str, Constraint], guards: set[str], parser: Earley, text: str, at: int
) -> Iterator[int]:
    """Yields the reachable places between two lexemes, with the parser in its state there."""
    yield at
    if at == len(text):
        return
    before = len(parser.sets)
    allowed = parser.allowed()
    for name in allowed & nested.keys():
        for end in range(at + 1, len(text) + 1):
            if holds(nested[name], text[at:end]) and parser.read(name):
                yield from between(lexer, nested, guards, parser, text, end)
                del parser.sets[before:]
    candidates = (allowed - nested.keys()) | lexer.ignore
    candidates |= {t.name for t in lexer.terminals if t.guard_of in candidates}
    found = lexeme(lexer, candidates, text[at:])
    if found is None or found[0] in guards:
        return
    name, length = found
    if name in lexer.ignore or parser.read(name):
        yield from between(lexer, nested, guards, parser, text, at + length)
        del parser.sets[before:]
