"""Explains in words and examples what a constraint allows next. Needs no vocabulary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from guiderail import _core
from guiderail.constraints.program import Program
from guiderail.errors import GuiderailError
from guiderail.support.nesting import nested

if TYPE_CHECKING:
    from guiderail.constraints.constraint import Constraint

__all__ = ["Explanation", "explain", "symbol_words", "words_after", "words_of"]

_LONGEST_EXAMPLE = 60  # bytes searched for a completion
_EXAMPLES = 4
_MOST_CHARACTERS = 12  # beyond ASCII that are named one by one


@dataclass(frozen=True, slots=True)
class Explanation:
    """The result of :meth:`Constraint.explain`.

    Attributes:
        prefix: the text that was examined.
        valid: whether some matching text begins with it.
        failed_at: index of the first character that cannot be part of a match, or None if there is none.
        accepting: whether the text may end here: after the prefix, or before the failing character.
        complete: whether the text must end here.
        expected: what may come next, in words.
        forced: the text that must come next, or "" if there is a choice.
        examples: a few short matching strings that begin with the prefix.
        hint: what would let the failing character through, or "" if unknown.
    """

    prefix: str
    valid: bool
    failed_at: int | None
    accepting: bool
    complete: bool
    expected: tuple[str, ...]
    forced: str
    examples: tuple[str, ...]
    hint: str = ""

    def __str__(self) -> str:
        lines = []
        if self.failed_at is not None:
            found = repr(self.prefix[self.failed_at]) if self.failed_at < len(self.prefix) else "the end"
            lines.append(f"{self.prefix!r} is not allowed: {found} at position {self.failed_at} does not fit.")
            lines.append(f"Allowed there, after {self.prefix[: self.failed_at][-40:]!r}:")
        elif self.complete:
            lines.append(f"After {self.prefix[-40:]!r} the text is complete: nothing may follow.")
        else:
            ending = "the text may end here, or continue with" if self.accepting else "the text continues with"
            lines.append(f"After {self.prefix[-40:]!r} {ending}:")
        lines += [f"  - {words}" for words in self.expected]
        if self.failed_at is not None and self.accepting:
            lines.append("  - the end of the text")
        if self.hint:
            lines.append(f"Hint: {self.hint}")
        if self.forced:
            lines.append(f"Forced: {self.forced!r}")
        if self.examples:
            lines.append("For example: " + ", ".join(repr(example) for example in self.examples))
        return "\n".join(lines)


def symbol_words(symbol: str | int | _core.TokenSet) -> str:
    """A readable name for a token that is matched as a unit."""
    if not isinstance(symbol, _core.TokenSet):
        return f"the special token {symbol}"
    names = ", ".join(map(str, symbol.tokens[:8])) + (", …" if len(symbol.tokens) > 8 else "")
    if not symbol.but:
        return f"the token {names}" if len(symbol.tokens) == 1 else f"one of the tokens {names}"
    return f"any token but {names}" if names else "any token"


def explain(constraint: Constraint, prefix: str | bytes = "") -> Explanation:
    """See :meth:`Constraint.explain`."""
    program = Program.of(constraint)
    data = prefix.encode(errors="surrogatepass") if isinstance(prefix, str) else prefix
    good = program.longest_prefix(data)
    valid = good == len(data) and program.core.is_live(program.start)
    text = data.decode(errors="replace")
    read = data[:good]
    if not valid:  # back to a whole character
        while good > 0 and good < len(data) and data[good] & 0xC0 == 0x80:
            good -= 1
        read = data[:good]
    state = program.read(program.start, read)
    core = program.core
    first = core.first_bytes(state) if state else b""
    symbols = core.first_symbols(state) if state else []
    accepting = bool(state) and core.is_nullable(state)
    expected = (words_after(core, state) if state else ()) + tuple(map(symbol_words, symbols))
    examples: list[str] = []
    if valid:
        for byte in _spread(first, _EXAMPLES):
            rest = core.shortest(core.derivative(state, bytes([byte])), _LONGEST_EXAMPLE)
            if rest is not None:
                example = (read + bytes([byte]) + rest).decode(errors="replace")
                if example not in examples:
                    examples.append(example)
    return Explanation(
        prefix=text,
        valid=valid,
        failed_at=None if valid else len(data[:good].decode(errors="replace")),
        accepting=accepting,
        complete=accepting and not first and not symbols,
        expected=expected,
        forced=core.forced_bytes(state, 4096).decode(errors="ignore") if valid and state else "",
        examples=tuple(examples),
        hint="" if valid else _hint(constraint, data, good),
    )


_ASCII_ONLY = (
    r"\d, \w, \s, \b and the case of letters are those of ASCII; with Unicode's (flags='u', or (?u) in front of the "
    "pattern) this character is allowed"
)


def _hint(constraint: Constraint, data: bytes, good: int) -> str:
    """Whether the character after ``good`` bytes fails only because patterns are read in ASCII."""
    if good == len(data) or data[good] < 0xC0:
        return ""
    try:
        with nested("the constraint"):
            other = constraint._in_unicode()
        if other is constraint or Program.of(other).longest_prefix(data) == good:
            return ""
    except GuiderailError:  # too large to be read a second time
        return ""
    return _ASCII_ONLY


def _spread(values: bytes, count: int) -> list[int]:
    """Some of the values, from the whole range, letters and digits first."""
    plain = [v for v in values if chr(v).isalnum() and v < 128]
    other = [v for v in values if v not in plain]
    picked: list[int] = []
    for group in (plain, other):
        room = count - len(picked)
        if room > 0 and group:
            step = max(1, len(group) // room)
            picked += group[::step][:room]
    return picked


_GROUPS = (
    ("a digit (0-9)", frozenset(b"0123456789")),
    ("a lower-case letter (a-z)", frozenset(range(ord("a"), ord("z") + 1))),
    ("an upper-case letter (A-Z)", frozenset(range(ord("A"), ord("Z") + 1))),
    ("whitespace", frozenset(b" \t\n\r")),
)
_NAMES = {0x20: "a space", 0x09: "a tab", 0x0A: "a line break", 0x0D: "a carriage return"}


def words_after(core: _core.Program, state: int) -> tuple[str, ...]:
    """What may follow a state, in words; a few characters beyond ASCII by name."""
    first = core.first_bytes(state)
    return words_of(first, _few_characters(core, state, first))


def _few_characters(core: _core.Program, state: int, first: bytes) -> str:
    """The characters beyond ASCII that may follow a state; none if there are many."""
    begun = [(bytes([lead]), core.derivative(state, bytes([lead]))) for lead in first if lead >= 0xC0]
    while begun and len(begun) <= _MOST_CHARACTERS:
        if all(_is_whole(text) for text, _ in begun):
            return b"".join(sorted(text for text, _ in begun)).decode(errors="ignore")
        begun = [
            (text + bytes([byte]), core.derivative(at, bytes([byte])))
            for text, at in begun
            for byte in (core.first_bytes(at) if not _is_whole(text) else b"")
        ] + [(text, at) for text, at in begun if _is_whole(text)]
    return ""


def _is_whole(text: bytes) -> bool:
    """Whether a character that begins with the first of some bytes ends with the last."""
    return len(text) >= (2 if text[0] < 0xE0 else 3 if text[0] < 0xF0 else 4)


def words_of(values: bytes, characters: str = "") -> tuple[str, ...]:
    """A set of bytes that may come next, in words: ``("a digit (0-9)", "one of '+', '-'")``.

    Args:
        values: the bytes.
        characters: if they are known: all characters that the bytes beyond ASCII may begin.
    """
    left = set(values)
    ascii_left = {v for v in left if v < 128}
    if len(ascii_left) == 128 and left - ascii_left:
        return ("any character",)
    words = []
    if len(ascii_left) > 100:
        missing = [v for v in range(128) if v not in ascii_left]
        shown = ", ".join(_NAMES.get(v) or repr(chr(v)) for v in missing[:12])
        more = " …" if len(missing) > 12 else ""
        beyond = "" if left - ascii_left else ", within ASCII"
        return (f"any character but {shown}{more}{beyond}",)
    for name, group in _GROUPS:
        if group <= left:
            words.append(name)
            left -= group
    runs: list[tuple[int, int]] = []
    for value in sorted(v for v in left if v < 128):
        if runs and runs[-1][1] == value - 1:
            runs[-1] = (runs[-1][0], value)
        else:
            runs.append((value, value))
    single = []
    for low, high in runs:
        if high - low >= 3 and chr(low).isalnum() and chr(high).isalnum():
            words.append(f"one of {chr(low)}-{chr(high)}")
        else:
            single += [_NAMES.get(v) or repr(chr(v)) for v in range(low, high + 1)]
    single += map(repr, characters)
    if single:
        words.append(single[0] if len(single) == 1 else "one of " + ", ".join(single))
    beyond_ascii = [v for v in left if v >= 128]
    if beyond_ascii and not characters:
        leads = [v for v in beyond_ascii if v >= 0xC0]
        words.append("some character beyond ASCII" if leads else "the rest of a character")
    return tuple(words)
