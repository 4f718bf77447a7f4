"""A small byte-level tokenizer for transformers, made without any file."""

from __future__ import annotations

from typing import Any

WORDS = ("true", "false", "null", '{"', '": ', "name", "yes", "no", "12", "<call>")


def tokenizer() -> Any:
    """Makes a tokenizer of 256 bytes, some words, ``<think>``, ``</think>``, and ``</s>`` as the end of a text."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from tokenizers.pre_tokenizers import ByteLevel
    from transformers import PreTrainedTokenizerFast

    letters = sorted(ByteLevel.alphabet())
    vocabulary = {letter: i for i, letter in enumerate(letters)}
    merges: list[tuple[str, str]] = []
    for word in WORDS:
        spelled = ByteLevel(add_prefix_space=False, use_regex=False).pre_tokenize_str(word)[0][0]
        whole = spelled[0]
        for letter in spelled[1:]:
            if whole + letter not in vocabulary:
                merges.append((whole, letter))
                vocabulary[whole + letter] = len(vocabulary)
            whole += letter
    backend = Tokenizer(models.BPE(vocabulary, merges))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([AddedToken(text, special=True) for text in ("<think>", "</think>", "</s>")])
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="</s>")
