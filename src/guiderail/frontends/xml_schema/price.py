"""What it costs to read a schema document, from the document alone: ``xmlschema`` does the work, but counts none.

It compares each particle of a content model with each other one, expands named groups wherever they are used, and
tries a value of the schema against each member of a union, at any depth. So a document of a few kilobytes can keep it
busy forever.
"""

from __future__ import annotations

import re
import xml.parsers.expat
from dataclasses import dataclass, field

from guiderail.errors import LimitError
from guiderail.frontends.xml_schema.errors import XmlSchemaLimitError
from guiderail.frontends.xml_schema.namespaces import XSD
from guiderail.support.texts import utf8
from guiderail.support.work import spend

__all__ = ["parser", "spend_on"]

_TAG = 600  # steps for each tag: it is parsed, checked against the schema of schemas, and built
_DECLARED = 1_000  # and for that of an element or attribute
_PAIR = 15  # for each pair of particles of one content model
_BYTE = 1
_MEMBER = 40  # for each simple type that a value of the schema is tried against
_ALTERNATIVE = 6  # times as much if the type is one of a union: each that does not fit makes an error
_SAME = 100  # listed values of a base that take as much, one by one
_SAME_DATE = 2  # of them if they are compared in Python
_PATTERN = 40  # for each character of a pattern: it is read twice, and compiled
_CLASS = 30_000  # for each class of hundreds of ranges in it
_COMBINED = 150_000  # and for each in brackets, which are worked out character by character
_LARGE = re.compile(r"\\[icICpP]").findall
_IN_BRACKETS = re.compile(r"\[[^\[\]]*\\[wWpPicIC]").findall
_KEY = 5  # for each simple type within that of an attribute, which must not be ID
_MOST = 10**9  # particles: a model with more is rejected in any case
_PARTICLES = frozenset({"element", "any"})
_MODELS = frozenset({"complexType", "group"})
_TYPE = "type "  # before the name of a simple type: groups have names of their own
_TYPES = ("memberTypes", "base", "itemType", "type")
# types whose values Python compares at once
_PLAIN = re.compile(
    r"string|normalizedString|token|NMTOKEN|(NC)?Name|language|anyURI|boolean|decimal|float|double|\w*[iI]nteger"
    r"|(unsigned)?([lL]ong|[iI]nt|[sS]hort|[bB]yte)"
).fullmatch


@dataclass(slots=True)
class _Content:
    """A content model, a named group, or a simple type."""

    path: str
    name: str | None = None
    particles: int = 0  # of a simple type: its steps of derivation
    groups: list[str] = field(default_factory=list)  # groups that it refers to; types that a simple type is made of
    is_type: bool = False
    uses: int = 0  # steps for each of the types within: of the values that the schema writes, and of attributes
    values: int = 0  # that a simple type lists
    plain: bool = False  # whether they are compared at once


def parser(namespace_separator: str | None = None) -> xml.parsers.expat.XMLParserType:
    """A parser of strings in UTF-8, whatever encoding they declare: a ``str`` is decoded already."""
    return xml.parsers.expat.ParserCreate("utf-8", namespace_separator)


