"""The regular expressions of pre-tokenizers, as instructions for ordered threads.

They are small: alternatives, groups, classes, repetitions, and a look-ahead of one character. Supported constructs mean
what they mean in backtracking libraries (Oniguruma, fancy-regex); anything else is rejected.
"""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["END", "Instruction", "Program", "UnreadablePattern", "assemble", "parse"]

Set: TypeAlias = "NDArray[np.bool_]"  # of all code points
Instruction: TypeAlias = tuple[int, int, int, int]  # operation, atoms, next instruction, other next instruction

COUNT = sys.maxunicode + 1
END = 1 << 63  # as an atom: nothing follows
CHAR, SPLIT, NEXT, MATCH = range(4)
_MOST_ATOMS = 60
_MOST_REPEATED = 64


class UnreadablePattern(ValueError):
    """Something that this reader does not know."""


# -- syntax: nodes of a tree -------------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class Char:
    chars: Set


@dataclass(frozen=True, eq=False)
class Ahead:
    """The next character is one of these, or the piece ends and that counts, too."""

    chars: Set
    end: bool


@dataclass(frozen=True, eq=False)
class Sequence:
    parts: list[Node]


@dataclass(frozen=True, eq=False)
class Choice:
    parts: list[Node]


@dataclass(frozen=True, eq=False)
class Repeat:
    part: Node
    least: int
    most: int | None
    lazy: bool = False


@dataclass(frozen=True, eq=False)
class Possessive:
    """A match that is never given back. It equals an ordinary one if what follows could not use what is given back."""

    part: Node


Node: TypeAlias = "Char | Ahead | Sequence | Choice | Repeat | Possessive"


# -- classes -----------------------------------------------------------------------------------------------------------
@lru_cache(maxsize=1)
def _categories() -> NDArray[np.str_]:
    return np.array([unicodedata.category(chr(i)) for i in range(COUNT)], "U2")


@lru_cache(maxsize=64)
def category(name: str) -> Set:
    categories = _categories()
    found: Set = (categories.astype("U1") if len(name) == 1 else categories) == name
    if not found.any():
        raise UnreadablePattern(f"the category {name}")
    return found


_SPACES = [*range(9, 14), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000]


def of(points: Iterable[int]) -> Set:
    found = np.zeros(COUNT, np.bool_)
    found[list(points)] = True
    return found


_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "v": "\v", "0": "\0"}


