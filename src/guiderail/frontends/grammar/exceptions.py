"""``A - B``: the strings of A that are not in B, for notations that have it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from guiderail.constraints.constraint import AllOf, AnyOf, Complement, Constraint, Literal, Repetition, Sequence
from guiderail.frontends.grammar import syntax
from guiderail.frontends.grammar.build import NEVER, Fold, children, choice, names, repetition, sequence
from guiderail.frontends.grammar.reader import Reader, finish_grammar
from guiderail.frontends.grammar.syntax import Characters, Embedded, Expression, Grammar, Name, Rule, Span, Text
from guiderail.frontends.regex import regex
from guiderail.support.work import spend

__all__ = ["ReaderWithExceptions"]

_NAME = 30  # steps of a name that is written out
_MOST_PARTS = 64  # of a sequence that may be empty


@dataclass(frozen=True, slots=True)
class _Pending:
    """``left - right``, to be decided when all rules are known. Stands for a Name in trees until then."""

    left: Expression
    right: Expression
    span: Span

    @property
    def of_empty(self) -> bool:
        """Whether only the empty text is excluded."""
        return isinstance(self.right, Text) and not self.right.text


class ReaderWithExceptions(Reader):
    """A reader of a notation in which ``A - B`` can be written."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.exceptions = Exceptions(self.refuse)

    def finished(self, rules: dict[str, Rule], start: str | None) -> Grammar:
        """The grammar of some rules, which begins with ``start``, by default the first."""
        tree = finish_grammar(self.text, rules, start or next(iter(rules), ""), self.notation)
        rules = self.exceptions.resolve(rules)
        return Grammar(rules, tree.start, None, self.text, frozenset(self.exceptions.written_out))


class Exceptions:
    """Collects exceptions while rules are read, and turns them into constraints when all rules are known.

    Both sides must be regular: they may use rules, as long as no rule among these needs itself. Single characters are
    subtracted as sets. The empty text is taken out of any repetition, as in ``{ statement }-``.
    """

    def __init__(self, refuse: Callable[[str, int, int], object]) -> None:
        self.refuse = refuse
        self.pending: dict[str, _Pending] = {}
        self.written_out: set[str] = set()  # rules used in exceptions

    def add(self, left: Expression, right: Expression, span: Span) -> Expression:
        """A placeholder for ``left - right`` until :meth:`resolve`."""
        name = f"\0{len(self.pending)}"  # no name of a rule
        self.pending[name] = _Pending(left, right, span)
        return Name(name, span)

    def resolve(self, rules: dict[str, Rule]) -> dict[str, Rule]:
        """The rules with every exception in place."""
        if not self.pending:
            return rules
        written = _Written({name: rule.body for name, rule in rules.items()}, self.pending)
        done: dict[str, Expression] = {}
        nonempty: _Nonempty | None = None
        for name, at in self.pending.items():
            fault, inner = written.out(name)
            if not fault:
                done[name] = written.known[name]
                continue
            found = None
            if at.of_empty:
                nonempty = nonempty or _Nonempty(rules, self.pending)
                found = nonempty(at.left)
            if found is None:
                self.refuse(
                    "both sides of an exception must be free of recursion; "
                    f"{fault!r} refers back to itself or is not defined",
                    *self.pending.get(inner, at).span,
                )
                raise AssertionError
            done[name] = _replace(found, done)  # those within it are older
        self.written_out |= written.known.keys() & rules.keys()
        return {key: Rule(rule.name, _replace(rule.body, done), rule.span) for key, rule in rules.items()}


def _one_character(e: Expression, kids: list[Characters | None]) -> Characters | None:
    """If ``e`` is one character of a set: that set."""
    if isinstance(e, Characters):
        return e
    if isinstance(e, Text) and len(e.text) == 1:
        return _set(e.text)
    if isinstance(e, syntax.Choice) and kids and all(kid is not None for kid in kids):
        union = kids[0].characters  # type: ignore[union-attr]
        for kid in kids[1:]:
            union = union | kid.characters  # type: ignore[union-attr]
        return Characters(union)
    return None


def _set(text: str) -> Characters:
    from guiderail import _core

    return Characters(_core.CharSet([(ord(text), ord(text))]))


