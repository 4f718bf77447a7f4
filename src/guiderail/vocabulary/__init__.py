"""Vocabularies: one class, and an adapter for each kind of tokenizer (imported only when it is used)."""

from guiderail.vocabulary.vocabulary import Vocabulary

__all__ = ["Vocabulary"]
