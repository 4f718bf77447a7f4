"""The texts of a constraint that has few."""

from __future__ import annotations

from guiderail.constraints.constraint import Choice, Constraint
from guiderail.constraints.program import Program
from guiderail.errors import CompileError, LimitError

__all__ = ["MOST_TEXTS", "texts_of"]

MOST_TEXTS = 4096
_MOST_BYTES = 1 << 20  # of all texts together


def texts_of(constraint: Constraint, limit: int = MOST_TEXTS) -> list[str]:
    """Returns all texts of a constraint: those of a choice in its order, otherwise the shortest first.

    Args:
        limit: maximum number of texts.

    Raises:
        LimitError: ``too-many-texts``: there are more, or they are longer than a mebibyte together.
        CompileError: ``not-enumerable``: it names tokens, which are not text; ``unsatisfiable``: there are none.
    """
    if isinstance(constraint, Choice):
        found = list(constraint.options)
        if len(found) > limit:
            raise _too_many(limit)
        return found
    program = Program.of(constraint).core
    if program.symbols():
        raise CompileError(
            "the constraint names special tokens, so its matches cannot be listed; remove the tokens",
            code="not-enumerable",
        )
    texts: list[bytes] = []
    frontier = [(b"", program.root)]
    spent = 0
    while frontier:  # every state is live, so each byte leads to a text and the loop ends
        after = []
        for text, state in frontier:
            if program.is_nullable(state):
                texts.append(text)
            for byte in program.first_bytes(state):
                after.append((text + bytes([byte]), program.derivative(state, bytes([byte]))))
                spent += 1
            if len(texts) + len(after) > limit or spent > _MOST_BYTES:
                raise _too_many(limit)
        frontier = after
    if not texts:
        raise CompileError("the constraint matches no text", code="unsatisfiable")
    return [text.decode() for text in texts]


def _too_many(limit: int) -> LimitError:
    return LimitError(
        f"the constraint matches more than {limit:,} texts, or very long ones, so they cannot be "
        "listed; bound it, or estimate the probability of all of them together with gr.mass",
        code="too-many-texts",
    )
