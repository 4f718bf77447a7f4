"""Expands parametric rules of llguidance's Lark: ``name::_ : "a" name::set_bit(0) %if bit_clear(0)``.

A parameter is a number of 64 bits. Each rule is written once for every value with which it can be reached from rules
without parameter, so the result is an ordinary grammar.
"""

from __future__ import annotations

import operator
import re
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, NoReturn

from guiderail.errors import LimitError, PatternError
from guiderail.frontends.grammar.lark.tokens import Statement, Token, statements, tokens
from guiderail.support.work import spend

__all__ = ["WrittenOut", "write_out"]

_ALL = 2**64 - 1
_MOST = 20_000  # rules that are written out …
_LONGEST = 20_000_000  # … and characters
_DEEPEST = 50  # depth of nested conditions
_PIECE = 20  # steps of a piece of the new text
_TEST = 4  # and of a test in a condition
_NOTHING = r"/[^\s\S]/"  # the body of a rule without alternatives
_NO_ATTRIBUTES = ("stop", "suffix", "lazy", "temperature", "max_tokens", "max_chars")
_WORD = re.compile(r"[ \t\r\f\n]*(0x[0-9a-fA-F]+|[0-9]+|[a-z_]+|.|$)", re.DOTALL)

Value = Callable[[int], int]
Condition = Callable[[int], bool]

