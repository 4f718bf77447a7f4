"""Explains why no value satisfies a schema: a smallest set of keywords that no value satisfies, whatever the others
say.

Keywords are deleted as long as the rest has no value (Zeller & Hildebrandt 2002), level by level from the outside, many
at once where possible. A deletion must not tighten the schema: names in ``properties`` stay if ``additionalProperties``
needs them; only their schemas go. At the end, no keyword can be left out.
"""

from __future__ import annotations

import json
import marshal
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from guiderail.errors import GuiderailError, LimitError
from guiderail.frontends.json_schema.documents.dialects import COMPANIONS, keywords_of
from guiderail.frontends.json_schema.documents.references import OLD
from guiderail.frontends.json_schema.options import DEFAULTS, SchemaOptions
from guiderail.support.pointers import extended, inside, unescaped
from guiderail.support.texts import clipped, shown
from guiderail.support.work import limited, out_of_work, spend

__all__ = ["Conflict", "conflict_of", "option_at_fault", "sentence"]

Path = tuple[str, ...]
"""The steps of a JSON pointer; indexes are texts, so that one place has one path, however it was found."""
Conflict = tuple[tuple[str, Any], ...]
"""JSON pointers of keywords (as URI fragments), each with its value, or with the part of it that matters."""

MAX_WORK = 3_000_000  # steps, some 0.3 seconds
_MOST_TESTS = 400
_MOST_SHOWN = 6
_NARROWING = ("max_string_length", "max_items", "max_depth", "max_integer_digits", "max_fraction_digits", "excludes",
              "closed")  # fmt: skip
_DELIMITED = re.compile(r"/\^.*/[a-z]*$|/.*\$/[a-z]*$", re.DOTALL)
_NAMED = frozenset(("properties", "patternProperties", "dependentSchemas"))
_LISTED = frozenset(("allOf", "anyOf", "oneOf", "prefixItems", "items"))
_ONE = frozenset(("items", "additionalItems", "additionalProperties", "contains", "propertyNames",
                  "unevaluatedItems", "unevaluatedProperties"))  # fmt: skip
_IN_PLACE = frozenset(("$ref", "$dynamicRef", "$recursiveRef", "anyOf", "oneOf", "if", "then", "else", "contains"))


def conflict_of(
    contents: Any,
    options: SchemaOptions,
    dialect: str,
    pointer: str,
    is_empty: Callable[[Any, SchemaOptions, Any, bool], bool],
) -> Conflict:
    """A smallest set of keywords within a schema that no value satisfies; empty if none is found in bounded time.

    Args:
        contents: the document.
        options: how it is read.
        dialect: the dialect of the document.
        pointer: pointer of a schema in it that no value satisfies.
        is_empty: whether no value satisfies a schema of a document. Takes the document, the options, the schema, and
            whether the options that restrict spelling count.
    """
    path = _path(pointer)
    if path is None:
        return ()
    try:
        with limited(MAX_WORK):
            return tuple(_Search(contents, replace(options, dialect=dialect), path, is_empty).found())
    except (GuiderailError, RecursionError):  # report the error without it
        return ()


def option_at_fault(
    contents: Any, options: SchemaOptions, dialect: str, is_empty: Callable[[Any, SchemaOptions, Any, bool], bool]
) -> str:
    """The option without which the document has a value, as it was given; empty if there is none, or work runs out.

    Args:
        contents: the document.
        options: how it is read.
        dialect: the dialect of the document.
        is_empty: as for :func:`conflict_of`.
    """
    given = replace(options, dialect=dialect)
    for name in _NARROWING:
        value = getattr(options, name)
        if value == getattr(DEFAULTS, name):
            continue
        try:
            with limited(MAX_WORK):
                if not is_empty(contents, replace(given, **{name: getattr(DEFAULTS, name)}), contents, True):
                    return f"{name}={shown(value)}"
        except (GuiderailError, RecursionError):
            continue
    return ""


