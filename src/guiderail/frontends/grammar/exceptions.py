"""``A - B``: the strings of A that are not in B, for notations that have it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from guiderail.constraints.constraint import AllOf, AnyOf, Complement, Constraint, Literal, Repetition, Sequence
from guiderail.frontends.grammar import syntax
from guiderail.frontends.grammar.build import Fold, children, choice, names, sequence
from guiderail.frontends.grammar.reader import Reader, finish_grammar
from guiderail.frontends.grammar.syntax import Characters, Embedded, Expression, Grammar, Name, Rule, Span, Text
from guiderail.frontends.regex import regex

__all__ = ["ReaderWithExceptions"]


@dataclass(frozen=True, slots=True)
class _Pending:
    """``left - right``, to be decided when all rules are known. Stands for a Name in trees until then."""

    left: Expression
    right: Expression
    span: Span


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
    subtracted as sets.
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
        done: dict[str, Expression] = {}
        for name in self.pending:  # inner ones come first
            done[name] = self._decide(self.pending[name], rules, done)
        return {key: Rule(rule.name, _replace(rule.body, done), rule.span) for key, rule in rules.items()}

    def _decide(self, at: _Pending, rules: dict[str, Rule], done: dict[str, Expression]) -> Expression:
        written = _Written(rules, done)
        left, right = written.out(at.left), written.out(at.right)
        self.written_out |= written.known.keys() & rules.keys()
        if left is None or right is None:
            self.refuse(
                "both sides of an exception must be free of recursion; "
                f"{written.fault or 'one of them'} refers back to itself or is not defined",
                *at.span,
            )
            raise AssertionError
        a, b = _characters(left), _characters(right)
        if a is not None and b is not None:
            return Characters(a.characters - b.characters)
        return Embedded(AllOf((as_constraint(left), Complement(as_constraint(right)))))


def _characters(e: Expression) -> Characters | None:
    """If ``e`` is one character of a set: that set."""
    if isinstance(e, Characters):
        return e
    if isinstance(e, Text) and len(e.text) == 1:
        return _set(e.text)
    if isinstance(e, syntax.Choice) and e.parts:
        parts = [_characters(part) for part in e.parts]
        if all(part is not None for part in parts):
            union = parts[0].characters  # type: ignore[union-attr]
            for part in parts[1:]:
                union = union | part.characters  # type: ignore[union-attr]
            return Characters(union)
    return None


def _set(text: str) -> Characters:
    from guiderail import _core

    return Characters(_core.CharSet([(ord(text), ord(text))]))


class _Written:
    """Replaces the rules in expressions by their bodies; None if a rule refers back to itself or does not exist."""

    def __init__(self, rules: dict[str, Rule], done: dict[str, Expression]) -> None:
        self.rules, self.done = rules, done
        self.known: dict[str, Expression | None] = {}
        self.fault = ""

    def out(self, e: Expression) -> Expression | None:
        path: list[str] = []
        work: list[tuple[str, bool]] = [(n.name, False) for n in names(e)]
        while work:
            name, ready = work.pop()
            if ready:
                path.remove(name)
                self.known[name] = self._one(self._body(name))
            elif name in path:
                self.fault = self.fault or repr(name)
                return None
            elif name not in self.known:
                body = self._body(name)
                if body is None:
                    self.fault = self.fault or repr(name)
                    return None
                path.append(name)
                work.append((name, True))
                work.extend((n.name, False) for n in names(body))
        return self._one(e)

    def _body(self, name: str) -> Expression | None:
        if name in self.done:
            return self.done[name]
        return self.rules[name].body if name in self.rules else None

    def _one(self, e: Expression | None) -> Expression | None:
        if e is None or any(self.known.get(n.name) is None for n in names(e)):
            return None
        return _replace(e, {n.name: self.known[n.name] for n in names(e)})  # type: ignore[misc]


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


def as_constraint(e: Expression) -> Constraint:
    """A tree without names as a constraint."""

    def step(e: Expression, kids: list[Constraint]) -> Constraint:
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

    fold: Fold[Constraint] = Fold(step)
    return fold(e)
