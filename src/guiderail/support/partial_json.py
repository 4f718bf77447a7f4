"""JSON read while it is written: :class:`PartialJson` has the value of the text so far, at any moment.

Each character is read once. Containers are built in place, so a reader that has seen the first half of a
document costs nothing to ask; nothing is parsed again, repaired or closed by guessing:

    >>> reader = PartialJson()
    >>> reader.feed('{"name": "Ada Love')
    >>> reader.value
    {'name': 'Ada Love'}
    >>> reader.feed('lace", "born": 18')
    >>> reader.value, reader.finished
    ({'name': 'Ada Lovelace'}, ['/name'])
    >>> reader.feed('15}')
    >>> reader.value, reader.finished, reader.is_complete
    ({'name': 'Ada Lovelace', 'born': 1815}, ['/born', ''], True)

What is unfinished is shown if all that may follow only adds to it: containers and (as an option) strings. A number,
``true``, ``false``, ``null``, a key, an escape or half a surrogate pair is held back until it is finished, because
``18`` may become ``1815`` or ``18e-3``.

The grammar is that of RFC 8259, and values are those of :func:`json.loads`. Nesting is limited by memory alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import IntEnum
from typing import Any

from guiderail.errors import LimitError, PatternError
from guiderail.support.pointers import extended
from guiderail.support.texts import clipped, shown

__all__ = ["PartialJson", "pointer"]

# A path is a linked list from the leaf to the root: (path of the parent, key or index). None is the root. Pointers
# are spelled out only on request: a document nested n deep has n² characters of them.
Path = tuple[Any, "str | int"] | None


class _State(IntEnum):
    VALUE = 0  # a value must follow
    FIRST_ITEM = 1  # after "[": a value or "]"
    FIRST_KEY = 2  # after "{": a key or "}"
    KEY = 3  # after "," in an object
    COLON = 4
    AFTER = 5  # after a member or an item: "," or the end of the container
    STRING = 6  # inside a string, a key or not
    NUMBER = 7
    WORD = 8  # inside true, false or null
    END = 9  # the value is complete: whitespace only


_EXPECTED = {
    _State.VALUE: "a value",
    _State.FIRST_ITEM: "a value or ']'",
    _State.FIRST_KEY: "a key or '}'",
    _State.KEY: "a key",
    _State.COLON: "':'",
    _State.END: "the end of the text",
}
_SPACE = re.compile(r"[ \t\n\r]*")
_PLAIN = re.compile(r'[^"\\\x00-\x1f]*')  # what a string may contain unescaped
_NUMBER_PART = re.compile(r"[-+.eE0-9]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_HEX = frozenset("0123456789abcdefABCDEF")
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_WORDS: dict[str, tuple[str, bool | None]] = {"t": ("true", True), "f": ("false", False), "n": ("null", None)}


class Frame:
    """An open container.

    Attributes:
        container: a list or a dict, filled in place.
        key: the key or index of the member that was begun last.
        path: the path of the container itself.
        typed: for :mod:`guiderail.frontends.python_types.partial`: the typed values of the finished members.
    """

    __slots__ = ("container", "key", "path", "typed")

    def __init__(self, container: list[Any] | dict[str, Any], path: Path) -> None:
        self.container = container
        self.key: Any = None
        self.path = path
        self.typed: Any = None


class PartialJson:
    """Reads one JSON text in pieces of any size.

    Reading takes time linear in the text. ``value`` is free, except that a growing string is joined again (one copy of
    that string) when it is requested after it has grown.

    Args:
        growing_strings: show unfinished strings (keys never are).
        parse_int: converts the text of a number without fraction and exponent.
        parse_float: converts the text of any other number; ``Decimal`` keeps every digit.
    """

    def __init__(
        self,
        *,
        growing_strings: bool = True,
        parse_int: Callable[[str], Any] = int,
        parse_float: Callable[[str], Any] = float,
    ) -> None:
        self._growing_strings = growing_strings
        self._parse_int, self._parse_float = parse_int, parse_float
        self._state = _State.VALUE
        self.frames: list[Frame] = []  # open containers, from the outside in
        self._root: Any = None
        self._has_root = False
        self._events: list[Path] = []
        self._offset = 0  # characters before the current chunk
        # the current string
        self._is_key = False
        self._text = ""  # the part of the string that `value` has shown
        self._parts: list[str] = []  # the pieces after that part
        self._escape = ""  # an unfinished escape, with its backslash
        self._high = ""  # the first half of a surrogate pair, which waits for the second
        # the current number or word
        self._digits: list[str] = []
        self._word = ""
        self._word_value: bool | None = None
        self._word_seen = 0

    def __repr__(self) -> str:
        return f"<PartialJson, {'complete' if self.is_complete else 'open'}: {shown(self.value)}>"

    # -- what is known so far ----------------------------------------------------------------------------------
    @property
    def has_value(self) -> bool:
        """Whether anything can be shown yet; ``value`` is None until then."""
        return self._has_root

    @property
    def value(self) -> Any:
        """The value so far. Its containers are the reader's own: they keep growing, and must not be changed.

        :meth:`snapshot` gives one that stays as it is.
        """
        self._show_string()
        return self._root

    @property
    def is_complete(self) -> bool:
        """Whether the value is finished. A bare number is when whitespace follows it, or after :meth:`close`."""
        return self._state is _State.END

    @property
    def finished(self) -> list[str]:
        """JSON pointers (RFC 6901) of the values that the last :meth:`feed` finished, in that order."""
        return [pointer(path) for path in self._events]

    @property
    def path(self) -> str | None:
        """JSON pointer of the innermost unfinished value, or None.

        After ``{"a": [1, 2`` it is ``/a/1``, after ``{"a": [1, `` it is ``/a``.
        """
        if self._state in (_State.NUMBER, _State.WORD) or (self._state is _State.STRING and not self._is_key):
            return pointer(self._here())
        return pointer(self.frames[-1].path) if self.frames else None

    @property
    def place(self) -> tuple[Path, str]:
        """The path of what comes next, and what it is.

        ``"value"``: the first character of that value; ``"item"``: that, or the end of its array; ``"key"``: a key of
        that object (in it, or its first character); ``"first-key"``: that, or the end of the object; ``"colon"``: what
        precedes that value; ``"after"``: what follows a member or item of that container; ``"string"``, ``"number"``,
        ``"word"``: the rest of that value; ``"end"``: only whitespace.
        """
        state = self._state
        top = self.frames[-1] if self.frames else None
        if top is None or state is _State.END:
            names = {_State.STRING: "string", _State.NUMBER: "number", _State.WORD: "word", _State.END: "end"}
            return None, names.get(state, "value")
        if state in (_State.VALUE, _State.FIRST_ITEM):
            key = len(top.container) if isinstance(top.container, list) else top.key
            return (top.path, key), "value" if state is _State.VALUE else "item"
        if state is _State.FIRST_KEY:
            return top.path, "first-key"
        if state is _State.KEY or (state is _State.STRING and self._is_key):
            return top.path, "key"
        if state is _State.AFTER:
            return top.path, "after"
        if state is _State.COLON:
            return self._here(), "colon"
        return self._here(), {_State.STRING: "string", _State.NUMBER: "number"}.get(state, "word")

    @property
    def open_string(self) -> bool:
        """Whether a string (not a key) is being written and shown."""
        return self._state is _State.STRING and not self._is_key and self._growing_strings

    def snapshot(self) -> Any:
        """The value so far, as it will stay.

        Open containers are copied, one level each; finished parts are shared between snapshots.
        """
        value = self.value
        inner: Any = None
        for depth in range(len(self.frames) - 1, -1, -1):
            frame = self.frames[depth]
            value = frame.container.copy()
            if depth + 1 < len(self.frames):
                value[frame.key] = inner
            inner = value
        return value

    # -- reading -----------------------------------------------------------------------------------------------
    def feed(self, chunk: str) -> None:
        """Reads on.

        Raises:
            PatternError: ``json-syntax``: no JSON text begins like this. The reader is of no use afterwards.
            LimitError: ``json-number``: an integer has more digits than Python converts (4,300 by default).
        """
        self._events = []
        at, end = 0, len(chunk)
        while at < end:
            state = self._state
            if state is _State.STRING:
                at = self._read_string(chunk, at)
            elif state is _State.NUMBER:
                match = _NUMBER_PART.match(chunk, at)
                assert match is not None
                self._digits.append(match[0])
                at = match.end()
                if at < end:
                    self._end_number(at)
            elif state is _State.WORD:
                at = self._read_word(chunk, at)
            else:
                match = _SPACE.match(chunk, at)
                assert match is not None
                at = match.end()
                if at < end:
                    self._punctuate(chunk[at], at)
                    # the first character of a number or a word is read again, by its own state
                    at += self._state not in (_State.NUMBER, _State.WORD)
        self._offset += end

    def close(self) -> Any:
        """Ends the text, which finishes a bare number, and returns the value.

        Raises:
            PatternError: ``json-syntax``: the text is not complete.
        """
        self._events = []
        if self._state is _State.NUMBER and not self.frames:
            self._end_number(0)
        if self._state is not _State.END:
            raise PatternError(
                f"the JSON text ends after {self._offset} characters, before its value is complete; feed the rest",
                code="json-syntax",
            )
        return self._root

    def _fail(self, at: int, found: str) -> PatternError:
        expected = _EXPECTED.get(self._state) or ("']'" if isinstance(self.frames[-1].container, list) else "'}'")
        if self._state is _State.AFTER:
            expected = f"',' or {expected}"
        return PatternError(
            f"character {self._offset + at} of the JSON text is {found!r} where {expected} must follow; feed JSON only",
            code="json-syntax",
        )

    def _punctuate(self, c: str, at: int) -> None:
        """Reads one character that is not whitespace, outside of strings, numbers and words."""
        state = self._state
        if state is _State.AFTER:
            closes = "]" if isinstance(self.frames[-1].container, list) else "}"
            if c == ",":
                self._state = _State.VALUE if closes == "]" else _State.KEY
            elif c == closes:
                self._close_container()
            else:
                raise self._fail(at, c)
        elif state is _State.COLON:
            if c != ":":
                raise self._fail(at, c)
            self._state = _State.VALUE
        elif state in (_State.FIRST_KEY, _State.KEY):
            if c == '"':
                self._state, self._is_key = _State.STRING, True
            elif c == "}" and state is _State.FIRST_KEY:
                self._close_container()
            else:
                raise self._fail(at, c)
        elif state is _State.END:
            raise self._fail(at, c)
        elif c == "]" and state is _State.FIRST_ITEM:
            self._close_container()
        else:
            self._begin_value(c, at)

    def _begin_value(self, c: str, at: int) -> None:
        if not (c in '"{[-tfn' or "0" <= c <= "9"):
            raise self._fail(at, c)
        if self.frames:
            top = self.frames[-1]
            if isinstance(top.container, list):
                top.key = len(top.container)
        if c == '"':
            self._state, self._is_key = _State.STRING, False
            if self._growing_strings:
                self._place("")
        elif c in "{[":
            path = self._here()
            container: list[Any] | dict[str, Any] = {} if c == "{" else []
            self._place(container)
            self.frames.append(Frame(container, path))
            self._state = _State.FIRST_KEY if c == "{" else _State.FIRST_ITEM
        elif c in _WORDS:
            self._word, self._word_value = _WORDS[c]
            self._word_seen, self._state = 0, _State.WORD
        else:
            self._state = _State.NUMBER

    def _here(self) -> Path:
        """The path of the value that was begun last in the innermost open container."""
        return (self.frames[-1].path, self.frames[-1].key) if self.frames else None

    def _place(self, value: Any) -> None:
        """Puts the current value in its place, or replaces the part of it already shown."""
        if not self.frames:
            self._root, self._has_root = value, True
            return
        top = self.frames[-1]
        if isinstance(top.container, list) and top.key == len(top.container):
            top.container.append(value)
        else:
            top.container[top.key] = value

    def _finish(self) -> None:
        """Finishes the current value and puts it in its place."""
        self._events.append(self._here())
        self._state = _State.AFTER if self.frames else _State.END

    def _close_container(self) -> None:
        self.frames.pop()
        self._finish()

    def _end_number(self, at: int) -> None:
        text = "".join(self._digits)
        self._digits = []
        match = _NUMBER.fullmatch(text)
        if match is None:
            raise PatternError(
                f"the number {clipped(text, 40)!r}, before character {self._offset + at} of the JSON text, is "
                "malformed; feed JSON only",
                code="json-syntax",
            )
        if match[1] is not None or match[2] is not None:
            self._place(self._parse_float(text))
        elif self._parse_int is int:
            self._place(self._int(text, at))
        else:
            self._place(self._parse_int(text))
        self._finish()

    def _int(self, text: str, at: int) -> int:
        try:
            return int(text)
        except ValueError:
            raise LimitError(
                f"a number of {len(text)} digits, before character {self._offset + at} of the JSON text, is more "
                "than Python converts; see sys.set_int_max_str_digits",
                code="json-number",
            ) from None

    def _read_word(self, chunk: str, at: int) -> int:
        rest = self._word[self._word_seen :]
        piece = chunk[at : at + len(rest)]
        if not rest.startswith(piece):
            raise PatternError(
                f"character {self._offset + at} of the JSON text should continue with {self._word!r}, but is "
                f"{piece!r}; feed JSON only",
                code="json-syntax",
            )
        self._word_seen += len(piece)
        if self._word_seen == len(self._word):
            self._place(self._word_value)
            self._finish()
        return at + len(piece)

    # -- strings -----------------------------------------------------------------------------------------------
    def _read_string(self, chunk: str, at: int) -> int:
        """Reads up to the end of the chunk or of the string; returns where it stopped."""
        end = len(chunk)
        while at < end:
            if self._escape:
                self._read_escape(chunk[at], at)
                at += 1
                continue
            match = _PLAIN.match(chunk, at)
            assert match is not None
            if match.end() > at:
                self._flush_half()
                self._parts.append(match[0])
                at = match.end()
                if at == end:
                    break
            c = chunk[at]
            at += 1
            if c == "\\":
                self._escape = c
            elif c == '"':
                self._flush_half()
                self._end_string()
                break
            else:
                raise PatternError(
                    f"character {self._offset + at - 1} of the JSON text is the control character {c!r}, which a "
                    "string may contain only as an escape; feed JSON only",
                    code="json-syntax",
                )
        return at

    def _read_escape(self, c: str, at: int) -> None:
        """Reads a character of an escape, after its backslash."""
        if len(self._escape) == 1 and c != "u":
            if c not in _ESCAPES:
                raise self._bad_escape(c, at)
            self._flush_half()
            self._parts.append(_ESCAPES[c])
            self._escape = ""
            return
        if len(self._escape) > 1 and c not in _HEX:
            raise self._bad_escape(c, at)
        self._escape += c
        if len(self._escape) < 6:
            return
        code = int(self._escape[2:], 16)
        self._escape = ""
        if self._high and 0xDC00 <= code <= 0xDFFF:
            self._parts.append(chr(0x10000 + ((ord(self._high) - 0xD800) << 10) + (code - 0xDC00)))
            self._high = ""
            return
        self._flush_half()
        if 0xD800 <= code <= 0xDBFF:
            self._high = chr(code)
        else:
            self._parts.append(chr(code))

    def _bad_escape(self, c: str, at: int) -> PatternError:
        return PatternError(
            f"character {self._offset + at} of the JSON text is {c!r}, which does not continue the escape "
            f"{self._escape!r}; feed JSON only",
            code="json-syntax",
        )

    def _flush_half(self) -> None:
        """Half a surrogate pair turns out to be alone: it stays as it is, as in json.loads."""
        if self._high:
            self._parts.append(self._high)
            self._high = ""

    def _show_string(self) -> None:
        if self._parts and self.open_string:
            self._text += "".join(self._parts)
            self._parts = []
            self._place(self._text)

    def _end_string(self) -> None:
        text = self._text + "".join(self._parts)
        self._text, self._parts = "", []
        if self._is_key:
            self.frames[-1].key = text
            self._state = _State.COLON
        else:
            self._place(text)
            self._finish()


def pointer(path: Path) -> str:
    """A path as a JSON pointer."""
    keys: list[str | int] = []
    while path is not None:
        path, key = path
        keys.append(key)
    return extended("", *reversed(keys))
