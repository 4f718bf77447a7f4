"""How arguments are written one by one: the tags or quotes around them, as data."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from guiderail import _core
from guiderail.frontends.tools.errors import ToolError
from guiderail.frontends.tools.markers import Marker
from guiderail.support.numerals import read_json

__all__ = ["KINDS", "ParameterStyle", "builtin_styles"]

KINDS = ("null", "boolean", "number", "string", "array", "object")
_SLOT = re.compile(r"\$\{(key|kind|space)\}")
_BARE = re.compile(r"[^\s:,{}\[\]<>\"']+")


@dataclass(frozen=True, slots=True)
class ParameterStyle:
    """How one argument is written. docs/tools.md describes the files.

    Attributes:
        open: the opening tag: ``${key}`` is the name, ``${kind}`` the entry of ``kinds``, ``${space}`` whitespace.
        close: the closing tag.
        between: text between two arguments.
        space: whether whitespace may surround the arguments, and values that are not strings.
        kinds: JSON type → its ``${kind}``; ``*`` stands for all others.
        item: the opening tag of an item, if arrays and objects are written with tags; otherwise they are JSON.
        quote: the quotes of strings, if values are written without tags: objects in braces with bare names, arrays in
            brackets, with ``between`` between their parts.
        sorted: whether arguments come in the order of their names instead of that of the schema.
        item_close: the closing tag of an item, if it is not ``close``.
        reserved: what strings must not contain, if it is not ``close``.
        padded: whether whitespace may surround values that are not strings, and stand alone.
        escapes: how characters of names are written.
        literals: further spellings of ``true``, ``false`` and ``null``, with what they stand for.
        empty: what may stand where there are no arguments, instead of nothing.
        read: whether there is a reader, which looks for the closing tag.
    """

    open: str
    close: str
    between: str = ""
    space: bool = False
    kinds: tuple[tuple[str, str], ...] = ()
    item: str = ""
    item_close: str = ""
    reserved: str = ""
    padded: bool = True
    escapes: tuple[tuple[str, str], ...] = ()
    quote: str = ""
    sorted: bool = False
    literals: tuple[tuple[str, bool | None], ...] = ()
    empty: str = ""
    read: bool = True

    @classmethod
    def of(cls, data: Mapping[str, Any], where: str, *, builtin: bool = False) -> ParameterStyle:
        """Reads a style from a file.

        Args:
            builtin: one of the styles that are only written, with settings that no reader knows.
        """
        more = {"item_close", "reserved", "padded"} if builtin else set()
        known = {
            "open", "close", "between", "space", "kinds", "item", "quote", "escapes", "sorted", "literals", "empty",
        }  # fmt: skip
        unknown = sorted(set(data) - known - more)
        if unknown:
            raise ToolError(
                f"parameters have no key {unknown[0]!r}; there are {', '.join(sorted(known))}",
                code="tool-format",
                pointer=where,
            )
        kinds = data.get("kinds", {})
        texts = [data.get(name, "") for name in ("open", "close", "between", "item", "quote", "empty")]
        if not all(isinstance(t, str) for t in texts) or "${key}" not in data.get("open", ""):
            raise ToolError(
                "parameters need a string 'open' that contains ${key}, and a string 'close'",
                code="tool-format",
                pointer=where,
            )
        if bool(data.get("close")) == bool(data.get("quote")) or (data.get("quote") and data.get("item")):
            raise ToolError(
                "parameters need 'close', or 'quote' if strings are in quotes and there are no tags",
                code="tool-format",
                pointer=where,
            )
        wrong = [k for k in kinds if k not in (*KINDS, "*")] if isinstance(kinds, dict) else [kinds]
        if wrong or not all(isinstance(kind, str) and kind for kind in kinds.values()):
            raise ToolError(
                f"kinds must map some of {', '.join(KINDS)} and * to strings", code="tool-format", pointer=where
            )
        if ("${kind}" in data["open"]) != bool(kinds):
            raise ToolError(
                "${kind} in 'open' needs kinds, and kinds need ${kind} in 'open'", code="tool-format", pointer=where
            )
        literals = data.get("literals", {})
        if not isinstance(literals, Mapping) or not all(
            _BARE.fullmatch(text) and (value is None or isinstance(value, bool)) for text, value in literals.items()
        ):
            raise ToolError(
                "literals must map words to true, false or null", code="tool-format", pointer=f"{where}/literals"
            )
        escapes = data.get("escapes", {})
        if not isinstance(escapes, Mapping) or not all(
            len(c) == 1 and isinstance(text, str) and text for c, text in escapes.items()
        ):
            raise ToolError("escapes must map characters to strings", code="tool-format", pointer=f"{where}/escapes")
        for flag in ("space", "sorted", "padded"):
            if not isinstance(data.get(flag, False), bool):
                raise ToolError("expected true or false", code="tool-format", pointer=f"{where}/{flag}")
        if data.get("item") and not builtin and not {"array", "object", "string"} <= set(kinds):
            raise ToolError(
                "'item' needs separate kinds for string, array and object, so that values can be read back",
                code="tool-format",
                pointer=where,
            )
        return cls(
            data["open"],
            data.get("close", ""),
            data.get("between", ""),
            data.get("space", False),
            tuple(sorted(kinds.items())),
            data.get("item", ""),
            data.get("item_close", ""),
            data.get("reserved", ""),
            data.get("padded", True),
            tuple(escapes.items()),
            data.get("quote", ""),
            data.get("sorted", False),
            tuple(literals.items()),
            data.get("empty", ""),
            not builtin,
        )

    def scalar(self, text: str, exact: bool = False) -> Any:
        """The value of a string that is JSON, or one of the further spellings.

        Raises:
            ValueError: it is neither.
            RecursionError: it is nested too deeply.
        """
        bare = text.strip(" \n\r\t")
        for spelling, value in self.literals:
            if bare == spelling:
                return value
        return read_json(text, exact)

    def kind(self, name: str) -> str | None:
        """What ``${kind}`` is for a JSON type; None: values of it cannot be written."""
        kinds = dict(self.kinds)
        return kinds.get(name, kinds.get("*"))

    @property
    def head(self) -> str:
        """The text before the name."""
        return self.open[: self.open.index("${key}")]

    @property
    def after_key(self) -> str:
        """The text after the name, up to the next slot."""
        return _SLOT.split(self.open.partition("${key}")[2])[0]

    def written(self, key: str) -> str | None:
        """A name as written in its tag; None if it would not be read back."""
        for plain, escaped in self.escapes:
            key = key.replace(plain, escaped)
        whole = key + self.after_key
        if (
            not key
            or (self.after_key and whole.find(self.after_key) < len(key))
            or (self.reserved and self.reserved in key)
        ):
            return None
        return None if self.quote and _BARE.fullmatch(key) is None else key

    def read_key(self, written: str) -> str:
        """A name in a tag, without its escapes."""
        for plain, escaped in reversed(self.escapes):
            written = written.replace(escaped, plain)
        return written

    @property
    def nested(self) -> bool:
        """Whether arrays and objects are not written as JSON."""
        return bool(self.item or self.quote)

    @property
    def limit(self) -> str:
        """The text that no string may contain: the closing tag, without the lines around it.

        Other readers look for the tag alone, and take those lines for part of the value.
        """
        return self.reserved or self.quote or self.close.strip("\n") or self.close

    def opening(self, key: str | None, kind: str | None, b: _core.Builder, space: int) -> int:
        parts = []
        for i, part in enumerate(_SLOT.split(self.item if key is None else self.open)):
            if i % 2 == 0:
                parts.append(Marker(part)._lower(b))
            elif part == "space":
                parts.append(space)
            else:
                parts.append(b.literal(((key if part == "key" else kind) or "").encode()))
        return b.concat(parts)

    def closing(self, key: str | None) -> Marker:
        if key is None:
            return Marker(self.item_close or self.close)
        return Marker(self.close.replace("${key}", key) if self.names_twice else self.close)

    @property
    def names_twice(self) -> bool:
        """Whether the closing tag contains the name, too."""
        return bool(self.reserved) and "${key}" in self.close

    def pattern(self, opening: str | None = None) -> re.Pattern[str]:
        """The pattern that finds an opening tag again, ``open`` or this one; with the groups ``key`` and ``kind``."""
        found = {"key": "(?P<key>.+?)", "kind": '(?P<kind>[^"<>]*)', "space": "[ \\n\\r\\t]*"}
        parts = _SLOT.split(opening or self.open)
        return re.compile("".join(found[p] if i % 2 else re.escape(p) for i, p in enumerate(parts)), re.DOTALL)


@lru_cache(maxsize=1)
def builtin_styles() -> dict[str, ParameterStyle]:
    """The styles that structural tags name."""
    text = (Path(__file__).parent / "styles.json").read_text(encoding="utf-8")
    return {
        name: ParameterStyle.of(data, f"styles.json#/{name}", builtin=True) for name, data in json.loads(text).items()
    }
