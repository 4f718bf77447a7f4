r"""Look-behinds that terminals begin with, ``/\bif\b/``, and the terminals before them.

Such an assertion is left out of its terminal (:mod:`.preceding`). That is exact if it holds wherever the terminal may
come: each lexeme that may precede it ends with other characters, or takes the next one, too, as names do.

Another lexeme, ``12`` before ``if``, must not be followed by such a terminal without a blank. If everything that may
follow the lexeme and begins with these characters has the same assertion, nothing may: the lexeme with one of them
becomes a guard, which is tried before it and which the parser refuses.
"""

from __future__ import annotations

from dataclasses import dataclass

from guiderail import _core
from guiderail.constraints.constraint import Constraint, any_character, any_text
from guiderail.frontends.grammar.lark.first_match_texts import FirstMatchTexts
from guiderail.frontends.grammar.lark.follow import Follow
from guiderail.frontends.grammar.lark.lexemes import Lexeme
from guiderail.frontends.grammar.lark.preceding import Preceding

__all__ = ["keep_apart"]


def keep_apart(lexemes: list[Lexeme], ignore: set[str], follow: Follow, newline: str) -> tuple[Lexeme, str] | None:
    """Puts guards among ``lexemes`` so that nothing comes after what it must not.

    Args:
        lexemes: the terminals, in order, which are changed.
        ignore: those that are ignored.
        follow: those that may follow one.
        newline: the terminal after which indentation begins and ends.

    Returns:
        A terminal for which that is not exact, and the name of one that may precede it.
    """
    places = _Places(list(lexemes), ignore, follow, newline)
    for other in places.lexemes:
        wrong: list[Preceding] = []
        for lexeme in places.lexemes:
            if lexeme.preceding and other.guard_of is None and places.next_to(other, lexeme):
                found = places.wrong(other, lexeme)
                if found is None or not all(places.certain(other, one) for one in found):
                    return lexeme, other.named
                wrong += [one for one in found if one not in wrong]
        if wrong:
            guard = _Next(other.constraint, tuple(wrong))
            other.followed = True
            name = f"{other.name}__next"
            lexemes.insert(lexemes.index(other), Lexeme(name, guard, False, other.rank, guard_of=other.name))
    return None


@dataclass(frozen=True, slots=True)
class _Next(Constraint):
    """The texts of a terminal, each with a character that must not follow it."""

    taken: Constraint
    wrong: tuple[Preceding, ...]

    def _lower(self, b: _core.Builder) -> int:
        taken = self.taken._lower(b)
        longer = b.concat([taken, any_character()._lower(b)])
        return b.intersection([longer, b.union([_pair(one, b) for one in self.wrong]), b.complement(taken)])

    def __repr__(self) -> str:
        return f"wrongly_followed({self.taken!r})"


def _pair(one: Preceding, b: _core.Builder) -> int:
    return b.concat([any_text()._lower(b), b.char_class(one.chars), b.char_class(one.first)])


@dataclass(slots=True)
class _Places:
    lexemes: list[Lexeme]
    ignore: set[str]
    follow: Follow
    newline: str

    def next_to(self, one: Lexeme, following: Lexeme) -> bool:
        """Whether the second lexeme may follow the first."""
        return following.named in self.ignore | self.follow(one.named) or one.named in self.ignore | {self.newline}

    def wrong(self, other: Lexeme, lexeme: Lexeme) -> list[Preceding] | None:
        """What ``other`` violates of what ``lexeme`` says; None if it is not known when, or not what the order says."""
        if other.nested:
            return None
        b = _core.Builder()
        if len(other.depends) or other.needs:
            ended = FirstMatchTexts(other.pattern.to_regexp(), "next")._lower(b)
        else:
            ended = b.concat([other.constraint._lower(b), any_character()._lower(b)])
        owners = [x for x in self.lexemes if x.name in other.keyword_of]
        alone = not owners or not all(self.follow.beside(other.named, x.named) for x in owners)
        found = []
        for one in lexeme.preceding:
            here = b.intersection([ended, _pair(one, b)])
            for taker in owners + [other] * alone:
                longest = not (taker.shortest or taker.lazy or len(taker.depends) or taker.needs)
                taken = taker.constraint._lower(b) if longest else b.EMPTY
                rest = b.intersection([here, b.complement(taken)])
                if b.is_empty(rest):
                    continue
                more = b.intersection([b.concat([rest, any_text()._lower(b)]), taken])
                if taker is not other or not longest or other.named == self.newline or not b.is_empty(more):
                    return None
                found.append(one)
        if found and any(self.lexemes.index(x) > self.lexemes.index(other) for x in owners):
            return None
        return found

    def certain(self, other: Lexeme, one: Preceding) -> bool:
        """Whether all that may follow ``other``, or a keyword of it, and begins with these characters says the same."""
        takes = [other, *(x for x in self.lexemes if other.name in x.keyword_of)]
        b = _core.Builder()
        begun = b.concat([b.char_class(one.first), any_text()._lower(b)])
        for following in self.lexemes:
            if following.guard_of is not None or not any(self.next_to(x, following) for x in takes):
                continue
            if following.nested:
                return False
            here = [x for x in following.preceding if x.whole and not len(one.chars & ~x.chars)]
            if not here and not b.is_empty(b.intersection([following.constraint._lower(b), begun])):
                return False
        return True
