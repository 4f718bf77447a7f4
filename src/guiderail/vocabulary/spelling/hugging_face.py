"""The spelling rules in a ``tokenizer.json``: of byte-pair encodings over bytes, and over characters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from guiderail.vocabulary.spelling.characters import SPACE, read_characters
from guiderail.vocabulary.spelling.patterns import UnreadablePattern
from guiderail.vocabulary.spelling.rules import (
    EVERYTHING,
    GPT2_PATTERN,
    SpellingRules,
    merge_rules,
    merge_table,
    unsupported,
)

__all__ = ["flat_steps", "hugging_face_rules"]


def hugging_face_rules(description: Mapping[str, object]) -> SpellingRules:
    """The spelling rules of a ``tokenizer.json``.

    Raises:
        VocabularyError: ``no-spelling``.
    """
    model = description["model"]
    assert isinstance(model, dict)
    if model.get("type") != "BPE":
        raise unsupported(f"the tokenizer's model is {model.get('type')}, not BPE")
    for key in ("continuing_subword_prefix", "end_of_word_suffix", "dropout"):
        if model.get(key):
            raise unsupported(f"its byte-pair encoding has {key}")
    if not _ends_in_bytes(description.get("pre_tokenizer")):
        return _by_character(description, model)
    if model.get("byte_fallback"):
        raise unsupported("its byte-pair encoding has byte_fallback, though its tokens are bytes")
    patterns = _levels(description.get("pre_tokenizer"))
    composed = _is_composed(description.get("normalizer"))
    added = description.get("added_tokens") or []
    assert isinstance(added, list)
    for token in added:
        _refuse_flags(token, ("lstrip", "rstrip", "single_word"))
    separate = tuple(token["content"].encode("utf-8", "replace") for token in added if token["content"])
    rules = merge_rules(model["vocab"], model["merges"], patterns, whole=bool(model.get("ignore_merges")))
    return SpellingRules(rules.merges, rules.singles, patterns, rules.whole, separate, composed, oniguruma=True)


def flat_steps(step: object, parts: str) -> list[dict[str, Any]]:
    """The steps of a normalizer, a pre-tokenizer or a decoder, with nested sequences flattened.

    Args:
        parts: the key under which a sequence has its steps: ``"normalizers"``.
    """
    if step is None:
        return []
    assert isinstance(step, dict)
    return [one for part in step[parts] for one in flat_steps(part, parts)] if step["type"] == "Sequence" else [step]


def _ends_in_bytes(step: object) -> bool:
    return any(one["type"] == "ByteLevel" for one in flat_steps(step, "pretokenizers"))


def _levels(step: object) -> list[tuple[str, bool]]:
    """What cuts a text, for a ``pre_tokenizer`` that ends in bytes."""
    *cuts, last = flat_steps(step, "pretokenizers")
    levels = [_level(one) for one in cuts]
    if last["type"] != "ByteLevel":
        raise unsupported("its tokens are not bytes")
    if last.get("add_prefix_space"):
        raise unsupported("it prepends a space to the text")
    if last.get("use_regex", True):
        levels.append((GPT2_PATTERN, True))
    return levels or [(EVERYTHING, True)]


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
    raise unsupported(f"its pre-tokenizer is not supported: {kind} ({step})")


def _is_composed(step: object) -> bool:
    steps = flat_steps(step, "normalizers")
    for one in steps:
        if one["type"] != "NFC":
            raise unsupported(f"its normalizer is not supported: {one['type']}")
    return bool(steps)


# -- characters --------------------------------------------------------------------------------------------------------
def _by_character(description: Mapping[str, object], model: dict[str, Any]) -> SpellingRules:
    """The rules of a byte-pair encoding that merges characters, with bytes for characters that are no token."""
    if model.get("ignore_merges"):
        raise unsupported("it looks up whole words before it merges (ignore_merges)")
    spaced, prefixed, split = _spaces(description)
    apart, closed = _added(description, prefixed)
    ids: dict[str, int] = model["vocab"]
    named = {f"<0x{byte:02X}>": byte for byte in range(256)} if model.get("byte_fallback") else {}
    fallback = {byte: ids[text] for text, byte in named.items() if text in ids}
    merges = [tuple(one.split(" ", 1)) if isinstance(one, str) else tuple(one) for one in model["merges"]]
    never = {*apart, *((" ",) if spaced else ())}  # no such text is merged
    merges = [one for one in merges if never.isdisjoint(one) and one[0] + one[1] not in apart]
    made = {left + right for left, right in merges}
    if not named.keys().isdisjoint([*made, *(part for one in merges for part in one)]):
        raise unsupported("a merge involves the token of a byte")
    table = merge_table(ids, merges)
    if not spaced:
        raise unsupported("its tokens do not show where spaces are")
    try:
        singles, characters = read_characters(
            {**ids, **apart}, fallback, made, split=split, added=apart.values(), closed=closed
        )
    except UnreadablePattern as error:
        raise unsupported(f"it has {error}") from error
    separate = tuple(text.encode("utf-8", "replace") for text in apart)
    return SpellingRules(table, singles, separate=separate, characters=characters)


def _spaces(description: Mapping[str, object]) -> tuple[bool, str, bool]:
    """Whether spaces are written as :data:`SPACE`, where one is put before a text, and whether one begins a piece.

    "first": only before the text; "always": also after each added token; "each": the same, even if a space is there.
    """
    spaced, prefixed, split = False, "", False
    for step in flat_steps(description.get("normalizer"), "normalizers"):
        if step["type"] == "Prepend" and step["prepend"] == SPACE:
            prefixed = "each"
        elif step["type"] == "Replace" and step["pattern"] == {"String": " "} and step["content"] == SPACE:
            spaced = True
        else:
            raise unsupported(f"its normalizer is not supported: {step['type']}")
    for step in flat_steps(description.get("pre_tokenizer"), "pretokenizers"):
        if step["type"] == "Metaspace" and step["replacement"] == SPACE:
            scheme = step.get("prepend_scheme", "always" if step.get("add_prefix_space", True) else "never")
            spaced, split = True, split or step.get("split", True)
            if scheme != "never":
                prefixed = prefixed or scheme
        elif not (step["type"] == "Split" and spaced and step["pattern"] == {"String": " "}):  # there are none left
            raise unsupported(f"its pre-tokenizer is not supported: {step['type']} ({step})")
    return spaced, prefixed, split


def _added(description: Mapping[str, object], prefixed: str) -> tuple[dict[str, int], bool]:
    """Texts that are tokens of their own, and whether no text follows them (it would begin with another space)."""
    added = description.get("added_tokens") or []
    assert isinstance(added, list)
    closed = prefixed == "each"
    apart: dict[str, int] = {}
    for token in added:
        text = token["content"]
        if not text or (SPACE in text and not token["normalized"]):
            continue  # no text that is given back contains it
        if token["normalized"] and (closed or SPACE in text):
            raise unsupported(f"it looks for the added token {text!r} after normalizing the text")
        if not token["special"]:
            _refuse_flags(token, ("lstrip", "single_word", *(() if closed else ("rstrip",))))
            if prefixed == "always":
                raise unsupported(f"it inserts a space after the added token {text!r}")
        apart[text] = int(token["id"])
    return apart, closed


def _refuse_flags(token: Mapping[str, Any], flags: tuple[str, ...]) -> None:
    for flag in flags:
        if token.get(flag) and not token["special"]:
            raise unsupported(f"the added token {token['content']!r} depends on the text around it ({flag})")
