"""Grammars over terminals, built without a notation.

`Symbols` collects the terminals, makes the lexer, and combines expressions. Words are whole: where a keyword or a name
is allowed, a longer word competes with it: it matches the text, and nothing may follow it.

A schema may have many names. *Identifiers* are terminals that the grammar does not mention. It has placeholders instead
("a column of the table"), and a `binding` says which values a variable ("the table") may have.
"""

from __future__ import annotations

from collections.abc import Iterable

from guiderail import _core
from guiderail.constraints.constraint import Constraint, choice, literal
from guiderail.frontends.regex import regex

__all__ = ["WORD", "Symbols"]

WORD = "a word"
_NEVER = "never"
_BEYOND = 5
_MOST_NARROW = 254
_UNUSED = "unused"


class Symbols:
    """The terminals of a lexer, and expressions over them.

    Args:
        b: the builder.
        word: the pattern of words, such as keywords and names.
        blanks: the pattern of whitespace between two lexemes.
        first: terminals that precede words, by name, such as ``abs(``, of which no word may be a prefix.
        taking: those of them that compete like words: nothing may follow them.
        refused: terminals that are rejected in some places.
    """

    def __init__(
        self,
        b: _core.Builder,
        word: str,
        blanks: str,
        first: Iterable[tuple[str, Constraint]],
        taking: Iterable[str],
        refused: Iterable[str] = (),
    ) -> None:
        self.b = b
        self._names: list[str] = []
        self._terminals: list[tuple[int, int, list[int], int | None]] = []
        self._parts: dict[str, int] = {}  # expressions by their notation
        for name, text in first:
            self.add(name, text)
        self._word = len(self._names)
        self.add(WORD, regex(word))
        self._blanks = len(self._names)
        self.add(" ", regex(blanks))
        self._made: dict[str, int] = {}
        self._long = b.EMPTY
        self._taking = {WORD, *taking}
        self._refused = set(refused)
        self._identifiers: list[tuple[int, list[int]]] = []  # for the last terminals: relation, values
        self._placeholders: list[tuple[int, int, int]] = []
        self.lexer = -1

    def add(self, name: str, text: Constraint) -> None:
        """Adds a terminal."""
        self._put(name, text._lower(self.b), 0, [])

    def _put(self, name: str, text: int, ends: int, keyword_of: list[int]) -> None:
        self._names.append(name)
        self._terminals.append((text, ends, keyword_of, None))

    def add_word(self, name: str, texts: Iterable[str], *, any_case: bool = False) -> None:
        """Adds a terminal that matches some of the words."""
        text = regex("|".join(texts), flags="i") if any_case else choice(list(texts))
        self._put(name, text._lower(self.b), 0, [self._word])

    def add_placeholder(self, name: str, variable: int, relation: int) -> None:
        """Adds a terminal that stands for all identifiers of the relation to a possible value of the variable."""
        self._placeholders.append((len(self._names), variable, relation))
        self._put(name, self.b.EMPTY, 0, [self._word])

    def add_identifiers(self, found: Iterable[tuple[int, Iterable[int], Constraint, bool]]) -> None:
        """Adds the identifiers, after all other terminals: relation, values, texts, whether these are words."""
        self._symbols = len(self._names)
        for relation, values, texts, words in found:
            self._identifiers.append((relation, list(values)))
            self._put("", texts._lower(self.b), 0, [self._word] if words else [])

    def finish(self) -> None:
        """Makes the lexer. Symbols exist from here on."""
        b = self.b
        # A narrow lexer decides by first symbols alone whether a terminal leads on, and an intersection hides that. So
        # unused terminals make the lexer wide.
        if not self._identifiers:
            for number in range(len(self._names), _MOST_NARROW + 1):
                self.add(f"{_UNUSED} {number}", literal("\0"))
            self._symbols = len(self._names)
        traps = sorted(self._names.index(name) for name in {*self._taking, *self._refused})
        if self._identifiers:
            self.lexer = b.identifier_lexer(
                self._terminals, [self._blanks], traps, self._identifiers, self._placeholders
            )
        else:
            self.lexer = b.lexer(self._terminals, [self._blanks], None, b"", traps)
        names = self._names[: self._symbols]
        self._made = {name: b.terminal(self.lexer, at) for at, name in enumerate(names) if at != self._blanks}
        self._made[_NEVER] = b.never(self.lexer)
        placed = {self._names[at] for at, _, _ in self._placeholders}
        one = self.any_of(name for name in self.names() if name not in placed)
        self._nowhere = b.concat([self._made[_NEVER], b.repeat(one, _BEYOND, _BEYOND)])
        self._long = b.concat([self.taking, self._nowhere])
        self._words = {name for name, (_, _, of, _) in zip(names, self._terminals, strict=False) if of}

    def refused(self, name: str | None = None) -> int:
        """A terminal that matches a text but has no continuation; None: those that compete wherever words may come."""
        return self._long if name is None else self.seq(self.symbol(name), self._nowhere)

    @property
    def taking(self) -> int:
        """The terminals that compete wherever words are allowed, and that nothing may follow."""
        return self.any_of(self._taking)

    def names(self) -> list[str]:
        """Those of all symbols that have a continuation."""
        return [
            name for name in self._made if name not in self._taking and name != _NEVER and not name.startswith(_UNUSED)
        ]

    def symbol(self, name: str) -> int:
        """The terminal alone, as used in conditions on a text of the grammar."""
        return self._made[name]

    def any_of(self, names: Iterable[str]) -> int:
        """One of these terminals alone."""
        return self.b.union([self._made[name] for name in names])

    def words(self, names: Iterable[str]) -> int:
        """One of these terminals; a longer word competes with those that are words."""
        wanted = list(names)
        found = [self._made[name] for name in wanted]
        return self.b.union([*found, self._long] if any(name in self._words for name in wanted) else found)

    # -- expressions ---------------------------------------------------------------------------------------------
    def seq(self, *parts: int | str) -> int:
        return self.b.concat([self._part(part) for part in parts])

    def alt(self, *parts: int | str) -> int:
        return self.b.union([self._part(part) for part in parts])

    def star(self, *parts: int | str) -> int:
        return self.b.repeat(self.seq(*parts), 0, -1)

    def opt(self, *parts: int | str) -> int:
        return self.b.repeat(self.seq(*parts), 0, 1)

    def listed(self, item: int, comma: str = ",") -> int:
        """One or more of these, with separators."""
        return self.seq(item, self.star(comma, item))

    def binding(self, domains: Iterable[Iterable[int]], *parts: int | str) -> int:
        """The parts with variables: the possible values of each at the beginning."""
        return self.b.binding(self.lexer, [list(values) for values in domains], self.seq(*parts))

    def lexed(self, body: int) -> int:
        """The texts of a grammar of these symbols."""
        return self.b.lexed(self.lexer, body)

    def _part(self, part: int | str) -> int:
        """Returns an expression for a part: an expression, or names of terminals separated by blanks."""
        if isinstance(part, int):
            return part
        known = self._parts.get(part)
        if known is None:
            known = self._parts[part] = self.words([part] if part in self._made else part.split())
        return known
