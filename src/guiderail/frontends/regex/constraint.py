"""The constraint that a pattern stands for."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from guiderail import _core
from guiderail.constraints.constraint import Constraint
from guiderail.constraints.places import placing
from guiderail.errors import CompileError, LimitError, PatternError
from guiderail.frontends.regex import charsets
from guiderail.frontends.regex.ecma_dialect import EcmaParser
from guiderail.frontends.regex.lower import lower
from guiderail.frontends.regex.parser import ASCII, DOTALL, IGNORECASE, MULTILINE, UNICODE, VERBOSE, Parsed
from guiderail.frontends.regex.python_dialect import PythonParser
from guiderail.support.arguments import checked
from guiderail.support.options import check_choice, check_integer
from guiderail.support.places import in_text
from guiderail.support.texts import shown
from guiderail.support.work import reading

__all__ = ["Regex", "regex"]

_PYTHON_FLAGS = {"a": ASCII, "i": IGNORECASE, "m": MULTILINE, "s": DOTALL, "u": UNICODE, "x": VERBOSE}
_ECMA_FLAGS = {"i": IGNORECASE, "m": MULTILINE, "s": DOTALL, "u": 0, "v": 0}
_UNLIKE = re.compile(r"\\[dDwWsSbB]|\(\?[a-z]*i")  # where ASCII and Unicode may differ, at a glance
_RE_FLAGS = {
    "a": re.ASCII,
    "i": re.IGNORECASE,
    "m": re.MULTILINE,
    "s": re.DOTALL,
    "u": re.UNICODE,
    "x": re.VERBOSE,
}


@dataclass(frozen=True, slots=True)
class Regex(Constraint):
    """The strings that a pattern matches; made by :func:`regex`.

    Attributes:
        pattern: the pattern.
        dialect: ``"python"`` or ``"ecma"``.
        flags: letters, sorted.
        mode: ``"match"`` or ``"search"``.
        max_length: the most characters (code points), or None.
        max_nesting: how deep groups may nest.
        compiled: whether a compiled ``re.Pattern`` was given, which a string has to match as ``re`` reads it, too.
    """

    pattern: str
    dialect: str = "python"
    flags: str = ""
    mode: str = "match"
    max_length: int | None = None
    max_nesting: int = 250
    compiled: bool = False
    _parsed: Parsed = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        with placing(self), reading():
            object.__setattr__(self, "_parsed", self._read(0))

    def _placed(self, error: LimitError) -> LimitError:
        return in_text(error, self.pattern)

    def _read(self, bits: int) -> Parsed:
        """The pattern, with flags besides its own."""
        python = self.dialect == "python"
        for letter in self.flags:
            bits |= (_PYTHON_FLAGS if python else _ECMA_FLAGS)[letter]
        if python:
            return PythonParser(self.pattern, bits, self.max_nesting).parse()
        sets = "v" in self.flags
        return EcmaParser(self.pattern, bits, self.max_nesting, unicode="u" in self.flags or sets, sets=sets).parse()

    def _in_unicode(self) -> Regex:
        if self.dialect != "python" or "a" in self.flags or "u" in self.flags:
            return self
        if _UNLIKE.search(self.pattern) is None and "i" not in self.flags:
            return self
        letters = "".join(sorted(self.flags + "u"))
        try:
            return Regex(self.pattern, "python", letters, self.mode, self.max_length, self.max_nesting)
        except PatternError:  # (?a) at the beginning
            return self

    def _lower(self, b: _core.Builder) -> int:
        e = lower(self._parsed, b, self.pattern, self.mode == "search")
        if self.compiled:
            e = b.intersection([e, lower(self._read(UNICODE), b, self.pattern, self.mode == "search")])
        if self.max_length is None:
            return e
        return b.intersection([e, b.repeat(b.char_class(charsets.ANY), 0, self.max_length)])

    def __reduce__(self) -> tuple[object, ...]:
        return Regex, (
            self.pattern,
            self.dialect,
            self.flags,
            self.mode,
            self.max_length,
            self.max_nesting,
            self.compiled,
        )

    def __repr__(self) -> str:
        shown = [repr(self.pattern)]
        if self.compiled:
            bits = " | ".join(f"re.{letter.upper()}" for letter in self.flags)
            shown = [f"re.compile({self.pattern!r}{', ' + bits if bits else ''})"]
        for name, usual in (("dialect", "python"), ("flags", ""), ("mode", "match"), ("max_length", None)):
            if getattr(self, name) != usual and not (name == "flags" and self.compiled):
                shown.append(f"{name}={getattr(self, name)!r}")
        if self.max_nesting != 250:
            shown.append(f"max_nesting={self.max_nesting}")
        return f"regex({', '.join(shown)})"


@checked
def regex(
    pattern: str | re.Pattern[str],
    *,
    dialect: str = "python",
    flags: int | str = 0,
    mode: str = "match",
    max_length: int | None = None,
    max_nesting: int = 250,
) -> Regex:
    r"""Matches what a regular expression matches.

        >>> import guiderail as gr
        >>> gr.regex(r"\d{4}-\d{2}").matches("2024-02")
        True
        >>> gr.regex("b+", mode="search", max_length=4).matches("abba")
        True

    ``\d \w \s \b`` are ASCII, so that a model writes ``2024`` for ``\d{4}`` and no digits of another script. For
    Unicode, pass ``flags="u"`` or write ``(?u)`` at the start or ``(?u:…)`` in the pattern.

    Everything in both dialects is supported, including look-around and anchors anywhere, except for what no automaton
    can do: recursion, conditionals and some backreferences are errors. Beyond the dialects,
    ``\p{…}`` always works, look-behind may have any width, and named groups such as ``(?P<QUOTED_TEXT>)`` are the
    extensions of :mod:`guiderail.frontends.extensions`.

    Args:
        pattern: the pattern. In the Python dialect it may be a compiled ``re.Pattern`` of ``str``: then a string must
            match as in ``re``, and with ASCII ``\d \w \s \b``, too, unless the pattern contains ``(?u)``.
        dialect: ``"python"`` (``re`` of Python 3.11 with ``re.ASCII``) or ``"ecma"`` (ECMA-262, the dialect of JSON
            Schema's ``pattern``). Without the ``u`` flag, ECMA patterns are read as leniently as Annex B says, but
            ``\u{…}`` and ``\p{…}`` always work.
        flags: flags of ``re`` (an int) or letters: ``aimsux`` for Python, ``imsuv`` for ECMA. In Python's dialect,
            ``u`` and ``(?u:…)`` make ``\d \w \s \b`` and letter case those of Unicode.
        mode: ``"match"``: the pattern matches the whole string; ``"search"``: any text may precede and follow the
            match.
        max_length: maximum length of the text, in characters (code points).
        max_nesting: maximum nesting of groups.

    Raises:
        PatternError: the pattern is malformed or needs more than an automaton; ``span`` says where.
        LimitError: groups nest deeper than ``max_nesting``.
        CompileError: an argument is wrong.
    """
    compiled = False
    if isinstance(pattern, re.Pattern):
        if dialect != "python" or flags:
            raise CompileError(
                "a compiled pattern has its own flags and is of the Python dialect; pass pattern.pattern instead",
                code="regex-compiled",
            )
        flags, compiled = pattern.flags & ~re.UNICODE, not pattern.flags & re.ASCII
        pattern = pattern.pattern
    if not isinstance(pattern, str):
        if isinstance(pattern, bytes):
            raise PatternError("bytes patterns are not supported; decode the pattern to a string", code="regex-bytes")
        raise CompileError(f"regex takes a string, not {type(pattern).__name__}", code="not-a-constraint")
    check_choice("dialect", dialect, ("python", "ecma"), code="regex-dialect")
    check_choice("mode", mode, ("match", "search"), code="regex-mode")
    for name, value in (("max_length", max_length), ("max_nesting", max_nesting)):
        check_integer(name, value, 0, 2**32 - 2, optional=True)
    made = Regex(pattern, dialect, _letters(flags, dialect) if flags else "", mode, max_length, max_nesting)
    return replace(made, compiled=True) if compiled and made._in_unicode() is not made else made


def _letters(flags: int | str, dialect: str) -> str:
    """Flags as sorted letters, checked."""
    known = _PYTHON_FLAGS if dialect == "python" else _ECMA_FLAGS
    if isinstance(flags, str):
        letters = "".join(sorted(set(flags)))
    elif not isinstance(flags, int):
        raise CompileError(
            f"flags must be a string of letters, or flags of the re module, not {shown(flags)}", code="regex-flags"
        )
    else:
        if dialect != "python":
            raise CompileError(
                f"flags of the ECMA dialect must be a string of letters, any of {''.join(known)!r}", code="regex-flags"
            )
        letters = "".join(letter for letter, bit in sorted(_RE_FLAGS.items()) if flags & bit)
        for bit in _RE_FLAGS.values():
            flags &= ~int(bit)
        if flags:
            raise CompileError(
                f"the flags {re.RegexFlag(flags)!r} do not apply to text; use any of {''.join(known)!r}",
                code="regex-flags",
            )
    for letter in letters:
        if letter not in known:
            raise CompileError(
                f"there is no flag {letter!r} in the {dialect} dialect; use any of {''.join(known)!r}",
                code="regex-flags",
            )
    if ("a" in letters and "u" in letters) or ("u" in letters and "v" in letters):
        raise CompileError(f"the flags {letters!r} exclude each other; keep one of them", code="regex-flags")
    return letters
