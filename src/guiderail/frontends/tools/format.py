"""How model families write tool calls: read from data, one small JSON file per family.

The files are in ``formats/``; docs/tools.md describes their keys. This module contains nothing about any family.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from guiderail.errors import GuiderailError
from guiderail.frontends.regex import regex
from guiderail.frontends.tools.errors import ToolError
from guiderail.frontends.tools.parameter_style import ParameterStyle
from guiderail.support.arguments import checked
from guiderail.support.files import text_of
from guiderail.support.json_objects import document
from guiderail.support.suggestions import suggestion
from guiderail.support.texts import has_surrogate

__all__ = ["Format", "Frame", "Template", "read_format", "tool_formats"]

_FOLDER = Path(__file__).parent / "formats"
_SLOT = re.compile(r"\$\{(name|id|arguments)\}")
_KEYS = {
    "name", "models", "aliases", "call", "trigger", "separator", "section", "id", "parameters", "reasoning", "content",
    "parallel", "end", "excludes", "examples",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Template:
    """How one call is written: pairs of a string and the slot after it, ``"name"``, ``"id"``, ``"arguments"`` or
    none.
    """

    parts: tuple[tuple[str, str], ...]

    @property
    def head(self) -> str:
        """The text before the first slot."""
        return self.parts[0][0]

    def pattern(self, names: tuple[str, ...], identifier: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
        """The pattern that finds the call again: the part up to the arguments, and the part after them."""
        slots = {
            "name": f"(?P<name>{'|'.join(map(re.escape, sorted(names, key=len, reverse=True))) or '(?!)'})",
            "id": f"(?P<id>{identifier})",
            "": "",
            "arguments": "",
        }
        at = next(i for i, (_, slot) in enumerate(self.parts) if slot == "arguments")
        if at and self.parts[at] == ("", "arguments"):
            slots["name"] += "(?![A-Za-z0-9_.:/-])"  # no text marks the end of the name
        built = ["".join(re.escape(t) + slots[s] for t, s in p) for p in (self.parts[: at + 1], self.parts[at + 1 :])]
        return re.compile(built[0]), re.compile(built[1])


@dataclass(frozen=True, slots=True)
class Frame:
    """A part of a string between two markers. One of ``after`` follows the second marker."""

    begin: str
    end: str
    after: tuple[str, ...] = ("",)


@dataclass(frozen=True, slots=True)
class Format:
    """How calls, reasoning and content are written.

    Attributes:
        name: the name of the family.
        models: the models that use it, in words.
        calls: the ways to write one call.
        identifier: the pattern of ``${id}``.
        begin: alternative strings before the first call of a turn.
        end: the text after the last call.
        separator: the text between two calls.
        triggers: strings that begin a call, and do not occur in content.
        parameters: how arguments are written one by one; None: as JSON.
        reasoning: the markers around reasoning, or None.
        content: the markers around content, or None if it has none and precedes the calls.
        parallel: whether a turn may have several calls.
        turn_end: markers that may end a string without calls.
        calls_end: markers that may end a string after its calls.
        excludes: further strings that do not occur in content.
        examples: as in the file.
    """

    name: str
    models: str
    calls: tuple[Template, ...]
    identifier: str
    begin: tuple[str, ...]
    end: str
    separator: str
    triggers: tuple[str, ...]
    parameters: ParameterStyle | None
    reasoning: Frame | None
    content: Frame | None
    parallel: bool
    turn_end: tuple[str, ...]
    calls_end: tuple[str, ...]
    excludes: tuple[str, ...]
    examples: str  # JSON, so that the format is a value

    def starts(self) -> list[tuple[str, int]]:
        """The strings from the first marker to the first slot of a call, each with the index of its template."""
        return [(begin + template.head, i) for begin in self.begin for i, template in enumerate(self.calls)]


@lru_cache(maxsize=1)
def _known() -> dict[str, Path]:
    """Names and aliases of the formats that come with the package."""
    found: dict[str, Path] = {}
    for path in sorted(_FOLDER.glob("*.json")):
        data = json.loads(path.read_text(encoding="utf-8"))
        for name in (data["name"], *data.get("aliases", ())):
            found[name] = path
    return found


@checked
def tool_formats() -> dict[str, str]:
    """Returns the tool-call formats that are known by name, each with the models that write it.

    >>> import guiderail as gr
    >>> gr.tool_formats()["kimi-k2"]
    'Kimi K2, Kimi K2 Thinking, Kimi K2.5'
    """
    return {name: read_format(name).models for name, path in sorted(_known().items()) if path.stem == name}


def read_format(given: str | Path | Mapping[str, Any] | Format) -> Format:
    """Reads a format by its name, from a file, or from the contents of such a file.

    Raises:
        ToolError: there is no such format, or it cannot be read.
    """
    if isinstance(given, Format):
        return given
    if isinstance(given, str):
        path = _known().get(given.lower())
        if path is None:
            is_path = "/" in given or given.endswith(".json")
            way = "pass a file as pathlib.Path(…)" if is_path else suggestion(given, sorted(_known()))
            raise ToolError(f"there is no format {given!r}; {way}", code="tool-format")
        return _from_file(path)
    if isinstance(given, Path):
        return _parse(_load(given), given.name)
    if isinstance(given, Mapping):
        return _parse(dict(given), str(given.get("name", "format")))
    raise ToolError(
        f"a format must be a name, a pathlib.Path or a dict, not {type(given).__name__}", code="tool-format"
    )


def _load(path: Path) -> dict[str, Any]:
    text = text_of(path, f"the format {path} cannot be read", ToolError, "tool-format")
    data = document(text, f"the format {path}", ToolError, "tool-format")
    if not isinstance(data, dict):
        raise ToolError(f"the format {path} is not a JSON object", code="tool-format")
    return data


@lru_cache(maxsize=64)
def _from_file(path: Path) -> Format:
    return _parse(_load(path), path.name)


def _parse(data: dict[str, Any], where: str) -> Format:
    def fail(message: str, key: str = "") -> ToolError:
        return ToolError(message, code="tool-format", pointer=f"{where}#/{key}" if key else where)

    def texts(value: Any, key: str, *, empty: bool = False) -> tuple[str, ...]:
        found = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list | tuple) else (None,)
        if not found or not all(isinstance(text, str) and (text or empty) for text in found):
            raise fail("expected a string, or a list of strings", key)
        return tuple(text for text in found if isinstance(text, str))

    def frame(key: str) -> Frame | None:
        value = data.get(key)
        if value is None:
            return None
        if not isinstance(value, Mapping) or set(value) - {"begin", "end", "after"} or not value.get("begin"):
            raise fail("expected an object with the markers 'begin' and 'end' ('after': what follows)", key)
        begin, end = (texts(value.get(name, ""), f"{key}/{name}", empty=True)[0] for name in ("begin", "end"))
        return Frame(begin, end, texts(value.get("after", ""), f"{key}/after", empty=True))

    _check_members(data, fail)
    calls = tuple(_template(text, fail) for text in texts(data.get("call", ()), "call"))
    identifier = data.get("id", "")
    if any(slot == "id" for template in calls for _, slot in template.parts) != bool(identifier):
        raise fail("a call with ${id} needs the pattern 'id', and the pattern needs ${id} in a call", "id")
    if not isinstance(identifier, str):
        raise fail("expected a pattern", "id")
    try:
        regex(identifier)
        re.compile(identifier)
    except (GuiderailError, re.error) as error:
        why = error.message if isinstance(error, GuiderailError) else error
        raise fail(f"the pattern cannot be read: {why}", "id") from None
    section = data.get("section", {})
    if not isinstance(section, Mapping) or set(section) - {"begin", "end"}:
        raise fail("expected an object with the markers 'begin' and 'end'", "section")
    begin = texts(section.get("begin", ""), "section/begin", empty=True)
    reasoning, content = frame("reasoning"), frame("content")
    if reasoning is not None and not reasoning.end:
        raise fail("reasoning needs the marker 'end'", "reasoning")
    parameters = data.get("parameters")
    if parameters is not None and not isinstance(parameters, Mapping):
        raise fail("expected an object", "parameters")
    ends = data.get("end", [])
    apart = isinstance(ends, Mapping)
    if apart and set(ends) - {"content", "calls"}:
        raise fail("expected markers, or an object with the markers after 'content' and after 'calls'", "end")

    def turn_end(after: str) -> tuple[str, ...]:
        found = ends.get(after, []) if apart else ends
        return texts(found, f"end/{after}" if apart else "end") if found else ()

    made = Format(
        name=texts(data.get("name", ()), "name")[0],
        models=str(data.get("models", "")),
        calls=calls,
        identifier=identifier,
        begin=begin,
        end=texts(section.get("end", ""), "section/end", empty=True)[0],
        separator=texts(data.get("separator", ""), "separator", empty=True)[0],
        triggers=(),
        parameters=None if parameters is None else ParameterStyle.of(parameters, f"{where}#/parameters"),
        reasoning=reasoning,
        content=content,
        parallel=data.get("parallel", True),
        turn_end=turn_end("content"),
        calls_end=turn_end("calls"),
        excludes=texts(data.get("excludes", []), "excludes") if data.get("excludes") else (),
        examples=json.dumps(data.get("examples", [])),
    )
    starts = [start for start, _ in made.starts()]
    triggers = texts(data["trigger"], "trigger") if "trigger" in data else tuple(begin) if all(begin) else tuple(starts)
    triggers = tuple(dict.fromkeys(triggers))
    if not all(triggers):
        raise fail("a call must begin with literal text: put some before its first slot, or name a 'trigger'", "call")
    for start in starts:
        if sum(start.startswith(trigger) for trigger in triggers) != 1:
            raise fail(f"calls that begin with {start!r} must begin with exactly one trigger", "trigger")
    fields = {name: getattr(made, name) for name in Format.__slots__}
    return Format(**{**fields, "triggers": triggers})


def _check_members(data: dict[str, Any], fail: Any) -> None:
    """Checks that a format has no other keys than it may have, and only values that can be written."""
    unknown = sorted(set(data) - _KEYS, key=str)
    if unknown:
        raise fail(f"there is no key {unknown[0]!r} in a format; there are {', '.join(sorted(_KEYS))}", unknown[0])
    for key, value in data.items():
        try:
            bad = has_surrogate(json.dumps(value, ensure_ascii=False))
        except (TypeError, ValueError, RecursionError):
            bad = True
        if bad:
            raise fail("expected JSON values, and texts without lone surrogates", key)
    if not isinstance(data.get("parallel", True), bool):
        raise fail("expected true or false", "parallel")


def _template(text: str, fail: Any) -> Template:
    cut = _SLOT.split(text)
    parts = [(cut[i], cut[i + 1] if i + 1 < len(cut) else "") for i in range(0, len(cut), 2)]
    slots = [slot for _, slot in parts if slot]
    if slots.count("name") != 1 or slots.count("arguments") != 1 or slots.count("id") > 1:
        raise fail("a call must have ${name} and ${arguments} once each, and ${id} at most once", "call")
    if slots.index("name") > slots.index("arguments"):
        raise fail("the name of a tool must come before its arguments, which depend on it", "call")
    if "${" in "".join(t for t, _ in parts):
        raise fail("a call has an unknown slot; the slots are ${name}, ${arguments} and ${id}", "call")
    return Template(tuple(part for part in parts if part != ("", "")) if len(parts) > 1 else tuple(parts))
