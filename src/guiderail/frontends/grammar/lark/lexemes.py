"""Lark's terminals as lexemes: their texts, where they end, and how they relate.

Lark tries terminals in a fixed order with ``re.match``. Here a terminal is a language, and takes either the longest or
the shortest match. The two agree for every terminal that is accepted (see :mod:`.first_match`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from guiderail import _core
from guiderail._core import CharSet
from guiderail.constraints.constraint import AllOf, Complement, Constraint, Literal
from guiderail.errors import CompileError, GuiderailError, LimitError, PatternError
from guiderail.frontends.grammar.analysis import ConstraintFacts
from guiderail.frontends.grammar.lark.branches import split
from guiderail.frontends.grammar.lark.first_match import FirstMatch, Unknown, first_match
from guiderail.frontends.grammar.lark.first_match_texts import FirstMatchTexts
from guiderail.frontends.grammar.lark.patterns import RegexPattern
from guiderail.frontends.grammar.lark.preceding import Preceding, without_look_behind
from guiderail.frontends.grammar.lark.reserved import Reserved, reserved_words
from guiderail.frontends.grammar.lark.terms import without_empty
from guiderail.frontends.regex import Regex, regex
from guiderail.frontends.regex.facts import Facts
from guiderail.support.caches import cached, text_weight
from guiderail.support.places import relocated
from guiderail.support.work import out_of_work

__all__ = [
    "NEEDS",
    "Lexeme",
    "dependent",
    "keywords",
    "lexeme_of_constraint",
    "lexeme_of_part",
    "lexemes_of_pattern",
    "no_text",
    "ordered",
]

_WIDEST = 2**64
_FOREMOST = 2**31  # a priority
_NONE = CharSet([])
_ANY_CASE = frozenset("i")

NEEDS = "it needs a certain character after its end"
"""Why a terminal with a look-ahead may be refused."""


@dataclass(slots=True, eq=False)
class Lexeme:
    """A terminal before it is part of the lexer.

    Attributes:
        name: the name of the terminal.
        constraint: its texts.
        shortest: whether a lexeme ends at the first match.
        rank: Lark's sort key of terminals.
        pattern: Lark's pattern, or None if Lark does not see the terminal.
        lazy: whether a lexeme ends where this one first matches, whatever others could still become.
        nested: whether it is a separate language, which the lexer does not cut.
        nullable: whether the definition matches the empty text, which is never a lexeme.
        nothing: whether it matches no other text.
        depends: characters after a lexeme that undo it, which the lexer cannot see.
        after: characters that could lengthen a lexeme, or undo it.
        needs: whether it is no lexeme at the end of the text.
        keyword_of: terminals that this one is a keyword of.
        guard_of: the terminal whose text it takes only to be rejected.
        part_of: the terminal that it is a part of, unless it bears that one's name.
        cut_of: the lexeme from which a guard divided it.
        reserved: words that are among its texts, though they are none of the terminal's.
        preceding: what must not precede a lexeme.
        followed: whether a guard says what must not follow a lexeme.
    """

    name: str
    constraint: Constraint
    shortest: bool
    rank: tuple[int, int, int, str]
    pattern: Any = None
    priority: int = 0
    lazy: bool = False
    nested: bool = False
    nullable: bool = False
    nothing: bool = False
    depends: CharSet = _NONE
    after: CharSet = _NONE
    needs: bool = False
    keyword_of: list[str] = field(default_factory=list)
    guard_of: str | None = None
    part_of: str | None = None
    cut_of: str | None = None
    reserved: Reserved | None = None
    preceding: list[Preceding] = field(default_factory=list)
    followed: bool = False

    @property
    def named(self) -> str:
        """The terminal that the rules name."""
        return self.part_of or self.name


def lexemes_of_pattern(definition: Any, place: Any) -> list[Lexeme]:
    """The lexemes of a terminal that Lark has read (a ``TerminalDef``): one, or parts that never match the same text.

    Args:
        definition: name, pattern and priority.
        place: source and span of a terminal's definition, for errors.

    Raises:
        CompileError: it cannot be expressed exactly; the message names the terminal and a way out.
        PatternError: its regular expression cannot be read.
    """
    name, pattern = definition.name, definition.pattern
    shown = definition.user_repr()
    rank = _rank(definition)
    if pattern.type == "str" and not pattern.flags:
        return [Lexeme(name, Literal(pattern.value), False, rank, pattern, definition.priority)]
    text = pattern.to_regexp()
    try:
        letters = pattern.type == "str" and pattern.flags == _ANY_CASE
        constraint = regex(re.escape(pattern.value), flags="i") if letters else regex(text)
        _check_memory(constraint)
    except GuiderailError as error:
        raise relocated(error, f"the terminal {shown}: ", **place(name)) from error
    if pattern.type == "str" and pattern.min_width:  # in any case, character by character
        return [Lexeme(name, constraint, False, rank, pattern, definition.priority)]
    begun = without_look_behind(constraint, pattern)
    if begun is not None:
        pattern = begun[0]
        constraint = regex(pattern.to_regexp())
    patterns = [pattern]
    if not _decided(constraint) and _words(constraint, pattern) is None:
        patterns = [RegexPattern(part, pattern.flags) for part in split(constraint, _decided)] or patterns
    parts = [Lexeme(name, constraint, False, rank, one, definition.priority) for one in patterns]
    for i, part in enumerate(parts):
        part.preceding = begun[1] if begun is not None else []
        if len(parts) > 1:
            part.constraint = regex(part.pattern.to_regexp())
        parts[i] = _matched_first(part, shown, place)
        if i:
            parts[i].name, parts[i].part_of = f"{name}__{i}", name
    return parts


def _decided(constraint: Regex) -> bool:
    """Whether it is known which matches count, or no context matters."""
    try:
        _first_match(constraint)
    except Unknown as why:
        return not why.context
    return True


def _matched_first(lexeme: Lexeme, shown: str, place: Any) -> Lexeme:
    """The lexeme of a regular expression: what ``re.match`` takes of a text."""
    name, constraint, pattern = lexeme.name, lexeme.constraint, lexeme.pattern
    text = pattern.to_regexp()
    assert isinstance(constraint, Regex)
    try:
        found = _first_match(constraint)
    except Unknown as why:
        lexeme.reserved = _words(constraint, pattern) if why.context else None
        if lexeme.reserved is not None:
            lexeme.constraint = lexeme.reserved.rest
            return lexeme
        if why.context:
            raise dependent(shown, str(why), place(name)) from None
        return _ordered_search(lexeme, regex(f"(?>{text})"), shown, place)
    if found.needs or found.narrowed:
        lexeme.constraint = FirstMatchTexts(text)  # whatever follows
        if not found.longest or not _can_be_written(lexeme.constraint):
            narrow = "a match that what follows undoes may be the beginning of another"
            raise dependent(shown, NEEDS if found.needs else narrow, place(name))
    lexeme.after, lexeme.depends, lexeme.needs = found.after, found.depends, found.needs
    if not (found.longest or found.shortest) and len(found.depends):
        raise dependent(shown, "which text it takes depends on what follows its end", place(name))
    if found.longest or found.shortest:
        lexeme.shortest = not found.longest
    else:
        lexeme = _ordered_search(lexeme, FirstMatchTexts(text), shown, place)
    if pattern.min_width == 0:
        _drop_empty(lexeme)
    return lexeme


def _check_memory(pattern: Regex) -> None:
    if span := pattern._parsed.recalled:
        raise PatternError(
            "a lexer has no memory for a group of more than 64 texts; write out the possible texts, or give this part "
            "as a constraint, which has no lexer",
            code="regex-backreference",
            source=pattern.pattern,
            span=span,
        )


def _words(constraint: Regex, pattern: Any) -> Reserved | None:
    """The words that a pattern excludes, if that is all that its look-arounds say."""
    reserved = reserved_words(constraint, "".join(sorted(pattern.flags)))
    try:
        found = _first_match(reserved.rest) if reserved is not None else None
    except Unknown:
        return None
    return reserved if found is not None and found.longest and not len(found.depends) and not found.needs else None


def _rank(definition: Any) -> tuple[int, int, int, str]:
    pattern = definition.pattern
    return -definition.priority, -pattern.max_width, -len(pattern.value), definition.name


@cached(8 << 20, lambda made, pattern: text_weight(made, pattern.pattern))
def _first_match(pattern: Regex) -> FirstMatch:
    parsed = pattern._parsed
    if not parsed.in_order and not Facts()(parsed.tree).unique:
        raise Unknown("it refers to a group that follows a choice", False)
    return first_match(parsed.tree)


def dependent(shown: str, why: str, place: dict[str, Any]) -> CompileError:
    """The error for a terminal that depends on the text around it."""
    return CompileError(
        f"the terminal {shown} depends on the text around it ({why}); drop the assertion if another terminal takes the "
        "longer text (keywords need no \\b), or express it within the terminal",
        code="lark-look-around",
        **place,
    )


def _ordered_search(lexeme: Lexeme, whole: Constraint, shown: str, place: Any) -> Lexeme:
    """For a pattern that takes neither the longest nor the shortest match. ``whole``: the texts that are taken as a
    whole."""
    try:
        whole._lower(_core.Builder())
    except GuiderailError as error:
        raise CompileError(
            f"the terminal {shown} takes neither the longest nor the shortest text that it matches, and the order of "
            f"its search cannot be written out ({error.message.split(';')[0]}); order its alternatives from long to "
            "short, or make its last repetition greedy",
            code="lark-first-match",
            **place(lexeme.name),
        ) from error
    lexeme.constraint = whole
    return lexeme


def _can_be_written(constraint: Constraint) -> bool:
    try:
        constraint._lower(_core.Builder())
    except LimitError as error:
        if out_of_work(error):
            raise
        return False
    return True


def _drop_empty(lexeme: Lexeme) -> None:
    lexeme.nullable = True
    lexeme.constraint = without_empty(lexeme.constraint)


def lexeme_of_constraint(
    name: str, constraint: Constraint, shortest: bool, priority: int, length: int, place: Any
) -> Lexeme:
    """The lexeme of a terminal that Lark has not read."""
    rank = (-priority, -_WIDEST, -length - (_WIDEST if shortest else 0), name)
    lexeme = Lexeme(name, constraint, shortest, rank, priority=priority)
    b = _core.Builder()
    try:
        e = constraint._lower(b)
        empty = b.is_empty(e)
        nullable = b.is_nullable(e)
    except GuiderailError as error:
        raise relocated(error, f"the terminal {name}: ", **place(name)) from error
    lexeme.lazy = shortest
    lexeme.nothing = empty
    if nullable:
        _drop_empty(lexeme)
        lexeme.nothing = shortest or _empty(lexeme.constraint)  # lazy: the empty text is the first match everywhere
    return lexeme


def lexeme_of_part(name: str, constraint: Constraint, shown: str, place: Any) -> Lexeme:
    """The lexeme of a whole constraint, such as a JSON Schema or a special token: a separate language."""
    lexeme = Lexeme(name, constraint, False, (-_FOREMOST, 0, 0, name), priority=_FOREMOST, nested=True)
    facts = ConstraintFacts()
    try:
        lexeme.nullable = facts.nullable(constraint)
        lexeme.nothing = not facts.productive(constraint)
    except GuiderailError as error:
        raise relocated(error, f"{shown}: ", **place(name)) from error
    return lexeme


def ordered(lexemes: Iterable[Lexeme]) -> list[Lexeme]:
    """In the order in which Lark's lexers try them: priority, greatest width, length of the pattern, name."""
    return sorted(lexemes, key=lambda lexeme: lexeme.rank)


