"""Grammars and schemas within grammars: how they are made, and how a model writes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from guiderail.constraints.constraint import Constraint
from guiderail.frontends.grammar.build import Fold
from guiderail.frontends.grammar.casing import in_one_case
from guiderail.frontends.grammar.syntax import (
    Choice,
    Embedded,
    Expression,
    Grammar,
    Repetition,
    Rule,
    Sequence,
    Terminal,
)

__all__ = ["Nesting", "as_written"]


@dataclass(frozen=True, slots=True)
class Nesting:
    """What a reader needs for ``%lark`` and ``%json``.

    Attributes:
        grammar: makes the constraint of a grammar, from its text and the constraints that it names.
        schema_options: of ``json_schema``.
    """

    grammar: Callable[[str, dict[str, Constraint]], Constraint]
    schema_options: tuple[tuple[str, Any], ...] = ()


def as_written(tree: Grammar) -> Grammar:
    """The grammar with each constraint within as a model writes it, and keywords in one case."""

    def step(e: Expression, kids: list[Expression]) -> Expression:
        if isinstance(e, Embedded):
            return Embedded(e.constraint.as_written())
        if isinstance(e, Sequence | Choice):
            return type(e)(tuple(kids))
        return Repetition(kids[0], e.min, e.max) if isinstance(e, Repetition) else e

    def terminal(one: Terminal) -> Terminal:
        return one if one.constraint is None else replace(one, constraint=one.constraint.as_written())

    fold: Fold[Expression] = Fold(step)
    rules = {name: Rule(name, fold(rule.body), rule.span) for name, rule in tree.rules.items()}
    lexer = tree.lexer
    if lexer is not None:
        lexer = replace(lexer, terminals=tuple(map(terminal, lexer.terminals)))
    return in_one_case(replace(tree, rules=rules, lexer=lexer))
