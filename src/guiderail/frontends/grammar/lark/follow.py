"""Which terminals may follow a terminal, and whether a look-ahead at its end can therefore never matter."""

from __future__ import annotations

from guiderail import _core
from guiderail._core import CharSet
from guiderail.constraints.constraint import Constraint, any_character, any_text
from guiderail.frontends.grammar.lark.first_match_texts import FirstMatchTexts
from guiderail.frontends.grammar.lark.lexemes import Lexeme
from guiderail.frontends.grammar.syntax import Choice, Expression, Name, Repetition, Rule, Sequence, Text

__all__ = ["ANYTHING", "Follow", "harmless", "never_at_the_end"]

ANYTHING = ""
"""Stands for an embedded constraint among the followers."""
_END = "\0"  # stands for the end of the text among the followers


class _Sets:
    """Nullable, first and follow sets of terminals by the textbook's fixed points (Aho et al. 2006, section 4.4)."""

    def __init__(self, rules: dict[str, Rule], start: str, empty: set[str]) -> None:
        self.rules, self.start, self.empty = rules, start, empty
        self.nullable = dict.fromkeys(rules, False)
        self.first: dict[str, set[str]] = {name: set() for name in rules}
        self.follow: dict[str, set[str]] = {name: set() for name in rules}
        self.follow[start] = {_END}
        self.changed = True
        while self.changed:
            self.changed = False
            for name, rule in rules.items():
                nullable, first = self.begin(rule.body)
                if nullable != self.nullable[name] or not first <= self.first[name]:
                    self.changed = True
                    self.nullable[name] = nullable
                    self.first[name] |= first
        self.changed = True
        while self.changed:
            self.changed = False
            for name, rule in rules.items():
                self.collect(rule.body, self.follow[name])

    def begin(self, e: Expression) -> tuple[bool, set[str]]:
        """Whether ``e`` may be empty, and what it may begin with."""
        if isinstance(e, Name):
            terminal = e.name not in self.rules
            return (e.name in self.empty, {e.name}) if terminal else (self.nullable[e.name], self.first[e.name])
        if isinstance(e, Text):
            return not e.text, {ANYTHING} if e.text else set()
        if isinstance(e, Sequence):
            found: set[str] = set()
            for part in e.parts:
                nullable, first = self.begin(part)
                found |= first
                if not nullable:
                    return False, found
            return True, found
        if isinstance(e, Choice):
            parts = [self.begin(part) for part in e.parts]
            return any(n for n, _ in parts), set().union(*(f for _, f in parts))
        if isinstance(e, Repetition):
            nullable, first = self.begin(e.item)
            return nullable or not e.min, first
        return True, {ANYTHING}

    def collect(self, e: Expression, follow: set[str]) -> None:
        """Adds ``follow`` to what may follow the last names of ``e``."""
        if isinstance(e, Name):
            known = self.follow.setdefault(e.name, set())
            if not follow <= known:
                known |= follow
                self.changed = True
        elif isinstance(e, Sequence):
            for part in reversed(e.parts):
                self.collect(part, follow)
                nullable, first = self.begin(part)
                follow = first | follow if nullable else first
        elif isinstance(e, Choice):
            for part in e.parts:
                self.collect(part, follow)
        elif isinstance(e, Repetition):
            again = self.begin(e.item)[1] if e.max is None or e.max > 1 else set()
            self.collect(e.item, follow | again)

    def beside(self, name: str, other: str) -> bool:
        """Whether ``other`` may come wherever ``name`` may, as far as the form of the rules shows that."""
        seen, waiting = {name}, [name]
        while waiting:
            wanted = waiting.pop()
            for rule_name, rule in self.rules.items():
                found = self.open_at(rule.body, wanted, other)
                if found is None:
                    return False
                if found and rule_name == self.start:
                    return False
                if found and rule_name not in seen:
                    seen.add(rule_name)
                    waiting.append(rule_name)
        return True

    def open_at(self, e: Expression, name: str, other: str) -> bool | None:
        """Whether ``e`` begins with ``name``, and not with ``other``; None if other parts of it do."""
        if isinstance(e, Name):
            return e.name == name
        parts = e.parts if isinstance(e, Sequence | Choice) else [e.item] if isinstance(e, Repetition) else []
        opened = False
        for i, part in enumerate(parts):
            found = self.open_at(part, name, other)
            if found is None:
                return None
            here = Sequence(tuple(parts[i:])) if isinstance(e, Sequence) else e
            if found and other not in self.begin(here)[1]:
                if (isinstance(e, Sequence) and i) or (isinstance(e, Repetition) and e.max != 1):
                    return None
                opened = True
        return opened

    def together(self) -> list[set[str]]:
        """Sets of terminals that may come in the same place, one for each terminal before, and for the beginning."""
        found = [names for name, names in self.follow.items() if name not in self.rules]
        return [*found, self.begin(Name(self.start))[1]]