class _Reader:
    def __init__(self, pattern: str, oniguruma: bool) -> None:
        self.text = pattern
        self.oniguruma = oniguruma
        self.at = 0
        self.ignore_case = False

    def peek(self, text: str) -> bool:
        return self.text.startswith(text, self.at)

    def take(self, text: str) -> bool:
        if not self.peek(text):
            return False
        self.at += len(text)
        return True

    def next(self) -> str:
        if self.at == len(self.text):
            raise UnreadablePattern("the pattern ends too early")
        self.at += 1
        return self.text[self.at - 1]

    # -- expressions
    def choice(self) -> Node:
        parts = [self.sequence()]
        while self.take("|"):
            parts.append(self.sequence())
        return parts[0] if len(parts) == 1 else Choice(parts)

    def sequence(self) -> Node:
        parts: list[Node] = []
        while self.at < len(self.text) and self.text[self.at] not in "|)":
            parts.append(self.repeated())
        return Sequence(parts)

    def repeated(self) -> Node:
        node = self.atom()
        while True:
            bounds = self.bounds()
            if bounds is None:
                return node
            lazy = self.take("?")
            counted = self.text[self.at - 1] == "}"  # Oniguruma reads (…{1,3})+ in …{1,3}+
            possessive = not lazy and not (counted and self.oniguruma) and self.take("+")
            node = Repeat(node, *bounds, lazy)
            node = Possessive(node) if possessive else node

    def bounds(self) -> tuple[int, int | None] | None:
        for mark, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self.take(mark):
                return bounds
        if not self.peek("{"):
            return None
        inner, closed, _ = self.text[self.at + 1 :].partition("}")
        least, comma, most = inner.partition(",")
        if not closed or not least.isdecimal() or (most and not most.isdecimal()):
            return None
        self.at += len(inner) + 2
        low = int(least)
        high = int(most) if most else (None if comma else low)
        if low > _MOST_REPEATED or (high is not None and high > _MOST_REPEATED):
            raise UnreadablePattern(f"the repetition {{{inner}}}")
        return low, high

    def atom(self) -> Node:
        if self.take("("):
            return self.group()
        if self.take("["):
            return Char(self.bracket())
        if self.take("$"):
            return Ahead(of([]), end=True)
        if self.take("."):
            return Char(~of([10]))
        char = self.next()
        if char in "^*+?":
            raise UnreadablePattern(f"{char!r} at {self.at - 1}")
        if char == "\\":
            if self.take("z"):
                return Ahead(of([]), end=True)
            return Char(self.escape())
        return Char(self.cased(of([ord(char)])))

    def group(self) -> Node:
        if self.take("?!") or self.take("?="):
            negative = self.text[self.at - 1] == "!"
            inner = self.choice()
            self.close()
            while isinstance(inner, Sequence) and len(inner.parts) == 1:
                inner = inner.parts[0]
            if not isinstance(inner, Char):
                raise UnreadablePattern("a look ahead at more than one character")
            return Ahead(~inner.chars, end=True) if negative else Ahead(inner.chars, end=False)
        before = self.ignore_case
        possessive = False
        if self.take("?"):
            if self.take("i:"):
                self.ignore_case = True
            elif self.take(">"):
                possessive = True
            elif not self.take(":"):
                raise UnreadablePattern(f"the group (?{self.text[self.at : self.at + 1]}")
        inner = self.choice()
        self.close()
        self.ignore_case = before
        return Possessive(inner) if possessive else inner

    def close(self) -> None:
        if not self.take(")"):
            raise UnreadablePattern("a group is not closed")

    # -- classes
    def cased(self, chars: Set) -> Set:
        if not self.ignore_case:
            return chars
        found: Set = chars.copy()
        for i in np.flatnonzero(chars).tolist():
            if i > 127:
                raise UnreadablePattern("a pattern without case beyond ASCII")
            for one in (chr(i).lower(), chr(i).upper()):
                found[ord(one)] = True
        if chars[ord("s")] or chars[ord("S")]:
            found[0x17F] = True
        if chars[ord("k")] or chars[ord("K")]:
            found[0x212A] = True
        return found

    def escape(self) -> Set:
        char = self.next()
        if char in "pP":
            if not self.take("{"):
                name = self.next()
            else:
                name, _, _ = self.text[self.at :].partition("}")
                self.at += len(name) + 1
            negative = (char == "P") != name.startswith("^")
            found: Set = category(name.lstrip("^"))
            return (~found) if negative else found
        if char in "sS":
            return of(_SPACES) if char == "s" else ~of(_SPACES)
        if char in "dD":
            return category("Nd") if char == "d" else ~category("Nd")
        if char in "hH":
            raise UnreadablePattern(f"\\{char}")
        if char in "ux":
            if self.take("{"):
                digits, _, _ = self.text[self.at :].partition("}")
                self.at += len(digits) + 1
            else:
                digits = self.text[self.at : self.at + (4 if char == "u" else 2)]
                self.at += len(digits)
            return of([int(digits, 16)])
        if char in _ESCAPES:
            return of([ord(_ESCAPES[char])])
        if char.isalnum():
            raise UnreadablePattern(f"\\{char}")
        return of([ord(char)])

    def bracket(self) -> Set:
        negative = self.take("^")
        found = of([])
        first = True
        while first or not self.peek("]"):
            first = False
            if self.peek("[") or self.peek("&&"):
                raise UnreadablePattern("a class within a class")
            char = self.next()
            if char == "\\":
                inner = self.escape()
                if inner.sum() != 1 or not self.peek("-") or self.text[self.at + 1 : self.at + 2] == "]":
                    found |= self.cased(inner)
                    continue
                char = chr(int(np.flatnonzero(inner)[0]))
            if self.peek("-") and self.text[self.at + 1 : self.at + 2] not in ("]", ""):
                self.next()
                last = self.next()
                if last == "\\":
                    last = chr(int(np.flatnonzero(self.escape())[0]))
                found |= self.cased(of(range(ord(char), ord(last) + 1)))
            else:
                found |= self.cased(of([ord(char)]))
        self.next()
        return ~found if negative else found


def parse(pattern: str, *, oniguruma: bool = False) -> Node:
    """The tree of a pattern.

    Args:
        oniguruma: read it like Oniguruma, not like fancy-regex.

    Raises:
        UnreadablePattern: it has a construct that this reader does not know.
    """
    reader = _Reader(pattern, oniguruma)
    node = reader.choice()
    if reader.at != len(pattern):
        raise UnreadablePattern(f"{pattern[reader.at]!r} at {reader.at}")
    return _plain(node, of([]))


