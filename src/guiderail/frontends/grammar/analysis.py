"""Properties of a grammar's rules: which are defined, nullable, productive, reachable, left-recursive.

Nullable and productive are least fixed points over the rules (Hopcroft & Ullman 1979, section 4.4), computed with a
worklist of the rules whose operands changed, so that thousands of rules cost little more than their size.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, KeysView, Mapping
from operator import is_
from typing import cast

from guiderail import _core
from guiderail.constraints.constraint import (
    AllOf,
    AnyOf,
    AnyText,
    Choice as TextChoice,
    Complement,
    Constraint,
    Literal,
    Repetition as RepeatedConstraint,
    SeparatedBy,
    Sequence as ConstraintSequence,
    SpecialToken,
    SubstringOf,
    TextUntil,
)
from guiderail.constraints.sharing import lowered, walk
from guiderail.errors import CompileError, LimitError, PatternError
from guiderail.frontends.grammar.build import NESTED, NEVER, TRAP, Fold, choice, leaves, names, repetition, sequence
from guiderail.frontends.grammar.syntax import (
    Characters,
    Choice,
    Embedded,
    Expression,
    Grammar,
    Name,
    Repetition,
    Sequence,
    Text,
)
from guiderail.support.suggestions import resembling
from guiderail.support.work import out_of_work, spend

__all__ = [
    "ConstraintFacts",
    "Decision",
    "check_names",
    "components",
    "left_names",
    "meant",
    "nullable_by",
    "nullable_leaf",
    "nullable_rules",
    "productive_rules",
    "pruned",
    "reachable_rules",
    "refuse_unproductive",
]

Rules = dict[str, Expression]

_RULE = 20  # steps that a pass over the rules takes for each of them


def check_names(grammar: Grammar) -> None:
    """Rejects names that are neither a rule nor a terminal.

    Raises:
        PatternError: ``grammar-undefined``; the span is the position of the name.
    """
    terminals = {t.name for t in grammar.lexer.terminals} if grammar.lexer else set()
    known = grammar.rules.keys() | terminals
    for rule in grammar.rules.values():
        if leaves(rule.body)[0] <= known:
            continue
        for name in names(rule.body):
            if name.name not in known:
                raise PatternError(
                    f"there is no rule {name.name!r}, which rule {rule.name!r} uses{meant(name.name, known)}",
                    code="grammar-undefined",
                    source=grammar.source,
                    span=name.span,
                )
    if grammar.start not in grammar.rules:
        raise PatternError(
            f"there is no rule {grammar.start!r} to start from{started(grammar.start, grammar.rules)}",
            code="grammar-start",
            source=grammar.source,
            span=None,
        )


def started(name: str, known: Iterable[str]) -> str:
    """The end of a message about a start rule that does not exist."""
    near = resembling(name, known)
    some = next(iter(known), None) if near is None else near
    example = "…" if some is None else repr(str(some))
    return f"; pass the rule to start from, such as start={example}, or rename it to {name!r}"


def meant(name: str, known: Iterable[str]) -> str:
    """The end of the message about a name that is not defined."""
    close = resembling(name, known)
    return f"; did you mean {close!r}?" if close else "; define it, or correct the name"


class ConstraintFacts:
    """What an embedded constraint contributes to a grammar: may it be empty, and does it have any text?"""

    def __init__(self) -> None:
        self._builder: _core.Builder | None = None
        self._walk: walk | None = None  # of the builder: many constraints of a grammar share their parts
        self._handles: dict[Constraint, int] = {}
        self._empty: dict[Constraint, bool] = {}
        self._known_plain: dict[int, Constraint] = {}

    def nullable(self, constraint: Constraint) -> bool:
        """Whether the empty text is one of its strings."""
        known = self._empty.get(constraint)
        if known is None:
            if self._plain(constraint):
                handle = self._handle(constraint)
                known = cast(_core.Builder, self._builder).is_nullable(handle)
            elif _always_some(constraint):
                known = False
            else:
                known = constraint.matches("")
            self._empty[constraint] = known
        return known

    def productive(self, constraint: Constraint) -> bool:
        """Whether it has any text; True if that is too hard to decide."""
        if isinstance(constraint, Literal | SpecialToken | AnyText | TextUntil | SubstringOf | TextChoice):
            return True
        if not self._plain(constraint):
            return True
        handle = self._handle(constraint)
        builder = cast(_core.Builder, self._builder)
        try:
            return handle != builder.EMPTY and not builder.is_empty(handle)
        except LimitError as error:
            if out_of_work(error):
                raise
            return True  # the guide decides it later, within its own fuel

    def _handle(self, constraint: Constraint) -> int:
        if self._builder is None or self._walk is None:
            self._builder = _core.Builder()
            self._walk = walk(self._builder)
        if constraint not in self._handles:
            with self._walk:
                self._handles[constraint] = lowered((constraint,), self._builder)[0]
        return self._handles[constraint]

    def _plain(self, constraint: Constraint) -> bool:
        """Whether it lowers without rules of its own, so that questions about its handle have exact answers."""
        from guiderail.frontends.regex import Regex

        leaves = Literal | TextChoice | AnyText | TextUntil | SubstringOf | SpecialToken | Regex
        known, stack, seen = self._known_plain, [constraint], {id(constraint): constraint}
        while stack:
            one = stack.pop()
            if id(one) in known or isinstance(one, leaves):
                continue
            if isinstance(one, ConstraintSequence | AnyOf | AllOf):
                parts = one.parts
            elif isinstance(one, Complement):
                parts = (one.operand,)
            elif isinstance(one, RepeatedConstraint):
                parts = (one.item,)
            elif isinstance(one, SeparatedBy):
                parts = (one.item, one.separator)
            else:
                return False
            spend(2 * len(parts))
            for part in parts:
                if id(part) not in seen:
                    seen[id(part)] = part
                    stack.append(part)
        known.update(seen)
        return True


def _always_some(constraint: Constraint) -> bool:
    """Whether it is JSON: never empty, and expensive to compile just to learn that."""
    options = getattr(constraint, "options", None)
    return getattr(options, "notation", None) == "json"


class Decision:
    """Decides a property that a sequence has if all its parts have it, and a choice if one has it.

    Answers for parts are cached forever: what names mean must not change.

    Args:
        of_name: whether a name has the property.
        of_leaf: whether an expression without parts that is not a name has it.
    """

    def __init__(self, of_name: Callable[[str], bool], of_leaf: Callable[[Expression], bool]) -> None:
        self.of_name, self.of_leaf = of_name, of_leaf
        self.known: dict[int, tuple[Expression, bool]] = {}

    def __call__(self, e: Expression, depth: int = 0) -> bool:
        if type(e) is Name:
            return self.of_name(e.name)
        if type(e) is Sequence or type(e) is Choice:
            known = self.known.get(id(e))
            if known is not None:
                return known[1]
            spend(25)
            if depth > NESTED:
                value = Fold(self._step)(e)
            else:
                one = type(e) is Choice
                value = not one
                for part in e.parts:
                    if self(part, depth + 1) is one:
                        value = one
                        break
            self.known[id(e)] = e, value
            return value
        if type(e) is Repetition:
            if depth > NESTED:
                return Fold(self._step)(e)
            return e.min == 0 or self(e.item, depth + 1)
        return self.of_leaf(e)

    def _step(self, e: Expression, kids: list[bool]) -> bool:
        if isinstance(e, Sequence):
            return all(kids)
        if isinstance(e, Choice):
            return any(kids)
        if isinstance(e, Repetition):
            return e.min == 0 or kids[0]
        return self.of_name(e.name) if isinstance(e, Name) else self.of_leaf(e)


# -- least fixed points ----------------------------------------------------------------------------------------------
def _least(
    rules: Mapping[str, Expression], holds: Callable[[Expression, set[str]], bool], order: list[str] | None
) -> set[str]:
    """The smallest set of names such that ``holds`` of a body says whether its name is in the set.

    ``order``: the names, preferably each after those that it needs.
    """
    found: set[str] = set()
    place: dict[str, int] = {}
    rest: list[str] = []
    for name in rules if order is None else order:
        spend(_RULE)
        if holds(rules[name], found):
            found.add(name)
        else:
            rest.append(name)
        place[name] = len(place)
    # those of the rest whose operands changed after they were examined, and then their users
    users: dict[str, list[str]] = {name: [] for name in rest}
    work = []
    for name in rest:
        late = False
        for used in leaves(rules[name])[0]:
            if used in users:
                users[used].append(name)
            elif used in found:
                late = late or place[used] > place[name]
        if late:
            work.append(name)
    waiting = set(work)
    while work:
        name = work.pop()
        spend(_RULE)
        waiting.discard(name)
        if name not in found and holds(rules[name], found):
            found.add(name)
            for user in users[name]:
                if user not in found and user not in waiting:
                    waiting.add(user)
                    work.append(user)
    return found


def nullable_rules(rules: Mapping[str, Expression], facts: ConstraintFacts, order: list[str] | None = None) -> set[str]:
    """The rules that match the empty text. Names without a rule (terminals) never do.

    ``order``: the names, preferably each after those that it needs, which is faster.
    """
    decisions: list[Decision] = []

    def holds(body: Expression, found: set[str]) -> bool:
        if not decisions:
            decisions.append(nullable_by(found, facts))
        decisions[0].known.clear()  # the answers may have changed
        return decisions[0](body)

    return _least(rules, holds, order)


def nullable_by(found: set[str], facts: ConstraintFacts) -> Decision:
    """Whether an expression matches the empty text, if ``found`` are the rules that do."""

    return Decision(found.__contains__, lambda e: nullable_leaf(e, facts))


def nullable_leaf(e: Expression, facts: ConstraintFacts) -> bool:
    """Whether an expression without parts that is not a name matches the empty text."""
    if isinstance(e, Text):
        return not e.text
    return isinstance(e, Embedded) and facts.nullable(e.constraint)


def productive_rules(
    rules: Mapping[str, Expression], facts: ConstraintFacts, order: list[str] | None = None
) -> set[str]:
    """The rules that have some text. Names without a rule (terminals) always do. ``order``: see `nullable_rules`."""

    def holds(body: Expression, found: set[str]) -> bool:
        if type(body) is Choice:
            for part in body.parts:
                if type(part) is Name and (part.name in found or part.name not in rules):
                    return True
        used, plain = leaves(body)
        if plain and all([name in found or name not in rules for name in used]):
            return True
        return _productive_by(rules, found, facts)(body)

    return _least(rules, holds, order)


def _productive_by(rules: Mapping[str, Expression], found: set[str], facts: ConstraintFacts) -> Decision:
    def leaf(e: Expression) -> bool:
        if isinstance(e, Characters):
            return len(e.characters) > 0
        return not isinstance(e, Embedded) or facts.productive(e.constraint)

    return Decision(lambda name: name in found or name not in rules, leaf)


def pruned(rules: Rules, productive: set[str], facts: ConstraintFacts, *, traps: bool = False) -> Rules:
    """The productive rules, without the alternatives that can never finish.

    With ``traps``, such alternatives are kept as far as they go and end in ``TRAP``: for a lexer that knows what may
    come next, their beginnings are allowed.
    """
    alive = _productive_by(rules, productive, facts)
    inside: set[str] = set()  # rules that can never finish, being put in the place of their names
    trapped: dict[str, Expression] = {}

    def prune(e: Expression, kids: list[Expression]) -> Expression:
        if isinstance(e, Sequence):
            if traps and any(barren(kid) for kid in kids):
                at = next(i for i, kid in enumerate(kids) if barren(kid))
                return NEVER if NEVER in kids[: at + 1] else sequence(kids[: at + 1])
            return e if all(map(is_, kids, e.parts)) else sequence(kids)
        if isinstance(e, Choice):
            if all(map(is_, kids, e.parts)):
                return e
            left = [kid for kid in kids if kid is not NEVER and kid != TRAP]
            return choice(left) if left or TRAP not in kids else TRAP
        if isinstance(e, Repetition):
            return e if kids[0] is e.item else repetition(kids[0], e.min, e.max)
        if alive(e):
            return e
        return trap(e.name) if traps and isinstance(e, Name) and e.name in rules else NEVER

    def trap(name: str) -> Expression:
        if name in inside:
            return TRAP
        if name not in trapped:
            inside.add(name)
            trapped[name] = Fold(prune)(rules[name])
            inside.remove(name)
        return trapped[name]

    fold = Fold(prune)
    dead = rules.keys() - productive

    def whole(body: Expression) -> bool:
        used, plain = leaves(body)
        return plain and used.isdisjoint(dead)

    return {name: body if whole(body) else fold(body) for name, body in rules.items() if name in productive}


def barren(e: Expression) -> bool:
    """Whether every path through ``e`` ends in ``TRAP``."""
    kind = type(e)
    if kind is Name:
        return e.name == TRAP.name  # type: ignore[union-attr]
    if isinstance(e, Sequence):
        return barren(e.parts[-1])
    if isinstance(e, Choice):
        return bool(e.parts) and all(map(barren, e.parts))
    return isinstance(e, Repetition) and e.min > 0 and barren(e.item)


def reachable_rules(rules: Mapping[str, Expression], start: str) -> KeysView[str]:
    """The rules that ``start`` needs, itself included. The order is the same in every process."""
    found, work = {start: None}, [start]
    while work:
        used = leaves(rules[work.pop()])[0]
        spend(_RULE + 2 * len(used))
        for name in sorted(used):
            if name in rules and name not in found:
                found[name] = None
                work.append(name)
    return found.keys()


# -- what comes first ------------------------------------------------------------------------------------------------
def left_names(e: Expression, nullable: Callable[[Expression], bool]) -> set[str]:
    """The names that can occur at the left end of ``e``, also after parts that may be empty."""
    found: set[str] = set()
    stack, seen = [e], set()
    while stack:
        here = stack.pop()
        if isinstance(here, Name):
            found.add(here.name)
        elif id(here) not in seen:
            spend(25)
            seen.add(id(here))
            if isinstance(here, Sequence):
                for part in here.parts:
                    stack.append(part)
                    if not nullable(part):
                        break
            elif isinstance(here, Choice):
                stack.extend(here.parts)
            elif isinstance(here, Repetition):
                stack.append(here.item)
    return found


def components(graph: Mapping[str, Collection[str]]) -> list[list[str]]:
    """Strongly connected components, each after those that it needs (Tarjan 1972), without recursion.

    The order is the same in every process, although names come in sets.
    """
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    on_stack: set[str] = set()
    stack: list[str] = []
    found: list[list[str]] = []
    for root, edges in graph.items():
        spend(_RULE + 5 * len(edges))
        if root in index:
            continue
        work = [(root, iter(sorted(graph[root])))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            name, rest = work[-1]
            for other in rest:
                if other not in graph:
                    continue
                if other not in index:
                    index[other] = low[other] = len(index)
                    stack.append(other)
                    on_stack.add(other)
                    work.append((other, iter(sorted(graph[other]))))
                    break
                if other in on_stack:
                    low[name] = min(low[name], index[other])
            else:
                work.pop()
                if work:
                    above = work[-1][0]
                    low[above] = min(low[above], low[name])
                if low[name] == index[name]:
                    cut = _rindex(stack, name)
                    found.append(stack[cut:])
                    for member in stack[cut:]:
                        on_stack.discard(member)
                    del stack[cut:]
    return found


def _rindex(stack: list[str], name: str) -> int:
    at = len(stack) - 1
    while stack[at] != name:
        at -= 1
    return at


def refuse_unproductive(grammar: Grammar, productive: set[str], ignored: list[str], taken: list[str]) -> None:
    """Rejects a grammar whose start rule can never finish.

    Args:
        grammar: the grammar.
        productive: the rules that can finish.
        ignored: the ignored terminals that rules name.
        taken: the terminals that rules name, and of which ignored ones take every text.

    Raises:
        CompileError: ``grammar-unproductive``.
    """
    if grammar.start in productive:
        return
    needed = "a rule that never ends, or matches nothing"
    way_out = "add an alternative that ends"
    if ignored:
        needed += f", or a terminal that is ignored ({', '.join(ignored)})"
    if taken:
        needed += f", or a terminal whose texts are ignored before it is tried ({', '.join(taken)})"
        named = "NAME" if taken[0].startswith("__") else taken[0]
        way_out = f"give such a terminal a priority, as in {named}.1: …, or do not ignore its texts"
    raise CompileError(
        f"rule {grammar.start!r} can never finish: every alternative needs {needed}; {way_out}",
        code="grammar-unproductive",
        source=grammar.source,
        span=grammar.rules[grammar.start].span,
    )
