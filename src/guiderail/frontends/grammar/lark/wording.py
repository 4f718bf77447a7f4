"""Lark's messages about usual mistakes, in words that say what to do."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from importlib import import_module
from pathlib import Path

from guiderail.frontends.grammar.analysis import meant
from guiderail.support.suggestions import resembling, suggestion

__all__ = ["mixed_case", "not_found", "not_in_import", "reworded", "undefined"]

_UNDEFINED = re.compile(r"Rule '(\w+)' used but not defined \(in rule (\w+)\)")
_IGNORED = re.compile(r"Terminals \{'(\w+)'.*\} were marked to ignore but were not defined!")
_RULE_IN_TERMINAL = re.compile(r"Rules aren't allowed inside terminals \((?:NonTerminal\('(\w+)'\)|.*?) in (\w+)\)")


def reworded(message: str, known: Iterable[str], imports: Mapping[str, str]) -> str:
    """A message of Lark's, in other words if it is about a usual mistake.

    Args:
        message: the message.
        known: the names that the grammar defines.
        imports: what to say of names that an import should have defined.
    """
    if found := _UNDEFINED.fullmatch(message):
        return imports.get(found[1]) or undefined(found[1], f"{found[2]!r} uses", known)
    if found := _IGNORED.fullmatch(message):
        return imports.get(found[1]) or undefined(found[1], "%ignore names", known)
    if (found := _RULE_IN_TERMINAL.fullmatch(message)) and found[1]:
        return (
            f"the terminal {found[2]!r} names the rule {found[1]!r}, but terminals are made of terminals only; write "
            f"{found[1].upper()} here and where it is defined, or make {found[2]!r} a rule, in lower case"
        )
    return message


def undefined(name: str, who: str, known: Iterable[str]) -> str:
    """The message about a name that is not defined; ``who``: what mentions it."""
    kind = "terminal" if name.isupper() else "rule"
    hint = f"; import it with %import common.{name}, or define it" if name in _common() else meant(name, known)
    return f"there is no {kind} {name!r}, which {who}{hint}"


def not_in_import(grammar: str, name: str) -> str:
    """The message about a name that an imported grammar does not have."""
    kind = "terminal" if name.isupper() else "rule"
    hint = f"; {suggestion(name, _common())}" if grammar == "common" else ""
    return f"the grammar {grammar!r} has no {kind} {name!r} to import{hint}"


def not_found(grammar: str) -> str:
    """What to do about a grammar to import that does not exist."""
    close = resembling(grammar, (file.stem for file in _folder().glob("*.lark")))
    return f"did you mean {close!r}?" if close else "pass its folder in imports"


def mixed_case(text: str, at: int) -> tuple[str, tuple[int, int]] | None:
    """The message about a name in upper and lower case, if Lark stops within one, and its span."""
    for word in re.finditer(r"[A-Za-z_]\w*", text):
        if word.start() < at < word.end() and not word[0].isupper() and not word[0].islower():
            return (
                f"the name {word[0]!r} mixes cases; write rules in lower case and terminals in upper case",
                word.span(),
            )
    return None


def _folder() -> Path:
    """Of the grammars that come with Lark."""
    return Path(str(import_module("lark").__file__)).parent / "grammars"


@lru_cache(maxsize=1)
def _common() -> tuple[str, ...]:
    """The terminals of Lark's own grammar ``common``."""
    text = (_folder() / "common.lark").read_text(encoding="utf-8")
    return tuple(re.findall(r"^([A-Z_]+)(?:\.\d+)?\s*:", text, re.MULTILINE))
