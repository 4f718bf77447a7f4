"""Finds the tokens that end a turn.

A tokenizer names one end-of-sequence token. Chat models end their turns with another one, which the tokenizer only
lists among its special tokens. An adapter uses, in this order: what the caller passed, the declared end of sequence,
the model's generation settings if they are next to the tokenizer, and those well-known strings below that the tokenizer
itself declares as special (or added) tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

__all__ = ["END_TEXTS", "end_tokens"]

# Texts that end a turn in the public chat formats.
END_TEXTS: frozenset[str] = frozenset(
    {
        "</s>",  # Llama 1 and 2, Mistral, T5
        "<eos>",  # Gemma
        "<end_of_turn>",
        "<|endoftext|>",  # GPT-2, Qwen, Phi
        "<|end_of_text|>",  # Llama 3, Granite
        "<|eot_id|>",
        "<|eom_id|>",
        "<|eot|>",  # Llama 4
        "<|eom|>",
        "<|im_end|>",  # ChatML: Qwen, SmolLM2, Hermes
        "<|end|>",  # Phi 3
        "<|return|>",  # gpt-oss
        "<|call|>",
        "<|end_of_turn|>",
        "<|endofturn|>",
        "<|END_OF_TURN_TOKEN|>",  # Command R
        "<｜end▁of▁sentence｜>",  # DeepSeek
        "<end_of_utterance>",  # SmolVLM
        "<|eos|>",
        "[EOS]",
        "<EOT>",
        "_<EOT>",
        "[EOT]",
        "<|EOT|>",  # DeepSeek Coder
    }
)


# In some vocabularies these are text (the end of a struck-out passage in HTML): they count only if special.
_SPECIAL_ONLY = frozenset({"</s>", "<eos>", "[EOS]", "[EOT]", "<EOT>", "_<EOT>"})


def end_tokens(declared: Iterable[int | None], special: Mapping[str, int], others: Mapping[str, int]) -> list[int]:
    """The declared end tokens (``None`` is skipped) and the well-known ones, without duplicates.

    Args:
        special: the special tokens, text → id.
        others: added or user-defined tokens that are not special.
    """
    found = {token: None for token in declared if token is not None}
    # gpt-oss: <|end|> only closes one message of a turn, the turn ends with <|return|> or <|call|>
    inner = {"<|end|>"} if {"<|return|>", "<|call|>"} <= special.keys() else set()
    known = [token for text, token in special.items() if text in END_TEXTS - inner]
    known += [token for text, token in others.items() if text in END_TEXTS - inner - _SPECIAL_ONLY]
    return list(found | dict.fromkeys(sorted(known)))
