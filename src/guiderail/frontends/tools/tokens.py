"""The forms of structural tags that speak of tokens.

A guide knows special tokens as units and all others by their text. So a token that is ordinary text stands here for
its text, in whatever tokens that is written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from guiderail import _core
from guiderail.constraint import AnyOf, AnyText, Constraint, Repetition, SpecialToken
from guiderail.frontends.tools.errors import ToolError

if TYPE_CHECKING:
    from guiderail.vocabulary import Vocabulary

__all__ = ["TokenDispatch", "Tokens"]


@dataclass(frozen=True, slots=True)
class TokenText(Constraint):
    """What one of some tokens spells, as bytes: they need not be whole characters."""

    texts: tuple[bytes, ...]

    def _lower(self, b: _core.Builder) -> int:
        return b.choice(self.texts) if len(self.texts) > 1 else b.literal(self.texts[0])

    def __repr__(self) -> str:
        return f"token_text({self.texts[0]!r})" if len(self.texts) == 1 else f"token_text({len(self.texts)} tokens)"


@dataclass(frozen=True, slots=True)
class TokenDispatch(Constraint):
    """Tokens that are free, and at each token of a rule what must follow it. See `Dispatch`, whose fields these are."""

    rules: tuple[tuple[Constraint, Constraint], ...]
    free: Constraint
    loop: bool = True
    required: bool = False

    def _lower(self, b: _core.Builder) -> int:
        one = b.union([b.concat([token._lower(b), rest._lower(b)]) for token, rest in self.rules])
        free = self.free._lower(b)
        led = b.concat([free, one])
        if self.loop:
            more = b.concat([b.repeat(led, 0, -1), free])
            return b.concat([one, more]) if self.required else more
        return one if self.required else b.union([free, led])

    def __repr__(self) -> str:
        return f"token_dispatch({', '.join(repr(token) for token, _ in self.rules)})"


class Tokens:
    """Resolves tokens by text or id, as far as there is a vocabulary to do it with."""

    def __init__(self, vocabulary: Vocabulary | None) -> None:
        self.vocabulary = vocabulary

    def find(self, name: str | int, pointer: str) -> int | None:
        """The id of a token; None without a vocabulary."""
        vocabulary = self.vocabulary
        if vocabulary is None:
            return None
        token = name
        if isinstance(name, str):
            known = vocabulary.special_tokens.get(name)
            token = vocabulary.core.find(name.encode()) if known is None else known
        if not isinstance(token, int) or not 0 <= token < vocabulary.core.token_count:
            raise ToolError(f"the vocabulary has no token {name!r}", code="unknown-token", pointer=pointer)
        return token

    def one(self, name: str | int, pointer: str) -> Constraint:
        """This token; its text, where it is ordinary text."""
        token = self.find(name, pointer)
        if self.vocabulary is None or token is None:
            return SpecialToken((name,))
        if self.vocabulary.is_text(token):
            return TokenText((self.vocabulary.token_bytes(token),))
        return SpecialToken((token,))

    def same(self, one: str | int, other: str | int) -> bool:
        return one == other or (self.vocabulary is not None and self.find(one, "#") == self.find(other, "#"))

    def _apart(self, excluded: tuple[str | int, ...], pointer: str) -> tuple[Vocabulary, list[int], set[int]]:
        """The special tokens that are not excluded (those that end the text always are), and the excluded ones."""
        vocabulary = self.vocabulary
        if vocabulary is None:
            raise ToolError(
                "which tokens there are is known to the vocabulary only: pass vocabulary=",
                code="structural-tag-vocabulary",
                pointer=pointer,
            )
        out = {token for token in (self.find(name, pointer) for name in excluded) if token is not None}
        ends = set(vocabulary.stop_token_ids)
        special = sorted(token for token in set(vocabulary.special_tokens.values()) if token not in out | ends)
        return vocabulary, special, out

    def free(self, excluded: tuple[str | int, ...], pointer: str) -> Constraint:
        """Any tokens but these."""
        vocabulary, special, out = self._apart(excluded, pointer)
        for token in sorted(out):
            if vocabulary.is_text(token):
                raise ToolError(
                    f"token {token} is ordinary text, {vocabulary.token_bytes(token)!r}, which other tokens spell, "
                    "too: to forbid the text, use any_text with excludes",
                    code="structural-tag-unsupported",
                    pointer=pointer,
                )
        text = AnyText(characters=True)
        one: Constraint = AnyOf((text, SpecialToken(tuple(special)))) if special else text
        return Repetition(one, 0, None)

    def any_but(self, excluded: tuple[str | int, ...], pointer: str) -> Constraint:
        """One token that is none of these: a special one, or the text of one."""
        vocabulary, special, out = self._apart(excluded, pointer)
        size = vocabulary.core.token_count
        texts = {vocabulary.token_bytes(t) for t in range(size) if t not in out and vocabulary.is_text(t)}
        texts -= {vocabulary.token_bytes(t) for t in out if vocabulary.is_text(t)}
        parts: list[Constraint] = []
        if texts:
            parts.append(TokenText(tuple(sorted(texts))))
        if special:
            parts.append(SpecialToken(tuple(special)))
        return AnyOf(tuple(parts))
