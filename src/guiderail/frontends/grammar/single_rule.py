"""One rule of a grammar as a constraint, so that it can be bounded."""

from __future__ import annotations

from dataclasses import dataclass, field

from guiderail import _core
from guiderail.constraints.constraint import Constraint
from guiderail.frontends.grammar.lower import lower
from guiderail.frontends.grammar.prepare import Prepared, prepare
from guiderail.frontends.grammar.syntax import Grammar, Rule

__all__ = ["SingleRule"]


@dataclass(frozen=True, slots=True)
class SingleRule(Constraint):
    """The strings of one rule of a grammar without a lexer."""

    rules: tuple[Rule, ...]
    start: str
    _prepared: list[Prepared] = field(init=False, repr=False, compare=False, default_factory=list)  # once it is needed

    def _lower(self, b: _core.Builder) -> int:
        if not self._prepared:
            rules = {rule.name: rule for rule in self.rules}
            self._prepared.append(prepare(Grammar(rules, self.start)))
        return lower(self._prepared[0], b)

    def __repr__(self) -> str:
        return f"rule({self.start!r})"
