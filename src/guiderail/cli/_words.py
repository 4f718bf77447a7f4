"""Messages about options, in the words of the command line: ``max_tokens`` is ``--max-tokens`` there."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["in_words_of"]

_CODES = frozenset(
    {"bad-option", "bad-prompt", "budget-too-small", "budget-unknown", "context-full", "incomplete", "no-chat-template"}
    | {"bad-schema-option", "no-room", "regex-dialect", "shortened"}
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
    typed = {name.lstrip("-").replace("-", "_"): name for name in _options(command)}
    first, _, rest = message.partition(" must be ")
    if rest and first in typed:  # a plain word, such as "temperature", is sure to be an option only there
        message = f"{typed[first]} must be {rest}"
    names = sorted((name for name in typed if "_" in name), key=len, reverse=True)
    return re.sub(rf"(?<![\w\"'-])({'|'.join(names)})(?![\w=])", lambda found: typed[found[1]], message)


def _options(command: Any) -> set[str]:
    """The options of a command and of those below it, as they are typed; the short form of those that have no other."""
    found = set()
    for parameter in command.params:
        long = [option for option in parameter.opts if option.startswith("--")]
        found.update(long or [option for option in parameter.opts if option.startswith("-")])
    for one in getattr(command, "commands", {}).values():
        found |= _options(one)
    return found