def keywords(lexemes: list[Lexeme], ignore: set[str]) -> dict[str, list[str]]:
    """Finds the strings that are keywords of regular expressions; ``lexemes`` is changed.

    If a lexeme of a regular expression equals a string terminal of the same priority that the expression matches, Lark
    retypes it, and that string does not compete by itself, unless it has flags that the expression lacks (``"select"i``
    next to ``/[a-z]+/``). Such a string is divided: spellings that the expression matches are keywords, the others
    compete. What an ignored expression matches is ignored before retyping. An ignored string that is a keyword of
    another terminal is not ignored in its place, but an error: a guard that is a keyword.

    Returns:
        Terminals that have been divided, with the names of their parts.
    """
    strings = [x for x in lexemes if x.pattern is not None and x.pattern.type == "str"]
    patterns = [x for x in lexemes if x.pattern is not None and x.pattern.type == "re"]
    owners = [(x, _Takes(x)) for x in patterns]
    divided: dict[str, list[str]] = {}
    instead: dict[str, list[Lexeme]] = {}
    for string in strings:
        partial: list[Lexeme] = []
        value = string.pattern.value
        begin = value.encode()[0]
        for owner, takes in owners:
            if owner.priority != string.priority or begin not in takes.first or not takes(value):
                continue
            of_its_flags = string.pattern.flags <= owner.pattern.flags
            if owner.named in ignore:
                if of_its_flags and string.rank < owner.rank:
                    string.rank = (*owner.rank[:3], owner.name + " ")
            elif of_its_flags or _within(string.constraint, owner.constraint):
                string.keyword_of.append(owner.name)
            else:
                partial.append(owner)
        parts = [string]
        if partial:
            parts = _divide(string, partial)
            divided[string.name] = [part.name for part in parts]
        if string.name in ignore:
            mistaken = [(part, owner_name) for part in parts for owner_name in part.keyword_of]
            for number, (part, owner_name) in enumerate(mistaken):
                name = f"{part.name}__mistaken{number or ''}"
                guard = Lexeme(name, part.constraint, False, part.rank, keyword_of=[owner_name], guard_of=owner_name)
                parts.insert(0, guard)
        instead[string.name] = parts
    lexemes[:] = [part for x in lexemes for part in instead.get(x.name, [x])]
    lexemes.sort(key=lambda x: x.rank)
    return divided


