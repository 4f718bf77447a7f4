"""Mistral's own tokenizer in transformers, over mistral-common, makes tokens of messages without a chat template.

It reads as text whatever messages and tools contain, and writes special tokens itself. (In its first version, of
Mistral 7B v0.1, ``[INST]`` is no special token: the turns are texts.)
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from guiderail.errors import ModelError
from guiderail.generation.marks import check_size

__all__ = ["MistralMessages"]

_ID = re.compile("[a-zA-Z0-9]{9}")


class MistralMessages:
    """Messages → token ids.

    Args:
        name: of the model, for errors.
        tokenizer: of transformers, with one of mistral-common in it.
    """

    def __init__(self, name: str, tokenizer: Any) -> None:
        self._name, self._tokenizer = name, tokenizer
        inner = tokenizer.tokenizer.instruct_tokenizer
        self.knows_tools: bool = hasattr(inner, "TOOL_CALLS")  # the first version does not
        self._thinks = getattr(inner, "BEGIN_THINK", None) is not None

    @staticmethod
    def reads(tokenizer: Any) -> bool:
        """Whether this is such a tokenizer."""
        return hasattr(getattr(tokenizer, "tokenizer", None), "instruct_tokenizer")

    def encode(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] | None) -> list[int]:
        """Token ids up to the start of the assistant's next turn.

        Args:
            messages: dicts with ``role`` and ``content``, a text.
            tools: tools as in OpenAI's API.

        Raises:
            ModelError: ``chat-template``: mistral-common rejects the messages or tools.
        """
        check_size([*messages, *(tools or ())])
        try:
            ids = self._tokenizer.apply_chat_template(
                [self._message(message) for message in messages],
                tools=[_tool(tool) for tool in tools] if tools else None,
                tokenize=True,
                return_dict=False,
            )
        except Exception as error:  # of several libraries
            raise ModelError(
                f"Mistral's tokenizer of {self._name} cannot show these messages: {error}", code="chat-template"
            ) from error
        return [int(token) for token in ids]

    def _message(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """The message with the members that mistral-common knows, some of which it refuses in other roles."""
        role = message["role"]
        made = {"role": "system" if role == "developer" else role, "content": message.get("content")}
        if role == "assistant":
            if self._thinks:
                made |= {key: message[key] for key in ("reasoning_content", "reasoning") if message.get(key)}
            if message.get("tool_calls"):
                made["tool_calls"] = [_call(call) for call in message["tool_calls"]]
        elif role == "tool":
            made |= {"tool_call_id": _id(message.get("tool_call_id")), "name": message.get("name")}
        return made


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    """The call with its arguments as JSON, which need not be an object."""
    name, arguments = call["function"]["name"], call["function"].get("arguments")
    if not isinstance(arguments, str):
        arguments = json.dumps({} if arguments is None else arguments, ensure_ascii=False)
    return {"id": _id(call.get("id")), "type": "function", "function": {"name": name, "arguments": arguments}}


def _tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    known = {key: tool["function"].get(key) for key in ("name", "description", "parameters")}
    given = {key: value for key, value in known.items() if value is not None}
    return {"type": "function", "function": {"description": "", "parameters": {}, **given}}


def _id(given: Any) -> str:
    """An id in the form that most versions ask for, nine letters and digits; the same for the same id."""
    text = "" if given is None else str(given)
    return text if _ID.fullmatch(text) else hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:9]
