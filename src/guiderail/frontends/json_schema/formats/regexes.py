r"""The format ``regex``: texts that are patterns of ECMA-262 with the flag ``u``.

Patterns nest, so no automaton knows them all. A grammar with rules would, but rules take no part in intersections and
complements, and a format may stand under ``not`` and beside a ``maxLength``. So the narrow side is an expression:

* groups nest at most 8 deep;
* back-references are ``\1`` to ``\9``, each behind so many unnamed groups, and ``\k<name>`` behind its group, for
  some short names; of named groups with another name there is at most one;
* bounds ``{m,n}`` and ranges ``a-z`` are in order, as far as that is a matter of a few cases: numbers of up to two
  digits (longer ones by their length), characters of ASCII, hexadecimal escapes of the same kind, the usual ranges of
  letters beyond ASCII;
* ``\p{…}`` has one of the usual properties.

What is conditional upon the rest of the pattern (a back-reference upon its group) is said about its tokens, which can
be told apart without knowing how they nest.

The wide side leaves out only what begins with something that cannot begin a pattern.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from guiderail import _core
from guiderail._core import CharSet
from guiderail.constraint import Constraint
from guiderail.frontends.json_schema.formats._made import made
from guiderail.frontends.regex.charsets import ANY

__all__ = ["ecma_pattern", "ecma_pattern_wide"]

_DEPTH = 8
_HEX = b"0123456789abcdefABCDEF"
_NAMES = [b"a", b"b", b"c", b"d", b"n", b"x", b"y", b"z", b"day", b"id", b"key", b"month", b"name", b"quote", b"tag",
          b"value", b"word", b"year"]  # fmt: skip
_PROPERTIES = re.findall(
    r"\S+",
    """
    L Lu Ll Lt LC Lm Lo M Mn Mc Me N Nd Nl No P Pc Pd Ps Pe Pi Pf Po S Sm Sc Sk So Z Zs Zl Zp C Cc Cf Cs Co Cn Letter
    Uppercase_Letter Lowercase_Letter Mark Number Decimal_Number Punctuation Symbol Separator Space_Separator Other
    gc=L gc=Lu gc=Ll gc=M gc=N gc=Nd gc=P gc=S gc=Z General_Category=Letter General_Category=Decimal_Number
    Script=Arabic Script=Armenian Script=Bengali Script=Cyrillic Script=Devanagari Script=Georgian Script=Greek
    Script=Han Script=Hangul Script=Hebrew Script=Hiragana Script=Katakana Script=Latin Script=Tamil Script=Thai
    sc=Arabic sc=Cyrillic sc=Devanagari sc=Greek sc=Han sc=Hangul sc=Hebrew sc=Hiragana sc=Katakana sc=Latin sc=Thai
    ASCII ASCII_Hex_Digit Alphabetic Any Assigned Emoji Emoji_Presentation Extended_Pictographic Hex_Digit ID_Continue
    ID_Start Ideographic Lowercase Math Uppercase White_Space XID_Continue XID_Start
    """,
)
# A range of characters beyond ASCII is in order if one of these lies between its ends.
_MIDDLES = [0x80, 0xE0, 0x100, 0x3C0, 0x400, 0x420, 0x440, 0x5D8, 0x630, 0x920, 0xE20, 0x3000, 0x3060, 0x30B0, 0x6000,
            0xB000, 0xE000, 0x10000]  # fmt: skip


def _but(chars: str) -> CharSet:
    return ~CharSet([(ord(c), ord(c)) for c in chars])


@dataclass(frozen=True, slots=True)
class _Pattern(Constraint):
    """Patterns with groups up to ``depth`` deep."""

    depth: int = _DEPTH

    def _lower(self, b: _core.Builder) -> int:
        parts = _Parts(b)
        return b.intersection([parts.disjunction(self.depth), *parts.conditions()])


class _Parts:
    """The productions of ECMA-262, section 22.2.1, in one builder."""

    def __init__(self, b: _core.Builder) -> None:
        self.b = b
        self.hexadecimal = b.byte_class(_HEX)
        self.digit = b.byte_class(b"0123456789")
        self.positive = b.byte_class(b"123456789")
        letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
        self.letter = b.byte_class(letters)
        self.name = b.concat([b.byte_class(letters + b"_$"), b.repeat(b.byte_class(letters + b"0123456789_$"), 0)])

    def text(self, data: bytes) -> int:
        return self.b.literal(data)

    # -- escapes
    def braced(self) -> int:
        """``{…}`` of ``\\u{…}``: up to 10FFFF."""
        b, one = self.b, self.hexadecimal
        number = b.union([b.repeat(one, 1, 5), b.concat([self.text(b"10"), b.repeat(one, 4, 4)])])
        return b.concat([self.text(b"{"), b.repeat(self.text(b"0"), 0, 2), number, self.text(b"}")])

    def sets(self) -> int:
        """``\\d``, ``\\p{…}`` …, without the backslash."""
        b = self.b
        properties = b.choice([name.encode() for name in _PROPERTIES])
        named = b.concat([b.byte_class(b"pP"), self.text(b"{"), properties, self.text(b"}")])
        return b.union([b.byte_class(b"dDsSwW"), named])

    def characters(self, halves: bool) -> int:
        """Escapes of one character, without the backslash; ``halves``: of a surrogate pair too."""
        b, one = self.b, self.hexadecimal
        first = _HEX if halves else bytes(c for c in _HEX if c not in b"dD")
        four = b.union([
            b.concat([b.byte_class(first), one, one, one]),
            b.concat([b.byte_class(b"dD"), b.byte_class(b"01234567"), one, one]),
        ])  # fmt: skip
        return b.union([
            b.byte_class(b"fnrtv0^$\\.*+?()[]{}|/"),
            b.concat([self.text(b"c"), self.letter]),
            b.concat([self.text(b"x"), one, one]),
            b.concat([self.text(b"u"), b.union([four, self.braced()])]),
        ])  # fmt: skip

    # -- classes
    def ordered(self, escape: bytes, width: int) -> int:
        """``\\uXXXX-\\uYYYY`` with XXXX at most YYYY: equal digits up to the first that differs."""
        b = self.b
        one = self.hexadecimal
        dash = self.text(b"-" + escape)
        digits = [b.byte_class(bytes({ord(f"{v:x}"), ord(f"{v:X}")})) for v in range(16)]
        upwards = [b.byte_class(bytes({ord(c) for w in range(v, 16) for c in f"{w:x}{w:X}"})) for v in range(16)]

        def related(at: int, pairs: list[tuple[int, int]]) -> int:
            between = [*([one] * (width - at - 1)), dash, *([one] * at)]
            cases = b.union([b.concat([low, *between, high]) for low, high in pairs])
            return b.concat([*([one] * at), cases, *([one] * (width - at - 1))])

        equal = [related(at, list(zip(digits, digits, strict=True))) for at in range(width - 1)]
        cases = []
        for at in range(width):
            pairs = list(
                zip(digits, upwards, strict=True) if at == width - 1 else zip(digits, upwards[1:], strict=False)
            )
            cases.append(b.intersection([*equal[:at], related(at, pairs)]))
        return b.concat([self.text(escape), b.union(cases)])

    def ranges(self) -> int:
        b = self.b
        dash = self.text(b"-")
        cases = [self.ordered(b"\\x", 2), self.ordered(b"\\u", 4)]
        for c in range(0x20, 0x7F):
            if c not in b"\\]-":
                high = [x for x in range(c, 0x7F) if x not in b"\\]-"]
                cases.append(b.concat([b.byte_class(bytes([c])), dash, b.byte_class(bytes(high))]))
        low = _but("\\]-")
        for middle in _MIDDLES:
            below, above = CharSet([(0, middle - 1)]) & low, CharSet([(middle, 0x10FFFF)])
            cases.append(b.concat([b.char_class(below), dash, b.char_class(above)]))
        printable = b.byte_class(bytes(c for c in range(0x20, 0x7F) if c not in b"\\]-"))
        one = self.hexadecimal
        beyond = b.union([  # 0080 and above, in four digits
            b.concat([self.text(b"00"), b.byte_class(b"89abcdefABCDEF"), one]),
            b.concat([self.text(b"0"), b.byte_class(_HEX[1:]), one, one]),
            b.concat([b.byte_class(_HEX[1:]), one, one, one]),
        ])  # fmt: skip
        cases.append(b.concat([printable, self.text(b"-\\u"), beyond]))
        # halves of surrogate pairs would join their neighbours
        half = b.concat([
            b.repeat(b.char_class(ANY), 0), self.text(b"\\u"), b.byte_class(b"dD"), b.byte_class(b"89abcdefABCDEF"),
            b.repeat(b.char_class(ANY), 0),
        ])  # fmt: skip
        return b.intersection([b.union(cases), b.complement(half)])

    def char_class(self) -> int:
        b = self.b
        backslash = self.text(b"\\")
        escape = b.concat([backslash, b.union([b.byte_class(b"b-"), self.sets(), self.characters(False)])])
        dash = b.repeat(self.text(b"-"), 0, 1)
        item = b.union([b.char_class(_but("\\]-")), escape, b.concat([self.ranges(), dash])])
        negation = b.repeat(self.text(b"^"), 0, 1)
        whole = b.concat([self.text(b"["), negation, dash, b.repeat(item, 0), dash, self.text(b"]")])
        octal = b.concat([self.text(b"\\0"), self.digit])
        any_text = b.repeat(b.char_class(ANY), 0)
        return b.intersection([whole, b.complement(b.concat([any_text, octal, any_text]))])

    # -- terms
    def quantifier(self) -> int:
        b = self.b
        digit, positive, comma = self.digit, self.positive, self.text(b",")
        number = b.repeat(digit, 1, 9)
        cases = [number, b.concat([number, comma])]
        digits = [bytes([c]) for c in b"0123456789"]
        units = [b.concat([self.text(d), comma]) for d in digits]
        for d in range(10):  # m,n with as many digits: one, or two with the tens apart, or two with the same tens
            upwards = b.byte_class(b"0123456789"[d:])
            cases.append(b.concat([units[d], upwards]))
            if d:  # the tens of a number of two digits
                tens = self.text(digits[d])
                if d < 9:
                    above = b.byte_class(b"0123456789"[d + 1 :])
                    cases.append(b.concat([tens, digit, comma, above, digit]))
                same = [b.concat([units[u], tens, b.byte_class(b"0123456789"[u:])]) for u in range(10)]
                cases.append(b.concat([tens, b.union(same)]))
        for length in range(1, 4):
            shorter = digit if length == 1 else b.concat([positive, b.repeat(digit, length - 1, length - 1)])
            cases.append(b.concat([shorter, comma, positive, b.repeat(digit, length, 5)]))
        braces = b.concat([self.text(b"{"), b.union(cases), self.text(b"}")])
        return b.concat([b.union([b.byte_class(b"*+?"), braces]), b.repeat(self.text(b"?"), 0, 1)])

    def disjunction(self, depth: int) -> int:
        b = self.b
        backreference = b.union([self.positive, b.concat([self.text(b"k<"), b.choice(_NAMES), self.text(b">")])])
        escape = b.concat([self.text(b"\\"), b.union([self.sets(), self.characters(True), backreference])])
        plain = b.union([b.char_class(_but("^$\\.*+?()[]{}|")), self.text(b"."), escape, self.char_class()])
        optional = b.repeat(self.quantifier(), 0, 1)
        edges = b.union([b.byte_class(b"^$|"), self.text(b"\\b"), self.text(b"\\B")])
        opening = b.union([
            self.text(b"("), self.text(b"(?:"), b.concat([self.text(b"(?<"), self.name, self.text(b">")])
        ])  # fmt: skip
        looking = b.choice([b"(?=", b"(?!", b"(?<=", b"(?<!"])
        close = self.text(b")")
        whole = b.repeat(b.union([b.concat([plain, optional]), edges]), 0)
        for _ in range(depth):
            groups = [b.concat([opening, whole, close, optional]), b.concat([looking, whole, close])]
            whole = b.repeat(b.union([b.concat([plain, optional]), edges, *groups]), 0)
        return whole

    # -- what one token asks of the others
    def conditions(self) -> list[int]:
        b = self.b
        any_char = b.char_class(ANY)
        any_text, escape = b.repeat(any_char, 0), b.concat([self.text(b"\\"), any_char])
        inside = b.repeat(b.union([b.char_class(_but("\\]")), escape]), 0)
        special = b.union([
            escape,
            b.concat([self.text(b"["), inside, self.text(b"]")]),
            b.choice([b"(?:", b"(?=", b"(?!", b"(?<=", b"(?<!"]),
            b.concat([self.text(b"(?<"), self.name, self.text(b">")]),
        ])  # fmt: skip
        tokens = b.repeat(b.union([special, b.char_class(_but("\\[("))]), 0)  # but "(" alone
        first = b.union([special, b.char_class(_but("\\[(?"))])
        capture = b.concat([self.text(b"("), b.repeat(b.concat([first, tokens]), 0, 1)])
        every = b.concat([tokens, b.repeat(capture, 0)])

        def never(*parts: int) -> int:
            """No text begins with these parts; a text that does is dead at once."""
            return b.complement(b.concat([*parts, any_text]))

        conditions = [never(every, self.text(b"\\"), self.digit, self.digit)]
        for n in range(1, 10):
            conditions.append(never(tokens, b.repeat(capture, 0, n - 1), self.text(b"\\%d" % n)))
        for name in _NAMES:
            group = self.text(b"(?<" + name + b">")
            without = b.intersection([every, never(every, group)])
            conditions.append(never(every, group, every, group))
            conditions.append(never(without, self.text(b"\\k<" + name + b">")))
        any_name = b.concat([self.text(b"(?<"), self.name, self.text(b">")])
        known = b.concat([self.text(b"(?<"), b.choice(_NAMES), self.text(b">")])
        other = b.intersection([any_name, b.complement(known)])
        conditions.append(never(every, other, every, other))
        return conditions


def ecma_pattern() -> Constraint:
    """Patterns of ECMA-262 with the flag ``u``, within the bounds above."""
    return _Pattern()


def ecma_pattern_wide() -> Constraint:
    """All texts but those whose first character cannot begin a pattern."""
    return made(r"(?:[^)*+?{}\]][\s\S]*)?")
