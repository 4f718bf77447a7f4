"""Makes a grammar of the rules and terminals that were read: terminals become lexemes, and rules name them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from typing import Any

from guiderail import _core
from guiderail.constraints.constraint import Constraint, Sequence as Both
from guiderail.errors import CompileError, LimitError
from guiderail.frontends.grammar import syntax
from guiderail.frontends.grammar.analysis import started
from guiderail.frontends.grammar.build import NEVER, leaves
from guiderail.frontends.grammar.lark.attributes import Attributes
from guiderail.frontends.grammar.lark.bodies import choice_of, sequence_of
from guiderail.frontends.grammar.lark.boundaries import keep_apart
from guiderail.frontends.grammar.lark.bounded import bounded
from guiderail.frontends.grammar.lark.dialect import Bounded, Cut, Rewritten, Stop
from guiderail.frontends.grammar.lark.follow import Follow, harmless, never_at_the_end
from guiderail.frontends.grammar.lark.guards import Guards, reserve
from guiderail.frontends.grammar.lark.lexemes import (
    NEEDS,
    Lexeme,
    dependent,
    keywords,
    lexeme_of_constraint,
    lexeme_of_part,
    lexemes_of_pattern,
    no_text,
    ordered,
)
from guiderail.frontends.grammar.lark.quick import Parts
from guiderail.frontends.grammar.lark.terms import TermParser, literal_text
from guiderail.frontends.grammar.lark.tokens import Statement, Token, statements, tokens
from guiderail.frontends.grammar.syntax import Choice, Expression, Name, Repetition, Rule, Text
from guiderail.frontends.regex import regex
from guiderail.support.places import relocated

__all__ = ["Assembly", "LarkGrammar"]


@dataclass(frozen=True, slots=True)
class LarkGrammar:
    """A Lark grammar that has been read.

    Attributes:
        grammar: its rules and terminals.
        notes: one sentence for each thing that was read and has no effect.
        captures: rules whose texts are captured, and terminals that stand for one.
        unused: terminals that are defined, but neither ignored nor named by a rule or terminal.
        imported: the grammars that it imports, except Lark's own: path and digest of each.
    """

    grammar: syntax.Grammar
    notes: tuple[str, ...]
    captures: tuple[tuple[str, syntax.Capture], ...]
    unused: tuple[str, ...]
    imported: tuple[tuple[str, str], ...]
    _compile: Callable[[], Any] | None

    def conflicts(self) -> list[str]:
        """One sentence for each place where Lark's LALR parser accepts less than the grammar says.

        Computed on request.
        """
        from guiderail.frontends.grammar.lark.conflicts import conflicts

        if self._compile is None:
            return ["Lark's LALR parser has no unbounded repetitions {n,}, so conflicts were not checked"]
        return conflicts(self._compile, self.grammar.start)


class Assembly:
    """Makes a grammar of rules and terminals.

    Attributes:
        rewritten: the text.
        indentation: what makes INDENT and DEDENT.
        terms: terminals read without Lark.
        patterns: the definitions that these name.
        definitions: the other terminals, with Lark's patterns.
        nullable: terminals that may be empty.
        never: terminals that take the empty text wherever they can.
        impossible: terminals that match no text.
        divided: strings that are keywords in some spellings only, and their parts.
        followed: terminals that are a rule's text and its stop, with the names of the rules.
    """

    def __init__(self, rewritten: Rewritten, start: str, constraints: dict[str, Constraint], indenter: Any) -> None:
        self.rewritten = rewritten
        self.source = rewritten.source
        self.start = start
        self.constraints = constraints
        self.indentation = indentation_of(indenter)
        self.terms: dict[str, Constraint] = {}
        self.patterns: dict[str, Constraint] = {}
        self.definitions: dict[str, Any] = {}
        self.nullable: set[str] = set()
        self.never: set[str] = set()
        self.impossible: set[str] = set()
        self.divided: dict[str, list[str]] = {}
        self.followed: dict[str, set[str]] = {}

    # -- errors
    @cached_property
    def statements(self) -> list[Statement]:
        return self.rewritten.statements or statements(self.source, tokens(self.source))

    @cached_property
    def spans(self) -> dict[str, syntax.Span]:
        """Where the rules and terminals are defined."""
        found: dict[str, syntax.Span] = {}
        for statement in self.statements:
            if statement.name is not None:
                found.setdefault(statement.name.text, statement.name.span)
        return found

    @cached_property
    def uses(self) -> dict[str, dict[str, syntax.Span]]:
        """The names in the body of each definition, with their first positions; under ``""``, those in directives."""
        found: dict[str, dict[str, syntax.Span]] = {}
        for statement in self.statements:
            if statement.name is None:
                found.setdefault("", {}).update((t.text, t.span) for t in reversed(statement.tokens))
                continue
            uses = found.setdefault(statement.name.text, {})
            uses.update((t.text, t.span) for t in reversed(statement.body) if t.kind in ("name", "string", "regexp"))
        return found

    def place(self, name: str) -> dict[str, Any]:
        """Source and span of a definition, or of its use if it has no name, as arguments of an error."""
        span = self.rewritten.parts.get(name)
        name = self.rewritten.renamed.get(name, name)
        span = self.spans.get(name) if span is None else span
        if span is None and name in self.definitions:
            raw = self.definitions[name].pattern.raw
            span = next((uses[raw] for uses in self.uses.values() if raw in uses), None)
        return {"source": self.source, "span": span} if span is not None else {}

    def use(self, name: str) -> syntax.Span | None:
        """The first position of a name outside of its own head."""
        name = self.rewritten.renamed.get(name, name)
        return next((uses[name] for uses in self.uses.values() if name in uses), self.spans.get(name))

    # -- the whole
    def run(self, parts: Parts) -> LarkGrammar:
        if self.start not in parts.names:
            raise CompileError(
                f"there is no rule {self.start!r} to start from{started(self.start, sorted(parts.names))}",
                code="lark-start",
                source=self.source,
            )
        rules = parts.rules
        self.definitions = {t.name: t for t in parts.definitions}
        self.stops(rules)
        for cut in self.rewritten.cuts:
            self.term(cut, ())
        used = set().union(*(leaves(rule.body)[0] for rule in rules.values()), parts.ignore, self.kept())
        lexer = self.lexer(used - rules.keys(), set(parts.ignore), rules)
        if self.rewritten.renamed or self.divided or self.nullable or self.impossible:
            rules = {rule.name: rule for rule in map(self.final, rules.values())}
        start = self.rewritten.renamed.get(self.start, self.start)
        if self.rewritten.ignore_once:
            rules, lexer = once_ignored(rules, lexer)
        mentioned = used | self.constraints.keys() | parts.mentioned
        return LarkGrammar(
            syntax.Grammar(rules, start, lexer, self.source),
            tuple(self.rewritten.notes),
            self.captures(),
            tuple(name for name in parts.named if name not in mentioned),
            parts.imported,
            parts.compiled,
        )

    def captures(self) -> tuple[tuple[str, syntax.Capture], ...]:
        """Rules whose texts are captured, and terminals that are such a rule and its stop."""
        find = self.reference(())
        found: dict[str, syntax.Capture] = {}
        renamed = self.rewritten.renamed
        for rule, given in self.rewritten.captures.items():
            ending = given.stop or given.suffix
            cut = TermParser(self.source, list(ending), find).parse() if ending else None
            capture = syntax.Capture(given.capture or rule, cut, given.stop_capture or None)
            found.setdefault(rule, capture)
            for name, what in self.followed.items():
                if rule in what:
                    found.setdefault(renamed.get(name, name), capture)
        return tuple(found.items())

    def kept(self) -> set[str]:
        lines = self.indentation
        return set() if lines is None else {lines.newline}

    # -- rules
    def stops(self, rules: dict[str, Rule]) -> None:
        """Gives rules with ``stop`` their meaning.

        A text that ends before its stop, and that stop right after it, are one lexeme; elsewhere the text has no stop
        in it, and may have one after it.
        """
        renamed = self.rewritten.renamed
        for name, what in list(self.rewritten.embedded.items()):
            if not isinstance(what, Stop):
                continue
            both = f"{name}_AND"
            cut = Cut(both, what.tokens, True, what.stop)
            names = {rule.name for rule in rules.values() if rule.body == Name(name)} | {name}
            text = literal_text(what.stop[0], self.source) if what.stop[0].kind == "string" else None

            def visit(e: Expression, names: set[str] = names, text: str | None = text, both: str = both) -> Expression:
                if isinstance(e, Choice):
                    return Choice(tuple(visit(part) for part in e.parts))
                if isinstance(e, Repetition):
                    return Repetition(visit(e.item), e.min, e.max)
                if not isinstance(e, syntax.Sequence):
                    return e
                parts: list[Expression] = []
                for part in e.parts:
                    last = parts[-1] if parts else None
                    if isinstance(part, Name) and isinstance(last, Name) and last.name in names:
                        pattern = getattr(self.definitions.get(part.name), "pattern", None)
                        if pattern is not None and (pattern.type, pattern.value) == ("str", text):
                            parts[-1] = Name(both, last.span)
                            continue
                    parts.append(visit(part))
                return sequence_of(parts)

            for rule in list(rules.values()):
                rules[rule.name] = Rule(rule.name, visit(rule.body), rule.span)
            if any(both in leaves(rule.body)[0] for rule in rules.values()):
                self.rewritten.cuts[both] = cut
                self.followed[both] = {renamed.get(one, one) for one in names}
                self.rewritten.renamed[both] = f"{self.rewritten.renamed[name]} and its stop"
            self.rewritten.embedded[name] = Bounded(name, what.tokens, Attributes(stop=what.stop))

    def part(self, name: str) -> Constraint:
        """What a declared terminal represents."""
        embedded = self.rewritten.embedded
        what = embedded[name] if name in embedded else self.constraints[name]
        find = self.reference(())
        if isinstance(what, Bounded):
            assert self.rewritten.part_at is not None
            try:
                return bounded(what, self.source, find, self.statements, self.rewritten.part_at)
            except (CompileError, LimitError) as error:
                if error.source is not None:
                    raise
                raise relocated(error, "", **self.place(what.rule)) from error
        assert not isinstance(what, Stop)  # see `stops`
        return what

    def final(self, rule: Rule) -> Rule:
        """A rule with the user's names, and with optional or divided terminals written out."""
        renamed = self.rewritten.renamed

        def visit(e: Expression) -> Expression:
            if isinstance(e, Name):
                found: Expression = Name(renamed.get(e.name, e.name), e.span)
                if e.name in self.divided:
                    found = Choice(tuple(Name(part, e.span) for part in self.divided[e.name]))
                if e.name in self.nullable:
                    found = Repetition(found, 0, 1)
                if e.name in self.impossible:
                    return NEVER
                return Text("") if e.name in self.never else found
            if isinstance(e, Choice | syntax.Sequence):
                return type(e)(tuple(map(visit, e.parts)))
            return Repetition(visit(e.item), e.min, e.max) if isinstance(e, Repetition) else e

        return Rule(renamed.get(rule.name, rule.name), visit(rule.body), rule.span)

    # -- terminals
    def reference(self, within: tuple[str, ...]) -> Callable[[Token], Constraint]:
        def find(token: Token) -> Constraint:
            new = next((n for n, old in self.rewritten.renamed.items() if old == token.text), token.text)
            if new in self.rewritten.cuts:
                return self.term(new, (*within,), token)
            if new in self.definitions:
                if new not in self.patterns:
                    self.patterns[new] = regex(self.definitions[new].pattern.to_regexp())
                return self.patterns[new]
            raise CompileError(
                f"{token.text} is not a terminal of this grammar, and terminals cannot contain rules",
                code="lark-grammar",
                source=self.source,
                span=token.span,
            )

        return find

    def term(self, name: str, within: tuple[str, ...], token: Token | None = None) -> Constraint:
        """The constraint of a terminal that is read without Lark."""
        if name in within:
            raise CompileError(
                f"the terminal {name} contains itself; only rules may be recursive",
                code="lark-grammar",
                source=self.source,
                span=token.span if token is not None else None,
            )
        if name not in self.terms:
            cut = self.rewritten.cuts[name]
            find = self.reference((*within, name))
            found = TermParser(self.source, list(cut.tokens), find).parse()
            if cut.suffix:
                found = Both((found, TermParser(self.source, list(cut.suffix), find).parse()))
            self.terms[name] = found
        return self.terms[name]

    def lexer(self, used: set[str], ignore: set[str], rules: dict[str, Rule]) -> syntax.Lexer:
        used_here = [d for name, d in self.definitions.items() if name in used]
        lexemes = [lexeme for one in used_here for lexeme in lexemes_of_pattern(one, self.place)]
        for name, cut in self.rewritten.cuts.items():
            if name in used:
                length = cut.tokens[-1].end - cut.tokens[0].start if cut.tokens else 0
                lexemes.append(
                    lexeme_of_constraint(name, self.terms[name], cut.shortest, cut.priority, length, self.place)
                )
        for name in used & (self.rewritten.embedded.keys() | self.constraints.keys()):
            if name in self.definitions or name in self.rewritten.cuts:
                continue
            lexemes.append(lexeme_of_part(name, self.part(name), self.rewritten.renamed.get(name, name), self.place))
        b = _core.Builder()
        for lexeme in lexemes:
            if lexeme.pattern is not None and lexeme.pattern.type == "re":
                lexeme.nothing = no_text(lexeme.constraint, b)
        self.nullable = {x.name for x in lexemes if x.nullable}
        self.never = {x.name for x in lexemes if x.nothing and x.nullable}
        self.impossible = {x.name for x in lexemes if x.nothing and not x.nullable}
        ignore -= self.impossible | self.never
        lexemes = ordered(x for x in lexemes if not x.nothing)
        self.divided = keywords(lexemes, ignore)
        if (cut_short := reserve(lexemes, ignore)) is not None:
            raise self.cut_short(*cut_short)
        follow = Follow(rules, self.start, self.nullable | self.never)
        newline = "" if self.indentation is None else self.indentation.newline
        if (wrong := keep_apart(lexemes, ignore, follow, newline)) is not None:
            raise self.preceded(*wrong)
        guard = Guards(lexemes, ignore, follow)
        for lexeme in list(lexemes):
            if not len(lexeme.depends) or harmless(lexeme, lexemes, ignore, follow):
                continue
            if not guard(lexeme):
                raise self.look_ahead(lexeme)
        guard.finish()
        for lexeme in lexemes:
            if lexeme.needs and (self.indentation is not None or not never_at_the_end(lexeme, lexemes, ignore, follow)):
                raise dependent(self.shown(lexeme.named), NEEDS, self.place(lexeme.named))
        for lexeme in lexemes:
            parts = self.divided.setdefault(lexeme.part_of, [lexeme.part_of]) if lexeme.part_of is not None else None
            if parts is not None and lexeme.name not in parts:
                parts.append(lexeme.name)
        declared = self.declared(used - {x.name for x in lexemes} - self.divided.keys() - self.never - self.impossible)
        renamed = self.rewritten.renamed
        terminals = [
            syntax.Terminal(
                renamed.get(x.name, x.name),
                x.constraint,
                x.shortest,
                tuple(renamed.get(n, n) for n in x.keyword_of),
                None if x.guard_of is None else renamed.get(x.guard_of, x.guard_of),
                x.lazy,
                x.nested,
                self.rewritten.parts.get(x.name, self.use(x.name)) if x.nested else None,
            )
            for x in lexemes
        ]
        ignored = {part for name in ignore for part in self.divided.get(name, [renamed.get(name, name)])}
        return syntax.Lexer(
            tuple(terminals + [syntax.Terminal(renamed.get(n, n), None) for n in declared]),
            frozenset(ignored),
            self.lines({x.name for x in lexemes}),
        )

    def lines(self, known: set[str]) -> syntax.Indentation | None:
        """The indentation, with those brackets that the grammar contains."""
        lines, renamed = self.indentation, self.rewritten.renamed
        if lines is None:
            return None
        opening, closing = (
            tuple(renamed.get(name, name) for name in names if name in known)
            for names in (lines.opening, lines.closing)
        )
        return replace(lines, opening=opening, closing=closing)

    def cut_short(self, lexeme: Lexeme, other: Lexeme) -> CompileError:
        if lexeme is other:
            return self.look_ahead(lexeme)
        shown = self.shown(lexeme.named)
        return CompileError(
            f"the terminal {shown} looks past its end for words that it excludes, and the terminal {other.name} may "
            "match a part of such a word, or more words than these; end that one with \\b, or drop the assertion",
            code="lark-look-around",
            **self.place(lexeme.named),
        )

    def preceded(self, lexeme: Lexeme, before: str) -> CompileError:
        shown = self.shown(before)
        return CompileError(
            f"the terminal {self.shown(lexeme.named)} looks at the text before it, and the terminal {shown} may end "
            f"there with what it excludes; drop the assertion, or exclude at the end of {shown} what must not follow "
            "it, as \\b does",
            code="lark-look-around",
            **self.place(lexeme.named),
        )

    def shown(self, name: str) -> str:
        """A terminal as it is written."""
        if name in self.definitions:
            return str(self.definitions[name].user_repr())
        span = self.rewritten.parts.get(name)
        return self.rewritten.renamed.get(name, name) if span is None else self.source[slice(*span)]

    def look_ahead(self, lexeme: Lexeme) -> CompileError:
        shown = self.shown(lexeme.named)
        return CompileError(
            f"the terminal {shown} looks past its end, and the text that may follow can begin with what it excludes; "
            "drop the assertion if another terminal takes the longer text (keywords need no \\b)",
            code="lark-look-around",
            **self.place(lexeme.named),
        )

    def declared(self, names: set[str]) -> list[str]:
        """Terminals without text: those that indentation makes."""
        lines = self.indentation
        if lines is not None and lines.newline not in {*self.definitions, *self.rewritten.cuts}:
            raise CompileError(
                f"the indenter's newline terminal {lines.newline!r} is not defined", code="lark-indenter"
            )
        made = {lines.indent, lines.dedent} if lines is not None else set()
        for name in sorted(names - made):
            raise CompileError(
                f"the terminal {name} is declared but not defined; pass indenter=… if it stands for indentation, or "
                f"define it with constraints={{{name!r}: …}}",
                code="lark-declared",
                source=self.source,
                span=self.use(name),
            )
        return sorted(names | made)