_COMPARED: dict[str, Callable[[int, int], bool]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip


class _Reference(NamedTuple):
    """``name::value`` in a body."""

    rule: str
    value: Value
    own: bool  # whether the value is made from the parameter of the rule around it
    start: int
    end: int


@dataclass(slots=True)
class _Alternative:
    start: int
    end: int
    references: list[_Reference] = field(default_factory=list)
    condition: Condition | None = None
    tests: int = 0  # in the condition


@dataclass(slots=True)
class WrittenOut:
    """A grammar without parametric rules.

    Attributes:
        text: the grammar.
    """

    text: str = ""
    starts: list[int] = field(default_factory=list)  # of stretches of the new text …
    places: list[tuple[int, bool]] = field(default_factory=list)  # … where they are from, and whether they are copies

    def place(self, offset: int) -> int:
        """The position in the source of an offset in the new text."""
        i = max(bisect_right(self.starts, offset) - 1, 0)
        if not self.starts:
            return offset
        at, copied = self.places[i]
        return at + (offset - self.starts[i] if copied else 0)


def write_out(source: str) -> WrittenOut | None:
    """Expands parametric rules; None: there are none.

    Raises:
        PatternError: a parameter or condition cannot be read, or a rule lacks a parameter or has a useless one.
        LimitError: ``grammar-size``: there would be more than 20,000 rules.
    """
    if "::" not in source and "%if" not in source:
        return None
    found = tokens(source)
    if not any(token.text in ("::", "%if") for token in found):
        return None
    return _Writer(source, statements(source, found)).run()


class _Writer:
    def __init__(self, source: str, given: list[Statement]) -> None:
        self.source = source
        self.statements = given
        self.rules: dict[str, tuple[Statement, list[_Alternative]]] = {}  # those with a parameter
        self.names = {token.text for statement in given for token in statement.tokens if token.kind == "name"}
        self.instances: dict[tuple[str, int], str] = {}
        self.work: list[tuple[str, int]] = []
        self.out = WrittenOut()
        self.parts: list[str] = []
        self.size = 0

    def fail(self, message: str, start: int, end: int) -> NoReturn:
        raise PatternError(message, code="lark-syntax", source=self.source, span=(start, max(end, start + 1)))

    def run(self) -> WrittenOut:
        heads = {s.name.text: s for s in self.statements if s.name is not None and self.parametric(s)}
        plain: list[tuple[Statement, list[_Alternative]]] = []
        for statement in self.statements:
            alternatives = self.alternatives(statement, heads)
            if statement.name is not None and statement.name.text in heads:
                self.rules[statement.name.text] = statement, alternatives
            else:
                plain.append((statement, alternatives))
        for statement, alternatives in plain:
            self.plain(statement, alternatives)
        while self.work:
            self.instance(*self.work.pop())
        self.out.text = "".join(self.parts)
        return self.out

    # -- reading
    def parametric(self, statement: Statement) -> bool:
        """Whether the head of a rule is ``name::_``."""
        head = statement.tokens[: statement.colon]
        at = next((i for i, token in enumerate(head) if token.text == "::"), None)
        if at is None:
            return False
        if at + 1 >= len(head) or head[at + 1].text != "_":
            self.fail("define a parametric rule as name::_", *head[at].span)
        for token in head[at + 2 :]:
            if token.kind == "name" and token.text in _NO_ATTRIBUTES:
                self.fail(f"a parametric rule cannot have {token.text!r}; put it into a rule of its own", *token.span)
        return True

    def alternatives(self, statement: Statement, heads: dict[str, Statement]) -> list[_Alternative]:
        """The alternatives of a definition, with their parametric parts."""
        found: list[_Alternative] = []
        if statement.name is None or not statement.body:
            return found
        own = statement.name.text in heads
        body = statement.body
        current = _Alternative(body[0].start, body[0].start)
        depth, i, needed = 0, 0, False
        while i < len(body):
            token = body[i]
            i += 1
            if token.kind == "mark" and token.text in "([{)]}":
                depth += 1 if token.text in "([{" else -1
            if token.text == "|" and not depth:
                found.append(current)
                current = _Alternative(token.end, token.end)
                continue
            if current.condition is not None:
                self.fail("%if must be at the end of an alternative", *token.span)
            current.end = token.end
            if token.text == "%if":
                if depth:
                    self.fail("%if must be at the end of an alternative, outside brackets", *token.span)
                self.not_in_terminal(statement, token)
                reader = _Expressions(self.source, token.end)
                current.end, current.condition = token.start, reader.condition()
                current.tests = reader.tests
                needed = True
            elif token.kind == "name" and i < len(body) and body[i].text == "::":
                self.not_in_terminal(statement, token)
                reader = _Expressions(self.source, body[i].end)
                self.reference(token, heads, reader, current, own)
                current.end = reader.at
                needed = needed or current.references[-1].own
            elif token.kind == "name" and token.text in heads:
                self.fail(f"the rule {token.text} needs a parameter, e.g. {token.text}::0", *token.span)
            else:
                continue
            while i < len(body) and body[i].start < reader.at:
                i += 1
        found.append(current)
        if own and not needed:
            self.fail(f"the rule {statement.name.text} has a parameter that it does not use", *statement.name.span)
        return found

    def not_in_terminal(self, statement: Statement, token: Token) -> None:
        if statement.defines_terminal:
            self.fail("terminals have no parameters and no %if; define a rule, with a name in lower case", *token.span)

    def reference(
        self, token: Token, heads: dict[str, Statement], reader: _Expressions, current: _Alternative, own: bool
    ) -> None:
        if token.text not in heads:
            self.fail(f"the rule {token.text} has no parameter; define it as {token.text}::_", *token.span)
        value, uses = reader.value()
        if uses and not own:
            self.fail(
                f"the rule around {token.text} has no parameter of its own; pass a number, e.g. {token.text}::0",
                *token.span,
            )
        current.references.append(_Reference(token.text, value, uses, token.start, reader.at))

    # -- writing
    def copy(self, start: int, end: int) -> None:
        self.put(self.source[start:end], start, True)

    def put(self, text: str, place: int, copied: bool = False) -> None:
        if text:
            spend(_PIECE + len(text) // 4)
            self.out.starts.append(self.size)
            self.out.places.append((place, copied))
            self.parts.append(text)
            self.size += len(text)

    def plain(self, statement: Statement, alternatives: list[_Alternative]) -> None:
        """A statement without parameter of its own."""
        at, end = statement.tokens[0].start, statement.tokens[-1].end
        for alternative in alternatives:
            if alternative.condition is not None:
                assert statement.name is not None
                self.fail("%if needs a parameter: define the rule as name::_", *statement.name.span)
            for one in alternative.references:
                self.copy(at, one.start)
                self.put(self.name(one.rule, one.value(0)), one.start)
                at = one.end
        self.copy(at, end)
        self.put("\n", end)

    def name(self, rule: str, value: int) -> str:
        """The name of a rule with a value. Writes the rule if it is new."""
        known = self.instances.get((rule, value))
        if known is None:
            if len(self.instances) >= _MOST or self.size > _LONGEST:
                raise LimitError(
                    f"the parametric rules of this grammar have more than {_MOST:,} reachable values, or expand to "
                    f"more than {_LONGEST:,} characters; use fewer bits, or bound what is counted with {{m,n}}",
                    code="grammar-size",
                )
            known = f"{rule}__{value:x}"
            while known in self.names:
                known += "_"
            self.names.add(known)
            self.instances[rule, value] = known
            self.work.append((rule, value))
        return known

    def instance(self, rule: str, value: int) -> None:
        statement, alternatives = self.rules[rule]
        spend(sum(20 + _TEST * alternative.tests for alternative in alternatives))
        assert statement.name is not None
        head = statement.tokens[: statement.colon]
        mark = next(i for i, token in enumerate(head) if token.text == "::")
        self.copy(head[0].start, statement.name.start)
        self.put(self.name(rule, value), statement.name.start)
        attributes = head[mark + 2 :]
        for at, token in enumerate(attributes):
            self.copy(*token.span)
            if token.text == "capture" and attributes[at + 1].text != "=":
                self.put(f'="{rule}"', token.end)
        self.put(" : ", statement.name.end)
        first = True
        for alternative in alternatives:
            if alternative.condition is not None and not alternative.condition(value):
                continue
            if not first:
                self.put(" | ", alternative.start)
            first = False
            at = alternative.start
            for one in alternative.references:
                self.copy(at, one.start)
                self.put(self.name(one.rule, one.value(value)), one.start)
                at = one.end
            if self.source[at : alternative.end].strip() != '""':  # leaving it out makes reading faster
                self.copy(at, alternative.end)
        self.put(_NOTHING + "\n" if first else "\n", statement.name.start)


class _Expressions:
    """Reads values and conditions from a place in the source."""

    def __init__(self, source: str, at: int) -> None:
        self.source, self.at = source, at
        self.tests = 0  # in the conditions read so far

    def fail(self, message: str, start: int) -> NoReturn:
        raise PatternError(message, code="lark-syntax", source=self.source, span=(start, max(self.at, start + 1)))

    def peek(self) -> tuple[str, int, int]:
        """The next word, and where it begins and ends."""
        found = _WORD.match(self.source, self.at)
        assert found is not None
        return found[1], found.start(1), found.end(1)

    def next(self) -> tuple[str, int]:
        word, start, self.at = self.peek()
        return word, start

    def expect(self, wanted: str) -> None:
        word, start = self.next()
        if word != wanted:
            self.fail(f"expected {wanted!r}, found {word!r}", start)

    def number(self, most: int = _ALL) -> int:
        word, start = self.next()
        if not word[:1].isdecimal():
            self.fail("expected a number, e.g. 3 or 0x1f", start)
        value = int(word, 16 if word[:2] == "0x" else 10) if len(word) <= 20 else most + 1
        if value > most:
            self.fail(f"the number {word[:20]} is too large; at most {most} is allowed", start)
        return value

    def bits(self) -> tuple[int, int]:
        """``_`` or ``[first:after the last]``: the first bit, and the number of bits."""
        word, start = self.next()
        if word == "_":
            return 0, 64
        if word != "[":
            self.fail("expected the bits of the parameter: '_' or '[first:end]'", start)
        low = self.number(63)
        self.expect(":")
        high = self.number(64)
        self.expect("]")
        if high <= low:
            self.fail(f"the end of the bits ({high}) must be above their start ({low})", start)
        return low, high - low

    def value(self) -> tuple[Value, bool]:
        """A value, and whether it is made from the parameter."""
        word, start, end = self.peek()
        if word[:1].isdecimal():
            constant = self.number()
            return (lambda _: constant), False
        self.at = end
        if word == "_":
            return (lambda p: p), True
        if word not in ("set_bit", "clear_bit", "bit_and", "bit_or", "incr", "decr"):
            self.fail(
                "expected a parameter: a number, _, set_bit(k), clear_bit(k), bit_and(n), bit_or(n), "
                "incr(_) or decr([x:y])",
                start,
            )
        self.expect("(")
        made: Value
        if word in ("incr", "decr"):
            made = _counted(word, *self.bits())
        else:
            number = self.number(63 if word.endswith("_bit") else _ALL)
            made = {
                "set_bit": lambda p: p | 1 << number,
                "clear_bit": lambda p: p & ~(1 << number),
                "bit_and": lambda p: p & number,
                "bit_or": lambda p: p | number,
            }[word]
        self.expect(")")
        return made, True

    def condition(self, depth: int = 0) -> Condition:
        word, start = self.next()
        self.tests += 1
        if depth > _DEEPEST:
            self.fail("these conditions are nested too deeply; define rules for parts of them", start)
        if word == "true":
            if self.peek()[0] == "(":
                self.expect("(")
                self.expect(")")
            return lambda _: True
        self.expect("(")
        made = self.made(word, start, depth)
        self.expect(")")
        return made

    def made(self, word: str, start: int, depth: int) -> Condition:
        """The condition of this name, whose arguments follow."""
        if word in ("and", "or"):
            one = self.condition(depth + 1)
            self.expect(",")
            other = self.condition(depth + 1)
            return (lambda p: one(p) and other(p)) if word == "and" else (lambda p: one(p) or other(p))
        if word == "not":
            inner = self.condition(depth + 1)
            return lambda p: not inner(p)
        if word in ("bit_clear", "bit_set"):
            bit, wanted = self.number(63), int(word == "bit_set")
            return lambda p: (p >> bit & 1) == wanted
        counted = word.startswith("bit_count_")
        compared = _COMPARED.get(word.removeprefix("bit_count_"))
        if compared is None and word not in ("is_ones", "is_zeros"):
            self.fail(
                f"there is no condition {word!r}; there are true, bit_clear, bit_set, is_ones, is_zeros, eq, ne, "
                "lt, le, gt, ge, bit_count_eq …, and, or, not",
                start,
            )
        low, length = self.bits()
        mask = (1 << length) - 1
        if compared is None:
            wanted = mask if word == "is_ones" else 0
            return lambda p: p >> low & mask == wanted
        self.expect(",")
        bound, test = self.number(), compared
        if counted:
            return lambda p: test((p >> low & mask).bit_count(), bound)
        return lambda p: test(p >> low & mask, bound)


def _counted(word: str, low: int, length: int) -> Value:
    """A field of bits that counts up or down, and stops at its last value."""
    mask = (1 << length) - 1
    if word == "incr":
        return lambda p: p if p >> low & mask == mask else p + (1 << low)
    return lambda p: p if p >> low & mask == 0 else p - (1 << low)
