"""JSON as users give it: what ``json.loads`` says of it without a place, and what it passes over in silence."""

from __future__ import annotations

import json
import re
from typing import Any

from guiderail.errors import GuiderailError
from guiderail.support.numerals import read_integer
from guiderail.support.texts import shown

__all__ = ["RepeatedName", "TooDeep", "document", "loads", "too_deep", "unique_names"]

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"?|[\[{]|[\]}]', re.DOTALL)


class TooDeep(json.JSONDecodeError):
    """Internal: JSON text is nested deeper than Python reads. Its place is where the text is deepest."""


def document(text: str | bytes, what: str, error: type[GuiderailError], code: str, hint: str = "") -> Any:
    """The value of a JSON text that a user gives: with integers of any size, and without repeated names.

    Args:
        text: the text.
        what: what it is: ``"the schema"``.
        error: the class of the error if it is not JSON.
        code: its code, except for ``depth``.
        hint: what else may have been meant, if it is not JSON.
    """
    try:
        return loads(text, parse_int=read_integer, object_pairs_hook=unique_names)
    except RepeatedName as why:
        raise error(f"{what}: {why}", code=code) from None
    except TooDeep as why:
        raise error(f"{what} is {why}", code="depth") from None
    except json.JSONDecodeError as why:
        if hint:  # perhaps no JSON was meant
            raise error(f"{what} is not JSON: {why}{hint}", code=code) from None
        span = why.pos, why.pos + 1
        raise error(f"{what} is not JSON: {_as_clause(why.msg)}", code=code, source=why.doc, span=span) from None
    except ValueError as why:
        raise error(f"{what} is not JSON: {why}{hint}", code=code) from None


def _as_clause(words: str) -> str:
    return words[:1].lower() + words[1:].removesuffix(" at")


def loads(text: str | bytes, **options: Any) -> Any:
    """``json.loads``, whose RecursionError becomes an error with a place.

    Raises:
        ValueError: the text is not JSON.
        TooDeep: it is nested too deeply for the interpreter.
    """
    try:
        return json.loads(text, **options)
    except RecursionError:
        raise too_deep(text) from None


def too_deep(text: str | bytes, begin: int = 0) -> TooDeep:
    """The error for JSON text that begins there and is nested too deeply."""
    if not isinstance(text, str):
        text = text.decode(json.detect_encoding(text), "surrogatepass")
    depth = most = 0
    place = begin
    for token in _TOKEN.finditer(text, begin):
        if token[0] in "[{":
            depth += 1
            if depth > most:
                most, place = depth, token.start()
        elif token[0] in "]}":
            depth -= 1
            if depth == 0:
                break
    return TooDeep("nested too deeply; flatten it", text, place)


class RepeatedName(ValueError):
    """Internal: an object has two members of one name that differ."""


def unique_names(members: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of these members, for ``json.loads(…, object_pairs_hook=unique_names)``.

    Raises:
        RepeatedName: two members have the same name and different values.
    """
    made = dict(members)
    if len(made) != len(members):
        for name, value in members:
            if value != made[name]:
                raise RepeatedName(f"the name {shown(name)} occurs twice in one object; remove or rename one of them")
    return made
