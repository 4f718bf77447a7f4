"""Which texts are special tokens while a constraint is lowered.

A constraint is made without a vocabulary. One that may use special tokens, such as a marker of a tool call, asks here
when it is lowered. Inside ``special_tokens_of(vocabulary)`` it learns those of the vocabulary; elsewhere there are
none.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

from guiderail.constraints.sharing import walk

if TYPE_CHECKING:
    from guiderail.vocabulary import Vocabulary

__all__ = ["SpecialTokens", "current_special_tokens", "special_tokens_of"]


@dataclass(frozen=True, slots=True)
class SpecialTokens:
    """What of a vocabulary decides how markers are written.

    Attributes:
        names: texts of the special tokens, those that end the text left out.
        stops: texts of the special tokens that end the text.
    """

    names: frozenset[str] = frozenset()
    stops: frozenset[str] = frozenset()

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> SpecialTokens:
        ends = set(vocabulary.stop_token_ids)
        special = vocabulary.special_tokens
        return cls(
            frozenset(text for text, token in special.items() if token not in ends and text),
            frozenset(text for text, token in special.items() if token in ends and text),
        )


_NONE = SpecialTokens()
_current: ContextVar[Vocabulary | SpecialTokens] = ContextVar("guiderail-special-tokens", default=_NONE)


class special_tokens_of:
    """What is lowered inside may be written with the special tokens of this vocabulary. Costs a microsecond."""

    __slots__ = ("_apart", "_token", "_vocabulary")

    def __init__(self, vocabulary: Vocabulary | SpecialTokens) -> None:
        self._vocabulary = vocabulary
        self._apart = walk(None)  # what was lowered outside may be written otherwise

    def __enter__(self) -> None:
        self._apart.__enter__()
        self._token = _current.set(self._vocabulary)

    def __exit__(self, *_: object) -> None:
        _current.reset(self._token)
        self._apart.__exit__()


def current_special_tokens() -> SpecialTokens:
    """The special tokens for the constraint that is being lowered."""
    found = _current.get()
    if not isinstance(found, SpecialTokens):
        found = SpecialTokens.of(found)
        _current.set(found)  # until the context ends
    return found