class _Nonempty:
    """Expressions without the empty text, whatever rules they name.

    Attributes:
        nullable: rules and exceptions that may match the empty text; of exceptions, perhaps some that do not.
    """

    def __init__(self, rules: dict[str, Rule], pending: dict[str, _Pending]) -> None:
        self.nullable: set[str] = set()
        bodies = {name: rule.body for name, rule in rules.items()}
        bodies |= {name: at.left for name, at in pending.items() if not at.of_empty}
        users: dict[str, list[str]] = {}
        for name, body in bodies.items():
            for used in names(body):
                users.setdefault(used.name, []).append(name)
        work = list(bodies)
        while work:
            name = work.pop()
            if name not in self.nullable and Fold(self.may_be_empty)(bodies[name]):
                self.nullable.add(name)
                work += users.get(name, ())
        self.empty = Fold(self.may_be_empty)
        self.fold: Fold[Expression | None] = Fold(self.without)

    def __call__(self, e: Expression) -> Expression | None:
        """``e`` without the empty text; None if a rule that may be empty would have to be written out."""
        return self.fold(e)

    def may_be_empty(self, e: Expression, kids: list[bool]) -> bool:
        if isinstance(e, Text):
            return not e.text
        if isinstance(e, syntax.Sequence):
            return all(kids)
        if isinstance(e, syntax.Choice):
            return any(kids)
        if isinstance(e, syntax.Repetition):
            return kids[0] or not e.min
        return isinstance(e, Embedded) or (isinstance(e, Name) and e.name in self.nullable)

    def without(self, e: Expression, kids: list[Expression | None]) -> Expression | None:
        if not self.empty(e):
            return e
        found = [kid for kid in kids if kid is not None]
        if len(found) < len(kids):
            return None
        if isinstance(e, Text):
            return NEVER
        if isinstance(e, syntax.Repetition):
            return repetition(found[0], 1, e.max)
        if isinstance(e, syntax.Choice):
            return choice(found)
        if isinstance(e, syntax.Sequence) and len(found) <= _MOST_PARTS:
            # the first part that is not empty, and the rest
            return choice([sequence([kid, *e.parts[i + 1 :]]) for i, kid in enumerate(found)])
        return None


class _Written:
    """Exceptions, and the rules that they use, without names.

    Each is written out once, after those that it names, and what is found for a part of it holds for all of them.

    Attributes:
        known: by name, what has been written out.
    """

    def __init__(self, rules: dict[str, Expression], pending: dict[str, _Pending]) -> None:
        self.rules, self.pending = rules, pending
        self.known: dict[str, Expression] = {}
        self.characters: Fold[Characters | None] = Fold(_one_character)
        self.constraints: Fold[Constraint] = Fold(_constraint)

    def out(self, wanted: str) -> tuple[str, str]:
        """Writes out an exception. If a rule in it is recursive or missing: its name, and the exception around it."""
        path: dict[str, None] = {}
        work: list[tuple[str, bool]] = [(wanted, False)]
        while work:
            name, ready = work.pop()
            if ready:
                del path[name]
                self.known[name] = self._written(name)
            elif name in path or not (name in self.rules or name in self.pending):
                around = next(one for one in reversed(path) if one in self.pending)
                named = name if name in self.rules or name not in self.pending else self._rule_on(path)
                return named, around
            elif name not in self.known:
                spend(_NAME)
                path[name] = None
                work.append((name, True))
                work.extend((inner, False) for inner in self._names(name))
        return "", ""

    def _rule_on(self, path: dict[str, None]) -> str:
        """The last rule on a path that leads back to an exception: without one, it could not."""
        return next(one for one in reversed(path) if one in self.rules)

    def _names(self, name: str) -> list[str]:
        at = self.pending.get(name)
        bodies = (self.rules[name],) if at is None else (at.left, at.right)
        return [one.name for body in bodies for one in names(body)]

    def _written(self, name: str) -> Expression:
        at = self.pending.get(name)
        if at is None:
            return _replace(self.rules[name], self.known)
        left, right = _replace(at.left, self.known), _replace(at.right, self.known)
        a, b = self.characters(left), self.characters(right)
        if a is not None and b is not None:
            return Characters(a.characters - b.characters)
        return Embedded(AllOf((self.constraints(left), Complement(self.constraints(right)))))


def _replace(e: Expression, bodies: dict[str, Expression]) -> Expression:
    def step(e: Expression, kids: list[Expression]) -> Expression:
        if isinstance(e, Name):
            return bodies.get(e.name, e)
        if isinstance(e, syntax.Sequence):
            return sequence(kids)
        if isinstance(e, syntax.Choice):
            return choice(kids)
        if isinstance(e, syntax.Repetition):
            return syntax.Repetition(kids[0], e.min, e.max)
        return e

    fold: Fold[Expression] = Fold(step)
    return fold(e)


def _constraint(e: Expression, kids: list[Constraint]) -> Constraint:
    """A part of a tree without names as a constraint."""
    if isinstance(e, Text):
        return Literal(e.text)
    if isinstance(e, Characters):
        ranges = "".join(f"\\U{low:08X}-\\U{high:08X}" for low, high in e.characters.ranges())
        return regex(f"[{ranges}]") if ranges else AnyOf(())
    if isinstance(e, syntax.Sequence):
        return Sequence(tuple(kids))
    if isinstance(e, syntax.Choice):
        return AnyOf(tuple(kids))
    if isinstance(e, syntax.Repetition):
        return Repetition(kids[0], e.min, e.max)
    assert isinstance(e, Embedded) and not children(e)
    return e.constraint
