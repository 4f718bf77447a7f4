"""One rule of a grammar as a constraint, so that it can be bounded."""

from __future__ import annotations

from dataclasses import dataclass

from guiderail import _core
from guiderail.constraints.constraint import Constraint
from guiderail.frontends.grammar.lower import lower
from guiderail.frontends.grammar.prepare import prepare
from guiderail.frontends.grammar.syntax import Grammar, Rule

__all__ = ["RulesFrom"]

_MAX_RULES = 20_000


@dataclass(frozen=True, slots=True)
class RulesFrom(Constraint):
    """The texts of one rule of a grammar without a lexer."""

    rules: tuple[Rule, ...]
    start: str

    def _lower(self, b: _core.Builder) -> int:
        rules = {rule.name: rule for rule in self.rules}
        return lower(prepare(Grammar(rules, self.start), _MAX_RULES), b)

    def __repr__(self) -> str:
        return f"rule({self.start!r})"
