"""Removes left recursion of any kind, without changing the language.

A derivative of a rule begins at its left, so a rule that begins with itself would never terminate. Such rules are
rewritten by the **left-corner transform** (Rosenkrantz & Lewis 1970), restricted to rules that are left-recursive
(Moore 2000, "Removing Left Recursion from Context-Free Grammars", section 4); all others stay as written. For a
component of rules that begin with each other and a rule ``A`` of it,

    A    -> t β A/B     for every B -> t β   of the component where t is not a rule of it
    A/B  -> α A/C       for every C -> B α   of the component
    A/A  -> (nothing)

``A/B`` is what is missing of an ``A`` when a ``B`` was read. These new rules use each other only at the right end, so
they are an automaton, and usually become repetitions: ``sum -> sum "+" n | n`` becomes ``n ("+" n)*``. Substituting
rules into each other (Paull's algorithm) would be exponential; this is at worst quadratic in the component.

*Hidden* left recursion (``A -> B A "x"`` where ``B`` may be empty) requires removing empty strings first. Within a
component, every rule is read as its non-empty strings, written ``A⁺``; ``A -> B A "x"`` gives ``B⁺ A "x"`` and ``A⁺
"x"`` (and ``"x"``, if ``A`` may be empty), and the empty text is added again where ``A`` is used. Operators at the left
are expanded as far as the left end needs: ``(A "x")* "y"`` begins with ``A "x" (A "x")* "y"`` or with ``"y"``. If ``α``
may be empty (``A -> A A``, ``A -> B``), the step from ``A/B`` to ``A/C`` reads nothing. Such steps are followed in
advance (the closure of an automaton), which also removes cycles ``A -> A``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from guiderail.constraints.constraint import AllOf, Complement, Literal
from guiderail.errors import LimitError
from guiderail.frontends.grammar.analysis import (
    ConstraintFacts,
    components,
    left_names,
    nullable_by,
    nullable_rules,
    productive_rules,
    pruned,
)
from guiderail.frontends.grammar.build import EMPTY, NEVER, Fold, choice, leaves, repetition, sequence
from guiderail.frontends.grammar.linear import Sizes, System
from guiderail.frontends.grammar.syntax import Choice, Embedded, Expression, Name, Repetition, Sequence

__all__ = ["Recursion", "without_left_recursion"]


class Recursion(NamedTuple):
    """Rules that begin with each other.

    Attributes:
        rules: their names.
        kind: ``"direct"`` (a rule with itself), ``"indirect"`` (through other rules), or ``"hidden"`` (after parts
            that may be empty).
    """

    rules: tuple[str, ...]
    kind: str


class _Step(NamedTuple):
    """``to -> source α``: a production that begins with a rule of the component, without the empty text in ``α``."""

    source: str
    to: str
    label: Expression


class _Component:
    """A left-recursive component, its productions cut at their left ends."""

    def __init__(self, names_: Iterable[str]) -> None:
        self.names = set(names_)
        self.begins: dict[str, list[Expression]] = {}  # B: the t β
        self.steps: dict[str, list[_Step]] = {name: [] for name in self.names}  # by source
        self.free: dict[str, set[str]] = {name: set() for name in self.names}  # B -> C where nothing is read
        self.first: dict[str, Expression] = {}  # B: one of its t β

    def closure(self, name: str) -> set[str]:
        found, work = {name}, [name]
        while work:
            for other in self.free[work.pop()]:
                if other not in found:
                    found.add(other)
                    work.append(other)
        return found


def without_left_recursion(
    rules: dict[str, Expression],
    start: str,
    facts: ConstraintFacts,
    max_rules: int,
    order: list[str] | None,
) -> tuple[dict[str, Expression], list[Recursion]]:
    """An equivalent grammar in which no rule begins with itself, and what was rewritten for it.

    Args:
        rules: bodies by name; all productive.
        start: the start rule; only what it needs is in the result.
        facts: facts about embedded constraints.
        max_rules: maximum number of new rules, and steps between them.
        order: the names, each after those that it needs if possible.

    Raises:
        LimitError: ``grammar-size``: more than ``max_rules``.
    """
    removal = _Removal(rules, facts, max_rules, order)
    if not removal.recursions:
        return rules, []
    made = removal.run(start)
    # a rule that matches only the empty text has no other texts
    return pruned(made, productive_rules(made, facts), facts), removal.recursions


class _Removal:
    def __init__(
        self, rules: dict[str, Expression], facts: ConstraintFacts, max_rules: int, order: list[str] | None
    ) -> None:
        self.rules = rules
        self.facts = facts
        self.max_rules = max_rules
        self.size = 0
        self.null_names = nullable_rules(rules, facts, order)
        self.nullable = nullable_by(self.null_names, facts)
        left = {name: left_names(body, self.nullable) & rules.keys() for name, body in rules.items()}
        self.component_of: dict[str, _Component] = {}
        self.recursions: list[Recursion] = []
        self.sizes = Sizes()
        self.full: dict[str, str] = {}  # A -> the name of its non-empty texts
        self.full_of: dict[str, str] = {}
        for group in components(left):
            if len(group) == 1 and group[0] not in left[group[0]]:
                continue
            component = _Component(group)
            self.component_of.update(dict.fromkeys(group, component))
            self.recursions.append(Recursion(tuple(sorted(group)), self._kind(group)))

    def _kind(self, group: list[str]) -> str:
        """The kind of a recursion: hidden only if parts that may be empty must be skipped to see it."""
        if len(group) == 1:
            return "direct" if group[0] in left_names(self.rules[group[0]], lambda e: False) else "hidden"
        inside = set(group)
        # no rule counts as empty here: only leftmost names
        plain = {name: left_names(self.rules[name], lambda e: False) & inside for name in group}
        visible = [c for c in components(plain) if len(c) > 1 or c[0] in plain[c[0]]]
        if sum(map(len, visible)) < len(group):
            return "hidden"
        return "indirect"

    # -- the new grammar, from the start, on demand ------------------------------------------------------------------
    def run(self, start: str) -> dict[str, Expression]:
        out: dict[str, Expression] = {}
        work = [start]
        while work:
            name = work.pop()
            if name in out:
                continue
            made = self._make(name)
            for new, body in made.items():
                out[new] = body
                self._spend(new not in self.rules)
                for used in sorted(leaves(body)[0]):
                    if used not in out and used not in made and (used in self.rules or used in self.full_of):
                        work.append(used)  # no terminal
        return out

    def _spend(self, amount: int) -> None:
        self.size += amount
        if self.size > self.max_rules:
            raise LimitError(
                f"removing left recursion takes more than {self.max_rules:,} rules and steps between them; "
                "write fewer rules that begin with each other, or raise max_rules",
                code="grammar-size",
            )

    def _make(self, name: str) -> dict[str, Expression]:
        if name in self.full_of:
            plain = self.full_of[name]
            if plain in self.component_of:
                return self._goal(plain, name)
            return {name: self.non_empty(self.rules[plain])}
        if name not in self.component_of:
            return {name: self.rules[name]}
        if name in self.null_names:
            return {name: choice([Name(self._full(name)), EMPTY])}
        return self._goal(name, name)

    def _full(self, name: str) -> str:
        """The name of the rule for the non-empty strings of a rule."""
        if name not in self.null_names:
            return name
        if name not in self.full:
            new = self._fresh(f"{name}⁺")
            self.full[name], self.full_of[new] = new, name
        return self.full[name]

    def _fresh(self, name: str) -> str:
        while name in self.rules:
            name += "′"
        return name

    def _goal(self, goal: str, name: str) -> dict[str, Expression]:
        """The bodies of ``goal`` (as its non-empty strings, called ``name``) and of the ``goal/B`` that remain."""
        component = self.component_of[goal]
        if not component.begins:
            self._cut(component)
        if len(component.names) == 1 and goal in component.first:  # the same result as the system below
            labels = [step.label for step in component.steps[goal]]
            self._spend(len(labels))
            again = [repetition(choice(labels), 0, None)] if labels else []
            return {name: sequence([component.first[goal], *again])}
        system = System(self.sizes)
        begin = ""
        system.add_state(begin)
        for state in sorted(component.names):
            system.add_state(state)
        for state in sorted(component.names):
            closure = component.closure(state)
            if goal in closure:
                system.exits[state].append(EMPTY)
            for source in sorted(closure):
                for step in component.steps[source]:
                    system.arrows[state].setdefault(step.to, []).append(step.label)
                    self._spend(1)
            if state in component.first:
                system.arrows[begin].setdefault(state, []).append(component.first[state])
        fresh: dict[str, str] = {begin: name}

        def name_of(state: str) -> str:
            if state not in fresh:
                fresh[state] = self._fresh(f"{goal}/{state}")
            return fresh[state]

        return system.solve([begin], name_of)

    def _cut(self, component: _Component) -> None:
        begins = Fold(self._begins(component.names))
        for name in sorted(component.names):
            own, others = self._decompose(self.rules[name], begins)
            component.begins[name] = others
            if others:
                component.first[name] = choice(others)
            for source, alpha in own:
                if self.nullable(alpha):
                    component.free[source].add(name)
                label = self.non_empty(alpha)
                if label is not NEVER:
                    component.steps[source].append(_Step(source, name, label))
                self._spend(1)

    # -- cutting expressions -------------------------------------------------------------------------------------
    def non_empty(self, e: Expression) -> Expression:
        """The strings of ``e`` that are not empty."""
        return e if not self.nullable(e) else choice(self._decompose(e, lambda part: False)[1])

    def _decompose(
        self, root: Expression, begins_inside: Callable[[Expression], bool]
    ) -> tuple[list[tuple[str, Expression]], list[Expression]]:
        """The non-empty strings of ``root``, by how they begin.

        Args:
            root: an expression.
            begins_inside: whether an expression can begin with a rule of the component.

        Returns:
            The parts that begin with a rule of the component, read as its non-empty strings: the rule and what follows.
            And everything else, as expressions.
        """
        own: list[tuple[str, Expression]] = []
        others: list[Expression] = []
        work: list[tuple[Expression, Expression]] = [(root, EMPTY)]  # a part, and what follows (shared)
        while work:
            e, rest = work.pop()
            if begins_inside(e):
                if isinstance(e, Name):
                    own.append((e.name, rest))
                    continue
            elif not self.nullable(e):
                others.append(sequence([e, rest]))
                continue
            elif isinstance(e, Name):
                others.append(sequence([Name(self._full(e.name)), rest]))
                continue
            # the non-empty texts of e, then rest
            if isinstance(e, Choice):
                work.extend((part, rest) for part in reversed(e.parts))
            elif isinstance(e, Sequence):
                ends = [rest]
                for part in reversed(e.parts[1:]):
                    ends.append(sequence([part, ends[-1]]))
                for part in e.parts:
                    work.append((part, ends.pop()))
                    if not self.nullable(part):
                        break
            elif isinstance(e, Repetition):
                most = None if e.max is None else e.max - 1
                least = 0 if self.nullable(e.item) else max(e.min - 1, 0)
                more = repetition(e.item, least, most)
                work.append((e.item, sequence([more, rest])))
            elif isinstance(e, Embedded):
                filled = AllOf((e.constraint, Complement(Literal(""))))
                if self.facts.productive(filled):
                    others.append(sequence([Embedded(filled), rest]))
        return own, others

    def _begins(self, inside: set[str]) -> Callable[[Expression, list[bool]], bool]:
        def begins(e: Expression, kids: list[bool]) -> bool:
            if isinstance(e, Name):
                return e.name in inside
            if isinstance(e, Sequence):
                for part, kid in zip(e.parts, kids, strict=True):
                    if kid:
                        return True
                    if not self.nullable(part):
                        return False
                return False
            return any(kids)

        return begins