class _Takes:
    """Whether ``re.match`` takes the whole of a text, with the pattern of a lexeme."""

    def __init__(self, lexeme: Lexeme) -> None:
        self.lexeme = lexeme
        self.program: _core.Program | None = None
        self.pattern: re.Pattern[str] | None = None

    @cached_property
    def first(self) -> frozenset[int]:
        """Bytes that its texts begin with."""
        b = _core.Builder()
        e = self.lexeme.constraint._lower(b)
        found = frozenset(b.first_bytes(e))
        if not (self.lexeme.shortest or len(self.lexeme.depends)) and isinstance(self.lexeme.constraint, Regex):
            self.program = b.finish(e)  # the longest match: the whole text, if it matches
        return found

    def __call__(self, text: str) -> bool:
        data = text.encode()
        if data[0] not in self.first:
            return False
        if self.program is not None:
            return self.program.is_nullable(self.program.derivative(self.program.root, data))
        if self.pattern is None:
            pattern = self.lexeme.pattern.to_regexp()
            try:
                self.pattern = re.compile(pattern, re.ASCII)
            except ValueError:  # (?u) at the beginning
                self.pattern = re.compile(pattern)
        match = self.pattern.match(text)
        return match is not None and match[0] == text


def _within(inner: Constraint, outer: Constraint) -> bool:
    return _empty(AllOf((inner, Complement(outer))))


