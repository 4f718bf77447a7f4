"""A ``llama_cpp.Llama`` object of llama-cpp-python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from guiderail.errors import ModelError
from guiderail.generation.marks import chat_tokens
from guiderail.generation.models.base import Logits, context_full

if TYPE_CHECKING:
    from guiderail.vocabulary import Vocabulary

__all__ = ["LlamaCppModel", "LlamaCppSession"]


class LlamaCppModel:
    """Wraps a ``llama_cpp.Llama``.

    It has one sequence, so a session has one row, and only one session is open at a time. Only public names of
    llama-cpp-python are used: ``tokenize``, ``reset``, ``eval``, ``n_ctx``, ``n_vocab``, ``metadata``, ``model_path``,
    ``ctx`` and the low-level ``llama_get_logits_ith``.
    """

    max_batch: int | None = 1

    def __init__(self, llama: Any) -> None:
        self.llama = llama
        self.context_length: int = int(llama.n_ctx())
        self.logits_size: int = int(llama.n_vocab())
        self._open: LlamaCppSession | None = None

    @property
    def name(self) -> str:
        return str(self.llama.metadata.get("general.name") or self.llama.model_path)

    @cached_property
    def vocabulary(self) -> Vocabulary:
        from guiderail.vocabulary import Vocabulary

        return Vocabulary.from_gguf(self.llama.model_path)

    def tokenize(self, text: str, *, special: bool = False) -> list[int]:
        """Returns the token ids of a text; special: its spellings of special tokens are read as these."""
        return list(self.llama.tokenize(text.encode(), add_bos=False, special=special))

    def encode(self, prompt: str, *, chat: bool, system: str | None = None) -> list[int]:
        if not chat:
            return list(self.llama.tokenize(prompt.encode(), add_bos=True, special=False))
        template = self.llama.metadata.get("tokenizer.chat_template")
        if not template:
            raise ModelError(
                f"{self.name} has no chat template; pass chat=False to continue the prompt unchanged",
                code="no-chat-template",
            )
        from llama_cpp.llama_chat_format import Jinja2ChatFormatter

        def piece(token: int) -> str:
            return str(self.llama.detokenize([token], special=True).decode("utf-8", "replace"))

        def render(texts: Mapping[str, str]) -> str:
            formatter = Jinja2ChatFormatter(
                template=template,
                eos_token=piece(self.llama.token_eos()),
                bos_token=piece(self.llama.token_bos()),
            )
            return str(formatter(messages=[{"role": role, "content": text} for role, text in texts.items()]).prompt)

        return chat_tokens(
            self.name, prompt, system, render, lambda text, special, _: self.tokenize(text, special=special)
        )

    def new_session(self, batch: int, length: int) -> LlamaCppSession:
        if batch != 1:
            raise ModelError(f"a llama_cpp.Llama runs one row at a time, not {batch}", code="bad-batch")
        if length > self.context_length:
            raise context_full(self.name, length, self.context_length)
        if self._open is not None:
            raise ModelError("this llama_cpp.Llama is in use by another generation", code="busy")
        self.llama.reset()
        self._open = LlamaCppSession(self, length)
        return self._open

    def close(self) -> None:
        """Ends the open session; the ``Llama`` object belongs to the caller."""
        if self._open is not None:
            self._open.close()

    def __repr__(self) -> str:
        return f"LlamaCppModel({self.name!r})"


class LlamaCppSession:
    """The one sequence of a ``Llama`` object."""

    batch = 1

    def __init__(self, model: LlamaCppModel, length: int) -> None:
        self._model: LlamaCppModel | None = model
        self.length, self._used = length, 0

    def feed(self, rows: Sequence[Sequence[int]]) -> Logits:
        from llama_cpp import llama_get_logits_ith

        if self._model is None:
            raise ModelError("the session was closed; make another one", code="closed")
        if len(rows) != 1 or not rows[0]:
            raise ModelError("the session has one row, which takes one token or more", code="bad-batch")
        tokens = list(rows[0])
        if self._used + len(tokens) > self.length:
            raise context_full(self._model.name, self._used + len(tokens), self.length)
        if not 0 <= min(tokens) <= max(tokens) < self._model.logits_size:
            raise ModelError(f"a token id is not one of {self._model.name}", code="bad-token")
        self._model.llama.eval(tokens)
        self._used += len(tokens)
        pointer = llama_get_logits_ith(self._model.llama.ctx, -1)
        logits: Logits = np.ctypeslib.as_array(pointer, (1, self._model.logits_size))
        return logits

    def close(self) -> None:
        if self._model is not None:
            self._model._open = None
            self._model = None
