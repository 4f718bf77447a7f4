"""What the two dialects share: one pass over the pattern with an explicit stack of open groups.

The dialects differ in their escapes, classes, quantifiers and group openers, which are methods of the
subclasses (``python_dialect``, ``ecma_dialect``). Nothing here recurs, however deep the pattern nests.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, NoReturn

from guiderail._core import CharSet
from guiderail.errors import LimitError, PatternError
from guiderail.frontends.regex import charsets
from guiderail.frontends.regex.syntax import Alt, Atomic, Cat, Lit, Look, Node, Reference, Rep, Set
from guiderail.support.places import in_text
from guiderail.support.work import spend

__all__ = ["ASCII", "DOTALL", "IGNORECASE", "MULTILINE", "UNICODE", "VERBOSE", "Parsed", "Parser"]

IGNORECASE, MULTILINE, DOTALL, VERBOSE, ASCII, UNICODE = 1, 2, 4, 8, 16, 32

# The kind of the last item of a sequence, for the quantifier that may follow it.
NOTHING, ANCHOR, REPEATED, ATOM, TEXT = range(5)

_CHARACTER: Final = 3  # steps that reading a character takes
_ITEM: Final = 12  # and an item: a run of characters, a class, a quantifier, a bracket

_BRACES: Final = re.compile(r"\{([0-9]*)(?:(,)([0-9]*))?\}")
_MAX_REPEAT: Final = 2**31 - 1
# A class that all dialects read in the same way: ASCII, without escapes. And its items.
_PLAIN_CLASS: Final = re.compile(r"\[(\^?)((?:[ -,.-Z_-~](?:-[ -,.-Z_-~])?){1,30}-?)\]").match
_PLAIN_ITEMS: Final = re.compile(r"(.)-(.)|(.)").findall
_PROPERTY: Final = re.compile(r"\{(\^?)([\w &-]+)(?:[=:]([\w &-]+))?\}")
_POSIX: Final = {"Alnum": "[0-9A-Za-z]", "Blank": r"[ \t]", "Graph": "[!-~]", "Print": "[ -~]", "XDigit": "[0-9A-Fa-f]"}


@lru_cache(maxsize=1024)
def _plain_set(items: str) -> CharSet | None:
    """The characters of a plain class; None if a range is invalid."""
    ranges = [(low or alone, high or alone) for low, high, alone in _PLAIN_ITEMS(items)]
    if any(low > high for low, high in ranges):
        return None
    return CharSet([(ord(low), ord(high)) for low, high in ranges])


class Parsed:
    """A tree with properties that the lowering needs."""

    __slots__ = ("assertions", "atomics", "in_order", "recalled", "tree")

    def __init__(
        self,
        tree: Node,
        assertions: int,
        atomics: int,
        in_order: bool = True,
        recalled: tuple[int, int] | None = None,
    ) -> None:
        self.tree = tree
        self.assertions = assertions  # anchors, boundaries and look-arounds
        self.atomics = atomics  # atomic groups and possessive quantifiers
        self.in_order = in_order  # its alternatives come in the order of the pattern
        self.recalled = recalled  # the span of a backreference to a group of many texts


class Parser:
    """Parses ``pattern``; ``flags`` are the bits above.

    Raises:
        PatternError: the pattern is malformed, or needs more than an automaton.
        LimitError: groups nest deeper than ``max_nesting``, or reading the pattern takes too many steps.
    """

    sets = False  # whether classes may hold classes

    def __init__(
        self,
        pattern: str,
        flags: int,
        max_nesting: int,
        plain: Callable[[str, int], re.Match[str] | None],  # finds a run of plain characters
        plain_verbose: Callable[[str, int], re.Match[str] | None],  # the same with the flag VERBOSE
    ) -> None:
        self.plain = plain
        self.plain_verbose = plain_verbose
        self.pattern = pattern
        self.flags = flags
        self.max_nesting = max_nesting
        self.assertions = 0
        self.atomics = 0
        self.names: dict[str, int] = {}  # numbers of named groups
        self.groups = 0
        self.numbers: dict[int, int] = {}  # of groups, by where they begin
        self.contents: dict[int, Node] = {}  # of groups that have ended
        self.references: list[Reference] = []
        self.alts: list[Node] = []
        self.items: list[Node] = []
        self.last = NOTHING
        self.at = 0  # where the item begins that is being read
        self.start = 0  # of the open alternative
        self.grouped: tuple[Node, int] | None = None  # the last group's contents, and where the group begins
        # open groups: (alternatives, items, start of alternative, start of group, kind, name, flags outside)
        self.stack: list[tuple[list[Node], list[Node], int, int, str, str, int]] = []

    # -- dialects
    def escape(self, i: int) -> int:
        """Reads the escape at ``i``, adds its meaning, and returns where it ends."""
        raise NotImplementedError

    def char_class(self, i: int) -> int:
        """Reads the class that opens at ``i``."""
        raise NotImplementedError

    def open_extension(self, i: int) -> int:
        """Reads the opener at ``i`` of a group that only this dialect has; it begins with ``(?``."""
        raise NotImplementedError

    def braces(self, i: int) -> tuple[int, int, int] | None:
        """Reads a counted quantifier at ``i``: (min, max, end), or None if the brace is literal."""
        raise NotImplementedError

    def anchor(self, i: int) -> None:
        """Adds what ``^`` or ``$`` at ``i`` means."""
        raise NotImplementedError

    def dot(self) -> CharSet:
        raise NotImplementedError

    @property
    def fold_mode(self) -> str:
        """How case is ignored here, in the terms of :func:`charsets.letter_fold`."""
        raise NotImplementedError

    # -- the loop
    def parse(self) -> Parsed:
        try:
            self.read()
            if self.stack:
                start = self.stack[-1][3]
                self.fail("unterminated-group", "this group is never closed; add ')'", start, start + 1)
            tree = self.alternation(len(self.pattern), 0)
            if self.references:
                from guiderail.frontends.regex.backreferences import written_out

                tree, assertions, in_order, recalled = written_out(tree, self)
                return Parsed(tree, assertions, self.atomics, in_order, recalled)
        except LimitError as error:
            raise in_text(error, self.pattern, (self.at, self.at + 1)) from None
        return Parsed(tree, self.assertions, self.atomics)

    def read(self) -> None:
        """Reads the whole pattern, item by item."""
        pattern, n, i = self.pattern, len(self.pattern), 0
        plain, plain_verbose = self.plain, self.plain_verbose
        spend(_CHARACTER * n)
        while i < n:
            self.at = i
            spend(_ITEM)
            match = (plain_verbose if self.flags & VERBOSE else plain)(pattern, i)
            if match is not None:
                self.text(match[0], i, match.end())
                i = match.end()
                continue
            c = pattern[i]
            if c == "\\":
                if i + 1 == n:
                    self.fail("bad-escape", "the pattern ends in a lone backslash; double it to match one", i, n)
                i = self.escape(i)
            elif c == "[":
                i = self.any_class(i)
            elif c == "(":
                i = self.open_group(i)
            elif c == ")":
                i = self.close_group(i)
            elif c in "*+?{":
                i = self.quantifier(i, c)
            elif c == ".":
                self.atom(Set(self.dot(), i, i + 1))
                i += 1
            elif c == "|":
                self.alts.append(self.sequence(i))
                self.items, self.last, self.start = [], NOTHING, i + 1
                i += 1
            elif c == "^" or c == "$":
                self.anchor(i)
                i += 1
            else:
                i = self.other(i, c)

    def other(self, i: int, c: str) -> int:
        """Whitespace and comments of verbose mode; an escaped newline does not end a comment."""
        if c != "#":
            return i + 1
        while i < len(self.pattern) and self.pattern[i] != "\n":
            i += 2 if self.pattern[i] == "\\" else 1
        if i > len(self.pattern):
            self.fail("bad-escape", "the pattern ends in a lone backslash; remove it", i - 2, i - 1)
        return i

    def any_class(self, i: int) -> int:
        """Reads the class that opens at ``i``. Frequent classes are read only once."""
        match = None if self.sets else _PLAIN_CLASS(self.pattern, i)
        chars = None if match is None else _plain_set(match[2])
        if match is None or chars is None:
            return self.char_class(i)
        chars = self.fold(chars, chars)
        self.atom(Set(~chars if match[1] else chars, i, match.end()))
        return match.end()

    def sequence(self, end: int) -> Node:
        items = self.items
        if len(items) == 1:
            return items[0]
        return Cat(items, self.start, end) if items else Lit("", self.start, end)

    def alternation(self, end: int, start: int) -> Node:
        if not self.alts:
            return self.sequence(end)
        self.alts.append(self.sequence(end))
        return Alt(self.alts, start, end)

    # -- adding to the open sequence
    def atom(self, node: Node) -> None:
        self.items.append(node)
        self.last = ATOM

    def assertion(self, node: Node) -> None:
        self.items.append(node)
        self.last = ANCHOR
        self.assertions += 1

    def text(self, text: str, start: int, end: int) -> None:
        if not text.isascii():
            self.refuse_surrogates(text, start, end)
        if self.flags & IGNORECASE:
            self.folded_text(text, start, end)
            return
        if self.last == TEXT:
            item = self.items[-1]
            if isinstance(item, Lit):
                item.append(text, end)
                return
        self.items.append(Lit(text, start, end))
        self.last = TEXT

    def folded_text(self, text: str, start: int, end: int) -> None:
        mode = self.fold_mode
        spend(_ITEM * len(text))
        for k, char in enumerate(text):
            span = (start + k, start + k + 1) if len(text) == end - start else (start, end)
            folded = charsets.letter_fold(char, mode)
            item = self.items[-1] if self.last == TEXT else None
            if folded is not None:
                self.items.append(Set(folded, *span))
            elif isinstance(item, Lit):
                item.append(char, span[1])
            else:
                self.items.append(Lit(char, *span))
            self.last = TEXT

    def refuse_surrogates(self, text: str, start: int, end: int) -> None:
        for k, char in enumerate(text):
            if 0xD800 <= ord(char) <= 0xDFFF:
                where = (start + k, start + k + 1) if len(text) == end - start else (start, end)
                self.fail_code(
                    "lone-surrogate",
                    f"a lone surrogate U+{ord(char):04X} is not a character and can never be matched; remove it",
                    *where,
                )

    def reference(self, group: int | None, start: int, end: int, *, unset_matches: bool) -> int:
        """Adds a backreference. ``unset_matches``: a group that matched nothing stands for the empty text."""
        if group is None or group not in self.contents:
            self.refuse_backreference(start, end, "no group of this number or name ends before it")
        flags = self.flags
        node = Reference(group, lambda text: self.literal(text, flags, start, end), unset_matches, start, end)
        self.references.append(node)
        self.atom(node)
        return end

    def literal(self, text: str, flags: int, start: int, end: int) -> Node:
        """The text as if it stood in the pattern, under some flags."""
        outside = self.items, self.last, self.flags
        self.items, self.last, self.flags = [], NOTHING, flags
        if text:
            self.text(text, start, end)
        items = self.items
        self.items, self.last, self.flags = outside
        return items[0] if len(items) == 1 else Cat(items, start, end) if items else Lit("", start, end)

    # -- quantifiers
    def quantifier(self, i: int, c: str) -> int:
        if c == "*":
            low, high, end = 0, -1, i + 1
        elif c == "+":
            low, high, end = 1, -1, i + 1
        elif c == "?":
            low, high, end = 0, 1, i + 1
        else:
            counted = self.braces(i)
            if counted is None:
                self.text("{", i, i + 1)
                return i + 1
            low, high, end = counted
        if self.last == NOTHING or self.last == ANCHOR:
            what = "an anchor cannot be repeated" if self.last == ANCHOR else "there is nothing to repeat"
            self.fail("nothing-to-repeat", f"{what} before this quantifier; escape it to match it literally", i, end)
        if self.last == REPEATED:
            self.fail(
                "multiple-repeat",
                "a quantifier follows a quantifier; put the first repetition in a group (?:…)",
                i,
                end,
            )
        mode = "greedy"
        follow = self.pattern[end : end + 1]
        if follow == "?":
            mode, end = "lazy", end + 1
        elif follow == "+" and self.possessive_allowed():
            mode, end = "possessive", end + 1
            self.atomics += 1
        item = self.items[-1]
        if self.last == TEXT and isinstance(item, Lit) and len(item.text) > 1:
            self.items[-1] = Lit(item.text[:-1], item.start, item.end - 1)
            item = Lit(item.text[-1], item.end - 1, item.end)
            self.items.append(item)
        start = self.grouped[1] if self.grouped is not None and self.grouped[0] is item else item.start
        self.items[-1] = Rep(item, low, high, mode, start, end)
        self.last = REPEATED
        return end

    def possessive_allowed(self) -> bool:
        return True

    def bounds(self, match: re.Match[str]) -> tuple[int, int, int]:
        """The numbers of a counted quantifier."""
        low_text, comma, high_text = match.groups()
        start, end = match.span()
        if len(low_text) > 10 or len(high_text or "") > 10:
            self.fail("repeat-too-large", f"a repeat count may be at most {_MAX_REPEAT}; use + or *", start, end)
        low = int(low_text or 0)
        high = (int(high_text) if high_text else -1) if comma else low
        if max(low, high) > _MAX_REPEAT:
            self.fail("repeat-too-large", f"a repeat count may be at most {_MAX_REPEAT}; use + or *", start, end)
        if 0 <= high < low:
            self.fail("bad-quantifier", f"the maximum ({high}) is below the minimum ({low}); swap them", start, end)
        return low, high, end

    # -- groups
    def open_group(self, i: int) -> int:
        """Reads the opener at ``i``."""
        pattern = self.pattern
        if not pattern.startswith("?", i + 1):
            return self.push_group(i, "", i + 1)
        c, sign = pattern[i + 2 : i + 3], pattern[i + 3 : i + 4]
        if c == ":":
            return self.push(i, "group", "", i + 3, self.flags)
        if c in ("=", "!"):
            return self.push(i, "look", c, i + 3, self.flags)
        if c == "<" and sign in ("=", "!"):
            return self.push(i, "look", "<" + sign, i + 4, self.flags)
        return self.open_extension(i)

    def push_group(self, start: int, name: str, body: int) -> int:
        """Opens a group that has a number."""
        self.groups += 1
        self.numbers[start] = self.groups
        return self.push(start, "group", name, body, self.flags)

    def push(self, start: int, kind: str, name: str, body: int, flags: int) -> int:
        """Opens a group of ``kind`` whose contents begin at ``body`` and are read with ``flags``."""
        if len(self.stack) >= self.max_nesting:
            raise LimitError(
                f"groups nest deeper than {self.max_nesting}; flatten the pattern or raise max_nesting",
                code="regex-nesting",
                source=self.pattern,
                span=(start, body),
            )
        self.stack.append((self.alts, self.items, self.start, start, kind, name, self.flags))
        self.alts, self.items, self.last, self.start, self.flags = [], [], NOTHING, body, flags
        return body

    def close_group(self, i: int) -> int:
        if not self.stack:
            self.fail(
                "unbalanced-parenthesis",
                "this ')' closes no group; escape it to match it literally",
                i,
                i + 1,
            )
        body = self.alternation(i, self.stack[-1][3])
        contents = self.alts or [body]
        alts, items, self.start, start, kind, name, self.flags = self.stack.pop()
        self.alts, self.items = alts, items
        end = i + 1
        if kind == "group":
            self.atom(body)
            self.grouped = (body, start)
            if start in self.numbers:
                self.contents[self.numbers[start]] = body
        elif kind == "look":
            self.assertions += 1
            self.atom(Look(body, "<" in name, "!" in name, start, end))
        elif kind == "atomic":
            self.atomics += 1
            self.atom(Atomic(body, start, end))
        else:
            from guiderail.frontends.extensions import group_node

            self.atom(group_node(name, contents, self.pattern, (start, end)))
        self.after_group(kind, name)
        return end

    def after_group(self, kind: str, name: str) -> None:
        """Lets a dialect say that a group cannot be repeated."""

    def named(self, name: str, start: int, name_at: int, body: int) -> int:
        """Opens a named group, or an extension if the name is that of one."""
        from guiderail.frontends.extensions import GROUP_NAMES

        if name in GROUP_NAMES:
            return self.push(start, "extension", name, body, self.flags)
        if name in self.names:
            self.fail("duplicate-group", f"the group name {name!r} is taken; choose another", name_at, body - 1)
        self.names[name] = self.groups + 1
        return self.push_group(start, name, body)

    # -- pieces of escapes
    def property_escape(self, i: int) -> tuple[CharSet, int] | None:
        r"""Reads ``\p{…}``, ``\P{…}`` or ``\pL`` at ``i``; None if there is neither a brace nor a category letter."""
        negated = self.pattern[i + 1] == "P"
        match = _PROPERTY.match(self.pattern, i + 2)
        name: str
        value: str | None
        if match is not None:
            caret, name, value = match.groups()
            end = match.end()
            negated ^= bool(caret)
        elif self.pattern[i + 2 : i + 3] in ("L", "M", "N", "P", "S", "Z", "C"):
            name, value, end = self.pattern[i + 2], None, i + 3
        else:
            return None
        found = charsets.property_set(name, value)
        if found is None:
            known = (
                "known are general categories (L, Lu, Nd …), scripts (Script=Greek) and binary properties (Alphabetic, "
                "White_Space …)"
            )
            if value is None and name in _POSIX:
                known = f"write out what Java means by it, {_POSIX[name]}"
            shown = name + ("=" + value if value else "")
            self.fail("unknown-property", f"there is no Unicode property {shown!r}; {known}", i, end)
        if negated:
            spend(charsets.weight(found))
            found = self.complement(found)
        return found, end

    def complement(self, chars: CharSet) -> CharSet:
        r"""What ``\P{…}`` means if ``chars`` have the property."""
        return ~chars

    def fold(self, chars: CharSet, explicit: CharSet) -> CharSet:
        """A class as the current flags read it; ``explicit`` is its part of single characters and ranges."""
        if not self.flags & IGNORECASE:
            return chars
        mode = self.fold_mode
        if mode == "ascii":
            return charsets.fold_ascii(explicit) | chars
        if mode == "unicode":
            return charsets.fold_unicode(chars, explicit)
        return charsets.fold_ecma(chars, mode)

    # -- errors
    def fail(self, code: str, message: str, start: int, end: int) -> NoReturn:
        self.fail_code("regex-" + code, message, start, end)

    def fail_code(self, code: str, message: str, start: int, end: int) -> NoReturn:
        raise PatternError(message, code=code, source=self.pattern, span=(start, max(end, start + 1)))

    def refuse_backreference(self, start: int, end: int, why: str) -> NoReturn:
        self.fail(
            "backreference",
            f"this backreference cannot be followed: {why}; write out the possible texts, e.g. (?:'[^']*'|\"[^\"]*\")",
            start,
            end,
        )

    def refuse_recursion(self, start: int, end: int) -> NoReturn:
        self.fail("recursion", "a pattern cannot call itself or a group; write a grammar instead", start, end)

    def refuse_group(self, i: int, groups: str) -> NoReturn:
        """Rejects a group that begins with ``(?`` like none of the dialect's ``groups``."""
        c = self.pattern[i + 2 : i + 3]
        if c == "(":
            self.fail(
                "conditional",
                "a conditional group needs memory; write both cases as alternatives, (?:…A…|…B…)",
                i,
                i + 3,
            )
        if c in ("R", "&") or c.isdigit():
            self.refuse_recursion(i, i + 3)
        if not c:
            self.fail("unterminated-group", "the pattern ends inside a group", i, len(self.pattern))
        self.fail("unknown-extension", f"(?{c} means nothing; groups are {groups}", i, i + 3)


def match_of(pattern: str) -> Any:
    """The bound method ``match`` of a compiled helper pattern."""
    return re.compile(pattern).match