def _empty(constraint: Constraint) -> bool:
    b = _core.Builder()
    return b.is_empty(constraint._lower(b))


def no_text(constraint: Constraint, b: _core.Builder) -> bool:
    """Whether nothing matches; False if that is too hard to decide, which the guide then does."""
    try:
        return b.is_empty(constraint._lower(b))
    except LimitError as error:
        if out_of_work(error):
            raise
        return False


def _divide(string: Lexeme, owners: list[Lexeme]) -> list[Lexeme]:
    parts: list[tuple[Constraint, list[str]]] = [(string.constraint, string.keyword_of)]
    for owner in owners:
        more: list[tuple[Constraint, list[str]]] = []
        for constraint, names in parts:
            inside = AllOf((constraint, owner.constraint))
            outside = AllOf((constraint, Complement(owner.constraint)))
            more += [(inside, [*names, owner.name])] if not _empty(inside) else []
            more += [(outside, names)] if not _empty(outside) else []
        parts = more
    result = []
    for i, (constraint, names) in enumerate(parts):
        name = string.name if not i else f"{string.name}__{i}"
        result.append(
            Lexeme(
                name,
                constraint,
                False,
                (*string.rank[:3], string.rank[3] + "~" * i),
                string.pattern,
                string.priority,
                keyword_of=names,
                part_of=string.name if i else None,
            )
        )
    return result
