"""Reads arguments whose arrays and objects are not JSON while they are written: with tags inside tags, or in quotes.

A stack holds the open arrays and objects. The same steps read both kinds of styles; they differ in how a part begins
and ends:

    <cofl:value name="tags" type="list"><cofl:value type="raw">a</cofl:value></cofl:value>
    tags:[<|"|>a<|"|>]
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from guiderail.frontends.tools.parameter_style import ParameterStyle

__all__ = ["NestedArguments"]

_SCALAR_END = re.compile(r"[,\]}]")


class _More(Exception):
    """It takes more text to tell what comes next."""


@dataclass(slots=True)
class NestedArguments:
    """The arguments of one call.

    Attributes:
        style: how they are written.
        members: those that are complete.
        found: those that `feed` has completed since the caller emptied the list.
        done: whether the last one has been read.
    """

    style: ParameterStyle
    members: dict[str, Any] = field(default_factory=dict)
    found: list[tuple[str, Any]] = field(default_factory=list)
    done: bool = False
    _stack: list[tuple[Any, str]] = field(default_factory=list)  # the open values, each with its name in its parent

    def feed(self, text: str, at: int) -> int:
        """Reads the complete parts of the text from ``at`` on, and returns the position after them.

        Raises:
            ValueError: no arguments continue like this.
        """
        step = self._quoted if self.style.quote else self._tagged
        while not self.done:
            try:
                at = step(text, at)
            except _More:
                break
        return at

    def _add(self, key: str, value: Any) -> None:
        into = self._stack[-1][0] if self._stack else self.members
        if isinstance(into, list):
            into.append(value)
        else:
            into[key] = value
            if not self._stack:
                self.found.append((key, value))

    def _pop(self) -> None:
        value, key = self._stack.pop()
        self._add(key, value)

    @staticmethod
    def _find(text: str, what: str, at: int) -> int:
        end = text.find(what, at)
        if end < 0:
            raise _More
        return end

    @staticmethod
    def _is_at(text: str, what: str, at: int) -> bool:
        """Whether this text comes next."""
        if len(text) - at < len(what) and what.startswith(text[at:]):
            raise _More
        return text.startswith(what, at)

    # -- in tags -------------------------------------------------------------------------------------------------
    def _tagged(self, text: str, at: int) -> int:
        style = self.style
        item = bool(self._stack) and isinstance(self._stack[-1][0], list)
        opening = style.item if item else style.open
        if not self._is_at(text, opening[: opening.index("${")], at):
            if not self._stack:
                self.done = True
                return at
            if not self._is_at(text, style.close, at):
                raise ValueError("expected a value or a closing tag")
            self._pop()
            return at + len(style.close)
        tag = style.pattern(opening).match(text, at)
        if tag is None:
            if len(text) - at > 4096:
                raise ValueError("expected the tag of an argument")
            raise _More
        key = "" if item else style.read_key(tag["key"])
        if tag["kind"] in (style.kind("array"), style.kind("object")):
            self._stack.append(([] if tag["kind"] == style.kind("array") else {}, key))
            return tag.end()
        end = self._find(text, style.close, tag.end())
        inside = text[tag.end() : end]
        self._add(key, inside if tag["kind"] == style.kind("string") else style.scalar(inside))
        return end + len(style.close)

    # -- in quotes -----------------------------------------------------------------------------------------------
    def _quoted(self, text: str, at: int) -> int:
        """The next part of an array or object, or its end. The reader of the call handles the end of all arguments."""
        style = self.style
        if at == len(text):
            raise _More
        into = self._stack[-1][0] if self._stack else self.members
        item = isinstance(into, list)
        if not self._stack and text[at] == "}":
            self.done = True
            return at
        if text[at] == ("]" if item else "}"):
            self._pop()
            return at + 1
        if into:
            if not self._is_at(text, style.between, at):
                raise ValueError(f"expected {style.between!r} or an end")
            at += len(style.between)
        key = ""
        if not item:
            colon = self._find(text, style.after_key, at)
            key, at = style.read_key(text[at:colon]), colon + len(style.after_key)
        if at == len(text):
            raise _More
        if self._is_at(text, style.quote, at):
            at += len(style.quote)
            end = self._find(text, style.quote, at)
            self._add(key, text[at:end])
            return end + len(style.quote)
        if text[at] in "[{":
            self._stack.append(([] if text[at] == "[" else {}, key))
            return at + 1
        ends = _SCALAR_END.search(text, at)
        if ends is None:
            raise _More
        self._add(key, style.scalar(text[at : ends.start()]))
        return ends.start()
