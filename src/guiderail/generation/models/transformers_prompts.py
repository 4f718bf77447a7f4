"""Prompts → token ids, with a tokenizer of transformers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from guiderail.errors import ModelError
from guiderail.generation.marks import chat_tokens
from guiderail.generation.models.mistral import MistralMessages

__all__ = ["TransformersPrompts"]


class TransformersPrompts:
    """A tokenizer of transformers, with a chat template or Mistral's own.

    Args:
        name: of the model, for errors.
        tokenizer: of transformers.

    Attributes:
        mistral: what encodes messages if the tokenizer is Mistral's own, which has no chat template.
    """

    def __init__(self, name: str, tokenizer: Any) -> None:
        self._name, self._tokenizer = name, tokenizer
        self.mistral = MistralMessages(name, tokenizer) if MistralMessages.reads(tokenizer) else None

    def tokenize(self, text: str, *, special: bool = False) -> list[int]:
        """Returns the token ids of a text; special: its spellings of special tokens are read as these."""
        ids = self._tokenizer(text, add_special_tokens=False, split_special_tokens=not special)["input_ids"]
        return [int(token) for token in ids]

    def encode(self, prompt: str, *, chat: bool, system: str | None = None) -> list[int]:
        """Token ids of a prompt, see :class:`Model`.

        Raises:
            ModelError: ``no-chat-template``; ``chat-template``: the template rejects the messages.
        """
        if not chat:
            return [int(token) for token in self._tokenizer(prompt)["input_ids"]]

        def messages(texts: Mapping[str, str]) -> list[dict[str, str]]:
            return [{"role": role, "content": text} for role, text in texts.items()]

        if self.mistral is not None:
            texts = {"user": prompt} if system is None else {"system": system, "user": prompt}
            return self.mistral.encode(messages(texts), None)
        if not getattr(self._tokenizer, "chat_template", None):
            raise ModelError(
                f"the tokenizer of {self._name} has no chat template; pass chat=False to continue the prompt "
                "as it stands",
                code="no-chat-template",
            )

        def render(texts: Mapping[str, str]) -> str:
            return str(self._tokenizer.apply_chat_template(messages(texts), tokenize=False, add_generation_prompt=True))

        return chat_tokens(
            self._name, prompt, system, render, lambda text, special, _: self.tokenize(text, special=special)
        )
