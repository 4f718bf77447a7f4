"""How many strings a set has, and which ones: found with its automaton."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from guiderail import _core
from guiderail.support.caches import cached
from guiderail.support.work import spend

if TYPE_CHECKING:
    from guiderail.frontends.json_schema.values.strings import Strings

__all__ = ["counted", "listed"]

_LONGEST: Final = 1_000  # bytes of a text that is listed
_STEPS: Final = 40  # of work (see `guiderail.support.work`) for each state


@cached(4 << 20)
def counted(strings: Strings, most: int, states: int = 1 << 40) -> tuple[int, bool]:
    """The number of strings, or ``most`` if there are more; a lower bound if it takes more than so many states.

    Returns:
        The number, and whether there are no more strings.
    """
    builder = _core.Builder()
    program = builder.finish(strings.lower(builder))
    count, left, frontier = 0, states, {program.root: 1}  # how many texts lead to each state
    while frontier and len(frontier) <= left and count + sum(frontier.values()) < most:
        spend(_STEPS * len(frontier))
        left -= len(frontier)
        after: dict[int, int] = {}
        for at, texts in frontier.items():
            if program.is_nullable(at):
                count += texts
            for byte in program.first_bytes(at):
                then = program.derivative(at, bytes((byte,)))
                after[then] = after.get(then, 0) + texts
        frontier = after
    count += sum(frontier.values())  # every state is live, so each text has a completion of its own
    return min(count, most), not frontier and count <= most


@cached(4 << 20)
def listed(strings: Strings, most: int) -> frozenset[str] | None:
    """The strings; None if there are more than ``most``, or some are very long."""
    builder = _core.Builder()
    program = builder.finish(strings.lower(builder))
    found: list[bytes] = []
    frontier = [(program.root, b"")]
    for _ in range(_LONGEST):
        spend(_STEPS * len(frontier))
        found += [text for at, text in frontier if program.is_nullable(at)]
        steps = [(at, text, program.first_bytes(at)) for at, text in frontier]
        if len(found) + sum(len(after) for _, _, after in steps) > most:  # every state is live: it stands for a text
            return None
        frontier = [
            (program.derivative(at, bytes((byte,))), text + bytes((byte,)))
            for at, text, after in steps
            for byte in after
        ]
        if not frontier:
            return frozenset(text.decode() for text in found)
    return None