def sentence(conflict: Conflict, pointer: str) -> str:
    """Describes the conflict, for a message about the schema at a pointer."""
    parts = [_words(where, value, pointer) for where, value in conflict if where != pointer]
    if not parts:
        return ""
    way_out = "".join(dict.fromkeys(_way_out(where.rpartition("/")[2], value) for where, value in conflict))
    if len(parts) == 1:
        return f"{parts[0]} allows none{way_out}"
    if len(parts) > _MOST_SHOWN:
        return f"{', '.join(parts[:_MOST_SHOWN])} and {len(parts) - _MOST_SHOWN} more exclude each other{way_out}"
    return f"{', '.join(parts[:-1])} and {parts[-1]} exclude each other{way_out}"


def _way_out(keyword: str, value: Any) -> str:
    """Advice for keywords that are often meant in another way, as zod's times are, which have no time zone."""
    if keyword == "format":
        return "; with format='annotate', formats are not enforced"
    if keyword == "pattern" and isinstance(value, str) and _DELIMITED.match(value):
        return "; a pattern has no slashes around it"
    return ""


def _words(where: str, value: Any, pointer: str) -> str:
    holder, _, keyword = where.rpartition("/")
    text = _json(value)
    if value is False and keyword not in _ONE:
        return f"false at {where}"
    if keyword == "required" and isinstance(value, list) and len(value) == 1:
        text = _json(value[0])
    return f'"{keyword}" {text}' + ("" if holder == pointer else f" at {holder}")


def _json(value: Any) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False)
        text.encode()
    except UnicodeEncodeError:  # surrogates
        text = json.dumps(value)
    except (RecursionError, ValueError):  # deeper, or with a longer number, than Python writes
        text = shown(value)
    return clipped(text, 50)


def _path(pointer: str) -> Path | None:
    if pointer == "#":
        return ()
    if not pointer.startswith("#/"):
        return None  # in another document
    return tuple(map(unescaped, pointer[2:].split("/")))


def _pointer(path: Path) -> str:
    return extended("#", *path)


