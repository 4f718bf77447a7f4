"""The location of a text in a grammar: the open rules, and the terminals that are being read or may come.

Rules come from Earley's algorithm (Earley 1970), run over characters on the rules as written, including left recursion.
It is used for grammars without a lexer. With a lexer, the terminals come from the state of the compiled grammar, which
knows them by number. If a text can be parsed in too many ways, nothing is reported.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass
from typing import Any

from guiderail import _core
from guiderail.constraints.program import Program
from guiderail.frontends.grammar.constraint import GrammarConstraint
from guiderail.frontends.grammar.syntax import (
    Characters,
    Choice,
    Embedded,
    Expression,
    Name,
    Repetition,
    Sequence,
    Text,
)

__all__ = ["EarleyRules", "Terminals", "terminals_of"]

_MOST = 3_000  # items of one set
_MOST_WORK = 3_000_000  # items of a text
_UNROLLED = 64  # iterations of a counted repetition


@dataclass(frozen=True, slots=True)
class Terminals:
    """The terminals at a location.

    Attributes:
        inside: whether a lexeme is being read; otherwise the next one begins.
        names: what it may be or become, in the lexer's order of preference, without ignored terminals.
        complete: whether ``names`` is complete.
        rest: what the grammar requires after it, in terminals and rules.
    """

    inside: bool
    names: tuple[str, ...]
    complete: bool
    rest: str


_NUMBERED = re.compile(r'("(?:[^"\\]|\\.)*"|\[(?:[^\]\\]|\\.)*\])|terminal((?: \d+)+)')


_TRAPPED = re.compile(r" \| (?:terminal(?: \d+)+ )+terminal 254\b|(?:terminal(?: \d+)+ )+terminal 254 \| ")
"""Alternatives that lead nowhere, which a lexer knows: see ``TRAP`` of the grammar's front end."""


def terminals_of(dump: str, names: list[str], ignored: frozenset[str]) -> Terminals | None:
    """Reads the terminals out of the dump of a state of a lexed grammar; None if it is of another kind.

    Args:
        dump: of the state.
        names: of the terminals, in the order of the lexer.
        ignored: those that are skipped between lexemes.
    """

    def named(text: str) -> str:
        def name(match: re.Match[str]) -> str:
            if match[1] is not None:
                return match[1]
            listed = [names[int(number)] for number in match[2].split() if int(number) < len(names)]
            return listed[0] if len(listed) == 1 else f"({' | '.join(listed)})"

        return _NUMBERED.sub(name, _TRAPPED.sub("", text))

    if dump.startswith("lexed(") and _end(dump, 5) == len(dump):
        body = dump[6:-1]
        return Terminals(False, (), False, named(body))
    if not dump.startswith("scan(") or _end(dump, 4) != len(dump):
        return None
    head, separator, rest = _cut(dump[5:-1], "; ")
    if not separator:
        return None
    inside = not head.startswith("|")
    listed: list[str] = []
    complete = True
    for entry in _split(head.removeprefix("|"), ", "):
        number, colon, _ = entry.partition(": ")
        if colon and number.isdecimal() and int(number) < len(names):
            listed.append(names[int(number)])
        elif entry.startswith("... "):
            complete = False
        else:
            return None
    shown = tuple(name for name in listed if name not in ignored and not name.startswith("\0"))
    return Terminals(inside, shown, complete, named(rest))


_CLOSING = {"(": ")", "{": "}"}


def _end(text: str, start: int) -> int:
    """The index after the bracket that closes the one at ``start``, or -1."""
    depth, at = 0, start
    while at < len(text):
        c = text[at]
        if c in '"[':
            at = _quoted(text, at)
            continue
        depth += (c in _CLOSING) - (c in ")}")
        at += 1
        if depth == 0:
            return at
    return -1


def _quoted(text: str, at: int) -> int:
    """The index after a quoted text or a class of characters."""
    closing = '"' if text[at] == '"' else "]"
    at += 1
    while at < len(text) and text[at] != closing:
        at += 2 if text[at] == "\\" else 1
    return at + 1


def _cut(text: str, separator: str) -> tuple[str, str, str]:
    """Like ``partition``, at the first separator outside brackets, classes and quoted texts."""
    at = 0
    while at < len(text):
        if text.startswith(separator, at):
            return text[:at], separator, text[at + len(separator) :]
        c = text[at]
        if c in '"[':
            at = _quoted(text, at)
        elif c in _CLOSING:
            end = _end(text, at)
            at = len(text) if end < 0 else end
        else:
            at += 1
    return text, "", ""


def _split(text: str, separator: str) -> list[str]:
    parts = []
    while True:
        head, found, text = _cut(text, separator)
        parts.append(head)
        if not found:
            return parts


# -- rules ---------------------------------------------------------------------------------------------------------
# The rules are written out as alternatives of symbols. A symbol is a str (a rule, or one of our own for a part of a
# rule), a set of characters, or a program with its state.
Symbol = Any
Item = tuple[str, int, int, int, Any]  # rule, alternative, dot, where it began, state of an embedded constraint


class _TooHard(Exception):
    """Nothing can be reported for this grammar, or this text."""


