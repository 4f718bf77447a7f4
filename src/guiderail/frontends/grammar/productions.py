"""Production rules as Python data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from guiderail import _core
from guiderail.constraints.constraint import AnyOf, Constraint, Literal, Repetition, SeparatedBy, Sequence, literal
from guiderail.constraints.sharing import each, walk
from guiderail.errors import CompileError
from guiderail.frontends.grammar.build import EMPTY, choice, repetition, sequence
from guiderail.frontends.grammar.syntax import Embedded, Expression, Grammar, Name, Rule, Text
from guiderail.support.texts import shown

__all__ = ["Productions", "Ref", "read", "read_productions"]

Productions = tuple[tuple[str, Constraint], ...]
"""Rules in their order, each as one constraint with references in it."""


@dataclass(frozen=True, slots=True)
class Ref(Constraint):
    """Refers to a rule by name in production rules: ``{"list": [["[", gr.Ref("item").separated_by(","), "]"]], …}``.

    It works only inside ``gr.grammar({…})``, where you can concatenate, repeat and combine it with ``|`` like any
    constraint.
    """

    name: str

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise CompileError(
                f"Ref takes the name of a rule, not {type(self.name).__name__}", code="grammar-productions"
            )

    def _lower(self, b: _core.Builder) -> int:
        raise CompileError(
            f"gr.Ref({self.name!r}) is used outside production rules, or inside & or ~, where a rule cannot stand; "
            "use it in gr.grammar({…}) as a part, an alternative or an item",
            code="grammar-reference",
        )

    def __repr__(self) -> str:
        return f"Ref({self.name!r})"


def read_productions(rules: Mapping[Any, Any]) -> Productions:
    """Turns Python data into constraints: a rule is a list of alternatives, an alternative a list of parts.

    Raises:
        CompileError: ``grammar-productions``: the data has another form.
    """
    if not rules:
        raise CompileError(
            'there are no rules; write e.g. {"S": [["Hello ", gr.Ref("name")]], "name": ["Ada"]}',
            code="grammar-productions",
        )
    out = []
    for name, alternatives in rules.items():
        if not isinstance(name, str):
            raise CompileError(f"the name of a rule must be a string, not {shown(name)}", code="grammar-productions")
        if isinstance(alternatives, str | Constraint):
            alternatives = [alternatives]
        if not isinstance(alternatives, list | tuple):
            raise CompileError(
                f"rule {name!r} must be a list of its alternatives, not {type(alternatives).__name__}",
                code="grammar-productions",
            )
        out.append((name, AnyOf(tuple(_alternative(name, one) for one in alternatives))))
    return tuple(out)


def _alternative(rule: str, parts: Any) -> Constraint:
    if isinstance(parts, str | Constraint):
        parts = [parts]
    if not isinstance(parts, list | tuple):
        raise CompileError(
            f"an alternative of rule {rule!r} must be a list of its parts, not {type(parts).__name__}",
            code="grammar-productions",
        )
    made = []
    for part in parts:
        if not isinstance(part, str | Constraint):
            raise CompileError(
                f"a part of rule {rule!r} must be a string, a gr.Ref or a constraint, not {type(part).__name__}; "
                "give alternatives inside a sequence a rule of their own",
                code="grammar-productions",
            )
        made.append(literal(part) if isinstance(part, str) else part)
    return Sequence(tuple(made))


def read(rules: Productions, start: str | None = None) -> Grammar:
    """The grammar of production rules; it starts from ``start``, or from the first rule."""
    with walk(_expression):
        made = {name: Rule(name, _expression(body)) for name, body in rules}
    return Grammar(made, start or rules[0][0])


def _expression(c: Constraint) -> Expression:
    if isinstance(c, Ref):
        return Name(c.name)
    if isinstance(c, Literal):
        return Text(c.text)
    if isinstance(c, Sequence):
        return sequence(_expressions(c.parts))
    if isinstance(c, AnyOf):
        return choice(_expressions(c.parts))
    if isinstance(c, Repetition):
        return repetition(_expression(c.item), c.min, c.max)
    if isinstance(c, SeparatedBy):
        item, separator = _expressions((c.item, c.separator))
        return separated(item, separator, c)
    return Embedded(c)


def _expressions(parts: Iterable[Constraint]) -> list[Expression]:
    return each(parts, _expression, _expression)


def separated(item: Expression, separator: Expression, c: SeparatedBy) -> Expression:
    """Items with a separator between each two, repeated as ``c`` says."""
    if c.max == 0:
        return EMPTY
    more = repetition(sequence([separator, item]), max(c.min - 1, 0), None if c.max is None else c.max - 1)
    some = sequence([item, more, repetition(separator, 0, 1) if c.trailing else EMPTY])
    return choice([some, EMPTY]) if c.min == 0 else some