def spend_on(texts: list[str]) -> None:
    """Counts the work of reading these documents.

    Raises:
        XmlSchemaLimitError: ``work``: it is more than allowed.
    """
    contents: list[_Content] = []
    members: dict[str, list[str]] = {}
    for text in texts:
        spend(_BYTE * len(text))
        contents += _contents(text, members)
    try:
        spend(_substitutions(members))
    except LimitError as error:
        raise XmlSchemaLimitError(
            f"the substitution groups are too large to be read: {error.message}", code=error.code, path="/"
        ) from None
    named = {content.name or "": content for content in contents if content.name}
    sizes: dict[str, int] = {}
    for content in contents:
        size = _size(content, named, sizes)
        what = f"type of {size:,} members" if content.is_type else f"content model of {size:,} particles"
        try:
            spend(content.uses * size if content.is_type else _PAIR * size * size // 2)
        except LimitError as error:
            raise XmlSchemaLimitError(
                f"a {what} is too large to be read: {error.message}", code=error.code, path=content.path
            ) from None


def _substitutions(members: dict[str, list[str]]) -> int:
    """The steps in which the substitutes of each element are found: each comes through all levels, by each way.

    Args:
        members: by elements, those that name one as the head of their group.
    """
    ways: dict[str, tuple[int, int]] = {}  # by element: how many substitutes come from it, and in how many steps
    opened: set[str] = set()
    for head in members:
        work = [(head, False)]
        while work:
            name, done = work.pop()
            if done:
                inner = [ways.get(one, (0, 0)) for one in members[name]]
                found = sum(1 + count for count, _ in inner)
                ways[name] = min(_MOST, found), min(_MOST, found + sum(steps for _, steps in inner))
            elif name in members and name not in opened:  # otherwise a cycle, which is not a valid schema
                opened.add(name)
                work += [(name, True), *((one, False) for one in members[name])]
    return sum(steps for _, steps in ways.values())


def _contents(text: str, members: dict[str, list[str]]) -> list[_Content]:
    """The contents of a document. Adds to ``members`` the elements of each substitution group, by its head."""
    found: list[_Content] = []
    inside: list[_Content | None] = [None]  # by the open tags: the owner of the particles here
    names: list[str] = []
    uses = [0]  # by the open tags: what each costs for each type within its own

    def path(*more: str) -> str:
        return "/" + "/".join(name for name in (*names, *more) if name)

    def of_type(local: str, attributes: dict[str, str]) -> None:
        """Counts a tag inside a simple type, or one that uses it."""
        here = inside[-1]
        used = [_TYPE + one.rpartition(":")[2] for name in _TYPES for one in attributes.get(name, "").split()]
        if uses[-1] and used:
            found.append(_Content(path(attributes.get("name", "")), None, 1, used, True, uses[-1]))
        elif here is not None and here.is_type:
            here.groups += used
            if local == "enumeration":
                here.values += 1
                here.uses += _MEMBER
                return
            alternatives = len(used) if local == "union" else int(local == "simpleType")
            here.particles += 1 + _ALTERNATIVE * alternatives
            here.plain = here.plain or _PLAIN(attributes.get("base", "").rpartition(":")[2]) is not None

    def start(tag: str, attributes: dict[str, str]) -> None:
        namespace, _, local = tag.rpartition("}")
        try:
            spend(_TAG + _of_tag(local, attributes))
        except LimitError as error:
            at = path(attributes.get("name", ""))
            raise XmlSchemaLimitError(
                f"the schema is too large to be read: {error.message}", code=error.code, path=at
            ) from None
        here = inside[-1]
        outer = uses[-1] if local == "simpleType" else 0
        valued = "fixed" in attributes or "default" in attributes
        uses.append(outer + (_MEMBER if valued else 0) + (_KEY if local == "attribute" else 0))
        if namespace == XSD:
            if local == "simpleType" and not (here is not None and here.is_type):
                own = attributes.get("name", "")
                here = _Content(path(own), _TYPE + own if own else None, 1, [], True, uses[-1])
                found.append(here)
            else:
                of_type(local, attributes)
            for head in attributes.get("substitutionGroup", "").split():
                members.setdefault(head.rpartition(":")[2], []).append(attributes.get("name", ""))
            reference = attributes.get("ref", "").rpartition(":")[2]
            if here is not None and local in _PARTICLES:
                here.particles += 1
            if here is not None and local == "group" and reference:
                here.groups.append(reference)
            elif local in _MODELS:
                name = attributes.get("name") if local == "group" else None
                here = _Content(path(attributes.get("name", "")), name)
                found.append(here)
        inside.append(here)
        names.append(attributes.get("name", ""))

    def end(_: str) -> None:
        inside.pop()
        names.pop()
        uses.pop()

    reader = parser(namespace_separator="}")
    reader.StartElementHandler, reader.EndElementHandler = start, end
    reader.Parse(utf8(text), True)
    return found


def _of_tag(local: str, attributes: dict[str, str]) -> int:
    """The steps that a tag takes beyond those of each tag."""
    if local != "pattern":
        return _DECLARED if local in ("element", "attribute") else 0
    pattern = attributes.get("value", "")
    return _PATTERN * len(pattern) + _CLASS * len(_LARGE(pattern)) + _COMBINED * len(_IN_BRACKETS(pattern))


def _size(content: _Content, named: dict[str, _Content], sizes: dict[str, int]) -> int:
    """The number of particles of a model once its groups are expanded. No recursion: they may be nested deeply."""
    opened: set[str] = set()
    work = [(name, False) for name in content.groups]
    while work:
        name, done = work.pop()
        group = named.get(name)
        if group is None or name in sizes:
            continue
        if done:
            listed = group.values // (_SAME if group.plain else _SAME_DATE)  # a value is looked for among them
            sizes[name] = min(_MOST, _total(group, sizes) + listed)
        elif name not in opened:  # otherwise a cycle, which is not a valid schema
            opened.add(name)
            work += [(name, True), *((inner, False) for inner in group.groups)]
    return _total(content, sizes)


def _total(content: _Content, sizes: dict[str, int]) -> int:
    return min(_MOST, content.particles + sum(sizes.get(name, 0) for name in content.groups))