class EarleyRules:
    """Follows a text through a grammar without a lexer."""

    def __init__(self, constraint: GrammarConstraint) -> None:
        tree = constraint.tree
        self._start = tree.start
        self._names = tree.rules.keys()
        self._alternatives: dict[str, list[tuple[Symbol, ...]]] = {}
        self._items: dict[Item, None] | None = None  # after what was read
        self._waiting: list[dict[str, list[Item]]] = []  # for each position: the items that wait for each rule
        self._work = 0
        if tree.lexer is not None:
            return
        try:
            for name, rule in tree.rules.items():
                self._alternatives[name] = self._written(rule.body)
            self._add_set([(tree.start, i, 0, 0, None) for i in range(len(self._alternatives[tree.start]))])
        except _TooHard:
            self._give_up()

    def _give_up(self) -> None:
        self._items, self._waiting = None, []

    def feed(self, text: str) -> None:
        for character in text:
            if self._items is None:
                return
            try:
                self._read(character, self._items)
            except _TooHard:
                self._give_up()

    def open_rules(self) -> tuple[tuple[str, ...], ...] | None:
        """For each rule that reads the next character, the open rules, from the outside in.

        None if they are unknown. Of several ways to the same rule, the shortest is returned; at most eight in total.
        """
        if self._items is None:
            return None
        found: dict[tuple[str, ...], None] = {}
        for item in self._items:
            symbol = self._next(item)
            if symbol is None or isinstance(symbol, str):
                continue
            chain = self._chain(item)
            if chain is None:
                return None
            found.setdefault(chain)
            if len(found) == 8:
                break
        return tuple(found)

    def _chain(self, item: Item) -> tuple[str, ...] | None:
        """The rules around an item, on the shortest way to the start."""
        parents: dict[Item, Item | None] = {item: None}
        queue = deque([item])
        while queue:
            at = queue.popleft()
            if at[0] == self._start and at[3] == 0:
                chain: list[str] = []
                step: Item | None = at
                while step is not None:
                    if step[0] in self._names:
                        chain.append(step[0])
                    step = parents[step]
                return tuple(chain)
            for waiting in self._waiting[at[3]].get(at[0], ()):
                if waiting not in parents:
                    parents[waiting] = at
                    queue.append(waiting)
            if len(parents) > _MOST:
                return None
        return None

    # -- writing the rules out
    def _fresh(self, alternatives: list[tuple[Symbol, ...]]) -> str:
        name = f"\0{len(self._alternatives)}"
        self._alternatives[name] = alternatives
        return name

    def _written(self, e: Expression) -> list[tuple[Symbol, ...]]:
        if isinstance(e, Choice):
            return [alternative for part in e.parts for alternative in self._written(part)]
        return [self._symbols(e)]

    def _symbols(self, e: Expression) -> tuple[Symbol, ...]:
        if len(self._alternatives) > 20_000:
            raise _TooHard
        if isinstance(e, Text):
            return tuple(_core.CharSet([(ord(c), ord(c))]) for c in e.text)
        if isinstance(e, Characters):
            return (e.characters,)
        if isinstance(e, Name):
            return (e.name,)
        if isinstance(e, Sequence):
            return tuple(symbol for part in e.parts for symbol in self._symbols(part))
        if isinstance(e, Choice):
            return (self._fresh(self._written(e)),)
        if isinstance(e, Embedded):
            return (Program.of(e.constraint).core,)
        assert isinstance(e, Repetition)
        if max(e.min, e.max or 0) > _UNROLLED:
            raise _TooHard
        item = self._fresh(self._written(e.item))
        symbols: tuple[Symbol, ...] = (item,) * e.min
        if e.max is None:
            loop = self._fresh([])
            self._alternatives[loop] += [(), (loop, item)]
            return (*symbols, loop)
        more: Symbol | None = None
        for _ in range(e.max - e.min):
            more = self._fresh([(), (item,) if more is None else (item, more)])
        return symbols if more is None else (*symbols, more)

    # -- reading
    def _next(self, item: Item) -> Symbol:
        symbols = self._alternatives[item[0]][item[1]]
        return symbols[item[2]] if item[2] < len(symbols) else None

    def _add_set(self, items: list[Item]) -> None:
        """Completes a set: predictions, and completions of rules, empty ones too (Aycock & Horspool 2002)."""
        here = len(self._waiting)
        known: dict[Item, None] = {}
        waiting: dict[str, list[Item]] = {}
        finished: set[str] = set()  # rules that are empty here
        self._items = known
        self._waiting.append(waiting)
        work = items
        while work:
            item = work.pop()
            if item in known:
                continue
            known[item] = None
            self._work += 1
            if len(known) > _MOST or self._work > _MOST_WORK:
                raise _TooHard
            symbol = self._next(item)
            if symbol is None:
                name, origin = item[0], item[3]
                if origin == here:
                    finished.add(name)
                work += [_advanced(other) for other in self._waiting[origin].get(name, ())]
            elif isinstance(symbol, str):
                waiting.setdefault(symbol, []).append(item)
                work += [(symbol, i, 0, here, None) for i in range(len(self._alternatives[symbol]))]
                if symbol in finished:
                    work.append(_advanced(item))
            elif isinstance(symbol, _core.Program) and item[4] is None and symbol.is_nullable(symbol.root):
                work.append(_advanced(item))

    def _read(self, character: str, items: dict[Item, None]) -> None:
        code, data = ord(character), character.encode()
        following: list[Item] = []
        for item in items:
            symbol = self._next(item)
            if isinstance(symbol, _core.CharSet):
                if code in symbol:
                    following.append(_advanced(item))
            elif isinstance(symbol, _core.Program):
                state = symbol.derivative(symbol.root if item[4] is None else item[4], data)
                if state:
                    name, alternative, dot, origin, _ = item
                    following.append((name, alternative, dot, origin, state))
                    if symbol.is_nullable(state):
                        following.append(_advanced(item))
        if not following:
            raise _TooHard
        self._add_set(following)


def _advanced(item: Item) -> Item:
    return item[0], item[1], item[2] + 1, item[3], None
