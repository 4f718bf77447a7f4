"""Expresses look-aheads past the end of a lexeme by the order of terminals.

``/"(?!"").*?"/`` takes ``""`` only if no third quote follows. Texts that undo a match in this way (``\"\"\"``) become
their own terminal, the guard. The lexer tries it just before the lexeme: the guard takes these texts, and the parser
refuses it. This is exact under two conditions:

- No text begins with both a match that counts and one that is undone.
- Every other terminal that could take such a text is tried before the guard, or could only take a part of it after
  which nothing fits. A terminal that Lark tries later is moved before the guard if it never matches where the lexeme
  does, together with those that Lark tries before it and that may match in the same place.
"""

from __future__ import annotations

from guiderail import _core
from guiderail.constraints.constraint import any_text
from guiderail.frontends.grammar.lark.first_match_texts import FirstMatchTexts
from guiderail.frontends.grammar.lark.follow import ANYTHING, Follow
from guiderail.frontends.grammar.lark.lexemes import Lexeme

__all__ = ["guard"]


def guard(lexeme: Lexeme, lexemes: list[Lexeme], ignore: set[str], follow: Follow) -> bool:
    """Puts a guard before ``lexeme``, preceded by what must be tried before it; False if that is not exact."""
    text = lexeme.pattern.to_regexp()
    undone = FirstMatchTexts(text, "undone")
    b = _core.Builder()
    anything = any_text()._lower(b)
    bad = b.concat([undone._lower(b), anything])
    good = FirstMatchTexts(text, "begun")._lower(b)

    def apart(one: int, other: int) -> bool:
        return b.is_empty(b.intersection([one, other]))

    if not apart(bad, good):
        return False
    at = lexemes.index(lexeme)
    first = set(b.first_bytes(bad))
    moved: list[Lexeme] = []
    for other in lexemes[at + 1 :]:
        e = other.constraint._lower(b)
        begins = b.concat([e, anything])
        if other.guard_of is not None or first.isdisjoint(b.first_bytes(e)) or apart(begins, bad):
            continue
        if lexeme.name in other.keyword_of:
            return False
        if apart(begins, good):
            moved.append(other)
            continue
        # it must be harmless: none of the bad texts, and no follower continues it to one
        names = follow(other.name) | ignore
        if other.name in ignore or ANYTHING in names or not apart(e, bad):
            return False
        followers = b.union([x.constraint._lower(b) for x in lexemes if x.name in names])
        if not apart(b.concat([e, followers, anything]), bad):
            return False
    if moved:  # nothing that is tried before one of these, and could match in its place, may be overtaken
        begun = {x.name: b.concat([x.constraint._lower(b), anything]) for x in moved}
        for other in reversed(lexemes[at + 1 : lexemes.index(moved[-1])]):
            if other in moved:
                continue
            later = [begun[x.name] for x in moved if lexemes.index(x) > lexemes.index(other)]
            begins = b.concat([other.constraint._lower(b), anything])
            if apart(begins, b.union(later)):
                continue
            if not apart(begins, good):
                return False
            moved.append(other)
            begun[other.name] = begins
        moved.sort(key=lexemes.index)
    found = Lexeme(f"{lexeme.name}__guard", undone, True, lexeme.rank, guard_of=lexeme.name)
    rest = [x for x in lexemes[at:] if x not in moved]
    lexemes[at:] = [*moved, found, *rest]
    return True
