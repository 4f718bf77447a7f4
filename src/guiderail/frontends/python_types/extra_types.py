"""Types of pydantic-extra-types whose code asks for more than their JSON Schema says."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from typing import Any

from guiderail.frontends.python_types import nodes, number_nodes
from guiderail.frontends.python_types.bounds import Bounds
from guiderail.frontends.python_types.containers import Field, Object

__all__ = ["extra"]

# Attributes of the entries of pycountry.
_LISTED = {
    "CountryAlpha2": ("countries", "alpha_2"),
    "CountryAlpha3": ("countries", "alpha_3"),
    "CountryNumericCode": ("countries", "numeric"),
    "CountryShortName": ("countries", "name"),
    "LanguageAlpha2": ("languages", "alpha_2"),
    "LanguageName": ("languages", "name"),
}
_BOUNDED = {
    "Latitude": (-90, 90),
    "Longitude": (-180, 180),
    "Number": (-62_135_596_800, 253_402_300_799),  # seconds since 1970, from year 1 to 9999
    "Integer": (-62_135_596_800, 253_402_300_799),
}
_LABEL = "[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_PATTERNS = {
    "DomainStr": rf"^(?:{_LABEL}\.){{1,3}}[a-z]{{2,20}}$",
    "MacAddress": "^[0-9a-f]{2}(?::[0-9a-f]{2}){5}$",
}


def extra(kind: type[Any], name: str) -> nodes.Node | None:
    """The node of a type of pydantic-extra-types; None if its JSON Schema says enough, or its code cannot be said."""
    if name in _LISTED:
        entries, attribute = _LISTED[name]
        return _one_of(name, (getattr(one, attribute, None) for one in getattr(sys.modules["pycountry"], entries)))
    if name == "Color":
        names = "|".join(sorted(map(re.escape, vars(sys.modules[kind.__module__])["COLORS_BY_NAME"])))
        return nodes.Text(name, f"^(?:#[0-9a-f]{{3}}|#[0-9a-f]{{6}}|{names})$")
    if name in _PATTERNS:
        return nodes.Text(name, _PATTERNS[name])
    if name in _BOUNDED:
        low, high = _BOUNDED[name]
        number = number_nodes.Integers if name == "Integer" else number_nodes.Floats
        return number(name=name, bounds=Bounds(ge=low, le=high))
    if name == "Coordinate":
        fields = [
            Field(one, one, part, True) for one in ("latitude", "longitude") if (part := extra(kind, one.title()))
        ]
        return Object(name, tuple(fields), lambda given, _: given)
    return None


def _one_of(name: str, values: Iterable[str | None]) -> nodes.Node:
    return nodes.Literals(name, tuple((value, value) for value in sorted({value for value in values if value})))
