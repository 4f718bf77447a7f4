"""How a tokenizer spells: which sequences of tokens are those that it would make of their text."""

from guiderail.vocabulary.spelling.rules import (
    GPT2_PATTERN,
    SpellingRules,
    core_spelling,
    hugging_face_rules,
    merge_rules,
    ranked_rules,
    unsupported,
)

__all__ = [
    "GPT2_PATTERN",
    "SpellingRules",
    "core_spelling",
    "hugging_face_rules",
    "merge_rules",
    "ranked_rules",
    "unsupported",
]
