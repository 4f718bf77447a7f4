"""Messages become token ids by the template that comes with the model.

A template is Jinja, run in its sandbox as transformers does it. Text of a message that spells a special token stays
text: the template is rendered around a mark, and what belongs in its place is tokenised by itself.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from guiderail.errors import ModelError
from guiderail.models import GGUFModel, LlamaCppModel, Model, TransformersModel

__all__ = ["ChatTemplate"]

Tokenize = Callable[[str, bool], list[int]]  # text, whether it may spell special tokens


class ChatTemplate:
    """How one model is spoken to.

    Args:
        model: whose template and tokenizer are used.
        source: a template to use instead of the model's own.

    Attributes:
        source: the template, or None: the model has none that is known here, and only a system message and a user's
            one message can be put to it, by its own ``encode``.
    """

    def __init__(self, model: Model, source: str | None = None) -> None:
        self._model = model
        self.source, self._tokenize, self._names = _parts_of(model)
        if source is not None:
            if self._tokenize is None:
                raise ModelError(
                    f"a chat template needs a tokenizer that reads special tokens; {model.name} offers none",
                    code="no-chat-template",
                )
            self.source = source
        self._template: Any = _compile(self.source) if self.source is not None else None
        special = sorted((text for text in model.vocabulary.special_tokens if text), key=len, reverse=True)
        self._special = re.compile("|".join(map(re.escape, special))) if special else None

    @property
    def knows_tools(self) -> bool:
        """Whether it shows tools, calls and their results to the model."""
        return self.source is not None and re.search(r"\btools\b", self.source) is not None

    @property
    def knows_developer(self) -> bool:
        return self.source is not None and "developer" in self.source

    def encode(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] | None) -> list[int]:
        """Token ids of a conversation, up to where the assistant's next turn begins.

        Args:
            messages: each with ``role`` and ``content``, a text.
            tools: as OpenAI has them, for a template that knows tools.

        Raises:
            ModelError: ``no-chat-template``, or ``chat-template`` when the template refuses the conversation.
        """
        if self._tokenize is None or self._template is None:
            return self._plain(messages)
        nonce = secrets.token_hex(8)
        texts: list[str] = []
        shown = []
        for message in messages:
            content = message.get("content")
            if isinstance(content, str) and self._special is not None and self._special.search(content):
                message = {**message, "content": f"{nonce}:{len(texts)}:"}
                texts.append(content)
            shown.append(message)
        rendered = self._render(shown, tools)
        if not texts:
            return self._tokenize(rendered, True)
        ids: list[int] = []
        for i, part in enumerate(re.split(rf"{nonce}:(\d+):", rendered)):
            text = texts[int(part)] if i % 2 else part
            if text:
                ids += self._tokenize(text, not i % 2)
        return ids

    def _render(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] | None) -> str:
        from jinja2 import TemplateError

        try:
            return str(
                self._template.render(
                    messages=messages, tools=list(tools) if tools else None, add_generation_prompt=True, **self._names
                )
            )
        except (TemplateError, TypeError, ValueError, KeyError, AttributeError) as error:
            raise ModelError(
                f"the chat template of {self._model.name} cannot show these messages: {error}", code="chat-template"
            ) from error

    def _plain(self, messages: Sequence[Mapping[str, Any]]) -> list[int]:
        roles = [message["role"] for message in messages]
        if roles not in (["user"], ["system", "user"]):
            raise ModelError(
                f"{self._model.name} has no chat template that is known here, so it takes one message of a user, "
                "with a system message before it or not; give the server a --chat-template",
                code="no-chat-template",
            )
        system = messages[0]["content"] if len(messages) == 2 else None
        return self._model.encode(messages[-1]["content"], chat=True, system=system)


def _compile(source: str) -> Any:
    from jinja2 import TemplateError, nodes
    from jinja2.ext import Extension
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """``{% generation %}``, which marks the assistant's part for training, and nothing else."""

        tags = {"generation"}  # noqa: RUF012 - as jinja2 has it

        def parse(self, parser: Any) -> list[nodes.Node]:
            next(parser.stream)
            body: list[nodes.Node] = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return body

    def refuse(message: str) -> None:
        raise TemplateError(message)

    def to_json(value: Any, indent: int | None = None, **options: Any) -> str:
        return json.dumps(value, ensure_ascii=False, indent=indent, **options)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, "jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = to_json
    environment.globals["raise_exception"] = refuse
    environment.globals["strftime_now"] = lambda format: datetime.now().strftime(format)
    try:
        return environment.from_string(source)
    except TemplateError as error:
        raise ModelError(f"the chat template cannot be read: {error}", code="chat-template") from error


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
    if callable(own):  # an adapter of the user's own that can do more than it must

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
