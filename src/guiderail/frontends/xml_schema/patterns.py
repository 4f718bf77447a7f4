r"""The regular expressions of XML Schema (part 2, appendix F): anchored, without assertions, with class subtraction.

``\i`` and ``\c`` are the name characters of XML 1.0; ``\p{IsBlock}`` are Unicode's blocks; ``^`` and ``$`` stand for
themselves.

Validators disagree on some characters: their Unicode version is older or newer, and some read ``\w`` as Python does. A
text must be valid for all of them, so a class is represented by two sets: what all validators accept, and what any
does.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from typing import NamedTuple, NoReturn

from guiderail._core import CharSet
from guiderail.errors import LimitError, PatternError
from guiderail.frontends.regex.charsets import ANY, NONE, property_set, word
from guiderail.frontends.regex.syntax import Alt, Cat, Lit, Node, Rep, Set
from guiderail.frontends.xml_schema.characters import SPACES, Writer, name_chars, name_starts
from guiderail.support.caches import cached, text_weight
from guiderail.support.work import spend

__all__ = ["emit", "parse"]

_MAX_NESTING = 200
_NODE = 25  # steps that a part of a pattern takes
_SINGLE = {"n": "\n", "r": "\r", "t": "\t"} | {c: c for c in r"\|.?*+(){}-[]^"}
_DOT = ANY - CharSet([(10, 10), (13, 13)])


@cached(4 << 20, text_weight)
def parse(pattern: str) -> Node:
    """The tree of a pattern.

    Raises:
        PatternError: ``xml-pattern``: it is malformed, or names an unknown property.
        LimitError: ``regex-nesting``: its groups nest too deep.
    """
    return _Parser(pattern).parse()


def emit(node: Node, writer: Writer) -> int:
    """The expression of the strings that a pattern matches as a whole."""
    spend(_NODE)
    if isinstance(node, Lit):
        return writer.literal(node.text.encode())
    if isinstance(node, Set):
        return writer.char_class(node.chars)
    if isinstance(node, Rep):
        return writer.repeat(emit(node.item, writer), node.min, node.max)
    assert isinstance(node, Cat | Alt)
    parts = [emit(item, writer) for item in node.items]
    return writer.concat(parts) if isinstance(node, Cat) else writer.union(parts)


class _Chars(NamedTuple):
    """A set of characters: all validators accept the first, and none accepts more than the second."""

    all: CharSet
    any: CharSet

    def negated(self) -> _Chars:
        return _Chars(~self.any, ~self.all)

    def with_(self, other: _Chars) -> _Chars:
        return _Chars(self.all | other.all, self.any | other.any)

    def without(self, other: _Chars) -> _Chars:
        return _Chars(self.all - other.any, self.any - other.all)

    def single(self) -> int | None:
        """The code point, if there is only one."""
        return self.all.ranges()[0][0] if len(self.any) == 1 == len(self.all) else None


def _exactly(chars: CharSet) -> _Chars:
    return _Chars(chars, chars)


def _one(char: str) -> _Chars:
    return _exactly(CharSet([(ord(char), ord(char))]))


class _Parser:
    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.depth = 0

    def fail(self, message: str, start: int, end: int) -> NoReturn:
        raise PatternError(message, code="xml-pattern", source=self.pattern, span=(start, end))

    def parse(self) -> Node:
        tree, i = self.alternatives(0)
        if i < len(self.pattern):
            self.fail("this parenthesis closes no group; escape it", i, i + 1)
        return tree

    def alternatives(self, i: int) -> tuple[Node, int]:
        start, branches = i, []
        while True:
            branch, i = self.branch(i)
            branches.append(branch)
            if not self.pattern.startswith("|", i):
                return (branches[0] if len(branches) == 1 else Alt(branches, start, i)), i
            i += 1

    def branch(self, i: int) -> tuple[Node, int]:
        start, items = i, list[Node]()
        while i < len(self.pattern) and self.pattern[i] not in "|)":
            atom, after = self.atom(i)
            atom, after = self.quantified(atom, i, after)
            items.append(atom)
            i = after
        return Cat(items, start, i), i

    def atom(self, i: int) -> tuple[Node, int]:
        c = self.pattern[i]
        if c == "(":
            self.depth += 1
            if self.depth > _MAX_NESTING:
                raise LimitError(
                    f"groups nest deeper than {_MAX_NESTING}; flatten the pattern",
                    code="regex-nesting",
                    source=self.pattern,
                    span=(i, i + 1),
                )
            inner, end = self.alternatives(i + 1)
            self.depth -= 1
            if end == len(self.pattern):
                self.fail("this group is never closed", i, i + 1)
            return inner, end + 1
        if c == "[":
            chars, end = self.char_class(i)
            return Set(chars.all, i, end), end
        if c == "\\":
            chars, end = self.escape(i)
            return Set(chars.all, i, end), end
        if c == ".":
            return Set(_DOT, i, i + 1), i + 1
        if c in "*+?{}]":
            self.fail(f"{c!r} stands for itself only as '\\{c}'", i, i + 1)
        return Lit(c, i, i + 1), i + 1

    def quantified(self, atom: Node, start: int, i: int) -> tuple[Node, int]:
        c = self.pattern[i : i + 1]
        if c and c in "*+?":
            low, high = {"*": (0, -1), "+": (1, -1), "?": (0, 1)}[c]
            return Rep(atom, low, high, "greedy", start, i + 1), i + 1
        if c != "{":
            return atom, i
        end = self.pattern.find("}", i)
        least, comma, most = self.pattern[i + 1 : end].partition(",")
        good = end > 0 and least.isdecimal() and least.isascii() and (not most or (most.isdecimal() and most.isascii()))
        if not good:
            self.fail("a quantifier is {n}, {n,} or {n,m}", i, max(end, i) + 1)
        low = int(least)
        high = low if not comma else int(most) if most else -1
        if -1 < high < low or max(low, high) >= 2**31:
            self.fail("the bounds of this quantifier are in the wrong order, or too large", i, end + 1)
        return Rep(atom, low, high, "greedy", start, end + 1), end + 1

    def escape(self, i: int) -> tuple[_Chars, int]:
        c = self.pattern[i + 1 : i + 2]
        if c in _SINGLE:
            return _one(_SINGLE[c]), i + 2
        if c in ("p", "P"):
            end = self.pattern.find("}", i)
            if not self.pattern.startswith("{", i + 2) or end < 0:
                self.fail("a property is \\p{…}", i, i + 2)
            found = _property(self.pattern[i + 3 : end])
            if found is None:
                self.fail(f"there is no property or block {self.pattern[i + 3 : end]!r}", i, end + 1)
            return (found if c == "p" else found.negated()), end + 1
        known = _multiple(c.lower()) if c else None
        if known is None:
            self.fail("this escape does not exist; see XML Schema, part 2, appendix F", i, i + 1 + len(c))
        return (known if c.islower() else known.negated()), i + 2

    def char_class(self, i: int) -> tuple[_Chars, int]:
        """Reads ``[…]`` at ``i``. A class may end in ``-[…]``, which is subtracted from it."""
        start, p = i, self.pattern
        i += 1
        negative = p.startswith("^", i)
        i += negative
        chars, first = _exactly(NONE), i
        while not p.startswith("]", i) or i == first:
            if i >= len(p):
                self.fail("this class is never closed", start, start + 1)
            if p[i] == "]":
                self.fail("a class cannot be empty; escape the bracket", start, i + 1)
            if p.startswith("-[", i) and i > first:
                taken, i = self.char_class(i + 1)
                if not p.startswith("]", i):
                    self.fail("a subtraction ends its class", i - 1, i)
                return (chars.negated() if negative else chars).without(taken), i + 1
            if p[i] == "[":
                self.fail("escape this bracket", i, i + 1)
            low, after = self.escape(i) if p[i] == "\\" else (_one(p[i]), i + 1)
            first_of = low.single()
            is_range = p.startswith("-", after) and p[after + 1 : after + 2] not in ("", "]", "-", "[")
            if is_range and first_of is not None:
                high, end = self.escape(after + 1) if p[after + 1] == "\\" else (_one(p[after + 1]), after + 2)
                last = high.single()
                if last is None or last < first_of:
                    self.fail("this range is reversed, or does not end in a single character", i, end)
                low, after = _exactly(CharSet([(first_of, last)])), end
            chars, i = chars.with_(low), after
        return (chars.negated() if negative else chars), i + 1


@lru_cache(maxsize=8)
def _multiple(letter: str) -> _Chars | None:
    if letter == "s":
        return _exactly(SPACES)
    if letter == "i":
        return _Chars(name_starts(), _FIFTH_EDITION | name_starts())
    if letter == "c":
        return _Chars(name_chars(), _FIFTH_EDITION | name_chars() | CharSet([(45, 46), (48, 57), (0xB7, 0xB7)]))
    if letter == "d":
        return _category("Nd")
    if letter == "w":  # all but P, Z and C; for some, letters, digits and the underscore
        found = {name: _category(name) or _exactly(NONE) for name in ("L", "N", "P", "Z", "Cc", "Cf")}
        outside = found["P"].all | found["Z"].all | found["Cc"].all | found["Cf"].all
        return _Chars((found["L"].all | found["N"].all) & word(), ~outside | word())
    return None


# NameStartChar and the rest of NameChar, without ASCII; validators that follow it take these too
_FIFTH_EDITION = CharSet([
    (0xC0, 0xD6), (0xD8, 0xF6), (0xF8, 0x37D), (0x37F, 0x1FFF), (0x200C, 0x200D), (0x203F, 0x2040), (0x2070, 0x218F),
    (0x2C00, 0x2FEF), (0x3001, 0xD7FF), (0xF900, 0xFDCF), (0xFDF0, 0xFFFD), (0x10000, 0xEFFFF),
])  # fmt: skip


@lru_cache(maxsize=64)
def _category(name: str) -> _Chars | None:
    """A general category, in Unicode 3.2 and in today's Unicode."""
    now = property_set(name)
    if now is None:
        return None
    old = unicodedata.ucd_3_2_0.category
    then = [(c, c) for low, high in now.ranges() for c in range(low, high + 1) if old(chr(c)).startswith(name)]
    return _Chars(CharSet(then), now)


@lru_cache(maxsize=128)
def _property(name: str) -> _Chars | None:
    if not name.startswith("Is"):
        return _category(name) if name and len(name) <= 2 and name[0] in "LMNPZSC" else None
    from elementpath.regex import RegexError  # comes with xmlschema
    from elementpath.regex.unicode_subsets import unicode_subset

    try:
        block = unicode_subset(name)
    except RegexError:
        return None
    return _exactly(CharSet([(c, c) if isinstance(c, int) else (c[0], c[1] - 1) for c in block.codepoints]))
