"""What it costs to read a schema document, from the document alone: ``xmlschema`` does the work, but counts none.

It compares each particle of a content model with each other one, and expands named groups wherever they are used. So a
document of a few kilobytes can keep it busy forever.
"""

from __future__ import annotations

import xml.parsers.expat
from dataclasses import dataclass, field

from guiderail.errors import LimitError
from guiderail.frontends.xml_schema.errors import XmlSchemaLimitError
from guiderail.frontends.xml_schema.namespaces import XSD
from guiderail.support.texts import utf8
from guiderail.support.work import spend

__all__ = ["spend_on"]

_TAG = 600  # steps for each tag: it is parsed, checked against the schema of schemas, and built
_PAIR = 15  # for each pair of particles of one content model
_BYTE = 1
_MOST = 10**9  # particles: a model with more is rejected in any case
_PARTICLES = frozenset({"element", "any"})
_MODELS = frozenset({"complexType", "group"})


@dataclass(slots=True)
class _Content:
    """A content model, or a named group."""

    path: str
    name: str | None = None
    particles: int = 0
    groups: list[str] = field(default_factory=list)  # groups that it refers to


def spend_on(texts: list[str]) -> None:
    """Counts the work of reading these documents.

    Raises:
        XmlSchemaLimitError: ``work``: it is more than allowed.
    """
    contents: list[_Content] = []
    for text in texts:
        spend(_BYTE * len(text))
        contents += _contents(text)
    named = {content.name or "": content for content in contents if content.name}
    sizes: dict[str, int] = {}
    for content in contents:
        size = _size(content, named, sizes)
        try:
            spend(_PAIR * size * size // 2)
        except LimitError as error:
            raise XmlSchemaLimitError(
                f"a content model of {size:,} particles is too large to be read: {error}",
                code=error.code,
                path=content.path,
            ) from None


def _contents(text: str) -> list[_Content]:
    found: list[_Content] = []
    inside: list[_Content | None] = [None]  # by the open tags: the owner of the particles here
    names: list[str] = []

    def start(tag: str, attributes: dict[str, str]) -> None:
        spend(_TAG)
        namespace, _, local = tag.rpartition("}")
        here = inside[-1]
        if namespace == XSD:
            reference = attributes.get("ref", "").rpartition(":")[2]
            if here is not None and local in _PARTICLES:
                here.particles += 1
            if here is not None and local == "group" and reference:
                here.groups.append(reference)
            elif local in _MODELS:
                name = attributes.get("name") if local == "group" else None
                path = "/" + "/".join(n for n in (*names, attributes.get("name", "")) if n)
                here = _Content(path, name)
                found.append(here)
        inside.append(here)
        names.append(attributes.get("name", ""))

    def end(_: str) -> None:
        inside.pop()
        names.pop()

    parser = xml.parsers.expat.ParserCreate(namespace_separator="}")
    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.Parse(utf8(text), True)
    return found


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
            sizes[name] = _total(group, sizes)
        elif name not in opened:  # otherwise a cycle, which is not a valid schema
            opened.add(name)
            work += [(name, True), *((inner, False) for inner in group.groups)]
    return _total(content, sizes)


def _total(content: _Content, sizes: dict[str, int]) -> int:
    return min(_MOST, content.particles + sum(sizes.get(name, 0) for name in content.groups))
