"""Expresses look-aheads past the end of a lexeme by the order of terminals.

``/"(?!"").*?"/`` takes ``""`` only if no third quote follows. Texts that undo a match in this way (``\"\"\"``) become
their own terminal, the guard. The lexer tries it just before the lexeme: the guard takes these texts, and the parser
refuses it. This is exact under two conditions:

- No text begins with both a match that counts and one that is undone.
- Every other terminal that could take such a text is tried before the guard, or could only take a part of it after
  which nothing fits. A terminal that Lark tries later is moved before the guard if it never matches where the lexeme
  does, together with those that Lark tries before it and that may match in the same place. If it matches there, too, it
  is divided, and the part that begins with undone texts is moved: next to ``/if\b/``, names that go on after ``if``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain

from guiderail import _core
from guiderail._core import CharSet
from guiderail.constraints.constraint import AllOf, AnyOf, Complement, Constraint, Sequence, any_text
from guiderail.frontends.grammar.lark.first_match_texts import FirstMatchTexts
from guiderail.frontends.grammar.lark.follow import ANYTHING, Follow
from guiderail.frontends.grammar.lark.lexemes import Lexeme
from guiderail.support.work import spend

__all__ = ["Guards", "reserve"]

_NOT_ASCII = 0x80
_CHECK = 40  # steps of comparing two sets of texts, beyond those that the core counts


class Guards:
    """Puts guards among the terminals of one lexer, which it changes.

    Attributes:
        lexemes: the terminals, in order.
        ignore: those that are ignored.
        follow: those that may follow one.
    """

    def __init__(self, lexemes: list[Lexeme], ignore: set[str], follow: Follow) -> None:
        self.lexemes = lexemes
        self.ignore = ignore
        self.follow = follow
        self.builder = _core.Builder()
        self.anything = any_text()._lower(self.builder)
        self.lowered: dict[Constraint, int] = {}
        self.divided: dict[str, _Division] = {}  # by terminal
        self.texts: dict[str, int] = {}  # of divided terminals and their parts
        self.begins: dict[str, int] = {}  # what each terminal takes
        self.firsts: dict[int, frozenset[int]] = {}  # the bytes that each set of texts begins with

    def __call__(self, lexeme: Lexeme) -> bool:
        """Puts a guard before ``lexeme``, preceded by what must be tried before it; False if that is not exact."""
        found = _Guard(self, lexeme)
        return found.exact() and found.collect() and found.overtake() and found.place()

    def finish(self) -> None:
        """Sets the constraints of divided terminals and of their parts."""
        for lexeme in self.lexemes:
            division = self.divided.get(lexeme.cut_of or lexeme.name)
            if division is not None:
                parts = division.parts
                undone = parts[lexeme.name] if lexeme.cut_of else list(chain.from_iterable(parts.values()))
                bad: Constraint = Sequence((AnyOf(tuple(undone)), any_text()))
                lexeme.constraint = AllOf((division.whole, bad if lexeme.cut_of else Complement(bad)))

    def of(self, lexeme: Lexeme) -> int:
        """The texts of a terminal."""
        found = self.texts.get(lexeme.name)
        return self.lower(lexeme.constraint) if found is None else found

    def lower(self, constraint: Constraint) -> int:
        e = self.lowered.get(constraint)
        if e is None:
            e = self.lowered[constraint] = constraint._lower(self.builder)
        return e

    def begun(self, e: int) -> int:
        """The texts that begin with one of ``e``."""
        return self.builder.concat([e, self.anything])

    def taken(self, lexeme: Lexeme) -> int:
        """The texts that a terminal takes a beginning of."""
        found = self.begins.get(lexeme.name)
        if found is None:
            if len(lexeme.depends):
                found = self.lower(FirstMatchTexts(lexeme.pattern.to_regexp(), "begun"))
            else:
                found = self.begun(self.of(lexeme))
            self.begins[lexeme.name] = found
        return found

    def meet(self, one: Lexeme, other: Lexeme) -> bool:
        """Whether two terminals may come in the same place; a guard, where its terminal may."""
        places = {x.name: x.named for x in self.lexemes if x.guard_of is None}
        names = [x.named if x.guard_of is None else places[x.guard_of] for x in (one, other)]
        return self.follow.meet(names[0], names[1], self.ignore)

    def change(self, name: str, texts: int) -> None:
        """Sets the texts of a divided terminal, or of a part of one."""
        self.texts[name] = texts
        self.begins.pop(name, None)

    def first(self, e: int) -> frozenset[int]:
        found = self.firsts.get(e)
        if found is None:
            found = self.firsts[e] = frozenset(self.builder.first_bytes(e))
        return found

    def first_character(self, e: int) -> int:
        """Characters, among them all that ``e`` begins with."""
        ascii_ones = [(byte, byte) for byte in self.first(e) if byte < _NOT_ASCII]
        others = [(_NOT_ASCII, 0x10FFFF)] if len(ascii_ones) < len(self.first(e)) else []
        return self.builder.char_class(CharSet(ascii_ones + others))

    def apart(self, one: int, other: int) -> bool:
        """Whether no text is in both sets."""
        spend(_CHECK)
        return self.first(one).isdisjoint(self.first(other)) or self.builder.is_empty(
            self.builder.intersection([one, other])
        )


@dataclass(slots=True)
class _Division:
    """A terminal that is divided: parts that begin with some undone matches are tried before their guards.

    Attributes:
        whole: the texts of all.
        parts: the undone matches of each part, by name.
    """

    whole: Constraint
    parts: dict[str, list[Constraint]] = field(default_factory=dict)


class _Guard:
    """The guard of one lexeme.

    Attributes:
        undone: a match, and the character after it that undoes it.
        bad: texts that begin with one of these.
        good: texts that begin with a match that counts.
        moved: what must be tried before the guard.
        cuts: terminals that are divided, and the part of each that is moved.
    """

    def __init__(self, guards: Guards, lexeme: Lexeme) -> None:
        self.guards = guards
        self.lexeme = lexeme
        self.at = guards.lexemes.index(lexeme)
        text = lexeme.pattern.to_regexp()
        self.undone = FirstMatchTexts(text, "undone")
        self.bad = guards.begun(guards.lower(self.undone))
        self.good = guards.lower(FirstMatchTexts(text, "begun"))
        self.moved: list[Lexeme] = []
        self.cuts: list[tuple[Lexeme, Lexeme]] = []
        self.texts: dict[int, int] = {}  # of new parts, by id

    def taken(self, lexeme: Lexeme) -> int:
        texts = self.texts.get(id(lexeme))
        return self.guards.taken(lexeme) if texts is None else self.guards.begun(texts)

    def exact(self) -> bool:
        return self.guards.builder.is_empty(self.guards.builder.intersection([self.bad, self.good]))

    def collect(self) -> bool:
        """Finds the terminals that Lark tries later and that may take a bad text; False if one of them cannot move."""
        guards = self.guards
        for other in guards.lexemes[self.at + 1 :]:
            begins = guards.taken(other)
            if other.guard_of is not None or guards.apart(begins, self.bad) or not guards.meet(self.lexeme, other):
                continue
            if self.lexeme.name in other.keyword_of:
                return False
            if guards.apart(begins, self.good):
                self.moved.append(other)
            elif not self.divide(other):
                return False
        return True

    def divide(self, other: Lexeme) -> bool:
        """Divides a terminal that may match where the lexeme does; False if the rest of it may take a bad text."""
        guards, b = self.guards, self.guards.builder
        covered = b.EMPTY  # texts of which it takes more than an undone match
        rest = guards.of(other)
        if not guards.apart(rest, self.bad):
            if other.shortest or other.lazy or other.nested or other.followed or len(other.depends):
                return False
            whole = other.constraint
            part = Lexeme("", whole, False, other.rank, other.pattern, other.priority, part_of=other.named)
            part.cut_of = other.name
            self.cuts.append((other, part))
            self.moved.append(part)
            texts = self.texts[id(part)] = b.intersection([rest, self.bad])
            covered = guards.begun(texts)
            rest = b.intersection([rest, b.complement(self.bad)])
        alone = b.intersection([self.bad, b.complement(covered)])
        return guards.apart(guards.begun(rest), alone) or not self.continued(other, rest, alone)

    def continued(self, other: Lexeme, rest: int, alone: int) -> bool:
        """Whether what may follow one of the texts ``rest`` of a terminal may continue it to one of ``alone``."""
        guards, b = self.guards, self.guards.builder
        names = guards.follow(other.named) | guards.ignore
        if other.named in guards.ignore or ANYTHING in names:
            return True
        longest = not (other.shortest or other.lazy or other.nested or len(other.depends))
        longer = guards.of(other) if longest else b.EMPTY
        for follower in guards.lexemes:
            if follower.named in names and follower.guard_of is None:
                texts = guards.of(follower)
                cut = b.intersection([b.concat([rest, guards.first_character(texts)]), b.complement(longer)])
                whole = b.intersection([guards.begun(cut), guards.begun(b.concat([rest, texts]))])
                if not guards.apart(whole, alone):
                    return True
        return False

    def overtake(self) -> bool:
        """Moves also what is tried before one of these, and could match in its place; False if that cannot move.

        A guard could, and so could the guard of one of these.
        """
        if not self.moved:
            return True
        guards, lexemes = self.guards, self.guards.lexemes
        origin = {id(part): other for other, part in self.cuts}
        place = {id(x): lexemes.index(origin.get(id(x), x)) for x in self.moved}
        begun = {id(x): self.taken(x) for x in self.moved}
        for index in range(max(place.values()) - 1, self.at, -1):
            other = lexemes[index]
            if id(other) in place:
                continue
            begins = guards.taken(other)
            behind = [x for x in self.moved if place[id(x)] > index and guards.meet(x, other)]
            own = any(x.name == other.guard_of for x in behind)
            if not own and all(guards.apart(begins, begun[id(x)]) for x in behind):
                continue
            if not guards.apart(begins, self.good):
                return False
            self.moved.append(other)
            place[id(other)], begun[id(other)] = index, begins
        self.moved.sort(key=lambda x: place[id(x)])
        return True

    def place(self) -> bool:
        guards = self.guards
        b = guards.builder
        for other, part in self.cuts:
            texts = self.texts[id(part)]
            guards.change(other.name, b.intersection([guards.of(other), b.complement(self.bad)]))
            division = guards.divided.setdefault(other.name, _Division(other.constraint))
            known = self.known(part)
            if known is None:
                part.name = f"{part.part_of}__{sum(x.named == part.part_of for x in guards.lexemes)}"
                guards.change(part.name, texts)
                for keyword in guards.lexemes:
                    if other.name in keyword.keyword_of:
                        keyword.keyword_of.append(part.name)
            else:
                part.name = known.name
                guards.change(known.name, b.union([guards.texts[known.name], texts]))
                self.moved.remove(part)
            division.parts.setdefault(part.name, []).append(self.undone)
        lexeme = self.lexeme
        found = Lexeme(f"{lexeme.name}__guard", self.undone, True, lexeme.rank, guard_of=lexeme.name)
        rest = [x for x in guards.lexemes[self.at :] if x not in self.moved]
        guards.lexemes[self.at :] = [*self.moved, found, *rest]
        return True

    def known(self, part: Lexeme) -> Lexeme | None:
        """A part of the same terminal that is tried before, if this one may be as early."""
        begun = self.taken(part)
        for x in reversed(self.guards.lexemes[: self.at]):
            if x.cut_of == part.cut_of:
                return x
            if not self.guards.apart(self.guards.taken(x), begun):
                return None
        return None


def reserve(lexemes: list[Lexeme], ignore: set[str]) -> tuple[Lexeme, Lexeme] | None:
    """Adds guards for the reserved words that are no keywords.

    That is exact if whatever else may match where a reserved word begins takes all of it: ``in`` must not be read at
    the beginning of a reserved ``int``. Returns a terminal for which it is not, and the other one.
    """
    for lexeme in list(lexemes):
        reserved = lexeme.reserved
        if reserved is None:
            continue
        if lexeme.named in ignore:
            return lexeme, lexeme
        b = _core.Builder()
        anything, word, other = any_text()._lower(b), b.char_class(reserved.chars), b.char_class(~reserved.chars)
        words = reserved.words._lower(b)
        begun = b.concat([words, b.union([b.EPSILON, b.concat([other, anything])])])
        for later in lexemes[lexemes.index(lexeme) + 1 :]:
            if later.guard_of is not None:
                continue
            e = later.constraint._lower(b)
            taken = b.concat([e, anything])
            if len(later.depends):
                taken = FirstMatchTexts(later.pattern.to_regexp(), "begun")._lower(b)
            here = b.intersection([taken, begun])
            if b.is_empty(here):
                continue
            if not b.is_empty(b.intersection([b.concat([e, word, anything]), here])):  # a part of the word
                return lexeme, later
            if lexeme.name in later.keyword_of:
                continue
            if later.lazy or later.nested or not b.is_empty(b.intersection([e, b.complement(words)])):
                return lexeme, later
            later.keyword_of.append(lexeme.name)
        name = f"{lexeme.name}__reserved"
        lexemes.append(Lexeme(name, reserved.words, False, lexeme.rank, keyword_of=[lexeme.name], guard_of=lexeme.name))
    return None
