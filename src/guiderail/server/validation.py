"""Describes what is wrong with the form of a request: the location, what it found there, and what is allowed.

Pydantic reports each way in which a value might have been read. Here these become one sentence about the value.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, get_args

from guiderail.server.errors import ApiError
from guiderail.support.pointers import extended
from guiderail.support.suggestions import resembling
from guiderail.support.texts import clipped

__all__ = ["from_validation", "unknown_member"]

_LONGEST = 60  # characters of a request's value shown in a message
_MOST_TOLD = 8  # alternatives of a value that are listed

_EXPECTED: dict[str, str | Callable[[dict[str, Any]], str]] = {
    "string_type": "a string",
    "int_type": "an integer",
    "float_type": "a number",
    "finite_number": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "none_required": "left out: this server does not have it",
    "literal_error": lambda of: _choices(str(of["expected"])),
    "greater_than_equal": lambda of: f"at least {of['ge']}",
    "greater_than": lambda of: f"more than {of['gt']}",
    "less_than_equal": lambda of: f"at most {of['le']}",
    "less_than": lambda of: f"less than {of['lt']}",
    "too_short": lambda of: f"a list of at least {of['min_length']:,}",
    "too_long": lambda of: f"a list of at most {of['max_length']:,}" if of["max_length"] else "an empty list",
}


def from_validation(problems: list[Any], request: dict[str, Any], form: Any) -> ApiError:
    """The answer to a malformed request, about the first location that is wrong.

    Args:
        problems: the problems as pydantic found them.
        request: the request.
        form: the class of pydantic that the request should fit.
    """
    first = problems[0]
    place, value = _place(first, request)
    for other in problems[1:_MOST_TOLD]:  # a list that is right except for an item: the item is reported
        inner, within = _place(other, request)
        if len(inner) > len(place) and inner[: len(place)] == place:
            first, place, value = other, inner, within
    param = ".".join(_short(str(part)) for part in place) or None
    pointer = extended("#", *(_short(str(part)) for part in place))
    where = {"pointer": pointer} if place else {}
    if first["type"] == "extra_forbidden":
        said = unknown_member(str(place[-1]), _members(form, place[:-1]))
        return ApiError(400, f"{pointer}: {said}", code="unknown-parameter", param=param, place=where)
    if first["type"] == "missing":
        message = f"{pointer}: this is required, but missing; add it"
    elif first["type"] in ("value_error", "assertion_error"):
        reason = str(first["msg"]).partition(", ")[2]
        message = f"{pointer}: {reason}" if place else reason
    else:
        same = [one for one in problems if _place(one, request)[0] == place][:_MOST_TOLD]
        ways = list(dict.fromkeys(_way(one) for one in same))
        expected = ways[0] if len(ways) == 1 else ", ".join(ways[:-1]) + " or " + ways[-1]
        message = f"{pointer}: this must be {expected}, not {_told(value)}"
    return ApiError(400, message, code="invalid-request", param=param, place=where)


def unknown_member(name: str, known: Iterable[str]) -> str:
    """What is said about a member that this server does not know."""
    near = resembling(name, known)
    meant = f"did you mean {near}?" if near else "leave it out"
    return f"{_short(name)} is not known here; it is rejected rather than ignored; {meant}"


def _members(form: Any, place: list[str | int]) -> Iterable[str]:
    """The names that an object at a location in a request may have; none if that depends on its contents."""
    for part in place:
        if isinstance(part, str):
            field = getattr(form, "model_fields", {}).get(part)
            kinds = () if field is None else (field.annotation, *get_args(field.annotation))
            form = next((kind for kind in kinds if hasattr(kind, "model_fields")), None)
    return getattr(form, "model_fields", ())


def _place(problem: Any, request: dict[str, Any]) -> tuple[list[str | int], Any]:
    """The location of a problem in the request, and the value there. Pydantic puts names of types into locations."""
    place: list[str | int] = []
    value: Any = request
    for part in problem["loc"]:
        if (isinstance(value, dict) and part in value) or (
            isinstance(value, list) and isinstance(part, int) and part < len(value)
        ):
            place.append(part)
            value = value[part]
    if problem["type"] == "missing":
        place.append(problem["loc"][-1])
    return place, value


def _way(problem: Any) -> str:
    way = _EXPECTED.get(problem["type"])
    if way is None:
        return str(problem["msg"]).removeprefix("Input should be ").removeprefix("a valid ")
    return way if isinstance(way, str) else way(problem.get("ctx", {}))


def _choices(expected: str) -> str:
    """The values of a ``Literal`` as JSON."""
    return {"False": "false", "True": "true", "''": "an empty string"}.get(expected, expected.replace("'", '"'))


def _told(value: Any) -> str:
    """A JSON value, for a message."""
    if isinstance(value, dict):
        return "an object" if value else "an empty object"
    if isinstance(value, list):
        return f"a list of {len(value):,}" if value else "an empty list"
    if isinstance(value, str) and len(value) > _LONGEST:
        return f"a text of {len(value):,} characters"
    if isinstance(value, int) and value.bit_length() > 200:
        return "a number of so many digits"
    return json.dumps(value, ensure_ascii=False)


def _short(name: str) -> str:
    return clipped(name, _LONGEST)
