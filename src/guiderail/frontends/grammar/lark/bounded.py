"""Texts of a rule that are bounded in tokens or characters, or that end without an end mark."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from guiderail.constraints.constraint import Constraint, Literal, Sequence as Both
from guiderail.errors import CompileError
from guiderail.frontends.grammar.bounds import BOUND, WAY_OUT, shortest, up_to, within
from guiderail.frontends.grammar.lark.attributes import Attributes
from guiderail.frontends.grammar.lark.dialect import Bounded
from guiderail.frontends.grammar.lark.terms import TermParser
from guiderail.frontends.grammar.lark.tokens import Statement, Token

__all__ = ["bounded"]

_DEEPEST = 100  # depth of nested rules


def bounded(
    what: Bounded,
    source: str,
    find: Callable[[Token], Constraint],
    statements: Sequence[Statement],
    part: Callable[[Token, int], tuple[Constraint, int]],
) -> Constraint:
    """The texts of a bounded rule. Inside it there is no lexer: rules that it names are read character by character.

    Args:
        what: the rule.
        source: the grammar.
        find: returns the constraint of a terminal.
        statements: the statements of the grammar.
        part: returns the constraint of ``%json``, ``%lark``, ``@name`` or ``<token>``, and where it ends in the source.
    """
    rules = {s.name.text: s for s in statements if s.name is not None and not s.defines_terminal}
    return _Bodies(source, find, rules, part).of(what, (what.rule,))


class _Bodies:
    def __init__(
        self,
        source: str,
        find: Callable[[Token], Constraint],
        rules: Mapping[str, Statement],
        part: Callable[[Token, int], tuple[Constraint, int]],
    ) -> None:
        self.source, self.find, self.rules, self.part = source, find, rules, part
        self.read: dict[str, Constraint] = {}  # rules without recursion, whichever rule names them

    def of(self, what: Bounded, within_rules: tuple[str, ...]) -> Constraint:
        """The texts of a rule; ``within_rules``: the rules that are being read."""
        given = what.given
        texts = self.parse(what.tokens, within_rules)
        if given.stop:
            texts = up_to(texts, self.parse(given.stop, within_rules))
        elif given.suffix or given.lazy:
            ending = [self.parse(given.suffix, within_rules)] if given.suffix else []
            texts = shortest(Both((texts, *ending)))
        return within(texts, given.max_tokens, given.max_chars)

    def parse(self, tokens: tuple[Token, ...], within_rules: tuple[str, ...]) -> Constraint:
        def lookup(token: Token) -> Constraint:
            return self.rule(token, within_rules) if token.text in self.rules else self.find(token)

        return _Body(self.source, list(tokens), lookup, part=self.part).parse()

    def rule(self, token: Token, within_rules: tuple[str, ...]) -> Constraint:
        name = token.text
        known = self.read.get(name)
        if known is not None:
            return known
        if name in within_rules or len(within_rules) > _DEEPEST:
            raise CompileError(
                f"{BOUND}: {name} contains itself; {WAY_OUT}",
                code="grammar-bound",
                source=self.source,
                span=token.span,
            )
        statement = self.rules[name]
        head = statement.tokens[: statement.colon]
        opening = next((i for i, one in enumerate(head) if one.text == "["), None)
        given = Attributes() if opening is None else Attributes.read(self.source, head[opening + 1 : -1])
        found = self.read[name] = self.of(Bounded(name, tuple(statement.body), given), (*within_rules, name))
        return found


@dataclass
class _Body(TermParser):
    """The body of a rule as the body of a terminal."""

    part: Callable[[Token, int], tuple[Constraint, int]] | None = None

    def sequence(self) -> Constraint:
        if self.at >= len(self.tokens) or self.peek("|", ")", "]"):  # an alternative may be empty
            return Literal("")
        return super().sequence()

    def atom(self) -> Constraint:
        token = self.tokens[self.at]
        if token.kind not in ("grammar", "special") and token.text not in ("%json", "%lark"):
            return super().atom()
        assert self.part is not None
        self.at += 1
        found, end = self.part(token, self.tokens[self.at].start if self.at < len(self.tokens) else token.end)
        while self.at < len(self.tokens) and self.tokens[self.at].start < end:
            self.at += 1
        return found
