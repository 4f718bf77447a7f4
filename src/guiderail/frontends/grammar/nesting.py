"""Grammars and schemas within grammars: how they are made, and how a model writes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from guiderail.constraints.constraint import Constraint
from guiderail.frontends.grammar.build import replacing
from guiderail.frontends.grammar.casing import in_one_case
from guiderail.frontends.grammar.syntax import (
    Embedded,
    Grammar,
    Rule,
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

    def terminal(one: Terminal) -> Terminal:
        return one if one.constraint is None else replace(one, constraint=one.constraint.as_written())

    fold = replacing(lambda e: Embedded(e.constraint.as_written()) if isinstance(e, Embedded) else e)
    rules = {name: Rule(name, fold(rule.body), rule.span) for name, rule in tree.rules.items()}
    lexer = tree.lexer
    if lexer is not None:
        lexer = replace(lexer, terminals=tuple(map(terminal, lexer.terminals)))
    return in_one_case(replace(tree, rules=rules, lexer=lexer))
