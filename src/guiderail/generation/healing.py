"""Token healing: removes the end of a prompt and writes it again, together with what follows.

A prompt that ends in ``http:`` ends in a token that the tokenizer would not have chosen before ``//``. A model that
continues after it leaves the spellings that it was trained on. So the last tokens are removed if a longer token may
begin with them, and their text is required as the beginning of the generated text (Lundberg 2023, "The Art of Prompt
Design: Prompt Boundaries and Token Healing").
"""

from __future__ import annotations

from collections.abc import Sequence

from guiderail.vocabulary import Vocabulary

__all__ = ["take_back"]


def take_back(prompt: Sequence[int], vocabulary: Vocabulary) -> tuple[list[int], bytes]:
    """Returns the tokens of a prompt that stay, and the text of those that are removed.

    As many are removed as some longer token begins with, as long as they are text. The first token of a prompt stays.
    None are removed if their text begins or ends inside a character.
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
