"""Small tokenizers with their own merges, and their spellings: the tokenizer itself is the oracle."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from guiderail import Guide, Matcher, Vocabulary, allocate_token_bitmask
from guiderail.errors import VocabularyError
from guiderail.vocabulary._table import gpt2_characters

GPT2 = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
BYTES = {**GPT2, "use_regex": False}


def split(pattern: str) -> dict[str, Any]:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


def levels(*patterns: str) -> dict[str, Any]:
    return {"type": "Sequence", "pretokenizers": [*map(split, patterns), BYTES]}


def _model(ids: dict[str, int], merges: Sequence[tuple[str, str]], **fields: Any) -> dict[str, Any]:
    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "ignore_merges": False,
        "vocab": ids,
        "merges": [list(merge) for merge in merges],
        **fields,
    }


def tokenizer(
    alphabet: bytes,
    merges: Sequence[tuple[str, str]],
    pre_tokenizer: dict[str, Any],
    *,
    whole: bool = False,
    added: Sequence[str] = (),
    extra: Sequence[str] = (),
    normalizer: dict[str, Any] | None = None,
) -> Any:
    """A ``tokenizers.Tokenizer`` over these bytes.

    Args:
        merges: in GPT-2's alphabet.
        added: texts that are tokens of their own.
        extra: tokens that no merge makes.
    """
    import tokenizers

    characters = {byte: character for character, byte in gpt2_characters().items()}
    tokens = dict.fromkeys([characters[byte] for byte in alphabet])
    tokens.update(dict.fromkeys(left + right for left, right in merges))
    tokens.update(dict.fromkeys(extra))
    ids = {token: i for i, token in enumerate(tokens)}
    ids["</s>"] = len(ids)
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    described = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": ids["</s>"], "content": "</s>", "special": True, **flags},
            *({"id": len(ids) + i, "content": text, "special": False, **flags} for i, text in enumerate(added)),
        ],
        "normalizer": normalizer,
        "pre_tokenizer": pre_tokenizer,
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "model": _model(ids, merges, ignore_merges=whole),
    }
    return tokenizers.Tokenizer.from_str(json.dumps(described))


def vocabulary(backend: Any) -> Vocabulary:
    return Vocabulary.from_huggingface(backend, stop_token_ids=[backend.token_to_id("</s>")])


def spelled(vocabulary: Vocabulary, text: str) -> list[int] | None:
    """Returns the tokenizer's spelling of a text; None if decoding does not restore the text."""
    try:
        return vocabulary.encode(text)
    except VocabularyError:
        return None


def is_spelled(vocabulary: Vocabulary, tokens: Sequence[int]) -> bool:
    try:
        text = b"".join(map(vocabulary.token_bytes, tokens)).decode()
    except UnicodeDecodeError:
        return False
    return spelled(vocabulary, text) == list(tokens)


def mask_of(matcher: Matcher) -> set[int]:
    mask: NDArray[np.int32] = allocate_token_bitmask(1, matcher.guide.vocabulary.size)
    matcher.fill_next_token_bitmask(mask)
    return set(np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little")).tolist())


def assert_is_tree(guide: Guide, spellings: Iterable[Sequence[int]]) -> None:
    """Checks that the guide allows these sequences of tokens, their prefixes, and nothing else."""
    wanted = {tuple(one) for one in spellings}
    stop = guide.vocabulary.stop_token_ids[0]
    begun = {one[:n] for one in wanted for n in range(len(one) + 1)}
    for start in sorted(begun):
        matcher = guide.matcher()
        assert all(matcher.accept_token(token) for token in start), start
        expected = {one[len(start)] for one in begun if one[: len(start)] == start and len(one) > len(start)}
        expected |= {stop} if start in wanted else set()
        assert mask_of(matcher) == expected, start
        for token in range(guide.vocabulary.token_count):
            assert (matcher.validate([token]) == 1) == (token in expected), (start, token)
        assert matcher.is_accepting() == (start in wanted)


# -- characters --------------------------------------------------------------------------------------------------------
REPLACE = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
_METASPACE = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": False}
STYLES: dict[str, tuple[dict[str, Any] | None, dict[str, Any] | None]] = {  # normalizer, pre-tokenizer
    "llama 2": ({"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}, REPLACE]}, None),
    "first": (None, _METASPACE),
    "always": (None, {**_METASPACE, "prepend_scheme": "always"}),
    "never": (None, {**_METASPACE, "prepend_scheme": "never"}),
    "words": (None, {**_METASPACE, "split": True}),
    "gemma": (
        REPLACE,
        {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False},
    ),
}


def character_tokenizer(
    style: str,
    alphabet: str = "",
    merges: Sequence[tuple[str, str]] = (),
    *,
    fallback: bool = True,
    added: Sequence[str] = (),
    pieces: Sequence[str] = (),
    **flags: Any,
) -> Any:
    """A ``tokenizers.Tokenizer`` over characters, with ``▁`` for a space.

    Args:
        fallback: whether other characters are spelled by their bytes.
        added: texts that are tokens of their own.
        pieces: all tokens, instead of those that the alphabet and the merges need.
        flags: for the added tokens, or fields of the model.
    """
    import tokenizers

    tokens = list(pieces) or ["<unk>", "</s>", *([f"<0x{byte:02X}>" for byte in range(256)] if fallback else [])]
    if not pieces:
        tokens += dict.fromkeys([*alphabet, *(left + right for left, right in merges)])
    ids = {token: i for i, token in enumerate(tokens)}
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    chosen = {key: flags.pop(key, value) for key, value in plain.items()}
    normalizer, pre_tokenizer = STYLES[style]
    steps = [
        {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
    ]
    described = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            *({"id": ids[text], "content": text, "special": True, **plain} for text in ("<unk>", "</s>")),
            *(
                {"id": ids.get(text, len(ids) + i), "content": text, "special": False, **chosen}
                for i, text in enumerate(added)
            ),
        ],
        "normalizer": flags.pop("normalizer", normalizer),
        "pre_tokenizer": flags.pop("pre_tokenizer", pre_tokenizer),
        "post_processor": None,
        "decoder": {"type": "Sequence", "decoders": steps},
        "model": _model(ids, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=fallback, **flags),
    }
    return tokenizers.Tokenizer.from_str(json.dumps(described))


def walk_one_by_one(
    guide: Guide, rng: random.Random, *, every: int, likely: float, is_long: Callable[[int], bool]
) -> list[int]:
    """Draws a text, and at regular steps compares its mask with ``validate`` of single tokens.

    Args:
        likely: how often a long token is drawn if there is one.

    Returns:
        The text's tokens, except those that are not text.
    """
    v, matcher = guide.vocabulary, guide.matcher()
    for step in range(40):
        mask = mask_of(matcher)
        assert mask, matcher.history()
        if step % every == 0:
            single = {t for t in range(v.token_count) if matcher.validate([t])}
            assert single == mask, [(v.token_bytes(t), matcher.history()) for t in single ^ mask]
        long = [t for t in mask if not v.is_text(t) or is_long(t)]
        assert matcher.accept_token(rng.choice(sorted(long if long and rng.random() < likely else mask)))
        if matcher.is_terminated():
            break
    while not matcher.is_terminated() and not matcher.is_accepting():
        needed = matcher.least_tokens()
        assert needed is not None
        near = [t for t in mask_of(matcher) if matcher.fork().accept_within(t, needed)]
        assert matcher.accept_token(rng.choice(near))
    return [t for t in matcher.history() if v.is_text(t)]
