"""Byte-pair encodings that merge characters, and use bytes only for characters that are no token.

Most of them are SentencePiece's. They need no pre-tokenizer; a text is one piece. But if no token contains two
characters side by side, one token ends and another begins between them, whatever the context. So the pieces of such a
tokenizer are derived from its tokens, as a pattern: a letter is followed by the characters that follow it in some
token, and a piece ends before any other.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from guiderail.vocabulary.spelling.patterns import CHAR, COUNT, MATCH, SPLIT, Instruction, Program, UnreadablePattern

__all__ = ["SPACE", "Characters", "read_characters"]

SPACE = "▁"
_MOST_KINDS = 58
_FORBIDDEN = 0  # the atom of characters that no token spells
_NO_BYTES = {0xC0, 0xC1, *range(0xF5, 0x100)}  # UTF-8 has none of them


@dataclass(frozen=True, slots=True, eq=False)
class Characters:
    """What merging starts from.

    Attributes:
        tokens: code point and token of each character beyond ASCII that is a token.
        pieces: a pattern for pieces.
        atoms: for each code point, its class of characters that the pattern does not tell apart.
        broken: atoms of characters that several tokens spell, one per byte; as bits.
        added: tokens of texts that are tokens of their own.
        closed: no text follows those.
    """

    tokens: list[tuple[int, int]]
    pieces: Program
    atoms: bytes
    broken: int
    added: list[int]
    closed: bool = False


def read_characters(
    ids: Mapping[str, int],
    fallback: Mapping[int, int],
    made: Iterable[str],
    *,
    split: bool = False,
    added: Iterable[int],
    closed: bool = False,
) -> tuple[list[int], Characters]:
    """The token of each byte (-1: none), and what merging starts from.

    Args:
        ids: tokens by their texts; :data:`SPACE` represents a space, and nothing else does.
        fallback: the tokens of bytes, for characters that are no token.
        made: texts of the tokens that merges make.
        split: no token contains a space that is not its first character.

    Raises:
        UnreadablePattern: some bytes have a token, and others that UTF-8 needs do not.
    """
    missing = [byte for byte in range(256) if byte not in fallback and byte not in _NO_BYTES]
    if fallback and missing:
        raise UnreadablePattern(f"no token for the byte 0x{missing[0]:02X}")
    known = {(" " if text == SPACE else text): token for text, token in ids.items() if len(text) == 1 and text != " "}
    singles = [
        known.get(chr(byte), fallback.get(byte, -1)) if byte < 0x80 else fallback.get(byte, -1) for byte in range(256)
    ]
    pairs: set[tuple[str, str]] = set()
    for text in made:
        pairs.update(pairwise(text))
    pairs = {(" " if a == SPACE else a, " " if b == SPACE else b) for a, b in pairs}
    kinds = _kinds(known, pairs)
    atoms, broken = _atoms(kinds, bool(fallback))
    kind_of = {char: number for number, kind in enumerate(kinds, 1) for char in kind}
    after: list[set[int]] = [set() for _ in range(len(kinds) + 3)]
    for a, b in pairs:
        if not (split and b == " "):
            after[kind_of[a]].add(kind_of[b])
    follows = [frozenset(kinds) for kinds in after]
    last = len(kinds) + (2 if fallback else 0)
    tokens = [(ord(char), token) for char, token in known.items() if char >= "\x80"]
    pieces = _program(follows[1 : last + 1])
    return singles, Characters(tokens, pieces, atoms, broken, sorted(added), closed)


def _group(char: str) -> str:
    if char < "\x80":
        control = char < " " and char not in "\t\n\r"
        return "letter" if char.isalpha() else "digit" if char.isdigit() else "control" if control else char
    return "other letter" if unicodedata.category(char)[0] in "LMN" else "other"


def _kinds(known: Iterable[str], pairs: set[tuple[str, str]]) -> list[list[str]]:
    """Groups characters by what precedes and follows them: each kind is one group, the largest kinds are separate."""
    group = {char: _group(char) for char in known}
    after: dict[str, set[str]] = {char: set() for char in group}
    before: dict[str, set[str]] = {char: set() for char in group}
    for a, b in pairs:
        after[a].add(group[b])
        before[b].add(group[a])
    sign = {char: (of, frozenset(after[char] - {of}), frozenset(before[char] - {of})) for char, of in group.items()}
    count = Counter(sign.values())
    apart = {one for one, _ in count.most_common(_MOST_KINDS - len(set(group.values())))}
    kinds: dict[object, list[str]] = {}
    for char, one in sign.items():
        kinds.setdefault(one if one in apart else one[0], []).append(char)
    return list(kinds.values())


def _atoms(kinds: list[list[str]], fallback: bool) -> tuple[bytes, int]:
    """The atoms from 1 on are those of the kinds; then, with bytes as tokens, ASCII without tokens, and the rest."""
    atoms = np.full(COUNT, len(kinds) + 2 if fallback else _FORBIDDEN, np.uint8)
    atoms[:0x80] = len(kinds) + 1 if fallback else _FORBIDDEN
    for number, kind in enumerate(kinds, 1):
        atoms[[ord(char) for char in kind]] = number
    atoms[ord(SPACE)] = _FORBIDDEN  # it would come back as a space
    return atoms.tobytes(), 1 << len(kinds) + 2 if fallback else 0


def _program(follows: list[frozenset[int]]) -> Program:
    """A character, continued as long as the next one may follow: a loop for each set of followers.

    Args:
        follows: for each atom from 1 on, those that may follow.
    """
    entries: dict[frozenset[int], int] = {}
    ways: list[dict[frozenset[int], int]] = []
    size = 0
    every = frozenset(range(1, len(follows) + 1))
    for row in [every, *dict.fromkeys(follows)]:
        way: dict[frozenset[int], int] = {}  # what may follow next, and after which atoms
        for atom in sorted(row):
            way[follows[atom - 1]] = way.get(follows[atom - 1], 0) | 1 << atom
        if ways:
            entries[row] = size
        ways.append(way)
        size += 2 * len(way) + 1
    code: list[Instruction] = []
    for number, way in enumerate(ways):
        for then, atoms in way.items():
            code.append((SPLIT, 0, len(code) + 1, len(code) + 2))
            code.append((CHAR, atoms, entries[then], 0))
        code.append((MATCH, 0, 0, 0) if number else (CHAR, 0, 0, 0))  # a piece has a character
    return Program(code, 0)
