"""States of the machine that finds first matches, its threads, and what they are obliged to."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from guiderail.frontends.regex.syntax import Node

__all__ = ["FREE", "MATCH", "Ahead", "Duties", "Expanded", "LookAhead", "State", "Thread", "Unknown"]


class Unknown(Exception):
    """The question cannot be decided; ``str()`` says why.

    Attributes:
        context: whether a match may depend on text outside of it.
    """

    def __init__(self, why: str, context: bool = True) -> None:
        super().__init__(why)
        self.context = context


class Ahead(NamedTuple):
    """The next character is in ``mask``, or (if ``end``) there is none."""

    mask: int
    end: bool


class LookAhead(NamedTuple):
    """A look-ahead in progress: the states of its body."""

    negative: bool
    states: frozenset[int]


class State(NamedTuple):
    """A state of the machine.

    Attributes:
        kind: ``match``; ``char`` (one of ``mask``, then ``first``); ``split`` (``first`` preferred to ``second``);
            ``loop`` (a split whose branch ``inside`` continues; an iteration that reads nothing is the last);
            ``assert`` (``node``, then ``first``).
    """

    kind: str
    first: int = 0
    second: int = 0
    mask: int = 0
    inside: int = 0
    node: Node | None = None


class Expanded(NamedTuple):
    """The states that read a character or match, in order, and all those on the way from which expansions begin."""

    states: tuple[int, ...]
    inside: tuple[int, ...]


Duties: TypeAlias = frozenset[Ahead | LookAhead]
Thread: TypeAlias = tuple[int, Duties]
FREE: Duties = frozenset()
"""No obligations."""
MATCH = 0
"""The state of a thread that has matched."""
