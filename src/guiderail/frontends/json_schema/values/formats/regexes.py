r"""The format ``regex``: texts that are patterns of ECMA-262 with the flag ``u``.

Patterns nest, so no automaton matches them all. A grammar with rules could, but rules cannot be used in intersections
and complements, and a format may occur under ``not`` and with a ``maxLength``. So the narrow side is an expression:

* groups nest at most 8 deep;
* back-references are ``\1`` to ``\4``, each after that many groups outside other groups. Named groups are outside other
  groups, and after ``\k<name>`` follows no reference to an earlier name. If there are several, they have short names in
  the order of ``_NAMES``, and one more may have any name;
* bounds ``{m,n}`` and ranges ``a-z`` are in order, as far as few cases can express that: numbers of up to two digits
  (longer ones by their length), ASCII characters with common ranges, hexadecimal escapes of the same kind, common
  ranges of letters beyond ASCII;
* ``\p{…}`` has one of the common properties.

The grammar is deterministic by the next character and has no intersections: what depends on earlier groups is a chain
of states, one for each number of groups and each name.

The wide side leaves out only texts that begin with something that cannot begin a pattern.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass

from guiderail import _core
from guiderail._core import CharSet
from guiderail.constraints.constraint import Constraint
from guiderail.frontends.json_schema.values.formats._cached_regex import cached_regex

__all__ = ["ecma_pattern", "ecma_pattern_wide"]

_DEPTH = 8
_HEX = b"0123456789abcdefABCDEF"
_COUNTED = 4  # groups that a back-reference may count
_NAMES = [b"year", b"month", b"day", b"hour", b"minute", b"second", b"id", b"name", b"key", b"value", b"quote", b"tag",
          b"word", b"a", b"b", b"c", b"d", b"n", b"x", b"y", b"z"]  # fmt: skip
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
        return _Parts(b).pattern(self.depth)


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
        """Escapes of one character but ``\\0``, without the backslash; ``halves``: of a surrogate pair too."""
        b, one = self.b, self.hexadecimal
        first = _HEX if halves else bytes(c for c in _HEX if c not in b"dD")
        four = b.union([
            b.concat([b.byte_class(first), one, one, one]),
            b.concat([b.byte_class(b"dD"), b.byte_class(b"01234567"), one, one]),
        ])  # fmt: skip
        return b.union([
            b.byte_class(b"fnrtv^$\\.*+?()[]{}|/"),
            b.concat([self.text(b"c"), self.letter]),
            b.concat([self.text(b"x"), one, one]),
            b.concat([self.text(b"u"), b.union([four, self.braced()])]),
        ])  # fmt: skip

    # -- classes
    def escaped_ranges(self) -> list[int]:
        """``\\xHH-\\xHH`` and ``\\uHHHH-\\uHHHH`` in order: by the first digit that differs, or from …0 on."""
        b, one = self.b, self.hexadecimal
        digits = [b.byte_class(bytes({ord(f"{v:x}"), ord(f"{v:X}")})) for v in range(16)]
        above = [b.byte_class(bytes({ord(c) for w in range(v, 16) for c in f"{w:x}{w:X}"})) for v in range(1, 16)]
        to_x, to_u = self.text(b"-\\x"), self.text(b"-\\u")
        short = b.union([
            b.concat([digits[v], b.union([
                b.concat([one, to_x, above[v], one]) if v < 15 else b.EMPTY,
                b.concat([digits[0], to_x, digits[v], one]),
            ])])
            for v in range(16)
        ])  # fmt: skip
        low = b.byte_class(b"01234567")  # after d: no half of a pair
        three = b.concat([one, one, one])

        def beyond(v: int) -> int:
            """``\\uHHHH`` with a first digit greater than ``v``."""
            plain = bytes({ord(c) for w in range(v + 1, 16) if w != 13 for c in f"{w:x}{w:X}"})
            cases = [b.concat([b.byte_class(plain), three])]
            if v < 13:
                cases.append(b.concat([digits[13], low, one, one]))
            return b.concat([to_u, b.union(cases)])

        cases = [b.concat([digits[v], low if v == 13 else one, one, one, beyond(v)]) for v in range(1, 15)]
        under_1000 = [b.concat([three, beyond(0)])]
        under_1000 += [b.concat([digits[v], one, one, to_u, digits[0], above[v], one, one]) for v in range(15)]
        for v in (0, 1, 3, 4, 5, 6, 9, 14):  # the same first two digits: from …00, or by the third
            same = b.concat([to_u, digits[0], digits[v]])
            third = [b.concat([digits[0], digits[0], same, one, one])]
            third += [b.concat([digits[t], one, same, above[t], one]) for t in range(15)]
            under_1000.append(b.concat([digits[v], b.union(third)]))
        cases.append(b.concat([digits[0], b.union(under_1000)]))
        return [b.concat([self.text(b"\\x"), short]), b.concat([self.text(b"\\u"), b.union(cases)])]

    def ranges(self) -> tuple[int, int]:
        """Ranges in order: those that begin with a digit, and all others."""
        b, one = self.b, self.hexadecimal
        dash = self.text(b"-")
        far = b.concat([self.text(b"\\u"), b.union([  # 0080 and above, in four digits, but no half of a pair
            b.concat([self.text(b"00"), b.byte_class(b"89abcdefABCDEF"), one]),
            b.concat([self.text(b"0"), b.byte_class(_HEX[1:]), one, one]),
            b.concat([b.byte_class(bytes(c for c in _HEX[1:] if c not in b"dD")), one, one, one]),
            b.concat([b.byte_class(b"dD"), b.byte_class(b"01234567"), one, one]),
        ])])  # fmt: skip
        plain = _but("\\]-")

        def between(low: str, high: str) -> CharSet:
            return CharSet([(ord(low), ord(high))]) & plain

        def case(low: CharSet, high: CharSet) -> int:
            return b.concat([b.char_class(low), dash, b.union([b.char_class(high), far])])

        beyond = CharSet([(0x80, 0x10FFFF)])
        rows = [("0", "0", "0"), ("1", "1", "1"), ("2", "4", "5"), ("5", "8", "9"), ("9", "9", "A")]
        digits = b.union([case(between(low, high), between(least, "~") | beyond) for low, high, least in rows])
        rows = [(" ", " ", " "), ("!", "!", "!"), ("\"", "/", "0"), (":", "@", "A"), ("A", "A", "A"), ("B", "F", "G"),
                ("G", "M", "N"), ("N", "T", "U"), ("U", "`", "a"), ("a", "a", "a"), ("b", "f", "g"), ("g", "m", "n"),
                ("n", "t", "u"), ("u", "z", "{")]  # fmt: skip
        cases = [case(between(low, high), between(least, "~") | beyond) for low, high, least in rows]
        cases.append(case(between("{", "~"), beyond))
        for low_end, high_end in itertools.pairwise(_MIDDLES):
            high = b.char_class(CharSet([(high_end, 0x10FFFF)]))
            cases.append(b.concat([b.char_class(CharSet([(low_end, high_end - 1)])), dash, high]))
        return digits, b.union([*cases, *self.escaped_ranges()])

    def char_class(self) -> int:
        b = self.b
        backslash = self.text(b"\\")
        escape = b.concat([backslash, b.union([b.byte_class(b"b-"), self.sets(), self.characters(False)])])
        dash = b.repeat(self.text(b"-"), 0, 1)
        digit_ranges, other_ranges = self.ranges()
        digit = b.union([self.digit, b.concat([digit_ranges, dash])])
        other = b.union([b.char_class(_but("\\]-0123456789")), escape, b.concat([other_ranges, dash])])
        null = b.repeat(self.text(b"\\0"), 1)  # with no digit after it
        body = b.concat([b.repeat(b.union([digit, other, b.concat([null, other])]), 0), b.repeat(null, 0, 1)])
        negation = b.repeat(self.text(b"^"), 0, 1)
        return b.concat([self.text(b"["), negation, dash, body, dash, self.text(b"]")])

    # -- terms
    def quantifier(self) -> int:
        b = self.b
        digit, positive, comma = self.digit, self.positive, self.text(b",")
        number = b.repeat(digit, 1, 9)
        cases = [number, b.concat([number, comma])]
        digits = [bytes([c]) for c in b"0123456789"]
        units = [b.concat([self.text(d), comma]) for d in digits]
        for d in range(10):  # m,n with equally many digits: one; or two with different tens; or two with the same tens
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

    def pattern(self, depth: int) -> int:
        """A whole pattern, group by group at its outermost level."""
        b = self.b
        quantifier, close = self.quantifier(), self.text(b")")
        optional = b.repeat(quantifier, 0, 1)
        escape = b.concat([self.text(b"\\"), b.union([self.sets(), self.characters(True)])])
        single = b.union([b.char_class(_but("^$\\.*+?()[]{}|0123456789")), self.text(b"."), escape, self.char_class()])
        edges = b.union([b.byte_class(b"^$|"), self.text(b"\\b"), self.text(b"\\B")])
        simple = b.union([b.concat([single, optional]), edges])
        digit = b.concat([self.digit, optional])
        opening, naming, plain_group = self.text(b"("), self.text(b"(?<"), self.text(b"(?:")
        looking = b.choice([b"(?=", b"(?!", b"(?<=", b"(?<!"])

        def loop(terms: int, numbered: int) -> int:
            """Any number of terms; no digit follows ``\\0`` or a back-reference to one of the ``numbered`` groups."""
            names = b.byte_class(bytes(range(0x30, 0x31 + numbered)))
            references = b.repeat(b.concat([self.text(b"\\"), names]), 1)
            other = b.concat([references, b.union([terms, quantifier])])
            return b.concat([b.repeat(b.union([terms, digit, other]), 0), b.repeat(references, 0, 1)])

        inner: list[int] = []  # by the number of groups before: the contents of a group
        terms: list[int] = []  # the same at the outermost level, without groups that count
        for numbered in range(_COUNTED + 1):
            whole = outer = b.EMPTY
            for level in range(depth + 1):
                if level == depth:
                    inner.append(whole)
                around = b.concat([looking, whole, close])
                outer = b.union([simple, b.concat([plain_group, whole, close, optional]), around])
                whole = loop(b.union([outer, b.concat([opening, whole, close, optional])]), numbered)
            terms.append(outer)

        def group(start: int, numbered: int, rest: int) -> int:
            return b.concat([start, inner[numbered], close, optional, rest])

        # after named groups: unnamed ones need not be counted further
        free = b.union([terms[1], group(opening, 1, b.EPSILON)])
        final = loop(free, 1)
        following: list[int] = []
        for name in reversed(_NAMES):
            own = b.concat([self.text(b"\\k<" + name + b">"), optional])
            more = b.concat([naming, b.union(following)]) if following else b.EMPTY
            rest = b.concat([loop(b.union([free, own]), 1), b.repeat(more, 0, 1)])
            following.append(group(self.text(name + b">"), 1, rest))
        any_name = b.concat([self.name, self.text(b">")])
        whole = b.EMPTY
        for numbered in range(_COUNTED, -1, -1):
            named = b.concat([naming, b.union([*following, group(any_name, min(numbered, 1), final)])])
            if numbered == _COUNTED:
                chain = loop(b.union([terms[numbered], group(opening, numbered, b.EPSILON)]), numbered)
            else:
                chain, named = loop(terms[numbered], numbered), b.union([named, group(opening, numbered, whole)])
            whole = b.concat([chain, b.repeat(named, 0, 1)])
        return whole


def ecma_pattern() -> Constraint:
    """Patterns of ECMA-262 with the flag ``u``, within the bounds above."""
    return _Pattern()


def ecma_pattern_wide() -> Constraint:
    """All texts but those whose first character cannot begin a pattern."""
    return cached_regex(r"(?:[^)*+?{}\]][\s\S]*)?")
