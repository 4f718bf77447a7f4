"""What decides a tokenizer's spelling: merges, patterns that cut a text before, texts that are tokens of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from guiderail.errors import VocabularyError
from guiderail.vocabulary._table import gpt2_characters
from guiderail.vocabulary.spelling.composed import composed_texts
from guiderail.vocabulary.spelling.patterns import Instruction, PatternError, assemble, parse

if TYPE_CHECKING:
    from guiderail import _core

__all__ = [
    "GPT2_PATTERN",
    "SpellingRules",
    "core_spelling",
    "hugging_face_rules",
    "merge_rules",
    "ranked_rules",
    "unsupported",
]

GPT2_PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_Level: TypeAlias = tuple[list[Instruction], int, bool]  # instructions, where they begin, gaps
_EVERYTHING = r"[\s\S]+"


@dataclass(frozen=True, slots=True, eq=False)
class SpellingRules:
    """How a byte-pair encoding spells.

    Attributes:
        merges: shape (merges, 4), uint32: the two tokens, the merged one, the rank. Of the merges that a text allows,
            the one of least rank is done first; of equal ranks, the first in the text.
        singles: the token of each byte, or -1.
        patterns: the patterns that cut a text, level by level: a regular expression, and whether what it does not match
            is also a piece (otherwise it is lost).
        whole: a piece that equals a token is that token, whatever the merges say.
        separate: texts that are always separate tokens.
        oniguruma: whether the patterns are Oniguruma's; otherwise fancy-regex's.
        composed: whether texts are first normalized to Unicode's form C.
    """

    merges: NDArray[np.uint32]
    singles: list[int]
    patterns: list[tuple[str, bool]] = field(default_factory=lambda: [(_EVERYTHING, True)])
    whole: bool = False
    separate: tuple[bytes, ...] = ()
    composed: bool = False
    oniguruma: bool = False


def ranked_rules(ranks: Mapping[bytes, int], pattern: str, *, first: int = 0) -> SpellingRules:
    """Those of tiktoken: any two parts are merged whose bytes together are a token, by its rank.

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
    """The rules of a list of merges in GPT-2's byte alphabet, in order of rank."""
    table = np.zeros((len(merges), 4), np.uint32)
    for rank, merge in enumerate(merges):
        left, right = merge.split(" ", 1) if isinstance(merge, str) else merge
        try:
            table[rank] = ids[left], ids[right], ids[left + right], rank
        except KeyError as error:
            raise unsupported(f"a merge uses {error}, which is not a token") from None
    single = [-1] * 256
    for character, byte in gpt2_characters().items():
        single[byte] = ids.get(character, -1)
    return SpellingRules(table, single, patterns, whole)


def hugging_face_rules(description: Mapping[str, object]) -> SpellingRules:
    """Those of a ``tokenizer.json``.

    Raises:
        VocabularyError: ``no-spelling``.
    """
    model = description["model"]
    assert isinstance(model, dict)
    if model.get("type") != "BPE":
        raise unsupported(f"the tokenizer's model is {model.get('type')}, not BPE")
    for key in ("continuing_subword_prefix", "end_of_word_suffix", "dropout", "byte_fallback"):
        if model.get(key):
            raise unsupported(f"its byte-pair encoding has {key}")
    patterns = _levels(description.get("pre_tokenizer"))
    composed = _is_composed(description.get("normalizer"))
    added = description.get("added_tokens") or []
    assert isinstance(added, list)
    separate = tuple(token["content"].encode("utf-8", "replace") for token in added if token["content"])
    rules = merge_rules(model["vocab"], model["merges"], patterns, whole=bool(model.get("ignore_merges")))
    return SpellingRules(rules.merges, rules.singles, patterns, rules.whole, separate, composed, oniguruma=True)


def _levels(step: object) -> list[tuple[str, bool]]:
    """What cuts a text, of a ``pre_tokenizer`` that ends in bytes."""
    if not isinstance(step, dict):
        raise unsupported("its tokens are not bytes")
    steps = step["pretokenizers"] if step["type"] == "Sequence" else [step]
    levels: list[tuple[str, bool]] = []
    for one in steps[:-1]:
        levels.append(_level(one))
    last = steps[-1]
    if last["type"] != "ByteLevel":
        raise unsupported("its tokens are not bytes")
    if last.get("add_prefix_space"):
        raise unsupported("it puts a space before a text")
    if last.get("use_regex", True):
        levels.append((GPT2_PATTERN, True))
    return levels or [(_EVERYTHING, True)]


def _level(step: Mapping[str, object]) -> tuple[str, bool]:
    kind = step["type"]
    if kind == "Digits":
        return (r"\p{N}" if step.get("individual_digits") else r"\p{N}+"), True
    if kind == "Split":
        pattern = step["pattern"]
        assert isinstance(pattern, dict)
        behavior, invert = step.get("behavior"), step.get("invert", False)
        if "Regex" in pattern and ((behavior == "Isolated" and not invert) or (behavior == "Removed" and invert)):
            return pattern["Regex"], behavior == "Isolated"
    raise unsupported(f"it cuts a text by {kind} ({step})")


def _is_composed(step: object) -> bool:
    if not isinstance(step, dict):
        return False
    if step["type"] == "Sequence":
        return any([_is_composed(one) for one in step["normalizers"]])
    if step["type"] == "NFC":
        return True
    raise unsupported(f"it changes a text by {step['type']}")


def unsupported(why: str) -> VocabularyError:
    return VocabularyError(
        f"guiderail cannot tell how this tokenizer spells a text: {why}; canonical=True needs a byte-pair encoding "
        "over bytes, of a tokenizer (tokenizers, tiktoken, tekken, llama.cpp) that was loaded with its merges",
        code="no-spelling",
    )


@lru_cache(maxsize=8)
def _levels_of(patterns: tuple[tuple[str, bool], ...], composed: bool, oniguruma: bool) -> tuple[list[_Level], bytes]:
    """The instructions of all levels, and the atom of each code point; some 0.3 s."""
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
    """The native form; built in some 0.3 s for 128 k tokens.

    Raises:
        VocabularyError: ``no-spelling``.
    """
    from guiderail import _core

    try:
        levels, atoms = _levels_of(tuple(rules.patterns), rules.composed, rules.oniguruma)
    except PatternError as error:
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
        )
    except ValueError as error:  # merges in no order
        raise unsupported(str(error)) from error
