"""Terminals that match the same text: which of them the lexer takes."""

from __future__ import annotations

from guiderail import _core
from guiderail.errors import GuiderailError
from guiderail.frontends.grammar.syntax import Lexer, Terminal

__all__ = ["collisions"]

_LONGEST_SAMPLE = 24  # bytes


def collisions(lexer: Lexer) -> tuple[str, ...]:
    """Each pair of terminals that match a common text, with a shortest such text and the winner.

    A keyword and the terminal that it belongs to do not count. Terminals made of rules, or too hard to intersect, are
    left out.
    """
    found = []
    b = _core.Builder()
    texts: list[tuple[Terminal, int, frozenset[int]]] = []
    for terminal in lexer.terminals:
        if terminal.constraint is None or terminal.guard_of is not None:
            continue
        try:
            e = terminal.constraint._lower(b)
            texts.append((terminal, e, frozenset(b.first_bytes(e))))
        except GuiderailError:
            continue
    for at, (first, e, begins) in enumerate(texts):
        for second, other, also in texts[at + 1 :]:
            named = second.name in first.keyword_of or first.name in second.keyword_of
            if named or begins.isdisjoint(also):
                continue
            try:
                if b.is_empty(b.intersection([e, other])):
                    continue
                sample = _sample(first, second)
            except GuiderailError:
                continue
            found.append(
                f"{first.name} and {second.name} both match {sample}; where either may come, the lexer takes "
                f"{first.name}"
            )
    return tuple(found)


def _sample(first: Terminal, second: Terminal) -> str:
    b = _core.Builder()
    assert first.constraint is not None and second.constraint is not None
    program = b.finish(b.intersection([first.constraint._lower(b), second.constraint._lower(b)]))
    text = program.shortest(program.root, _LONGEST_SAMPLE)
    return "a long text" if text is None else repr(text.decode(errors="replace"))
