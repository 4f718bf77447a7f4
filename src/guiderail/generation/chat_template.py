"""Messages become token ids by the template that comes with the model.

A template is Jinja, run in its sandbox as transformers does it. Text of a message that spells a special token stays
text: the template is rendered around a mark, and what belongs in its place is tokenised by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from guiderail.errors import ModelError
from guiderail.generation.models import GGUFModel, LlamaCppModel, Model, TransformersModel
from guiderail.generation.rendering import Plain, Renderer, Shown

__all__ = ["ChatTemplate"]

Tokenize = Callable[[str, bool], list[int]]  # text, whether it may spell special tokens


class ChatTemplate:
    """How one model is spoken to.

    Args:
        model: whose template and tokenizer are used.
        source: a template to use instead of the model's own.

    Attributes:
        renderer: the template without the model. Without a template only a system message and a user's one message
            can be put to the model, by its own ``encode``.
    """

    def __init__(self, model: Model, source: str | None = None) -> None:
        self._model = model
        own, self._tokenize, names = _parts_of(model)
        if source is not None and self._tokenize is None:
            raise ModelError(
                f"a chat template needs a tokenizer that reads special tokens; {model.name} offers none",
                code="no-chat-template",
            )
        source = own if source is None else source
        specials = tuple(model.vocabulary.special_tokens)
        self.renderer = Renderer(model.name, source, names, specials, self._tokenize is not None)

    def encode(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] | None) -> list[int]:
        """Token ids of a conversation; see :meth:`Renderer.show`."""
        return self.tokens(self.renderer.show(messages, tools))

    def tokens(self, shown: Shown) -> list[int]:
        """The token ids of what a renderer has made."""
        if isinstance(shown, Plain):
            return self._model.encode(shown.text, chat=True, system=shown.system)
        assert self._tokenize is not None
        ids: list[int] = []
        for text, special in shown:
            ids += self._tokenize(text, special)
        return ids


def _parts_of(model: Model) -> tuple[str | None, Tokenize | None, dict[str, str]]:
    """The template of a model, its tokenizer, and the names of special tokens that templates use."""
    if isinstance(model, GGUFModel):
        from guiderail.vocabulary._gguf_metadata import read_metadata

        found = read_metadata(str(model.path), lambda key: key == "tokenizer.chat_template")
        gguf = model

        def tokenize(text: str, special: bool) -> list[int]:
            return gguf.tokenize(text, special=special)

        return found.get("tokenizer.chat_template"), tokenize, _names(model)
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

        def spell(text: str, special: bool) -> list[int]:
            ids = tokenizer(text, add_special_tokens=False, split_special_tokens=not special)["input_ids"]
            return [int(token) for token in ids]

        return template, spell, {"bos_token": "", "eos_token": "", **names}
    if isinstance(model, LlamaCppModel):
        llama = model.llama

        def pieces(text: str, special: bool) -> list[int]:
            return list(llama.tokenize(text.encode(), add_bos=False, special=special))

        return llama.metadata.get("tokenizer.chat_template"), pieces, _names(model)
    own = getattr(model, "tokenize", None)
    if callable(own):  # a user's own adapter that can do more than it must

        def ids(text: str, special: bool) -> list[int]:
            return [int(token) for token in own(text, special=special)]

        return getattr(model, "chat_template", None), ids, _names(model)
    return None, None, {}


def _names(model: Model) -> dict[str, str]:
    by_id = {token: text for text, token in model.vocabulary.special_tokens.items()}
    vocabulary = model.vocabulary
    first = vocabulary.bos_token_id
    last = vocabulary.stop_token_ids[0] if vocabulary.stop_token_ids else None
    return {
        "bos_token": by_id.get(first, "") if first is not None else "",
        "eos_token": by_id.get(last, "") if last is not None else "",
    }
