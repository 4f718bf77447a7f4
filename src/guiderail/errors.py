"""The base classes of guiderail's errors. Each error has a stable code, a location if known, and says what to do."""

from __future__ import annotations

from typing import Any, ClassVar

from guiderail import _core

__all__ = [
    "ArgumentError",
    "BitmaskError",
    "CompileError",
    "GuiderailError",
    "LimitError",
    "MatcherError",
    "ModelError",
    "PatternError",
    "ReadError",
    "VocabularyError",
]


class GuiderailError(Exception):
    """Base class of all errors that guiderail raises.

    Attributes:
        code: a stable, machine-readable name in kebab-case (``"regex-backreference"``).
        message: what is wrong and what to do about it, in one or two sentences, after the place in a schema if known.
        reason: the message without that place.
        source: the text that contains the fault (a pattern, a grammar), or None.
        span: the half-open range ``(start, end)`` of the fault in ``source``, in code points, or None.
    """

    code: str = "error"
    _unpickled: ClassVar[frozenset[str]] = frozenset()  # attributes that mean something only in this process

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        source: str | None = None,
        span: tuple[int, int] | None = None,
        place: str | None = None,
    ) -> None:
        self.reason = _printable(message)
        self.message = _printable(f"{place}: {message}") if place else self.reason
        if code is not None:
            self.code = code
        self.source = source
        self.span = span
        super().__init__(self.message)

    def __str__(self) -> str:
        return self.render()

    def render(self) -> str:
        """The message with its code and, if the location is known, the line with a caret under the fault."""
        return f"{self.message} [{self.code}]{self.place()}"

    def place(self) -> str:
        """The lines about the location, each after a line break; empty if it is not known."""
        if self.source is None or self.span is None:
            return ""
        start, end = self.span
        begin = self.source.rfind("\n", 0, start) + 1
        stop = self.source.find("\n", start)
        line = self.source[begin : len(self.source) if stop < 0 else stop]
        column = start - begin
        width = max(1, min(end, begin + len(line)) - start)
        if len(line) > 100:  # keep a window around the fault
            cut = max(0, column - 40)
            line, column = line[cut : cut + 100], column - cut
            width = min(width, max(1, len(line) - column))
        shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in line)
        number = self.source.count("\n", 0, start) + 1
        place = f"line {number}, column {start - begin + 1}" if "\n" in self.source else f"position {start}"
        return f"\n  at {place}:\n    {shown}\n    {' ' * column}{'^' * width}"

    def __reduce__(self) -> tuple[object, ...]:
        kept = {name: value for name, value in vars(self).items() if name not in self._unpickled}
        return type(self), self.args, kept


_MOST_BEGIN, _MOST_END = 6_000, 3_000  # characters of a message


def _printable(message: str) -> str:
    """A message that can be written to any log, whatever it quotes: a lone surrogate has no UTF-8 form, and names may
    have millions of characters."""
    if len(message) > _MOST_BEGIN + _MOST_END:
        message = f"{message[:_MOST_BEGIN]} … {message[-_MOST_END:]}"
    if message.isascii():
        return message
    return message.encode("utf-8", "backslashreplace").decode()


class PatternError(GuiderailError, ValueError):
    """A regular expression, or another string that a front end reads, is malformed or cannot become an automaton."""

    code = "pattern"


class CompileError(GuiderailError, ValueError):
    """A constraint cannot be compiled: it matches nothing, names an unknown token, has a wrong option …"""

    code = "compile"


class LimitError(GuiderailError):
    """A limit on states, work, nesting or memory was reached; the message names the option that raises the limit."""

    code = "limit"
    _unpickled = frozenset(("part",))
    part: Any  # if the limit was reached while a constraint was lowered: the innermost one


class ReadError(GuiderailError, ValueError):
    """A string cannot be read as a value of a Python type.

    Text that was generated under the type can always be read, with one exception: your own code (a pydantic
    validator, ``__post_init__``, a predicate) may reject a value that the type allows. ``cause`` is its exception.

    Attributes:
        pointer: location in the value, as a JSON pointer (``"/items/0/price"``; ``""`` is the whole value).
        cause: the exception that pydantic or your class raised, or None.
    """

    code = "read-mismatch"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        pointer: str = "",
        cause: Exception | None = None,
        source: str | None = None,
        span: tuple[int, int] | None = None,
    ) -> None:
        super().__init__(message, code=code, source=source, span=span)
        self.pointer, self.cause = pointer, cause


class VocabularyError(GuiderailError, ValueError):
    """A tokenizer cannot be read, or a vocabulary is inconsistent."""

    code = "vocabulary"


class MatcherError(GuiderailError, ValueError):
    """A matcher was used in a state that does not allow it: after termination, or rolled back too far."""

    code = "matcher"


class BitmaskError(GuiderailError, ValueError):
    """A bitmask or logits array has the wrong shape, dtype, layout or device."""

    code = "bitmask"


class ModelError(GuiderailError):
    """A model or one of its libraries cannot be used."""

    code = "model"


class ArgumentError(GuiderailError, TypeError):
    """A function was called with an argument of the wrong type; the message names it."""

    code = "argument"


_CORE_KINDS: dict[str, type[GuiderailError]] = {
    "fuel": LimitError,
    "work": LimitError,
    "step": LimitError,
    "argument": ArgumentError,
    "nodes": LimitError,
    "memory": LimitError,
    "depth": LimitError,
    "states": LimitError,
    "budget": LimitError,
    "matcher": MatcherError,
    "bitmask": BitmaskError,
    "vocabulary": VocabularyError,
}


def from_core(code: str, message: str) -> GuiderailError:
    """The exception for an error of the core. The first word of the code decides its class."""
    kind = _CORE_KINDS.get(code) or _CORE_KINDS.get(code.split("-")[0], CompileError)
    return kind(message, code=code)


_core.set_error_factory(from_core)
