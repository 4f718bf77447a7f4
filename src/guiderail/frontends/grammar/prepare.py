"""Prepares the rules as written for the core: checked, pruned, without left recursion."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Protocol

from guiderail.constraints.constraint import (
    AnyOf,
    Constraint,
    Literal,
    Repetition as RepeatedConstraint,
    SeparatedBy,
    Sequence as ConstraintSequence,
)
from guiderail.frontends.grammar.analysis import (
    ConstraintFacts,
    check_names,
    components,
    productive_rules,
    pruned,
    reachable_rules,
    refuse_unproductive,
)
from guiderail.frontends.grammar.build import EMPTY, Fold, choice, leaves, repetition, sequence
from guiderail.frontends.grammar.collisions import taken_by_ignored
from guiderail.frontends.grammar.left_recursion import Recursion, without_left_recursion
from guiderail.frontends.grammar.linear import right_linear
from guiderail.frontends.grammar.productions import separated
from guiderail.frontends.grammar.syntax import (
    Choice,
    Embedded,
    Expression,
    Grammar,
    HasRules,
    Lexer,
    Name,
    Repetition,
    Sequence,
    Text,
)

__all__ = ["MAX_RULES", "GrammarReport", "Prepared", "prepare"]

MAX_RULES: Final = 20_000


class Late(Protocol):
    """The parts of a report that are computed on request."""

    def collisions(self) -> tuple[str, ...]: ...

    def conflicts(self) -> tuple[str, ...]: ...


@dataclass(frozen=True, slots=True)
class GrammarReport:
    """What :meth:`GrammarConstraint.report` found in a grammar, and what was rewritten.

    Attributes:
        start: the start rule.
        rules: the number of rules in the grammar.
        unreachable: rules that cannot be reached from the start rule; they have no effect.
        unproductive: rules that match no finite text; alternatives that need them were dropped.
        left_recursive: groups of rules that begin with each other, with the kind of recursion: ``"direct"``,
            ``"indirect"`` or ``"hidden"`` (after parts that may be empty). They were rewritten; the language is the
            same.
        repetitions: recursive rules that were rewritten as repetitions.
        compiled_rules: the number of recursive rules that remain; if it is 0, the grammar is regular.
        notes: one sentence for each thing that was read and has no effect.
        unused_terminals: terminals of a Lark grammar that nothing else in it names.
        collisions: one sentence for each pair of terminals that match a common text, saying which one wins. Computed
            on first access.
        conflicts: one sentence for each place where Lark's LALR parser accepts less than the grammar says, or rejects
            the grammar. Computed on first access, which takes about as long as building that parser.
    """

    start: str
    rules: int
    unreachable: tuple[str, ...]
    unproductive: tuple[str, ...]
    left_recursive: tuple[Recursion, ...]
    repetitions: tuple[str, ...]
    compiled_rules: int
    notes: tuple[str, ...] = ()
    unused_terminals: tuple[str, ...] = ()
    late: Late | None = field(default=None, repr=False, compare=False)

    @property
    def collisions(self) -> tuple[str, ...]:
        return () if self.late is None else self.late.collisions()

    @property
    def conflicts(self) -> tuple[str, ...]:
        return () if self.late is None else self.late.conflicts()

    def __str__(self) -> str:
        lines = [f"{self.rules} rules, starting from {self.start!r}; {self.compiled_rules} still recursive"]
        for title, listed in (
            ("unreachable, without effect", self.unreachable),
            ("unproductive, left out", self.unproductive),
            ("recursive at one end, now repetitions", self.repetitions),
            ("unused terminals", self.unused_terminals),
        ):
            if listed:
                lines.append(f"{title}: {', '.join(listed)}")
        for group in self.left_recursive:
            lines.append(f"left recursion ({group.kind}), rewritten: {', '.join(group.rules)}")
        lines += [*self.notes, *self.collisions, *self.conflicts]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Prepared:
    """Rules that are reachable, productive and free of left recursion.

    ``groups``: their components, each after those that it needs; ``source``: the text that spans refer to.
    """

    rules: dict[str, Expression]
    start: str
    lexer: Lexer | None
    report: GrammarReport
    groups: list[list[str]]
    source: str | None


def prepare(grammar: Grammar, max_rules: int = MAX_RULES) -> Prepared:
    """Checks a grammar and brings it into the form that :func:`~guiderail.frontends.grammar.lower.lower` takes.

    Args:
        grammar: as a reader made it.
        max_rules: how many rules and steps the removal of left recursion may make.

    Raises:
        PatternError: a name is not defined.
        CompileError: the start can never finish.
        LimitError: ``max_rules`` was reached.
    """
    check_names(grammar)
    facts = ConstraintFacts()
    own = {name: rule.body for name, rule in grammar.rules.items()}
    rules = _Unfolding(own).run()
    ignored, taken = _unread(rules, grammar.lexer)
    rules.update({name: Name(name) for name in (*ignored, *taken)})  # rules that never end
    order = [name for group in _groups(rules) for name in group]
    productive = productive_rules(rules, facts, order)
    refuse_unproductive(grammar, productive, ignored, taken)
    reachable = {*reachable_rules(rules, grammar.start), *grammar.written_out}
    unproductive = tuple(name for name in own if name not in productive and not name.startswith("\0"))
    unreachable = tuple(name for name in own if name not in reachable)
    lexed = grammar.lexer is not None and bool(grammar.lexer.terminals)
    rules = pruned(rules, productive, facts, traps=lexed)
    keep = reachable_rules(rules, grammar.start)
    rules = {name: body for name, body in rules.items() if name in keep}
    order = [name for name in order if name in rules]
    rules, recursions = without_left_recursion(rules, grammar.start, facts, max_rules, order)
    rules, repetitions, groups = _loops(rules, grammar.start, own)
    recursive = sum(len(group) for group in _recursive(rules, groups))
    told = [f"terminal {name} is ignored, so the rules that name it never read it" for name in ignored]
    told += [f"terminal {name} is never read: ignored terminals, tried before it, take all its texts" for name in taken]
    notes = (*grammar.notes, *told)
    report = GrammarReport(
        grammar.start, len(own), unreachable, unproductive, tuple(recursions), repetitions, recursive, notes
    )
    return Prepared(rules, grammar.start, grammar.lexer, report, groups, grammar.source)


def _unread(rules: dict[str, Expression], lexer: Lexer | None) -> tuple[list[str], list[str]]:
    """The terminals that rules name in vain: the ignored ones, whose lexemes the lexer drops, and those that lose all
    their texts to an ignored one."""
    if lexer is None or not lexer.ignore:
        return [], []
    used = set().union(*(leaves(body)[0] for body in rules.values()))
    ignored = {terminal.name for terminal in lexer.terminals if not terminal.nested} & lexer.ignore
    return sorted(ignored & used), taken_by_ignored(lexer, used - lexer.ignore)


def _groups(rules: dict[str, Expression]) -> list[list[str]]:
    """The rules by components, each after those that it needs."""
    return components({name: leaves(body)[0] for name, body in rules.items()})


def _recursive(rules: dict[str, Expression], groups: list[list[str]]) -> list[list[str]]:
    return [group for group in groups if len(group) > 1 or group[0] in leaves(rules[group[0]])[0]]


def _loops(
    rules: dict[str, Expression], start: str, own: dict[str, Expression]
) -> tuple[dict[str, Expression], tuple[str, ...], list[list[str]]]:
    """Replaces components that use themselves only at the right end by repetitions.

    Returns the rules, the names of those replaced, and all components.
    """
    every = _groups(rules)
    groups = _recursive(rules, every)
    if not groups:
        return rules, (), every
    home = {name: at for at, group in enumerate(groups) for name in group}
    entries: list[set[str]] = [set() for _ in groups]
    if start in home:
        entries[home[start]].add(start)
    for name, body in rules.items():
        for used in leaves(body)[0]:
            at = home.get(used)
            if at is not None and home.get(name) != at:
                entries[at].add(used)
    done: list[str] = []
    rules = dict(rules)
    for group, wanted in zip(groups, entries, strict=True):
        solved = right_linear(rules, group, sorted(wanted))
        if solved is None:
            continue
        for name in group:
            del rules[name]
        rules.update(solved)
        done.extend(group)
    return rules, tuple(name for name in own if name in done), _groups(rules) if done else every


class _Unfolding:
    """Turns embedded constraints that consist of parts into rules, and what comes zero times into the empty text.

    So the rules of a grammar within the grammar are analysed together with all others.
    """

    def __init__(self, rules: dict[str, Expression]) -> None:
        self.rules = rules
        self.out: dict[str, Expression] = {}
        self.starts: dict[Constraint, Name] = {}
        self.unfolded: dict[int, tuple[Constraint, Expression]] = {}  # by the identity of constraints

    def run(self) -> dict[str, Expression]:
        fold: Fold[Expression] = Fold(self._step)
        self.out.update((name, body if leaves(body)[1] else fold(body)) for name, body in self.rules.items())
        return self.out

    def _step(self, e: Expression, kids: list[Expression]) -> Expression:
        if isinstance(e, Embedded):
            return self._unfold(e.constraint)
        if isinstance(e, Sequence):
            return e if all(a is b for a, b in zip(kids, e.parts, strict=True)) else sequence(kids)
        if isinstance(e, Choice):
            return e if all(a is b for a, b in zip(kids, e.parts, strict=True)) else choice(kids)
        if isinstance(e, Repetition):
            return e if kids[0] is e.item and e.max != 0 else repetition(kids[0], e.min, e.max)
        return e

    def _unfold(self, constraint: Constraint) -> Expression:
        known = self.unfolded.get(id(constraint))
        if known is None:
            known = self.unfolded[id(constraint)] = constraint, self._unfolded(constraint)
        return known[1]

    def _unfolded(self, constraint: Constraint) -> Expression:
        if isinstance(constraint, Literal):
            return Text(constraint.text)
        if isinstance(constraint, ConstraintSequence):
            return sequence(map(self._unfold, constraint.parts))
        if isinstance(constraint, AnyOf):
            return choice(map(self._unfold, constraint.parts))
        if isinstance(constraint, RepeatedConstraint):
            return repetition(self._unfold(constraint.item), constraint.min, constraint.max)
        if isinstance(constraint, SeparatedBy):
            return separated(self._unfold(constraint.item), self._unfold(constraint.separator), constraint)
        if isinstance(constraint, HasRules) and constraint.tree.lexer is None:
            return self._grammar(constraint)
        return Embedded(constraint)

    def _grammar(self, constraint: HasRules) -> Expression:
        if constraint in self.starts:
            return self.starts[constraint]
        tree = constraint.tree
        taken = self.rules.keys() | self.out.keys()
        number = len(self.starts) + 1
        while any(f"{name}@{number}" in taken for name in tree.rules):
            number += 1
        self.starts[constraint] = Name(f"{tree.start}@{number}")
        self.out.update((f"{name}@{number}", EMPTY) for name in tree.rules)  # the names are taken from here on

        def rename(e: Expression, kids: list[Expression]) -> Expression:
            return Name(f"{e.name}@{number}") if isinstance(e, Name) else self._step(e, kids)

        fold: Fold[Expression] = Fold(rename)
        for name, rule in tree.rules.items():
            self.out[f"{name}@{number}"] = fold(rule.body)
        return self.starts[constraint]
