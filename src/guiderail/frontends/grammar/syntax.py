"""The form into which every grammar notation is read: rules over strings, characters, names and embedded constraints.

A grammar without a lexer is scannerless: its rules are about characters. With a lexer, rules are about terminals, and
the lexer says how a string is cut into them.
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
    """A literal text; the empty text is ``Text("")``."""

    text: str


@dataclass(frozen=True, slots=True)
class Characters:
    """One character of a set."""

    characters: _core.CharSet


@dataclass(frozen=True, slots=True)
class Name:
    """A rule or, in a grammar with a lexer, a terminal. Its position does not matter for equality."""

    name: str
    span: Span | None = field(default=None, compare=False)


Leaves = tuple[frozenset[str], bool]
"""What an expression is made of, cached in the expression: see :func:`.build.leaves`."""


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
    """``item``, ``min`` to ``max`` times; ``max=None``: no bound."""

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
        name: its name in rules.
        constraint: its strings, without the empty one. None: it has no text (declared only, like INDENT).
        shortest: a lexeme ends where the constraint first matches, not where it last does.
        keyword_of: terminals of which this text is a keyword: wherever one of them is allowed too, a lexeme of that
            terminal with exactly this text is this terminal, and this one does not compete by itself.
        guard_of: competes wherever that terminal may come; a string that this one takes is rejected.
        lazy: like ``shortest``, and the lexeme ends there whatever others could still become; if several are lazy, the
            one that matches first ends it.
        nested: a separate language, which the lexer does not cut: it may begin wherever the grammar allows it, and end
            wherever one of its strings does.
        span: where a nested one stands in the source.
    """

    name: str
    constraint: Constraint | None
    shortest: bool = False
    keyword_of: tuple[str, ...] = ()
    guard_of: str | None = None
    lazy: bool = False
    nested: bool = False
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Indentation:
    """Significant indentation, like Lark's ``Indenter``.

    The blanks after the last line break of a ``newline`` lexeme produce ``indent`` and ``dedent`` terminals. Inside
    brackets, a ``newline`` has no effect.

    Attributes:
        tab: the width of a tab in columns.
        strict_tabs: tabs stop at multiples of ``tab``, and lines whose order would depend on the width of a tab are
            rejected, as in Python.
        final_newline: the end of the text counts as a ``newline`` if one is needed.
        initial_newline: the text is read as if a line break preceded it, so its first line must not be indented.
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
    """How strings are cut into terminals, as Lark's contextual lexer does it.

    At each position, the terminals that the grammar allows there compete with the ignored ones. The first in the order
    of ``terminals`` that matches a prefix of the rest wins, and takes its longest match (the shortest, if it says so).
    """

    terminals: tuple[Terminal, ...]
    ignore: frozenset[str] = frozenset()
    indentation: Indentation | None = None


@dataclass(frozen=True, slots=True)
class Capture:
    """A rule whose strings are captured.

    Attributes:
        name: the name of the capture.
        ending: strings at the end that are not captured: a stop, a suffix.
        ending_name: the name under which these are captured; None: they are not.
    """

    name: str
    ending: Constraint | None = None
    ending_name: str | None = None


@dataclass(frozen=True, slots=True)
class Grammar:
    """Rules by name.

    Attributes:
        rules: the rules by name.
        start: the start rule.
        lexer: how strings are cut into terminals; None: rules are about characters.
        source: the text that spans refer to, or None.
        written_out: rules that were expanded into a constraint in the tree (exceptions of EBNF), so that they have an
            effect without being named.
        notes: one sentence for each thing that was read and has no effect.
        captures: rules whose strings are captured, or terminals that stand for one.
    """

    rules: dict[str, Rule]
    start: str
    lexer: Lexer | None = None
    source: str | None = None
    written_out: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()
    captures: tuple[tuple[str, Capture], ...] = ()


class HasRules(Constraint):
    """A constraint with readable rules: inside a grammar, they become rules of that grammar."""

    __slots__ = ()

    @property
    @abstractmethod
    def tree(self) -> Grammar:
        """The rules as they were read."""
