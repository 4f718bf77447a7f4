"""The texts of a constraint that has few."""

from __future__ import annotations

from typing import Any

from guiderail import _core
from guiderail.constraints.constraint import Choice, Constraint
from guiderail.constraints.program import Program
from guiderail.errors import CompileError, LimitError
from guiderail.support.work import out_of_work, reading, spend

__all__ = ["MOST_TEXTS", "texts_of"]

_Beginning = tuple[Any, int, int]  # a beginning of a text: the one without its last byte, that byte, and the state

MOST_TEXTS = 4096
_MOST_BYTES = 1 << 20  # of all texts together
_BYTE = 10  # steps of reading a byte, besides those of the core


def texts_of(constraint: Constraint, limit: int = MOST_TEXTS) -> list[str]:
    """Returns all texts of a constraint: those of a choice in its order, otherwise the shortest first.

    Args:
        limit: maximum number of texts.

    Raises:
        LimitError: ``too-many-texts``: there are more, they are longer than a mebibyte together, or finding them takes
            too much work.
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
    try:
        with reading():
            texts = _texts(program, limit)
    except LimitError as error:
        raise _too_many(limit) if out_of_work(error) else error from None
    if not texts:
        raise CompileError("the constraint matches no text", code="unsatisfiable")
    return [text.decode() for text in texts]


def _texts(program: _core.Program, limit: int) -> list[bytes]:
    texts: list[bytes] = []
    beginnings: list[_Beginning] = [(None, 0, program.root)]
    length = total = 0
    while beginnings:  # every state is live, so each byte leads to a text and the loop ends
        after: list[_Beginning] = []
        for beginning in beginnings:
            state = beginning[2]
            if program.is_nullable(state):
                total += length
                texts.append(_text(beginning, length))
            following = program.first_bytes(state)
            spend(_BYTE * (1 + len(following)))
            for byte in following:
                after.append((beginning, byte, program.derivative(state, bytes([byte]))))
            if len(texts) + len(after) > limit or total + len(after) * (length + 1) > _MOST_BYTES:
                raise _too_many(limit)
        beginnings, length = after, length + 1
    return texts


def _text(end: _Beginning | None, length: int) -> bytes:
    """The text that ends here."""
    text = bytearray(length)
    for at in range(length - 1, -1, -1):
        assert end is not None
        text[at] = end[1]
        end = end[0]
    return bytes(text)


def _too_many(limit: int) -> LimitError:
    return LimitError(
        f"the constraint matches more than {limit:,} texts, or very long ones, so they cannot be "
        "listed; bound it, or estimate the probability of all of them together with gr.mass",
        code="too-many-texts",
    )