def _plain(node: object, after: Set) -> Node:
    """The pattern without possessive parts, which equal plain ones if what follows could not use what they gave back.

    Args:
        after: the characters that what follows may begin with.
    """
    if isinstance(node, Possessive):
        inner = _plain(node.part, after)
        if after.any() and (not isinstance(inner, Repeat) or (_first(inner)[0] & after).any()):
            raise UnreadablePattern("a possessive part before what it could have given back")
        return inner
    if isinstance(node, Sequence):
        parts: list[Node] = []
        for part in reversed(node.parts):
            parts.insert(0, _plain(part, after))
            first, empty = _first(parts[0])
            after = first | after if empty else first
        return Sequence(parts)
    if isinstance(node, Choice):
        return Choice([_plain(part, after) for part in node.parts])
    if isinstance(node, Repeat):
        inside = after if node.most == 1 else _first(node.part)[0] | after
        return Repeat(_plain(node.part, inside), node.least, node.most, node.lazy)
    assert isinstance(node, Char | Ahead)
    return node


def _first(node: object) -> tuple[Set, bool]:
    """The characters that a part begins with, or looks at, and whether it may be empty."""
    if isinstance(node, Char):
        return node.chars, False
    if isinstance(node, Ahead):
        return node.chars, True
    if isinstance(node, Possessive):
        return _first(node.part)
    if isinstance(node, Repeat):
        first, empty = _first(node.part)
        return first, empty or node.least == 0
    assert isinstance(node, Choice | Sequence)
    found = of([])
    for part in node.parts:
        first, empty = _first(part)
        found = found | first
        if not empty and isinstance(node, Sequence):
            return found, False
    return found, isinstance(node, Sequence) or any(_first(part)[1] for part in node.parts)


# -- instructions ------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Program:
    """A pattern's instructions, and the first of them."""

    code: list[Instruction]
    start: int


def assemble(nodes: list[Node], forbidden: Set | None) -> tuple[list[Program], bytes]:
    """The programs of the patterns of all levels, and the atom of each code point.

    Args:
        forbidden: characters that nothing reads.
    """
    sets: list[Set] = [] if forbidden is None else [forbidden]
    for node in nodes:
        _collect(node, sets)
    atoms = np.zeros(COUNT, np.int64)
    for chars in sets:
        atoms = atoms * 2 + chars
        present = np.bincount(atoms) > 0
        if present.sum() > _MOST_ATOMS:
            raise UnreadablePattern("too many kinds of characters")
        atoms = (np.cumsum(present) - 1)[atoms]
    found = atoms.astype(np.uint8)
    refused = 0 if forbidden is None else _mask(found, forbidden)
    return [_Assembler(found, refused).program(node) for node in nodes], found.tobytes()


def _mask(atoms: NDArray[np.uint8], chars: Set) -> int:
    return sum(1 << int(atom) for atom in np.unique(atoms[chars]))


def _collect(node: Node, sets: list[Set]) -> None:
    if isinstance(node, Char | Ahead):
        sets.append(node.chars)
    elif isinstance(node, Repeat):
        _collect(node.part, sets)
    elif isinstance(node, Sequence | Choice):
        for part in node.parts:
            _collect(part, sets)


class _Assembler:
    def __init__(self, atoms: NDArray[np.uint8], refused: int) -> None:
        self.atoms = atoms
        self.refused = refused
        self.code: list[Instruction] = []

    def program(self, node: Node) -> Program:
        start = self.emit(node, self.add(MATCH, 0, 0, 0))
        return Program(self.code, start)

    def add(self, *instruction: int) -> int:
        self.code.append(instruction)  # type: ignore[arg-type]
        return len(self.code) - 1

    def mask(self, chars: Set) -> int:
        return _mask(self.atoms, chars) & ~self.refused

    def emit(self, node: Node, then: int) -> int:
        """Emits instructions for a part that is followed by ``then``; returns the first of them."""
        if isinstance(node, Char):
            return self.add(CHAR, self.mask(node.chars), then, 0)
        if isinstance(node, Ahead):
            return self.add(NEXT, self.mask(node.chars) | (END if node.end else 0), then, 0)
        if isinstance(node, Sequence):
            for part in reversed(node.parts):
                then = self.emit(part, then)
            return then
        if isinstance(node, Choice):
            first, *others = [self.emit(part, then) for part in node.parts][::-1]
            for other in others:
                first = self.add(SPLIT, 0, other, first)
            return first
        assert isinstance(node, Repeat), "possessive parts were made plain"
        return self.repeat(node, then)

    def repeat(self, node: Repeat, then: int) -> int:
        if node.most is None:
            loop = self.add(SPLIT, 0, 0, 0)
            body = self.emit(node.part, loop)
            self.code[loop] = (SPLIT, 0, then, body) if node.lazy else (SPLIT, 0, body, then)
            after = loop
        else:
            after = then
            for _ in range(node.most - node.least):
                body = self.emit(node.part, after)
                after = self.add(SPLIT, 0, then, body) if node.lazy else self.add(SPLIT, 0, body, then)
        for _ in range(node.least):
            after = self.emit(node.part, after)
        return after
