"""Messages become token ids by the template that comes with the model.

A template is Jinja, run in its sandbox as transformers does it. Text of a message that spells a special token stays
text: the template is rendered around a mark, and what belongs in its place is tokenised by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from guiderail.errors import ModelError
from guiderail.generation.models import GGUFModel, LlamaCppModel, Model, TransformersModel
from guiderail.generation.rendering import Plain, Renderer, Shown

__all__ = ["ChatTemplate"]

Tokenize = Callable[..., Sequence[int]]  # a text, special=: whether it may spell special tokens
_IN_GGUF = "tokenizer.chat_template"


class ChatTemplate:
    """How one model is spoken to.

    Args:
        model: whose template and tokenizer are used.
        source: a template to use instead of the model's own.

    Attributes:
        renderer: the template without the model. Without a template only a system message and a user's one message
            can be put to the model, by its own ``encode``; Mistral's own tokenizers encode conversations.
    """

    def __init__(self, model: Model, source: str | None = None) -> None:
        self._model = model
        self._mistral = model.prompts.mistral if isinstance(model, TransformersModel) else None
        own, self._tokenize, names = _parts_of(model)
        if source is not None and self._tokenize is None:
            raise ModelError(
                f"a chat template needs a tokenizer that reads special tokens; {model.name} offers none: leave "
                "chat_template out",
                code="no-chat-template",
            )
        source = own if source is None else source
        specials = tuple(model.vocabulary.special_tokens)
        itself: Literal["prompts", "conversations", "tools"] = "prompts"
        if self._mistral is not None:
            itself = "tools" if self._mistral.knows_tools else "conversations"
        self.renderer = Renderer(model.name, source, names, specials, self._tokenize is not None, itself)

    def encode(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] | None) -> list[int]:
        """Token ids of a conversation; see :meth:`Renderer.show`."""
        return self.tokens(self.renderer.show(messages, tools))

    def tokens(self, shown: Shown) -> list[int]:
        """The token ids of what a renderer has made."""
        if isinstance(shown, Plain):
            if self._mistral is not None:
                return self._mistral.encode(shown.messages, shown.tools)
            *before, last = [message["content"] for message in shown.messages]
            return self._model.encode(last, chat=True, system=before[0] if before else None)
        assert self._tokenize is not None
        return [int(token) for text, special in shown for token in self._tokenize(text, special=special)]

    def written(self, shown: Shown) -> str:
        """The text of what a renderer has made, special tokens too."""
        if isinstance(shown, Plain):
            return self._model.vocabulary.decode(self.tokens(shown), skip_special_tokens=False)
        return "".join(text for text, _ in shown)


def _parts_of(model: Model) -> tuple[str | None, Tokenize | None, dict[str, str]]:
    """The template of a model, its tokenizer, and the names of special tokens that templates use."""
    tokenize = getattr(model, "tokenize", None)
    if not callable(tokenize) or (isinstance(model, TransformersModel) and model.prompts.mistral is not None):
        return None, None, {}
    if isinstance(model, TransformersModel):
        tokenizer = model.tokenizer
        template = getattr(tokenizer, "chat_template", None)
        if isinstance(template, dict):
            template = template.get("tool_use") or template.get("default")
        names = {
            name: str(text)
            for name in ("bos_token", "eos_token", "pad_token", "unk_token")
            if (text := getattr(tokenizer, name, None))
        }
        return template, tokenize, {"bos_token": "", "eos_token": "", **names}
    if isinstance(model, GGUFModel):
        from guiderail.vocabulary._gguf_metadata import read_metadata

        template = read_metadata(str(model.path), lambda key: key == _IN_GGUF).get(_IN_GGUF)
    elif isinstance(model, LlamaCppModel):
        template = model.llama.metadata.get(_IN_GGUF)
    else:  # a user's own adapter that can do more than it must
        template = getattr(model, "chat_template", None)
    return template, tokenize, _names(model)


def _names(model: Model) -> dict[str, str]:
    by_id = {token: text for text, token in model.vocabulary.special_tokens.items()}
    vocabulary = model.vocabulary
    first = vocabulary.bos_token_id
    last = vocabulary.stop_token_ids[0] if vocabulary.stop_token_ids else None
    return {
        "bos_token": by_id.get(first, "") if first is not None else "",
        "eos_token": by_id.get(last, "") if last is not None else "",
    }
