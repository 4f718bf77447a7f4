"""Prompts: a text, or messages with roles, as token ids."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from guiderail.errors import ModelError, PatternError
from guiderail.generation.models import Model
from guiderail.support.callers import outside
from guiderail.support.texts import shown, utf8

if TYPE_CHECKING:
    from guiderail.generation.chat_template import ChatTemplate
    from guiderail.generation.options import Options

__all__ = ["Conversation", "Prompt", "encode_prompt", "prompts_of", "with_words"]

Conversation: TypeAlias = Sequence[Mapping[str, Any]]
Prompt: TypeAlias = str | Conversation

ROLES = ("system", "developer", "user", "assistant", "tool")

_ORDER = "the model comes first, then the prompt, then the target"

_templates: weakref.WeakKeyDictionary[Any, ChatTemplate] = weakref.WeakKeyDictionary()


def is_conversation(value: object) -> bool:
    """Whether this is a list of messages."""
    return isinstance(value, list | tuple) and len(value) > 0 and all(isinstance(one, Mapping) for one in value)


def prompts_of(given: object, *, single: bool) -> tuple[list[Prompt], bool]:
    """The prompts of a call, checked, and whether it is just one.

    Args:
        given: a text, a list of messages, or a list of these.
        single: whether one without a list around it may be given.

    Raises:
        ModelError: ``bad-prompt``.
    """
    if isinstance(given, str) or is_conversation(given):
        if not single:
            raise ModelError("generations takes a list of prompts; pass [prompt]", code="bad-prompt")
        return [_checked(given)], True
    if not isinstance(given, list | tuple):
        way_out = "put the message into a list" if isinstance(given, Mapping) else _ORDER
        raise ModelError(
            "a prompt must be a string or a list of messages, several prompts a list of strings or of lists of "
            f"messages, not {type(given).__name__}; {way_out}",
            code="bad-prompt",
        )
    return [_checked(one) for one in given], False


def _checked(given: Any) -> Prompt:
    if isinstance(given, str):
        _check_text(given, "the prompt")
        return given
    if not is_conversation(given):
        raise ModelError(
            'a prompt must be a string, or a list of messages such as {"role": "user", "content": "…"}, several '
            f"prompts a list of strings or of such lists; this is {shown(given)}",
            code="bad-prompt",
        )
    messages: Conversation = given
    for i, message in enumerate(messages):
        role, content = message.get("role"), message.get("content")
        if role not in ROLES:
            raise ModelError(
                f"message {i}: its role must be one of {', '.join(ROLES)}, not {shown(role)}", code="bad-prompt"
            )
        if not isinstance(content, str) and not (role == "assistant" and content is None):
            raise ModelError(f"message {i}: its content must be a string, not {shown(content)}", code="bad-prompt")
        _check_text(content or "", f"message {i}")
    if messages[-1]["role"] == "assistant":
        raise ModelError(
            "the last message is the assistant's, so there is nothing to answer; end with a message of the user or a "
            "tool",
            code="bad-prompt",
        )
    return messages


def _check_text(text: str, what: str) -> None:
    try:
        utf8(text)
    except PatternError as error:
        raise ModelError(f"{what}: {error.message}", code="bad-prompt", source=error.source, span=error.span) from None


def with_words(prompt: Prompt, words: str) -> Prompt:
    """The prompt, extended by these words at its end."""
    if isinstance(prompt, str):
        return f"{prompt}\n\n{words}"
    *before, last = prompt
    return [*before, {**last, "content": f"{last['content']}\n\n{words}"}]


def encode_prompt(model: Model, prompt: Prompt, options: Options) -> list[int]:
    """The token ids of a prompt.

    Messages reach the model through its own chat template.

    Raises:
        ModelError: ``no-chat-template``, ``chat-template``, ``missing-package``, ``bad-option``.
    """
    if isinstance(prompt, str):
        if not options.chat:
            _warn_of_markers(model, prompt)
        return model.encode(prompt, chat=options.chat, system=options.system)
    if not options.chat:
        raise ModelError("messages need the chat template: leave chat=True, or pass a string", code="bad-option")
    if options.system is not None:
        raise ModelError("put the system message into the list of messages, or pass a string", code="bad-option")
    roles = [message["role"] for message in prompt]
    if roles in (["user"], ["system", "user"]) and all(len(message) == 2 for message in prompt):
        system = prompt[0]["content"] if len(prompt) == 2 else None
        return model.encode(prompt[-1]["content"], chat=True, system=system)
    return _template(model).encode(prompt, None)


def _warn_of_markers(model: Model, prompt: str) -> None:
    """Warns if a text to continue looks like a conversation that a chat template has already formatted."""
    found = next((text for text in model.vocabulary.special_tokens if text and text in prompt), None)
    if found is not None:
        warnings.warn(
            f"the prompt spells the special token {found!r}, which is read as ordinary text; for a conversation, pass "
            "a list of messages, and the model's chat template writes its special tokens",
            stacklevel=outside(),
        )


def _template(model: Model) -> ChatTemplate:
    from guiderail.generation.chat_template import ChatTemplate

    found = _templates.get(model)
    if found is None:
        try:
            found = ChatTemplate(model)
        except ImportError as error:
            raise ModelError(
                f"messages need a package for chat templates ({error}): pip install jinja2",
                code="missing-package",
            ) from error
        _templates[model] = found
    return found
