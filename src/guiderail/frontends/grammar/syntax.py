"""What every grammar notation is read into: rules over texts, characters, names and embedded constraints.

A grammar without a lexer is scannerless: its rules speak of characters. With a lexer, rules speak of terminals, and
the lexer says how a text is cut into them.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field

from guiderail import _core
from guiderail.constraints.constraint import Constraint

__all__ = [
    "Capture",
    "Characters",
    "Choice",
    "Embedded",
    "Expression",
    "Grammar",
    "HasRules",
    "Indentation",
    "Lexer",
    "Name",
    "Repetition",
    "Rule",
    "Sequence",
    "Span",
    "Terminal",
    "Text",
]

Span = tuple[int, int]  # half-open, code points of Grammar.source


@dataclass(frozen=True, slots=True)
class Text:
    """A text that stands for itself; the empty text is ``Text("")``."""

    text: str


@dataclass(frozen=True, slots=True)
class Characters:
    """One character of a set."""

    characters: _core.CharSet


@dataclass(frozen=True, slots=True)
class Name:
    """A rule or, in a grammar with a lexer, a terminal. Where it stands is no part of what it is."""

    name: str
    span: Span | None = field(default=None, compare=False)


Leaves = tuple[frozenset[str], bool]
"""What an expression is made of, kept where it was found out: see :func:`.build.leaves`."""


@dataclass(frozen=True, slots=True)
class Sequence:
    parts: tuple[Expression, ...]
    leaves: Leaves | None = field(default=None, init=False, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Choice:
    parts: tuple[Expression, ...]
    leaves: Leaves | None = field(default=None, init=False, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Repetition:
    """``item``, ``min`` to ``max`` times; ``max=None``: without bound."""

    item: Expression
    min: int
    max: int | None
    leaves: Leaves | None = field(default=None, init=False, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Embedded:
    """A constraint as a part of a grammar: a regular expression, a JSON Schema, a special token, another grammar."""

    constraint: Constraint


Expression = Text | Characters | Name | Sequence | Choice | Repetition | Embedded


@dataclass(frozen=True, slots=True)
class Rule:
    name: str
    body: Expression
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Terminal:
    """A kind of lexeme.

    Attributes:
        name: what rules call it.
        constraint: the texts that are it; never empty ones. None: it has no text (declared only, as INDENT is).
        shortest: a lexeme ends where the constraint matches for the first time, not where it last does.
        keyword_of: terminals of which this text is one more name: wherever one of them is allowed too, a lexeme of
            that terminal that reads exactly so is this terminal, and this one does not compete by itself.
        guard_of: competes wherever that terminal may come; a text that this one takes is refused.
        lazy: as ``shortest``, and the lexeme ends there whatever others could still become: where several are lazy,
            the one that matches first ends it.
        nested: a language of its own, which the lexer does not cut: it may begin wherever the grammar has it, and end
            wherever one of its texts does.
    """

    name: str
    constraint: Constraint | None
    shortest: bool = False
    keyword_of: tuple[str, ...] = ()
    guard_of: str | None = None
    lazy: bool = False
    nested: bool = False


@dataclass(frozen=True, slots=True)
class Indentation:
    """Significant indentation, as Lark's ``Indenter`` has it: from the blanks after the last line break of a
    ``newline`` lexeme come ``indent`` and ``dedent`` terminals; inside brackets a ``newline`` is nothing.

    Attributes:
        tab: columns a tab counts.
        strict_tabs: tabs stop at multiples of ``tab``, and lines whose order would depend on the width of a tab are
            refused, as Python does.
        final_newline: the end of the text counts as a ``newline`` where one is needed.
        initial_newline: the text is read as if a line break stood before it, so that its first line must not be
            indented.
    """

    newline: str
    indent: str
    dedent: str
    opening: tuple[str, ...] = ()
    closing: tuple[str, ...] = ()
    tab: int = 8
    strict_tabs: bool = False
    final_newline: bool = False
    initial_newline: bool = False


@dataclass(frozen=True, slots=True)
class Lexer:
    """How texts are cut into terminals, as Lark's contextual lexer does it.

    At each place the terminals that the grammar allows there compete, together with the ignored ones. The first in
    the order of ``terminals`` that matches a prefix of the rest wins, and takes the longest text that it matches (the
    shortest, where it says so).
    """

    terminals: tuple[Terminal, ...]
    ignore: frozenset[str] = frozenset()
    indentation: Indentation | None = None


@dataclass(frozen=True, slots=True)
class Capture:
    """A rule whose texts are recorded.

    Attributes:
        name: what is captured is called.
        ending: texts at the end that are not recorded: a stop, a suffix.
        ending_name: what these are called; None: they are not recorded.
    """

    name: str
    ending: Constraint | None = None
    ending_name: str | None = None


@dataclass(frozen=True, slots=True)
class Grammar:
    """Rules by name.

    Attributes:
        rules: by their names.
        start: the rule to start from.
        lexer: how texts are cut into terminals; None: rules speak of characters.
        source: the text that spans refer to, or None.
        written_out: rules that a constraint in the tree was made from (exceptions of EBNF), so that they have effect
            without being named.
        notes: what was read and has no meaning here, a sentence each.
        captures: rules, or terminals that stand for one, whose texts are captured.
    """

    rules: dict[str, Rule]
    start: str
    lexer: Lexer | None = None
    source: str | None = None
    written_out: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()
    captures: tuple[tuple[str, Capture], ...] = ()


class HasRules(Constraint):
    """A constraint of which the rules can be read: in a grammar they become rules of that grammar."""

    __slots__ = ()

    @property
    @abstractmethod
    def tree(self) -> Grammar:
        """The rules as they were read."""
