"""Terminals that match the same text: which of them the lexer takes."""

from __future__ import annotations

from guiderail import _core
from guiderail.constraints.constraint import Literal, any_text
from guiderail.errors import GuiderailError, LimitError
from guiderail.frontends.grammar.syntax import Lexer, Terminal
from guiderail.support.work import out_of_work

__all__ = ["collisions", "taken_by_ignored"]

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


def taken_by_ignored(lexer: Lexer, used: set[str]) -> list[str]:
    """The terminals among ``used`` that are never read, because ignored ones, tried before, take every text of theirs.

    Where that is too hard to decide, they are left out.
    """
    found = []
    b = _core.Builder()
    anything = any_text()._lower(b)
    begins: set[int] = set()  # the bytes that ignored texts begin with
    taken = b.EMPTY
    for terminal in lexer.terminals:
        constraint = terminal.constraint
        if constraint is None or terminal.nested or terminal.guard_of is not None:
            continue
        ignored = terminal.name in lexer.ignore
        if not ignored:
            if not begins or terminal.name not in used or terminal.lazy or terminal.keyword_of:
                continue
            if isinstance(constraint, Literal) and constraint.text.encode()[0] not in begins:
                continue
        try:
            e = constraint._lower(b)
            if ignored:
                begins |= set(b.first_bytes(e))
                taken = b.union([taken, b.concat([e, anything])])
            elif begins.issuperset(b.first_bytes(e)) and b.is_empty(b.intersection([e, b.complement(taken)])):
                found.append(terminal.name)
        except LimitError as error:
            if out_of_work(error):
                raise
    return sorted(found)


def _sample(first: Terminal, second: Terminal) -> str:
    b = _core.Builder()
    assert first.constraint is not None and second.constraint is not None
    program = b.finish(b.intersection([first.constraint._lower(b), second.constraint._lower(b)]))
    text = program.shortest(program.root, _LONGEST_SAMPLE)
    return "a long text" if text is None else repr(text.decode(errors="replace"))