def once_ignored(rules: dict[str, Rule], lexer: syntax.Lexer) -> tuple[dict[str, Rule], syntax.Lexer]:
    """The grammar with ignored text written out: at most one after each terminal."""
    if not lexer.ignore:
        return rules, lexer
    terminals = {terminal.name for terminal in lexer.terminals} - lexer.ignore
    skipped = Repetition(choice_of([Name(name) for name in sorted(lexer.ignore)]), 0, 1)

    def visit(e: Expression) -> Expression:
        if isinstance(e, Name):
            return syntax.Sequence((e, skipped)) if e.name in terminals else e
        if isinstance(e, Choice | syntax.Sequence):
            return type(e)(tuple(map(visit, e.parts)))
        return Repetition(visit(e.item), e.min, e.max) if isinstance(e, Repetition) else e

    found = {name: Rule(rule.name, visit(rule.body), rule.span) for name, rule in rules.items()}
    return found, replace(lexer, ignore=frozenset())


def indentation_of(indenter: Any) -> syntax.Indentation | None:
    """Converts one of Lark's indenters.

    Raises:
        CompileError: it is not an indenter, or one that overrides methods.
    """
    if indenter is None or isinstance(indenter, syntax.Indentation):
        return indenter
    Indenter: Any = import_module("lark.indenter").Indenter
    made = indenter() if isinstance(indenter, type) and issubclass(indenter, Indenter) else indenter
    if not isinstance(made, Indenter):
        raise CompileError(
            f"indenter takes a lark.indenter.Indenter or an Indentation, not {type(indenter).__name__}",
            code="lark-indenter",
        )
    for method in ("handle_NL", "_process", "process"):
        if getattr(type(made), method) is not getattr(Indenter, method):
            raise CompileError(
                f"{type(made).__name__} overrides {method}, which guiderail cannot follow; "
                "describe it as an Indentation",
                code="lark-indenter",
            )
    return syntax.Indentation(
        made.NL_type,
        made.INDENT_type,
        made.DEDENT_type,
        tuple(made.OPEN_PAREN_types),
        tuple(made.CLOSE_PAREN_types),
        made.tab_len,
    )