class Follow:
    """The terminals that may follow a terminal directly, with ``""`` for an embedded constraint.

    Attributes:
        rules: the rules.
        start: the first one.
        empty: terminals that are optional, since they match the empty text.
    """

    def __init__(self, rules: dict[str, Rule], start: str, empty: set[str]) -> None:
        self.rules, self.start, self.empty = rules, start, empty
        self.sets: _Sets | None = None
        self.places: list[set[str]] | None = None

    def __call__(self, terminal: str) -> set[str]:
        return self.all().follow.get(terminal, set())

    def all(self) -> _Sets:
        if self.sets is None:
            self.sets = _Sets(self.rules, self.start, self.empty)
        return self.sets

    def beside(self, terminal: str, other: str) -> bool:
        """Whether ``other`` may come wherever ``terminal`` may, as far as the form of the rules shows that."""
        return self.all().beside(terminal, other)

    def meet(self, one: str, other: str, ignore: set[str]) -> bool:
        """Whether two terminals may come in the same place."""
        if one in ignore or other in ignore:
            return True
        if self.places is None:
            self.places = self.all().together()
        return any(one in place and other in place for place in self.places)

    def last(self, terminal: str) -> bool:
        """Whether a text may end with a terminal."""
        return _END in self(terminal)


def harmless(lexeme: Lexeme, lexemes: list[Lexeme], ignore: set[str], follow: Follow) -> bool:
    """Whether the lexer may ignore what must not follow ``lexeme``.

    It may if a text rejected for this reason is rejected anyway: what may come next never begins with a character that
    lengthens or undoes the lexeme, and no terminal that would be tried after it begins with the same characters.
    """
    after = _first_bytes_of(lexeme.after)
    names = follow(lexeme.named) | ignore
    if ANYTHING in names or lexeme.named in ignore:  # anything may follow it
        return False
    own = _begin(lexeme.constraint)
    later = False
    for other in lexemes:
        if other.named in names and set(_begin(other.constraint)) & after:
            return False
        if other is lexeme:
            later = True
        elif later and set(_begin(other.constraint)) & set(own) and follow.meet(lexeme.named, other.named, ignore):
            return False
    return True


def never_at_the_end(lexeme: Lexeme, lexemes: list[Lexeme], ignore: set[str], follow: Follow) -> bool:
    """Whether no text that ends with ``lexeme`` is one of the grammar, whatever terminal the lexer takes in its place.

    The terminals that would be tried after it may match all of it, and must not be the last either, or no part of it.
    """
    if lexeme.named in ignore or follow.last(lexeme.named):
        return False
    b = _core.Builder()
    own = lexeme.constraint._lower(b)
    more = b.concat([any_character()._lower(b), any_text()._lower(b)])
    for other in lexemes[lexemes.index(lexeme) + 1 :]:
        if other.guard_of is not None or not follow.meet(lexeme.named, other.named, ignore):
            continue
        e = other.constraint._lower(b)
        if len(other.depends) or other.needs:
            part = b.concat([FirstMatchTexts(other.pattern.to_regexp(), "next")._lower(b), any_text()._lower(b)])
        else:
            part = b.concat([e, more])
        if not b.is_empty(b.intersection([own, part])):
            return False
        if not b.is_empty(b.intersection([own, e])) and (other.named in ignore or follow.last(other.named)):
            return False
    return True


def _begin(constraint: Constraint) -> bytes:
    b = _core.Builder()
    return b.first_bytes(constraint._lower(b))


def _first_bytes_of(chars: CharSet) -> set[int]:
    b = _core.Builder()
    return set(b.first_bytes(b.char_class(chars)))
