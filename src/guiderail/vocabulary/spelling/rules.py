"""What decides a tokenizer's spelling: merges, patterns that first cut a text, texts that are tokens of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from guiderail.errors import VocabularyError
from guiderail.vocabulary._table import gpt2_characters
from guiderail.vocabulary.spelling.characters import Characters
from guiderail.vocabulary.spelling.composed import composed_texts
from guiderail.vocabulary.spelling.patterns import Instruction, UnreadablePattern, assemble, parse

if TYPE_CHECKING:
    from guiderail import _core

__all__ = [
    "EVERYTHING",
    "GPT2_PATTERN",
    "SpellingRules",
    "core_spelling",
    "merge_rules",
    "merge_table",
    "ranked_rules",
    "unsupported",
]

GPT2_PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_Level: TypeAlias = tuple[list[Instruction], int, bool]  # instructions, where they begin, gaps
EVERYTHING = r"[\s\S]+"


@dataclass(frozen=True, slots=True, eq=False)
class SpellingRules:
    """How a byte-pair encoding spells.

    Attributes:
        merges: shape (merges, 4), uint32: the two tokens, their result, the rank. The merge of least rank in a text
            is done first; if ranks are equal, the leftmost.
        singles: the token of each byte, or -1.
        patterns: the cuts of a text, level by level: a regular expression, and whether text between matches is a
            piece, too (otherwise it is dropped).
        whole: a piece that is the text of a token becomes that token, whatever the merges say.
        separate: texts that are always tokens of their own.
        oniguruma: the patterns are Oniguruma's, and not fancy-regex's.
        composed: texts are brought into Unicode's normal form C before.
        characters: what merging begins with, if not with bytes. Then there are no patterns.
    """

    merges: NDArray[np.uint32]
    singles: list[int]
    patterns: list[tuple[str, bool]] = field(default_factory=lambda: [(EVERYTHING, True)])
    whole: bool = False
    separate: tuple[bytes, ...] = ()
    composed: bool = False
    oniguruma: bool = False
    characters: Characters | None = None


def ranked_rules(ranks: Mapping[bytes, int], pattern: str, *, first: int = 0) -> SpellingRules:
    """The rules of tiktoken: any two parts whose bytes together are a token are merged, by its rank.

    Args:
        first: the id of rank 0.
    """
    merges: list[tuple[int, int, int, int]] = []
    get = ranks.get
    for text, rank in ranks.items():
        for at in range(1, len(text)):
            left = get(text[:at])
            if left is not None and (right := get(text[at:])) is not None:
                merges.append((left + first, right + first, rank + first, rank))
    table = np.array(merges, np.uint32).reshape(-1, 4)
    single = [get(bytes([byte]), -1 - first) + first for byte in range(256)]
    return SpellingRules(table, single, [(pattern, False)], whole=True)


def merge_rules(
    ids: Mapping[str, int], merges: Sequence[str | Sequence[str]], patterns: list[tuple[str, bool]], *, whole: bool
) -> SpellingRules:
    """The rules of a list of merges in GPT-2's byte alphabet, in order."""
    single = [-1] * 256
    for character, byte in gpt2_characters().items():
        single[byte] = ids.get(character, -1)
    return SpellingRules(merge_table(ids, merges), single, patterns, whole)


def merge_table(ids: Mapping[str, int], merges: Sequence[str | Sequence[str]]) -> NDArray[np.uint32]:
    """The merges by token ids: left part, right part, result and rank; shape ``(merges, 4)``.

    Args:
        ids: tokens by their texts.
        merges: pairs of texts, or their texts with a space between them, in order of rank.

    Raises:
        VocabularyError: ``no-spelling``: a merge uses a text that is no token.
    """
    table: list[tuple[int, int, int, int]] = []
    for rank, merge in enumerate(merges):
        left, right = merge.split(" ", 1) if isinstance(merge, str) else merge
        try:
            table.append((ids[left], ids[right], ids[left + right], rank))
        except KeyError as error:
            raise unsupported(f"a merge uses {error}, which is not a token") from None
    return np.array(table, np.uint32).reshape(-1, 4)


def unsupported(why: str) -> VocabularyError:
    """The error for a tokenizer whose spelling of texts is unknown."""
    return VocabularyError(
        f"guiderail cannot tell how this tokenizer spells a text: {why}; canonical=True needs a byte-pair encoding "
        "from a tokenizer (tokenizers, sentencepiece, tiktoken, tekken, llama.cpp) that was loaded with its merges",
        code="no-spelling",
    )


@lru_cache(maxsize=8)
def _levels_of(patterns: tuple[tuple[str, bool], ...], composed: bool, oniguruma: bool) -> tuple[list[_Level], bytes]:
    """The instructions of all levels, and the atom of each code point; takes about 0.3 s."""
    nodes = [parse(pattern, oniguruma=oniguruma) for pattern, _ in patterns]
    gaps = [gap for _, gap in patterns]
    forbidden = None
    if composed:
        texts, forbidden = composed_texts()
        nodes.insert(0, texts)
        gaps.insert(0, False)
    programs, atoms = assemble(nodes, forbidden)
    return [(program.code, program.start, gap) for program, gap in zip(programs, gaps, strict=True)], atoms


def core_spelling(rules: SpellingRules, core: _core.Vocabulary) -> _core.Spelling:
    """The native form; takes about 0.3 s for 128 k tokens.

    Raises:
        VocabularyError: ``no-spelling``.
    """
    from guiderail import _core

    by = rules.characters
    try:
        if by is None:
            levels, atoms = _levels_of(tuple(rules.patterns), rules.composed, rules.oniguruma)
        else:
            levels, atoms = [(by.pieces.code, by.pieces.start, False)], by.atoms
    except UnreadablePattern as error:
        raise unsupported(f"its pattern has {error}") from error
    try:
        return _core.Spelling(
            core,
            np.ascontiguousarray(rules.merges.reshape(-1)),
            rules.singles,
            levels,
            atoms,
            whole=rules.whole,
            separate=list(rules.separate),
            **({} if by is None else _by_character(by)),
        )
    except ValueError as error:  # merges in no order
        raise unsupported(str(error)) from error


def _by_character(by: Characters) -> dict[str, Any]:
    return {
        "by_character": True,
        "characters": by.tokens,
        "added": by.added,
        "closed": by.closed,
        "broken": by.broken,
    }
