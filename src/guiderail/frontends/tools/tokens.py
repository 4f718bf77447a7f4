"""The forms of structural tags that are about tokens.

A token is a unit here, even an ordinary one: its text in other tokens does not match. Tokens are named by text or id,
and looked up in the vocabulary that a constraint is compiled for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from guiderail import _core
from guiderail.constraints.constraint import Constraint, SpecialToken, TokenSet
from guiderail.frontends.tools.errors import ToolError

if TYPE_CHECKING:
    from guiderail.vocabulary import Vocabulary

__all__ = ["TokenDispatch", "TokenSet", "Tokens"]


@dataclass(frozen=True, slots=True)
class TokenDispatch(Constraint):
    """Free tokens; after each token of a rule, what must follow it. The fields are those of `Dispatch`.

    Attributes:
        other: one token that is free.
    """

    rules: tuple[tuple[Constraint, Constraint], ...]
    other: Constraint
    loop: bool = True
    required: bool = False

    def _lower(self, b: _core.Builder) -> int:
        one = b.union([b.concat([token._lower(b), rest._lower(b)]) for token, rest in self.rules])
        free = b.repeat(self.other._lower(b), 0, -1)
        led = b.concat([free, one])
        if self.loop:
            more = b.concat([b.repeat(led, 0, -1), free])
            return b.concat([one, more]) if self.required else more
        return one if self.required else b.union([free, led])

    def __repr__(self) -> str:
        return f"token_dispatch({', '.join(repr(token) for token, _ in self.rules)})"


class Tokens:
    """Finds tokens by text or id, as far as a vocabulary is available."""

    def __init__(self, vocabulary: Vocabulary | None) -> None:
        self.vocabulary = vocabulary

    def find(self, name: str | int, pointer: str) -> str | int:
        """The id of a token; without a vocabulary, the name."""
        vocabulary = self.vocabulary
        if vocabulary is None:
            return name
        token = name
        if isinstance(name, str):
            known = vocabulary.special_tokens.get(name)
            token = vocabulary.core.find(name.encode(errors="surrogatepass")) if known is None else known
        if not isinstance(token, int) or not 0 <= token < vocabulary.core.token_count:
            raise ToolError(f"the vocabulary has no token {name!r}", code="unknown-token", pointer=pointer)
        return token

    def one(self, name: str | int, pointer: str) -> Constraint:
        """This token."""
        token = self.find(name, pointer)
        if isinstance(token, int) and self.vocabulary is not None and not self.vocabulary.is_text(token):
            return SpecialToken((token,))
        return TokenSet((token,))

    def same(self, one: str | int, other: str | int) -> bool:
        return one == other or (self.vocabulary is not None and self.find(one, "#") == self.find(other, "#"))

    def any_but(self, excluded: tuple[str | int, ...], pointer: str) -> Constraint:
        """Any one token except these."""
        return TokenSet(tuple(dict.fromkeys(self.find(name, pointer) for name in excluded)), but=True)
