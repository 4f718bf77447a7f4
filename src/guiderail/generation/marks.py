"""A prompt or a conversation in a chat template: only the template can write special tokens.

The template is rendered around marks. What they stand for is tokenized by itself, as text.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Mapping
from typing import Any

from guiderail.errors import ModelError
from guiderail.support.nesting import too_large

__all__ = ["Marks", "chat_tokens", "check_size"]

_WHOLE = re.compile("(?s).+")


class Marks:
    """Stand in for texts in messages and tools, wherever a template writes them.

    Args:
        hidden: the texts, such as those that spell special tokens; None: there are none.
    """

    def __init__(self, hidden: re.Pattern[str] | None) -> None:
        self._hidden = hidden
        self._nonce = secrets.token_hex(8)
        self._texts: list[str] = []

    def put(self, value: Any) -> Any:
        """A copy of the value with marks in its texts and keys.

        Raises:
            ModelError: ``chat-template``: the value contains itself, or is too large.
        """
        check_size(value)
        held = [value]
        waiting: list[Any] = [held]  # copies whose parts are still those of the original
        while waiting:
            at = waiting.pop()
            for step, part in list(at.items() if isinstance(at, dict) else enumerate(at)):
                if isinstance(part, Mapping):
                    at[step] = {self._marked(key): inner for key, inner in part.items()}
                    waiting.append(at[step])
                elif isinstance(part, list | tuple):
                    at[step] = list(part)
                    waiting.append(at[step])
                else:
                    at[step] = self._marked(part)
        return held[0]

    def _marked(self, part: Any) -> Any:
        return part if self._hidden is None or not isinstance(part, str) else self._hidden.sub(self._mark, part)

    def _mark(self, found: re.Match[str]) -> str:
        self._texts.append(found[0])
        return f"{self._nonce}:{len(self._texts) - 1}:"

    def split(self, rendered: str) -> list[tuple[str, bool]]:
        """Texts in their order, each with whether it may spell special tokens."""
        parts = re.split(rf"{self._nonce}:(\d+):", rendered)
        pieces = [(self._texts[int(part)] if i % 2 else part, not i % 2) for i, part in enumerate(parts)]
        return [piece for piece in pieces if piece[0]]


def check_size(value: Any) -> None:
    """Checks messages or tools before they are copied or written out.

    Raises:
        ModelError: ``chat-template``: the value contains itself, or is too large.
    """
    why = too_large(value)
    if why is not None:
        raise ModelError(f"a message or a tool {why}", code="chat-template")


def chat_tokens(
    name: str,
    prompt: str,
    system: str | None,
    render: Callable[[Mapping[str, str]], str],
    tokenize: Callable[[str, bool, bool], list[int]],
) -> list[int]:
    """The token ids of a prompt in a chat template.

    Args:
        name: of the model, for errors.
        prompt: what the user says.
        system: the system message, or None.
        render: the chat template: texts by role → the whole text, up to the start of the answer.
        tokenize: a text, whether it may spell special tokens, whether it begins the prompt → token ids.

    Raises:
        ModelError: ``chat-template``: the template rejects the texts, or cannot be read.
    """
    texts = {"user": prompt} if system is None else {"system": system, "user": prompt}
    spelled = any(tokenize(text, True, False) != tokenize(text, False, False) for text in texts.values())
    marks = Marks(_WHOLE if spelled else None)
    try:
        rendered = render({role: marks.put(text) for role, text in texts.items()})
    except ModelError:
        raise
    except Exception as error:  # whatever a template of others may raise
        way = "" if system is None else "put the system message into the prompt, or "
        raise ModelError(
            f"the chat template of {name} cannot show this prompt: {error}; {way}pass chat=False to continue the "
            "prompt as it stands",
            code="chat-template",
        ) from error
    ids: list[int] = []
    for text, special in marks.split(rendered) or [("", True)]:  # the start of a text is a token of some tokenizers
        ids += tokenize(text, special, not ids)
    return ids
