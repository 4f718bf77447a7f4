"""Texts in Unicode's normal form C, for tokenizers that normalize texts to it: they never return others.

Decided by neighbours, and slightly too strictly: a character that composes with some following ones is not followed by
any that composes with some previous ones, and no two combining marks (of a class other than 0) are adjacent.
"""

from __future__ import annotations

import unicodedata

import numpy as np

from guiderail.vocabulary.spelling.patterns import COUNT, Ahead, Char, Choice, Node, Repeat, Sequence, Set, of

__all__ = ["composed_texts"]


def composed_texts() -> tuple[Node, Set]:
    """A pattern for such texts, and the characters that occur in none of them."""
    forbidden, first, second, marks = of([]), of([]), of([]), of([])
    first[0x1100:0x1113] = True  # Hangul is composed by rule
    first[0xAC00:0xD7A4:28] = True
    second[0x1161:0x1176] = True
    second[0x11A8:0x11C3] = True
    for i in range(COUNT):
        char = chr(i)
        if not unicodedata.is_normalized("NFC", char):
            forbidden[i] = True
        if unicodedata.combining(char):
            marks[i] = True
        parts = unicodedata.decomposition(char).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            one, other = (int(part, 16) for part in parts)
            if unicodedata.normalize("NFC", chr(one) + chr(other)) == char:
                first[one] = second[other] = True
    choices: list[Node] = []
    for chars, after in ((first & marks, second | marks), (first & ~marks, second), (marks & ~first, marks)):
        choices.append(Sequence([Char(chars & ~forbidden), Ahead(~after, end=True)]))
    choices.append(Char(~(first | marks | forbidden)))
    return Repeat(Choice(choices), 1, None), np.asarray(forbidden)
