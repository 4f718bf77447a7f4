"""Free text up to a trigger: a string that begins what may stand in the text, or ends it.

A trigger is found where it ends first, as the automaton of Aho and Corasick (1975) finds it. Of two that end at one
place, the longer one counts. One trigger may occur inside another: in free text with ``b`` and ``baa``, what follows
``b`` may be that of ``b``, or the rest of ``baa``.
"""

from __future__ import annotations

from collections.abc import Iterable

from guiderail.constraints.constraint import (
    AllOf,
    AnyOf,
    Choice,
    Complement,
    Constraint,
    Literal,
    Repetition,
    Sequence,
    any_character,
    any_text,
)
from guiderail.support.work import spend

__all__ = ["before_any", "up_to"]


def before_any(forbidden: Iterable[str]) -> Constraint:
    """Matches any text in which nothing forbidden ends before the last character."""
    return Complement(Sequence((any_text(), Choice(tuple(forbidden)), Repetition(any_character(), 1, None))))


def up_to(trigger: str, forbidden: tuple[str, ...], late: Constraint) -> Constraint:
    """Matches any text that ends with ``trigger``, and in which nothing forbidden ends, except inside this trigger.

    Args:
        trigger: one of ``forbidden``.
        forbidden: all triggers, and what must not occur at all.
        late: the result of :func:`before_any`. It suffices where none of them occurs inside the trigger or ends with
            it, so that all triggers share it.
    """
    spend(len(forbidden))
    ends = Sequence((any_text(), Literal(trigger)))
    if not any(one != trigger and (one in trigger or one.endswith(trigger)) for one in forbidden):
        return AllOf((ends, late))
    groups: dict[frozenset[int], list[str]] = {}
    for one in forbidden:
        groups.setdefault(_after(one, trigger), []).append(one)
    found = [Sequence((any_text(), Choice(tuple(some)), _other_lengths(rests))) for rests, some in groups.items()]
    return AllOf((ends, Complement(AnyOf(tuple(found)))))


def _after(text: str, within: str) -> frozenset[int]:
    """How many characters follow a text at each place where it occurs in another."""
    last = len(within) - len(text)
    return frozenset(last - at for at in range(last + 1) if within.startswith(text, at))


def _other_lengths(lengths: frozenset[int]) -> Constraint:
    """Matches any text with none of these numbers of characters."""
    longest = max(lengths, default=-1)
    more: list[Constraint] = [Repetition(any_character(), longest + 1, None)]
    more += [Repetition(any_character(), n, n) for n in range(longest) if n not in lengths]
    return AnyOf(tuple(more))