class _Search:
    def __init__(
        self,
        contents: Any,
        options: SchemaOptions,
        path: Path,
        is_empty: Callable[[Any, SchemaOptions, Any, bool], bool],
    ) -> None:
        self.options = options
        self.prefix: Path = ()  # of the whole document, if only a part is searched
        self.path = path
        part = _at(contents, path)
        alone = marshal.dumps(part, 2)
        if path and b"Ref" not in alone and b"$ref" not in alone:
            contents, self.prefix, self.path = part, path, ()
        self.contents = marshal.loads(marshal.dumps(contents, 2))
        self.keywords = keywords_of(options.dialect or "2020-12")
        self.old = options.dialect in OLD
        self.counts_members = b"unevaluated" in marshal.dumps(self.contents, 2)
        self.is_empty = is_empty
        self.tests = 0
        self.written = False  # whether only the written texts are empty, because of an option such as max_items

    def found(self) -> Iterator[tuple[str, Any]]:
        if not self.empty():
            self.written = True
            if not self.empty():
                return
        seen: set[Path] = set()
        level = [self.path]
        while level:
            units = [unit for at in level for unit in self.units(at)]
            self.shrink(units)
            seen.update(level)
            inner = dict.fromkeys(at for outer in level for at, _ in self.parts(outer))
            level = [at for at in inner if at not in seen]
        yield from self.leaves(self.path, set())

    def empty(self) -> bool:
        self.tests += 1
        if self.tests > _MOST_TESTS:
            raise LimitError("a smallest set of keywords takes too long to find", code="work")
        schema = _at(self.contents, self.path, _GONE)
        return schema is not _GONE and self.is_empty(self.contents, self.options, schema, self.written)

    def shrink(self, units: list[tuple[Path, object]]) -> None:
        """Deletes as many of these as possible."""
        if not units:
            return
        undo = [self.delete(at, item) for at, item in units]
        try:
            if self.empty():
                return
        except GuiderailError as error:  # the rest is not a valid schema
            if isinstance(error, LimitError) and out_of_work(error):
                raise
        for back in reversed(undo):
            back()
        if len(units) > 1:
            middle = len(units) // 2
            self.shrink(units[middle:])
            self.shrink(units[:middle])

    def delete(self, at: Path, item: object) -> Callable[[], None]:
        """Deletes a keyword, an item of a list, or the contents of a schema; returns a function that restores it."""
        if _at(self.contents, at, _GONE) is _GONE:  # it was inside something that is deleted now
            return lambda: None
        holder, key = _at(self.contents, at[:-1]), at[-1]
        if item is not _CONTENTS and item is not _KEYWORD:
            holder = holder[key]
        spend(10 + len(holder) // 10)
        before = list(holder) if isinstance(holder, list) else dict(holder)
        if item is _CONTENTS:
            holder[int(key) if isinstance(holder, list) else key] = True
        elif item is _KEYWORD:
            del holder[key]
        else:
            holder.remove(item)

        def back() -> None:  # undo in reverse order, to restore the original
            holder.clear()
            holder.extend(before) if isinstance(before, list) else holder.update(before)

        return back

    # -- what a schema object consists of
    def units(self, at: Path) -> Iterator[tuple[Path, object]]:
        """What may be deleted of the schema at a path."""
        schema = _at(self.contents, at, None)
        if not isinstance(schema, dict) or (self.old and "$ref" in schema):
            return
        for keyword, value in schema.items():
            here = (*at, keyword)
            if keyword not in self.keywords and COMPANIONS.get(keyword) not in self.keywords:
                continue
            if keyword in _NAMED and isinstance(value, dict):
                yield from (
                    ((*here, name), _CONTENTS) for name, part in value.items() if part is not True and part != {}
                )
            elif keyword in ("allOf", "prefixItems", "items") and isinstance(value, list):
                parts = enumerate(value)
                yield from (((*here, str(i)), _CONTENTS) for i, part in parts if part is not True and part != {})
            elif keyword == "required" and isinstance(value, list):
                yield from ((here, name) for name in value)
            elif not (self.counts_members and keyword in _IN_PLACE):
                yield here, _KEYWORD

    def parts(self, at: Path) -> Iterator[tuple[Path, str]]:
        """The schemas that the one at a path applies, with the keyword; not those whose tightening loosens it."""
        schema = _at(self.contents, at, None)
        if not isinstance(schema, dict):
            return
        for keyword, value in schema.items():
            here = (*at, keyword)
            if keyword == "$ref" and isinstance(value, str):
                target = _path(value)
                if target is not None and _at(self.contents, target, None) is not None:
                    yield target, keyword
            elif keyword not in self.keywords:
                continue
            elif keyword in _NAMED and isinstance(value, dict):
                yield from (((*here, name), keyword) for name in value)
            elif keyword in _LISTED and isinstance(value, list):
                yield from (((*here, str(i)), keyword) for i in range(len(value)))
            elif keyword in _ONE:
                yield here, keyword

    def leaves(self, at: Path, seen: set[Path]) -> Iterator[tuple[str, Any]]:
        """The remaining keywords that state something themselves."""
        schema = _at(self.contents, at, None)
        if schema is False:
            yield _pointer(self.prefix + at), False
        if not isinstance(schema, dict) or at in seen:
            return
        seen.add(at)
        inner: dict[str, list[Path]] = {}
        for path, keyword in self.parts(at):
            inner.setdefault(keyword, []).append(path)
        alone = self.old and "$ref" in schema
        for keyword, value in schema.items():
            if keyword not in self.keywords and COMPANIONS.get(keyword) not in self.keywords:
                continue
            if alone and keyword != "$ref":
                continue
            told = keyword != "$ref" and any(path in seen for path in inner.get(keyword, ()))  # a reference led there
            found = [leaf for path in inner.get(keyword, ()) for leaf in self.leaves(path, seen)]
            yield from found
            if (
                found
                or told
                or keyword in _NAMED
                or keyword in ("allOf", "prefixItems")
                or (keyword, value) == ("required", [])
            ):
                continue
            if keyword not in _ONE or value not in (True, {}, []):
                yield _pointer((*self.prefix, *at, keyword)), value


_CONTENTS, _KEYWORD, _GONE = object(), object(), object()


def _at(contents: Any, path: Path, *default: Any) -> Any:
    value = contents
    for step in path:
        try:
            value = inside(value, step)
        except LookupError:
            if default:
                return default[0]
            raise
    return value
