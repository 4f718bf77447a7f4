"""Strings bounded in tokens or characters, or ending at the first chance: what attributes of rules require."""

from __future__ import annotations

from dataclasses import dataclass

from guiderail import _core
from guiderail.constraints.constraint import (
    AllOf,
    AnyOf,
    Complement,
    Constraint,
    Repetition,
    Sequence,
    any_character,
    any_text,
)
from guiderail.errors import CompileError, GuiderailError

__all__ = ["BOUND", "WAY_OUT", "Counted", "shortest", "up_to", "within", "without"]

BOUND = "max_tokens, max_chars and lazy apply only to rules without recursion and special tokens"
WAY_OUT = "bound only the regular parts, or put bounds into the JSON Schema (maxLength, maxItems)"


@dataclass(frozen=True, slots=True)
class Counted(Constraint):
    """Strings of a limited number of tokens. Once these are spent, a string continues to the next possible end."""

    item: Constraint
    most: int

    def _lower(self, b: _core.Builder) -> int:
        return b.counted(self.item._lower(b), self.most)

    def __repr__(self) -> str:
        return f"within_tokens({self.item!r}, {self.most})"


def without(texts: Constraint, stop: Constraint) -> Constraint:
    """The strings that contain no stop."""
    return AllOf((texts, Complement(Sequence((any_text(), stop, any_text())))))


def up_to(texts: Constraint, stop: Constraint) -> Constraint:
    """The strings that contain no stop, and those that end with their first stop."""
    some = Repetition(any_character(), 1, None)
    first = AllOf((Sequence((texts, stop)), Complement(Sequence((any_text(), stop, some)))))
    return AnyOf((without(texts, stop), first))


def shortest(texts: Constraint) -> Constraint:
    """The strings that begin with no other text of the constraint."""
    return AllOf((texts, Complement(Sequence((texts, any_character(), any_text())))))


def within(texts: Constraint, max_tokens: int | None, max_chars: int | None) -> Constraint:
    """Strings of at most this many characters, then of at most this many tokens; None: any number.

    Raises:
        CompileError: ``grammar-bound``: the strings are those of a recursive grammar, or contain special tokens.
    """
    if max_chars is not None:
        texts = AllOf((texts, Repetition(any_character(), 0, max_chars)))
    if max_tokens is not None:
        texts = Counted(texts, max_tokens)
    try:
        texts._lower(_core.Builder())
    except GuiderailError as error:
        if error.code != "not-regular":
            raise
        raise CompileError(f"{BOUND}; {WAY_OUT}", code="grammar-bound") from error
    return texts
