"""Finds all faults in the form of a schema: words that are nearly keywords, and violations of the metaschema.

The specification says to ignore unknown keywords, so a misspelt one has no effect. This module finds them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from importlib import import_module
from itertools import islice
from typing import Any

from guiderail.frontends.json_schema.documents.dialects import (
    ANNOTATIONS,
    companions_of,
    inner_schemas,
    keywords_of,
    nearest_type,
    other_dialect,
)
from guiderail.support.pointers import extended
from guiderail.support.texts import clipped

__all__ = ["Fault", "form_faults", "misspelt", "nearest_format", "nearest_keyword", "schemas_of"]

_ALIKE = 0.78  # minimum of difflib's ratio: "emial" and "email" have 0.8
_ALIKE_URI = 0.9  # likewise: "draft-7" and "draft-07" have 0.93
_LONGER = 2  # characters
_MOST = 100  # faults that are listed
_VALIDATORS = {
    "2020-12": "Draft202012Validator",
    "2019-09": "Draft201909Validator",
    "draft-07": "Draft7Validator",
    "draft-06": "Draft6Validator",
    "draft-04": "Draft4Validator",
}


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault in the form of a schema.

    Attributes:
        pointer: JSON pointer of a keyword or a value, as a URI fragment.
        message: what is wrong.
        suggestion: what may be meant; may be empty.
    """

    pointer: str
    message: str
    suggestion: str = ""

    def __str__(self) -> str:
        return f"{self.pointer}: {self.message}" + (f'; did you mean "{self.suggestion}"?' if self.suggestion else "")


def schemas_of(contents: Any) -> Iterator[tuple[dict[str, Any], str]]:
    """The schema objects of a document with their JSON pointers, in the places where keywords have them."""
    stack: list[tuple[Any, str]] = [(contents, "#")]
    while stack:
        schema, pointer = stack.pop()
        if not isinstance(schema, dict):
            continue
        yield schema, pointer
        inner = [(one, extended(pointer, *steps)) for one, steps in inner_schemas(schema)]
        stack += reversed(inner)


def nearest_keyword(word: str, dialect: str) -> str:
    """The keyword of a dialect that a word is probably meant to be; empty if it is one, or like none."""
    known = _keywords(dialect)
    return "" if word in known else _nearest(word, known)


def nearest_format(name: str) -> str:
    """The format that is enforced and that a name is probably meant to be; empty if it is one, or like none."""
    from guiderail.frontends.json_schema.values.formats import FORMATS

    return "" if name in FORMATS else _nearest(name, tuple(FORMATS))


@lru_cache(maxsize=8)
def _keywords(dialect: str) -> tuple[str, ...]:
    return tuple(sorted({*keywords_of(dialect), *companions_of(dialect), *ANNOTATIONS}))


@lru_cache(maxsize=1024)
def _nearest(word: str, known: tuple[str, ...]) -> str:
    if not 3 <= len(word) <= 40 or word.startswith("x-"):
        return ""
    small = {one.lower(): one for one in known if abs(len(one) - len(word)) <= _LONGER}
    found = get_close_matches(word.lower(), small, 1, _ALIKE)
    return small[found[0]] if found else ""


def misspelt(contents: Any, dialect: str) -> Iterator[Fault]:
    """Unknown keywords, formats and dialects that are nearly known ones, and keywords of other dialects."""
    yield from _misspelt_dialect(contents, dialect)
    for schema, pointer in schemas_of(contents):
        for keyword, value in schema.items():
            if not isinstance(keyword, str):
                continue
            other = other_dialect(keyword, dialect)
            meant = "" if other else nearest_keyword(keyword, dialect)
            if other:
                yield Fault(
                    extended(pointer, keyword),
                    f'"{keyword}" is a keyword of {other}, and has no effect in {dialect}',
                )
            if meant:
                yield Fault(extended(pointer, keyword), f'"{keyword}" is not a keyword of {dialect}', meant)
            if keyword == "format" and isinstance(value, str) and (meant := nearest_format(value)):
                yield Fault(f"{pointer}/format", f'"{value}" is not a known format', meant)


def _misspelt_dialect(contents: Any, dialect: str) -> Iterator[Fault]:
    from guiderail.frontends.json_schema.documents.references import METASCHEMAS, dialect_of

    given = contents.get("$schema") if isinstance(contents, dict) else None
    if isinstance(given, str) and dialect_of(given) is None:
        found = get_close_matches(given, (*METASCHEMAS, *METASCHEMAS.values()), 1, _ALIKE_URI)
        if found:
            yield Fault("#/$schema", f'"{given}" is not a known dialect, so the schema is read as {dialect}', found[0])


def form_faults(contents: Any, dialect: str) -> Iterator[Fault]:
    """Violations of the dialect's metaschema; none if ``jsonschema`` is not installed."""
    name = _VALIDATORS.get(dialect)
    try:
        library = import_module("jsonschema")
    except ImportError:
        return
    if name is None or not hasattr(library, name):
        return
    kind = getattr(library, name)
    yield from map(_described, islice(kind(kind.META_SCHEMA).iter_errors(contents), _MOST))


def _described(error: Any) -> Fault:
    pointer = extended("#", *error.absolute_path)
    value = error.instance
    if isinstance(value, str) and error.absolute_path and error.absolute_path[-1] == "type":
        return Fault(pointer, f'"{value}" is not a type', nearest_type(value))
    message = " ".join(error.message.split())
    return Fault(pointer, clipped(message, 160))
