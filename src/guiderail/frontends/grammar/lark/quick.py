"""Reads a grammar in Lark's notation into rules and terminals at once, where it is of the usual form.

What Lark's own chain makes of a text (tokens, trees, definitions, trees without literals, trees without templates) is
made here in one pass, without importing Lark: the same rules and terminals, with the same names in the same order.
Whatever is not of the usual form is left to Lark and what is around it (:mod:`.reader`), which also have the messages:
all faults, imports, ``%override`` and ``%extend``, and what llguidance adds.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable
from itertools import accumulate
from typing import NamedTuple

from guiderail.errors import GuiderailError
from guiderail.frontends.grammar.lark.dialect import UNBOUNDED
from guiderail.frontends.grammar.lark.patterns import (
    AnonymousNames,
    Definition,
    Pattern,
    RegexPattern,
    TextPattern,
    joined,
    unescaped,
)
from guiderail.frontends.grammar.syntax import Choice, Expression, Name, Repetition, Rule, Sequence, Span, Text
from guiderail.frontends.regex import regex

__all__ = ["QuickReading", "quick"]

_DEEPEST = 40  # parentheses in each other
_TOKEN = re.compile(
    r"""((?:[ \t]+|//[^\n]*|\#[^\n]*|\\[ ]*\n)*)
    ( \n(?:[ \t\n]+|//[^\n]*|\#[^\n]*|\\[ ]*\n)*
    | [_A-Za-z][_A-Za-z0-9]*
    | "(?:\\[^\n]|[^"\\\n])*"i?
    | /(?![/*])(?:\\.|[^/\\])*/[imslux]*
    | [+-]?[0-9]+
    | %[a-z]+ | -> | \.\. | .
    )""",
    re.VERBOSE | re.DOTALL,
)
_RULE = re.compile(r"_?[a-z][_a-z0-9]*")
_TERMINAL = re.compile(r"_?[A-Z][_A-Z0-9]*")
_NUMBER = re.compile(r"[+-]?[0-9]+")
_BOUNDS: dict[str, tuple[int, int | None]] = {"?": (0, 1), "*": (0, None), "+": (1, None)}
_SUFFIX = {"?": "?", "*": "*", "+": "+"}
_WORD = frozenset("_abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_LOWER = frozenset("_abcdefghijklmnopqrstuvwxyz")


class QuickReading(NamedTuple):
    """What a grammar consists of.

    Attributes:
        rules: by name, templates in use among them.
        names: of all rules as the text defines them, templates among them.
        definitions: terminals, those of literals among them.
        ignore: terminals that are ignored.
        mentioned: names of terminals that the text mentions outside of their own heads.
        named: names of the terminals that the text defines.
    """

    rules: dict[str, Rule]
    names: set[str]
    definitions: list[Definition]
    ignore: list[str]
    mentioned: set[str]
    named: list[str]


class _Unusual(Exception):
    """It is not for this module to read the text."""


def quick(text: str) -> QuickReading | None:
    """Reads a grammar; None: it is of another form, or faulty."""
    if "\r" in text or "\f" in text or str(UNBOUNDED) in text:
        return None
    try:
        return _Reader(text).run()
    except (_Unusual, GuiderailError, ValueError, SyntaxError, IndexError):
        return None


class _Head(NamedTuple):
    """A definition: its name, and where its body begins and ends."""

    name: str
    begin: int
    end: int
    parameters: tuple[str, ...] = ()
    priority: int = 0


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        found = _TOKEN.findall(text + "\n")
        self.tokens = [token for _, token in found]
        ends = accumulate(len(skipped) + len(token) for skipped, token in found)
        self.starts = [end - len(token) for end, token in zip(ends, self.tokens, strict=True)]
        self.rules: dict[str, _Head] = {}
        self.terminals: dict[str, _Head | None] = {}  # None: only declared
        self.ignore: list[str] = []
        self.places: dict[str, Span] = {}
        self.mentioned: set[str] = set()
        self.patterns: dict[str, Pattern] = {}  # of terminals
        self.open: list[str] = []  # terminals whose patterns are being made
        self.literals: dict[str, Pattern] = {}
        self.instances: dict[str, tuple[_Head, dict[str, str]]] = {}
        self.order: deque[str] = deque()  # of those whose bodies are still to be made

    def run(self) -> QuickReading:
        for begin, end in self.lines():
            self.statement(begin, end)
        if not self.rules:
            raise _Unusual
        definitions: list[Definition] = []
        for name, head in self.terminals.items():
            if head is not None:
                definitions.append(Definition(name, self.pattern(name), head.priority))
        named = [name for name in self.terminals if name in self.places]
        if not self.terminals.keys() >= set(self.ignore):
            raise _Unusual
        rules = self.read_rules(AnonymousNames(definitions))
        names = set(self.rules)
        return QuickReading(rules, names, definitions, self.ignore, self.mentioned, named)

    # -- statements
    def lines(self) -> Iterable[tuple[int, int]]:
        """Where statements begin and end: at line breaks, unless ``|`` stands behind them."""
        tokens = self.tokens
        breaks = [i for i, token in enumerate(tokens) if token[0] == "\n"]
        begin = 0
        for at in [*breaks, len(tokens)]:
            if tokens[at + 1 : at + 2] == ["|"]:
                continue
            if at > begin:
                yield begin, at
            begin = at + 1

    def statement(self, i: int, end: int) -> None:
        tokens = self.tokens
        word = tokens[i]
        if word == "%ignore":
            return self.ignored(i + 1, end)
        if word == "%declare":
            for name in tokens[i + 1 : end]:
                if not _TERMINAL.fullmatch(name):
                    raise _Unusual
                self.mentioned.add(name)
                self.define(name)
                self.terminals[name] = None
            if i + 1 == end:
                raise _Unusual
            return None
        modifiers = ""
        while word in ("?", "!"):
            modifiers += word
            if self.starts[i] + 1 != self.starts[i + 1]:
                raise _Unusual
            i += 1
            word = tokens[i]
        place = self.starts[i], self.starts[i] + len(word)
        i += 1
        parameters: list[str] = []
        is_rule = _RULE.fullmatch(word) is not None
        if is_rule:
            if modifiers not in ("", "?", "!", "?!", "!?") or ("?" in modifiers and word[0] == "_"):
                raise _Unusual
            if tokens[i] == "{":
                i = self.parameters(i + 1, end, parameters)
        elif modifiers or not _TERMINAL.fullmatch(word):
            raise _Unusual
        priority = 0
        if tokens[i] == ".":
            priority = self.number(i + 1, end)
            i += 2
        if i >= end or tokens[i] != ":":
            raise _Unusual
        self.define(word)
        self.places[word] = place
        head = _Head(word, i + 1, end, tuple(parameters), priority)
        if is_rule:
            self.rules[word] = head
        else:
            self.terminals[word] = head
        return None

    def define(self, name: str) -> None:
        if name in self.rules or name in self.terminals or name.startswith("__"):
            raise _Unusual

    def parameters(self, i: int, end: int, found: list[str]) -> int:
        """The names of parameters up to ``}``; the index behind it."""
        tokens = self.tokens
        while i + 1 < end:
            if not _RULE.fullmatch(tokens[i]) or tokens[i] in found:
                raise _Unusual
            found.append(tokens[i])
            i += 2
            if tokens[i - 1] == "}":
                return i
            if tokens[i - 1] != ",":
                break
        raise _Unusual

    def number(self, i: int, end: int) -> int:
        if i >= end or not _NUMBER.fullmatch(self.tokens[i]):
            raise _Unusual
        return int(self.tokens[i])

    def ignored(self, begin: int, end: int) -> None:
        if end - begin == 1 and _TERMINAL.fullmatch(self.tokens[begin]):
            self.mentioned.add(self.tokens[begin])
            self.ignore.append(self.tokens[begin])
            return
        name = f"__IGNORE_{len(self.ignore)}"
        self.ignore.append(name)
        self.terminals[name] = _Head(name, begin, end)

    # -- terminals
    def literal(self, token: str) -> Pattern:
        """The pattern of a string or a regular expression."""
        known = self.literals.get(token)
        if known is not None:
            return known
        cut = token.rindex(token[0])
        flags = token[cut + 1 :]
        value = unescaped(token[1:cut])
        if not value or cut == 0:
            raise _Unusual
        found: Pattern
        if token[0] == '"':
            found = TextPattern(value.replace("\\\\", "\\"), flags, token)
        else:
            if "\n" in token and "x" not in flags:
                raise _Unusual
            regex(value, flags=flags)  # it is sound by itself
            found = RegexPattern(value, flags, token)
        self.literals[token] = found
        return found

    def span(self, first: str, last: str) -> Pattern:
        """The pattern of ``"a".."z"``."""
        if first[-1] != '"' or last[-1] != '"' or last[0] != '"':
            raise _Unusual
        low, high = first[1:-1], last[1:-1]
        if not len(unescaped(low)) == len(unescaped(high)) == 1 or unescaped(low) > unescaped(high):
            raise _Unusual
        return RegexPattern(f"[{low}-{high}]")

    def pattern(self, name: str) -> Pattern:
        """The pattern of a terminal."""
        known = self.patterns.get(name)
        if known is not None:
            return known
        head = self.terminals.get(name)
        if head is None or name in self.open or len(self.open) > _DEEPEST:
            raise _Unusual
        self.open.append(name)
        found, i = self.alternatives(head.begin, head.end, 0)
        self.open.pop()
        if i != head.end or found.value == "":
            raise _Unusual
        self.patterns[name] = found
        return found

    def alternatives(self, i: int, end: int, depth: int) -> tuple[Pattern, int]:
        """Alternatives of patterns up to a closing bracket or the end; the index there."""
        if depth > _DEEPEST:
            raise _Unusual
        tokens, starts = self.tokens, self.starts
        ways: list[Pattern] = []
        parts: list[Pattern] = []
        while True:
            token = tokens[i] if i < end else ")"
            first = token[0]
            if token in (")", "]", "|") or first == "\n":
                if first == "\n":
                    i += 1
                if not parts:
                    ways.append(TextPattern(""))
                else:
                    one = len(parts) == 1
                    ways.append(parts[0] if one else RegexPattern("".join(part.to_regexp() for part in parts)))
                parts = []
                if token in (")", "]"):
                    return joined(ways), i
                i += 1
                continue
            i += 1
            item: Pattern
            if token == "(" or token == "[":
                item, i = self.alternatives(i, end, depth + 1)
                if i >= end or tokens[i] != (")" if token == "(" else "]"):
                    raise _Unusual
                i += 1
                if token == "[":
                    item = RegexPattern(f"(?:{item.to_regexp()})?", item.flags)
            elif first == '"' and i < end and tokens[i] == "..":
                item = self.span(token, tokens[i + 1] if i + 1 < end else "")
                i += 2
            elif first == '"' or (first == "/" and len(token) > 1):
                item = self.literal(token)
            elif _TERMINAL.fullmatch(token):
                self.mentioned.add(token)
                item = self.pattern(token)
            else:
                raise _Unusual
            if i < end:
                operator = tokens[i]
                if operator in _SUFFIX:
                    if operator == "?" and self.text[starts[i] + 1 : starts[i] + 2] in _LOWER:
                        raise _Unusual
                    item = RegexPattern(f"(?:{item.to_regexp()}){operator}", item.flags)
                    i += 1
                elif operator == "~":
                    low = high = self.number(i + 1, end)
                    many = f"{{{low}}}"
                    i += 2
                    if i < end and tokens[i] == "..":
                        high = self.number(i + 1, end)
                        many = f"{{{low},{high}}}"
                        i += 2
                    if low > high or low < 0:
                        raise _Unusual
                    item = RegexPattern(f"(?:{item.to_regexp()}){many}", item.flags)
            parts.append(item)

    # -- rules
    def read_rules(self, anonymous: AnonymousNames) -> dict[str, Rule]:
        terminals: dict[str, str] = {}  # by literals as they are written
        used: set[str] = set()
        found: dict[str, Rule] = {}
        known = self.rules.keys() | self.terminals.keys()

        def read(name: str, head: _Head, names: dict[str, str] | None) -> Expression:
            while True:
                body = _Body(self, head, names, terminals)
                expression, i = body.alternatives(head.begin, head.end, 0)
                if i != head.end:
                    raise _Unusual
                if not body.fresh or (names is None and head.parameters):
                    break
                for _, _, written, pattern in sorted(body.fresh, key=lambda one: one[:2]):
                    if written not in terminals:
                        terminals[written] = anonymous(pattern)
            if names is None:
                used.update(body.names.keys() - set(head.parameters))
                if head.parameters:
                    if not known.isdisjoint(head.parameters):
                        raise _Unusual
                    return expression
            for _, _, instance, of, arguments in sorted(body.calls, key=lambda one: one[:2]):
                if instance not in self.instances:
                    template = self.rules[of]
                    if len(instance) > 10_000:
                        raise _Unusual
                    self.instances[instance] = template, dict(zip(template.parameters, arguments, strict=True))
                    self.order.append(instance)
            return expression

        for name, head in self.rules.items():
            body = read(name, head, None)
            if not head.parameters:
                found[name] = Rule(name, body, self.places[name])
        if not used <= known:
            raise _Unusual
        while self.order:  # more are added as they are met
            name = self.order.popleft()
            head, names = self.instances[name]
            found[name] = Rule(name, read(name, head, names))
        self.mentioned |= used
        return found


class _Body:
    """Reads the body of a rule.

    Attributes:
        names: names of rules and terminals in it.
        fresh: literals without a name so far: minus how deep they lie in Lark's tree, where, and what they are. In this
            order Lark numbers them.
        calls: templates in use, in the same way.
    """

    def __init__(self, reader: _Reader, head: _Head, given: dict[str, str] | None, terminals: dict[str, str]) -> None:
        self.reader, self.given, self.terminals = reader, given or {}, terminals
        self.spans = given is None
        self.names: dict[str, Name] = {}
        self.literals: dict[str, Name] = {}
        self.fresh: list[tuple[int, int, str, Pattern]] = []
        self.calls: list[tuple[int, int, str, str, list[str]]] = []

    def name(self, i: int) -> Name:
        word = self.reader.tokens[i]
        if not (_RULE.fullmatch(word) or _TERMINAL.fullmatch(word)):
            raise _Unusual
        head = self.reader.rules.get(word)
        if head is not None and head.parameters:
            raise _Unusual
        start = self.reader.starts[i]
        made = Name(self.given.get(word, word), (start, start + len(word)) if self.spans else None)
        self.names[word] = made
        return made

    def literal(self, i: int, end: int, depth: int) -> tuple[Name, int]:
        """The terminal of a literal or a range; the index behind it."""
        tokens = self.reader.tokens
        written = tokens[i]
        ranged = written[0] == '"' and i + 1 < end and tokens[i + 1] == ".."
        if ranged:
            written = f"{written}..{tokens[i + 2]}"
        known = self.literals.get(written)
        if known is None:
            name = self.terminals.get(written)
            if name is None:
                reader = self.reader
                pattern = reader.span(tokens[i], tokens[i + 2]) if ranged else reader.literal(written)
                self.fresh.append((-depth, i, written, pattern))
                name = ""
            known = self.literals[written] = Name(name)
        return known, i + (3 if ranged else 1)

    def alternatives(self, i: int, end: int, depth: int) -> tuple[Expression, int]:
        """Alternatives up to a closing bracket or the end; the index there.

        ``depth``: of their node in Lark's tree.
        """
        if depth > 5 * _DEEPEST:
            raise _Unusual
        reader, names = self.reader, self.names
        tokens = reader.tokens
        ways: list[Expression] = []
        parts: list[Expression] = []
        marks = len(self.fresh), len(self.calls)  # of the alternative
        while True:
            if i >= end:
                token = ")"
                first = token
            else:
                token = tokens[i]
                first = token[0]
            item: Expression
            before = len(self.fresh), len(self.calls)
            if first in _WORD:
                if i + 1 < end and tokens[i + 1] == "{":
                    item, i = self.template_use(token, i, end, depth + 3)
                else:
                    known = names.get(token)
                    item = self.name(i) if known is None else known
                    i += 1
            elif first == '"' or (first == "/" and len(token) > 1):
                item, i = self.literal(i, end, depth + 3)
            elif first == "(":
                item, i = self.alternatives(i + 1, end, depth + 2)
                if i >= end or tokens[i] != ")":
                    raise _Unusual
                i += 1
            elif first == "[":
                item, i = self.alternatives(i + 1, end, depth + 3)
                if i >= end or tokens[i] != "]":
                    raise _Unusual
                item = Repetition(item, 0, 1)
                i += 1
            elif token == "->":
                if depth or i + 1 >= end or not _RULE.fullmatch(tokens[i + 1]):
                    raise _Unusual  # within brackets Lark takes it for a rule's name
                self.deeper(marks)
                i += 2
                if i < end and tokens[i] not in ("|", ")", "]") and tokens[i][0] != "\n":
                    raise _Unusual
                continue
            elif token in (")", "]", "|") or first == "\n":
                if first == "\n":
                    i += 1
                ways.append(parts[0] if len(parts) == 1 else Sequence(tuple(parts)) if parts else Text(""))
                if token in (")", "]"):
                    return (ways[0] if len(ways) == 1 else Choice(tuple(ways))), i
                parts = []
                marks = len(self.fresh), len(self.calls)
                i += 1
                continue
            else:
                raise _Unusual
            if i < end:
                operator = tokens[i]
                if operator in _BOUNDS:
                    if operator == "?" and reader.text[reader.starts[i] + 1] in _LOWER:
                        raise _Unusual
                    self.deeper(before)
                    item = Repetition(item, *_BOUNDS[operator])
                    i += 1
                elif operator == "~":
                    low = high = reader.number(i + 1, end)
                    i += 2
                    if i < end and tokens[i] == "..":
                        high = reader.number(i + 1, end)
                        i += 2
                    if high < low or low < 0:
                        raise _Unusual
                    self.deeper(before)
                    item = Repetition(item, low, high)
            parts.append(item)

    def deeper(self, since: tuple[int, int]) -> None:
        """What was found since then lies one level deeper."""
        fresh, calls = self.fresh, self.calls
        for k in range(since[0], len(fresh)):
            fresh[k] = (fresh[k][0] - 1, *fresh[k][1:])
        for k in range(since[1], len(calls)):
            calls[k] = (calls[k][0] - 1, *calls[k][1:])

    def template_use(self, of: str, i: int, end: int, depth: int) -> tuple[Name, int]:
        """A template in use, whose name is the token at ``i``; the index behind it. ``depth``: of the node in Lark's
        tree."""
        reader, tokens = self.reader, self.reader.tokens
        template = reader.rules.get(of)
        if template is None or of in self.given or not template.parameters:
            raise _Unusual
        begin = i
        i += 2
        arguments: list[str] = []
        while True:
            if i >= end:
                raise _Unusual
            token = tokens[i]
            first = token[0]
            if first in _WORD:
                if i + 1 < end and tokens[i + 1] == "{":
                    name, i = self.template_use(token, i, end, depth + 2)
                else:
                    name = self.names.get(token) or self.name(i)
                    i += 1
            elif first == '"' or (first == "/" and len(token) > 1):
                name, i = self.literal(i, end, depth + 2)
            else:
                raise _Unusual
            arguments.append(name.name)
            if i >= end or tokens[i] not in (",", "}"):
                raise _Unusual
            i += 1
            if tokens[i - 1] == "}":
                break
        if len(arguments) != len(template.parameters):
            raise _Unusual
        instance = f"{of}{{{','.join(arguments)}}}"
        self.calls.append((-depth, begin, instance, of, arguments))
        return Name(instance), i
