"""Look-aheads past the end of a lexeme, said by the order of terminals.

``/"(?!"").*?"/`` takes ``""`` only where no third quote follows. Texts that undo a match so (``\"\"\"``) become a
terminal of their own, the guard, which is tried right before: it takes the lexeme, and what the grammar asks for
behind it never comes. That is exact where

- no text begins with both a match that counts and one that is undone, and
- every terminal that could take such a text instead is tried before the guard (one that Lark tries later is moved
  before it, if it never matches where this one does), or could only take a part of it behind which nothing fits.
"""

from __future__ import annotations

from guiderail import _core
from guiderail.constraint import Literal, any_text
from guiderail.frontends.grammar.lark.first_match import FirstMatches
from guiderail.frontends.grammar.lark.follow import ANYTHING, Follow
from guiderail.frontends.grammar.lark.lexemes import Lexeme
from guiderail.frontends.grammar.syntax import Choice, Expression, Name, Rule, Sequence

__all__ = ["NEVER", "guard", "guard_of", "guarded", "never"]

NEVER = "__never"
_FIRST, _SECOND = "__NEVER_FIRST", "__NEVER_SECOND"


def guard_of(name: str) -> str:
    """The name of a terminal's guard."""
    return f"{name}__guard"


def guard(lexeme: Lexeme, lexemes: list[Lexeme], ignore: set[str], follow: Follow) -> bool:
    """Puts a guard before ``lexeme``, and what must be tried before it there too; False where that is not exact."""
    text = lexeme.pattern.to_regexp()
    undone = FirstMatches(text, "undone")
    b = _core.Builder()
    anything = any_text()._lower(b)
    bad = b.concat([undone._lower(b), anything])
    good = FirstMatches(text, "begun")._lower(b)

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
        if first.isdisjoint(b.first_bytes(e)) or apart(begins, bad):
            continue
        if lexeme.name in other.keyword_of:
            return False
        if apart(begins, good):
            moved.append(other)
            continue
        # it must lead nowhere: it is none of the bad texts, and nothing that may stand behind it continues it to one
        names = follow(other.name) | ignore
        if other.name in ignore or ANYTHING in names or not apart(e, bad):
            return False
        behind = b.union([x.constraint._lower(b) for x in lexemes if x.name in names])
        if not apart(b.concat([e, behind, anything]), bad):
            return False
    found = Lexeme(guard_of(lexeme.name), undone, True, lexeme.rank)
    rest = [x for x in lexemes[at:] if x not in moved]
    lexemes[at:] = [*moved, found, *rest]
    return True


def guarded(name: Name, guards: list[str]) -> Expression:
    """A terminal where rules name it, or one of its guards, behind which nothing can come."""
    return Choice((name, *(Sequence((Name(one), Name(NEVER))) for one in guards)))


def never() -> tuple[Rule, list[Lexeme]]:
    """A rule that no text satisfies, though it has an end: of two terminals with the same text the first wins."""
    body = Choice((Sequence((Name(_FIRST), Name(NEVER))), Name(_SECOND)))
    return Rule(NEVER, body), [Lexeme(name, Literal("\0"), False, (0, 0, 0, name)) for name in (_FIRST, _SECOND)]
