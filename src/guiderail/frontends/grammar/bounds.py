"""Texts that are bounded in tokens or characters, or end where they first may: what attributes of rules ask for."""

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
    """Texts of at most so many tokens: when they are spent, a text continues to the next place where it may end."""

    item: Constraint
    most: int

    def _lower(self, b: _core.Builder) -> int:
        return b.counted(self.item._lower(b), self.most)

    def __repr__(self) -> str:
        return f"within_tokens({self.item!r}, {self.most})"


def without(texts: Constraint, stop: Constraint) -> Constraint:
    """Those texts in which no stop occurs."""
    return AllOf((texts, Complement(Sequence((any_text(), stop, any_text())))))


def up_to(texts: Constraint, stop: Constraint) -> Constraint:
    """Those texts in which no stop occurs, and those with the first stop after them."""
    some = Repetition(any_character(), 1, None)
    first = AllOf((Sequence((texts, stop)), Complement(Sequence((any_text(), stop, some)))))
    return AnyOf((without(texts, stop), first))


def shortest(texts: Constraint) -> Constraint:
    """Those texts that begin with no other."""
    return AllOf((texts, Complement(Sequence((texts, any_character(), any_text())))))


def within(texts: Constraint, max_tokens: int | None, max_chars: int | None) -> Constraint:
    """Texts of at most so many characters, then of at most so many tokens; None: any number.

    Raises:
        CompileError: the texts are those of a recursive grammar, or hold special tokens (``grammar-bound``).
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
