"""How a tokenizer spells: which sequences of tokens it would itself make of their text."""

from guiderail.vocabulary.spelling.hugging_face import flat_steps, hugging_face_rules
from guiderail.vocabulary.spelling.rules import (
    GPT2_PATTERN,
    SpellingRules,
    core_spelling,
    merge_rules,
    ranked_rules,
    unsupported,
)
from guiderail.vocabulary.spelling.sentencepiece import sentencepiece_rules

__all__ = [
    "GPT2_PATTERN",
    "SpellingRules",
    "core_spelling",
    "flat_steps",
    "hugging_face_rules",
    "merge_rules",
    "ranked_rules",
    "sentencepiece_rules",
    "unsupported",
]
