"""Token healing: the end of a prompt is taken back and written again, together with what follows.

A prompt that ends in ``http:`` ends in a token that the tokenizer would not have chosen before ``//``: a model that
must continue after it leaves the spellings that it was trained on. So the last tokens are taken back as far as a longer
token may begin with them, and what they stand for is required as the beginning of the text (Lundberg 2023, "The Art of
Prompt Design: Prompt Boundaries and Token Healing").
"""

from __future__ import annotations

from collections.abc import Sequence

from guiderail.vocabulary import Vocabulary

__all__ = ["take_back"]


def take_back(prompt: Sequence[int], vocabulary: Vocabulary) -> tuple[list[int], bytes]:
    """The tokens of a prompt that stay, and what the others stand for.

    As many are taken back as some longer token begins with, as far as they are text; the first token of a prompt stays.
    None are where what they stand for begins or ends within a character.
    """
    core = vocabulary.core
    best, text = 0, b""
    for taken, token in enumerate(reversed(prompt[1:]), 1):
        if not vocabulary.is_text(token) or len(text) >= core.longest_token:
            break
        text = vocabulary.token_bytes(token) + text
        if any(core.token_bytes(other) != text for other in core.tokens_with_prefix(text, 2)):
            best = taken
    keep = len(prompt) - best
    prefix = b"".join(vocabulary.token_bytes(token) for token in prompt[keep:])
    try:
        prefix.decode()
    except UnicodeDecodeError:
        return list(prompt), b""
    return list(prompt[:keep]), prefix
