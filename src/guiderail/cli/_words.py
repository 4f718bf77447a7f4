"""Messages about options, in the words of the command line: ``max_tokens`` is ``--max-tokens`` there."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["in_words_of"]

_CODES = frozenset(
    {"bad-option", "bad-prompt", "budget-too-small", "budget-unknown", "context-full", "incomplete", "no-chat-template"}
    | {"no-room", "shortened"}
)
"""Errors that name options of Python; others may quote a text of the user, which must stay as it is."""

_PHRASES = (
    ('pass on_incomplete="error" or "return" to try without a promise', "try without a promise: --no-finish"),
    (', or pass on_incomplete="return"', ""),
    ("leave chat=True", "leave out --raw"),
    ("pass chat=False", "pass --raw"),
    ("; pass a file as pathlib.Path(…)", ""),
    (", or None,", ","),
)


def in_words_of(command: Any, message: str, code: str) -> str:
    """A message for a user of the command line.

    Args:
        command: of click, whose options it may name, with those of its sub-commands.
        code: of the error.
    """
    if code not in _CODES:
        return message
    for phrase, wording in _PHRASES:
        message = message.replace(phrase, wording)
    names = sorted(_names(command), key=len, reverse=True)
    return re.sub(rf"(?<![\w\"'-])({'|'.join(names)})(?![\w=])", lambda found: _option(found[1]), message)


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def _names(command: Any) -> set[str]:
    """Options whose Python names show that they are not plain words."""
    options = {option for parameter in command.params for option in parameter.opts}
    found = {option[2:].replace("-", "_") for option in options if option.startswith("--") and "-" in option[2:]}
    for one in getattr(command, "commands", {}).values():
        found |= _names(one)
    return found
