"""Patterns of pydantic's default engine (the ``regex`` crate of Rust), as patterns of JSON Schema.

What the two would silently read differently is rewritten or rejected: ``.`` is anything except a line feed; ``\\w``,
``\\d`` and ``\\s`` are properties of Unicode (UTS 18, annex C), of which only the ASCII characters are written; any
punctuation may be escaped. ECMA-262 has no form for inline flags: such a pattern becomes a constraint by way of
Python's dialect.
"""

from __future__ import annotations

import re

from guiderail.constraints.constraint import Constraint
from guiderail.errors import PatternError
from guiderail.frontends.regex import regex

__all__ = ["ASCII", "SETTLED", "rust_pattern"]

# The ASCII part, which is written.
_SETS = {"w": "0-9A-Z_a-z", "d": "0-9", "s": r"\t-\r\x20"}
# For complements: all characters that either side may include.
_WIDE = {
    "w": r"\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}",
    "d": r"\p{Nd}",
    "s": r"\p{White_Space}",
}
# Assigned long ago: every version of Unicode gives these characters the same properties.
SETTLED = (
    r"^[\u0000-\u0294\u0296-\u0377\u0388-\u038a\u038e-\u03a1\u03a3-\u052f\u0531-\u0556\u0561-\u0587\u05d0-\u05ea\u0620-\u06ff\u0904-\u0939"
    r"\u0966-\u096f\u0e01-\u0e3a\u0e3f-\u0e5b\u1e00-\u1f15\u2000-\u2063\u20a0-\u20bd\u2100-\u218b\u2190-\u23fa"
    r"\u2500-\u2b73\u3001-\u303f\u3041-\u3096\u3099-\u30ff\u3400-\u4db5\u4e00-\u9fcb\uac00-\ud7a3\uff01-\uff5e"
    r"\u{1f300}-\u{1f64f}]*$"
)
_PIECE = re.compile(r"\\[pPxuU]\{[^}]*\}|\\[pP].|\\.|\[\^?\]?|\(\?P?<(?![=!])|\(\?[:=!<][=!]?|\(\?|.", re.DOTALL)
_FLAGS = re.compile(r"\(\?([a-zA-Z]*)(-[a-zA-Z]+)?[:)]")
_SYNTAX = frozenset("^$\\.*+?()[]{}|/")
_NO_TURKISH_I = "^[^\\u0130\\u0131]*$"  # Python folds these two to i, Unicode's simple folding does not
ASCII = "^[\\u0000-\\u007f]*$"


def rust_pattern(pattern: str) -> tuple[str | Constraint, ...]:
    """What ``pattern`` finds somewhere in a string, as the ``regex`` crate reads it; possibly fewer strings.

    Returns:
        Patterns of ECMA-262 (searches) and constraints; a string must be in all of them.

    Raises:
        PatternError: the pattern is malformed, or uses syntax of that crate that has no counterpart here.
    """
    flags = [match for match in _FLAGS.finditer(pattern) if match[1] or match[2]]
    for match in flags:
        if set(match[1] + (match[2] or "")) - set("-ims"):
            raise _refused(pattern, match.start(), match[0])
    python = bool(flags)  # ECMA-262 has no inline flags
    end = "$" if not python else r"\Z"
    multi_line = any("m" in match[1] for match in flags)
    out: list[str] = []
    inside, negated, boundary, property = False, False, False, False
    for match in _PIECE.finditer(pattern):
        piece, position = match[0], match.start()
        if piece in (r"\A", r"\z") and not inside:
            out.append(end if piece == r"\z" else r"\A" if python else "^")
        elif piece[0] == "\\":
            out.append(_escape(pattern, position, piece, inside, negated, python))
            boundary |= piece in (r"\b", r"\B")
            property |= piece[1] in "pP"
        elif inside:
            _check_class(pattern, position, piece)
            inside = piece != "]"
            out.append(piece)
        elif piece[0] == "[":
            inside, negated = True, piece.startswith("[^")
            out.append(piece.replace("]", r"\]"))
        elif piece == "$":
            out.append("$" if multi_line else end)
        elif piece == "." and not python:
            out.append(r"[^\n]")
        elif piece in ("(?P<", "(?<"):
            out.append("(?P<" if python else "(?<")
        elif piece in ("(?=", "(?!", "(?<=", "(?<!") or (piece == "(?" and not python):
            raise _refused(pattern, position, piece)
        elif piece in ("{", "}") and not _counts(pattern, position, piece):
            out.append("\\" + piece)
        else:
            out.append(piece)
    made = "".join(out)
    if python:
        unicode = regex(made, flags="u", mode="search")
        texts: tuple[str | Constraint, ...] = (unicode,)
        if any("i" in match[1] for match in flags):
            texts = (unicode, regex(made, mode="search"), _NO_TURKISH_I)
    else:
        texts = (made,)
        regex(made, dialect="ecma", flags="u")  # raises for a bad pattern now, not at compilation
    if property:
        texts = (*texts, SETTLED)
    return (*texts, ASCII) if boundary else texts  # word characters differ beyond ASCII


def _counts(pattern: str, position: int, piece: str) -> bool:
    """Whether a brace begins ``{2}``, ``{2,}`` or ``{2,3}``."""
    start = position if piece == "{" else pattern.rfind("{", 0, position)
    return start >= 0 and re.compile(r"\{\d+(?:,\d*)?\}").match(pattern, start) is not None


def _escape(pattern: str, position: int, piece: str, inside: bool, negated: bool, python: bool) -> str:
    letter = piece[1:]
    if letter in _SETS:
        if not inside:
            return f"[{_SETS[letter]}]"
        return _WIDE[letter] if negated else _SETS[letter]
    if letter.lower() in _SETS:
        if inside:
            raise _refused(pattern, position, f"{piece} inside a class")
        return f"[^{_WIDE[letter.lower()]}]"
    if letter[0] in "pP":
        return piece if len(letter) > 1 and letter[1] == "{" else rf"\{letter[0]}{{{letter[1:]}}}"
    if letter in ("b", "B") and not inside:
        return piece
    if letter in ("n", "r", "t", "f", "v"):
        return piece
    if letter == "a":
        return r"\x07"
    if letter in ("x", "u") and pattern[position + 2 : position + 3] != "{":
        return piece
    if letter[0] in "xuU" and letter.endswith("}"):
        return f"\\u{letter[1:]}" if not python else f"\\U{int(letter[2:-1], 16):08x}"
    if letter.isalnum() or letter in ("<", ">"):
        raise _refused(pattern, position, piece)
    return piece if letter in _SYNTAX or (inside and letter == "-") else f"\\x{ord(letter):02x}"


def _check_class(pattern: str, position: int, piece: str) -> None:
    if piece[0] == "[" or (piece in "&~-" and pattern[position : position + 2] == piece * 2):
        raise _refused(pattern, position, "a class inside a class, or an operation on classes,")


def _refused(pattern: str, position: int, what: str) -> PatternError:
    return PatternError(
        f"{what} of Rust's regular expressions is not supported; write it another way, or set "
        "regex_engine='python-re' in the model's config",
        code="type-pattern",
        source=pattern,
        span=(position, position + 1),
    )
