"""A compiled constraint without a vocabulary, on which ``matches`` and ``explain`` run."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from guiderail import _core
from guiderail.constraints.places import placing
from guiderail.constraints.special_tokens import SpecialTokens, special_tokens_of
from guiderail.errors import CompileError
from guiderail.support.caches import cached
from guiderail.support.nesting import nested
from guiderail.support.options import check_integer
from guiderail.support.texts import utf8
from guiderail.support.work import MAX_STEP_WORK, check_steps, limited, reading

if TYPE_CHECKING:
    from guiderail.constraints.constraint import Constraint

__all__ = ["Program", "build_program"]

MAX_NODES = 4_000_000
"""Default of ``max_nodes``: expressions that one compiled constraint may hold (about 100 bytes each)."""

FUEL = 200_000
"""Default of ``fuel``: states that one emptiness test of an intersection or complement may visit."""


def build_program(
    constraint: Constraint,
    *,
    max_nodes: int = MAX_NODES,
    fuel: int = FUEL,
    max_work: int | None = None,
    max_step_work: int = MAX_STEP_WORK,
) -> _core.Program:
    """Lowers a constraint into a new program of the core.

    Args:
        max_work: None: as for everything that reads a constraint, see :class:`guiderail.support.work.max_work`.

    Raises:
        CompileError: the argument is not a constraint, or cannot be expressed.
        LimitError: it is too large (``max_nodes``), too hard to decide (``fuel``), takes too long (``max_work``) or is
            nested too deeply.
    """
    if isinstance(constraint, type) or not hasattr(constraint, "_lower"):
        raise CompileError(
            f"expected a constraint, not {type(constraint).__name__}; build one with gr.regex, gr.choice, gr.literal …",
            code="not-a-constraint",
        )
    check_integer("max_nodes", max_nodes, 0, 2**32 - 1)
    check_integer("fuel", fuel, 0, 2**32 - 1)
    check_steps("max_step_work", max_step_work)
    limit = reading() if max_work is None else limited(max_work)
    with placing(constraint), nested("the constraint"), limit:
        builder = _core.Builder(max_nodes, fuel, max_step_work)
        return builder.finish(constraint._lower(builder))


_GROWTH = 256 << 10  # bytes that a program may gain in use
_HEAVIEST = 12 << 20  # so that the last few are cached, whatever they weigh


@cached(48 << 20, lambda program, _: min(_HEAVIEST, _GROWTH + program.core.memory_size_bytes()))
def _program(constraint: Constraint) -> Program:
    # Shared by all vocabularies, so it must not use the special tokens of a guide that is being compiled.
    with special_tokens_of(SpecialTokens()):
        return Program(build_program(constraint), constraint)


class Program:
    """States are integers; 0 is the dead one. Safe to use from several threads."""

    __slots__ = ("constraint", "core")

    def __init__(self, core: _core.Program, constraint: Constraint) -> None:
        self.core, self.constraint = core, constraint

    @staticmethod
    def of(constraint: Constraint) -> Program:
        """The program of a constraint. Those used last are cached."""
        with nested("the constraint"), reading():
            return _program(constraint)

    @property
    def start(self) -> int:
        return self.core.root

    def read(self, state: int, text: str | bytes) -> int:
        """The state after ``text``; 0 if no match begins like this."""
        return self.core.derivative(state, utf8(text) if isinstance(text, str) else text)

    def matches(self, text: str | bytes) -> bool:
        if isinstance(text, str):
            try:
                text = text.encode()
            except UnicodeEncodeError:  # a lone surrogate is no text
                return False
        return self.core.is_nullable(self.core.derivative(self.core.root, text))

    def longest_prefix(self, text: bytes) -> int:
        """The number of bytes of ``text`` that can be read while a match is still possible."""
        low, high = 0, len(text)
        while low < high:
            middle = (low + high + 1) // 2
            if self.core.derivative(self.core.root, text[:middle]):
                low = middle
            else:
                high = middle - 1
        return low

    def save(self, path: str | os.PathLike[str]) -> None:
        """Like :meth:`Constraint.save`."""
        self.constraint.save(path)

    def __repr__(self) -> str:
        return f"<Program of {self.constraint!r}>"

    def dump(self, state: int | None = None) -> str:
        """The expression of a state (by default the start), as readable text."""
        return self.core.dump(self.core.root if state is None else state)
