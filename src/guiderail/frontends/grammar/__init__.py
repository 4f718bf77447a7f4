"""Grammars: Lark, GBNF, EBNF and production rules, read into one form and lowered by one pipeline.

``syntax`` is that form. Each notation has a reader that makes it (``gbnf``, ``ebnf_w3c``, ``ebnf_iso``,
``productions``, ``lark``). Then follow ``analysis`` (properties of the rules) → ``left_recursion`` → ``linear``
(recursion at the right end as repetition), all called by ``prepare`` → ``lower`` (rules to an expression of the core).
"""

from guiderail.frontends.grammar.constraint import GrammarConstraint, grammar
from guiderail.frontends.grammar.prepare import GrammarReport
from guiderail.frontends.grammar.productions import Ref

__all__ = ["GrammarConstraint", "GrammarReport", "Ref", "grammar"]
